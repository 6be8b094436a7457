"""Exclude labels from predictions, for each row or for all rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from sparsenet.kernels.types import F32, I32, I64, Bools


@dataclass(frozen=True, eq=False)
class Excluded:
    """Excluded labels: a matrix, (n, n_labels), or one mask for all rows, (n_labels,)."""

    own: csr_array | None
    common: Bools | None

    @classmethod
    def of(cls, exclude: Any, n: int, n_labels: int) -> Excluded:
        """Validate `exclude`, which is nonzero for excluded labels, against n rows."""
        try:
            if not issparse(exclude) and np.asarray(exclude).dtype.kind in "US":
                raise ValueError("got names of labels; labels are columns, in the order of classes_")
            matrix = csr_array(exclude)
            matrix = csr_array(matrix.reshape((1, -1))) if matrix.ndim == 1 else matrix
        except (TypeError, ValueError) as error:
            what = "an array or sparse matrix with a row for each of X, or one for all, and a column for each label"
            raise ValueError(f"exclude must be {what}, nonzero where a row must not get it: {error}") from None
        if matrix.shape not in ((n, n_labels), (1, n_labels)):
            wanted = f"(rows of X, labels), {(n, n_labels)}, or {(n_labels,)} for all rows"
            raise ValueError(f"exclude has the shape {np.shape(exclude)}, must be {wanted}")
        matrix = matrix.astype(bool)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        return cls(None, matrix.toarray().reshape(-1)) if matrix.shape[0] == 1 else cls(matrix, None)

    def counts(self, n: int) -> I64:
        """Count the excluded labels of each of n rows, (n,)."""
        if self.common is not None:
            return np.full(n, np.count_nonzero(self.common), np.int64)
        assert self.own is not None
        return np.diff(self.own.indptr).astype(np.int64)

    def among(self, labels: I32, points: I64) -> Bools:
        """Return a mask of the excluded labels among `labels`, (n_points, any), of the given rows."""
        if self.common is not None:
            return self.common[labels]
        found: Any = self.own[points[:, None], labels]  # type: ignore[index]  # set unless `common` is
        return np.asarray(found.toarray(), np.bool_)

    def take(self, points: I64) -> Excluded:
        """Return the exclusions of the given rows."""
        return self if self.own is None else Excluded(self.own[points], None)


def without(labels: I32, p: F32, dropped: Bools, k: int) -> tuple[I32, F32]:
    """Return the first k labels of each row that are not dropped, and their p, padded with -1 and 0."""
    order = np.argsort(dropped, axis=1, kind="stable")[:, :k]
    is_dropped = np.take_along_axis(dropped, order, axis=1)
    best = np.where(is_dropped, np.int32(-1), np.take_along_axis(labels, order, axis=1))
    return best, np.where(is_dropped, np.float32(0), np.take_along_axis(p, order, axis=1))
