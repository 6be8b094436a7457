"""Rows coded in 4 bits for each group of about four columns: product quantization with 16 centroids a group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsenet.kernels.types import F32, I16, I64, U8

#: Centroids of a group, and rows of a block.
N_CODES, BLOCK_ROWS = 16, 32
#: The most groups, so that sums of their products fit into 16 bits.
MAX_GROUPS = 65532
#: Rows that are coded at a time, a multiple of the rows of a block.
AT_A_TIME = 1 << 14


class Codebook(NamedTuple):
    """The centroids of the groups, ``unit * centroids`` (g, 16, m); column c is number ``c // g`` of group ``c % g``.

    The unit is a power of two. Columns that the rows lack are zeros.
    """

    centroids: I16
    unit: float

    @classmethod
    def learn(cls, rows: F32, *, n_iterations: int = 16) -> Codebook:
        """Learn the centroids of each group by k-means from rows in random order."""
        groups = _grouped(rows, n_groups_of(rows.shape[1]))
        found = np.zeros((len(groups), N_CODES, groups.shape[1]), np.float32)
        if len(rows):
            found[:] = groups[:, :, np.arange(N_CODES) % len(rows)].transpose(0, 2, 1)
            for own in _parts(groups):
                for _ in range(n_iterations):
                    _improve(groups[own], found[own])
        unit = 2.0 ** np.ceil(np.log2(max(float(np.abs(found).max(initial=0)), 1e-30) / 32767))
        return cls(np.rint(found / unit).astype(np.int16), unit)

    def codes(self, rows: F32) -> U8:
        """Return the number of the nearest centroid of each group, (g, n)."""
        groups, centroids = _grouped(rows, len(self.centroids)), self.centroids * np.float32(self.unit)
        found = np.empty((len(groups), len(rows)), np.uint8)
        for own in _parts(groups):
            found[own] = _nearest(groups[own], centroids[own])
        return found


class GroupCodes(NamedTuple):
    """Rows in blocks of 32: byte i of a group has row i in its lower half and row 16 + i in its upper half.

    `blocks` is (ceil(n / 32), g, 16).
    """

    codebook: Codebook
    blocks: U8

    @classmethod
    def empty(cls, codebook: Codebook, n: int) -> GroupCodes:
        """Return n rows to write."""
        return cls(codebook, np.empty((-(-n // BLOCK_ROWS), len(codebook.centroids), N_CODES), np.uint8))

    def write(self, start: int, rows: F32) -> None:
        """Code rows and put them from a position on, a multiple of 32; other rows of their blocks are lost."""
        for first in range(0, len(rows), AT_A_TIME):
            self.put(start + first, self.codebook.codes(rows[first : first + AT_A_TIME]))

    def put(self, start: int, codes: U8) -> None:
        """Put codes (g, n) from a position on, a multiple of 32; other rows of their blocks are lost."""
        codes = np.pad(codes, ((0, 0), (0, -codes.shape[1] % BLOCK_ROWS)))
        halves = codes.reshape(len(codes), -1, 2, N_CODES).transpose(1, 0, 2, 3)
        at = start // BLOCK_ROWS
        self.blocks[at : at + len(halves)] = halves[:, :, 0] | halves[:, :, 1] << 4

    def take(self, at: I64) -> U8:
        """Return the codes of the rows at positions `at`, (g, n)."""
        pairs = self.blocks[at // BLOCK_ROWS, :, at % N_CODES]
        return (pairs >> (at % BLOCK_ROWS // N_CODES * 4).astype(np.uint8)[:, None] & np.uint8(15)).T

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.codebook.centroids.nbytes + self.blocks.nbytes

    @staticmethod
    def memory(n: int, width: int) -> int:
        """Return the bytes of the codes of n rows."""
        n_groups = n_groups_of(width)
        return n_groups * N_CODES * (-(-n // BLOCK_ROWS) + 2 * -(-width // n_groups))


def n_groups_of(width: int) -> int:
    """Return the number of groups of `width` columns: of about four, a multiple of 4, and at most `MAX_GROUPS`."""
    return 4 * min(max(1, round(width / 16)), MAX_GROUPS // 4)


def _grouped(rows: F32, n_groups: int) -> F32:
    """Return the columns of each group, (g, m, n)."""
    n, width = rows.shape
    groups = np.zeros((n_groups, -(-width // n_groups), n), np.float32)
    for column in range(width):
        groups[column % n_groups, column // n_groups] = rows[:, column]
    return groups


def _parts(groups: F32) -> Iterator[slice]:
    """Yield the groups that are computed together: few of many rows, so that they fit into the cache."""
    step = max(1, (1 << 16) // max(groups.shape[2], 1))
    for first in range(0, len(groups), step):
        yield slice(first, first + step)


def _nearest(columns: F32, centroids: F32) -> NDArray[np.uint8]:
    """Return the centroid (g, 16, m) that is nearest to each point (g, m, n), the first one on ties, (g, n)."""
    best = np.full((len(columns), columns.shape[2]), -np.inf, np.float32)
    codes, score, product = np.zeros(best.shape, np.uint8), np.empty_like(best), np.empty_like(best)
    squares = np.einsum("gcm,gcm->gc", centroids, centroids)
    for code in range(N_CODES):
        score[:] = -np.float32(0.5) * squares[:, code, None]
        for column in range(columns.shape[1]):
            score += np.multiply(columns[:, column], centroids[:, code, column, None], out=product)
        np.copyto(codes, np.uint8(code), where=score > best)
        np.maximum(best, score, out=best)
    return codes


def _improve(columns: F32, centroids: F32) -> None:
    """Move each centroid to the mean of the points that are nearest to it."""
    bins = (_nearest(columns, centroids) + N_CODES * np.arange(len(columns))[:, None]).ravel()
    counts = np.bincount(bins, minlength=N_CODES * len(columns)).reshape(-1, N_CODES)
    for column in range(columns.shape[1]):
        sums = np.bincount(bins, columns[:, column].ravel(), counts.size).reshape(counts.shape)
        np.divide(sums, counts, out=centroids[:, :, column], where=counts > 0, casting="same_kind")
