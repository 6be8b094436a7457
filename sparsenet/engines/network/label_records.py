"""Everything that training keeps of some labels, as arrays that tasks read from files and write to files.

A label's record has its row of the output layer, its bias, its wide weights, and their optimizers' state. Files never
change: a task writes the records of the labels that a step changed to a file of its own. `RecordIndex` finds the newest
record of each label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet import kernels
from sparsenet.core.rows import Rows, pointers_of
from sparsenet.core.scratch import Scratch
from sparsenet.engines.network.optim import Parameter
from sparsenet.engines.network.output import SampledOutput
from sparsenet.engines.network.wide import WidePath
from sparsenet.kernels.types import F32, I32, I64


@dataclass(frozen=True)
class LabelRecords:
    """The records of labels.

    Attributes
    ----------
    rows : ndarray of shape (a,), int64
        The labels, as rows of a part.
    dense : tuple of ndarrays of shape (a, ...)
        Rows of the output layer and biases, each followed by the optimizer's state.
    indptr, indices : ndarrays
        The features of the wide weights of each label; none without a wide path.
    sparse : tuple of float32 ndarrays
        The wide weights, followed by the optimizer's state.
    """

    rows: I64
    dense: tuple[NDArray[Any], ...]
    indptr: I64
    indices: I32
    sparse: tuple[F32, ...]

    @classmethod
    def of_layer(cls, layer: SampledOutput, labels: I64, rows: I64) -> LabelRecords:
        """Copy the records of some labels of a layer."""
        dense = tuple(array[labels] for p in (layer.weight, layer.bias) for array in _with_state(p))
        if layer.wide is None:
            return cls(rows, dense, np.zeros(len(labels) + 1, np.int64), np.empty(0, np.int32), ())
        weight = layer.wide.weight
        arrays = [weight.value, *(weight.state[name] for name in _state_names(weight) if weight.state)]
        arrays = [array.reshape(-1) for array in arrays]
        indptr, indices, sparse = _taken(layer.wide.indptr, layer.wide.indices, arrays, labels)
        if not weight.state:
            sparse += tuple(np.zeros_like(sparse[0]) for _ in _state_names(weight))
        return cls(rows, dense, indptr, indices, sparse)

    @classmethod
    def get(cls, scratch: Scratch, name: str, n_dense: int) -> LabelRecords:
        """Map the records of a file."""
        rows, indptr, indices, *arrays = scratch.get(name)
        return cls(rows, tuple(arrays[:n_dense]), indptr, indices, tuple(arrays[n_dense:]))

    def put(self, scratch: Scratch, name: str) -> None:
        """Write the records to a file."""
        scratch.put(name, self.rows, self.indptr, self.indices, *self.dense, *self.sparse)

    def fill(self, layer: SampledOutput, n_features: int) -> SampledOutput:
        """Give the records to a layer that has a neuron for each of them, and return it."""
        arrays = iter(self.dense)
        for parameter in (layer.weight, layer.bias):
            _fill(parameter, arrays)
        if layer.wide is not None:
            layer.wide = WidePath(n_features, self.indptr, self.indices, layer.wide.config)
            _fill(layer.wide.weight, iter([array[:, None] for array in self.sparse]))
        return layer

    def after_step(self, layer: SampledOutput) -> LabelRecords:
        """Return the records that `fill` gave to a layer, with its present weights and state."""
        dense = tuple(array for p in (layer.weight, layer.bias) for array in _with_state(p))
        sparse = [] if layer.wide is None else _with_state(layer.wide.weight)
        return replace(self, dense=dense, sparse=tuple(array.reshape(-1) for array in sparse))

    def write_to(self, layer: SampledOutput, labels: I64) -> None:
        """Write the weights of some labels of a layer, and the optimizers' state where it is allocated."""
        arrays = iter(self.dense)
        for parameter in (layer.weight, layer.bias):
            for name, array in zip(("", *_state_names(parameter)), arrays, strict=False):
                if not name or name in parameter.state:
                    _named(parameter, name)[labels] = array
        if layer.wide is not None:
            starts = layer.wide.indptr[labels] - self.indptr[:-1]
            places = np.repeat(starts, np.diff(self.indptr)) + np.arange(len(self.indices))
            for name, array in zip(("", *_state_names(layer.wide.weight)), self.sparse, strict=True):
                if not name or name in layer.wide.weight.state:
                    _named(layer.wide.weight, name)[places, 0] = array


def n_dense(layer: SampledOutput) -> int:
    """Return the number of dense arrays of a layer's records."""
    return sum(1 + len(_state_names(parameter)) for parameter in (layer.weight, layer.bias))


