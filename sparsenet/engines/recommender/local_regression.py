"""Predict each item from the items around it by ridge regression: EASE, restricted to near items."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from threadpoolctl import threadpool_limits

from sparsenet import kernels
from sparsenet.core.rows import Rows, by_row, transpose
from sparsenet.engines.recommender.item_lists import powers, scaled
from sparsenet.engines.recommender.recommender_rules import RULES, RecommenderRules
from sparsenet.kernels.types import F32, I64


def regress(histories: Rows, near: Rows, shrinkage: float, threads: int, rules: RecommenderRules = RULES) -> Rows:
    """Regress the presence of each item on its strongest items in `near`; return weights by the given item.

    A user counts by the inverse root of the number of items. The penalty of an item is `shrinkage` times the root of
    its own and of the median sum of squares.
    """
    users = scaled(histories, powers(np.diff(histories.indptr), -0.25), np.ones(histories.width, np.float32))
    columns = transpose(users)
    squares = by_row(np.add, np.square(columns.data), columns.indptr)
    lengths = np.diff(columns.indptr)
    median = float(np.median(squares[squares > 0])) if squares.any() else 1.0
    penalties = (shrinkage * np.sqrt(squares * median)).astype(np.float32)
    order = _by_strength(near)
    fitted = lengths >= rules.fewest_users
    budget, grain = rules.work // max(int(np.count_nonzero(fitted)), 1), rules.grain

    def fit_block(begin: int) -> list[tuple[I64, F32]]:
        return [
            _fit_item(item, _nearest(order, item, lengths, budget, rules.n_near), columns, len(histories), penalties)
            for item in range(begin, min(begin + grain, len(columns)))
            if fitted[item]
        ]

    with threadpool_limits(1), ThreadPoolExecutor(threads) as pool:  # one thread: LAPACK's bits depend on its threads
        fits = [fit for block in pool.map(fit_block, range(0, len(columns), grain)) for fit in block]
    counts = np.zeros(len(columns), np.int64)
    counts[fitted] = [len(sources) for sources, _ in fits]
    sources = np.concatenate([np.empty(0, np.int64), *(fit[0] for fit in fits)])
    weights = np.concatenate([np.empty(0, np.float32), *(fit[1] for fit in fits)])
    indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
    return transpose(Rows(indptr, sources.astype(np.int32), weights, len(columns)))


def _by_strength(near: Rows) -> Rows:
    """Return the ids of each row by falling value."""
    owners = np.repeat(np.arange(len(near)), np.diff(near.indptr))
    order = np.lexsort((near.indices, -near.data, owners))
    return Rows(near.indptr, near.indices[order], near.data[order], near.width)


def _nearest(order: Rows, item: int, lengths: I64, budget: int, n: int) -> I64:
    """Return the nearest items of an item: n, or as many as the budget of multiplications allows."""
    ids = order.indices[order.indptr[item] : order.indptr[item + 1]][:n].astype(np.int64)
    work = np.cumsum(lengths[ids]) * np.arange(1, len(ids) + 1)
    return ids[: np.searchsorted(work, budget, side="right")]


def _fit_item(item: int, near: I64, columns: Rows, n_users: int, penalties: F32) -> tuple[I64, F32]:
    """Return the sources of an item, ascending, and their weights."""
    near = np.sort(near)
    together = np.append(near, item)
    query, n = columns.take(together), len(together)
    gram = np.empty((n, n), np.float32)
    wanted = np.ascontiguousarray(np.broadcast_to(together.astype(np.int32), (n, n)))
    index = columns.indptr, columns.indices, columns.data
    kernels.wide_scores(query.indptr, query.indices, query.data, n_users, *index, wanted, gram, 1)
    inner = gram[:-1, :-1].astype(np.float64)
    inner[np.diag_indices(n - 1)] += penalties[near]
    return near, np.linalg.solve(inner, gram[:-1, -1].astype(np.float64)).astype(np.float32)
