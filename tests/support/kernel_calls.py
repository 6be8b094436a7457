"""Calls of kernels at any size and alignment, and their ingredients."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support import reference

Array = NDArray[Any]
Arguments = dict[str, Any]

SIZES = (0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 100, 128)
N_FEATURES = 40
#: Kernels without an argument `threads`.
ALONE = {"transpose_batch", "take_rows", "spread_postings"}


@dataclass(frozen=True)
class Shape:
    """Extents of a call: points of the batch, columns of dense rows, labels."""

    n: int
    width: int
    labels: int


# Each size for each extent; the other two extents are odd and small.
SHAPES = [
    shape
    for size in SIZES
    for shape in (Shape(9, size, 11), Shape(size, 5, 7), Shape(6, 7, size), Shape(size, size, size))
]
# Enough work for any kernel to split it into several tasks.
LARGE = (Shape(256, 128, 1000), Shape(251, 100, 1013))


def aligned(x: Array, offset: int = 0) -> Array:
    """Copy to memory that starts `offset` bytes behind a 64-byte boundary."""
    buffer = np.empty(x.nbytes + 128, np.uint8)
    start = -buffer.ctypes.data % 64 + offset
    out = buffer[start : start + x.nbytes].view(x.dtype).reshape(x.shape)
    out[...] = x
    return out


def misaligned(x: Array) -> Array:
    """Copy to memory as badly aligned as the type allows."""
    return aligned(x, x.itemsize)


@dataclass(frozen=True)
class Call:
    """One call: the kernel's name, its arguments, and which of them it writes."""

    function: str
    arguments: Arguments
    writes: tuple[str, ...]
    tolerance: float = 3e-5

    def run(
        self, backend: ModuleType, threads: int = 1, place: Callable[[Array], Array] = np.copy
    ) -> reference.Outputs:
        """Run on copies made by `place` and return what was written, cut to what the contract defines."""
        arguments = {name: place(x) if isinstance(x, np.ndarray) else x for name, x in self.arguments.items()}
        if self.function not in ALONE:
            arguments["threads"] = threads
        returned = getattr(backend, self.function)(**arguments)
        outputs = {name: arguments[name] for name in self.writes}
        return outputs if returned is None else outputs | {"returned": np.array(returned)}

    def expected(self) -> reference.Outputs:
        """Return the oracle's outputs for the same inputs."""
        oracle = getattr(reference, self.function)
        inputs = inspect.signature(oracle).parameters.values()
        if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in inputs):
            return oracle(**self.arguments)
        return oracle(**{parameter.name: self.arguments[parameter.name] for parameter in inputs})


# --- ingredients ---


def normal(rng: np.random.Generator, *shape: int) -> Array:
    return rng.standard_normal(shape, dtype=np.float32)


def whole(rng: np.random.Generator, *shape: int) -> Array:
    """Draw small integers: sums are exact in any order, and ties are frequent."""
    return rng.integers(-3, 4, shape).astype(np.float32)


def csr(
    rng: np.random.Generator, n_rows: int, n_columns: int, draw: Callable[..., Array] = normal, most: int = 12
) -> tuple[Array, Array, Array]:
    """Draw rows of 0 to `most` entries, columns distinct and ascending."""
    lengths = rng.integers(0, min(most, n_columns) + 1, n_rows)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    rows = [np.sort(rng.choice(n_columns, length, replace=False)) for length in lengths]
    indices = np.concatenate([np.empty(0, np.int64), *rows]).astype(np.int32)
    return indptr, indices, draw(rng, len(indices))


def postings(rng: np.random.Generator, n: int) -> Arguments:
    """Draw a batch of `n` points and turn it into postings."""
    indptr, indices, data = csr(rng, n, N_FEATURES)
    slots = np.full(N_FEATURES, -1, np.int32)
    batch = reference.transpose_batch(indptr, indices, data, np.empty(0, np.int32), slots)
    return {
        "slots": batch["slots"],
        "starts": batch["starts"].astype(np.int64),
        "rows": batch["rows"].astype(np.int32),
        "values": batch["values"],
    }


def dense_postings(batch: Arguments, n: int) -> Arguments:
    """Give every third slot a dense row."""
    rows = reference.dense_postings(batch["starts"], batch["rows"], batch["values"], n).T
    dense_of = np.full(len(rows), -1, np.int32)
    dense_of[::3] = np.arange(len(dense_of[::3]))
    return {"dense_of": dense_of, "dense": np.ascontiguousarray(rows[::3], np.float32)}


def wide_batch(rng: np.random.Generator, shape: Shape) -> Arguments:
    """Draw the support of more labels than are active, and the part that a batch touches."""
    indptr, indices, weights = csr(rng, shape.labels + 5, N_FEATURES)
    active = rng.permutation(shape.labels + 5)[: shape.labels].astype(np.int32)
    batch = postings(rng, shape.n)
    touched = reference.wide_touch(active, indptr, indices, batch["slots"])
    return {
        "active": active,
        "indptr": indptr,
        "touched_indptr": touched["touched_indptr"].astype(np.int64),
        "touched": touched["touched"].astype(np.int64),
        "touched_slots": touched["touched_slots"].astype(np.int32),
        "indices": indices,
        "weights": weights,
        **batch,
        **dense_postings(batch, shape.n),
    }


def pick(source: Arguments, *names: str) -> Arguments:
    return {name: source[name] for name in names}
