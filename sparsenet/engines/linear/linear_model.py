"""A linear text model: one-vs-rest weights of 8 bits, and the calibration of its scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sparsenet import kernels
from sparsenet.core.rows import Rows, as_matrix
from sparsenet.engines.linear.calibration import Calibration
from sparsenet.kernels.types import F32, F64, I8, I32, I64, Arrays


@dataclass(frozen=True, eq=False)
class LinearModel:
    """Weights of 8 bits with a factor for each feature, biases and a calibration.

    Attributes
    ----------
    matrix : shape (n_features, n_columns), or (n_weights,) with `indptr`; int8
    factors : shape (n_features,)
    bias : shape (n_columns,)
    calibration : Calibration
    offset : shape (n_columns,), or None
        The part of `bias` that comes from held-out texts instead of training.
    unknown : shape (n_columns,), or None
        The scores of a text without known features.
    indptr, columns : shape (n_features + 1,) and (n_weights,), or None
        For a sparse model: the weights of feature f are ``matrix[indptr[f] : indptr[f + 1]]``, and `columns` holds
        their labels.
    """

    matrix: I8
    factors: F32
    bias: F32
    calibration: Calibration = field(default_factory=Calibration)
    indptr: I64 | None = None
    columns: I32 | None = None
    offset: F32 | None = None
    unknown: F32 | None = None

    @property
    def n_columns(self) -> int:
        """Number of columns: one for two exclusive labels, else one for each label."""
        return len(self.bias)

    @property
    def n_weights(self) -> int:
        """Number of weights, biases included."""
        return int(self.matrix.size + self.bias.size)

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the arrays and metadata that `of_arrays` takes."""
        # One array takes less room on disk than two.
        bias = self.bias if self.unknown is None else np.stack([self.bias, self.unknown])
        arrays: Arrays = {"matrix": self.matrix, "factors": self.factors, "bias": bias}
        if self.indptr is not None and self.columns is not None:
            arrays |= {"indptr": self.indptr, "columns": self.columns}
        if self.offset is not None:
            arrays["offset"] = self.offset
        return arrays, {}

    @classmethod
    def of_arrays(cls, arrays: Arrays, metadata: Mapping[str, Any]) -> LinearModel:
        """Make a model of the result of `to_arrays`."""
        bias, *unknown = arrays["bias"] if arrays["bias"].ndim == 2 else [arrays["bias"]]
        optional = {name: arrays.get(name) for name in ("indptr", "columns", "offset")}
        calibration, (unknown_scores,) = Calibration.checked(metadata), unknown or [None]
        return cls(arrays["matrix"], arrays["factors"], bias, calibration, **optional, unknown=unknown_scores)

    @classmethod
    def rounded(cls, weight: F32) -> LinearModel:
        """Round weights with biases in the last row to 8 bits."""
        largest = np.abs(weight[:-1]).max(axis=1, initial=0)
        factors = (largest / 127).astype(np.float32)
        inverse = np.divide(1, factors, out=np.zeros_like(factors), where=factors > 0)
        matrix = np.rint(weight[:-1] * inverse[:, None]).astype(np.int8)
        return cls(matrix, factors, weight[-1].copy())

    @classmethod
    def of_sparse(cls, weight: Any, bias: F32) -> LinearModel:
        """Round the entries of a CSR matrix (n_features, n_columns) to 8 bits."""
        d = weight.shape[0]
        feature = np.repeat(np.arange(d), np.diff(weight.indptr))
        largest = np.zeros(d, np.float32)
        np.maximum.at(largest, feature, np.abs(weight.data))
        factors = np.asarray(largest / 127, np.float32)
        matrix = np.rint(weight.data / factors[feature]).astype(np.int8)
        indptr, columns = weight.indptr.astype(np.int64), weight.indices.astype(np.int32)
        return cls(matrix, factors, bias, indptr=indptr, columns=columns)

    def weights(self) -> F32:
        """Return the weights as trained, up to rounding, with biases in the last row; dropped weights are 0."""
        found = np.empty((len(self.factors) + 1, len(self.bias)), np.float32)
        found[-1] = self.bias if self.offset is None else self.bias - self.offset
        if self.indptr is not None:
            self._as_csr().toarray(out=found[:-1])
        else:
            np.multiply(self.matrix, self.factors[:, None], out=found[:-1])
        return found

    def _as_csr(self) -> Any:
        assert self.indptr is not None
        data = self.matrix * np.repeat(self.factors, np.diff(self.indptr))
        shape = (len(self.factors), len(self.bias))
        return sparse.csr_array((data, np.asarray(self.columns), self.indptr), shape=shape)

    def column(self, number: int) -> NDArray[np.float64]:
        """Return the weights of one column, (n_features,)."""
        if self.indptr is None:
            return self.matrix[:, number].astype(np.float64) * self.factors
        assert self.columns is not None
        own = np.flatnonzero(self.columns == number)
        feature = np.searchsorted(self.indptr, own, side="right") - 1
        found = np.zeros(len(self.factors))
        found[feature] = self.matrix[own] * self.factors[feature].astype(np.float64)
        return found

    def knows(self, features: I32) -> bool:
        """Return whether any of these features has a weight."""
        if self.indptr is None:
            return bool(self.matrix[features].any())
        return bool(np.any(self.indptr[features + 1] > self.indptr[features]))

    def calibrated(self, calibration: Calibration, shifts: F64 | None = None) -> LinearModel:
        """Set the calibration, and add `shifts` (n_labels,) of scores to the biases."""
        if shifts is None:
            return replace(self, calibration=calibration)
        own = np.diff(shifts) / 2 if self.n_columns == 1 and len(shifts) == 2 else shifts
        return replace(self, calibration=calibration).moved(np.asarray(own, np.float32))

    def moved(self, offset: F32 | None) -> LinearModel:
        """Add an offset to the trained biases."""
        return self if offset is None else replace(self, bias=self.bias + offset, offset=offset)

    def scores(self, points: Rows, threads: int) -> F32:
        """Score points: (n, n_columns)."""
        if self.indptr is not None:
            return np.asarray((as_matrix(points) @ self._as_csr()).toarray() + self.bias, np.float32)
        out = np.empty((len(points), len(self.bias)), np.float32)
        dense = np.ascontiguousarray(self.matrix * self.factors[:, None])
        kernels.csr_matmul(points.indptr, points.indices, points.data, dense, out, threads)
        out += self.bias
        return out


def both_classes(scores: F32, n_labels: int) -> F32:
    """Return scores of both labels if a single column scores two of them."""
    return np.hstack([-scores, scores]) if scores.shape[1] == 1 and n_labels == 2 else scores
