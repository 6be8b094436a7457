"""The trained parts of a recommender, and the scores that they give to candidate items."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sparsenet import kernels
from sparsenet.core.rows import by_row
from sparsenet.engines.recommender.item_lists import RelatedItems, powers
from sparsenet.engines.recommender.recommender_rules import RULES, RecommenderRules
from sparsenet.features.interactions import Interactions
from sparsenet.index.cells.byte_rows import ByteRows
from sparsenet.kernels.types import F32, I32, I64, Bools

#: The scores that parts give to a candidate, in the order of the kernel.
NAMES = ("walk", "regression", "spectral", "recent walk", "recent regression", "next", "popularity")
#: Further scores of an item of the own history: how recent it is, and its share of the events.
OWN = ("recency", "share")
#: The parts that propose candidates, and the kind of list of each: walk, regression or successors.
_PROPOSING, _KIND = [0, 1, 3, 4, 5], [0, 1, 0, 1, 2]


class Ranking(NamedTuple):
    """The best items of each user, (n_users, k), best first; padded with -1, minus infinity and zeros.

    `parts` (n_users, k, 9) has the scores by `NAMES` and `OWN`, if they were wanted. Those of lists and vectors are
    from 0 to 1 within the candidates of a user.
    """

    items: I32
    scores: F32
    parts: F32


@dataclass(frozen=True, eq=False)
class RecommenderParts:
    """Parts of a recommender that are learnt from a log.

    Attributes
    ----------
    lists : RelatedItems
    factors : ndarray of shape (n_items, d), float32
        Leading singular vectors of the log, times a root of their filter.
    users_of : ndarray of shape (n_items,), int64
        Number of users of each item.
    trend : ndarray of shape (n_items,), float32
        Popularity, of late if the log has times, from 0 to 1.
    debias : float
        Scores of items are divided by this power of their number of users.
    amounts : {"ignored", "log", "linear"}
        How the summed weights of an item count in a history; see `Interactions.amounts`.
    unit : float
        The median of these sums.
    rules : RecommenderRules
        Those of the answers; models do not store them.
    """

    lists: RelatedItems
    factors: F32
    users_of: I64
    trend: F32
    debias: float = 0.0
    amounts: str = "ignored"
    unit: float = 1.0
    rules: RecommenderRules = RULES

    @property
    def n_items(self) -> int:
        """Return the number of items."""
        return len(self.users_of)

    @property
    def is_timed(self) -> bool:
        """Return whether the log had times."""
        return self.lists.is_timed

    def rank(
        self,
        history: Interactions,
        k: int,
        n_candidates: int,
        weights: F32,
        *,
        exclude_seen: bool,
        threads: int,
        only: Bools | None = None,
        wants_parts: bool = False,
    ) -> Ranking:
        """Return the k best of `n_candidates` items for each user of `history`, by the `weights` of the scores, (9,).

        Unless `exclude_seen`, the items of the history are candidates, too.
        """
        n, at_a_time = history.n_users, self.rules.users_at_a_time
        found = Ranking(
            np.empty((n, k), np.int32),
            np.empty((n, k), np.float32),
            np.empty((n if wants_parts else 0, k, len(weights)), np.float32),
        )
        starts = history.starts
        amounts = history.amounts(self.amounts, self.unit)
        factors, fallback = self._factor, self._by_popularity
        if only is not None:
            factors, fallback = factors * only, fallback[only[fallback]]
        mixing = np.asarray(weights[_PROPOSING] / self._sizes[_KIND], np.float32)
        fading, lists = self.rules.fading if self.is_timed else 1.0, self.lists.merged
        for begin in range(0, n, at_a_time):  # Ctrl-C waits for the end of a block
            users = slice(begin, begin + at_a_time)
            own = starts[begin : begin + at_a_time + 1]
            events = slice(own[0], own[-1])
            kernels.recommend_items(
                own - own[0],
                history.items[events],
                amounts[events],
                lists.indptr,
                lists.items,
                lists.values,
                lists.units,
                self._vectors.codes,
                self._inward,
                self._outward,
                factors,
                self.trend,
                fallback,
                weights,
                mixing,
                fading,
                n_candidates,
                exclude_seen,
                found.items[users],
                found.scores[users],
                found.parts[users],
                threads,
            )
        return found

    @cached_property
    def _by_popularity(self) -> I32:
        """Return all items, the most popular one first."""
        return np.argsort(-self.trend, kind="stable").astype(np.int32)

    @cached_property
    def _factor(self) -> F32:
        """Return the factor of each item's scores."""
        return powers(self.users_of, -self.debias)

    @cached_property
    def scales(self) -> F32:
        """Return the inverse root of each item's users."""
        return powers(self.users_of, -0.5)

    @cached_property
    def _vectors(self) -> ByteRows:
        """Return the singular vectors in 8 bits: rows of a few hundred numbers, read at random for each candidate."""
        return ByteRows.of(self.factors, np.arange(len(self.factors)))

    @cached_property
    def _inward(self) -> F32:
        return self._vectors.scales * self.scales

    @cached_property
    def _outward(self) -> F32:
        return self._vectors.scales / self.scales

    @cached_property
    def _sizes(self) -> F32:
        """Return the mean of the largest value of each list, for each kind of lists, so that kinds can be added."""
        sizes = []
        for lists in self.lists:
            largest = by_row(np.maximum, lists.data * self._factor[lists.indices], lists.indptr)
            sizes.append(float(largest[largest > 0].mean()) if (largest > 0).any() else 1.0)
        return np.array(sizes, np.float32)
