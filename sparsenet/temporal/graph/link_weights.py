"""The weights of a temporal graph network, in one flat array, and their optimizer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sparsenet import kernels
from sparsenet.kernels.types import F32, I32, Arrays

HEADS = 2
_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8


@dataclass(frozen=True)
class LinkShape:
    """The extents of a network: units of memory, and features of a link."""

    memory: int
    features: int

    def arrays(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each weight. The last input of a layer is the constant 1, so its weights are biases.

        Layers are stored as inputs by outputs, and layers of attention by head.
        """
        m, c, encoded = self.memory, self.memory // HEADS, self.memory + self.features
        return {
            "times": (2, m),
            "message_gates": (3 * m + self.features + 1, 3 * m),
            "memory_gates": (m + 1, 3 * m),
            "query": (HEADS, m + 1, c),
            "key_value": (m + 1, 2 * m),
            "edge": (HEADS, encoded, c),
            "skip": (m + 1, m),
            "link_source": (m + 1, m),
            "link_target": (m + 1, m),
            "link_output": (m + 1, 1),
        }

    def bounds(self) -> dict[str, float]:
        """Return the bound of each uniform initial weight: the root of its layer's inputs, as in PyTorch."""
        inputs = {"times": 1, "message_gates": self.memory, "edge": self.memory + self.features}
        return {name: 1 / math.sqrt(inputs.get(name, self.memory)) for name in self.arrays()}


class LinkWeights:
    """Named views of a flat array, and the state of Adam.

    `flat`, `first` and `second` are (rows, 1024): values and moments. `steps` counts updates, and `step_of` holds the
    last update of each row.
    """

    #: Numbers in a row of the flat arrays, which the optimizer updates row by row.
    width = 1024

    def __init__(self, shape: LinkShape, flat: F32, first: F32, second: F32, steps: int) -> None:
        self.shape, self.flat, self.first, self.second, self.steps = shape, flat, first, second, steps
        self._step_of: I32 = np.full(len(flat), steps, np.int32)
        self._rows = np.arange(len(flat))

    @classmethod
    def random(cls, shape: LinkShape, seed: int) -> Self:
        """Draw uniform weights."""
        flat, first, second = (np.zeros((cls.n_rows(shape), cls.width), np.float32) for _ in range(3))
        weights, rng = cls(shape, flat, first, second, 0), np.random.default_rng(seed)
        for view, bound in zip(weights.views().values(), shape.bounds().values(), strict=True):
            view[...] = rng.uniform(-bound, bound, view.shape)
        return weights

    @classmethod
    def n_rows(cls, shape: LinkShape) -> int:
        """Return the number of rows of the flat array."""
        return -(-sum(math.prod(extents) for extents in shape.arrays().values()) // cls.width)

    def views(self, flat: F32 | None = None) -> Arrays:
        """Return the weights by name, or their gradients, as views of a flat array."""
        found, at = {}, 0
        values: Any = (self.flat if flat is None else flat).reshape(-1)
        for name, extents in self.shape.arrays().items():
            size = math.prod(extents)
            found[name] = values[at : at + size].reshape(extents)
            at += size
        return found

    def step(self, gradient: F32, rate: float, threads: int) -> None:
        """Take a step of Adam on all weights."""
        self.steps += 1
        state = (self.flat, self.first, self.second, self._step_of, self._rows, gradient)
        kernels.adam_rows(*state, self.steps, rate, _BETA1, _BETA2, _EPSILON, 0.0, threads)
