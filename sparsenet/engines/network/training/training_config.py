"""How long and how a network is trained."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparsenet.core.validation import MAX_WIDTH, integer, optional
from sparsenet.engines.network.optim import Schedule


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How long and how a network is trained.

    Parameters
    ----------
    epochs : int
        Passes over the data.
    batch_size : int
        Points a step.
    seed : int
        Decides everything random; equal seeds give equal models, bit for bit, at any number of threads.
    threads : int
        Of the kernels.
    schedule : Schedule
        The learning rate over the run.
    patience : int or None
        With validation data, stop after this many epochs without a better P@1; None never stops early.
    recall_every : int
        Steps between two measurements of the index's recall.

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
