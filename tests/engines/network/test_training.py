"""The training loop: schedules, validation, divergence, determinism, checkpoints."""

import math
import os
import signal
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from sparsenet import (
    SGD,
    Adagrad,
    Adam,
    BinaryCrossEntropy,
    CheckpointError,
    DivergenceError,
    FrequencySampler,
    LSHSampler,
    RandomSampler,
    Rows,
    SampledSoftmax,
    Schedule,
    StopTraining,
    Trainer,
    TrainingConfig,
    Validation,
    storage,
)
from sparsenet.engines.network.training.checkpoints import Checkpoint
from tests.support.interrupting import StopAt
from tests.support.networks import FEATURES, TRUTH, D, L, assert_equal_weights, network, train
from tests.support.planted import X as POINTS
from tests.support.planted import Y as LABELS
from tests.support.planted import fast

# --- schedules ---


@pytest.mark.parametrize(
    ("schedule", "factors"),
    [
        (Schedule(decay="constant"), [1, 1, 1]),
        (Schedule(decay="linear", final=0.0), [0.9, 0.5, 0.0]),
        (Schedule(decay="cosine", final=0.0), [0.5 * (1 + math.cos(0.1 * math.pi)), 0.5, 0.0]),
        (Schedule(decay="linear", final=0.5), [0.95, 0.75, 0.5]),
        (Schedule(warmup=0.2, decay="constant"), [0.5, 1, 1]),
        (Schedule(warmup=0.2, decay="constant", peak=0.5), [0.25, 0.5, 0.5]),
        (Schedule(decay="linear", peak=0.5, final=0.3), [0.48, 0.4, 0.3]),
    ],
)
def test_schedules_follow_their_formulas(schedule, factors):
    assert [schedule.factor(step, 100) for step in (10, 50, 100)] == pytest.approx(factors)


def test_a_tiny_rate_barely_moves_weights():
    made = network(8, optimizer=SGD(rate=1.0))
    before = made.output.weight.value.copy()
    train(made, schedule=Schedule(decay="linear", final=0.0))  # the only step is the last
    np.testing.assert_array_equal(made.output.weight.value, before)


# --- validation, divergence ---


def validation(points=slice(0, 50)):
    return Validation(Rows.of(sparse.csr_array(POINTS[points], dtype=np.float32)), sparse.csr_array(LABELS[points]))


TRUE = sparse.csr_array(LABELS, dtype=np.float32)


@pytest.mark.parametrize(
    ("held_out", "error", "message"),
    [
        (lambda: Validation(FEATURES, TRUE[:5]), ValueError, "features has 400 points, truth has 5 rows"),
        (lambda: Validation(FEATURES, LABELS), TypeError, "truth must be .* CSR format, got ndarray: pass csr_array"),
        (lambda: Validation(sparse.csr_array(POINTS), TRUE), TypeError, "features must be Rows, got csr_array"),
        (lambda: Validation(FEATURES, TRUE[:, :7]), ValueError, f"validation: truth has 7 columns, .* takes {L}"),
        (lambda: Validation(TRUTH, TRUE), ValueError, f"validation: features has {L} columns, .* takes {D}"),
        (lambda: (FEATURES, TRUE), TypeError, "validation must be a Validation, got tuple"),
        (lambda: Validation(FEATURES.slice(0, 0), TRUE[:0]), ValueError, "validation has no points"),
    ],
)
def test_rejects_mismatched_validation_before_training(held_out, error, message):
    with pytest.raises(error, match=message):
        Trainer(network(8), FEATURES, TRUTH, TrainingConfig(), validation=held_out())


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"config": {"epochs": 3}}, TypeError, r"config must be a TrainingConfig, got {'epochs': 3}: pass"),
        ({"time_budget": -4}, ValueError, "time_budget must be a number in .*, got -4"),
        ({"time_budget": math.nan}, ValueError, "time_budget must be a number in .*, got nan"),
        ({"steps_before": -4}, ValueError, "steps_before must be an integer .*, got -4"),
        ({"labels": replace(TRUTH, data=0 * TRUTH.data)}, ValueError, "labels must hold numbers above 0, got 0"),
        ({"labels": replace(TRUTH, data=-TRUTH.data)}, ValueError, "labels must hold numbers above 0, got -1"),
    ],
)
def test_a_trainer_rejects_bad_settings(options, error, message):
    with pytest.raises(error, match=message):
        Trainer(network(8), FEATURES, **{"labels": TRUTH, "config": TrainingConfig()} | options)


