"""The sampler that finds hard negatives by hashing."""

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
#: So many points tell whether an index got worse, and by which family labels are to be hashed.
FEWEST_QUERIES = 16


class LSHSampler(Sampler):
    """Hard negatives from a hash index, the rest at random, so that every label keeps a chance.

    Re-hashing: changed rows are noted by `update` and hashed when the recall of the index has fallen below
    `recall_target` times what it was right after the last re-hash. Recall is the share of the exact top 5 that are
    among the 1 % of labels the index, with its stale codes, puts first, on up to 16 points of the latest sample. It is
    measured after `check_every` updates; whenever that finds the index good, the interval doubles, up to 16-fold, and
    otherwise it is halved, down to `check_every`.

    Parameters
    ----------
    config : LSHConfig, optional
        Settings of the index. By default the family and the number of tables are those by which samples hold the most
        of the best labels, tried on the labels and points at hand: at the first check, and when the index is to be
        hashed anew for the first, second, fourth, eighth ... time. Of less than 16 points at a time nothing is told,
        and the first guess stays.
    hashed : float
        Share of the sample that comes from the index.
    n_queries : int
        At most so many points of a batch, evenly spaced, ask the index: their cost is what bounds a sample's.
    recall_target : float
    check_every : int
        See above.
    threads : int
        Threads for the index.
    seed : int
        Of the hash functions, where there is no `config`.

    Attributes
    ----------
    in_use : LSHConfig or None
        How labels are hashed now.
    found : dict
        By the families that were tried, the recall of each; empty with a `config`.

    Examples
    --------
    Labels whose vectors are the axes; a hidden vector finds the label that lies along it, the rest is random:

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
        """See `Sampler`; all at random until the first `update` has shown the weights."""
        n_negatives = min(n_negatives, self.n_labels)
        limit = round(self.hashed * n_negatives)
        self._queries, self._limit, self._is_shared = self._spaced(hidden), limit, True
        found = np.empty(0, np.int32)
        if self._index is not None and limit and len(self._queries):
            found = self._index.query(np.ascontiguousarray(self._queries), limit)[0]
        self._latest = np.sort(found)
        return np.sort(np.concatenate((self._latest, self._others(self._latest, n_negatives, rng))))

    def sample_each(self, hidden: F32, n_negatives: int, rng: np.random.Generator) -> Samples:
        """See `Sampler`."""
        n_negatives = min(n_negatives, self.n_labels)
        limit = round(self.hashed * n_negatives)
        self._queries, self._limit, self._is_shared = self._spaced(hidden), limit, False
        self._latest = np.empty(0, np.int32)
        found = [self._latest] * len(hidden)
        if self._index is not None and limit and len(hidden):
            candidates = self._index.query_each(hidden, limit)
            found = [np.sort(ids) for ids in np.split(candidates.ids, candidates.indptr[1:-1])]
        ids = [np.concatenate((hashed, self._others(hashed, n_negatives, rng))) for hashed in found]
        shares = [(n_negatives - len(hashed)) / max(self.n_labels - len(hashed), 1) for hashed in found]
        expected = [
            np.repeat([1, share], [len(h), n_negatives - len(h)]) for h, share in zip(found, shares, strict=True)
        ]
        return Samples(
            np.arange(len(hidden) + 1, dtype=np.int64) * n_negatives,
            np.concatenate([*ids, np.empty(0, np.int32)]),
            np.concatenate([*expected, np.empty(0)]).astype(np.float32),
        )

    def _spaced(self, hidden: F32) -> F32:
        return hidden[:: max(-(-len(hidden) // self.n_queries), 1)]

    def _others(self, found: I32, n_negatives: int, rng: np.random.Generator) -> I32:
        """Fill a sample up with labels that are not among those found, ascending."""
        others = uniform(self.n_labels - found.size, n_negatives - found.size, rng)
        # Numbers of the labels that were not found, turned into their ids.
        skipped = np.searchsorted(found - np.arange(found.size), others, side="right")
        return (others + skipped).astype(np.int32)

    def __repr__(self) -> str:
        """Name the sampler and its settings, but not the threads, which change nothing."""
        names = ("config", "hashed", "n_queries", "recall_target", "check_every", "seed")
        return f"LSHSampler({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    def expected(self, ids: I32, n_negatives: int) -> F32:
        """See `Sampler`: given the hidden vectors of the latest `sample`.

        Given those, what the index returns is certain, 1, and the others share the rest evenly. Weighting negatives by
        the reciprocal makes their sum an unbiased estimate of that over all labels. What it is *not* is a label's
        frequency over batches, of which nothing is assumed.
        """
        n_others = self.n_labels - self._latest.size
        share = (min(n_negatives, self.n_labels) - self._latest.size) / max(n_others, 1)
        return np.where(np.isin(ids, self._latest), 1, share).astype(np.float32)

    def update(self, weight: F32, bias: F32, changed_rows: I32 | I64) -> None:
        """See `Sampler`; hashes anew when the rule above says so, and everything at the first call."""
        if self._index is None:
            self._index = LSHIndex(self._first_config(), len(weight), weight.shape[1], self.threads)
            self._index.rebuild(weight, bias)
            self._remember_fresh(weight, bias)
            return
        self._stale[changed_rows] = True
        self._countdown -= 1
        if self._countdown > 0 or self._queries is None:
            return
        self.recall = self._measure(weight, bias)
        open_choice = self.config is None and len(self._queries) >= FEWEST_QUERIES
        # An index that finds nothing is no reason to leave it as it is.
        is_worse = not self.recall > self.recall_target * self._fresh_recall
        if is_worse or (open_choice and not self.found):
            self.n_rehashes += 1
            if open_choice and (not self.found or self.n_rehashes.bit_count() == 1):  # rarely: it costs five re-hashes
                self._choose(weight, bias, self._queries)
            else:
                self._index.update(weight, bias, np.flatnonzero(self._stale))
            self._stale[:] = False
            self._interval = max(self._interval // 2, self.check_every)
            self._remember_fresh(weight, bias)
        else:
            self._interval = min(2 * self._interval, 16 * self.check_every)
        self._countdown = self._interval

    def measure_recall(self, hidden: F32, weight: F32, bias: F32, n_negatives: int, k: int = 5) -> float:
        """See `Sampler`: found by the index, or by chance among the others."""
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
        tried = most_memory(n_labels, width, self.threads)
        return n_labels + (self.config.memory(n_labels, width, self.threads) if self.config else tried)

    def state(self) -> State:
        """See `Sampler`."""
        own: State = {
            "stale": self._stale,
            "recalls": np.array([self.recall, self._fresh_recall]),
            "counters": np.array([self._interval, self._countdown, self.n_rehashes]),
        }
        if self._index is None:
            return own
        if self.config is None:
            shares = [self.found.get(family, np.nan) for family in FAMILIES]
            now = self._index.config
            own |= {"chosen": np.array([FAMILIES.index(now.family), now.n_tables]), "found": np.array(shares)}
        return {**own, **{f"index.{name}": array for name, array in self._index.state().items()}}

    def restore(self, state: Mapping[str, NDArray[np.generic]]) -> None:
        """See `Sampler`; raises ValueError for a state that no such sampler returns."""
        prefix = "index."
        saved = {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}
        is_chosen = bool(saved) and self.config is None
        names = {"stale", "recalls", "counters"} | ({"chosen", "found"} if is_chosen else set())
        if state.keys() - {prefix + name for name in saved} != names:
            raise ValueError(f"the state of {self!r} must have {', '.join(sorted(names))}, got {', '.join(state)}")
        recalls, (interval, countdown, n_rehashes) = _shares(state, "recalls", 2), _numbers(state, "counters", 3)
        stale = state["stale"]
        if stale.dtype != bool or stale.shape != (self.n_labels,):
            raise ValueError(f"stale must be a boolean for each of {self.n_labels} labels")
        if not self.check_every <= interval <= 16 * self.check_every or countdown > interval or n_rehashes < 0:
            raise ValueError(f"counters must be those of check_every={self.check_every}, got {state['counters']}")
        config, found = self._first_config(), {}
        if is_chosen:
            family, n_tables = _numbers(state, "chosen", 2)
            if not 0 <= family < len(FAMILIES) or saved["codes"].shape != (n_tables, self.n_labels):
                raise ValueError(f"chosen must be a family and its number of tables, got {state['chosen']}")
            config = LSHConfig.for_size(self.n_labels, FAMILIES[family], n_tables=n_tables, seed=self.seed)
            shares = zip(FAMILIES, _shares(state, "found", len(FAMILIES)), strict=True)
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
        """How labels are hashed now, if there is an index."""
        return None if self._index is None else self._index.config

    def _first_config(self) -> LSHConfig:
        return self.config or first_guess(self.n_labels, self.seed)

    def _choose(self, weight: F32, bias: F32, queries: F32) -> None:
        """Hash all labels by the family by which samples would now hold the most of the best."""
        self._index = None  # room for those that are tried
        asked = np.ascontiguousarray(queries)

        def recall(index: LSHIndex) -> float:
            return index.recall(asked, weight, bias, k=5, limit=max(self._limit, 1), shared=self._is_shared)

        self._index, self.found = best_index(weight, bias, queries, recall, seed=self.seed, threads=self.threads)

    def _remember_fresh(self, weight: F32, bias: F32) -> None:
        if self._queries is not None:
            self.recall = self._fresh_recall = self._measure(weight, bias)

    def _measure(self, weight: F32, bias: F32) -> float:
        assert self._index is not None
        assert self._queries is not None
        few = np.ascontiguousarray(self._queries[:FEWEST_QUERIES])
        return self._index.recall(few, weight, bias, k=5, limit=max(self.n_labels // 100, 5))


def _numbers(state: Mapping[str, NDArray[np.generic]], name: str, n: int) -> list[int]:
    """Return `n` integers of a saved state."""
    return [int(number) for number in _checked(state, name, n, np.int64)]


def _shares(state: Mapping[str, NDArray[np.generic]], name: str, n: int) -> list[float]:
    """Return `n` shares of a saved state, NaN where nothing was measured."""
    shares = [float(share) for share in _checked(state, name, n, np.float64)]
    if not all(np.isnan(share) or 0 <= share <= 1 for share in shares):
        raise ValueError(f"{name} must be shares from 0 to 1, got {shares}")
    return shares


def _checked(state: Mapping[str, NDArray[np.generic]], name: str, n: int, dtype: type) -> list[Any]:
    array = state[name]
    if array.dtype != dtype or array.shape != (n,):
        raise ValueError(f"{name} must be {n} numbers of {np.dtype(dtype)}, got {array.dtype} of shape {array.shape}")
    return list(array)
