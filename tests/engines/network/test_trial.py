"""The trial of hidden units during training, on held-out points."""

import itertools
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit

from bench import planted
from sparsenet import (
    BinaryCrossEntropy,
    CheckpointError,
    ExtremeClassifier,
    LSHSampler,
    Rows,
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
from sparsenet.engines.network.auto_rules import AUTO
from sparsenet.engines.network.training import ScoreCorrection, TrialRules
from sparsenet.engines.network.training.budget import TimeBudget
from sparsenet.engines.network.training.trial import HoldoutPrecision
from sparsenet.features.label_stats import log_counts
from sparsenet.selection.choose import Rule
from sparsenet.selection.holdout import Holdout
from tests.support.interrupting import StopAt
from tests.support.networks import FEATURES, TRUTH, RuledClassifier, assert_equal_weights, network, train

N, FAST = 1600, {"random_state": 0, "n_jobs": 1, "batch_size": 32, "epochs": 6, "verbose": 0}
NOISY = planted.generate(planted.Shape.with_labels(2500, features=10_000, points=N, test_points=600))
#: Trials run with only ten labels and a thousand points.
RULES = replace(AUTO, all_labels=10, trial_from=1000, min_held=200)
#: Rules that a share of right labels never fulfils, and always.
NEVER, ALWAYS = Rule("P@k", min_gain=2.0), Rule("P@k", standard_errors=-np.inf, min_gain=-2.0)


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


def classifier(rules=RULES, **parameters):
    return RuledClassifier(rules, **{**FAST, **parameters})


def fitted(data, *, rules=RULES, checkpoint=None, resume=False, callbacks=(), **parameters):
    model = classifier(rules, **parameters)
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
    assert why.startswith("with hidden units: mean of P@1, P@3 and P@5 ")
    assert " points below without hidden units (standard error " in why
    assert "200 held-out points" in why
    shown = capsys.readouterr().err
    assert "chose hidden=256 (there is memory and time for it)" in shown
    assert f"chose hidden=0 ({why})" in shown
    assert [record["epoch"] for record in model.history_] == [1, 2, 3, 4, 5, 6]
    assert model.n_points_ == N - 200
    assert model.label_counts_.sum() < DATA["noisy"][1].nnz
    rest = Holdout.draw(N, 200, run_seed(0)).kept
    X, Y = (matrix[rest] for matrix in DATA["noisy"])
    both, alone = (precision(classifier(hidden=hidden).fit(X, Y), "noisy", 3) for hidden in (256, 0))
    assert both + 0.02 < precision(model, "noisy", 3) > alone - 0.02


def test_keeps_hidden_units_that_help(capsys):
    model = fitted("tangled", verbose=1)
    width, why = model.choices_["hidden"][:2]
    assert width == model.network_.output.n_inputs == 256
    assert " points above without hidden units (standard error " in why
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
        {"rules": replace(RULES, all_labels=2500)},
        {"rules": replace(RULES, trial_from=N + 1)},
    ],
    ids=str,
)
def test_skips_the_trial_if_settings_or_data_rule_it_out(parameters):
    model = fitted("noisy", **{"epochs": 2, **parameters})
    assert model.n_points_ == N
    assert "held-out" not in model.choices_.get("hidden", ("", ""))[1]


def test_partial_fit_runs_no_trial():
    model = classifier().partial_fit(*DATA["noisy"])
    assert (model.n_points_, model.choices_["hidden"][0]) == (N, 256)


