"""Training a blend: the hold-out, parts trained without it, and what is decided and fitted there."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from sparsenet import BlendClassifier, ExtremeClassifier, ModelError, Rows, TreeClassifier, kernels
from sparsenet.cli import about_model
from sparsenet.core.ranked import is_hit
from sparsenet.core.seeds import run_seed
from sparsenet.engines.blend import candidates, fit_blend
from sparsenet.engines.blend.blend_holdout import BlendHoldout, HoldoutSize
from sparsenet.engines.blend.candidates import UNKNOWN
from sparsenet.engines.blend.combination import WEIGHTS, WITHOUT_NETWORK, Combination
from sparsenet.engines.blend.fit_blend import MANY, BlendOptions
from sparsenet.engines.blend.fitted_blend import FEW
from sparsenet.engines.network import fit_network
from sparsenet.engines.network.auto_rules import AUTO
from sparsenet.engines.network.options import NetworkOptions
from sparsenet.engines.tree import fit_tree
from sparsenet.engines.tree.machines import Rules
from sparsenet.features.label_stats import LabelStats
from sparsenet.features.scaling import Scaling
from sparsenet.features.targets import Target
from sparsenet.selection.choose import Rule
from sparsenet.selection.holdout import Holdout
from sparsenet.storage import load, save
from tests.support.blends import NOISY, NOISY_Y, blend, light
from tests.support.interrupting import interrupted_at
from tests.support.planted import X, Y, planted

N, N_LABELS = 1600, 40
ALWAYS, NEVER = Rule("P@k", standard_errors=-1e9, min_gain=-1.0), Rule("P@k", standard_errors=0, min_gain=2.0)
#: Which parts go without the hold-out, for `N` points.
REGIMES = {
    "no part": HoldoutSize(),
    "all parts": HoldoutSize(rules=replace(AUTO, min_held=160), enough=N),
}


def rows(matrix):
    return Rows.of(sparse.csr_array(matrix, dtype=np.float32))


def options(network=None, **others):
    own = {"n_neighbors": 50, "candidates": None, "time_budget": None, "verbose": False, **others}
    network = {"hidden": 8, "epochs": 4, "batch_size": 64} if network is None else network
    return BlendOptions(Rules(), NetworkOptions.of(network) if network else None, **own)


def trained(points, how, seed=0, **run):
    n_labels = points[1].width
    about = {"target": Target.of_columns(n_labels), "scaling": Scaling("none")}
    about |= {"seen": LabelStats.of_rows(points[0].width, n_labels), **run}
    return fit_blend.fit(points, how, seed=seed, threads=1, **about)


def many(n=N, *, right=0.95, seed=1):
    """Return points with one label: by their features in a share of the cases, else at random."""
    features, Y = planted(n=n, n_features=200, n_labels=N_LABELS, seed=seed)
    rng = np.random.default_rng(seed)
    own = np.where(rng.random(n) < right, np.asarray(Y.argmax(axis=1)).ravel(), rng.integers(0, N_LABELS, n))
    return rows(features), rows(sparse.csr_array((np.ones(n), (np.arange(n), own)), shape=(n, N_LABELS)))


def described(n, n_labels=300, seed=0):
    """Draw points with two faint words of their own label, beside eight loud ones that any point may have."""
    rng = np.random.default_rng(seed)
    y, common = rng.integers(n_labels, size=n), 40
    own = common + 3 * y[:, None] + rng.integers(3, size=(n, 2))
    words = np.hstack((own, rng.integers(common, size=(n, 8)))).ravel()
    values = np.tile([0.2] * 2 + [1.0] * 8, n)
    return sparse.csr_array((values, (np.repeat(np.arange(n), 10), words)), shape=(n, common + 3 * n_labels)), y


@pytest.fixture
def fits(monkeypatch):
    """Record how many points each tree and each network is trained on."""
    found = {"tree": [], "network": []}
    for name, module in (("tree", fit_tree), ("network", fit_network)):
        fit = module.fit

        def noted(points, *args, fit=fit, name=name, **how):
            held = how.get("holdout")
            found[name].append(len(points[0]) - (0 if held is None else len(held)))
            return fit(points, *args, **how)

        monkeypatch.setattr(module, "fit", noted)
    return found


# --- the size of the hold-out ---


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (1_279, None),
        (1_280, 128),
        (5_120, 512),
        (8_191, 819),
        (8_192, 512),
        (32_768, 512),
        (65_536, 1024),
        (100_000, 1562),
        (1_000_000, 2048),
    ],
)
def test_the_size_of_the_holdout_follows_the_number_of_points(n, expected):
    labels = Rows(np.arange(n + 1), np.zeros(n, np.int32), np.ones(n, np.float32), 1)
    found = HoldoutSize().draw(labels, 7).points
    assert (None if found is None else len(found)) == expected


@pytest.mark.parametrize("without", ["kept", "held"])
def test_no_holdout_if_one_side_has_no_label(without):
    size, everyone = HoldoutSize(), Rows(np.arange(2001), np.zeros(2000, np.int32), np.ones(2000, np.float32), 1)
    holdout = size.draw(everyone, 3).points
    labelled = np.ones(2000, bool)
    labelled[getattr(holdout, without)] = False
    indptr = np.concatenate(([0], np.cumsum(labelled)))
    some = Rows(indptr, np.zeros(indptr[-1], np.int32), np.ones(indptr[-1], np.float32), 1)
    assert size.draw(some, 3) == BlendHoldout()
    assert size.draw(some, 4).points is not None


@pytest.mark.parametrize("row", [0, 700, 1999])
def test_learns_a_label_of_a_single_point(row):
    points = sparse.csr_array(np.eye(8, dtype=np.float32)[np.arange(2000) % 8])
    y = sparse.csr_array(([1], ([row], [2])), shape=(2000, 5))
    assert light().fit(points, y).topk(points[[row]], 1)[0].tolist() == [[2]]


# --- parts trained without the hold-out ---


@pytest.mark.parametrize("network", [None, {}], ids=["network", "drop"])
@pytest.mark.parametrize("regime", REGIMES)
def test_measures_with_parts_that_have_not_seen_the_holdout(monkeypatch, fits, regime, network):
    """Each held-out point has a label that no other point has: whoever knows it has seen the point."""
    size = REGIMES[regime]
    features, labels = many()
    held = size.draw(labels, run_seed(0)).points.held
    own = labels.indices.copy()
    own[held] = N_LABELS + np.arange(len(held))
    labels = Rows(labels.indptr, own, labels.data, N_LABELS + len(held))
    asked: list[Any] = []
    propose = candidates.propose

    def noted(parts, points, n, **how):
        found = propose(parts, points, n, **how)
        asked.append((parts, points, how["weights"], found))
        return found

    monkeypatch.setattr(fit_blend, "propose", noted)
    fitted = trained((features, labels), options(network, holdout=size))
    assert asked
    for parts, points, weights, found in asked:
        np.testing.assert_array_equal(points.data, features.take(held).data)
        assert parts.tree.shape.labels.max() < N_LABELS
        assert (parts.network is None) == (network == {})
        if parts.network is not None:
            assert not np.diff(parts.network.output.wide.indptr)[N_LABELS:].any()
        owners = np.repeat(np.arange(len(held)), np.diff(weights.indptr))
        assert not weights.data[weights.indices == held[owners]].any(), "a point has no vote for itself"
        assert not found.hits(labels.take(held)).any()
    assert "weights" not in fitted.choices, "without a hit there is nothing to fit"
    assert fitted.combination == Combination(WEIGHTS if network is None else WITHOUT_NETWORK)
    kept = N - len(held)
    assert fits["tree"] == ([N, kept] if regime == "no part" else [kept])
    if network is None:
        assert fits["network"] == ([N, kept] if regime == "no part" else [kept])


def test_the_model_learns_all_points(fits):
    model = light().fit(NOISY, NOISY_Y)
    assert fits["tree"] == [3000, 2700]
    np.testing.assert_array_equal(model.tree_.label_counts_, NOISY_Y.sum(axis=0))
    alone = TreeClassifier(random_state=model.tree_.random_state, n_jobs=1).fit(NOISY, NOISY_Y)
    np.testing.assert_array_equal(model._fitted.tree.shape.labels, alone._fitted.shape.labels)
    assert len(model.neighbors_.labels) == model.n_points_ == 3000


@pytest.mark.parametrize(
    ("parameters", "n", "trees", "networks"),
    [
        ({}, 3000, [3000, 2700], [3000, 2700]),
        ({"network": "drop"}, 3000, [3000, 2700], []),
        ({}, 1279, [1279], [1279]),
        ({"n_neighbors": 0}, 3000, [3000], [3000]),
        ({"time_budget": 3600}, 3000, [3000], [3000]),
    ],
    ids=["default", "drop", "few points", "no neighbors", "time budget"],
)
def test_trains_at_most_one_more_tree(fits, parameters, n, trees, networks):
    small = ExtremeClassifier(hidden=8, epochs=3, batch_size=64)
    blend(**{"network": small, **parameters}).fit(NOISY[:n], NOISY_Y[:n])
    assert fits == {"tree": trees, "network": networks}


def test_measures_with_a_network_like_that_of_the_model(monkeypatch):
    made, fit = [], fit_network.fit
    monkeypatch.setattr(fit_network, "fit", lambda *args, **how: made.append(fit(*args, **how)) or made[-1])
    network = ExtremeClassifier(epochs=3, batch_size=64, hidden=(9, 8), activation="tanh")
    model = blend(network=network).fit(NOISY, NOISY_Y)
    final, second = made
    assert model._fitted.network is final
    assert len(second.history) == len(final.history) == 3
    both = [[each for each in fitted.network.parameters() if each.name != "wide.weight"] for fitted in made]
    assert [(each.name, each.shape) for each in both[0]] == [(each.name, each.shape) for each in both[1]]


def with_pilot():
    """Return options whose network makes a pilot run on `N` points."""
    how = options({"hidden": 8})
    return replace(how, network=replace(how.network, rules=replace(AUTO, scouting_min_held=N // 10)))


def test_a_pilot_network_answers_the_hold_out(fits, monkeypatch):
    measured, combined = [], fit_blend._combined
    monkeypatch.setattr(fit_blend, "_combined", lambda *parts: measured.append(parts[1]) or combined(*parts))
    fitted = trained(many(), with_pilot())
    assert fits == {"tree": [N, N - N // 10], "network": [N]}
    assert measured[0].network.network is not fitted.network.network
    features, labels = many()
    share = is_hit(measured[0].network.network.topk(features, 1, 1)[0], labels).mean()
    assert share > 0.5, "it is trained"


def test_a_resumed_run_makes_the_same_pilot(monkeypatch, tmp_path):
    whole = trained(many(), with_pilot())
    with monkeypatch.context() as patched:
        interrupted_at(patched, 300)
        with pytest.raises(KeyboardInterrupt):
            trained(many(), with_pilot(), checkpoint=tmp_path)
    resumed = trained(many(), with_pilot(), checkpoint=tmp_path, resume=True, resumes=True)
    assert resumed.combination == whole.combination
    for name, weights in whole.network.network.weights().items():
        np.testing.assert_array_equal(resumed.network.network.weights()[name], weights)


# --- decisions ---


@pytest.mark.parametrize(
    ("lost_by", "share", "expected"),
    [(FEW, 0.0, FEW), (FEW, 1 / 160, FEW), (FEW, 0.2, MANY), (MANY, 0.2, FEW)],
)
def test_proposes_more_candidates_if_more_are_right(monkeypatch, lost_by, share, expected):
    features, labels = many()
    labels = Rows(labels.indptr, labels.indices * 5, labels.data, 5 * N_LABELS)
    held = HoldoutSize().draw(labels, run_seed(0)).points.held

    def losing(parts, points, n, **how):
        found = propose(parts, points, n, **how)
        lost = (np.arange(len(points)) < share * len(points))[:, None] & found.hits(labels.take(held))
        return found._replace(penalties=np.where(lost & (n == lost_by), UNKNOWN, found.penalties))

    propose = candidates.propose
    monkeypatch.setattr(fit_blend, "propose", losing)
    fitted = trained((features, labels), options())
    assert fitted.candidates == expected
    decision = fitted.choices["candidates"]
    assert (decision.value, decision.options, decision.n) == (expected, ("32", "128"), N // 10)


def test_there_are_no_more_candidates_than_labels():
    fitted = trained(many(), options())
    assert fitted.candidates == FEW
    assert fitted.choices["candidates"].options == ("32", "40")
    assert "candidates" not in trained(_renamed(many(), FEW), options()).choices


@pytest.mark.parametrize(("rule", "most"), [(NEVER, 1), (ALWAYS, 1 << 16)], ids=["not better", "better"])
def test_neighbors_read_as_few_postings_as_are_no_worse(rule, most):
    fitted = trained(many(), options({}, comparisons=(1, 1 << 16), not_worse=rule))
    assert fitted.choices["comparisons"].value == fitted.neighbors.max_comparisons == most


def _renamed(points, n_labels):
    features, labels = points
    return features, Rows(labels.indptr, labels.indices % n_labels, labels.data, n_labels)


@pytest.mark.parametrize(("given", "network"), [(7, None), (None, {})], ids=["given", "without a network"])
def test_candidates_are_not_compared_if_given_or_without_network(given, network):
    fitted = trained(many(), options(network, candidates=given, better=ALWAYS))
    assert fitted.candidates == (given or FEW)
    assert set(fitted.choices) == {"rarity", "power", "comparisons", "weights"}


@pytest.mark.parametrize("network", [None, {}], ids=["network", "drop"])
@pytest.mark.parametrize("rule", [ALWAYS, NEVER], ids=["fitted", "fixed"])
def test_weights_are_fitted_only_if_that_is_better(rule, network):
    points, y = described(3000, 150)
    labels = sparse.csr_array((np.ones(3000), (np.arange(3000), y)), shape=(3000, 150))
    fitted = trained((rows(points), rows(labels)), options(network, better=rule))
    prior = WEIGHTS if network is None else WITHOUT_NETWORK
    assert (fitted.combination.weights == prior) == (rule is NEVER)
    decision = fitted.choices["weights"]
    assert decision.value == tuple(round(weight, 3) for weight in fitted.combination.weights)
    assert decision.options == ("fixed", "fitted")
    assert decision.why.startswith("fitted: P@k ")
    assert decision.n == 300


@pytest.mark.parametrize("network", ["network", "drop"])
def test_uninformative_neighbors_lose_weight(network):
    """Neighbors share loud words; tree and network find the faint ones."""
    points, y = described(6000)
    made = ExtremeClassifier(hidden=8, epochs=3) if network == "network" else network
    model = blend(network=made).fit(points, y)
    prior = WEIGHTS if network == "network" else WITHOUT_NETWORK
    weights, decision = model._fitted.combination.weights, model.choices_["weights"]
    assert weights[2] / sum(weights) < prior[2] / sum(prior)
    assert decision.gain > 2 * decision.standard_error > 0
    asked, truth = described(2000, seed=1)
    right = model.score(asked, truth)
    model._fitted = replace(model._fitted, combination=Combination(prior))
    assert right > model.score(asked, truth) + 0.02


def test_noise_keeps_the_fixed_weights():
    fitted = trained(many(right=0.0), options({}))
    assert fitted.combination.weights == WITHOUT_NETWORK
    assert "not beyond chance: fixed stays" in fitted.choices["weights"].why


@pytest.mark.parametrize("y", ["single", "several"])
def test_decisions_are_recorded_saved_and_shown(tmp_path, y):
    labels = NOISY_Y.argmax(axis=1) if y == "single" else NOISY_Y
    model = blend(network=ExtremeClassifier(hidden=8, epochs=3, batch_size=64)).fit(NOISY, labels)
    assert set(model.choices_) == {"normalize", "rarity", "power", "comparisons", "candidates", "weights"}
    assert model.choices_["candidates"].value == model.candidates_
    model.save(tmp_path / "model")
    again = BlendClassifier.load(tmp_path / "model")
    assert again.choices_ == model.choices_
    assert again._fitted.combination == model._fitted.combination
    found = about_model.collect(tmp_path / "model")
    said = about_model.describe(found)
    for name, choice in model._fitted.choices.items():
        assert found["choices"][name] == json.loads(json.dumps(choice._asdict()))
        assert f"{name}: {choice.why}" in said
    small = blend(network=ExtremeClassifier(hidden=8, epochs=3)).fit(X, Y)
    assert set(small._fitted.choices) == {"rarity", "power"}
    small.save(tmp_path / "small")
    assert "weights:" not in about_model.describe(about_model.collect(tmp_path / "small"))


@pytest.mark.parametrize(
    "forged",
    [
        {"combination": {"weights": [0.5, 0.5]}},
        {"combination": {"weights": [0.5, 0.5, -1.0]}},
        {"combination": {"weights": [0.5, 0.5, "2"]}},
        {"combination": {"slope": 0.0}},
        {"combination": {"slope": "1"}},
        {"combination": {"shift": 1e9}},
        {"combination": {"fall": None}},
        {"combination": {"temperature": -1.0}},
        {"choices": {"weights": {"value": 1}}},
        {"choices": {"weights": {"value": 1, "why": 3}}},
        {"choices": {"weights": {"value": 1, "why": "so", "n": -1}}},
        {"choices": {"weights": {"value": 1, "why": "so", "options": [1]}}},
        {"choices": {"weights": {"value": 1, "why": "so", "gain": "much"}}},
        {"choices": {"weights": {"value": 1, "why": "so", "unheard": 1}}},
        {"choices": {"weights": 5}},
        {"choices": 5},
    ],
    ids=str,
)
def test_forged_combinations_and_choices_are_refused(tmp_path, forged):
    path = tmp_path / "model"
    light().fit(X, Y).save(path)
    arrays, metadata = load(path)
    ((name, value),) = forged.items()
    value = {**metadata[name], **value} if isinstance(value, dict) and name == "combination" else value
    save(path, arrays, {**metadata, name: value})
    with pytest.raises(ModelError):
        BlendClassifier.load(path)


# --- chances ---


@pytest.mark.parametrize("network", ["network", "drop"])
@pytest.mark.parametrize("right", [0.3, 0.95])
def test_probabilities_of_first_labels_are_calibrated(right, network):
    features, labels = many(8000, right=right)
    how = options(None if network == "network" else {})
    fitted = trained((features.slice(0, 6000), labels.slice(0, 6000)), how)
    asked, truth = features.slice(6000, 8000), labels.slice(6000, 8000)

    def off(combination):
        model = replace(fitted, combination=combination)
        ranked = [found[1:] for found in model.rank(asked, 32, k=50, beam=10, threads=1)]
        found, scores = (np.concatenate(part) for part in zip(*ranked, strict=True))
        p, hits = combination.probabilities(scores, fitted.seen.label_counts[found]), is_hit(found, truth)
        p, hits = p[:, :5], hits[:, :5]
        loss = -np.log(np.where(hits, p, 1 - p) + 1e-9).sum(axis=1).mean()
        return abs(p[:, 0].mean() - hits[:, 0].mean()), loss

    (first, loss), usual = off(fitted.combination), off(Combination(fitted.combination.weights))
    assert first < 0.03
    assert first < usual[0]
    assert loss < usual[1]


@pytest.mark.parametrize("right", [0.3, 0.95])
def test_exclusive_probabilities_are_calibrated(right):
    features, labels = many(8000, right=right)
    y = labels.indices
    model = light(normalize="none").fit(_matrix(features.slice(0, 6000)), y[:6000])
    p = model.predict_proba(_matrix(features.slice(6000, 8000)))
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    said, came = p.max(axis=1).mean(), (p.argmax(axis=1) == y[6000:]).mean()
    assert said == pytest.approx(came, abs=0.05)


def _matrix(points):
    return sparse.csr_array((points.data, points.indices, points.indptr), shape=(len(points), points.width))


def test_without_a_holdout_the_default_combination_stays():
    assert light().fit(X, Y)._fitted.combination == Combination(WITHOUT_NETWORK)
    assert blend().fit(X, Y)._fitted.combination == Combination()
    alone = blend(network=ExtremeClassifier(hidden=8, epochs=1), n_neighbors=0)
    assert alone.fit(NOISY, NOISY_Y)._fitted.combination == Combination()


def test_without_neighbors_the_default_combination_answers():
    model = blend(network=ExtremeClassifier(hidden=8, epochs=3, batch_size=64)).fit(NOISY, NOISY_Y)
    assert model._fitted.combination != Combination()
    expected = replace(model._fitted, neighbors=None, combination=Combination())
    _, labels, scores = next(expected.rank(model._features(NOISY[:50]), 128, k=0, beam=10, threads=1))
    found, p = model.set_params(n_neighbors=0, candidates=128).topk_numbers(NOISY[:50], 5)
    np.testing.assert_array_equal(found, labels[:, :5])
    counts = model.label_counts_[found]
    np.testing.assert_array_equal(p, Combination().probabilities(scores[:, :5], counts))


# --- Ctrl-C while the parts for the hold-out are trained ---


@pytest.mark.parametrize("network", ["network", "drop"])
def test_ctrl_c_in_the_second_tree_keeps_the_model(monkeypatch, network):
    calls, fit = [], fit_tree.fit

    def interrupted(*args, **how):
        if calls:
            raise KeyboardInterrupt
        calls.append(args)
        return fit(*args, **how)

    monkeypatch.setattr(fit_tree, "fit", interrupted)
    model = blend(
        **({"network": ExtremeClassifier(hidden=8, epochs=3)} if network == "network" else {"network": "drop"})
    )
    with pytest.raises(KeyboardInterrupt):
        model.fit(NOISY, NOISY_Y)
    assert (model.network_ is None) == (network == "drop")
    assert model._fitted.combination == Combination(WITHOUT_NETWORK if network == "drop" else WEIGHTS)
    assert model.score(NOISY, NOISY_Y) > 0.8
    assert set(model._fitted.choices) == {"rarity", "power"}


@pytest.mark.parametrize("step", [0, 20, 100])
def test_ctrl_c_in_the_second_network_keeps_that_of_the_model(monkeypatch, step):
    made, fit = [], fit_network.fit

    class Stop:
        left = step

        def on_batch(self, progress):
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt

    def interrupted(*args, **how):
        made.append(fit(*args, **how | {"callbacks": [Stop()] if made else []}))
        return made[-1]

    monkeypatch.setattr(fit_network, "fit", interrupted)
    model = blend(network=ExtremeClassifier(hidden=8, epochs=3, batch_size=64))
    with pytest.raises(KeyboardInterrupt):
        model.fit(NOISY, NOISY_Y)
    assert model._fitted.network is made[0]
    assert model.n_points_ == model.network_.n_points_ == 3000
    assert model._fitted.combination == Combination()


def test_ctrl_c_before_the_first_step_of_the_network_leaves_tree_and_neighbors(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(fit_network, "build", interrupted)
    model = blend()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    alone = light().fit(X, Y)
    assert model.network_ is None
    for found, expected in zip(model.topk_numbers(X), alone.topk_numbers(X), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_no_memory_for_a_second_part_leaves_the_default_combination(monkeypatch):
    model = light().fit(X, Y)
    calls, train = [], kernels.train_nodes

    def failing(*args):
        calls.append(args)
        if len(calls) > n_calls:
            raise MemoryError("no memory for the second tree")
        return train(*args)

    n_calls = np.inf
    monkeypatch.setattr(kernels, "train_nodes", failing)
    light().fit(NOISY, NOISY_Y)
    n_calls = len(calls) - 1
    calls.clear()
    with pytest.warns(UserWarning, match="default weights and probabilities: no memory for the second tree"):
        model.fit(NOISY, NOISY_Y)
    assert set(model._fitted.choices) == {"rarity", "power"}
    assert model._fitted.combination == Combination(WITHOUT_NETWORK)
    assert model.n_features_in_ == NOISY.shape[1]


# --- answers on the hold-out ---


def measured(points, how, held_out=None):
    about = {"target": Target.of_columns(points[1].width), "scaling": Scaling("none"), "seed": 0, "threads": 1}
    seen = LabelStats.of_rows(points[0].width, points[1].width)
    return fit_blend.fit_and_measure(points, how, seen=seen, held_out=held_out, **about)


def test_a_given_holdout_is_measured():
    points = many()
    held_out = BlendHoldout(Holdout.draw(N, 200, seed=5), for_good=True)
    fitted, answers = measured(points, options(), held_out)
    assert np.array_equal(answers.held, held_out.points.held)
    assert fitted.network.seen.n_points == N - 200
    assert fitted.choices["weights"].n == 200
    assert np.array_equal(answers.hits, is_hit(answers.labels, points[1].take(answers.held)) & answers.hits)
    assert (np.diff(answers.probabilities, axis=1) <= 0).all()
    assert answers.hits[:, 0].mean() > 0.8
    precision = np.mean([answers.hits[:, :k].sum(axis=1) / k for k in (1, 3, 5)], axis=0)
    assert answers.precision() == pytest.approx(precision)


@pytest.mark.parametrize("how", [{"n_neighbors": 0}, {"time_budget": 60.0}])
def test_without_a_decision_there_are_no_answers(how):
    assert measured(many(), options(**how))[1] is None
    assert measured(many(n=100), options())[1] is None
