"""The training loop: batches, epochs, validation, early stopping, checkpoints and Ctrl-C."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from sparsenet.core.batches import Batcher, Workspace
from sparsenet.core.rows import Rows, RowSource
from sparsenet.core.validation import integer, optional, real
from sparsenet.core.workers import GRACE
from sparsenet.engines.network.layers import Pass
from sparsenet.engines.network.model import Network
from sparsenet.engines.network.optim import Parameter
from sparsenet.engines.network.shard_tasks import SHARDS
from sparsenet.engines.network.shards import Shards
from sparsenet.engines.network.training.budget import TimeBudget
from sparsenet.engines.network.training.checkpoints import Best, Checkpoint, RunState
from sparsenet.engines.network.training.checks import check_run
from sparsenet.engines.network.training.fingerprint import data_of, fingerprint
from sparsenet.engines.network.training.interrupts import Interrupt, deferred_interrupt
from sparsenet.engines.network.training.reports import Callback, Progress, StopTraining, Validation, check_callbacks
from sparsenet.engines.network.training.restoring import RunSize
from sparsenet.engines.network.training.training_config import TrainingConfig
from sparsenet.engines.network.training.trial import ScoreCorrection, Trial, Verdict


class DivergenceError(ArithmeticError):
    """The loss is no longer a finite number.

    Examples
    --------
    >>> from sparsenet import DivergenceError
    >>> issubclass(DivergenceError, ArithmeticError)
    True
    """


class _Stop(KeyboardInterrupt):
    """Ctrl-C, raised between two batches, where the state is consistent."""


class EndedRun(NamedTuple):
    """The measurements of each epoch of a run, and its number of steps."""

    history: Sequence[dict[str, float]]
    steps: int


class Trainer:
    """Train a network on sparse points and labels, in place.

    Parameters
    ----------
    network : Network
        Initialised layers.
    features, labels : Rows
        The points (n, d) and their labels (n, L).
    config : TrainingConfig
        Epochs, batch size, schedule and seed.
    validation : Validation, optional
        Data to measure after each epoch; the weights of the best epoch are kept, except for changes by `trial`.
    trial : Trial, optional
        Decides on a hold-out whether to drop the hidden layers or to stop early, and rescales the final scores. Needs
        a wide path and a sampler other than LSHSampler.
    callbacks : sequence of Callback
        Called with progress.
    checkpoint : path, optional
        Directory for the state of the run, saved after an epoch (every few seconds at most), every five minutes of a
        longer epoch, and after Ctrl-C.
    time_budget : float, optional
        Maximum seconds for `run`; the learning rate decays accordingly. The result then depends on the speed of the
        machine.
    classifier : str, optional
        Kind of classifier that trains the network; a checkpoint of another kind is rejected.
    steps_before : int
        Steps of earlier runs, which the optimizers' states continue; 0 starts with fresh states.
    after : EndedRun, optional
        A run of the same network on some of the points. This one goes on after its epochs.
    shards : Shards, optional
        Takes the steps of the output layer by tasks.

    Attributes
    ----------
    verdict : Verdict or None
        The decision of `trial`, if it was made in this process.
    correction : ScoreCorrection
        The score correction that `trial` fitted at the end.

    Examples
    --------
    Eight points, each with its own feature and its own label:

    >>> from scipy.sparse import csr_array
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
        features: RowSource,
        labels: Rows,
        config: TrainingConfig,
        *,
        validation: Validation | None = None,
        trial: Trial | None = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None,
        time_budget: float | None = None,
        classifier: str | None = None,
        steps_before: int = 0,
        after: EndedRun | None = None,
        shards: Shards | None = None,
    ) -> None:
        check_run(network, features, labels, config, validation, trial)
        optional(real, "time_budget", time_budget, 0, 1e9)
        integer("steps_before", steps_before, 0)
        self.network, self.config = network, config
        self._features, self._labels = features, labels
        self._validation, self._trial, self._callbacks = validation, trial, check_callbacks(callbacks)
        self.verdict: Verdict | None = None
        self.correction = ScoreCorrection()
        self._batcher = Batcher(features, labels, batch_size=config.batch_size, seed=config.seed)
        self._workspace, self._budget = Workspace(), TimeBudget(time_budget)
        epoch, history = (0, []) if after is None else (len(after.history), list(after.history))
        self._state: RunState = RunState(epoch, history=history)
        self._follows_pilot = after is not None
        self._trial_seconds = 0.0
        self._started, self._seconds_before, self._points = 0.0, 0.0, 0
        self._classifier = classifier
        self._steps_before = steps_before if after is None else after.steps - self._steps_done
        self._interrupted, self._stopped = Interrupt(None), False
        self._checkpoint, self._shards = Checkpoint(checkpoint, network), shards
        if steps_before == 0 and after is None:
            for parameter in network.parameters():
                parameter.drop_state()
        self._label_counts = np.bincount(labels.indices, minlength=labels.width)
        network.output.prepare(self._label_counts, config.threads)

    def run(self) -> None:
        """Train to the end, or until validation stops improving.

        Ctrl-C finishes the current batch, saves a checkpoint if a directory was given, keeps the weights learnt so
        far and raises KeyboardInterrupt.
        """
        self._started = time.perf_counter()
        self._seconds_before = self.history[-1]["seconds"] if self.history else 0.0
        self._budget.start()
        patience = None if self._shards is None else GRACE
        # Overflow makes the loss non-finite, which raises an error; NumPy's warnings would only precede it.
        with deferred_interrupt(patience) as self._interrupted, np.errstate(over="ignore", invalid="ignore"):
            if self._validation and self._budget.is_limited():
                self._budget.reserve(self._validation.takes(self.network, self.config.threads))
            try:
                while self._state.epoch < self.epochs and not self._is_done():
                    self._train_epoch()
                self._interrupted.end_batch()
                self._gather()
                if self._state.best.weights:
                    self.network.set_weights(self._state.best.weights)
                self._rescale_scores()
            except _Stop:
                self._interrupted.end_batch()
                self._save()
                self._gather()
                raise KeyboardInterrupt from None
            except Exception as error:
                if self._shards is not None and self._interrupted.is_set():  # Ctrl-C may have killed the workers
                    raise KeyboardInterrupt from error
                raise
            if self._interrupted.is_set():  # after the last batch
                raise KeyboardInterrupt

    @property
    def history(self) -> list[dict[str, float]]:
        """Return the measurements of each epoch so far."""
        return self._state.history

    @property
    def steps(self) -> int:
        """Return the number of steps so far, including earlier runs."""
        return self._steps_before + self._steps_done

    @property
    def _steps_done(self) -> int:
        return self._state.epoch * len(self._batcher) + self._state.batch

    @property
    def epochs(self) -> int:
        """Return the current upper bound on the number of epochs."""
        return self._state.last or self.config.epochs

    @property
    def _total_steps(self) -> int:
        return self.epochs * len(self._batcher)

    def _train_epoch(self) -> None:
        for batch_number, loss in self._train_batches():
            self._state.batch = batch_number + 1
            self._state.loss_sum += loss
            self._budget.step_done()
            self._notify("on_batch", self._progress())
            self._check_interrupt()
            if self._stopped or self._budget.is_spent():
                break
            if self._checkpoint.is_due_within_epoch():
                self._save()
        self._end_epoch()

    def _check_interrupt(self) -> None:
        if self._interrupted.is_set():
            raise _Stop

    def _train_batches(self) -> Iterator[tuple[int, float]]:
        for number, batch in enumerate(self._batcher.epoch(self._state.epoch, self._state.batch), self._state.batch):
            step = self._state.epoch * len(self._batcher) + number + 1
            rng = np.random.default_rng((self.config.seed, 1, step))
            context = Pass(self.config.threads, self._workspace, rng)
            factor = self.config.schedule.factor(step, max(step, self._budget.last_step(step, self._total_steps)))
            how: dict[str, Any] = {"output_step": self._shards.step} if self._shards else {}
            loss = self.network.train_step(batch, context, step=self._steps_before + step, factor=factor, **how)
            if not math.isfinite(loss):
                raise DivergenceError(
                    f"training diverged: the loss is {loss} at epoch {self._state.epoch + 1}, batch {number + 1}; "
                    "lower the learning rate, or look for extreme values in X"
                )
            if step % self.config.recall_every == 0:
                self._state.recall = self.network.output.index_recall()
            self._points += len(batch)
            yield number, loss

    def _gather(self, with_states: Sequence[Parameter] = ()) -> None:
        """Bring the weights of the output layer here, and the optimizers' state of some of its parameters."""
        if self._shards is not None:
            self._shards.gather(with_states)

    def _save(self) -> None:
        """Write a checkpoint, if there is a directory."""
        if self._checkpoint.is_wanted:
            self._gather(self.network.output.parameters())
            self._checkpoint.save(self._state, self._fingerprint)

    def _end_epoch(self) -> None:
        state = self._state
        self._run_trial()
        record = {
            "epoch": float(state.epoch + 1),
            "loss": state.loss_sum / max(state.batch, 1),
            "seconds": self._seconds_before + time.perf_counter() - self._started,
        }
        if state.recall is not None:
            record["index_recall"] = state.recall
        if self._validation:
            self._gather()
            record |= self._validation.measure(self.network, self.config.threads, self._check_interrupt)
            if record["P@1"] > state.best.score:
                weights = {name: array.copy() for name, array in self.network.weights().items()}
                state.best = Best(record["P@1"], state.epoch, weights)
        self.history.append(record)
        state.epoch, state.batch, state.loss_sum = state.epoch + 1, 0, 0.0
        if self._checkpoint.is_due():
            self._save()
        self._notify("on_epoch", record)

    def _run_trial(self) -> None:
        """Decide, at the epochs of the trial, whether to drop the hidden layers or to stop early."""
        state, trial, trained = self._state, self._trial, self._state.epoch + 1
        if trial is None or self.network.input is None or self._budget.is_spent():
            return
        if trained != trial.epochs and not (trial.may_end and trained == 1):
            return
        self._gather()
        started = time.perf_counter()
        measured = trial.measure(self.network, self.config.threads, self._check_interrupt)
        seconds = time.perf_counter() - started
        self._budget.not_steps(seconds)
        self._budget.reserve(seconds - self._trial_seconds)  # for the next measurement
        self._trial_seconds = seconds
        if trained != trial.epochs:
            state.first = measured.best()
            return
        self.verdict = trial.decide(measured, state.first)
        if self.verdict.ends and trained + 1 < self.config.epochs:
            state.last = trained + 1
        # With validation, it must also beat the best epoch so far, whose weights would be kept.
        if self.verdict.drops and self.verdict.wide_precision > state.best.score:
            self._drop_hidden()

    def _drop_hidden(self) -> None:
        output = self.network.output
        self._gather([parameter for parameter in output.parameters() if parameter is not output.weight])
        self.network.drop_hidden()
        if self._shards is not None:
            self._shards.restart()
        self._state.best = Best()  # its weights include the hidden layers
        self._workspace = Workspace()
        self._budget.change_pace()

    def _rescale_scores(self) -> None:
        """Rescale the scores by the trial's correction, unless time ran out before it."""
        if self._trial is None or self._state.epoch < self._trial.epochs:
            return
        arguments = self.network, self._label_counts, self.config.threads
        self.correction = correction = self._trial.correct(*arguments, self._check_interrupt)
        if correction != ScoreCorrection():
            self.network.output.rescale(correction.slope, correction.shifts(self._label_counts))
        if self._validation and correction.count_weight:
            measured = self._validation.measure(self.network, self.config.threads, lambda: None)
            self.history[self._state.best.epoch] |= measured  # the scores changed

    def _is_done(self) -> bool:
        return self._stopped or self._budget.is_spent() or self._out_of_patience()

    def _out_of_patience(self) -> bool:
        if self.config.patience is None or self._state.best.epoch < 0:
            return False
        return self._state.epoch - 1 - self._state.best.epoch >= self.config.patience

    def _notify(self, event: str, payload: object) -> None:
        """Notify all callbacks that handle `event`, even after one of them requests a stop."""
        for callback in self._callbacks:
            if hasattr(callback, event):
                try:
                    getattr(callback, event)(payload)
                except StopTraining:
                    self._stopped = True

    def _progress(self) -> Progress:
        validation = None
        if self.history and "P@1" in self.history[-1]:
            validation = {name: value for name, value in self.history[-1].items() if name.startswith("P@")}
        return Progress(
            self._state.epoch,
            self.epochs,
            self._state.batch,
            len(self._batcher),
            self._state.loss_sum / self._state.batch,
            self._points,
            time.perf_counter() - self._started,
            self._state.recall,
            validation,
            self._budget.steps(self._steps_done, self._total_steps),
        )

    def resume(self) -> bool:
        """Resume the run from the checkpoint; return False if there is none.

        The network must be built from the same settings and data. The run is then equal, bit for bit, to an
        uninterrupted one.
        """
        trial = self._trial
        size = RunSize(
            epochs=self.config.epochs,
            batches=len(self._batcher),
            steps_before=self._steps_before,
            is_validated=self._validation is not None,
            trial_points=len(trial.held_out.features) if trial and trial.may_end else None,
        )
        state = self._checkpoint.load(self._fingerprint, size, may_drop_hidden=trial is not None)
        self._state = state or self._state
        return state is not None

    def _fingerprint(self) -> dict[str, Any]:
        data = data_of(self._features, self._labels, self._validation, self._trial)
        shards = SHARDS if self._shards is not None else None
        about: dict[str, Any] = {"classifier": self._classifier, "follows_pilot": self._follows_pilot}
        return fingerprint(self.network, self.config, data, trial=self._trial, shards=shards, **about)
