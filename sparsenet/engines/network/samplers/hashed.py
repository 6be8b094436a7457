"""Sample hard negatives from a hash index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from sparsenet.engines.network.samplers.sampler import Sampler, Samples, State, uniform
from sparsenet.index.hashing import LSHConfig, LSHIndex, best_index, first_guess, most_memory
from sparsenet.index.hashing.lsh_config import Family
from sparsenet.kernels.types import F32, I32, I64

FAMILIES = get_args(Family)
#: Number of points to measure the recall of an index, and minimum to choose a hash family.
MIN_QUERIES = 16


class LSHSampler(Sampler):
    """Hard negatives from a hash index, plus random labels, so that every label can be drawn.

    `update` records changed rows. They are hashed again when the recall of the index falls below `recall_target` times
    its recall right after the last re-hash. The recall is measured on up to 16 points of the latest sample: it is the
    share of their exact top 5 among the 1 % of labels that the index ranks first. The first measurement comes after
    `check_every` updates. The interval then doubles, up to 16-fold, while the index is good; otherwise it is halved,
    down to `check_every`.

    Parameters
    ----------
    config : LSHConfig, optional
        Settings of the index. By default, the family and the number of tables with the best recall are chosen on the
        current labels and points. They are chosen at the first check and again at the first, second, fourth, eighth,
        ... re-hash. With fewer than 16 points in a batch, the initial settings stay.
    hashed : float
        Fraction of the sample that comes from the index.
    n_queries : int
        Maximum number of points of a batch, evenly spaced, that query the index. It bounds the cost of a sample.
    recall_target : float
    check_every : int
        See above.
    threads : int
        Threads for the index.
    seed : int
        Seed of the hash functions without a `config`.

    Attributes
    ----------
    in_use : LSHConfig or None
        The current settings of the index.
    found : dict
        The recall of each family that was tried; empty with a `config`.

    Examples
    --------
    The label vectors are the axes; a hidden vector finds the label along its axis, the rest is random:

    >>> weight, bias = np.eye(64, dtype=np.float32), np.zeros(64, np.float32)
    >>> sampler = LSHSampler()
    >>> sampler.prepare(64, np.ones(64, np.int64))
    >>> sampler.update(weight, bias, np.arange(64))
    >>> sample = sampler.sample(weight[5:6], 8, np.random.default_rng(0))
    >>> sample.size, 5 in sample
    (8, True)
    """

    def __init__(
        self,
        config: LSHConfig | None = None,
        *,
        hashed: float = 0.5,
        n_queries: int = 64,
        recall_target: float = 0.9,
        check_every: int = 8,
        threads: int = 1,
        seed: int = 0,
    ) -> None:
        for name, value in (("hashed", hashed), ("recall_target", recall_target)):
            if not 0 <= value <= 1:
                raise ValueError(f"{name} must be from 0 to 1, got {value!r}")
        for name, value in (("n_queries", n_queries), ("check_every", check_every), ("threads", threads)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value!r}")
        if seed < 0:
            raise ValueError(f"seed must be at least 0, got {seed!r}")
        self.config, self.hashed, self.n_queries = config, hashed, n_queries
        self.recall_target, self.check_every, self.threads, self.seed = recall_target, check_every, threads, seed
        self.found: dict[str, float] = {}
        self._index: LSHIndex | None = None
        self._latest = np.empty(0, np.int32)

    def prepare(self, n_labels: int, label_counts: I64) -> None:
        """See `Sampler`."""
        self.n_labels = n_labels
        self._index, self.found = None, {}
        self._queries: F32 | None = None
        self._limit, self._is_shared = 0, True
        self._stale = np.zeros(n_labels, bool)
        self.n_rehashes = 0
        self.recall = self._fresh_recall = float("nan")
        self._interval = self._countdown = self.check_every

    def sample(self, hidden: F32, n_negatives: int, rng: np.random.Generator) -> I32:
        """See `Sampler`; draws at random until the first `update` provides the weights."""
        n_negatives = min(n_negatives, self.n_labels)
        limit = round(self.hashed * n_negatives)
        self._queries, self._limit, self._is_shared = self._query_points(hidden), limit, True
        found = np.empty(0, np.int32)
        if self._index is not None and limit and len(self._queries):
            found = self._index.query(np.ascontiguousarray(self._queries), limit)[0]
        self._latest = np.sort(found)
        return np.sort(np.concatenate((self._latest, self._random_labels(self._latest, n_negatives, rng))))

    def sample_each(self, hidden: F32, n_negatives: int, rng: np.random.Generator) -> Samples:
        """See `Sampler`."""
        n_negatives = min(n_negatives, self.n_labels)
        limit = round(self.hashed * n_negatives)
        self._queries, self._limit, self._is_shared = self._query_points(hidden), limit, False
        self._latest = np.empty(0, np.int32)
        found = [self._latest] * len(hidden)
        if self._index is not None and limit and len(hidden):
            candidates = self._index.query_each(hidden, limit)
            found = [np.sort(ids) for ids in np.split(candidates.ids, candidates.indptr[1:-1])]
        ids = [np.concatenate((hashed, self._random_labels(hashed, n_negatives, rng))) for hashed in found]
        shares = [(n_negatives - len(hashed)) / max(self.n_labels - len(hashed), 1) for hashed in found]
        expected = [
            np.repeat([1, share], [len(h), n_negatives - len(h)]) for h, share in zip(found, shares, strict=True)
        ]
        return Samples(
            np.arange(len(hidden) + 1, dtype=np.int64) * n_negatives,
            np.concatenate([*ids, np.empty(0, np.int32)]),
            np.concatenate([*expected, np.empty(0)]).astype(np.float32),
        )

    def _query_points(self, hidden: F32) -> F32:
        return hidden[:: max(-(-len(hidden) // self.n_queries), 1)]

    def _random_labels(self, found: I32, n_negatives: int, rng: np.random.Generator) -> I32:
        """Draw random labels, ascending, that fill up a sample and are not in `found`."""
        others = uniform(self.n_labels - found.size, n_negatives - found.size, rng)
        # Map positions among the remaining labels to label ids.
        skipped = np.searchsorted(found - np.arange(found.size), others, side="right")
        return (others + skipped).astype(np.int32)

    def __repr__(self) -> str:
        """Name the sampler and its settings, except the threads, which do not change the result."""
        names = ("config", "hashed", "n_queries", "recall_target", "check_every", "seed")
        return f"LSHSampler({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    def expected(self, ids: I32, n_negatives: int) -> F32:
        """See `Sampler`: conditional on the hidden vectors of the latest `sample`.

        Labels from the index have probability 1; the other labels share the rest evenly. Weighting negatives by the
        reciprocal gives an unbiased estimate of the sum over all labels. It is *not* the frequency of a label over
        batches.
        """
        n_others = self.n_labels - self._latest.size
        share = (min(n_negatives, self.n_labels) - self._latest.size) / max(n_others, 1)
        return np.where(np.isin(ids, self._latest), 1, share).astype(np.float32)

    def update(self, weight: F32, bias: F32, changed_rows: I32 | I64) -> None:
        """See `Sampler`; hashes all rows at the first call, then the changed rows by the rule above."""
        if self._index is None:
            self._index = LSHIndex(self._first_config(), len(weight), weight.shape[1], self.threads)
            self._index.rebuild(weight, bias)
            self._measure_fresh(weight, bias)
            return
        self._stale[changed_rows] = True
        self._countdown -= 1
        if self._countdown > 0 or self._queries is None:
            return
        self.recall = self._measure(weight, bias)
        may_choose = self.config is None and len(self._queries) >= MIN_QUERIES
        # Written so that a recall of NaN or 0 also counts as worse.
        is_worse = not self.recall > self.recall_target * self._fresh_recall
        if is_worse or (may_choose and not self.found):
            self.n_rehashes += 1
            if may_choose and (not self.found or self.n_rehashes.bit_count() == 1):  # rarely: it costs 5 re-hashes
                self._choose(weight, bias, self._queries)
            else:
                self._index.update(weight, bias, np.flatnonzero(self._stale))
            self._stale[:] = False
            self._interval = max(self._interval // 2, self.check_every)
            self._measure_fresh(weight, bias)
        else:
            self._interval = min(2 * self._interval, 16 * self.check_every)
        self._countdown = self._interval

    def measure_recall(self, hidden: F32, weight: F32, bias: F32, n_negatives: int, k: int = 5) -> float:
        """See `Sampler`: found by the index or by chance."""
        if len(hidden) == 0 or self.n_labels == 0:
            return float("nan")
        limit = round(self.hashed * min(n_negatives, self.n_labels))
        by_hash = 0.0
        if self._index is not None and limit:
            by_hash = self._index.recall(hidden, weight, bias, k=k, limit=limit, shared=True)
        by_chance = (min(n_negatives, self.n_labels) - limit) / max(self.n_labels - limit, 1)
        return by_hash + (1 - by_hash) * by_chance

    def memory(self, n_labels: int, width: int) -> int:
        """See `Sampler`."""
        own_memory = most_memory(n_labels, width, self.threads)
        return n_labels + (self.config.memory(n_labels, width, self.threads) if self.config else own_memory)

    def state(self) -> State:
        """See `Sampler`."""
        arrays: State = {
            "stale": self._stale,
            "recalls": np.array([self.recall, self._fresh_recall]),
            "counters": np.array([self._interval, self._countdown, self.n_rehashes]),
        }
        if self._index is None:
            return arrays
        if self.config is None:
            shares = [self.found.get(family, np.nan) for family in FAMILIES]
            config = self._index.config
            arrays |= {"chosen": np.array([FAMILIES.index(config.family), config.n_tables]), "found": np.array(shares)}
        return {**arrays, **{f"index.{name}": array for name, array in self._index.state().items()}}

    def restore(self, state: Mapping[str, NDArray[np.generic]]) -> None:
        """See `Sampler`; raises ValueError for an invalid state."""
        prefix = "index."
        saved = {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}
        is_chosen = bool(saved) and self.config is None
        names = {"stale", "recalls", "counters"} | ({"chosen", "found"} if is_chosen else set())
        if state.keys() - {prefix + name for name in saved} != names:
            raise ValueError(f"the state of {self!r} must have {', '.join(sorted(names))}, got {', '.join(state)}")
        recalls = _read(state, "recalls", 2, np.float64)
        interval, countdown, n_rehashes = _read(state, "counters", 3, np.int64)
        stale = state["stale"]
        if stale.dtype != bool or stale.shape != (self.n_labels,):
            raise ValueError(f"stale must be a boolean for each of {self.n_labels} labels")
        if not self.check_every <= interval <= 16 * self.check_every or countdown > interval or n_rehashes < 0:
            raise ValueError(f"counters must be those of check_every={self.check_every}, got {state['counters']}")
        config, found = self._first_config(), {}
        if is_chosen:
            family, n_tables = _read(state, "chosen", 2, np.int64)
            if not 0 <= family < len(FAMILIES) or saved["codes"].shape != (n_tables, self.n_labels):
                raise ValueError(f"chosen must be a family and its number of tables, got {state['chosen']}")
            config = LSHConfig.for_size(self.n_labels, FAMILIES[family], n_tables=n_tables, seed=self.seed)
            shares = zip(FAMILIES, _read(state, "found", len(FAMILIES), np.float64), strict=True)
            found = {name: share for name, share in shares if not np.isnan(share)}
        index = None
        if saved:
            index = LSHIndex(config, self.n_labels, saved["center"].size - 1, self.threads)
            index.restore(saved)
        self._stale = stale.astype(bool)
        self.recall, self._fresh_recall = recalls
        self._interval, self._countdown, self.n_rehashes = interval, countdown, n_rehashes
        self._index, self.found = index, found

    @property
    def in_use(self) -> LSHConfig | None:
        """The current settings of the index; None before the index is built."""
        return None if self._index is None else self._index.config

    def _first_config(self) -> LSHConfig:
        return self.config or first_guess(self.n_labels, self.seed)

    def _choose(self, weight: F32, bias: F32, queries: F32) -> None:
        """Choose the hash family with the best recall and hash all labels by it."""
        self._index = None  # free its memory first
        points = np.ascontiguousarray(queries)

        def recall(index: LSHIndex) -> float:
            return index.recall(points, weight, bias, k=5, limit=max(self._limit, 1), shared=self._is_shared)

        self._index, self.found = best_index(weight, bias, queries, recall, seed=self.seed, threads=self.threads)

    def _measure_fresh(self, weight: F32, bias: F32) -> None:
        if self._queries is not None:
            self.recall = self._fresh_recall = self._measure(weight, bias)

    def _measure(self, weight: F32, bias: F32) -> float:
        assert self._index is not None
        assert self._queries is not None
        points = np.ascontiguousarray(self._queries[:MIN_QUERIES])
        return self._index.recall(points, weight, bias, k=5, limit=max(self.n_labels // 100, 5))


def _read(state: Mapping[str, NDArray[np.generic]], name: str, n: int, dtype: type) -> list[Any]:
    """Read `n` numbers from a saved state; floats must be shares, or NaN where nothing was measured."""
    array = state[name]
    if array.dtype != dtype or array.shape != (n,):
        raise ValueError(f"{name} must be {n} numbers of {np.dtype(dtype)}, got {array.dtype} of shape {array.shape}")
    numbers: list[Any] = array.tolist()
    if dtype is np.float64 and not all(np.isnan(share) or 0 <= share <= 1 for share in numbers):
        raise ValueError(f"{name} must be shares from 0 to 1, got {numbers}")
    return numbers
