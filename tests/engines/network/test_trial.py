"""The trial of hidden units during training, on held-out points."""

import itertools
import os
import signal
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit, logit

from bench import planted
from sparsenet import (
    BinaryCrossEntropy,
    CheckpointError,
    ExtremeClassifier,
    LSHSampler,
    Rows,
    SampledOutput,
    SampledSoftmax,
    Schedule,
    Trainer,
    TrainingConfig,
    Trial,
    Validation,
    metrics,
    storage,
)
from sparsenet.core.ranked import is_hit
from sparsenet.core.rows import as_matrix
from sparsenet.core.seeds import run_seed
from sparsenet.engines.network import network_holdout, options
from sparsenet.engines.network.training import ScoreCorrection, Verdict, trainer, trial
from sparsenet.engines.network.training.budget import TimeBudget
from sparsenet.engines.network.training.trial import WEIGHTS, Look
from sparsenet.selection import frequency
from sparsenet.selection.holdout import split
from tests.support.interrupting import StopAt, interrupted_before
from tests.support.networks import FEATURES, TRUTH, assert_equal_weights, network, train

N, FAST = 1600, {"random_state": 0, "n_jobs": 1, "batch_size": 32, "epochs": 6, "verbose": 0}
NOISY = planted.generate(planted.Shape.with_labels(2500, features=10_000, points=N, test_points=600))


def tangled(n):
    """Draw labels that depend on pairs of features, not on single ones."""
    a, b = np.random.default_rng(0).integers(0, 12, (2, n))
    X = sparse.csr_array((np.ones(2 * n), (np.tile(np.arange(n), 2), np.concatenate((a, 12 + b)))), shape=(n, 24))
    return X, sparse.csr_array((np.ones(n), (np.arange(n), (a + b) % 12)), shape=(n, 12))


DATA = {"noisy": NOISY[:2], "tangled": tangled(N)}
TEST = {"noisy": NOISY[2:], "tangled": tangled(N + 400)}


def precision(model, data, k=1):
    """Return precision at k on points outside the training set, except for the first tangled ones."""
    X, Y = TEST[data]
    return metrics.precision_at_k(Y, model.topk(X, k)[0], k)


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch):
    """Run trials with only ten labels and a thousand points."""
    monkeypatch.setattr(options, "AUTO", replace(options.AUTO, all_labels=10))
    for name, value in {"ENOUGH": 1000, "FEWEST": 200}.items():
        monkeypatch.setattr(network_holdout, name, value)


def fitted(data, *, checkpoint=None, resume=False, callbacks=(), **parameters):
    model = ExtremeClassifier(**{**FAST, **parameters})
    return model.fit(*DATA[data], checkpoint=checkpoint, resume=resume, callbacks=callbacks)


def assert_equal(a, b):
    """Compare the models and their saved content, except for the settings."""
    assert {name: own.value for name, own in a.choices_.items()} == {
        name: own.value for name, own in b.choices_.items()
    }
    for name, array in a.network_.weights().items():
        np.testing.assert_array_equal(b.network_.weights()[name], array, err_msg=name)
    assert len(a.history_) == len(b.history_)


def test_drops_hidden_units_that_do_not_help(capsys):
    model = fitted("noisy", verbose=1)
    width, why = model.choices_["hidden"][:2]
    assert width == model.network_.output.n_inputs == 0
    assert model.network_.input is None
    assert why.startswith("a mean of P@1, P@3 and P@5 of ")
    assert why.endswith(" % without it, on points kept from training")
    told = capsys.readouterr().err
    assert "chose hidden=256 (there is memory and time for it)" in told
    assert f"chose hidden=0 ({why})" in told
    assert [record["epoch"] for record in model.history_] == [1, 2, 3, 4, 5, 6]
    assert model.n_points_ == N - 200
    assert model.label_counts_.sum() < DATA["noisy"][1].nnz
    rest = split(N, 200, run_seed(0))[0]
    X, Y = (matrix[rest] for matrix in DATA["noisy"])
    both, alone = (precision(ExtremeClassifier(**FAST, hidden=hidden).fit(X, Y), "noisy", 3) for hidden in (256, 0))
    assert both + 0.02 < precision(model, "noisy", 3) > alone - 0.02


