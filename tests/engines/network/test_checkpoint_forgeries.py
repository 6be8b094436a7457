"""A checkpoint with right checksums and wrong content is refused before training, or leads to a valid result."""

from __future__ import annotations

import math
import os
from functools import partial

import numpy as np
import pytest
from scipy import sparse

from sparsenet import (
    BlendClassifier,
    CheckpointError,
    ExtremeClassifier,
    LSHSampler,
    Trainer,
    TrainingConfig,
    Trial,
    Validation,
    storage,
)
from tests.support import forging
from tests.support.interrupting import StopAt
from tests.support.networks import FEATURES, TRUTH, network
from tests.support.planted import X as POINTS
from tests.support.planted import Y as LABELS

X, Y = POINTS[:60], LABELS[:60]
SMALL = {"hidden": 4, "epochs": 3, "batch_size": 30, "n_jobs": 1, "random_state": 0}
CASES = {
    "plain": SMALL,
    "validated": {**SMALL, "validation_fraction": 0.2, "patience": 2, "optimizer": "adagrad"},
    "hashed": {**SMALL, "sampler": "lsh", "n_negatives": 8},
    "auto": {"n_jobs": 1, "random_state": 0},
}


class Batches:
    """A callback that counts the batches."""

    def __init__(self) -> None:
        self.n = 0

    def on_batch(self, progress) -> None:
        self.n += 1


def assert_refused_or_valid(run, forgery, resume) -> bool:
    """Resume from a forgery: only CheckpointError may come, before the first batch. Return whether it came."""
    what, arrays, metadata = forgery
    forging.save(run, arrays, metadata)
    batches = Batches()
    try:
        resume(batches)
    except CheckpointError as error:
        refusal = error
    except Exception as error:
        raise AssertionError(f"{what}: {error!r}") from error
    else:
        return False
    assert str(run) in str(refusal), what
    assert batches.n == 0, what
    return True


def interrupted(case, run, batch=4):
    model = ExtremeClassifier(**CASES[case])
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y, checkpoint=run, callbacks=[StopAt(batch)])
    return storage.load(run)


