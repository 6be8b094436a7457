"""The settings of a training run."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparsenet.core.validation import MAX_WIDTH, integer, optional
from sparsenet.engines.network.optim import Schedule


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """The settings of a training run.

    Parameters
    ----------
    epochs : int
        Passes over the data.
    batch_size : int
        Points per step.
    seed : int
        Seed of all random numbers. Equal seeds give equal models, bit for bit, at any number of threads.
    threads : int
        Threads that the kernels use.
    schedule : Schedule
        The course of the learning rate over the run.
    patience : int or None
        With validation data, stop after this many epochs without a better P@1; None never stops early.
    recall_every : int
        Steps between two measurements of the recall of the hash index.

    Examples
    --------
    >>> TrainingConfig(epochs=5, schedule=Schedule(decay="cosine")).batch_size
    256
    """

    epochs: int = 10
    batch_size: int = 256
    seed: int = 0
    threads: int = 1
    schedule: Schedule = field(default_factory=Schedule)
    patience: int | None = None
    recall_every: int = 100

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "threads", "recall_every"):
            integer(name, getattr(self, name), 1, MAX_WIDTH)
        integer("seed", self.seed, 0)
        optional(integer, "patience", self.patience, 1)
        if isinstance(self.schedule, type) or not callable(getattr(self.schedule, "factor", None)):
            raise ValueError(f"schedule must be a Schedule, such as Schedule(decay='cosine'), got {self.schedule!r}")