def test_keeps_hidden_units_that_help(capsys):
    model = fitted("tangled", verbose=1)
    width, why = model.choices_["hidden"][:2]
    assert width == model.network_.output.n_inputs == 256
    assert " % with the deep path, " in why
    assert f"chose hidden=256 ({why})" in capsys.readouterr().err
    assert precision(model, "tangled") > precision(fitted("tangled", hidden=0), "tangled") + 0.2


@pytest.mark.parametrize(
    "parameters",
    [
        {"hidden": 64},
        {"hidden": 0},
        {"epochs": 1},
        {"wide": False},
        {"sampler": "lsh"},
        {"labels": 2500},
        {"points": N + 1},
    ],
    ids=str,
)
def test_skips_the_trial_if_settings_or_data_rule_it_out(monkeypatch, parameters):
    parameters = dict(parameters)
    monkeypatch.setattr(options, "AUTO", replace(options.AUTO, all_labels=parameters.pop("labels", 10)))
    monkeypatch.setattr(network_holdout, "ENOUGH", parameters.pop("points", 1000))
    model = fitted("noisy", **{"epochs": 2, **parameters})
    assert model.n_points_ == N
    assert "kept" not in model.choices_.get("hidden", ("", ""))[1]


def test_partial_fit_runs_no_trial():
    model = ExtremeClassifier(**FAST).partial_fit(*DATA["noisy"])
    assert (model.n_points_, model.choices_["hidden"][0]) == (N, 256)


