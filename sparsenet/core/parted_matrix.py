"""Several matrices with the same rows, such as words and vectors: a mapping of names to matrices as X."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class PartedMatrix:
    """Validated matrices with the same rows, sparse or dense. Columns are numbered through, part after part."""

    parts: dict[str, Any]

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows, and of columns of all parts."""
        first = next(iter(self.parts.values()))
        return int(first.shape[0]), int(self._ends[-1])

    @property
    def widths(self) -> dict[str, int]:
        """The number of columns of each part."""
        return {name: int(part.shape[1]) for name, part in self.parts.items()}

    def name(self, column: int) -> str:
        """Return the name of a column: its part, and its number there."""
        name, own = self._place(column)
        return f"{name} {own}"

    def value(self, row: int, column: int) -> float:
        """Return one value."""
        name, own = self._place(column)
        return float(self.parts[name][row, own])

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        return np.cumsum(list(self.widths.values()))

    def _place(self, column: int) -> tuple[str, int]:
        number = bisect_right(self._ends.tolist(), column)
        name = list(self.parts)[number]
        return name, column - int(self._ends[number]) + self.widths[name]


def is_parted(X: Any) -> bool:
    """Return whether X is a mapping of names to matrices, rather than of names to columns."""
    return isinstance(X, Mapping) and len(X) > 0 and all(_is_matrix(part) for part in X.values())


def _is_matrix(part: Any) -> bool:
    shape = getattr(part, "shape", None)
    if shape is not None:
        return len(shape) == 2
    is_list = isinstance(part, list | tuple) and len(part) > 0
    return (is_list and isinstance(part[0], list | tuple | np.ndarray)) or hasattr(part, "__dlpack__")


def check_parts_are_matrices(X: Mapping[Any, Any]) -> None:
    """Refuse a part that is no matrix next to one that is, and paths; do nothing for a mapping of columns alone."""
    if not any(_is_matrix(part) or _is_array_file(part) for part in X.values()):
        return
    for name, part in X.items():
        if isinstance(part, str | os.PathLike):
            path = os.fspath(part)
            load = "scipy.sparse.load_npz" if str(path).endswith(".npz") else "np.load"
            raise ValueError(f"X[{name!r}] must be a matrix, got the path {path!r}: pass {load}({path!r})")
        if not _is_matrix(part):
            shape = f" of shape {part.shape}" if hasattr(part, "shape") else ""
            raise ValueError(
                f"X[{name!r}] must be a matrix with a row for each point, got a {type(part).__name__}{shape}"
            )


def _is_array_file(part: Any) -> bool:
    return isinstance(part, str | os.PathLike) and str(part).endswith((".npy", ".npz"))


def check_parts(X: Mapping[Any, Any], known: Mapping[str, int] | None) -> list[str]:
    """Check the names of parts against the training parts `known`; return them in training order."""
    for name in X:
        if not isinstance(name, str):
            raise ValueError(f"X has a part with the name {name!r}: names of parts must be strings")
    if known is None:
        return list(X)
    for name in known:
        if name not in X:
            raise ValueError(f"X has no part {name!r}: the model learnt from {described(known)}")
    for name in X:
        if name not in known:
            raise ValueError(f"X has a part {name!r}, but the model learnt from {described(known)}: leave it out")
    return list(known)


def check_sizes(parts: Mapping[str, Any], known: Mapping[str, int] | None) -> None:
    """Refuse parts of different numbers of rows, and of other widths than in training."""
    (first, one), *others = parts.items()
    for name, part in others:
        if part.shape[0] != one.shape[0]:
            problem = f"X[{name!r}] has {part.shape[0]} rows, X[{first!r}] has {one.shape[0]}"
            raise ValueError(f"{problem}: all parts must have a row for each point")
    for name, width in (known or {}).items():
        if parts[name].shape[1] != width:
            raise ValueError(f"X[{name!r}] has {parts[name].shape[1]} columns, the model learnt from {width}")


def described(known: Mapping[str, int]) -> str:
    """Return the parts of training in words."""
    return ", ".join(f"{name!r} ({width} columns)" for name, width in known.items())
