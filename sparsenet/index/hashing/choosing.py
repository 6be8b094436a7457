"""Choose the hash family and the number of tables by measured recall.

The recall of a family depends on the hidden vectors and cannot be predicted. After three passes over citeulike-t
without a wide path, 50 tables found 90 % of the five best labels with SimHash, but 2 % with DWTA.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import get_args

from sparsenet.index.hashing.hash_index import LSHIndex
from sparsenet.index.hashing.lsh_config import Family, LSHConfig
from sparsenet.kernels.types import F32

#: Tables for comparing families; the best family is then tried with more, or with fewer if its recall is enough.
TABLES, MORE_TABLES, FEWER_TABLES = 50, 100, 25


def first_guess(n_labels: int, seed: int) -> LSHConfig:
    """Return the settings to use before there are weights to measure."""
    return LSHConfig.for_size(n_labels, "simhash", n_tables=TABLES, seed=seed)


def best_index(
    weight: F32,
    bias: F32,
    queries: F32,
    recall: Callable[[LSHIndex], float],
    *,
    seed: int,
    threads: int,
    enough: float = 0.9,
    min_gain: float = 0.05,
) -> tuple[LSHIndex, dict[str, float]]:
    """Return the index of the family with the best recall, and the recall of each family at `TABLES` tables.

    A recall of `enough` is worth keeping with half the tables. Below it, twice the tables must gain `min_gain`. Time is
    not measured, so the choice depends on the weights only. DWTA and MinHash cannot tell negative values from zero, so
    they are tried only without negative queries.
    """

    def build(family: Family, n_tables: int) -> tuple[float, LSHIndex]:
        config = LSHConfig.for_size(len(weight), family, n_tables=n_tables, seed=seed)
        index = LSHIndex(config, len(weight), weight.shape[1], threads)
        index.rebuild(weight, bias)
        return recall(index), index

    recalls: dict[str, float] = {}
    best: tuple[float, LSHIndex] | None = None
    for family in _families(queries):
        share, index = build(family, TABLES)
        recalls[family] = share
        if best is None or share > best[0]:
            best = share, index
    assert best is not None
    share, index = best
    other, candidate = build(index.config.family, FEWER_TABLES if share >= enough else MORE_TABLES)
    if other >= (enough if share >= enough else share + min_gain):
        index = candidate
    return index, recalls


def _families(queries: F32) -> Iterator[Family]:
    yield from get_args(Family) if queries.min(initial=0) >= 0 else ("simhash",)


def most_memory(n_labels: int, width: int, threads: int) -> int:
    """Return the peak memory of `best_index` in bytes: the best index so far and one with more tables."""
    return sum(
        max(
            LSHConfig.for_size(n_labels, family, n_tables=n_tables).memory(n_labels, width, threads)
            for family in get_args(Family)
        )
        for n_tables in (TABLES, MORE_TABLES)
    )