@pytest.mark.parametrize("data", DATA)
def test_uses_given_validation_data(data):
    model = fitted(data, validation_fraction=0.15)
    assert model.n_points_ == 1360
    best = max(record["P@1"] for record in model.history_)  # the network after the trial included
    assert model.choices_["hidden"][0] == (0 if data == "noisy" else 256)
    held = split(N, 240, run_seed(0))[1]
    X, Y = DATA[data]
    assert metrics.precision_at_k(Y[held], model.topk(X[held], 1)[0], 1) == pytest.approx(best)
    few = fitted(data, validation_fraction=0.1)  # 160, too few to tell
    assert (few.n_points_, few.choices_["hidden"][0]) == (1440, 256)


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("batch", [60, 89, *(pytest.param(n, marks=pytest.mark.slow) for n in (3, 88, 120))])
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path, data, batch):
    whole = fitted(data)
    assert -(-(N - 200) // 32) == 44  # so the trial, after two epochs, comes with the 88th batch
    with pytest.raises(KeyboardInterrupt):
        fitted(data, checkpoint=tmp_path / "run", callbacks=[StopAt(batch)])
    assert_equal(whole, fitted(data, checkpoint=tmp_path / "run", resume=True, n_jobs=2))


@pytest.mark.parametrize("data", DATA)
def test_ctrl_c_during_the_trial_loses_nothing(monkeypatch, tmp_path, data):
    whole = fitted(data)
    with monkeypatch.context() as patch:
        interrupted_before(patch, Trial, "look")
        with pytest.raises(KeyboardInterrupt):
            fitted(data, checkpoint=tmp_path / "run")
    assert_equal(whole, fitted(data, checkpoint=tmp_path / "run", resume=True))


@pytest.mark.parametrize("data", DATA)
def test_a_model_after_a_trial_is_saved_and_learns_on(tmp_path, data):
    model, (X, Y) = fitted(data), DATA[data]
    model.save(tmp_path / "model")
    copy = ExtremeClassifier.load(tmp_path / "model")
    assert_equal(model, copy)
    np.testing.assert_array_equal(copy.predict_proba(X), model.predict_proba(X))
    assert_equal(model.partial_fit(X[:100], Y[:100]), copy.partial_fit(X[:100], Y[:100]))


def test_the_verdict_compares_both_on_held_out_points():
    made = network(16)
    train(made, epochs=3, batch_size=50)
    held = Validation(FEATURES, as_matrix(TRUTH))
    looks = Trial(epochs=1, held_out=held)
    look = looks.look(made, 1, lambda: None)
    verdict = looks.judge(look, None)
    units = made.hidden_units(FEATURES, 1)
    wide = made.output.wide
    weights = sparse.csr_array((wide.weight.value.ravel(), wide.indices, wide.indptr), shape=(40, 60))
    alone = as_matrix(FEATURES) @ weights.T.toarray() + made.output.bias.value.ravel()
    both = alone + units @ made.output.weight.value.T
    for scores, found in ((both, verdict.with_hidden), (alone, verdict.without)):
        best = np.argsort(-scores, axis=1)[:, :5]
        wanted = [metrics.precision_at_k(as_matrix(TRUTH), best, k) for k in (1, 3, 5)]
        assert found == pytest.approx(np.mean(wanted), abs=0.003)  # rounding alone separates some scores
    assert verdict.right_without == pytest.approx(wanted[0], abs=0.003)
    better = max(look, key=lambda path: path.mean())
    np.testing.assert_allclose(look.worth, better.mean(axis=1))
    assert made.output.n_inputs == 16  # as it was


def test_drops_hidden_units_that_are_only_as_good():
    assert Verdict(0.5, 0.5, 0.5).drops
    assert not Verdict(0.5, 0.49, 0.6).drops


def test_improvement_must_exceed_chance():
    looks, rng = replace(held_out(), epochs=2), np.random.default_rng(0)
    first = rng.random(400)
    for gain, rises in ((0.0, False), (0.005, False), (0.02, True), (-0.1, False)):
        gains = rng.normal(0, 0.2, 400)
        worth = first + gains - gains.mean() + gain  # with a standard error of 0.01
        for look in (
            Look(np.tile(worth[:, None], 3), np.zeros((400, 3))),
            Look(np.zeros((400, 3)), np.tile(worth[:, None], 3)),
        ):
            assert looks.judge(look, first).rises is rises
            assert looks.judge(look, None).rises


@pytest.fixture
def nothing_to_gain(monkeypatch):
    """Let the first of six epochs learn everything, on any measure."""
    judge = Trial.judge

    def judged(self, look, first):
        return judge(self, look, None if first is None else look.worth)

    monkeypatch.setattr(Trial, "judge", judged)
    monkeypatch.setattr(options, "AUTO", replace(options.AUTO, most_epochs=6, least_steps=1))


@pytest.mark.parametrize("data", DATA)
def test_skips_epochs_that_gain_nothing(nothing_to_gain, data):
    told = set()
    watcher = SimpleNamespace(on_batch=lambda progress: told.add((progress.epoch, progress.epochs)))
    model = fitted(data, epochs="auto", callbacks=[watcher])
    assert (model.n_iter_, model.choices_["epochs"][0]) == (3, 3)
    assert "after 2 no more was right than after the first" in model.choices_["epochs"][1]
    assert told == {(0, 6), (1, 6), (2, 3)}
    assert fitted(data).n_iter_ == 6  # six given epochs are kept
    assert "epochs" not in fitted(data).choices_


def test_rates_reach_their_end_in_the_last_epoch(nothing_to_gain, monkeypatch):
    factors, factor = [], Schedule.factor
    monkeypatch.setattr(Schedule, "factor", lambda *args: factors.append(factor(*args)) or factors[-1])
    model = fitted("tangled", epochs="auto")
    steps = len(factors) // model.n_iter_
    assert factors[2 * steps - 1] == pytest.approx(0.7)  # a third of the way from 1 to 0.1
    assert factors[2 * steps] < 0.4
    assert factors[-1] == pytest.approx(0.1)
    assert (np.diff(factors) < 0).all()


@pytest.mark.parametrize("epoch", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 2))])
@pytest.mark.parametrize("data", DATA)
def test_an_early_end_is_resumed(nothing_to_gain, monkeypatch, tmp_path, data, epoch):
    judge, judged = Trial.judge, []
    monkeypatch.setattr(Trial, "judge", lambda self, look, first: judged.append(first) or judge(self, look, first))
    whole = fitted(data, epochs="auto")
    steps = -(-(N - 200) // FAST["batch_size"])
    with pytest.raises(KeyboardInterrupt):
        fitted(data, epochs="auto", checkpoint=tmp_path / "run", callbacks=[StopAt(epoch * steps + 5)])
    again = fitted(data, epochs="auto", checkpoint=tmp_path / "run", resume=True)
    assert again.n_iter_ == 3
    assert_equal(whole, again)
    assert len(judged) == 2
    assert judged[0].shape == (200,)
    np.testing.assert_array_equal(*judged)


@pytest.mark.parametrize("which", range(2))
@pytest.mark.parametrize("data", DATA)
def test_ctrl_c_in_either_evaluation_loses_nothing(nothing_to_gain, monkeypatch, tmp_path, data, which):
    whole, look, looks = fitted(data, epochs="auto"), Trial.look, itertools.count()

    def interrupted(*args):
        if next(looks) == which:
            os.kill(os.getpid(), signal.SIGINT)
        return look(*args)

    with monkeypatch.context() as patch:
        patch.setattr(Trial, "look", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fitted(data, epochs="auto", checkpoint=tmp_path / "run")
    assert next(looks) == which + 1
    assert_equal(whole, fitted(data, epochs="auto", checkpoint=tmp_path / "run", resume=True))


def test_reserves_no_time_for_a_finished_evaluation(nothing_to_gain, monkeypatch):
    made = []
    monkeypatch.setattr(trainer, "TimeBudget", lambda seconds: made.append(Noted(seconds)) or made[-1])
    look = Trial.look
    monkeypatch.setattr(Trial, "look", lambda *args: time.sleep(0.2) or look(*args))
    fitted("tangled", epochs="auto", time_budget=1000.0)
    assert 0.2 <= sum(made[0].reserved) < 0.39


def test_resumes_old_checkpoints_without_an_early_end(tmp_path):
    whole = fitted("noisy")
    with pytest.raises(KeyboardInterrupt):
        fitted("noisy", checkpoint=tmp_path / "run", callbacks=[StopAt(60)])
    arrays, metadata = storage.load(tmp_path / "run")
    del metadata["last"]
    storage.save(tmp_path / "run", arrays, metadata)
    assert "may_end" not in metadata["run"]
    assert metadata["run"]["trial"] == 2
    assert_equal(whole, fitted("noisy", checkpoint=tmp_path / "run", resume=True))


def test_labels_learnt_in_one_epoch_take_no_more():
    """One feature determines one label, and each point has one: there is nothing else to learn."""
    X = sparse.csr_array(np.tile(np.eye(40), (N // 40, 1)))
    model = ExtremeClassifier(**{**FAST, "epochs": "auto"}).fit(X, X)
    planned = -(-options.AUTO.least_steps // -(-(N - 200) // FAST["batch_size"]))
    assert model.n_iter_ == -(-planned // options.AUTO.trial_after) + 1 < planned


@pytest.mark.parametrize("data", DATA)
def test_the_correction_is_folded_into_the_weights(monkeypatch, data):
    models = {}
    for weighing in (ScoreCorrection(), ScoreCorrection(0.5, 2.0, -1.5, 0.25)):
        monkeypatch.setattr(Trial, "weigh", lambda *args, weighing=weighing: weighing)
        models[weighing] = model = fitted(data)
    before, after = (model.network_.weights() for model in models.values())
    bias = before.pop("output.bias") + 0.25 * frequency.log_counts_of(model.label_counts_)[:, None]
    np.testing.assert_array_equal(after.pop("output.weight"), before.pop("output.weight"))  # half of them, twice
    np.testing.assert_allclose(after.pop("output.bias"), 2 * bias - 1.5, rtol=1e-6)
    np.testing.assert_array_equal(after.pop("wide.weight"), 2 * before.pop("wide.weight"))
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array, err_msg=name)
    if data == "noisy":  # no deep path is left here
        X = TEST[data][0][:50]
        scores, others = (logit(model.predict_proba(X).astype(np.float64)) for model in models.values())
        gained = 0.5 * frequency.log_counts_of(model.label_counts_)
        np.testing.assert_allclose(others, 2 * scores + gained - 1.5, rtol=1e-3, atol=1e-3)
    said = [model.choices_["hidden"][1] for model in models.values()]
    gain = "labels gain 0.25 times the logarithm of how many points they have"
    assert said[1] == f"{said[0]}; in the end the deep path counts 0.5 of what it learnt; {gain}"


COUNTS = np.bincount(TRUTH.indices, minlength=TRUTH.width)


def held_out():
    return Trial(epochs=1, held_out=Validation(FEATURES, as_matrix(TRUTH)))


def test_uninformative_hidden_units_count_less():
    made = network(16)
    train(made, epochs=30, batch_size=50)
    weigh = held_out().weigh
    assert weigh(made, COUNTS, 1, lambda: None).deep == 1
    weight = made.output.weight.value
    weight[:] = np.random.default_rng(0).normal(0, 20, weight.shape)
    before = weight.copy()
    looks = []
    assert weigh(made, COUNTS, 2, lambda: looks.append(1)).deep == min(WEIGHTS)
    assert looks  # the evaluations for an early end
    np.testing.assert_array_equal(weight, before)  # the evaluation changes nothing


def test_hidden_units_count_less_only_beyond_chance(monkeypatch):
    worth, right = np.zeros((2, len(WEIGHTS), 100))
    rows = {weight: row for row, weight in enumerate(WEIGHTS)}
    monkeypatch.setattr(trial._HoldoutScores, "worth", lambda self, weight: (worth[rows[weight]], right[rows[weight]]))

    def weighed():
        return held_out().weigh(network(16), COUNTS, 1, lambda: None).deep

    assert weighed() == 1
    worth[1] = np.tile([0.5, -0.45], 50)
    assert weighed() == 1
    worth[2], worth[3] = 0.01, 0.02
    assert weighed() == WEIGHTS[3]
    right[0] = right[2] = 0.5
    assert weighed() == WEIGHTS[2]  # with the other the best label would be right less often


def test_weights_match_a_fit_on_all_labels():
    made = network(16)
    train(made, epochs=5, batch_size=50)
    made.output.weight.value *= 3
    seen = held_out()._scored(made, 1, lambda: None)
    kept = made.output.weight.value.copy()
    for weight in WEIGHTS:
        worth, right = seen.worth(weight)
        made.output.weight.value[:] = np.float32(weight) * kept
        best = made.topk(FEATURES, 5, 1)[0]
        wanted = [metrics.precision_at_k(as_matrix(TRUTH), best, k) for k in (1, 3, 5)]
        assert worth.mean() == pytest.approx(np.mean(wanted), abs=0.003)
        assert right.mean() == pytest.approx(wanted[0], abs=0.003)


@pytest.mark.parametrize("hidden", [(16,), ()], ids=["both paths", "wide alone"])
@pytest.mark.parametrize(("slope", "shift"), [(3.0, 0.0), (1.0, 2.0), (0.5, -1.0)])
def test_corrects_overconfident_and_underconfident_scores(monkeypatch, hidden, slope, shift):
    monkeypatch.setattr(frequency, "fit_log_count_weight", lambda *_: 0.0)  # a second fit would find a little more
    made = network(*hidden)
    train(made, epochs=5, batch_size=50)
    surprise = []
    for worse in (False, True):
        if worse:
            made.output.rescale(deep=1.0, slope=slope, shifts=np.full(TRUTH.width, shift, np.float32))
        weighing = replace(held_out().weigh(made, COUNTS, 1, lambda: None), deep=1.0)
        shifts = weighing.shifts(COUNTS)
        made.output.rescale(deep=weighing.deep, slope=weighing.slope, shifts=shifts)
        labels, scores = made.topk(FEATURES, 20, 1)
        right = is_hit(labels, TRUTH)
        surprise.append(np.logaddexp(0, np.where(right, -scores, scores)).mean())
        assert expit(scores).sum() == pytest.approx(right.sum(), rel=0.03)  # as many as are right
    assert surprise[1] == pytest.approx(surprise[0], rel=1e-3)


@pytest.mark.parametrize("hidden", [(16,), ()], ids=["both paths", "wide alone"])
def test_corrects_scores_of_frequent_labels(hidden):
    made, log_counts, lost = network(*hidden), frequency.log_counts_of(COUNTS), 1.5
    train(made, epochs=5, batch_size=50)
    usual = held_out().weigh(made, COUNTS, 1, lambda: None)
    made.output.rescale(deep=1.0, slope=1.0, shifts=-np.float32(lost) * log_counts)
    found = held_out().weigh(made, COUNTS, 1, lambda: None)
    assert found.frequent > usual.frequent + 0.5
    made.output.rescale(deep=1.0, slope=found.slope, shifts=found.shifts(COUNTS))
    labels, scores = made.topk(FEATURES, 20, 1)
    assert expit(scores).sum() == pytest.approx(is_hit(labels, TRUTH).sum(), rel=0.03)


def test_counts_each_label_once():
    """Compare with all pairs of points and labels; the fit samples the pairs outside the best ones."""
    made, trial = network(16), held_out()
    train(made, epochs=3, batch_size=50)
    exact = made.topk(FEATURES, 40, 1)
    scores, right = exact[1].astype(np.float64), is_hit(exact[0], TRUTH)
    for others in (2, 64):
        seen = trial._scored(made, 1, lambda: None, candidates=5, others=others)
        assert seen.counts.sum() == pytest.approx(scores.size, rel=0.02)
        assert (seen.counts * seen.right).sum() == pytest.approx(right.sum())
        found = seen.scores(1.0).astype(np.float64)
        for odds in (found, 2 * found - 1):
            surprise = (seen.counts * np.logaddexp(0, np.where(seen.right, -odds, odds))).sum()
            slope, shift = (1, 0) if odds is found else (2, -1)
            whole = np.logaddexp(0, np.where(right, -1, 1) * (slope * scores + shift)).sum()
            assert surprise == pytest.approx(whole, rel=0.15 if others == 2 else 0.03)


def test_the_final_evaluation_is_bounded():
    made, trial = network(16), held_out()
    seen = trial._scored(made, 1, lambda: None, most_points=50)
    assert len(seen.right) == 50
    one = trial.held_out.features.take(np.array([0, len(FEATURES) - 1]))
    np.testing.assert_allclose(seen.scores(1.0)[[0, -1], 0], made.topk(one, 1, 1)[1][:, 0], rtol=1e-5)


def test_unknown_labels_do_not_affect_calibration():
    made = network(16)
    train(made, epochs=5, batch_size=50)
    unknown = sparse.csr_array((len(TRUTH), TRUTH.width))
    assert (
        Trial(epochs=1, held_out=Validation(FEATURES, unknown)).weigh(made, COUNTS, 1, lambda: None)
        == ScoreCorrection()
    )


def test_skips_evaluations_that_cannot_decide(monkeypatch):
    monkeypatch.setattr(Trial, "_scored", None)
    monkeypatch.setattr(SampledOutput, "rescale", None)
    made = network(loss=SampledSoftmax())
    before = made.output.wide.weight.value
    train(made, run={"trial": held_out()}, epochs=2)
    assert made.output.wide.weight.value is before


def test_fits_label_frequency_if_scores_are_not_fitted(monkeypatch):
    made = network(16)
    train(made, epochs=5, batch_size=50)
    monkeypatch.setattr(frequency, "fit_log_count_weight", lambda *_: 0.25)
    whole = held_out().weigh(made, COUNTS, 1, lambda: None)
    assert whole.slope != 1
    assert replace(held_out(), calibrates=False).weigh(made, COUNTS, 1, lambda: None) == ScoreCorrection(
        whole.deep, 1, 0, 0.25
    )


def test_softmax_scores_are_not_corrected():
    made = network(16, loss=SampledSoftmax())
    train(made, epochs=5, batch_size=50)
    assert replace(held_out().weigh(made, COUNTS, 1, lambda: None), deep=1.0) == ScoreCorrection()


@pytest.mark.parametrize("log_odds", [False, True])
def test_scores_of_a_custom_log_odds_loss_are_fitted(log_odds):
    usual = BinaryCrossEntropy()
    own = SimpleNamespace(gradient=usual.gradient, probabilities=usual.probabilities, log_odds=log_odds)
    made = network(16, loss=own)
    train(made, epochs=5, batch_size=50)
    found = replace(held_out().weigh(made, COUNTS, 1, lambda: None), deep=1.0)
    assert (found != ScoreCorrection()) == log_odds


@pytest.mark.parametrize("data", DATA)
def test_probabilities_are_calibrated(monkeypatch, data):
    X, Y = TEST[data]

    def surprise():
        model = fitted(data)
        p = np.clip(model.predict_proba(X).astype(np.float64), 1e-12, 1 - 1e-12)
        return -np.where(Y.toarray() != 0, np.log(p), np.log1p(-p)).sum(axis=1).mean(), model

    weighed, model = surprise()
    weigh = Trial.weigh
    monkeypatch.setattr(Trial, "weigh", lambda *args: ScoreCorrection(weigh(*args).deep))
    plain, raw = surprise()
    assert weighed < 0.98 * plain
    np.testing.assert_array_equal(model.topk_numbers(X, 3)[0], raw.topk_numbers(X, 3)[0])


def halved(network):
    network.output.weight.value[:] = -2 * network.output.weight.value
    return ScoreCorrection(deep=0.5)


def by_number(network):
    network.output.bias.value[:] -= 9 * np.arange(network.output.n_labels)[:, None]
    return ScoreCorrection(frequent=1.0)


@pytest.mark.parametrize("weigh", [halved, by_number])
@pytest.mark.parametrize("data", DATA)
def test_reports_the_model_that_is_kept(monkeypatch, data, weigh):
    """The weight is fixed here, although it makes the result worse."""
    monkeypatch.setattr(Trial, "weigh", lambda *_: ScoreCorrection())
    before = fitted(data, validation_fraction=0.15).history_
    monkeypatch.setattr(Trial, "weigh", lambda self, network, *_: weigh(network))
    model = fitted(data, validation_fraction=0.15)
    held = split(N, 240, run_seed(0))[1]
    X, Y = DATA[data]
    found = metrics.precision_at_k(Y[held], model.topk(X[held], 1)[0], 1)
    at = int(np.argmax([record["P@1"] for record in before]))
    changed = [own["P@1"] != theirs["P@1"] for own, theirs in zip(model.history_, before, strict=True)]
    if model.network_.output.n_inputs or weigh is by_number:
        assert [i for i, is_other in enumerate(changed) if is_other] == [at]
    assert model.history_[at]["P@1"] == pytest.approx(found)


def test_keeps_hidden_units_if_the_best_epoch_had_them(monkeypatch):
    judge = Trial.judge
    monkeypatch.setattr(Trial, "judge", lambda *args: judge(*args)._replace(right_without=0.01))
    model = fitted("noisy", validation_fraction=0.15)
    assert model.choices_["hidden"][0] == 256
    assert fitted("noisy").choices_["hidden"][0] == 0


class Noted(TimeBudget):
    """A time budget that records the durations reported to it."""

    def __init__(self, seconds):
        super().__init__(seconds)
        self.told, self.reserved = [], []

    def change_pace(self):
        self.told.append("change_pace")
        super().change_pace()

    def reserve(self, seconds):
        self.told.append("reserve")
        self.reserved.append(seconds)
        super().reserve(seconds)

    def not_steps(self, seconds):
        self.told.append("not_steps")
        super().not_steps(seconds)


@pytest.mark.parametrize("data", DATA)
def test_the_time_budget_includes_the_trial(monkeypatch, data):
    made = []
    monkeypatch.setattr(trainer, "TimeBudget", lambda seconds: made.append(Noted(seconds)) or made[-1])
    fitted(data, time_budget=1000.0)
    assert made[0].told == ["not_steps", "reserve", *(["change_pace"] if data == "noisy" else [])]


def test_skips_the_verdict_when_time_is_up(monkeypatch):
    monkeypatch.setattr(TimeBudget, "is_spent", lambda self: self._taken >= 60)  # in the second of six epochs
    monkeypatch.setattr(Trial, "judge", None)
    monkeypatch.setattr(Trial, "weigh", lambda *args: ScoreCorrection())
    assert fitted("noisy").n_iter_ == 2


def both_paths():
    return network(16), held_out()


def test_a_trainer_resumes_without_dropped_units(monkeypatch, tmp_path):
    monkeypatch.setattr(Trial, "judge", lambda *args: Verdict(0.5, 0.5, 0.5))
    config = TrainingConfig(epochs=3, batch_size=50)
    made, trial = both_paths()
    whole = Trainer(made, FEATURES, TRUTH, config, trial=trial)
    whole.run()
    assert made.input is None
    half, trial = both_paths()
    stopped = Trainer(half, FEATURES, TRUTH, config, trial=trial, checkpoint=tmp_path, callbacks=[StopAt(12)])
    with pytest.raises(KeyboardInterrupt):
        stopped.run()
    rest, trial = both_paths()
    again = Trainer(rest, FEATURES, TRUTH, config, trial=trial, checkpoint=tmp_path)
    assert again.resume()
    again.run()
    assert_equal_weights(rest, made)
    for other in (None, Trial(epochs=2, held_out=trial.held_out)):
        with pytest.raises(CheckpointError, match="trial"):
            Trainer(network(16), FEATURES, TRUTH, config, trial=other, checkpoint=tmp_path).resume()


def test_rejects_an_impossible_trial():
    made, trial = both_paths()
    config = TrainingConfig(epochs=3)
    with pytest.raises(ValueError, match="this one has none"):
        Trainer(network(16, wide=False), FEATURES, TRUTH, config, trial=trial)
    with pytest.raises(ValueError, match="an LSHSampler hashes them"):
        Trainer(network(16, sampler=LSHSampler()), FEATURES, TRUTH, config, trial=trial)
    narrow = Validation(Rows.of(as_matrix(FEATURES)[:, :50]), as_matrix(TRUTH))
    with pytest.raises(ValueError, match="points of 50 features, and features are 60"):
        Trainer(made, FEATURES, TRUTH, config, trial=Trial(epochs=1, held_out=narrow))
    with pytest.raises(ValueError, match="may_end compares with the first epoch"):
        Trial(epochs=1, held_out=trial.held_out, may_end=True)
    with pytest.raises(ValueError, match="epochs must be"):
        Trial(epochs=0, held_out=trial.held_out)
    nothing = Validation(FEATURES.slice(0, 0), as_matrix(TRUTH)[:0])
    with pytest.raises(ValueError, match="nothing to measure on"):
        Trial(epochs=1, held_out=nothing)


@pytest.mark.parametrize("data", DATA)
def test_ctrl_c_in_the_final_evaluation_loses_nothing(monkeypatch, tmp_path, data):
    whole = fitted(data)
    with monkeypatch.context() as patch:
        interrupted_before(patch, Trial, "_scored")
        with pytest.raises(KeyboardInterrupt):
            fitted(data, checkpoint=tmp_path / "run")
    assert_equal(whole, fitted(data, checkpoint=tmp_path / "run", resume=True))


def test_a_run_that_ends_before_the_trial_is_kept(monkeypatch):
    def never(*args):
        raise AssertionError("nothing is to be measured")

    monkeypatch.setattr(Trial, "judge", never)
    monkeypatch.setattr(Trial, "weigh", never)
    assert fitted("tangled", time_budget=1e-6, hidden="auto").n_iter_ == 1
    with pytest.raises(KeyboardInterrupt):
        fitted("tangled", callbacks=[StopAt(3)])


def test_reserves_time_for_the_final_evaluation(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    budget = TimeBudget(20.0)
    budget.start()
    budget.step_done()
    now[0] = 1.0
    assert budget.last_step(2, 1000) == 20
    budget.reserve(5.0)
    assert budget.last_step(2, 1000) == 15
    unlimited = TimeBudget(None)
    unlimited.reserve(5.0)
    assert unlimited.steps(3, 10) is None


def test_the_budget_uses_the_pace_of_the_remaining_network(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    budget = TimeBudget(20.0)
    budget.start()
    budget.step_done()
    now[0] = 10.0
    assert budget.last_step(2, 1000) == 2
    now[0] = 12.0
    budget.not_steps(2.0)
    assert budget.last_step(2, 1000) == 1  # eight seconds are too few for a step of ten
    budget.change_pace()
    for _ in range(4):
        budget.step_done()
    now[0] = 12.4
    assert budget.is_spent()  # four steps are too few to estimate the pace
    budget.step_done()
    now[0] = 12.5
    assert budget.last_step(7, 1000) == 81  # 7.5 seconds buy 75 steps
