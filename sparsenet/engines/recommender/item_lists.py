"""Lists of related items for each item: by a walk over common users, and by the order of events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array, csr_array

from sparsenet import kernels
from sparsenet.core.rows import Rows, by_row, transpose
from sparsenet.engines.recommender.recommender_rules import RULES, RecommenderRules
from sparsenet.features.interactions import Interactions
from sparsenet.kernels.types import F32, I16, I32, I64, Bools


def best_products(left: Rows, right: Rows, n: int, threads: int, rules: RecommenderRules = RULES) -> Rows:
    """Compute ``left @ right`` and keep the n largest positive entries of each row, ids ascending."""
    n = min(n, right.width)
    bias, others = np.zeros(right.width, np.float32), np.arange(n, dtype=np.int32)
    counts, indices, data = [np.zeros(1, np.int64)], [np.empty(0, np.int32)], [np.empty(0, np.float32)]
    index = right.indptr, right.indices, right.data
    for block in left.blocks(max(1, rules.product_cells // max(n, 1))):
        labels, scores = np.empty((len(block), n), np.int32), np.empty((len(block), n), np.float32)
        query = block.indptr, block.indices, block.data
        kernels.shortlist(*query, *index, bias, others, labels, scores, threads)
        keep = scores > 0  # the kernel fills up rows with labels of score 0
        counts.append(keep.sum(axis=1))
        indices.append(labels[keep])
        data.append(scores[keep])
    indptr: I64 = np.cumsum(np.concatenate(counts))
    return Rows(indptr, np.concatenate(indices), np.concatenate(data), right.width)


def scaled(rows: Rows, row_factors: F32, column_factors: F32) -> Rows:
    """Multiply each entry by a factor of its row and one of its column."""
    data = rows.data * np.repeat(row_factors, np.diff(rows.indptr)) * column_factors[rows.indices]
    return Rows(rows.indptr, rows.indices, data, rows.width)


def powers(counts: I64, exponent: float) -> F32:
    """Return ``max(count, 1) ** exponent``."""
    return np.maximum(counts, 1).astype(np.float32) ** np.float32(exponent)


def walk(histories: Rows, n: int, threads: int, rules: RecommenderRules = RULES) -> Rows:
    """Return the n items that a walk from each item over its users reaches most often.

    A step to a user is divided by the root of the item's users, the step back by the number of the user's items.
    """
    by_item = transpose(histories)
    per_user, per_item = np.diff(histories.indptr), np.diff(by_item.indptr)
    left = scaled(by_item, powers(per_item, -0.5), powers(per_user, -1.0))
    return without_diagonal(best_products(left, histories, n + 1, threads, rules))


def transitions(log: Interactions, n: int, rules: RecommenderRules = RULES) -> Rows:
    """Return the n most frequent successors of each item, as shares of its occurrences; nearer ones count more."""
    changes = np.flatnonzero((np.diff(log.items, prepend=-1) != 0) | (np.diff(log.users, prepend=-1) != 0))
    users, items = log.users[changes], log.items[changes]
    before, after, amounts = [], [], []
    for gap in range(1, rules.reach + 1):
        together = np.flatnonzero((users[gap:] == users[:-gap]) & (items[gap:] != items[:-gap]))
        before.append(items[together])
        after.append(items[together + gap])
        amounts.append(np.full(len(together), 1 / gap, np.float32))
    shape = log.n_items, log.n_items
    pairs = np.concatenate(before), np.concatenate(after)
    counts = Rows.of(coo_array((np.concatenate(amounts), pairs), shape=shape).tocsr())
    totals = by_row(np.add, counts.data, counts.indptr)
    shares = scaled(counts, (1 / (totals + 1)).astype(np.float32), np.ones(log.n_items, np.float32))
    return shares.strongest(n, shares.data)


def without_diagonal(rows: Rows) -> Rows:
    """Drop the entries of each row with its own number."""
    owners = np.repeat(np.arange(len(rows), dtype=np.int32), np.diff(rows.indptr))
    return selected(rows, owners != rows.indices)


def selected(rows: Rows, keep: Bools) -> Rows:
    """Keep some of the entries, (nnz,)."""
    indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(keep, dtype=np.int64)))[rows.indptr]
    return Rows(indptr, rows.indices[keep], rows.data[keep], rows.width)


@dataclass(frozen=True, eq=False)
class RelatedItems:
    """Lists of related items of each item, (n_items, n_items); `successors` is empty for a log without times."""

    walk: Rows
    regression: Rows
    successors: Rows

    def __iter__(self) -> Iterator[Rows]:
        yield from (self.walk, self.regression, self.successors)

    @property
    def is_timed(self) -> bool:
        """Return whether the log had times."""
        return len(self.successors.indices) > 0

    @cached_property
    def merged(self) -> MergedLists:
        """Return the lists as one: a history then reads half as many entries."""
        return merged(list(self)[: 3 if self.is_timed else 2])


#: Bits of a value in the sum of several lists: 16, and room for signs.
_BITS = 20


class MergedLists(NamedTuple):
    """Several lists of each item as one, in the types of the kernel.

    An entry is in at least one of the lists. Its `values` (nnz, n_lists) are 0 in others. They count in `units`
    (n_items, n_lists), so that 16 bits suffice.
    """

    indptr: I64
    items: I32
    values: I16
    units: F32


def merged(lists: Sequence[Rows], n_rows: int = 1 << 12) -> MergedLists:
    """Merge the lists of each item, whose ids ascend; `n_rows` items at a time bound the memory."""
    parts = [_merged(blocks) for blocks in zip(*(rows.blocks(n_rows) for rows in lists), strict=True)]
    counts = np.concatenate([np.zeros(1, np.int64), *(np.diff(part.indptr) for part in parts)])
    items = np.concatenate([np.empty(0, np.int32), *(part.items for part in parts)])
    values, units = np.empty((0, len(lists)), np.int16), np.empty((0, len(lists)), np.float32)
    values = np.concatenate([values, *(part.values for part in parts)])
    return MergedLists(np.cumsum(counts), items, values, np.concatenate([units, *(part.units for part in parts)]))


def _merged(lists: Sequence[Rows]) -> MergedLists:
    """Add the lists up, each with bits of its own in whole numbers of 64 bits."""
    units, total = np.zeros((len(lists[0]), len(lists)), np.float32), None
    for n, rows in enumerate(lists):
        units[:, n] = by_row(np.maximum, np.abs(rows.data), rows.indptr) / np.iinfo(np.int16).max
        found = np.rint(rows.data / np.repeat(np.maximum(units[:, n], np.float32(1e-30)), np.diff(rows.indptr)))
        own = found.astype(np.int64) << (_BITS * n)
        matrix = csr_array((own, rows.indices, rows.indptr), shape=(len(rows), rows.width))
        total = matrix if total is None else total + matrix
    assert total is not None
    rest, values = total.data, np.empty((total.nnz, len(lists)), np.int16)
    half = 1 << (_BITS - 1)
    for n in range(len(lists)):
        low = ((rest + half) & (2 * half - 1)) - half
        values[:, n], rest = low, (rest - low) >> _BITS
    return MergedLists(total.indptr.astype(np.int64), total.indices.astype(np.int32), values, units)