def test_keeps_the_best_epoch():
    made = network(16, wide=False, optimizer=Adam(rate=0.02))
    trainer = train(made, epochs=15, batch_size=40, run={"validation": validation()})
    measured = [record["P@1"] for record in trainer.history]
    assert validation().measure(made, 1, lambda: None)["P@1"] == max(measured)
    assert {"P@1", "P@3", "P@5", "loss", "seconds", "epoch"} <= set(trainer.history[0])


def test_patience_ends_the_training():
    made = network(16, wide=False, optimizer=SGD(rate=1e-9))  # never gets better
    trainer = train(made, epochs=50, patience=3, run={"validation": validation()})
    assert len(trainer.history) == 4


def test_divergence_is_an_error():
    made = network(16, wide=False, optimizer=SGD(rate=1e30))
    with pytest.raises(
        DivergenceError, match=r"the loss is (nan|inf) at epoch \d+, batch \d+; lower the learning rate"
    ):
        train(made, epochs=20)


def test_trains_on_points_without_labels_or_features():
    features = Rows.of(sparse.csr_array((5, D), dtype=np.float32))
    labels = Rows.of(sparse.csr_array((5, L), dtype=np.float32))
    for loss in (BinaryCrossEntropy(), SampledSoftmax()):
        made = network(8, loss=loss)
        assert math.isfinite(train(made, features, labels).history[0]["loss"])


# --- determinism, checkpoints ---


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"sampler": RandomSampler, "n_negatives": 10, "dropout": 0.3},
        {"sampler": LSHSampler, "n_negatives": 10, "wide": False},
        {"loss": SampledSoftmax(), "sampler": FrequencySampler, "n_negatives": 10, "optimizer": Adagrad()},
        {"sampler": RandomSampler, "n_negatives": 10, "wide": False, "per_sample": True},
    ],
    ids=str,
)
def test_training_is_bit_identical_at_any_thread_count(settings):
    def trained(threads):
        made = network(24, 16, **{k: v() if isinstance(v, type) else v for k, v in settings.items()})
        train(made, epochs=3, batch_size=64, threads=threads)
        return made

    alone = trained(1)
    for threads in (2, 4):
        together = trained(threads)
        assert_equal_weights(alone, together)
        for a, b in zip(alone.topk(FEATURES, 5, 1), together.topk(FEATURES, 5, threads), strict=True):
            np.testing.assert_array_equal(a, b)


class Interrupt:
    """Interrupt the training at a batch, without waiting for a signal to arrive."""

    trainer: Any

    def __init__(self, at):
        self.at, self.batches = at, 0

    def on_batch(self, progress):
        self.batches += 1
        if self.batches == self.at:
            self.trainer._interrupted.set()

    def on_epoch(self, record):
        pass


