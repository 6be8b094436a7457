"""Blends that version 0.1 saved answer as they did there: a vote of fixed weights, and a curve."""

import math

import numpy as np
import pytest
from scipy import sparse

from sparsenet import BlendClassifier, ModelError
from sparsenet.engines.blend.version1 import Correction, Version1Combination, upgraded
from sparsenet.storage import load, save
from tests.support.blends import NOISY, NOISY_Y, light, noisy_blend, parts_of
from tests.support.planted import NAMES, X, Y

USUAL = {"slope": 1.0, "shift": 0.0, "among": 1.0, "frequent": 0.0}
MEASURED = {"slope": 1.3, "shift": -0.4, "among": 1.7, "frequent": 0.15}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Save a blend with a network and one without, once."""
    folder = tmp_path_factory.mktemp("blends")
    noisy_blend().save(folder / "network")
    noisy_blend(network="drop").save(folder / "drop")
    return folder


def of_version_1(path, folder, *, trust=None, tree_weight=None, correction=None, cost=None):
    """Save again a model of today as version 0.1 did, with its measurements; None: as before there were any."""
    arrays, metadata = load(path)
    for name in ("combination", "choices"):
        del metadata[name]
    if trust is not None:
        metadata["neighbors"]["trust"] = trust
    if tree_weight is not None:
        metadata["tree_weight"] = tree_weight
    if correction is not None:
        metadata["correction"] = correction
    if cost is not None:
        metadata["tree"]["cost"] = cost
    save(folder / "old", arrays, metadata)
    return folder / "old"


def expected_answers(model, rows, n, k, *, trust=1.0, tree_weight=1.0, correction=None, consistent=False):
    """Return the labels of each point, best first, and the logits of version 0.1: its formula, label by label."""
    correction, network = correction or USUAL, model.network_ is not None
    if not k:
        correction, trust = USUAL, 1.0
    strength = 4 * trust if network else 2 * math.sqrt(trust)
    if not network:
        slope, shift = (2.1, 4.4) if consistent else (1.5, 2.9)
    else:
        doublings = max(math.log2(trust), -1.4)
        slope, shift = (0.55 / 2 ** (doublings / 4), 2.1 + 0.35 * doublings) if k else (0.7, 1.45)
        slope, shift = (slope * 1.2, shift + 0.75) if consistent else (slope, shift)
        slope, shift = slope / 1.3 ** math.log2(tree_weight), shift + 0.25 * math.log2(tree_weight)
    found = []
    for parts in parts_of(model, rows, n, k):
        votes = {}
        for label, (penalty, log, root) in parts.items():
            vote = log - tree_weight * penalty
            vote += strength * (root - math.sqrt(1.2)) if k else 0.0
            votes[label] = min(vote, -1e-6)
        kept = sorted(votes, key=votes.get, reverse=True)[:n]
        logits = {
            label: shift
            + slope * votes[label]
            - math.log(-math.expm1(slope * votes[label]))
            + correction["frequent"] * math.log(max(model.label_counts_[label], 1))
            for label in kept
        }
        found.append(sorted(logits.items(), key=lambda own: own[1], reverse=True))
    return found


def assert_answers(model, k, **measured):
    """Compare the first ten labels of some points; labels with nearly equal logits may be in either order."""
    rows, n = NOISY[:25], 32
    correction = (measured.get("correction") or USUAL) if k else USUAL
    labels, p = model.set_params(n_neighbors=k).topk_numbers(rows, 10)
    for i, expected in enumerate(expected_answers(model, rows, n, k, **measured)):
        logits = dict(expected)
        for rank, (label, own) in enumerate(zip(labels[i].tolist(), p[i].tolist(), strict=True)):
            assert logits[label] == pytest.approx(expected[rank][1], rel=1e-3, abs=1e-2)
            probability = 1 / (1 + math.exp(-(correction["slope"] * logits[label] + correction["shift"])))
            assert own == pytest.approx(probability, rel=2e-2, abs=1e-5)
    assert (np.diff(p, axis=1) <= 0).all()


@pytest.mark.parametrize("k", [50, 0])
@pytest.mark.parametrize(
    "measured",
    [
        {},
        {"trust": 0.5, "tree_weight": 2.0, "correction": MEASURED},
        {"trust": 1 / 16, "tree_weight": 1.0, "correction": {**MEASURED, "frequent": -0.2}},
        {"trust": 1.7, "tree_weight": 4.0, "correction": USUAL},
    ],
    ids=["oldest", "little trust", "least trust", "much trust"],
)
@pytest.mark.parametrize("cost", [0.5, 2.0])
def test_an_old_model_answers_by_the_old_formula(saved, tmp_path, measured, cost, k):
    model = BlendClassifier.load(of_version_1(saved / "network", tmp_path, cost=cost, **measured))
    assert_answers(model, k, consistent=cost > 0.5, **measured)


@pytest.mark.parametrize(
    "measured", [{}, {"trust": 0.5, "correction": MEASURED}, {"trust": 2.0, "correction": USUAL}], ids=str
)
@pytest.mark.parametrize("cost", [0.5, 4.0])
def test_an_old_model_without_a_network_answers_by_the_old_formula(saved, tmp_path, measured, cost):
    model = BlendClassifier.load(of_version_1(saved / "drop", tmp_path, cost=cost, **measured))
    assert_answers(model, 50, consistent=cost > 0.5, **measured)


def test_a_given_cost_does_not_mark_labels_as_consistent(tmp_path):
    light().set_params(tree__cost=2.0).fit(X, Y).save(tmp_path / "model")
    model = BlendClassifier.load(of_version_1(tmp_path / "model", tmp_path))
    assert model.tree_.cost_ == 2
    assert not model._fitted.combination.is_consistent


def test_old_exclusive_probabilities_are_a_softmax_of_the_logits(saved, tmp_path):
    model = light().fit(NOISY, NOISY_Y.argmax(axis=1))
    model.save(tmp_path / "single")
    old = BlendClassifier.load(of_version_1(tmp_path / "single", tmp_path, trust=1.0, correction=MEASURED))
    p = old.predict_proba(NOISY[:9])
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    labels, own = old.topk_numbers(NOISY[:9], 32)
    logits = (np.log(own) - np.log1p(-own.astype(np.float64)) - MEASURED["shift"]) / MEASURED["slope"]
    odds = np.exp(MEASURED["among"] * logits)
    expected = odds / odds.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.take_along_axis(p, labels.astype(int), 1), expected, rtol=1e-2, atol=1e-5)


@pytest.mark.parametrize("name", ["network", "drop"])
def test_an_old_model_is_saved_and_loaded_again(saved, tmp_path, name):
    old = BlendClassifier.load(of_version_1(saved / name, tmp_path, trust=0.7, tree_weight=2.0, correction=MEASURED))
    assert isinstance(old._fitted.combination, Version1Combination)
    assert old.choices_.keys() == {"normalize"}
    old.save(tmp_path / "again")
    again = BlendClassifier.load(tmp_path / "again")
    assert again._fitted.combination == old._fitted.combination
    np.testing.assert_array_equal(again.predict_proba(NOISY[:50]), old.predict_proba(NOISY[:50]))


def test_an_old_model_that_is_trained_again_combines_as_today(saved, tmp_path):
    old = BlendClassifier.load(of_version_1(saved / "drop", tmp_path, trust=0.7, correction=MEASURED))
    new = light().fit(X, NAMES[Y.argmax(axis=1)])
    np.testing.assert_array_equal(old.fit(X, NAMES[Y.argmax(axis=1)]).predict_proba(X), new.predict_proba(X))


@pytest.mark.parametrize(
    "forged",
    [
        {"correction": {**USUAL, "slope": 0.0}},
        {"correction": {**USUAL, "slope": "1"}},
        {"correction": {**USUAL, "shift": 1e9}},
        {"correction": {**USUAL, "among": -1.0}},
        {"correction": {**USUAL, "frequent": 2.0}},
        {"correction": {**USUAL, "frequent": None}},
        {"correction": 5},
        {"trust": 0.0},
        {"trust": 3.0},
        {"trust": "1"},
        {"tree_weight": 0.5},
        {"tree_weight": 5.0},
    ],
    ids=str,
)
def test_forged_measurements_are_refused(saved, tmp_path, forged):
    with pytest.raises(ModelError):
        BlendClassifier.load(of_version_1(saved / "network", tmp_path, **forged))


def test_the_state_of_an_old_pickle_is_upgraded():
    """Its parts were classifiers, and its neighbors knew how far they were trusted."""
    model = light().fit(X, sparse.csr_array(Y))
    fitted = model._fitted
    names = ("neighbors", "target", "scaling", "seen", "candidates", "validation")
    state = {name: getattr(fitted, name) for name in names}
    state |= {"network": None, "tree": model.tree_, "tree_weight": 2.0, "correction": Correction(1.3, -0.4, 1.7, 0.15)}
    found = upgraded(state)
    assert found["tree"] is fitted.tree
    assert found["network"] is None
    assert found["combination"] == Version1Combination(False, True, False, tree_weight=2.0, **MEASURED)
    again = object.__new__(type(fitted))
    again.__setstate__(state)
    assert again.combination == found["combination"]
