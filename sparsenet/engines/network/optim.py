"""Parameters and lazy row optimizers: only rows with a gradient are read or written."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sparsenet import kernels
from sparsenet.core import aligned
from sparsenet.core.narrow_rows import NarrowRows
from sparsenet.core.validation import choice, real
from sparsenet.kernels.types import F32, I32, I64

State = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Product:
    """A lazy gradient: the product of a sparse CSR matrix (`indptr`, `indices`, `data`) and `dense`.

    Shapes: indptr (m + 1,), indices and data (nnz,), dense (n, h); the gradient is (m, h).
    """

    indptr: I64
    indices: I32
    data: F32
    dense: F32

    def compute(self, threads: int) -> F32:
        """Compute the gradient, (m, h)."""
        out = np.empty((len(self.indptr) - 1, self.dense.shape[1]), np.float32)
        kernels.csr_matmul(self.indptr, self.indices, self.data, self.dense, out, threads)
        return out


class Optimizer(Protocol):
    """The update rule of parameters. It is stateless: each parameter passes in its own state."""

    def state_shapes(self, shape: tuple[int, int]) -> Mapping[str, tuple[tuple[int, ...], type]]:
        """Return name, shape and type of each state array for a parameter of `shape`."""

    def step(self, value: F32, state: State, rows: I64, grads: F32, *, step: int, factor: float, threads: int) -> None:
        """Update ``value[rows]`` against `grads` at the learning rate times `factor`; `step` counts from 1."""


def _check_rates(rate: float, decay: float, epsilon: float = 1.0) -> None:
    real("rate", rate, 0, math.inf)
    real("decay", decay, 0, math.inf)
    real("epsilon", epsilon, 0, math.inf, open_low=True)  # with zero, a step may divide by zero


@dataclass(frozen=True, kw_only=True)
class SGD:
    """Stochastic gradient descent.

    Parameters
    ----------
    rate : float
        The learning rate.
    decay : float
        ``decay * value`` is added to the gradient of touched rows.

    Examples
    --------
    >>> from sparsenet.optim import Parameter
    >>> weight = Parameter("weight", (3, 2), SGD(rate=0.5))
    >>> weight.allocate()
    >>> weight.record(np.array([1]), np.ones((1, 2), np.float32))
    >>> weight.apply(step=1, factor=1.0, threads=1)
    >>> weight.value.tolist()
    [[0.0, 0.0], [-0.5, -0.5], [0.0, 0.0]]
    """

    rate: float = 0.1
    decay: float = 0.0

    def __post_init__(self) -> None:
        _check_rates(self.rate, self.decay)

    def state_shapes(self, shape: tuple[int, int]) -> Mapping[str, tuple[tuple[int, ...], type]]:
        """Return no state arrays."""
        return {}

    def step(self, value: F32, state: State, rows: I64, grads: F32, *, step: int, factor: float, threads: int) -> None:
        """Take one step on the given rows."""
        kernels.sgd_rows(value, rows, grads, self.rate * factor, self.decay, threads)


@dataclass(frozen=True, kw_only=True)
class Adagrad:
    """Adagrad: the rate of each weight falls with the sum of its squared gradients, so rare features keep learning.

    Parameters
    ----------
    rate : float
        The learning rate.
    epsilon : float
        Added to the root of the sum of squares.
    decay : float
        ``decay * value`` is added to the gradient of touched rows; other rows do not decay.

    Examples
    --------
    >>> Adagrad(rate=0.1).state_shapes((3, 2))["squares"][0]
    (3, 2)
    """

    rate: float = 0.1
    epsilon: float = 1e-6
    decay: float = 0.0

    def __post_init__(self) -> None:
        _check_rates(self.rate, self.decay, self.epsilon)

    def state_shapes(self, shape: tuple[int, int]) -> Mapping[str, tuple[tuple[int, ...], type]]:
        """Return the sum of squared gradients of each weight."""
        return {"squares": (shape, np.float32)}

    def step(self, value: F32, state: State, rows: I64, grads: F32, *, step: int, factor: float, threads: int) -> None:
        """Take one step on the given rows."""
        squares = state["squares"]
        kernels.adagrad_rows(value, squares, rows, grads, self.rate * factor, self.epsilon, self.decay, threads)


@dataclass(frozen=True, kw_only=True)
class Adam:
    """Lazy row-wise Adam with decoupled weight decay.

    A row without a gradient does not move. Its moments decay for the missed steps before the next gradient enters.
    Weight decay acts on touched rows only.

    A rarely touched row moves by only ``1 - beta1`` of its update in dense Adam, whose momentum continues to move it.
    `beta1` is therefore 0.5 by default instead of the usual 0.9, which would leave such rows a tenth.

    Parameters
    ----------
    rate : float
        The learning rate.
    beta1, beta2 : float
        Decay of the first and the second moment per step.
    epsilon : float
        Added to the root of the second moment.
    decay : float
        Touched rows shrink by ``rate * decay``.

    Examples
    --------
    >>> sorted(Adam(rate=1e-3).state_shapes((3, 2)))
    ['first', 'last_step', 'second']
    """

    rate: float = 1e-3
    beta1: float = 0.5
    beta2: float = 0.999
    epsilon: float = 1e-8
    decay: float = 0.0

    def __post_init__(self) -> None:
        _check_rates(self.rate, self.decay, self.epsilon)
        real("beta1", self.beta1, 0, 1, open_high=True)
        real("beta2", self.beta2, 0, 1, open_high=True)

    def state_shapes(self, shape: tuple[int, int]) -> Mapping[str, tuple[tuple[int, ...], type]]:
        """Return both moments of each weight and the last step of each row."""
        return {
            "first": (shape, np.float32),
            "second": (shape, np.float32),
            "last_step": ((shape[0],), np.int32),
        }

    def step(self, value: F32, state: State, rows: I64, grads: F32, *, step: int, factor: float, threads: int) -> None:
        """Take one step on the given rows."""
        kernels.adam_rows(*self._arrays(value, state), rows, grads, step, *self._rates(factor), threads)

    def step_product(
        self, value: F32, state: State, rows: I64, grads: Product, *, step: int, factor: float, threads: int
    ) -> None:
        """Take one step and compute the gradient on the fly, while it is in cache."""
        product = grads.indptr, grads.indices, grads.data, grads.dense
        kernels.adam_product(*self._arrays(value, state), rows, *product, step, *self._rates(factor), threads)

    def _arrays(self, value: F32, state: State) -> tuple[F32, F32, F32, I32]:
        return value, state["first"], state["second"], state["last_step"]

    def _rates(self, factor: float) -> tuple[float, float, float, float, float]:
        return self.rate * factor, self.beta1, self.beta2, self.epsilon, self.decay


@dataclass
class Parameter:
    """A weight matrix with the state of its optimizer; `allocate` allocates it.

    The weights are floats, `value`, or rows of 8 bits, `narrow`, which kernels of prediction read with the same
    results. Whatever reads `value` turns narrow rows into floats for good, since training may change them.
    """

    name: str
    shape: tuple[int, int]
    optimizer: Optimizer
    value: F32 = field(init=False, repr=False)
    _rows: NarrowRows | None = field(init=False, repr=False, default=None)
    state: State = field(init=False, repr=False, default_factory=dict)
    _pending: tuple[I64, F32 | Product] | None = field(init=False, repr=False, default=None)

    def nbytes(self, *, training: bool) -> int:
        """Return the bytes of the weights and, if `training`, of the optimizer's state."""
        shapes = [
            (self.shape, np.float32),
            *(self.optimizer.state_shapes(self.shape).values() if training else ()),
        ]
        return sum(math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in shapes)

    def __getattr__(self, name: str) -> F32:
        """Make `value` of narrow rows."""
        rows, here = self.__dict__.get("_rows"), self.__dict__
        if name != "value" or (rows is None and name not in here):  # another thread may have made it in between
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        if rows is not None:
            self.value, self._rows = rows.floats(), None
        return here["value"]  # type: ignore[no-any-return]  # __dict__ has no types

    @property
    def narrow(self) -> NarrowRows | None:
        """The weights as rows of 8 bits; None if they are floats."""
        return None if "value" in self.__dict__ else self._rows

    @property
    def has_weights(self) -> bool:
        """Whether the weights are allocated."""
        return self._rows is not None or "value" in self.__dict__

    @property
    def size(self) -> int:
        """The number of weights."""
        return math.prod(self.shape)

    def arrays(self) -> list[NDArray[Any]]:
        """Return the arrays of the weights, as they are held."""
        rows = self.narrow
        return [self.value] if rows is None else rows.arrays()

    def keep_narrow(self, indptr: I64 | None = None) -> None:
        """Hold the weights in 8 bits if they were rounded to that; `indptr` points to the rows of sparse weights."""
        rows = self.coded(indptr)
        if rows is not None and self.narrow is None:
            self.adopt(rows)

    def coded(self, indptr: I64 | None = None) -> NarrowRows | None:
        """Return the weights as rows of 8 bits; None if they were not rounded to that."""
        rows = self.narrow
        return NarrowRows.of(self.value, indptr) if rows is None else rows

    def adopt(self, rows: NarrowRows) -> None:
        """Set the weights to narrow rows."""
        if rows.codes.shape != self.shape:
            raise ValueError(f"parameter {self.name} has shape {self.shape}, got rows of {rows.codes.shape}")
        self._rows, self.state = rows, {}
        self.__dict__.pop("value", None)

    def allocate(self, value: F32 | None = None) -> None:
        """Set the weights, to zero if `value` is None; the first step allocates the optimizer's state."""
        self.value = aligned.zeros(self.shape, np.float32) if value is None else np.ascontiguousarray(value, np.float32)
        if self.value.shape != self.shape:
            raise ValueError(f"parameter {self.name} has shape {self.shape}, got an array of {self.value.shape}")
        self._rows, self.state = None, {}

    def record(self, rows: I64, grads: F32 | Product) -> None:
        """Record the gradient of distinct rows for the next `apply`."""
        self._pending = (rows, grads)

    def take_gradient(self) -> tuple[I64, F32] | None:
        """Return the rows and the gradient that were recorded, and clear them; None without a gradient."""
        pending, self._pending = self._pending, None
        if pending is None:
            return None
        rows, grads = pending
        return rows, grads.compute(threads=1) if isinstance(grads, Product) else grads

    def apply(self, *, step: int, factor: float, threads: int) -> None:
        """Update the rows with the recorded gradient and clear it."""
        if self._pending is None:
            return
        if not self.state:
            shapes = self.optimizer.state_shapes(self.shape)
            self.state = {name: aligned.zeros(shape, dtype) for name, (shape, dtype) in shapes.items()}
        rows, grads = self._pending
        if isinstance(grads, Product) and type(self.optimizer) is Adam:  # a subclass may override `step`
            take = self.optimizer.step_product
            take(self.value, self.state, rows, grads, step=step, factor=factor, threads=threads)
        else:
            grads = grads.compute(threads) if isinstance(grads, Product) else grads
            self.optimizer.step(self.value, self.state, rows, grads, step=step, factor=factor, threads=threads)
        self._pending = None

    def set_optimizer(self, optimizer: Optimizer) -> None:
        """Switch to another optimizer; keep the state if both have the same state arrays."""
        if dict(optimizer.state_shapes(self.shape)) != dict(self.optimizer.state_shapes(self.shape)):
            self.drop_state()
        self.optimizer = optimizer

    def drop_state(self) -> None:
        """Free the optimizer's state; further training starts with fresh state."""
        self.state = {}


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The learning rate schedule: a linear warm-up to `peak`, then constant, linear or cosine decay to `final`.

    Parameters
    ----------
    warmup : float
        Fraction of all steps over which the rate rises from zero.
    decay : {"constant", "linear", "cosine"}
        The decay after the warm-up.
    final : float
        The factor at the last step.
    peak : float
        The factor at the end of the warm-up.

    Examples
    --------
    >>> schedule = Schedule(warmup=0.1, decay="linear", final=0.0)
    >>> [schedule.factor(step, total=100) for step in (5, 55, 100)]
    [0.5, 0.5, 0.0]
    """

    warmup: float = 0.0
    decay: str = "linear"
    final: float = 0.1
    peak: float = 1.0

    def __post_init__(self) -> None:
        choice("decay", self.decay, ("constant", "linear", "cosine"))
        real("warmup", self.warmup, 0, 1, open_high=True)
        real("final", self.final, 0, math.inf)
        real("peak", self.peak, 0, math.inf)

    def factor(self, step: int, total: int) -> float:
        """Compute the factor of the learning rate at `step` (from 1) of `total`."""
        warm = self.warmup * total
        if step < warm:
            return self.peak * step / warm
        done = min(1.0, (step - warm) / max(total - warm, 1.0))
        if self.decay == "constant":
            return self.peak
        remaining = 1 - done if self.decay == "linear" else 0.5 * (1 + math.cos(math.pi * done))
        return self.final + (self.peak - self.final) * remaining