@pytest.mark.parametrize("at", [1, 9, 10, 11, 27])
@pytest.mark.parametrize("sampler", [RandomSampler, LSHSampler])
def test_resuming_equals_never_having_stopped(tmp_path, at, sampler):
    def make(threads, interrupt=None, checkpoint=tmp_path / "run"):
        made = network(24, sampler=sampler(), n_negatives=10, dropout=0.2)
        config = TrainingConfig(epochs=3, batch_size=40, threads=threads, recall_every=4)
        callbacks = [interrupt] if interrupt else []
        trainer = Trainer(
            made, FEATURES, TRUTH, config, validation=validation(), callbacks=callbacks, checkpoint=checkpoint
        )
        if interrupt:
            interrupt.trainer = trainer
        return made, trainer

    whole, uninterrupted = make(1, checkpoint=None)
    uninterrupted.run()
    _, stopped = make(2, Interrupt(at))
    with pytest.raises(KeyboardInterrupt):
        stopped.run()
    resumed, trainer = make(4)
    assert trainer.resume()
    trainer.run()
    assert_equal_weights(whole, resumed)
    for a, b in zip(uninterrupted.history, trainer.history, strict=True):
        assert {**a, "seconds": 0} == {**b, "seconds": 0}


def test_rejects_a_checkpoint_of_other_data(tmp_path):
    made = network(8)
    run = tmp_path / "run"
    train(made, run={"checkpoint": run})
    other = Trainer(made, FEATURES, TRUTH, TrainingConfig(epochs=2), checkpoint=run)
    there, here = f"epochs=1, batch_size={len(FEATURES)}, decay=constant", "epochs=2, batch_size=256, decay=linear"
    with pytest.raises(CheckpointError, match=f"other data or settings: that had {there}; this one has {here}; give"):
        other.resume()
    fewer = Trainer(made, FEATURES.take(np.arange(9)), TRUTH.take(np.arange(9)), TrainingConfig(), checkpoint=run)
    there, here = (rf"points={n} x {D} of checksum \w+, labels={n} x {L} of .*" for n in (len(FEATURES), 9))
    with pytest.raises(CheckpointError, match=f": other training data: that had {there}; this one has {here}; give"):
        fewer.resume()


def test_rejects_a_directory_that_is_not_a_checkpoint(tmp_path):
    storage.save(tmp_path / "model", {}, {"model": "ExtremeClassifier"})
    with pytest.raises(
        FileExistsError, match="model: holds a model, ExtremeClassifier, which a checkpoint would replace"
    ):
        Trainer(network(8), FEATURES, TRUTH, TrainingConfig(), checkpoint=tmp_path / "model")
    storage.save(tmp_path / "other", {}, {"of": "something else"})
    trainer = Trainer(network(8), FEATURES, TRUTH, TrainingConfig(), checkpoint=tmp_path / "other")
    with pytest.raises(CheckpointError, match="other is not a checkpoint: name the directory"):
        trainer.resume()


def test_resuming_without_a_checkpoint_starts_from_scratch(tmp_path):
    trainer = Trainer(network(8), FEATURES, TRUTH, TrainingConfig(), checkpoint=tmp_path / "none")
    assert not trainer.resume()


def test_rejects_a_checkpoint_of_other_validation_data(tmp_path):
    """The validation data decided which epoch was best so far."""
    made = network(8)
    train(made, run={"checkpoint": tmp_path / "run", "validation": validation()})
    config = TrainingConfig(epochs=1, batch_size=len(FEATURES), schedule=Schedule(decay="constant"))
    for measured in (None, validation(slice(50, 100))):
        other = Trainer(network(8), FEATURES, TRUTH, config, checkpoint=tmp_path / "run", validation=measured)
        now = "none" if measured is None else "50 x"
        with pytest.raises(CheckpointError, match=f"that had validation points=50 x .*; this one has .*points={now}"):
            other.resume()


class Nameless(RandomSampler):
    __repr__ = object.__repr__


def test_a_part_without_a_fingerprint_cannot_be_checkpointed(tmp_path):
    with pytest.raises(ValueError, match="checkpoint needs Nameless to have a __repr__ that names its settings"):
        Trainer(network(8, sampler=Nameless()), FEATURES, TRUTH, TrainingConfig(), checkpoint=tmp_path / "run")
    assert not (tmp_path / "run").exists()