@pytest.mark.parametrize("data", DATA)
def test_uses_given_validation_data(data):
    model = fitted(data, validation_fraction=0.15)
    assert model.n_points_ == 1360
    best = max(record["P@1"] for record in model.history_)  # the network after the trial included
    assert model.choices_["hidden"][0] == (0 if data == "noisy" else 256)
    held = Holdout.draw(N, 240, run_seed(0)).held
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
    trial = held_out()
    measured = trial.measure(made, 1, lambda: None)
    verdict = trial.decide(measured)
    units = made.hidden_units(FEATURES, 1)
    wide = made.output.wide
    weights = sparse.csr_array((wide.weight.value.ravel(), wide.indices, wide.indptr), shape=(40, 60))
    alone = as_matrix(FEATURES) @ weights.T.toarray() + made.output.bias.value.ravel()
    both = alone + units @ made.output.weight.value.T
    for scores, found in ((both, measured.network), (alone, measured.wide)):
        best = np.argsort(-scores, axis=1)[:, :5]
        wanted = [metrics.precision_at_k(as_matrix(TRUTH), best, k) for k in (1, 3, 5)]
        np.testing.assert_allclose(found.mean(axis=0), wanted, atol=0.003)  # rounding alone separates some scores
    assert verdict.wide_precision == pytest.approx(wanted[0], abs=0.003)
    assert verdict.hidden.gain == pytest.approx(measured.network.mean() - measured.wide.mean())
    np.testing.assert_allclose(measured.best(), max(measured, key=np.mean).mean(axis=1))
    assert made.output.n_inputs == 16  # as it was


def test_drops_hidden_units_that_are_only_as_good():
    same = np.full((8, 3), 0.5)
    assert held_out().decide(HoldoutPrecision(same, same)).drops
    assert not held_out().decide(HoldoutPrecision(same + 0.01, same)).drops


def test_improvement_must_exceed_chance():
    trial, rng = replace(held_out(), epochs=2), np.random.default_rng(0)
    first = rng.random(400)
    for gain, ends in ((0.0, True), (0.005, True), (0.02, False), (-0.1, True)):
        gains = rng.normal(0, 0.2, 400)
        precision = np.tile((first + gains - gains.mean() + gain)[:, None], 3)  # with a standard error of 0.01
        for measured in (HoldoutPrecision(precision, precision - 1), HoldoutPrecision(precision - 1, precision)):
            assert trial.decide(measured, first).ends is ends
            assert not trial.decide(measured).ends


#: The first of six epochs learns everything, on any measure.
NOTHING_TO_GAIN = replace(RULES, max_epochs=6, min_steps=1, trial=TrialRules(passes=NEVER))


@pytest.mark.parametrize("data", DATA)
def test_skips_epochs_that_gain_nothing(data):
    planned = set()
    watcher = SimpleNamespace(on_batch=lambda progress: planned.add((progress.epoch, progress.epochs)))
    model = fitted(data, rules=NOTHING_TO_GAIN, epochs="auto", callbacks=[watcher])
    assert (model.n_iter_, model.choices_["epochs"][0]) == (3, 3)
    assert model.choices_["epochs"][1].startswith("the first 2 epochs: ")
    assert planned == {(0, 6), (1, 6), (2, 3)}
    given = fitted(data, rules=NOTHING_TO_GAIN)
    assert given.n_iter_ == 6  # six given epochs are kept
    assert "epochs" not in given.choices_


def test_records_that_further_epochs_help():
    rules = replace(NOTHING_TO_GAIN, trial=TrialRules(passes=ALWAYS))
    passes = fitted("tangled", rules=rules, epochs="auto").choices_["epochs"]
    assert passes.value == 6
    assert passes.options == ("the first epoch", "the first 2 epochs")
    assert passes.n == 200


def test_rates_reach_their_end_in_the_last_epoch():
    factors = []

    class Recorded(Schedule):
        def factor(self, step, total):
            factors.append(super().factor(step, total))
            return factors[-1]

    trial = Trial(2, held_out().held_out, may_end=True, rules=TrialRules(passes=NEVER))
    trainer = train(network(16), run={"trial": trial}, epochs=6, batch_size=50, schedule=Recorded())
    steps = len(factors) // trainer.epochs
    assert trainer.epochs == 3
    assert factors[2 * steps - 1] == pytest.approx(0.7)  # a third of the way from 1 to 0.1
    assert factors[2 * steps] < 0.4
    assert factors[-1] == pytest.approx(0.1)
    assert (np.diff(factors) < 0).all()


