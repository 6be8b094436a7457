"""The trained parts of a recommender, and the scores that they give to candidate items."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sparsenet import kernels
from sparsenet.core.rows import Rows, by_row
from sparsenet.engines.recommender.item_lists import powers, stacked
from sparsenet.engines.recommender.recommender_rules import RULES, RecommenderRules
from sparsenet.features.interactions import Interactions
from sparsenet.kernels.types import F32, I32, I64, Bools

#: The score of an item that must not be recommended.
NEVER = np.float32(-1e30)
#: Times `NEVER`, more than any score: an item that the user has taken is proposed, if it may be.
_CERTAINLY = np.float32(-1e-24)
#: Scores of a user's candidates, in the order of `RecommenderParts.names`.
NAMES = ("walk", "regression", "spectral", "recent walk", "recent regression", "next", "popularity")
SPECTRAL = NAMES.index("spectral")


class Queries(NamedTuple):
    """The histories of some users: all items alike, by how recent they are, and by their shares of the events."""

    all: Rows
    recent: Rows
    shares: Rows

    @property
    def longest(self) -> int:
        """Return the number of items of the longest history."""
        return int(np.diff(self.all.indptr).max(initial=0))

    def take(self, users: I64) -> Queries:
        """Return some of the users."""
        return Queries(*(rows.take(users) for rows in self))


@dataclass(frozen=True, eq=False)
class RecommenderParts:
    """Parts of a recommender that are learnt from a log.

    Attributes
    ----------
    walk, regression, successors : Rows
        Related items of each item, (n_items, n_items); `successors` is empty for a log without times.
    factors : ndarray of shape (n_items, d), float32
        Leading singular vectors of the log, times a root of their filter.
    users_of : ndarray of shape (n_items,), int64
        Number of users of each item.
    trend : ndarray of shape (n_items,), float32
        Popularity, of late if the log has times, from 0 to 1.
    debias : float
        Scores of items are divided by this power of their number of users.
    rules : RecommenderRules
        Those of the answers; models do not store them.
    """

    walk: Rows
    regression: Rows
    successors: Rows
    factors: F32
    users_of: I64
    trend: F32
    debias: float = 0.0
    rules: RecommenderRules = RULES

    @property
    def n_items(self) -> int:
        """Return the number of items."""
        return len(self.users_of)

    @property
    def is_timed(self) -> bool:
        """Return whether the log had times."""
        return len(self.successors.indices) > 0

    def queries(self, log: Interactions) -> Queries:
        """Return the histories of the users of a log."""
        histories = log.histories()
        ones = Rows(histories.indptr, histories.indices, np.ones_like(histories.data), histories.width)
        counts = log.weighted(np.ones_like(log.weights))
        totals = np.repeat(np.diff(log.starts), np.diff(counts.indptr))
        shares = replace(counts, data=np.asarray(counts.data / totals, np.float32))
        if not self.is_timed:
            return Queries(ones, ones, shares)
        latest = log.latest()
        return Queries(ones, latest.weighted((self.rules.fading**latest.recency).astype(np.float32)), shares)

    def propose(
        self, queries: Queries, n: int, weights: F32, *, exclude_seen: bool, only: Bools | None, threads: int
    ) -> tuple[I32, Bools]:
        """Return candidates of each user, and which of them may be recommended.

        There are n; where seen items are allowed, n plus the length of the longest history.
        """
        wanted, n = min(n, self.n_items), min(n + queries.longest, self.n_items)
        query = self._stacked_query(queries, weights, exclude_seen=exclude_seen)
        bias, fallback = self._popular if only is None else _by_bias(np.where(only, self._popular[0], NEVER))
        found, scores = np.empty((len(query), n), np.int32), np.empty((len(query), n), np.float32)
        index = self._index
        rows = query.indptr, query.indices, query.data
        kernels.shortlist(*rows, index.indptr, index.indices, index.data, bias, fallback, found, scores, threads)
        if exclude_seen and n > wanted:  # room for seen items, which come last
            best = np.sort(np.argpartition(-scores, wanted - 1, axis=1)[:, :wanted], axis=1)
            found, scores = np.take_along_axis(found, best, axis=1), np.take_along_axis(scores, best, axis=1)
        return found, np.asarray(scores > NEVER / 2)

    @cached_property
    def _popular(self) -> tuple[F32, I32]:
        """Return a bias that breaks ties, and all items from the most popular one on."""
        return _by_bias(np.float32(self.rules.tie_break) * self.trend)

    @cached_property
    def _factor(self) -> F32:
        """Return the factor of each item's scores."""
        return powers(self.users_of, -self.debias)

    @cached_property
    def scales(self) -> F32:
        """Return the inverse root of each item's users."""
        return powers(self.users_of, -0.5)

    def scores(self, queries: Queries, items: I32, valid: Bools, threads: int) -> F32:
        """Return the scores of candidates by each part, (n_users, n, parts), each from 0 to 1 within a user."""
        every = np.ones(len(NAMES), np.float32)
        found = np.zeros((*items.shape, len(NAMES)), np.float32)
        for part, column in self._columns(queries, items, valid, every, threads):
            found[..., part] = column
        return found

    def totals(self, queries: Queries, items: I32, valid: Bools, weights: F32, threads: int) -> F32:
        """Return the weighted sum of the scores of each candidate, (n_users, n); parts without weight cost nothing."""
        totals = np.zeros(items.shape, np.float32)
        for part, column in self._columns(queries, items, valid, weights, threads):
            totals += weights[part] * column
        return totals

    def _columns(
        self, queries: Queries, items: I32, valid: Bools, weights: F32, threads: int
    ) -> Iterator[tuple[int, F32]]:
        """Yield the number and the scores of each part that has a weight."""
        factor = self._factor[items] if self.debias else np.float32(1)
        for part in np.flatnonzero(weights[: len(NAMES) - 1]).tolist():
            column = self._raw(part, queries, items, threads)
            if column is not None:
                column = np.where(valid, np.maximum(column * factor, np.float32(0)), np.float32(0))
                yield part, column / np.maximum(column.max(axis=1, keepdims=True, initial=0), np.float32(1e-30))
        yield len(NAMES) - 1, self.trend[items]

    def _raw(self, part: int, queries: Queries, items: I32, threads: int) -> F32 | None:
        """Return the scores by a part; None if it needs times and the log had none."""
        if part == SPECTRAL:
            return self._spectral(queries.all, items, threads)
        if part > SPECTRAL and not self.is_timed:
            return None
        lists = (self.walk, self.regression, None, self.walk, self.regression, self.successors)[part]
        assert lists is not None
        return _votes(queries.recent if part > SPECTRAL else queries.all, lists, items, threads)

    def repeats(self, queries: Queries, items: I32) -> F32:
        """Return how recent each candidate is in the user's own history, and its share of it, (n_users, n, 2)."""
        own = np.zeros((*items.shape, 2), np.float32)
        rows = queries.recent
        owners = np.repeat(np.arange(len(rows), dtype=np.int64), np.diff(rows.indptr)) * self.n_items
        if not len(rows.indices):
            return own
        keys = owners + rows.indices
        wanted = np.arange(len(items), dtype=np.int64)[:, None] * self.n_items + items
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        own[..., 0], own[..., 1] = rows.data[at], queries.shares.data[at]
        own[keys[at] != wanted] = 0
        return own

    def debiased(self, debias: float) -> RecommenderParts:
        """Return the same parts with another `debias`."""
        return replace(self, debias=debias)

    @cached_property
    def _index(self) -> Rows:
        """Return all lists below each other, and last the list of each item that rules it out."""
        n = self.n_items
        never = Rows(np.arange(n + 1), np.arange(n, dtype=np.int32), np.full(n, NEVER), n)
        lists = [self.walk, self.regression, self.successors]
        if self.debias:
            lists = [replace(each, data=each.data * self._factor[each.indices]) for each in lists]
        short = [each.strongest(most, each.data) for each, most in zip(lists, self.rules.proposed, strict=True)]
        return stacked([*short, never])

    @cached_property
    def _sizes(self) -> F32:
        """Return the mean of the largest value of each list, for each kind of lists, so that kinds can be added."""
        sizes = []
        for lists in (self.walk, self.regression, self.successors):
            largest = by_row(np.maximum, lists.data * self._factor[lists.indices], lists.indptr)
            sizes.append(float(largest[largest > 0].mean()) if (largest > 0).any() else 1.0)
        return np.array(sizes, np.float32)

    def _stacked_query(self, queries: Queries, weights: F32, *, exclude_seen: bool) -> Rows:
        """Return rows of features of `_index`: each history once for each kind of lists."""
        n, every, recent = self.n_items, queries.all, queries.recent
        walk, regression, successors = self._sizes
        parts = [
            (0, every.data * (weights[0] / walk) + recent.data * (weights[3] / walk)),
            (1, every.data * (weights[1] / regression) + recent.data * (weights[4] / regression)),
        ]
        if self.is_timed:
            parts.append((2, recent.data * (weights[5] / successors)))
        own = np.ones_like(every.data) if exclude_seen else _CERTAINLY * recent.data
        parts.append((3, own))
        ids = np.concatenate([every.indices.astype(np.int64) + kind * n for kind, _ in parts])
        owners = np.tile(np.repeat(np.arange(len(every)), np.diff(every.indptr)), len(parts))
        order = np.argsort(owners, kind="stable")
        data = np.concatenate([values for _, values in parts])[order]
        return Rows(every.indptr * len(parts), ids[order].astype(np.int32), data.astype(np.float32), 4 * n)

    def _spectral(self, histories: Rows, items: I32, threads: int) -> F32:
        """Return the scores by the singular vectors."""
        users = np.empty((len(histories), self.factors.shape[1]), np.float32)
        values = histories.data * self.scales[histories.indices]
        kernels.csr_matmul(histories.indptr, histories.indices, values, self.factors, users, threads)
        products = np.empty(items.size, np.float32)
        indptr = np.arange(len(items) + 1, dtype=np.int64) * items.shape[1]
        kernels.pair_dot(indptr, items.reshape(-1), users, self.factors, products, threads)
        return np.asarray(products.reshape(items.shape) / self.scales[items])


def _by_bias(bias: F32) -> tuple[F32, I32]:
    return bias, np.argsort(-bias, kind="stable").astype(np.int32)


def _votes(histories: Rows, lists: Rows, items: I32, threads: int) -> F32:
    """Return ``(histories @ lists)[i, items[i]]``."""
    out = np.empty(items.shape, np.float32)
    rows = histories.indptr, histories.indices, histories.data
    kernels.neighbor_votes(*rows, lists.indptr, lists.indices, lists.data, lists.width, items, out, threads)
    return out
