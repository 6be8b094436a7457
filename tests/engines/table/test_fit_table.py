"""The model of a table is chosen on held-out rows, and each kind of model keeps its promises."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression

from sparsenet.core.rows import Rows, as_matrix
from sparsenet.engines.blend.blend_holdout import HoldoutSize
from sparsenet.engines.boosting.fit_boosting import BoostingRules
from sparsenet.engines.table import fit_table, logistic
from sparsenet.engines.table.encoding_choices import NumberFeatures, choose_numbers, choose_sets
from sparsenet.engines.table.held_answers import HeldAnswers
from sparsenet.engines.table.logistic import LogisticRules
from sparsenet.engines.table.members import AverageMember, Member
from sparsenet.engines.table.table_options import Labelled, TableOptions
from sparsenet.engines.table.table_points import TablePoints
from sparsenet.engines.table.training_members import MemberTraining
from sparsenet.features.columns.table_encoder import TableEncoder
from sparsenet.features.targets import Target
from sparsenet.selection.holdout import Holdout
from sparsenet.selection.turns import Turns
from tests.support.tables import table

QUICK = TableOptions(boosting=BoostingRules(rounds=(10,)), verbose=False)


def planted(n=160, seed=0):
    """Encoded rows whose class is decided by a number and a category, and the labels."""
    rng = np.random.default_rng(seed)
    size, colour = rng.normal(size=n), rng.choice(["red", "green", "blue"], n)
    frame = table(size=size, colour=colour.astype(object), noise=rng.normal(size=n))
    encoder = TableEncoder.learn(frame, {})
    _, labels = Target.learn(np.where(size > 0, colour, "none"))
    return TablePoints(encoder.rows(frame), *encoder.matrix(frame)), labels


POINTS, LABELS = planted()


def fit(points, labels, options, *, exclusive=True, seed=0, threads=1, times=None):
    """Draw the hold-out, and train on it."""
    training = MemberTraining(options, labels.width, exclusive, seed, threads)
    parts = options.draw(labels, seed, times)
    return fit_table.fit(Labelled(points, labels, times), parts, training)


def accuracy(member: Member, points=POINTS, labels=LABELS):
    return float(np.mean(member.best(points, 1, 1)[0][:, 0] == labels.indices))


def test_the_best_method_is_chosen_and_recorded():
    member, choices, validation = fit(POINTS, LABELS, QUICK)
    assert accuracy(member) > 0.9
    assert choices["method"].options == ("boosting", "linear", "blend", "network", "tree")
    assert choices["method"].n == 160  # a small table is held out in turn, as a whole
    assert "average" in choices
    methods = choices["average"].value.split(" and ")
    assert ("rounds" in choices) == ("boosting" in methods)
    assert ("cost" in choices) == ("linear" in methods)
    assert validation is not None
    assert validation["accuracy"] > 0.8


@pytest.mark.parametrize("method", ["boosting", "linear", "blend", "network", "tree"])
def test_every_method_answers_in_blocks_as_at_once(method):
    member, choices, _ = fit(POINTS, LABELS, replace(QUICK, method=method))
    assert member.kind == method
    assert choices == {}
    p = member.probabilities(POINTS, 1)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-5)
    labels, best = member.best(POINTS, 2, 1)
    np.testing.assert_allclose(np.take_along_axis(p, labels.astype(np.int64), 1), best, atol=1e-6)
    assert (best[:, 0] >= best[:, 1]).all()
    assert member.probabilities(POINTS.slice(0, 0), 1).shape == (0, LABELS.width)
    some, values = member.best_of(POINTS, np.array([1, 3], np.int32), 1, 1)
    np.testing.assert_allclose(values[:, 0], p[:, [1, 3]].max(axis=1), atol=1e-6)
    assert set(some.ravel().tolist()) <= {1, 3}


def test_one_seed_gives_equal_models():
    options = replace(QUICK, turns=Turns(enough=32, most=32))
    first, second = (fit(POINTS, LABELS, options, threads=threads)[0] for threads in (1, 2))
    assert np.array_equal(first.probabilities(POINTS, 1), second.probabilities(POINTS, 2))


def test_softmax_regression_is_exact():
    rules = LogisticRules(steps=1000)
    (ours,) = logistic.fit(POINTS.rows, LABELS.indices, LABELS.width, rules, [1.0])
    theirs = LogisticRegression(C=1.0, tol=1e-8, max_iter=5000).fit(as_matrix(POINTS.rows), LABELS.indices)
    np.testing.assert_allclose(ours.probabilities(POINTS.rows), theirs.predict_proba(as_matrix(POINTS.rows)), atol=0.01)


def test_held_out_rows_choose_the_cost_and_the_rounds():
    noise = np.random.default_rng(0).integers(0, LABELS.width, len(POINTS)).astype(np.int32)
    random = Rows(LABELS.indptr, noise, LABELS.data, LABELS.width)
    found = {"cost": [], "rounds": []}
    for labels in (random, LABELS):
        training = MemberTraining(TableOptions(verbose=False), labels.width, True, 0, 1)
        whole = Labelled(POINTS, labels)
        _, settings = fit_table._measure(training, ["linear", "boosting"], whole, [Holdout.draw(160, 60, 0)])
        found["cost"].append(settings["linear"].value)
        found["rounds"].append(settings["boosting"].value)
    assert found["cost"][0] < found["cost"][1]
    assert found["rounds"][0] < found["rounds"][1]


def test_dear_methods_are_left_out_with_a_reason():
    options = replace(QUICK, max_linear=10, max_boosting=10)
    member, choices, _ = fit(POINTS, LABELS, options)
    assert member.kind in ("blend", "network", "tree")
    assert "boosting left out: 160 rows x 3 columns x 4 classes" in choices["method"].why
    assert "linear left out" in choices["method"].why
    # a method given by name is trained all the same
    options = replace(options, method="boosting")
    assert fit(POINTS, LABELS, options)[0].kind == "boosting"


def test_several_labels_a_row():
    both = np.array([[i, LABELS.width] for i in LABELS.indices]).ravel()
    matrix = csr_array((np.ones(len(both), np.float32), both, np.arange(0, len(both) + 1, 2)), (160, LABELS.width + 1))
    labels = Rows.of(matrix)
    member, choices, validation = fit(POINTS, labels, QUICK, exclusive=False)
    assert choices["method"].options == ("blend", "network", "tree")
    assert "boosting left out: rows may have several labels" in choices["method"].why
    assert validation is not None
    assert validation["P@1"] > 0.8
    assert member.probabilities(POINTS, 1)[:, -1].mean() > 0.5
    with pytest.raises(ValueError, match="method='linear' cannot learn this table: rows may have several labels"):
        fit(POINTS, labels, replace(QUICK, method="linear"), exclusive=False)


@pytest.mark.parametrize("n", [1, 2, 9])
def test_few_rows_hold_nothing_out(n):
    labels = LABELS.slice(0, n)
    member, choices, validation = fit(POINTS.slice(0, n), labels, QUICK)
    assert validation is None
    assert "too few rows" in choices["method"].why
    assert np.isfinite(member.probabilities(POINTS, 1)).all()


def test_one_class():
    labels = Rows(np.arange(161), np.zeros(160, np.int32), np.ones(160, np.float32), 1)
    member, choices, _ = fit(POINTS, labels, QUICK)
    assert (member.best(POINTS, 1, 1)[0] == 0).all()
    assert "there is only one class" in choices["method"].why


@pytest.mark.slow
def test_a_class_of_one_row():
    labels = np.where(np.arange(160) == 7, LABELS.width, LABELS.indices).astype(np.int32)
    rare = Rows(LABELS.indptr, labels, LABELS.data, LABELS.width + 1)
    member, _, _ = fit(POINTS, rare, QUICK)
    assert accuracy(member, labels=rare) > 0.9


def test_rows_with_a_history_hold_out_the_last_in_time():
    times = np.random.default_rng(0).permutation(160).astype(float)
    (part,) = TableOptions().draw(LABELS.take(np.arange(160)), 0, times)
    assert len(part.held) == 32
    assert times[part.held].min() > times[part.kept].max()


def test_a_large_table_keeps_the_model_of_the_decision():
    options = replace(QUICK, method="linear", turns=Turns(enough=10, most=10), retrain_share=0.1)
    kept, _, _ = fit(POINTS, LABELS, options)
    again, _, _ = fit(POINTS, LABELS, replace(options, retrain_share=0))
    assert not np.array_equal(kept.model.weights, again.model.weights)


def test_an_average_is_the_mean_of_two():
    first, second = (fit(POINTS, LABELS, replace(QUICK, method=method))[0] for method in ("boosting", "linear"))
    both = AverageMember((first, second))
    expected = (first.probabilities(POINTS, 1) + second.probabilities(POINTS, 1)) / 2
    np.testing.assert_allclose(both.probabilities(POINTS, 1), expected)
    assert both.needs_rows
    assert both.needs_matrix
    mean = HeldAnswers.of(first, POINTS, 1).mean(HeldAnswers.of(second, POINTS, 1))
    np.testing.assert_allclose(mean.p.toarray(), expected, atol=1e-6)
    assert np.array_equal(mean.hits(LABELS), expected.argmax(axis=1) == LABELS.indices)


def test_blocks_hold_a_bounded_number_of_probabilities():
    member, _, _ = fit(POINTS, LABELS, replace(QUICK, method="linear"))
    sizes = [len(block) for block in member.blocks(POINTS, max_cells=50 * LABELS.width)]
    assert sizes == [50, 50, 50, 10]
    assert [len(block) for block in member.blocks(POINTS.slice(0, 3), max_cells=1)] == [1, 1, 1]


def test_held_answers_keep_the_best_labels():
    member, _, _ = fit(POINTS, LABELS, replace(QUICK, method="linear"))
    answers = HeldAnswers.of(member, POINTS, 1, most=2)
    assert np.array_equal(answers.ranked, member.best(POINTS, 2, 1)[0])
    assert answers.p.nnz == 2 * len(POINTS)


@pytest.mark.parametrize("method", ["auto", "boosting"])
def test_a_class_of_one_row_may_be_held_out(method):
    labels = Target.learn(np.array(["most"] * 39 + ["one"]))[1]
    points = POINTS.take(np.arange(40))
    member, _, validation = fit(points, labels, replace(QUICK, method=method))
    assert validation == {"accuracy": 0.975}
    assert accuracy(member, points, labels) >= 0.975


def test_regression_announces_too_much_memory(monkeypatch):
    monkeypatch.setattr(logistic, "available_memory", lambda: 10_000)
    with pytest.raises(MemoryError, match=r"softmax regression of .* classes needs about .* 10\.0 kB"):
        fit(POINTS, LABELS, replace(QUICK, method="linear"))


def test_categories_are_sets_or_ordered_by_frequency():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 40, 600)
    named, frequent = codes % 2, rng.permutation(np.arange(600) < 300).astype(int)
    options = TableOptions(verbose=False, turns=Turns(enough=600))
    found = {}
    for name, classes in (("named", named), ("noise", frequent)):
        numbers = np.column_stack((codes, classes + rng.normal(size=600) if name == "noise" else rng.normal(size=600)))
        points = replace(POINTS, rows=POINTS.rows.take(np.zeros(600, np.int64)), matrix=numbers.astype(float))
        points = replace(points, is_category=np.array([True, False]))
        labels = Rows(np.arange(601), classes.astype(np.int32), np.ones(600, np.float32), 2)
        training = MemberTraining(options, 2, True, 0, 1)
        mask, decision = choose_sets(training, Labelled(points, labels), options.draw(labels, 0))
        found[name] = decision.value
        assert mask.tolist() == [decision.value == "sets", False]
    assert found == {"named": "sets", "noise": "by frequency"}


def test_few_rows_of_straight_amounts_need_no_knots():
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(200, 6))
    frame = table(**{f"x{i}": column for i, column in enumerate(numbers.T)})
    encoder = TableEncoder.learn(frame, {})
    points = TablePoints(encoder.rows(frame), *encoder.matrix(frame))
    found = {}
    for name, amount in (("straight", numbers.sum(axis=1)), ("curved", np.abs(numbers[:, 0]) - 0.7)):
        labels = Rows(np.arange(201), (amount > 0).astype(np.int32), np.ones(200, np.float32), 2)
        training = MemberTraining(TableOptions(verbose=False), 2, True, 0, 1)
        parts = TableOptions().draw(labels, 0)
        dropped, decision = choose_numbers(training, Labelled(points, labels), parts, NumberFeatures.of(encoder))
        found[name] = decision.value
        assert dropped.any() == (name == "straight")
    assert found == {"straight": "straight", "curved": "amounts alone"}


def test_the_inner_hold_out_of_a_blend_is_the_last_rows_in_time(monkeypatch):
    drawn = []
    draw = HoldoutSize.draw
    monkeypatch.setattr(HoldoutSize, "draw", lambda *how: drawn.append(draw(*how)) or drawn[-1])
    rows = np.arange(1400) % len(POINTS)
    times = np.random.default_rng(0).permutation(1400).astype(float)
    whole = Labelled(POINTS, LABELS).take(rows)._replace(times=times)
    MemberTraining(QUICK, LABELS.width, True, 0, 1).train(["tree"], whole)
    (holdout,) = [each.points for each in drawn]
    assert times[holdout.held].min() > times[holdout.kept].max()
