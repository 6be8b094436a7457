"""Scale the parts of a parted matrix, each by its own kind, and put them side by side."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sparsenet.core.parted_matrix import PartedMatrix
from sparsenet.core.rows import Rows, as_matrix
from sparsenet.features.scaling import Scaling
from sparsenet.kernels.types import F64
from sparsenet.selection.choose import Decision

#: The value of `normalize_`.
PARTS = "parts"


class ScaledPart(NamedTuple):
    """The name, the number of columns and the scaling of a part."""

    name: str
    width: int
    scaling: Scaling


@dataclass(frozen=True)
class PartScaling(Scaling):
    """The scalings of the parts of X. Each part has the same share of a point's squared length."""

    parts: tuple[ScaledPart, ...] = ()

    @property
    def widths(self) -> dict[str, int]:
        """The number of columns of each part."""
        return {part.name: part.width for part in self.parts}

    @property
    def is_of_table(self) -> bool:
        """Whether a part has centres, so that every point has features."""
        return any(part.scaling.is_of_table for part in self.parts)

    def explained(self) -> Decision:
        """Return the kind of each part."""
        return Decision(PARTS, ", ".join(f"{part.name}: {part.scaling.kind}" for part in self.parts))

    def apply(self, X: Any) -> Rows:
        """Scale a parted matrix, or a matrix with the columns of all parts."""
        if not isinstance(X, PartedMatrix):
            X = PartedMatrix(self._split(X))
        return self.beside([part.scaling.apply(X.parts[part.name]) for part in self.parts])

    def apply_one(self, indices: NDArray[np.int32], values: F64, width: int) -> Rows:
        """Scale a single point, given by the ids and values of its non-zero features."""
        return self.apply(sparse.csr_array((values, indices, [0, len(indices)]), shape=(1, width)))

    def beside(self, rows: list[Rows]) -> Rows:
        """Put the scaled parts side by side, so that points have about unit length."""
        whole = sparse.hstack([as_matrix(part) for part in rows], format="csr")
        whole.data *= np.float32(1 / math.sqrt(len(rows)))
        return Rows.of(sparse.csr_array(whole), keep_zeros=True)

    def _split(self, X: Any) -> dict[str, Any]:
        parts, begin, by_column = {}, 0, sparse.csr_array(X).tocsc()
        for part in self.parts:
            parts[part.name] = sparse.csr_array(by_column[:, begin : begin + part.width])
            begin += part.width
        return parts
