"""Adam whose moments decay when a row is touched."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from sparsenet.engines.network.optim import Adam, State
from sparsenet.kernels.types import F32, I64


@dataclass(frozen=True, kw_only=True)
class TouchAdam(Adam):
    """Adam for sparse rows with the rule of `torch.optim.SparseAdam`.

    The moments of a row decay at the steps that touch it. Those of `Adam` decay at every step. Here the momentum of a
    rare label is a mean over its own gradients, and its steps do not grow while it is absent.
    """

    @classmethod
    def of(cls, adam: Adam) -> TouchAdam:
        """Return the same settings."""
        return cls(**asdict(adam))

    def step(self, value: F32, state: State, rows: I64, grads: F32, *, step: int, factor: float, threads: int) -> None:
        """Take one step on the given rows."""
        state["last_step"][rows] = step - 1  # as if no step had been skipped
        super().step(value, state, rows, grads, step=step, factor=factor, threads=threads)
