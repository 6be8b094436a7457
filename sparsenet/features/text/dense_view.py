"""The second view of a text: its mean word vector, as dense features next to the sparse ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsenet.core.rows import POINTS_AT_A_TIME, Rows
from sparsenet.core.spilling import Spill
from sparsenet.features.text.word_vectors import WordVectors
from sparsenet.kernels.types import F32, I64, Bools


@dataclass(frozen=True, eq=False)
class DenseView:
    """Word vectors and their weight: the length of a text's vector, where its sparse features have length 1."""

    vectors: WordVectors
    weight: float = 1.0

    @property
    def dim(self) -> int:
        """Number of dense features."""
        return self.vectors.dim


@dataclass(frozen=True, eq=False)
class DenseFeatures:
    """The vectors of some texts, (n, dim), and their weight, without a copy of the vectors for each weight."""

    vectors: F32
    weight: float

    @property
    def dim(self) -> int:
        """Number of dense features."""
        return int(self.vectors.shape[1])

    def are_empty(self) -> Bools:
        """Return which texts have no known token."""
        return np.asarray(~self.vectors.any(axis=1))

    def beside(self, points: Rows, spill: Spill, texts: I64 | None = None) -> Rows:
        """Append dense features to the sparse points of all texts, or of some; large results go to temporary files."""
        n, dim = len(points), self.dim
        indptr = points.indptr + dim * np.arange(n + 1)
        indices, data = (spill.empty(int(indptr[-1]), dtype) for dtype in (np.int32, np.float32))
        own = np.arange(points.width, points.width + dim, dtype=np.int32)
        for begin in range(0, n, POINTS_AT_A_TIME):
            rows = slice(begin, min(begin + POINTS_AT_A_TIME, n))
            part, at = points.slice(rows.start, rows.stop), slice(int(indptr[rows.start]), int(indptr[rows.stop]))
            ends = indptr[rows.start + 1 : rows.stop + 1] - at.start
            is_dense = np.zeros(at.stop - at.start, bool)
            is_dense[(ends[:, None] + np.arange(-dim, 0)).reshape(-1)] = True
            values = self.vectors[rows if texts is None else texts[rows]] * np.float32(self.weight)
            indices[at][is_dense], data[at][is_dense] = np.tile(own, len(part)), values.reshape(-1)
            indices[at][~is_dense], data[at][~is_dense] = part.indices, part.data
        return Rows(indptr, indices, data, points.width + dim)
