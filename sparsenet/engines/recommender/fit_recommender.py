"""Fit a recommender to a log of interactions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from sparsenet.core.machine import available_memory
from sparsenet.core.memory import in_words
from sparsenet.core.progress import parts_done
from sparsenet.core.rows import Rows
from sparsenet.engines.recommender.item_lists import (
    RelatedItems,
    powers,
    scaled,
    transitions,
    walk,
)
from sparsenet.engines.recommender.local_regression import regress
from sparsenet.engines.recommender.part_weights import (
    HeldOut,
    MeasuredParts,
    fit_weights_of_parts,
    prior_weights,
    with_best,
)
from sparsenet.engines.recommender.recommender_parts import RecommenderParts
from sparsenet.engines.recommender.recommender_rules import RULES, RecommenderRules
from sparsenet.engines.recommender.spectrum import leading
from sparsenet.features.interactions import AMOUNTS, Interactions, LogSplit
from sparsenet.kernels.types import F32, I32, I64, Bools
from sparsenet.selection.choose import Decision
from sparsenet.selection.newton import newton, softmax_loss


@dataclass(frozen=True)
class RecommenderOptions:
    """Settings of a recommender.

    Attributes
    ----------
    list_length : int
        Maximum number of related items kept for each item.
    n_factors : int
        Maximum number of singular vectors; fewer where the catalogue is large or the hold-out prefers it.
    shrinkage : float
        The penalty of the regressions.
    rules : RecommenderRules
    verbose : bool or None
        Whether to show progress; None means on a terminal.
    """

    list_length: int = 200
    n_factors: int = 512
    shrinkage: float = 4.0
    rules: RecommenderRules = RULES
    verbose: bool | None = None


class Decided(NamedTuple):
    """The decisions on the hold-out, without the measured parts, which take as much memory as the final ones."""

    weights: F32
    repeats: F32
    choices: dict[str, Decision]


@dataclass(frozen=True, eq=False)
class FittedRecommender:
    """A trained recommender.

    Attributes
    ----------
    parts : RecommenderParts
    weights : ndarray of shape (7,), float32
        The weights of the parts, in the order of `NAMES`.
    repeats : ndarray of shape (2,), float32
        The weights of the scores `OWN` of items that the user has taken.
    choices : mapping of str to Decision
    """

    parts: RecommenderParts
    weights: F32
    repeats: F32 = field(default_factory=lambda: np.zeros(2, np.float32))
    choices: Mapping[str, Decision] = field(default_factory=dict)

    @property
    def n_items(self) -> int:
        """Return the number of items."""
        return self.parts.n_items

    def topk(
        self,
        history: Interactions,
        k: int,
        *,
        exclude_seen: bool = True,
        only: Bools | None = None,
        threads: int,
    ) -> tuple[I32, F32]:
        """Return the k best items of each user of `history` and their scores, best first.

        Parameters
        ----------
        history : Interactions
            The events of any users, known or new ones.
        exclude_seen : bool
            Leave out the items of a user's history.
        only : ndarray of shape (n_items,), bool, optional
            Recommend these items only.

        Returns
        -------
        items, scores : ndarray of shape (history.n_users, k)
            Padded with -1 and minus infinity.
        """
        weights = np.concatenate((self.weights, self.repeats))
        n_candidates = max(self.parts.rules.n_candidates, k)
        how: dict[str, Any] = {"exclude_seen": exclude_seen, "only": only, "threads": threads}
        found = self.parts.rank(history, k, n_candidates, weights, **how)
        return found.items, found.scores

    def similar(self, items: I32, k: int, threads: int) -> tuple[I32, F32]:
        """Return the k items most similar to each of `items`, best first, padded with -1 and minus infinity."""
        near, scores = np.full((len(items), k), -1, np.int32), np.full((len(items), k), -np.inf, np.float32)
        asked = np.asarray(items, np.int64)
        own = self.parts.lists.walk.take(asked)
        own = scaled(own, np.ones(len(asked), np.float32), self.parts.scales)
        owners = np.repeat(np.arange(len(asked)), np.diff(own.indptr))
        order = np.lexsort((own.indices, -own.data, owners))
        rank = np.arange(len(order)) - own.indptr[owners]
        order, owners, rank = order[rank < k], owners[rank < k], rank[rank < k]
        near[owners, rank], scores[owners, rank] = own.indices[order], own.data[order]
        return near, scores


def fit(log: Interactions, options: RecommenderOptions, *, seed: int, threads: int) -> FittedRecommender:
    """Fit a recommender to a log: measure settings and weights on held-out events, then learn from all of them."""
    _check_memory(log, options)
    rules = options.rules
    strategy: LogSplit = "random" if log.times is None else "time"
    kept, held = log.split(strategy, seed, rules.n_users)
    n_held, decided = len(np.unique(held.users)), None
    n_steps = 3 * (1 + (n_held >= rules.fewest))  # of `_learn`, once or twice
    with parts_done(n_steps, "recommender", options.verbose) as done:
        if n_held >= rules.fewest:
            decided = _decide(
                _learn(kept, options, seed=seed, threads=threads, done=done), kept, held, options, threads
            )
        parts = _learn(log, options, seed=seed, threads=threads, done=done)
    if decided is None:
        why = f"{n_held} users could be held out, and fewer than {rules.fewest} had a hit among the candidates"
        weights = prior_weights(parts)
        shown = tuple(round(weight, 3) for weight in weights.tolist())
        return FittedRecommender(parts, weights, choices={"weights": Decision(shown, why)})
    factors = np.ascontiguousarray(parts.factors[:, : decided.choices["dimensions"].value])
    settings = {name: decided.choices[name].value for name in ("debias", "amounts")}
    parts = replace(parts, factors=factors, **settings)
    return FittedRecommender(parts, *decided)


def _learn(
    log: Interactions, options: RecommenderOptions, *, seed: int, threads: int, done: Callable[[float], object]
) -> RecommenderParts:
    """Train every part on a log."""
    rules = options.rules
    histories = _limited(log, seed, rules.max_per_user)
    users_of = np.bincount(histories.indices, minlength=log.n_items).astype(np.int64)
    per_user = powers(np.diff(histories.indptr), -0.5)
    length = _list_length(log, options)
    near = walk(histories, length, threads, rules)
    done(1)
    by_cosine = scaled(near, np.ones(len(near), np.float32), powers(users_of, -0.5))
    regression = regress(histories, by_cosine, options.shrinkage, threads, rules)
    done(1)
    normal = scaled(histories, per_user, powers(users_of, -0.5))
    n_factors = _n_factors(log, options)
    factors = leading(normal, n_factors, seed=seed, threads=threads, rules=rules).vectors
    done(1)
    timed = log.times is not None
    none = Rows(np.zeros(log.n_items + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), log.n_items)
    successors = transitions(log, length, rules) if timed else none
    lists, amounts = RelatedItems(near, regression, successors), log.histories().data
    unit = float(np.median(amounts)) if len(amounts) else 1.0
    return RecommenderParts(lists, factors, users_of, _trend(log, users_of), unit=unit, rules=rules)


def _list_length(log: Interactions, options: RecommenderOptions) -> int:
    rules = options.rules
    return min(options.list_length, max(rules.shortest, rules.max_numbers // max(log.n_items, 1)))


def _n_factors(log: Interactions, options: RecommenderOptions) -> int:
    rules, size = options.rules, max(log.n_items, log.n_users // 8, 1)
    return min(options.n_factors, max(rules.shortest, rules.max_numbers // size))


def memory_needed(log: Interactions, options: RecommenderOptions) -> int:
    """Return about how many bytes training takes."""
    kinds = 2 if log.times is None else 3
    entry = kinds * (8 + 2 * (4 + 2 * kinds))  # in its own list, and merged: twice while blocks are put together
    lists = entry * min(log.n_items * _list_length(log, options), log.n_items**2)
    factors = 4 * (3 * log.n_items + log.n_users) * (_n_factors(log, options) + options.rules.spare)
    return lists + factors + 64 * len(log)


def _check_memory(log: Interactions, options: RecommenderOptions) -> None:
    """Raise MemoryError before training if the lists and factors do not fit."""
    needed, available = memory_needed(log, options), available_memory()
    if needed > available:
        raise MemoryError(
            f"a recommender of {log.n_items:,} items and {log.n_users:,} users needs about {in_words(needed)}, and "
            f"{in_words(available)} are available: leave out rare items and users"
        )


def _limited(log: Interactions, seed: int, n: int) -> Rows:
    """Return the distinct items of each user: the n latest ones of users with more, at random without times."""
    latest = log.latest()
    strength = -latest.recency.astype(np.float32)
    if log.times is None:
        strength = np.random.default_rng((seed, 4)).random(len(latest), np.float32)
    ranked = latest.weighted(strength)
    kept = ranked.strongest(n, ranked.data)
    return Rows(kept.indptr, kept.indices, np.ones_like(kept.data), kept.width)


def _trend(log: Interactions, users_of: I64, share: float = 0.1) -> F32:
    """Return the logarithm of an item's events in the last `share` of the log, or of its users, from 0 to 1."""
    counts = users_of
    if log.times is not None and len(log):
        n = max(1, round(share * len(log)))
        late = log.times >= np.partition(log.times, len(log) - n)[len(log) - n]
        counts = np.bincount(log.items[late], minlength=log.n_items)
    logs = np.log1p(counts + 0.01 * users_of)
    return np.asarray(logs / max(logs.max(initial=0), 1e-30), np.float32)


