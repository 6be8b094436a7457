"""Layers below the output: ``forward(batch) -> (output, backward)``, and ``backward(grad) -> grad``.

A backward function records the gradients of the touched rows in their parameters and returns the gradient of the
layer's input. There is no registry and no autograd.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sparsenet import kernels
from sparsenet.core import aligned
from sparsenet.core.batches import Postings, Workspace
from sparsenet.core.rows import Rows
from sparsenet.core.validation import MAX_WIDTH, integer
from sparsenet.engines.network.optim import Adam, Optimizer, Parameter, Product
from sparsenet.kernels.types import F32

Backward = Callable[[F32], "F32 | None"]

ACTIVATIONS = ("relu", "linear", "tanh")


@dataclass
class Pass:
    """Context of one pass through the layers; without a generator it is inference, which has no backward pass.

    All randomness comes from `rng`, which is seeded for each batch by the run's seed and the batch number. A resumed
    run therefore draws the same numbers as an uninterrupted one.
    """

    threads: int
    workspace: Workspace = field(default_factory=Workspace)
    rng: np.random.Generator | None = None


@dataclass(frozen=True)
class Activation:
    """A non-linearity followed by dropout, both in place."""

    name: str = "relu"
    dropout: float = 0.0

    def __post_init__(self) -> None:
        if self.name not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {self.name!r}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be in [0, 1), got {self.dropout}")

    def forward(self, x: F32, context: Pass, layer: str) -> Callable[[F32], F32]:
        """Apply the activation to `x` in place; return the backward function.

        Layer names must be unique within a network: each names the workspace of the layer's slopes.
        """
        if context.rng is None:
            return self._infer(x)
        slope = np.asarray(context.workspace.take(f"{layer}.slope", x.shape, np.float32))
        mask = self._dropout_mask(x.shape, context.rng)
        scale = np.float32(1 / (1 - self.dropout))
        if self.name == "tanh":
            np.tanh(x, out=x)
            np.multiply(1 - x * x, mask * scale, out=slope)
            x *= mask * scale
        else:
            # Units that are dropped or inactive have a slope of zero and receive no gradient.
            np.multiply(mask & (x > 0) if self.name == "relu" else mask, scale, out=slope)
            x *= slope

        def backward(grad: F32) -> F32:
            grad *= slope
            return grad

        return backward

    def _infer(self, x: F32) -> Callable[[F32], F32]:
        if self.name == "relu":
            np.maximum(x, 0, out=x)
        elif self.name == "tanh":
            np.tanh(x, out=x)

        def backward(grad: F32) -> F32:
            raise AssertionError("an inference pass has no backward pass")

        return backward

    def _dropout_mask(self, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.bool_]:
        """Draw the mask of units that dropout keeps."""
        if not self.dropout:
            return np.ones(shape, np.bool_)
        # 16 random bits are enough for a dropout mask, and each 64-bit number provides four of them.
        size = math.prod(shape)
        words = rng.integers(0, (1 << 64) - 1, -(-size // 4), np.uint64, endpoint=True)
        bits = words.view(np.uint16)[:size]
        # Compare with an integer: a float would convert the whole array first.
        return np.asarray(bits >= math.ceil(self.dropout * (1 << 16))).reshape(shape)


def uniform(rng: np.random.Generator, shape: tuple[int, int], fan_in: float) -> F32:
    """Draw initial weights that keep the variance of outputs near the variance of inputs."""
    weights: F32 = rng.random(out=aligned.empty(shape, np.float32), dtype=np.float32)
    weights -= 0.5
    weights *= np.float32(2 * np.sqrt(3 / max(fan_in, 1.0)))
    return weights


class SparseInput:
    """The first layer: sparse points times one dense row a feature; only rows of present features are touched.

    Parameters
    ----------
    n_features, n_units : int
        The shape of the weights; one row a feature.
    activation : {"relu", "linear", "tanh"}
        The non-linearity.
    dropout : float
        The fraction of units dropped in training.
    optimizer : Optimizer, optional
        Adam at 1e-3 by default.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> layer = SparseInput(n_features=4, n_units=2)
    >>> layer.initialise(np.random.default_rng(0))
    >>> points = Rows.of(csr_array([[0.0, 1.0, 0.0, 2.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]))
    >>> units, backward = layer.forward(points, None, Pass(threads=1))
    >>> units.shape
    (3, 2)
    """

    def __init__(
        self,
        n_features: int,
        n_units: int,
        *,
        activation: str = "relu",
        dropout: float = 0.0,
        optimizer: Optimizer | None = None,
    ) -> None:
        n_features, n_units = integer("n_features", n_features, 1, MAX_WIDTH), integer("n_units", n_units, 1, MAX_WIDTH)
        optimizer = optimizer or Adam()
        self.n_outputs = n_units
        self.activation = Activation(activation, dropout)
        self.weight = Parameter("input.weight", (n_features, n_units), optimizer)
        self.bias = Parameter("input.bias", (1, n_units), optimizer)

    def parameters(self) -> list[Parameter]:
        """Return the trainable parameters."""
        return [self.weight, self.bias]

    def initialise(self, rng: np.random.Generator) -> None:
        """Draw small initial weights.

        Rare features are updated seldom, so their rows never outgrow large initial weights.
        """
        self.weight.allocate(uniform(rng, self.weight.shape, 100.0))
        self.bias.allocate()

    def forward(self, features: Rows, postings: Postings | None, context: Pass) -> tuple[F32, Backward]:
        """Map points (n, d) to units (n, h); the backward pass needs `postings`, the same points by feature."""
        out = np.asarray(context.workspace.take(self.weight.name, (len(features), self.n_outputs), np.float32))
        points, rows = (features.indptr, features.indices, features.data), self.weight.narrow
        if rows is None:
            kernels.csr_matmul(*points, self.weight.value, out, context.threads)
        else:
            kernels.csr_matmul_narrow(*points, rows.codes, rows.steps, out, context.threads)
        out += self.bias.value
        activation = self.activation.forward(out, context, self.weight.name)

        def backward(grad: F32) -> None:
            assert postings is not None, "an inference pass has no backward pass"
            grad = activation(grad)
            self.bias.record(np.zeros(1, np.int64), grad.sum(axis=0, keepdims=True))
            product = Product(postings.starts, postings.points, postings.values, grad)
            self.weight.record(postings.ids.astype(np.int64), product)

        return out, backward


class Dense:
    """A fully connected layer between the input and the output.

    Parameters
    ----------
    n_inputs, n_units : int
        The shape; the weights are (n_units, n_inputs).
    name : str
        Prefix of the names of its arrays; unique within a network.
    activation, dropout, optimizer
        As for `SparseInput`.

    Examples
    --------
    >>> layer = Dense(n_inputs=2, n_units=5, activation="tanh")
    >>> layer.initialise(np.random.default_rng(0))
    >>> units, backward = layer.forward(np.ones((3, 2), np.float32), Pass(threads=1))
    >>> units.shape
    (3, 5)
    """

    def __init__(
        self,
        n_inputs: int,
        n_units: int,
        *,
        name: str = "dense",
        activation: str = "relu",
        dropout: float = 0.0,
        optimizer: Optimizer | None = None,
    ) -> None:
        n_inputs, n_units = integer("n_inputs", n_inputs, 1, MAX_WIDTH), integer("n_units", n_units, 1, MAX_WIDTH)
        optimizer = optimizer or Adam()
        self.n_inputs, self.n_outputs = n_inputs, n_units
        self.activation = Activation(activation, dropout)
        self.weight = Parameter(f"{name}.weight", (n_units, n_inputs), optimizer)
        self.bias = Parameter(f"{name}.bias", (1, n_units), optimizer)

    def parameters(self) -> list[Parameter]:
        """Return the trainable parameters."""
        return [self.weight, self.bias]

    def initialise(self, rng: np.random.Generator) -> None:
        """Draw the initial weights."""
        self.weight.allocate(uniform(rng, self.weight.shape, self.n_inputs / 2))
        self.bias.allocate()

    def forward(self, x: F32, context: Pass) -> tuple[F32, Backward]:
        """Map units (n, n_inputs) to units (n, n_units)."""
        out = np.empty((len(x), self.n_outputs), np.float32)
        kernels.matmul(x, self.weight.value, out, None, None, None, False, True, False, context.threads)
        out += self.bias.value
        activation = self.activation.forward(out, context, self.weight.name)

        def backward(grad: F32) -> F32:
            grad = activation(grad)
            self.bias.record(np.zeros(1, np.int64), grad.sum(axis=0, keepdims=True))
            rows = np.empty(self.weight.shape, np.float32)
            kernels.matmul(grad, x, rows, None, None, None, True, False, False, context.threads)
            self.weight.record(np.arange(self.n_outputs), rows)
            below = np.empty_like(x)
            kernels.matmul(grad, self.weight.value, below, None, None, None, False, False, False, context.threads)
            return below

        return out, backward