class InterruptAtTheEnd:
    """Ctrl-C when the last epoch is over."""

    def on_epoch(self, record):
        if record["epoch"] == 2:
            os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupt_after_the_last_batch_is_not_lost():
    made = network(8)
    trainer = Trainer(made, FEATURES, TRUTH, TrainingConfig(epochs=2), callbacks=[InterruptAtTheEnd()])
    with pytest.raises(KeyboardInterrupt):
        trainer.run()
    assert len(trainer.history) == 2
    whole = network(8)
    Trainer(whole, FEATURES, TRUTH, TrainingConfig(epochs=2)).run()
    assert_equal_weights(made, whole)


@pytest.mark.parametrize("own", [signal.SIG_IGN, lambda number, frame: heard.append(number)], ids=["ignored", "own"])
def test_keeps_a_custom_interrupt_handler(own):
    heard.clear()
    before = signal.signal(signal.SIGINT, own)
    try:
        trainer = Trainer(
            network(8), FEATURES, TRUTH, TrainingConfig(epochs=2), callbacks=[StopAt(1), InterruptAtTheEnd()]
        )
        trainer.run()
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(trainer.history) == 2
    assert heard == ([] if own is signal.SIG_IGN else [signal.SIGINT] * 2)


heard: list[int] = []


@pytest.mark.parametrize("event", ["on_batch", "on_epoch"])
def test_a_callback_may_end_the_training(event):
    class Stop:
        pass

    def stop(_):
        raise StopTraining

    setattr(Stop, event, staticmethod(stop))
    heard = []

    class After:
        def on_epoch(self, record):
            heard.append(record["epoch"])

    made = network(8)
    config = TrainingConfig(epochs=5, batch_size=10)
    trainer = Trainer(made, FEATURES, TRUTH, config, callbacks=[Stop(), After()], validation=validation())
    trainer.run()
    assert heard == [1]
    assert len(trainer.history) == 1
    assert trainer.steps == len(trainer._batcher)
    model = fast(epochs=5).fit(POINTS, LABELS, callbacks=[Stop()])
    assert model.n_iter_ == 1
    assert model.score(POINTS, LABELS) > 0


@pytest.mark.parametrize(("seconds", "epochs"), [(1000.0, 1), (0.0, 3)])
def test_a_run_that_crashes_continues_from_its_last_checkpoint(tmp_path, seconds, epochs):
    """The first epoch is always saved, later ones if the last write is `seconds` old."""

    class Crash:
        def on_epoch(self, record):
            if record["epoch"] == 3:
                raise RuntimeError

    def made(**parts):
        return Trainer(network(16), FEATURES, TRUTH, TrainingConfig(epochs=5, batch_size=50), **parts)

    whole, crashed = made(), made(callbacks=[Crash()])
    whole.run()
    crashed._checkpoint = Checkpoint(tmp_path / "run", crashed.network, seconds=seconds)
    with pytest.raises(RuntimeError):
        crashed.run()
    again = made(checkpoint=tmp_path / "run")
    assert again.resume()
    assert len(again.history) == epochs
    again.run()
    assert_equal_weights(again.network, whole.network)


@pytest.mark.parametrize(("seconds", "batches"), [(1000.0, None), (0.0, 2)])
def test_a_run_that_crashes_in_a_long_epoch_continues_within_it(tmp_path, seconds, batches):
    class Crash:
        def on_batch(self, progress):
            if progress.batch == 3:
                raise RuntimeError

    def made(**parts):
        return Trainer(network(16), FEATURES, TRUTH, TrainingConfig(epochs=1, batch_size=20), **parts)

    whole, crashed = made(), made(callbacks=[Crash()])
    whole.run()
    crashed._checkpoint = Checkpoint(tmp_path / "run", crashed.network, seconds_within=seconds)
    with pytest.raises(RuntimeError):
        crashed.run()
    again = made(checkpoint=tmp_path / "run")
    assert again.resume() == (batches is not None)
    assert again.steps == (batches or 0)
    again.run()
    assert_equal_weights(again.network, whole.network)