@pytest.mark.parametrize("epoch", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 2))])
@pytest.mark.parametrize("data", DATA)
def test_an_early_end_is_resumed(tmp_path, data, epoch):
    how = {"rules": NOTHING_TO_GAIN, "epochs": "auto"}
    whole = fitted(data, **how)
    steps = -(-(N - 200) // FAST["batch_size"])
    with pytest.raises(KeyboardInterrupt):
        fitted(data, **how, checkpoint=tmp_path / "run", callbacks=[StopAt(epoch * steps + 5)])
    again = fitted(data, **how, checkpoint=tmp_path / "run", resume=True)
    assert again.n_iter_ == 3
    assert_equal(whole, again)
    if epoch < 2:  # the decision compares with the first epoch, which the checkpoint restores
        assert again.choices_["epochs"] == whole.choices_["epochs"]


@dataclass(frozen=True)
class Interrupted(Trial):
    """A trial that presses Ctrl-C when it measures for the given time, or when it corrects scores."""

    at: int | str = 0
    calls: Iterator[int] = field(default_factory=itertools.count, compare=False)

    def measure(self, *args):
        if next(self.calls) == self.at:
            os.kill(os.getpid(), signal.SIGINT)
        return super().measure(*args)

    def correct(self, *args):
        if self.at == "correction":
            os.kill(os.getpid(), signal.SIGINT)
        return super().correct(*args)


def trained(trial, *, checkpoint=None, resume=False, callbacks=(), validation=None, budget=None):
    """Train a network for six epochs with a trial after the second."""
    config = TrainingConfig(epochs=6, batch_size=50)
    how = {"trial": trial, "checkpoint": checkpoint, "callbacks": callbacks, "validation": validation}
    trainer = Trainer(network(16), FEATURES, TRUTH, config, **how)
    trainer._budget = budget or trainer._budget
    assert trainer.resume() is resume
    trainer.run()
    return trainer


@pytest.mark.parametrize("hidden", [NEVER, ALWAYS], ids=["dropped", "kept"])
@pytest.mark.parametrize("passes", [NEVER, ALWAYS], ids=["ended", "all"])
@pytest.mark.parametrize("at", [0, 1, "correction"])
def test_ctrl_c_in_a_trial_loses_nothing(tmp_path, hidden, passes, at):
    how = {"may_end": True, "rules": TrialRules(hidden=hidden, passes=passes)}
    whole = trained(Trial(2, held_out().held_out, **how))
    with pytest.raises(KeyboardInterrupt):
        trained(Interrupted(2, held_out().held_out, at=at, **how), checkpoint=tmp_path / "run")
    again = trained(Trial(2, held_out().held_out, **how), checkpoint=tmp_path / "run", resume=True)
    assert whole.epochs == again.epochs == len(again.history) == (3 if passes is NEVER else 6)
    assert (again.network.input is None) == (hidden is NEVER)
    assert_equal_weights(whole.network, again.network)


class Slow(Trial):
    """A trial that takes its time."""

    def measure(self, *args):
        time.sleep(0.2)
        return super().measure(*args)


def test_reserves_no_time_for_a_finished_evaluation():
    budget = Noted(1000.0)
    trained(Slow(2, held_out().held_out, may_end=True), budget=budget)
    assert 0.2 <= sum(budget.reserved) < 0.39


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


def test_training_ends_early_if_one_epoch_learns_all_labels():
    """One feature determines one label, and each point has one: there is nothing else to learn."""
    X = sparse.csr_array(np.tile(np.eye(40), (N // 40, 1)))
    model = classifier(epochs="auto").fit(X, X)
    planned = -(-RULES.min_steps // -(-(N - 200) // FAST["batch_size"]))
    assert model.n_iter_ == -(-planned // RULES.trial_after) + 1 < planned


COUNTS = np.bincount(TRUTH.indices, minlength=TRUTH.width)
LOG_COUNTS = log_counts(COUNTS).astype(np.float32)


def held_out(**rules):
    return Trial(epochs=1, held_out=Validation(FEATURES, as_matrix(TRUTH)), rules=TrialRules(**rules))


def correct(trial, made):
    return trial.correct(made, COUNTS, 1, lambda: None)


@dataclass(frozen=True)
class Corrected(Trial):
    """A trial with a given correction."""

    correction: ScoreCorrection = field(default_factory=ScoreCorrection)

    def correct(self, network, *_):
        return self.correction


@pytest.mark.parametrize("hidden", [NEVER, ALWAYS], ids=["dropped", "kept"])
def test_the_correction_is_folded_into_the_weights(hidden):
    parts, rules = held_out().held_out, TrialRules(hidden=hidden)
    plain = trained(Corrected(2, parts, correction=ScoreCorrection(), rules=rules)).network
    other = trained(Corrected(2, parts, correction=ScoreCorrection(0.25, 2.0, -1.5), rules=rules)).network
    before, after = plain.weights(), other.weights()
    bias = before.pop("output.bias") + 0.25 * LOG_COUNTS[:, None]
    np.testing.assert_allclose(after.pop("output.bias"), 2 * bias - 1.5, rtol=1e-6)
    for name in ("output.weight", "wide.weight"):
        np.testing.assert_array_equal(after.pop(name), 2 * before.pop(name))
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array, err_msg=name)
    scores, others = (made.all_scores(FEATURES, 1) for made in (plain, other))
    np.testing.assert_allclose(others, 2 * (scores + 0.25 * LOG_COUNTS) - 1.5, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("hidden", [(16,), ()], ids=["both paths", "wide alone"])
@pytest.mark.parametrize(("slope", "shift"), [(3.0, 0.0), (1.0, 2.0), (0.5, -1.0)])
def test_corrects_overconfident_and_underconfident_scores(hidden, slope, shift):
    made = network(*hidden)
    train(made, epochs=5, batch_size=50)
    surprise = []
    for worse in (False, True):
        if worse:
            made.output.rescale(slope, np.full(TRUTH.width, shift, np.float32))
        correction = correct(held_out(count_weights=(0.0,)), made)  # a second choice might find a little more
        made.output.rescale(correction.slope, correction.shifts(COUNTS))
        labels, scores = made.topk(FEATURES, 20, 1)
        right = is_hit(labels, TRUTH)
        surprise.append(np.logaddexp(0, np.where(right, -scores, scores)).mean())
        assert expit(scores).sum() == pytest.approx(right.sum(), rel=0.03)  # as many as are right
    assert surprise[1] == pytest.approx(surprise[0], rel=1e-3)


@pytest.mark.parametrize("hidden", [(16,), ()], ids=["both paths", "wide alone"])
def test_corrects_scores_of_frequent_labels(hidden):
    made, weights = network(*hidden), (0.0, 10.0, 20.0)
    train(made, epochs=5, batch_size=50)
    assert correct(held_out(count_weights=weights), made).count_weight == 0
    made.output.rescale(1.0, -np.float32(20) * LOG_COUNTS)
    found = correct(held_out(count_weights=weights), made)
    assert found.count_weight == found.decision.value == 20
    assert found.decision.why.startswith("log counts at 20: mean of P@1, P@3 and P@5 ")
    made.output.rescale(found.slope, found.shifts(COUNTS))
    labels, scores = made.topk(FEATURES, 20, 1)
    assert expit(scores).sum() == pytest.approx(is_hit(labels, TRUTH).sum(), rel=0.03)


def test_label_counts_enter_only_beyond_chance():
    made = network(16)
    train(made, epochs=5, batch_size=50)
    made.output.rescale(1.0, -np.float32(20) * LOG_COUNTS)
    gain = correct(held_out(count_weights=(0.0, 20.0)), made).decision
    assert gain.gain > 2 * gain.standard_error
    for rule in (Rule("P@k", standard_errors=1.01 * gain.gain / gain.standard_error), Rule("P@k", min_gain=gain.gain)):
        assert correct(held_out(count_weights=(0.0, 20.0), counts=rule), made).count_weight == 0


def test_counts_each_label_once():
    """Compare with all pairs of points and labels; the fit samples the pairs outside the best ones."""
    made, trial = network(16), held_out()
    train(made, epochs=3, batch_size=50)
    exact = made.topk(FEATURES, 40, 1)
    scores, right = exact[1].astype(np.float64), is_hit(exact[0], TRUTH)
    for others in (2, 64):
        scored = trial._scored(made, 1, lambda: None, candidates=5, others=others)
        assert scored.counts.sum() == pytest.approx(scores.size, rel=0.02)
        assert (scored.counts * scored.right).sum() == pytest.approx(right.sum())
        found = scored.scores.astype(np.float64)
        for odds in (found, 2 * found - 1):
            surprise = (scored.counts * np.logaddexp(0, np.where(scored.right, -odds, odds))).sum()
            slope, shift = (1, 0) if odds is found else (2, -1)
            whole = np.logaddexp(0, np.where(right, -1, 1) * (slope * scores + shift)).sum()
            assert surprise == pytest.approx(whole, rel=0.15 if others == 2 else 0.03)


def test_the_final_evaluation_is_bounded():
    made, trial = network(16), held_out()
    scored = trial._scored(made, 1, lambda: None, max_points=50)
    assert len(scored.right) == 50
    one = trial.held_out.features.take(np.array([0, len(FEATURES) - 1]))
    np.testing.assert_allclose(scored.scores[[0, -1], 0], made.topk(one, 1, 1)[1][:, 0], rtol=1e-5)


def test_unknown_labels_do_not_affect_calibration():
    made = network(16)
    train(made, epochs=5, batch_size=50)
    unknown = sparse.csr_array((len(TRUTH), TRUTH.width))
    assert correct(Trial(epochs=1, held_out=Validation(FEATURES, unknown)), made) == ScoreCorrection()
    n_true = len(TRUTH.indices)
    assert correct(held_out(min_true=n_true + 1), made) == ScoreCorrection() != correct(held_out(), made)


def test_chooses_the_weight_of_counts_if_scores_are_not_calibrated():
    made = network(16)
    train(made, epochs=5, batch_size=50)
    trial = held_out(count_weights=(0.0, 0.25), counts=ALWAYS)
    whole = correct(trial, made)
    assert whole.slope != 1
    assert correct(replace(trial, calibrates=False), made) == ScoreCorrection(0.25)


def test_softmax_scores_are_not_corrected():
    made = network(16, loss=SampledSoftmax())
    trial, before = held_out(counts=ALWAYS, hidden=ALWAYS), made.output.wide.weight
    trainer = train(made, run={"trial": trial}, epochs=2, batch_size=50)
    assert trainer.correction == ScoreCorrection()
    assert trainer.correction.decision is None
    assert made.output.wide.weight is before


@pytest.mark.parametrize("log_odds", [False, True])
def test_scores_of_a_custom_log_odds_loss_are_fitted(log_odds):
    usual = BinaryCrossEntropy()
    own = SimpleNamespace(gradient=usual.gradient, probabilities=usual.probabilities, log_odds=log_odds)
    made = network(16, loss=own)
    train(made, epochs=5, batch_size=50)
    assert (correct(held_out(), made) != ScoreCorrection()) == log_odds


@pytest.mark.parametrize("data", DATA)
def test_probabilities_are_calibrated(data):
    X, Y = TEST[data]

    def surprise(**rules):
        model = fitted(data, rules=replace(RULES, trial=TrialRules(count_weights=(0.0,), **rules)))
        p = np.clip(model.predict_proba(X).astype(np.float64), 1e-12, 1 - 1e-12)
        return -np.where(Y.toarray() != 0, np.log(p), np.log1p(-p)).sum(axis=1).mean(), model

    calibrated, model = surprise()
    plain, raw = surprise(min_true=10**9)
    assert calibrated < 0.98 * plain
    np.testing.assert_array_equal(model.topk_numbers(X, 3)[0], raw.topk_numbers(X, 3)[0])


class Renumbered(Trial):
    """A trial whose correction prefers labels of low numbers, although that is worse."""

    def correct(self, network, *_):
        network.output.bias.value[:] -= 9 * np.arange(network.output.n_labels)[:, None]
        return ScoreCorrection(1.0)


@pytest.mark.parametrize("hidden", [NEVER, ALWAYS], ids=["dropped", "kept"])
def test_reports_the_model_that_is_kept(hidden):
    parts, rules = held_out().held_out, TrialRules(hidden=hidden)
    before = trained(Corrected(2, parts, correction=ScoreCorrection(), rules=rules), validation=parts).history
    trainer = trained(Renumbered(2, parts, rules=rules), validation=parts)
    best = max(range(6), key=lambda epoch: before[epoch]["P@1"])
    changed = [own["P@1"] != other["P@1"] for own, other in zip(trainer.history, before, strict=True)]
    assert [epoch for epoch, is_other in enumerate(changed) if is_other] == [best]
    found = metrics.precision_at_k(as_matrix(TRUTH), trainer.network.topk(FEATURES, 1, 1)[0], 1)
    assert trainer.history[best]["P@1"] == pytest.approx(found)


class Pessimist(Trial):
    """A trial that measures a low precision of the wide path alone, and prefers it."""

    def decide(self, measured, first=None):
        return super().decide(measured, first)._replace(wide_precision=0.01)


def test_keeps_hidden_units_if_the_best_epoch_had_them():
    parts, rules = held_out().held_out, TrialRules(hidden=NEVER)
    assert trained(Pessimist(2, parts, rules=rules), validation=parts).network.input is not None
    assert trained(Pessimist(2, parts, rules=rules)).network.input is None


class Noted(TimeBudget):
    """A time budget that records the durations reported to it."""

    def __init__(self, seconds):
        super().__init__(seconds)
        self.calls, self.reserved = [], []

    def change_pace(self):
        self.calls.append("change_pace")
        super().change_pace()

    def reserve(self, seconds):
        self.calls.append("reserve")
        self.reserved.append(seconds)
        super().reserve(seconds)

    def not_steps(self, seconds):
        self.calls.append("not_steps")
        super().not_steps(seconds)


@pytest.mark.parametrize("hidden", [NEVER, ALWAYS], ids=["dropped", "kept"])
def test_the_time_budget_includes_the_trial(hidden):
    budget = Noted(1000.0)
    trained(held_out(hidden=hidden), budget=budget)
    assert budget.calls == ["not_steps", "reserve", *(["change_pace"] if hidden is NEVER else [])]


class Spent(TimeBudget):
    """A time budget for ten steps, of eight an epoch."""

    def is_spent(self):
        return self._taken >= 10


class Unwanted(Trial):
    """A trial that must not happen."""

    def decide(self, *args):
        raise AssertionError("nothing is to be measured")

    correct = decide


def test_skips_the_verdict_when_time_is_up():
    assert len(trained(Unwanted(3, held_out().held_out), budget=Spent(1.0)).history) == 2


def test_a_trainer_resumes_without_dropped_units(tmp_path):
    trial = held_out(hidden=NEVER)
    whole = trained(trial)
    assert whole.network.input is None
    with pytest.raises(KeyboardInterrupt):
        trained(trial, checkpoint=tmp_path, callbacks=[StopAt(12)])
    assert_equal_weights(trained(trial, checkpoint=tmp_path, resume=True).network, whole.network)
    for other in (None, Trial(epochs=2, held_out=trial.held_out)):
        with pytest.raises(CheckpointError, match="trial"):
            trained(other, checkpoint=tmp_path, resume=True)


def test_rejects_an_impossible_trial():
    made, trial, config = network(16), held_out(), TrainingConfig(epochs=3)
    with pytest.raises(ValueError, match="this one has none"):
        Trainer(network(16, wide=False), FEATURES, TRUTH, config, trial=trial)
    with pytest.raises(ValueError, match="an LSHSampler hashes them"):
        Trainer(network(16, sampler=LSHSampler()), FEATURES, TRUTH, config, trial=trial)
    narrow = Validation(Rows.of(as_matrix(FEATURES)[:, :50]), as_matrix(TRUTH))
    with pytest.raises(ValueError, match="points have 50 features, the training points 60"):
        Trainer(made, FEATURES, TRUTH, config, trial=Trial(epochs=1, held_out=narrow))
    with pytest.raises(ValueError, match="may_end compares with the first epoch"):
        Trial(epochs=1, held_out=trial.held_out, may_end=True)
    with pytest.raises(ValueError, match="epochs must be"):
        Trial(epochs=0, held_out=trial.held_out)
    nothing = Validation(FEATURES.slice(0, 0), as_matrix(TRUTH)[:0])
    with pytest.raises(ValueError, match="nothing to measure on"):
        Trial(epochs=1, held_out=nothing)


def test_a_run_that_ends_before_the_trial_is_kept():
    assert len(trained(Unwanted(2, held_out().held_out), budget=TimeBudget(1e-6)).history) == 1
    with pytest.raises(KeyboardInterrupt):
        trained(Unwanted(2, held_out().held_out), callbacks=[StopAt(3)])


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
