"""Weigh the parts of a recommender on held-out events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsenet.core.ranked import best_first, is_hit
from sparsenet.core.rows import Rows
from sparsenet.engines.recommender.recommender_parts import NAMES, OWN, RecommenderParts
from sparsenet.engines.recommender.recommender_rules import RULES, RecommenderRules
from sparsenet.features.interactions import Interactions
from sparsenet.kernels.types import F32, F64, I32, Bools
from sparsenet.selection.choose import Decision, Option, Rule, choose
from sparsenet.selection.newton import newton, softmax_loss


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Held-out users: their histories, and the items that they took next."""

    history: Interactions
    truth: Rows

    @classmethod
    def of(cls, parts: RecommenderParts, kept: Interactions, held: Interactions, *, new_only: bool) -> HeldOut:
        """Take the users of `held`; with `new_only`, items of their history are never right."""
        users = np.unique(held.users).astype(np.int64)
        few = np.diff(kept.starts)[users] <= parts.rules.max_per_user
        users = users[few]  # bounds the candidates of all users together
        before, after = kept.of_users(users), held.of_users(users)
        if new_only:
            seen = before.users.astype(np.int64) * before.n_items + before.items
            after = after.take(~np.isin(after.users.astype(np.int64) * after.n_items + after.items, seen))
        if after.times is not None:
            after = after.take(np.arange(len(after)) - after.starts[after.users] < parts.rules.n_next)
        return cls(before, after.histories())


@dataclass(frozen=True, eq=False)
class MeasuredParts:
    """Scores of the candidates of held-out users, and which candidates are right."""

    scores: F32
    valid: Bools
    hits: Bools
    n_right: F64
    items: I32
    rules: RecommenderRules = RULES

    @classmethod
    def of(
        cls,
        parts: RecommenderParts,
        held: HeldOut,
        weights: F32,
        *,
        exclude_seen: bool,
        threads: int,
    ) -> MeasuredParts:
        """Propose and score candidates; the own history joins them, with the scores `OWN`, unless it is excluded."""
        longest = 0 if exclude_seen else int(np.diff(held.history.starts).max(initial=0))
        n, no_own = parts.rules.n_candidates, np.zeros(len(OWN), np.float32)
        how: dict[str, Any] = {"exclude_seen": exclude_seen, "wants_parts": True, "threads": threads}
        k = min(n + longest, parts.n_items)
        items, _, scores = parts.rank(held.history, k, n, np.concatenate((weights, no_own)), **how)
        valid = items >= 0
        hits = is_hit(items, held.truth) & valid
        own = scores[..., : len(NAMES)] if exclude_seen else scores
        return cls(own, valid, hits, np.diff(held.truth.indptr).astype(np.float64), items, parts.rules)

    def ndcg(self, weights: F64) -> F64:
        """Return the nDCG of each user with right items by these weights."""
        return self.ndcg_of(self.totals(weights))

    def totals(self, weights: F64) -> F64:
        """Return the weighted sums of scores."""
        totals = np.einsum("ncp,p->nc", self.scores, weights)
        return np.where(self.valid, totals, -np.inf)

    def ndcg_of(self, totals: F64) -> F64:
        """Return the nDCG of each user with right items when candidates are ordered by `totals`."""
        some, depth = self.n_right > 0, self.rules.depth
        (hits,) = best_first(totals[some].astype(np.float32), depth, self.hits[some])
        discounts = 1 / np.log2(np.arange(2, depth + 2))
        ideal = np.cumsum(discounts)[np.minimum(self.n_right[some], depth).astype(np.int64) - 1]
        return np.asarray((hits * discounts[: hits.shape[1]]).sum(axis=1) / ideal)

    def fit(self, prior: F64, columns: Bools, rows: Bools) -> F64:
        """Fit the weights of some columns on some users by a softmax over each user's candidates.

        The result is the mean of the fit and the prior: held-out items are easier to find than future items, so the fit
        trusts near items too much.
        """
        rows = rows & self.hits.any(axis=1)
        x = self.scores[rows][..., columns].astype(np.float64)
        weights = np.zeros(len(prior))
        weights[columns] = newton(softmax_loss(x, self.hits[rows]), prior[columns], self.rules.precision)
        return np.asarray((np.maximum(weights, 0) + np.where(columns, prior, 0)) / 2)

    def cross_fitted(self, prior: F64, columns: Bools) -> F64:
        """Return the nDCG of each user by weights that are fitted to the other half of the users."""
        half = np.arange(len(self.hits)) % 2 == 0
        totals = np.empty(self.hits.shape)
        for own in (half, ~half):
            totals[own] = self.totals(self.fit(prior, columns, ~own))[own]
        return self.ndcg_of(totals)

    @property
    def n_informative(self) -> int:
        """Return the number of users with a right candidate."""
        return int(np.count_nonzero(self.hits.any(axis=1)))


def prior_weights(parts: RecommenderParts) -> F32:
    """Return the weights without a hold-out."""
    return np.array(parts.rules.timed_prior if parts.is_timed else parts.rules.prior, np.float32)


def with_best(
    values: Sequence[Any], make: Callable[[Any], MeasuredParts], weights: F32, rule: Rule
) -> tuple[Decision, MeasuredParts]:
    """Choose a setting of the parts by the nDCG with the prior weights."""
    made = {value: make(value) for value in values}
    options = [Option(str(value), value) for value in values]
    decision = choose(options, lambda value: made[value].ndcg(weights.astype(np.float64)), rule)
    return decision, made[decision.value]


def fit_weights_of_parts(measured: MeasuredParts, prior: F32, rule: Rule, *, is_timed: bool) -> tuple[F32, Decision]:
    """Choose between the prior weights, fitted ones, and fitted ones of the parts that ignore the order of events."""
    start = prior.astype(np.float64)
    order = np.array(["recent" in name or name == "next" for name in NAMES])
    columns = {"fitted": ~order}
    if is_timed:
        columns["fitted with order"] = np.ones(len(NAMES), bool)
    scores = {"fixed": measured.ndcg(start)}
    scores |= {name: measured.cross_fitted(start, own) for name, own in columns.items()}
    decision = choose([Option(name, name) for name in scores], scores.__getitem__, rule)
    weights = start
    if decision.value != "fixed":
        weights = measured.fit(start, columns[decision.value], np.ones(len(measured.hits), bool))
    rounded = np.round(weights, 4)
    return rounded.astype(np.float32), decision._replace(value=tuple(rounded.tolist()))
