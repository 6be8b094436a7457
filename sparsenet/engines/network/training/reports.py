"""Report the progress of a run to callbacks, and measure it on validation data."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from scipy.sparse import csr_array

from sparsenet import metrics
from sparsenet.core.rows import Rows
from sparsenet.engines.network.model import Network
from sparsenet.metrics.ranking import RANKS


@dataclass(frozen=True)
class Progress:
    """The position of a run after a batch.

    Attributes
    ----------
    epoch, epochs : int
        Epochs completed, and the planned maximum.
    batch, batches : int
        Batches done in this epoch, and batches per epoch.
    loss : float
        Mean loss of the epoch so far.
    points : int
        Points trained on so far, counted in each epoch.
    seconds : float
        Time since training began.
    index_recall : float or None
        The last measured recall, if a hash index is in use.
    validation : dict or None
        P@1, P@3 and P@5 after the last epoch, if there is validation data.
    steps : int or None
        Estimated batches of the whole run at the present pace, if it has a time budget.

    Examples
    --------
    >>> from sparsenet import Progress
    >>> Progress(0, 5, 10, 100, 0.25, 2560, 2.0, None, None).points_per_second
    1280.0
    """

    epoch: int
    epochs: int
    batch: int
    batches: int
    loss: float
    points: int
    seconds: float
    index_recall: float | None
    validation: dict[str, float] | None
    steps: int | None = None

    @property
    def done(self) -> int:
        """Return the number of batches done in all epochs."""
        return self.epoch * self.batches + self.batch

    @property
    def points_per_second(self) -> float:
        """Return the mean speed since training began in this process."""
        return self.points / max(self.seconds, 1e-9)


class StopTraining(Exception):  # noqa: N818  # not an error
    """Raise this in a callback to end the training now and keep the weights learnt so far.

    Examples
    --------
    >>> from sparsenet import ExtremeClassifier, StopTraining
    >>> class UntilGoodEnough:
    ...     def on_epoch(self, record):
    ...         if record["loss"] < 0.5:
    ...             raise StopTraining
    >>> model = ExtremeClassifier(hidden=4, epochs=1000, random_state=0)
    >>> model.fit([[1.0, 0.0], [0.0, 1.0]], ["a", "b"], callbacks=[UntilGoodEnough()]).n_iter_ < 1000
    True
    """


class Callback(Protocol):
    """An object that follows the progress of training.

    It needs one of the two methods, or both, and need not inherit from this class. An exception that it raises ends the
    training. After `StopTraining` the classifier is fitted as if the last epoch were over.

    Examples
    --------
    >>> from sparsenet import Callback, ExtremeClassifier
    >>> class Losses(Callback):
    ...     def __init__(self):
    ...         self.seen = []
    ...
    ...     def on_epoch(self, record):
    ...         self.seen.append(record["loss"])
    >>> losses = Losses()
    >>> model = ExtremeClassifier(hidden=4, epochs=3).fit([[1.0, 0.0], [0.0, 1.0]], ["a", "b"], callbacks=[losses])
    >>> len(losses.seen)
    3
    """

    def on_batch(self, progress: Progress) -> None:
        """Receive the progress after each batch."""

    def on_epoch(self, record: dict[str, float]) -> None:
        """Receive the history record of each epoch."""


def check_callbacks(callbacks: object) -> list[Callback]:
    """Return the callbacks as a list; raise TypeError if one has neither method."""
    wanted = "callbacks must be a list of objects with a method on_batch(progress), on_epoch(record) or both"
    if not isinstance(callbacks, Iterable):
        raise TypeError(f"{wanted}, got {callbacks!r}")
    found = list(callbacks)
    for callback in found:
        methods = [getattr(callback, name, None) for name in ("on_batch", "on_epoch")]
        if isinstance(callback, type) or not any(map(callable, methods)):
            raise TypeError(f"{wanted}, got {callback!r} in it")
    return found


@dataclass(frozen=True)
class Validation:
    """Held-out points and their true labels.

    Attributes
    ----------
    features : Rows of shape (n, d)
    truth : csr_array of shape (n, L)
        The non-zero entries of a row are the labels of the point.

    Examples
    --------
    >>> truth = csr_array([[1.0, 0.0], [0.0, 1.0]])
    >>> held_out = Validation(features=Rows.of(csr_array([[1.0, 0.0, 0.0], [0.0, 0.0, 2.0]])), truth=truth)
    >>> len(held_out.features), held_out.truth.shape
    (2, (2, 2))
    """

    features: Rows
    truth: csr_array

    def __post_init__(self) -> None:
        if not isinstance(self.features, Rows):
            raise TypeError(f"features must be Rows, got {type(self.features).__name__}: pass Rows.of(X)")
        if getattr(self.truth, "format", None) != "csr":
            got = type(self.truth).__name__
            raise TypeError(f"truth must be a SciPy matrix in CSR format, got {got}: pass csr_array(Y)")
        if self.truth.shape[0] != len(self.features):
            raise ValueError(f"features has {len(self.features)} points, truth has {self.truth.shape[0]} rows")

    def check(self, n_features: int, n_labels: int) -> None:
        """Refuse data of other widths than a network of `n_features` and `n_labels` takes, or without points."""
        if len(self.features) == 0:
            raise ValueError("validation has no points: there is nothing to measure on")
        for name, width, wanted in (
            ("features", self.features.width, n_features),
            ("truth", self.truth.shape[1], n_labels),
        ):
            if width != wanted:
                raise ValueError(f"validation: {name} has {width} columns, the network takes {wanted}")

    def measure(self, network: Network, threads: int, on_block: Callable[[], None]) -> dict[str, float]:
        """Return P@1, P@3 and P@5 of the network; `on_block` is called after each block of points."""
        k = min(RANKS[-1], network.output.n_labels)
        labels, _ = network.topk(self.features, k, threads, lambda done: on_block())
        return {f"P@{j}": metrics.precision_at_k(self.truth, labels, j) for j in RANKS}

    def takes(self, network: Network, threads: int, n_points: int = 256) -> float:
        """Estimate the seconds that `measure` takes, from the first `n_points`."""
        some = replace(
            self, features=self.features.slice(0, min(n_points, len(self.features))), truth=self.truth[:n_points]
        )
        some.measure(network, threads, lambda: None)  # the first call fills caches
        started = time.perf_counter()
        some.measure(network, threads, lambda: None)
        return (time.perf_counter() - started) * len(self.features) / max(len(some.features), 1)
