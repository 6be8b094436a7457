"""Measure recommendations against what users took."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sparsenet import metrics
from sparsenet.core.rows import as_matrix
from sparsenet.core.validation import integer
from sparsenet.engines.recommender.fit_recommender import FittedRecommender, RecommenderOptions, fit
from sparsenet.features.interactions import Interactions
from sparsenet.features.logs import Log, positions
from sparsenet.kernels.types import I64


class Held(NamedTuple):
    """Users' histories and held-out events; users have the same numbers in both.

    `truth` may have items that the model does not know, with higher numbers. `counts` are the users of each item of the
    training log. `unknown_users` and `unknown_history` count users, and events of histories, that were left out since
    the model does not know the user or the item.
    """

    history: Interactions
    truth: Interactions
    counts: I64
    unknown_users: int = 0
    unknown_history: int = 0


def measure(
    fitted: FittedRecommender, held: Held, ks: list[int], *, exclude_seen: bool, threads: int
) -> dict[str, float]:
    """Return all measures of the recommendations for the users of `held` who took something then."""
    n_items = fitted.n_items
    truth = _truth(held, exclude_seen)
    users = np.flatnonzero(np.diff(truth.indptr))
    if not len(users):
        why = ": with exclude_seen=False, items that users took before count too" if exclude_seen else ""
        raise ValueError(f"no user took a new item in the held-out log, so there is nothing to measure{why}")
    truth = csr_array(truth[users])
    unknown = int(np.count_nonzero(truth.indices >= n_items))
    most = min(max(*ks, 1), n_items)
    best, _ = fitted.topk(held.history.of_users(users), most, exclude_seen=exclude_seen, threads=threads)
    counts = np.zeros(truth.shape[1])
    counts[:n_items] = held.counts
    found: dict[str, float] = {"P@1": metrics.precision_at_k(truth, best, 1)}
    for k in ks:
        # Rankings shorter than k, of logs with few items, are filled up without a warning.
        filled = np.pad(best[:, :k], ((0, 0), (0, max(0, k - most))), constant_values=-1)
        found[f"recall@{k}"] = metrics.recall_at_k(truth, filled, k)
        found[f"nDCG@{k}"] = metrics.ndcg_at_k(truth, filled, k)
        found[f"MRR@{k}"] = metrics.mrr_at_k(truth, filled, k)
        found[f"coverage@{k}"] = metrics.coverage_at_k(filled, k, n_items)
        if unknown < truth.nnz:  # unknown items have no popularity to compare with
            found[f"popularity_bias@{k}"] = metrics.popularity_bias_at_k(truth, filled, k, counts)
    left_out = {"unknown_users": held.unknown_users, "unknown_history": held.unknown_history}
    return found | {"users": len(users), "events": truth.nnz, "unknown_items": unknown} | left_out


def second_model(
    events: Interactions, split: str | None, options: RecommenderOptions, *, seed: int, threads: int
) -> tuple[FittedRecommender, Held]:
    """Train on a part of a log, and return the other part with the model."""
    strategy: Any = split or ("random" if events.times is None else "last")
    learnt, held = events.split(strategy, seed)
    if not len(learnt) or not len(held):
        raise ValueError(f"split={strategy!r} leaves no user with events in both parts: the log is too small")
    return fit(learnt, options, seed=seed, threads=threads), Held(learnt, held, item_counts(learnt))


def _truth(held: Held, exclude_seen: bool) -> csr_array:
    """Return the items that each user took, without those in the history if they are never recommended."""
    truth = as_matrix(held.truth.histories())
    truth.data[:] = 1
    if not exclude_seen:
        return truth
    seen = as_matrix(held.history.histories())
    wide = csr_array((np.ones_like(seen.data), seen.indices, seen.indptr), shape=truth.shape)
    fresh = csr_array(truth - truth.multiply(wide))
    fresh.eliminate_zeros()
    return fresh


def events_of(log: Interactions, starts: I64, users: I64) -> Interactions:
    """Return the events of some users, who may repeat, numbered in this order; a user -1 has none.

    `starts` is `Interactions.starts`. The work does not grow with the log.
    """
    there = users >= 0
    begins = np.where(there, starts[users], 0)
    lengths = np.where(there, starts[users + 1], 0) - begins
    owners = np.repeat(np.arange(len(users), dtype=np.int32), lengths)
    places = np.arange(len(owners)) + (begins - (np.cumsum(lengths) - lengths))[owners]
    times = None if log.times is None else log.times[places]
    return Interactions(owners, log.items[places], times, log.weights[places], len(users), log.n_items)


def item_counts(log: Interactions) -> I64:
    """Return the number of users who took each item."""
    return np.bincount(log.histories().indices, minlength=log.n_items)


def known_items(log: Interactions, n_items: int) -> Interactions:
    """Return the events with items that the model knows."""
    kept = log.take(log.items < n_items)
    return replace(kept, n_items=n_items)


def parts_of(events: Interactions, split: str, seed: int, counts: I64) -> Held:
    """Return the parts of a log, of any users, to predict one from the other; `counts` has an entry for each item."""
    strategy: Any = split
    learnt, held = events.split(strategy, seed)
    history = known_items(learnt, len(counts))
    return Held(history, held, counts, unknown_history=len(learnt) - len(history))


def later(log: Log, found: Log, items: NDArray[Any], counts: I64) -> Held:
    """Return the histories of a log, and what its users took in a later one."""
    users = positions(log.users, found.users)
    if (users < 0).all():
        others = " and others" if len(found.users) > 1 else ""
        raise ValueError(
            f"the log has no user that the model knows, but {found.users.tolist()[0]!r}{others}: pass "
            "split='random' to measure on new users"
        )
    events = found.over(items)
    own = users[events.users]
    kept = own >= 0
    truth = Interactions.of(own[kept], events.items[kept], None, None, len(log.users), events.n_items)
    return Held(log.interactions, truth, counts, unknown_users=int(np.count_nonzero(users < 0)))


def as_ks(k: Any) -> list[int]:
    """Return the ranks to measure at as a list."""
    ks = list(k) if isinstance(k, list | tuple) else [k]
    if not ks:
        raise ValueError("k is empty: pass at least one rank")
    return sorted({integer("k", own, 1) for own in ks})
