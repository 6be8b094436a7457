"""The second view of a text: its mean word vector, as dense features next to the sparse ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsenet.core.rows import POINTS_AT_A_TIME, Rows
from sparsenet.features.text.spilling import Spill
from sparsenet.features.text.word_vectors import WordVectors
from sparsenet.kernels.types import F32


@dataclass(frozen=True, eq=False)
class DenseView:
    """Word vectors and their weight: the length of a text's vector, where its sparse features have length 1."""

    vectors: WordVectors
    weight: float = 1.0

    @property
    def dim(self) -> int:
        """Number of dense features."""
        return self.vectors.dim

    def points(self, texts: list[str], threads: int) -> F32:
        """Return the dense features of texts, (n, dim)."""
        return self.weighted(self.vectors.vectors_of(texts, threads))

    def weighted(self, vectors: F32) -> F32:
        """Scale vectors of length 1."""
        return vectors * np.float32(self.weight)


def beside(points: Rows, dense: F32, spill: Spill) -> Rows:
    """Append dense features to sparse points; large results go to temporary files."""
    n, dim = dense.shape
    indptr = points.indptr + dim * np.arange(n + 1)
    indices, data = (spill.empty(int(indptr[-1]), dtype) for dtype in (np.int32, np.float32))
    own = np.arange(points.width, points.width + dim, dtype=np.int32)
    for begin in range(0, n, POINTS_AT_A_TIME):
        rows = slice(begin, min(begin + POINTS_AT_A_TIME, n))
        part = points.slice(rows.start, rows.stop)
        at = slice(int(indptr[rows.start]), int(indptr[rows.stop]))
        is_dense = np.zeros(at.stop - at.start, bool)
        is_dense[((indptr[rows.start + 1 : rows.stop + 1] - at.start)[:, None] + np.arange(-dim, 0)).reshape(-1)] = True
        indices[at][is_dense], data[at][is_dense] = np.tile(own, len(part)), dense[rows].reshape(-1)
        indices[at][~is_dense], data[at][~is_dense] = part.indices, part.data
    return Rows(indptr, indices, data, points.width + dim)