def resumed(case, run, batches):
    model = ExtremeClassifier(**CASES[case]).fit(X, Y, checkpoint=run, resume=True, callbacks=[batches])
    assert np.isfinite(model.predict_proba(X)).all()
    assert [record["epoch"] for record in model.history_] == list(range(1, model.n_iter_ + 1))
    assert all(math.isfinite(value) for record in model.history_ for value in record.values())
    for parameter in model.network_.parameters():
        assert np.isfinite(parameter.value).all()


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch):
    """Save hundreds of forgeries without waiting for the disk."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


@pytest.mark.parametrize(
    ("case", "forged"),
    [
        ("plain", forging.forged_metadata),
        ("validated", partial(forging.forged_metadata, "history", "best_score", "best_epoch", "last", "epoch")),
        ("auto", partial(forging.forged_metadata, "parameters", "epochs", "wide_budget", "hidden", "trial")),
        *((case, forging.forged_arrays) for case in ("plain", "validated", "hashed")),
    ],
)
@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "all"])
def test_forged_content_is_refused_or_harmless(tmp_path, case, forged, step):
    run = tmp_path / "run"
    arrays, metadata = interrupted(case, run)
    forgeries = list(forged(arrays=arrays, metadata=metadata))[::step]
    refused = [assert_refused_or_valid(run, forgery, lambda own: resumed(case, run, own)) for forgery in forgeries]
    assert sum(refused) > 0.7 * len(forgeries)
    assert not assert_refused_or_valid(run, ("nothing", arrays, metadata), lambda own: resumed(case, run, own))


@pytest.mark.parametrize("bad", [-(2**31), -1, 2**31 - 1, 100])
def test_rejects_a_last_step_that_the_run_has_not_reached(tmp_path, bad):
    arrays, metadata = interrupted("plain", tmp_path / "run")
    arrays["state-output.weight-last_step"][0] = bad
    forging.save(tmp_path / "run", arrays, metadata)
    with pytest.raises(CheckpointError, match=f"last_step must hold steps from 0 to 4, got .*{bad}"):
        resumed("plain", tmp_path / "run", Batches())


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_rejects_a_best_epoch_with_weights_that_are_not_finite(tmp_path, bad):
    arrays, metadata = interrupted("validated", tmp_path / "run")
    arrays["best-output.weight"][0, 0] = bad
    forging.save(tmp_path / "run", arrays, metadata)
    with pytest.raises(CheckpointError, match=r"best-output\.weight holds NaN or infinity"):
        resumed("validated", tmp_path / "run", Batches())


def test_rejects_a_size_that_auto_would_not_choose(tmp_path):
    run = tmp_path / "run"
    arrays, metadata = interrupted("auto", run)
    for name, value, shown in (("epochs", 10**6, 10**6), ("wide_budget", 1025, 1025)):
        forging.save(run, arrays, {**metadata, "run": {**metadata["run"], name: value}})
        with pytest.raises(CheckpointError, match=f"a run with {name}={shown}, which {name}='auto' would not choose"):
            resumed("auto", run, Batches())
    parameters = [
        [name, n, 50_000 if name == "output.weight" else m, o] for name, n, m, o in metadata["run"]["parameters"]
    ]
    forging.save(run, arrays, {**metadata, "run": {**metadata["run"], "parameters": parameters}})
    with pytest.raises(CheckpointError, match="a run with hidden="):
        resumed("auto", run, Batches())


def test_a_damaged_checkpoint_is_a_checkpoint_error(tmp_path):
    run = tmp_path / "run"
    interrupted("plain", run)
    data = next(run.glob("arrays-*"))
    raw = data.read_bytes()
    data.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    with pytest.raises(
        CheckpointError, match=r"cannot be read: .*SHA-256.*; or remove it to start again from the beginning"
    ):
        resumed("plain", run, Batches())


def trial_trainer(run, *callbacks):
    held_out = Validation(features=FEATURES.take(np.arange(50)), truth=sparse.csr_array(LABELS[:50]))
    trial = Trial(epochs=2, held_out=held_out, may_end=True)
    config = TrainingConfig(epochs=4, batch_size=100)
    return Trainer(network(4), FEATURES, TRUTH, config, trial=trial, checkpoint=run, callbacks=callbacks)


def test_forged_trials_are_refused_or_harmless(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        trial_trainer(tmp_path / "run", StopAt(6)).run()
    arrays, metadata = storage.load(tmp_path / "run")
    first = arrays["trial-first"]
    assert first.shape == (50,)

    def resume(batches):
        trainer = trial_trainer(tmp_path / "run", batches)
        assert trainer.resume()
        trainer.run()
        assert math.isfinite(trainer.history[-1]["loss"])

    for what, changed in forging.changes(first):
        forgery = (what, {**arrays, "trial-first": changed}, metadata)
        assert assert_refused_or_valid(tmp_path / "run", forgery, resume), what
    for value in forging.VALUES:
        forgery = (f"last: {value}", arrays, forging.with_value(metadata, ("last",), value))
        assert_refused_or_valid(tmp_path / "run", forgery, resume)
    assert not assert_refused_or_valid(tmp_path / "run", ("nothing", arrays, metadata), resume)


class TreeTrainedError(Exception):
    """The fit of a blend got as far as its tree."""


def train_tree(*args, **kwargs):
    raise TreeTrainedError


def test_forged_checkpoints_of_a_blend_are_refused_before_the_tree_is_trained(tmp_path, monkeypatch):
    run = tmp_path / "run"

    def blend():
        return BlendClassifier(network=ExtremeClassifier(epochs=3, hidden=4), random_state=0, n_jobs=1)

    blend().fit(X, Y, checkpoint=run)
    arrays, metadata = storage.load(run)
    monkeypatch.setattr("sparsenet.engines.tree.fit_tree.fit", train_tree)
    for value in forging.VALUES:
        for place in (("run",), ("run", "parameters"), ("run", "classifier"), ("run", "seed")):
            if forging.with_value(metadata, place, value) == metadata:
                continue
            forging.save(run, arrays, forging.with_value(metadata, place, value))
            # Some parameters are known only once the network is built, after the tree.
            with pytest.raises((CheckpointError, TreeTrainedError)):
                blend().fit(X, Y, checkpoint=run, resume=True)


def test_a_sampler_without_a_state_takes_none(tmp_path):
    arrays, metadata = interrupted("plain", tmp_path / "run")
    forging.save(tmp_path / "run", {**arrays, "sampler-stale": np.zeros(3, bool)}, metadata)
    with pytest.raises(CheckpointError, match=r"a state of the sampler, and .*Sampler.* keeps none"):
        resumed("plain", tmp_path / "run", Batches())


@pytest.mark.parametrize("family", [None, "chosen"])
def test_a_hash_index_of_another_width_is_refused(tmp_path, family):
    run = tmp_path / "run"

    def trainer(*callbacks):
        made = network(4, wide=False, sampler=LSHSampler(check_every=1), n_negatives=8)
        config = TrainingConfig(epochs=2, batch_size=100)
        return Trainer(made, FEATURES, TRUTH, config, checkpoint=run, callbacks=callbacks)

    with pytest.raises(KeyboardInterrupt):
        trainer(StopAt(5)).run()
    arrays, metadata = storage.load(run)
    name = "sampler-index.center" if family is None else "sampler-chosen"
    wrong = np.zeros(9, np.float32) if family is None else np.array([0, 4096])
    forging.save(run, {**arrays, name: wrong}, metadata)
    with pytest.raises(CheckpointError, match="must have shape .5,., got .9,." if family is None else "chosen must be"):
        trainer().resume()
