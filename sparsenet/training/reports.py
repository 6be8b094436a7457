"""What a run tells while it goes on, and what it is measured on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from scipy.sparse import csr_array

from sparsenet import metrics
from sparsenet.batches import Rows
from sparsenet.model import Network


@dataclass(frozen=True)
class Progress:
    """Where a run stands after a batch."""

    epoch: int
    epochs: int
    batch: int
    batches: int
    loss: float
    points: int
    seconds: float
    index_recall: float | None
    validation: dict[str, float] | None

    @property
    def points_per_second(self) -> float:
        """Return the speed since this process began to train."""
        return self.points / max(self.seconds, 1e-9)


class Callback(Protocol):
    """Told how training goes; anything it raises ends the training."""

    def on_batch(self, progress: Progress) -> None:
        """Follow each batch."""

    def on_epoch(self, record: dict[str, float]) -> None:
        """Follow each epoch with its entry in the history."""


@dataclass(frozen=True)
class Validation:
    """Points and true labels kept from training.

    Attributes
    ----------
    features : Rows of shape (n, d)
    truth : csr_array of shape (n, L)
        Its non-zero entries are the labels of a point.

    Examples
    --------
    >>> truth = csr_array([[1.0, 0.0], [0.0, 1.0]])
    >>> held_out = Validation(features=Rows.of(csr_array([[1.0, 0.0, 0.0], [0.0, 0.0, 2.0]])), truth=truth)
    >>> len(held_out.features), held_out.truth.shape
    (2, (2, 2))
    """

    features: Rows
    truth: csr_array

    def measure(self, network: Network, threads: int, on_block: Callable[[], None]) -> dict[str, float]:
        """Return P@1, P@3 and P@5 of the network as it is; `on_block` is called now and then."""
        k = min(5, network.output.n_labels)
        labels, _ = network.topk(self.features, k, threads, lambda done: on_block())
        return {f"P@{j}": metrics.precision_at_k(self.truth, labels, j) for j in (1, 3, 5)}
