"""The training loop: batches, epochs, validation, early stopping, checkpoints, and stopping on Ctrl-C."""

from __future__ import annotations

import math
import signal
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sparsenet import metrics, storage
from sparsenet.batches import Batcher, Rows, Workspace
from sparsenet.layers import Pass
from sparsenet.model import Network
from sparsenet.optim import Schedule

#: Seconds between two checkpoints, at least: where epochs take less, writing each to the disk would take longer.
CHECKPOINT_SECONDS = 5.0


class DivergenceError(ArithmeticError):
    """The loss is no longer a finite number.

    Examples
    --------
    >>> from sparsenet import DivergenceError
    >>> issubclass(DivergenceError, ArithmeticError)
    True
    """


class CheckpointError(ValueError):
    """A checkpoint belongs to another run than the one that is to be resumed.

    Examples
    --------
    >>> from sparsenet import CheckpointError
    >>> issubclass(CheckpointError, ValueError)
    True
    """


class _Stop(KeyboardInterrupt):
    """Ctrl-C, noticed between two batches: the state is whole."""


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
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")


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


@dataclass
class _Best:
    score: float = -math.inf
    epoch: int = -1
    weights: dict[str, NDArray[np.generic]] = field(default_factory=dict)


class Trainer:
    """Trains a network on sparse points and labels; the network is updated in place.

    Parameters
    ----------
    network : Network
        Initialised layers.
    features, labels : Rows
        The points (n, d) and their labels (n, L).
    config : TrainingConfig
        How to train.
    validation : Validation, optional
        Each epoch is measured on it, and the best epoch's weights are what remains.
    callbacks : sequence of Callback
        Told of progress.
    checkpoint : Path, optional
        A directory that holds the run's state after each epoch and after Ctrl-C.
    steps_before : int
        Steps the network took in earlier runs, which the optimizers' states count on from; 0 starts these afresh.

    Examples
    --------
    Eight points, each with a feature and a label of its own:

    >>> from sparsenet import Adam, BinaryCrossEntropy, Network, RandomSampler, SampledOutput, SparseInput
    >>> points = Rows.of(csr_array(np.eye(8)))
    >>> network = Network(
    ...     input=SparseInput(8, 16, optimizer=Adam(rate=0.01)),
    ...     output=SampledOutput(16, 8, sampler=RandomSampler(), loss=BinaryCrossEntropy(), n_negatives=4),
    ... )
    >>> network.initialise(seed=0)
    >>> trainer = Trainer(network, points, points, TrainingConfig(epochs=200, batch_size=8))
    >>> trainer.run()
    >>> network.topk(points, k=1, threads=1)[0].ravel().tolist()
    [0, 1, 2, 3, 4, 5, 6, 7]
    """

    def __init__(
        self,
        network: Network,
        features: Rows,
        labels: Rows,
        config: TrainingConfig,
        *,
        validation: Validation | None = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: Path | None = None,
        steps_before: int = 0,
    ) -> None:
        if len(features) != len(labels):
            raise ValueError(f"features has {len(features)} points, labels has {len(labels)}")
        self.network, self.config = network, config
        self.history: list[dict[str, float]] = []
        self._features, self._labels = features, labels
        self._validation, self._callbacks, self._checkpoint = validation, callbacks, checkpoint
        self._batcher = Batcher(features, labels, batch_size=config.batch_size, seed=config.seed)
        self._workspace = Workspace()
        self._best = _Best()
        self._epoch = self._batch = 0
        self._loss_sum = 0.0
        self._recall: float | None = None
        self._started, self._points = 0.0, 0
        self._steps_before = steps_before
        self._interrupted = threading.Event()
        self._saved_at = -math.inf
        if steps_before == 0:
            for parameter in network.parameters():
                parameter.drop_state()
        counts = np.bincount(labels.indices, minlength=labels.width)
        network.output.prepare(counts, config.threads)

    def run(self) -> None:
        """Train to the end, or until validation stops improving.

        On Ctrl-C the batch in hand is finished, a checkpoint written if there is a place for one, the network left
        as it has become, and KeyboardInterrupt raised.
        """
        self._started = time.perf_counter()
        # What overflows shows in the loss, and is an error there: NumPy's warnings would only come before it.
        with _deferred_interrupt() as self._interrupted, np.errstate(over="ignore", invalid="ignore"):
            try:
                while self._epoch < self.config.epochs and not self._out_of_patience():
                    self._train_epoch()
            except _Stop:
                self._save_checkpoint()
                raise KeyboardInterrupt from None
        if self._best.weights:
            self.network.set_weights(self._best.weights)

    @property
    def steps(self) -> int:
        """Return the steps taken so far, those of earlier runs included."""
        return self._steps_before + self._epoch * len(self._batcher) + self._batch

    def _train_epoch(self) -> None:
        for batch_number, loss in self._train_batches():
            self._batch = batch_number + 1
            self._loss_sum += loss
            self._report()
            self._stop_if_asked()
        self._end_epoch()

    def _stop_if_asked(self) -> None:
        if self._interrupted.is_set():
            raise _Stop

    def _train_batches(self) -> Iterator[tuple[int, float]]:
        total = self.config.epochs * len(self._batcher)
        for number, batch in enumerate(self._batcher.epoch(self._epoch, self._batch), self._batch):
            step = self._epoch * len(self._batcher) + number + 1
            rng = np.random.default_rng((self.config.seed, 1, step))
            context = Pass(self.config.threads, self._workspace, rng)
            factor = self.config.schedule.factor(step, total)
            loss = self.network.train_step(batch, context, step=self._steps_before + step, factor=factor)
            if not math.isfinite(loss):
                raise DivergenceError(
                    f"training diverged: the loss is {loss} at epoch {self._epoch + 1}, batch {number + 1}; "
                    "lower the learning rate, or look for extreme values in X"
                )
            if step % self.config.recall_every == 0:
                self._recall = self.network.output.index_recall()
            self._points += len(batch)
            yield number, loss

    def _end_epoch(self) -> None:
        record = {
            "epoch": float(self._epoch + 1),
            "loss": self._loss_sum / len(self._batcher),
            "seconds": time.perf_counter() - self._started,
        }
        if self._recall is not None:
            record["index_recall"] = self._recall
        if self._validation:
            record |= self._validation.measure(self.network, self.config.threads, self._stop_if_asked)
            if record["P@1"] > self._best.score:
                weights = {name: array.copy() for name, array in self.network.weights().items()}
                self._best = _Best(record["P@1"], self._epoch, weights)
        self.history.append(record)
        self._epoch, self._batch, self._loss_sum = self._epoch + 1, 0, 0.0
        if time.perf_counter() - self._saved_at >= CHECKPOINT_SECONDS:
            self._save_checkpoint()
        for callback in self._callbacks:
            callback.on_epoch(record)

    def _out_of_patience(self) -> bool:
        if self.config.patience is None or self._best.epoch < 0:
            return False
        return self._epoch - 1 - self._best.epoch >= self.config.patience

    def _report(self) -> None:
        validation = None
        if self.history and "P@1" in self.history[-1]:
            validation = {name: value for name, value in self.history[-1].items() if name.startswith("P@")}
        progress = Progress(
            self._epoch,
            self.config.epochs,
            self._batch,
            len(self._batcher),
            self._loss_sum / self._batch,
            self._points,
            time.perf_counter() - self._started,
            self._recall,
            validation,
        )
        for callback in self._callbacks:
            callback.on_batch(progress)

    # --- checkpoints ---

    def _save_checkpoint(self) -> None:
        if self._checkpoint is None:
            return
        arrays: dict[str, NDArray[Any]] = dict(self.network.weights())
        for parameter in self.network.parameters():
            arrays |= {f"state-{parameter.name}-{key}": array for key, array in parameter.state.items()}
        arrays |= {f"sampler-{key}": array for key, array in self.network.output.sampler.state().items()}
        arrays |= {f"best-{key}": array for key, array in self._best.weights.items()}
        storage.save(self._checkpoint, arrays, self._position())
        self._saved_at = time.perf_counter()

    def _position(self) -> dict[str, Any]:
        return {
            "run": self._fingerprint(),
            "epoch": self._epoch,
            "batch": self._batch,
            "loss_sum": self._loss_sum,
            "recall": self._recall,
            "history": self.history,
            "best_score": self._best.score if self._best.weights else None,
            "best_epoch": self._best.epoch,
        }

    def resume(self) -> bool:
        """Take up the run where the checkpoint left it; return False if there is none.

        The network must have been made from the same settings and data; the rest of the run is then equal, bit for
        bit, to one that was never interrupted.
        """
        if self._checkpoint is None or not self._checkpoint.exists():
            return False
        arrays, position = storage.load(self._checkpoint)
        if position.get("run") != self._fingerprint():
            raise CheckpointError(
                f"{self._checkpoint} is the checkpoint of a run with other data or settings; "
                "give the same ones, or remove it to start afresh"
            )
        self.network.set_weights({k: v for k, v in arrays.items() if "-" not in k})
        for parameter in self.network.parameters():
            parameter.state = _strip(arrays, f"state-{parameter.name}-")
        self.network.output.sampler.restore(_strip(arrays, "sampler-"))
        self._epoch, self._batch = position["epoch"], position["batch"]
        self._loss_sum, self.history = position["loss_sum"], position["history"]
        self._recall = position["recall"]
        if position["best_score"] is not None:
            self._best = _Best(position["best_score"], position["best_epoch"], _strip(arrays, "best-"))
        return True

    def _fingerprint(self) -> dict[str, Any]:
        """Say what makes this run the same as another: settings, shapes and data, but not the number of threads."""
        data = 0
        for array in (
            self._features.indptr,
            self._features.indices,
            self._features.data,
            self._labels.indices,
        ):
            data = zlib.crc32(np.ascontiguousarray(array).data, data)
        return {
            "config": asdict(replace(self.config, threads=1)),
            "parameters": [[p.name, *p.shape, repr(p.optimizer)] for p in self.network.parameters()],
            "sampling": [repr(self.network.output.sampler), repr(self.network.output.loss)],
            "data": data,
        }


def _strip(arrays: dict[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}


@contextmanager
def _deferred_interrupt() -> Iterator[threading.Event]:
    """Turn the first Ctrl-C into an event that is looked at between batches; a second one acts at once.

    Outside of the main thread Python does not deliver signals, and the event never comes.
    """
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if event.is_set():
            raise KeyboardInterrupt
        event.set()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)
