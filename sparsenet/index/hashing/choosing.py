"""Which family of hashes, and how many tables: whichever finds the most of the best labels, tried on those there are.

What a family finds depends on the hidden vectors, and nothing tells beforehand: after three passes over citeulike-t
without a wide path 50 tables of SimHash found 90 % of the best five labels, and of DWTA 2 %.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import get_args

from sparsenet.index.hashing.hash_index import LSHIndex
from sparsenet.index.hashing.lsh_config import Family, LSHConfig
from sparsenet.kernels.types import F32

#: Tables with which families are compared, then more where too little is found with so many, or fewer.
TABLES, MORE_TABLES, FEWER_TABLES = 50, 100, 25
#: The share of the best labels that is enough, and what twice the tables have to find beyond that of half as many.
ENOUGH, WORTH_MORE = 0.9, 0.05


def first_guess(n_labels: int, seed: int) -> LSHConfig:
    """Say how to hash as long as there is nothing to measure."""
    return LSHConfig.for_size(n_labels, "simhash", n_tables=TABLES, seed=seed)


def best_index(
    weight: F32, bias: F32, queries: F32, recall: Callable[[LSHIndex], float], *, seed: int, threads: int
) -> tuple[LSHIndex, dict[str, float]]:
    """Return an index of the family that finds the most, with as many tables as pay, and what each family found.

    It depends on counts alone, never on time, and so is the same wherever the weights are. Families but SimHash are
    tried where no query is negative, which they do not tell from zero.
    """

    def made(family: Family, n_tables: int) -> tuple[float, LSHIndex]:
        config = LSHConfig.for_size(len(weight), family, n_tables=n_tables, seed=seed)
        index = LSHIndex(config, len(weight), weight.shape[1], threads)
        index.rebuild(weight, bias)
        return recall(index), index

    found: dict[str, float] = {}
    best: tuple[float, LSHIndex] | None = None
    for family in _families(queries):
        share, index = made(family, TABLES)
        found[family] = share
        if best is None or share > best[0]:
            best = share, index
    assert best is not None
    share, index = best
    other, candidate = made(index.config.family, FEWER_TABLES if share >= ENOUGH else MORE_TABLES)
    if other >= (ENOUGH if share >= ENOUGH else share + WORTH_MORE):
        index = candidate
    return index, found


def _families(queries: F32) -> Iterator[Family]:
    yield from get_args(Family) if queries.min(initial=0) >= 0 else ("simhash",)


def most_memory(n_labels: int, width: int, threads: int) -> int:
    """Return the bytes of the most that is held at a time: the best of those tried, and one with more tables."""
    return sum(
        max(
            LSHConfig.for_size(n_labels, family, n_tables=n_tables).memory(n_labels, width, threads)
            for family in get_args(Family)
        )
        for n_tables in (TABLES, MORE_TABLES)
    )
