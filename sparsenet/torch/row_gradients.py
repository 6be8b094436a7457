"""Gradients of rows, summed over the backward passes before a step, and the memory that batches share."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from sparsenet.core.batches import Slots, Workspace
from sparsenet.engines.network.optim import Parameter
from sparsenet.kernels.types import F32, I64


class BatchSpace(NamedTuple):
    """Scratch memory of a batch, from its forward pass to the step that uses its gradient."""

    features: Slots
    labels: Slots
    workspace: Workspace


@dataclass
class RowGradient:
    """The gradient of some distinct rows of a weight matrix: `grads[i]` belongs to row `rows[i]`."""

    rows: I64
    grads: F32

    def plus(self, other: RowGradient) -> RowGradient:
        """Return the sum; rows are ascending."""
        rows, positions = np.unique(np.concatenate((self.rows, other.rows)), return_inverse=True)
        grads = np.zeros((len(rows), self.grads.shape[1]), np.float32)
        grads[positions[: len(self.rows)]] = self.grads  # rows are distinct
        grads[positions[len(self.rows) :]] += other.grads
        return RowGradient(rows, grads)


@dataclass
class Gradients:
    """The gradients since the last step, by the names of their parameters."""

    by_name: dict[str, RowGradient] = field(default_factory=dict)
    lent: list[BatchSpace] = field(default_factory=list)
    free: list[BatchSpace] = field(default_factory=list)

    def space(self, n_features: int, n_labels: int) -> BatchSpace:
        """Return memory for a batch, reused if some is free."""
        return self.free.pop() if self.free else BatchSpace(Slots(n_features), Slots(n_labels), Workspace())

    def add(self, parameters: list[Parameter], space: BatchSpace) -> None:
        """Add the gradients that a backward pass recorded in `parameters`; they may use the memory of its batch."""
        for parameter in parameters:
            found = parameter.take_gradient()
            if found is not None:
                new, old = RowGradient(*found), self.by_name.get(parameter.name)
                self.by_name[parameter.name] = new if old is None else old.plus(new)
        self.lent.append(space)

    def norm(self) -> float:
        """Return the Euclidean norm; infinity or NaN if the gradient overflowed."""
        # Not `np.dot`: BLAS adds in another order for another number of threads.
        flat = [gradient.grads.reshape(-1) for gradient in self.by_name.values()]
        return math.sqrt(sum(float(np.einsum("i,i->", grads, grads, dtype=np.float64)) for grads in flat))

    def clear(self) -> None:
        """Drop the gradients, and free the memory of one batch for the next."""
        self.free, self.lent, self.by_name = [*self.free, *self.lent][:1], [], {}