def _decide(
    parts: RecommenderParts, kept: Interactions, held: Interactions, options: RecommenderOptions, threads: int
) -> Decided | None:
    """Choose settings and weights on the hold-out; return None if it tells too little."""
    rules, prior = options.rules, prior_weights(parts)
    new = HeldOut.of(parts, kept, held, new_only=True)
    choices = {}

    def measure(candidate: RecommenderParts) -> MeasuredParts:
        return MeasuredParts.of(candidate, new, prior, exclude_seen=True, threads=threads)

    if measure(parts).n_informative < rules.fewest:
        return None

    def with_dimensions(n: int) -> MeasuredParts:
        return measure(replace(parts, factors=np.ascontiguousarray(parts.factors[:, :n])))

    most = parts.factors.shape[1]
    sizes = [most, *(n for n in rules.dimensions if n < most)]
    choices["dimensions"], _ = with_best(sizes, with_dimensions, prior, rules.better)
    parts = replace(parts, factors=np.ascontiguousarray(parts.factors[:, : choices["dimensions"].value]))
    choices["debias"], _ = with_best(
        rules.debias, lambda debias: measure(replace(parts, debias=debias)), prior, rules.clearly_better
    )
    parts = replace(parts, debias=choices["debias"].value)
    amounts = kept.histories().data
    hows = AMOUNTS if len(amounts) and amounts.min() < amounts.max() else AMOUNTS[:1]
    choices["amounts"], measured = with_best(
        hows, lambda how: measure(replace(parts, amounts=how)), prior, rules.clearly_better
    )
    parts = replace(parts, amounts=choices["amounts"].value)
    weights, choices["weights"] = fit_weights_of_parts(measured, prior, rules.best, is_timed=parts.is_timed)
    repeats = _fit_repeats(parts, HeldOut.of(parts, kept, held, new_only=False), weights, rules.fewest, threads)
    found = "by recency and share in the own history" if repeats.any() else "too few users took an item again"
    choices["repeats"] = Decision(tuple(repeats.tolist()), f"weights of items that may come again: {found}")
    return Decided(weights, repeats, choices)


def _fit_repeats(parts: RecommenderParts, held: HeldOut, weights: F32, fewest: int, threads: int) -> F32:
    """Fit the weights of the scores `OWN`, relative to the parts' weights; zeros if repeats are rare."""
    measured = MeasuredParts.of(parts, held, weights, exclude_seen=False, threads=threads)
    n, some = len(weights), measured.hits.any(axis=1)
    is_own = measured.scores[..., n] > 0
    if np.count_nonzero((measured.hits & is_own).any(axis=1)) < fewest:
        return np.zeros(2, np.float32)
    new = np.where(measured.valid, np.einsum("ncp,p->nc", measured.scores[..., :n], weights), -1e3)
    x = np.concatenate((new[..., None], measured.scores[..., n:]), axis=-1)[some].astype(np.float64)
    others, *own = newton(softmax_loss(x, measured.hits[some]), np.array([1.0, 0.0, 0.0]), 1.0)
    return np.asarray(np.round(np.maximum(own, 0) / max(others, 1e-2), 4), np.float32)
