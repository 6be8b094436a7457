"""Vectors as differences from a center, so that what they share costs no precision."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsenet.kernels.types import F32


class Centering(NamedTuple):
    """Split vectors and queries so that only their differences from the center are rounded.

    A vector x becomes y = x - c and a column c.y / scale, where c is `center`. A query q becomes its part
    orthogonal to c and a column scale * q.c / c.c. The product of both is q.y, which is q.x - q.c.
    """

    center: F32
    scale: float

    @classmethod
    def of(cls, vectors: F32) -> Centering:
        """Center on the mean of `vectors`; the scale makes the column about as large as the others."""
        center = vectors.mean(axis=0, dtype=np.float64).astype(np.float32) if len(vectors) else vectors.sum(axis=0)
        differences = vectors - center
        column = np.abs(_products(differences, center)).max(initial=0)
        largest = max(differences.max(initial=0), -differences.min(initial=0))
        return cls(center, float(column / largest) if column > 0 else 1.0)

    def vectors(self, vectors: F32) -> F32:
        """Return the differences of vectors (n, h) from the center, and the column, (n, h + 1)."""
        found = np.empty((len(vectors), len(self.center) + 1), np.float32)
        np.subtract(vectors, self.center, out=found[:, :-1])
        found[:, -1] = _products(found[:, :-1], self.center) / self.scale
        return found

    def queries(self, queries: F32) -> tuple[F32, NDArray[np.float64]]:
        """Return the queries (n, h) split, (n, h + 1), and their products with the center, (n,)."""
        square = _products(self.center[None], self.center)[0]
        products = _products(queries, self.center)
        along = products / square if square > 0 else np.zeros(len(queries))
        rest = queries - along[:, None] * self.center
        return np.column_stack((rest, along * self.scale)).astype(np.float32), products


def _products(vectors: F32, center: F32) -> NDArray[np.float64]:
    return np.asarray(np.einsum("ij,j->i", vectors, center, dtype=np.float64))
