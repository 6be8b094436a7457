"""Fit a recommender to a log of interactions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from sparsenet import kernels
from sparsenet.core.ranked import best_first
from sparsenet.core.rows import Rows
from sparsenet.engines.recommender.item_lists import walk
from sparsenet.features.interactions import Interactions
from sparsenet.kernels.types import F32, I32, I64, Bools
from sparsenet.selection.choose import Decision

#: Users answered at a time: bounds the memory of the candidates.
_BLOCK = 1 << 13
#: The score of an item that must not be recommended.
_NEVER = np.float32(-1e30)


@dataclass(frozen=True)
class RecommenderOptions:
    """Settings of a recommender.

    Attributes
    ----------
    list_length : int
        Maximum number of similar items kept for each item.
    verbose : bool or None
        Whether to show progress; None means on a terminal.
    """

    list_length: int = 256
    verbose: bool | None = None


@dataclass(frozen=True, eq=False)
class FittedRecommender:
    """A trained recommender.

    Attributes
    ----------
    lists : Rows
        Similar items of each item and their weights, (n_items, n_items).
    popularity : ndarray of shape (n_items,), int64
        Number of users of each item.
    choices : mapping of str to Decision
    """

    lists: Rows
    popularity: I64
    choices: Mapping[str, Decision] = field(default_factory=dict)

    @property
    def n_items(self) -> int:
        """Return the number of items."""
        return len(self.popularity)

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
        items = np.full((history.n_users, k), -1, np.int32)
        scores = np.full((history.n_users, k), -np.inf, np.float32)
        histories = history.histories()
        n_seen = np.diff(histories.indptr)
        order = np.argsort(n_seen, kind="stable")  # users with about as many items need about as many candidates
        for begin in range(0, len(order), _BLOCK):
            users = order[begin : begin + _BLOCK]
            block, n = histories.take(users), min(k, self.n_items)
            if exclude_seen:
                block, n = _with_seen(block), min(k + int(n_seen[users].max()), self.n_items)
            found, values = self._best(block, n, only, threads)
            found, values = best_first(values, min(k, n), found, values)
            valid = values > _NEVER / 2
            items[users, : found.shape[1]] = np.where(valid, found, -1)
            scores[users, : found.shape[1]] = np.where(valid, values, -np.inf)
        return items, scores

    def _best(self, query: Rows, n: int, only: Bools | None, threads: int) -> tuple[I32, F32]:
        """Return the n best items of each row of features of the index, in any order."""
        found, values = np.empty((len(query), n), np.int32), np.empty((len(query), n), np.float32)
        rows, index = (query.indptr, query.indices, query.data), self._index
        kernels.shortlist(*rows, index.indptr, index.indices, index.data, *self._bias(only), found, values, threads)
        return found, values

    def similar(self, items: I32, k: int, threads: int) -> tuple[I32, F32]:
        """Return the k items most similar to each of `items`, best first, padded with -1 and minus infinity."""
        near, scores = np.full((len(items), k), -1, np.int32), np.full((len(items), k), -np.inf, np.float32)
        own = self.lists.take(np.asarray(items, np.int64))
        owners = np.repeat(np.arange(len(items)), np.diff(own.indptr))
        kept = np.flatnonzero(own.indices != np.asarray(items)[owners])
        order = kept[np.lexsort((own.indices[kept], -own.data[kept], owners[kept]))]
        owners = owners[order]
        rank = np.arange(len(order)) - np.searchsorted(owners, owners)
        order, owners, rank = order[rank < k], owners[rank < k], rank[rank < k]
        near[owners, rank], scores[owners, rank] = own.indices[order], own.data[order]
        return near, scores

    @cached_property
    def _index(self) -> Rows:
        """Return the lists, and below them, for each item, one list that rules the item itself out."""
        n = self.n_items
        indptr = np.concatenate((self.lists.indptr, self.lists.indptr[-1] + np.arange(1, n + 1)))
        indices = np.concatenate((self.lists.indices, np.arange(n, dtype=np.int32)))
        return Rows(indptr, indices, np.concatenate((self.lists.data, np.full(n, _NEVER))), n)

    def _bias(self, only: Bools | None) -> tuple[F32, I32]:
        """Return a small preference for popular items, and all items from the most popular one on."""
        bias = (1e-6 * self.popularity / max(self.popularity.max(initial=0), 1)).astype(np.float32)
        if only is not None:
            bias = np.where(only, bias, _NEVER)
        return bias, np.argsort(-bias, kind="stable").astype(np.int32)


def _with_seen(histories: Rows) -> Rows:
    """Append, for each item of a history, the feature that rules it out."""
    n = len(histories.indices)
    lengths = np.diff(histories.indptr)
    owners = np.repeat(np.arange(len(histories)), lengths)
    order = np.argsort(np.concatenate((owners, owners)), kind="stable")
    indices = np.concatenate((histories.indices, histories.indices + np.int32(histories.width)))[order]
    data = np.concatenate((histories.data, np.ones(n, np.float32)))[order]
    return Rows(2 * histories.indptr, indices, data, 2 * histories.width)


def fit(log: Interactions, options: RecommenderOptions, *, seed: int, threads: int) -> FittedRecommender:
    """Fit a recommender to a log."""
    histories = log.histories()
    popularity = np.bincount(histories.indices, minlength=log.n_items)
    return FittedRecommender(walk(histories, options.list_length, threads), popularity)