def lacks_state(parameter: Parameter) -> bool:
    """Return whether the optimizer's state of a parameter is not allocated."""
    return not parameter.state and bool(_state_names(parameter))


def allocate(parameter: Parameter, *, with_state: bool) -> None:
    """Allocate the weights and, `with_state`, the optimizer's state of a parameter."""
    parameter.allocate()
    if with_state:
        shapes = parameter.optimizer.state_shapes(parameter.shape)
        parameter.state = {name: np.zeros(shape, dtype) for name, (shape, dtype) in shapes.items()}


def _state_names(parameter: Parameter) -> list[str]:
    return list(parameter.optimizer.state_shapes(parameter.shape))


def _named(parameter: Parameter, name: str) -> NDArray[Any]:
    return parameter.state[name] if name else parameter.value


def _with_state(parameter: Parameter) -> list[NDArray[Any]]:
    """Return the weights and the arrays of the state, which are zeros before the first step."""
    if not parameter.state:
        shapes = parameter.optimizer.state_shapes(parameter.shape)
        zeros: list[NDArray[Any]] = [np.broadcast_to(np.zeros((), dtype), shape) for shape, dtype in shapes.values()]
        return [parameter.value, *zeros]
    return [parameter.value, *(parameter.state[name] for name in _state_names(parameter))]


def _fill(parameter: Parameter, arrays: Any) -> None:
    parameter.allocate(next(arrays))
    parameter.state = {name: next(arrays) for name in _state_names(parameter)}


def _taken(indptr: I64, indices: I32, arrays: Sequence[F32], rows: I64) -> tuple[I64, I32, tuple[F32, ...]]:
    """Take the wide weights, and the arrays of their state, of some labels."""
    taken = [Rows(indptr, indices, np.ascontiguousarray(array), 0).take(rows) for array in arrays]
    return taken[0].indptr, taken[0].indices, tuple(each.data for each in taken)


@dataclass
class RecordIndex:
    """Finds the newest record of each row of a part; records are numbered through all its files.

    Attributes
    ----------
    newest : ndarray of shape (n_rows,), int64
        The number of the newest record of each row.
    names, starts : list of str, list of int
        The files, and the number of the first record of each.
    """

    n_dense: int
    newest: I64
    names: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])

    def add(self, scratch: Scratch, name: str) -> None:
        """Add a file whose records are newer than all others."""
        rows, first = scratch.get(name)[0], self.starts[-1]
        self.newest[rows] = np.arange(first, first + len(rows))
        self.names.append(name)
        self.starts.append(first + len(rows))

    def read(self, scratch: Scratch, rows: I64) -> tuple[LabelRecords, I64]:
        """Copy the newest records of some rows, file by file; also return the place of each row among them."""
        numbers = self.newest[rows]
        files = np.searchsorted(self.starts, numbers, side="right") - 1
        order = np.argsort(files, kind="stable")
        used, begins = np.unique(files[order], return_index=True)
        pieces = []
        for file, own in zip(used.tolist(), np.split(order, begins[1:]), strict=False):
            records = LabelRecords.get(scratch, self.names[file], self.n_dense)
            pieces.append((records, numbers[own] - self.starts[file]))
        place = np.empty(len(rows), np.int64)
        place[order] = np.arange(len(rows))
        return _joined(rows[order], pieces), place


def _joined(rows: I64, pieces: Sequence[tuple[LabelRecords, I64]]) -> LabelRecords:
    """Copy records of several files, each with the numbers of its own, into one."""
    if not pieces:
        return LabelRecords(rows, (), np.zeros(1, np.int64), np.empty(0, np.int32), ())
    first, begins = pieces[0][0], np.cumsum([0, *(len(own) for _, own in pieces)]).tolist()
    dense = tuple(np.empty((len(rows), *array.shape[1:]), array.dtype) for array in first.dense)
    lengths = [records.indptr[own + 1] - records.indptr[own] for records, own in pieces]
    indptr = pointers_of(np.concatenate(lengths))
    indices = np.empty(indptr[-1], np.int32)
    sparse = tuple(np.empty(indptr[-1], np.float32) for _ in first.sparse)
    for (records, own), begin, end in zip(pieces, begins, begins[1:], strict=False):
        for out, array in zip(dense, records.dense, strict=True):
            np.take(array, own, axis=0, out=out[begin:end])
        span, pointers = slice(indptr[begin], indptr[end]), indptr[begin : end + 1] - indptr[begin]
        for values, out in zip(records.sparse, sparse, strict=True):
            kernels.take_rows(records.indptr, records.indices, values, own, pointers, indices[span], out[span])
    return LabelRecords(rows, dense, indptr, indices, sparse)
