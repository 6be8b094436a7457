"""How sure a blend may be: measured on points that none of its parts has learnt."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit
from sparsenet.engines.blend.correction import USUAL, Correction
from sparsenet.engines.blend.unlearnt import Unlearnt

from sparsenet import BlendClassifier, ExtremeClassifier, Rows
from sparsenet.core.ranked import is_hit
from sparsenet.core.seeds import run_seed
from sparsenet.engines.blend import correction, trust, unlearnt, voting
from sparsenet.engines.network import network_holdout, options
from sparsenet.selection import frequency
from sparsenet.selection.holdout import split
from sparsenet.storage import ModelError, load, save
from tests.support.planted import planted

N = 1600


def data(right):
    """Return points whose one label is that of their features in a share of cases, and any of forty in the others."""
    X, Y = planted(n=N + 1000, n_features=200, n_labels=40, seed=1)
    rng = np.random.default_rng(0)
    own = np.asarray(Y.argmax(axis=1)).ravel()
    y = np.where(rng.random(N + 1000) < right, own, rng.integers(0, 40, N + 1000))
    return sparse.csr_array(X), sparse.csr_array((np.ones(N + 1000), (np.arange(N + 1000), y)), shape=(N + 1000, 40))


def blend(**parameters):
    network = ExtremeClassifier(epochs=4, batch_size=64)
    return BlendClassifier(**{"network": network, "random_state": 0, "n_jobs": 1, "verbose": 0, **parameters})


@pytest.fixture(autouse=True)
def few_are_enough(monkeypatch):
    """Have points kept from all parts where there are a thousand, and forty labels."""
    monkeypatch.setattr(options, "ALL_LABELS", 10)
    for name, value in {"ENOUGH": 1000, "FEWEST": 300}.items():
        monkeypatch.setattr(network_holdout, name, value)
    monkeypatch.setattr(trust, "FEWEST_APART", 100)
    monkeypatch.setattr(trust, "SHARE_APART", 5)


@pytest.mark.parametrize("network", [None, "drop"])
@pytest.mark.parametrize("right", [0.3, 0.95])
def test_so_many_come_true_as_are_said_to(right, network):
    X, Y = data(right)
    model = blend(**({} if network is None else {"network": network})).fit(X[:N], Y[:N])
    truth = Rows.of(Y[N:].astype(np.float32))

    def answered():
        labels, p = model.topk_numbers(X[N:], 20)
        hits = is_hit(labels, truth)
        loss = -np.log(np.where(hits, p, 1 - p)).sum(axis=1).mean()
        return p, loss, abs(p.sum(axis=1).mean() - hits.sum(axis=1).mean())

    assert model._fitted.correction != USUAL
    p, loss, off = answered()
    model._adopt(replace(model._fitted, correction=USUAL))
    _, loss_before, off_before = answered()
    # A network is given what frequent labels should say, so that less is left to be put right.
    assert loss < loss_before - (0.01 if network == "drop" else 0.005)
    assert off < 0.1
    assert off < off_before
    assert (np.diff(p) <= 0).all()


@pytest.mark.parametrize("right", [0.3, 0.95])
def test_of_labels_that_exclude_each_other_one_is_as_probable_as_it_comes_true(monkeypatch, right):
    X, Y = data(right)
    y = np.asarray(Y.argmax(axis=1)).ravel()
    model = blend(network="drop").fit(X[:N], y[:N])
    p = model.predict_proba(X[N:])
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)

    def loss(p):
        return -np.log(np.maximum(p[np.arange(1000), y[N:]], 1e-6)).mean()

    monkeypatch.setattr(model, "_correction", lambda: USUAL)
    before = model.predict_proba(X[N:])
    assert loss(p) < loss(before)
    said, said_before, came = p.max(axis=1).mean(), before.max(axis=1).mean(), (p.argmax(axis=1) == y[N:]).mean()
    assert abs(said - came) < max(0.06, abs(said_before - came))


def test_few_labels_are_looked_at_where_each_point_has_many(monkeypatch):
    asked = []
    vote = voting.vote
    monkeypatch.setattr(unlearnt, "vote", lambda *args, **how: asked.append(len(args[2])) or vote(*args, **how))
    X, Y = data(0.6)
    monkeypatch.setattr(correction, "MOST_LABELS", 32 * 80)
    blend(network="drop").fit(X[:N], Y[:N])
    assert asked == [80]


@pytest.mark.parametrize("network", [None, "drop"])
def test_it_is_measured_on_what_no_part_has_learnt(monkeypatch, network):
    seen: dict[str, Any] = {}
    taken = Unlearnt.of

    def noted(network, judge, neighbors, points, labels, kept, **how):
        seen.update(judge=judge, kept=kept, how=how, network=network)
        return taken(network, judge, neighbors, points, labels, kept, **how)

    monkeypatch.setattr(Unlearnt, "of", noted)
    X, Y = data(0.6)
    model = blend(**({} if network is None else {"network": network})).fit(X[:N], Y[:N])
    labels, kept = Rows.of(Y[:N].astype(np.float32)), seen["kept"]
    assert len(kept) == (300 if network is None else N // 5)
    np.testing.assert_array_equal(np.intersect1d(kept, trust.kept_apart(labels, run_seed(0))), kept)
    unknown = Y[:N].sum(axis=0) - Y[kept].sum(axis=0)
    assert (seen["judge"].label_counts_ <= unknown).all()
    if network is None:
        own = model.network_._settings()
        held = split(N, network_holdout.n_for_trial(own, N, 40), run_seed(run_seed(0)))[1]
        np.testing.assert_array_equal(kept, held)
    # Nor do the points themselves have a vote: of a neighbour that is nothing but itself there is none.
    voters = model.neighbors_.voters_of_others(model._features(X[:N]), kept, 50, 1)
    own = np.repeat(np.arange(len(kept)), np.diff(voters.indptr))
    assert not voters.data[voters.indices == kept[own]].any()


def test_where_no_points_are_left_the_usual_curve_stays(monkeypatch):
    X, Y = data(0.6)
    whole = blend(network=ExtremeClassifier(epochs=4, batch_size=64, hidden=16)).fit(X[:N], Y[:N])  # which keeps none
    assert whole._fitted.correction == USUAL
    assert blend(n_neighbors=0).fit(X[:N], Y[:N])._fitted.correction == USUAL
    monkeypatch.setattr(correction, "FEW_TRUE", 10_000)
    assert blend().fit(X[:N], Y[:N])._fitted.correction == USUAL


def test_it_is_for_the_parts_that_it_was_measured_with():
    X, Y = data(0.3)
    model = blend().fit(X[:N], Y[:N])
    assert model._fitted.correction != USUAL
    model.set_params(n_neighbors=0)
    labels, p = model.topk_numbers(X[N:], 5)
    _, votes = voting.vote(model.network_, model.tree_, model._features(X[N:]), 32, 1)
    usual = voting.logits(votes, voting.curve_of(model.network_, model.tree_, None))
    np.testing.assert_array_equal(p, expit(usual[:, :5]))
    assert labels.shape == (1000, 5)


def test_it_is_saved(tmp_path):
    X, Y = data(0.3)
    model = blend().fit(X[:N], Y[:N])
    model.save(tmp_path / "model")
    copy = BlendClassifier.load(tmp_path / "model")
    assert copy._fitted.correction == model._fitted.correction
    np.testing.assert_array_equal(copy.predict_proba(X[N:]), model.predict_proba(X[N:]))
    arrays, metadata = load(tmp_path / "model")
    del metadata["correction"]
    save(tmp_path / "older", arrays, metadata)
    assert BlendClassifier.load(tmp_path / "older")._fitted.correction == USUAL
    for forged in (
        {"slope": 0.0, "shift": 0.0, "among": 1.0},
        {"slope": 1.0, "shift": 1e9, "among": 1.0},
        {"slope": "1", "shift": 0.0, "among": 1.0},
        {"slope": 1.0},
    ):
        save(tmp_path / "forged", arrays, metadata | {"correction": forged})
        with pytest.raises(ModelError):
            BlendClassifier.load(tmp_path / "forged")


def test_logits_of_what_nobody_has_heard_of_stay_finite():
    logits = np.array([[3.0, -5e5]], np.float32)
    assert np.isfinite(Correction(20.0, -3.0).apply(logits)).all()
    assert expit(Correction(0.05, 3.0).apply(logits))[0, 1] == 0


@pytest.mark.parametrize("network", [None, "drop"])
def test_a_point_does_not_count_for_its_own_labels(monkeypatch, network):
    """Of labels that are all as frequent, those that are right would be found to be more frequent than others."""
    asked = []
    monkeypatch.setattr(frequency, "worth", lambda _, right, counts: asked.append((right, counts)) or 0.0)
    X, y = data(0.6)[0], np.arange(N) % 40
    blend(**({} if network is None else {"network": network})).fit(X[:N], y)
    (right, log_counts) = asked[-1]
    assert set(np.round(np.exp(log_counts[right])).tolist()) == {N / 40 - 1}
    assert set(np.round(np.exp(log_counts[~right])).tolist()) == {N / 40}


def test_frequent_labels_that_votes_say_too_much_of_lose_by_it():
    """Each label has four features, of which half are heard among six that tell nothing."""
    rng = np.random.default_rng(0)
    n, n_labels = 3500, 2000
    how_often = rng.exponential(1, n_labels)
    owners = np.repeat(np.arange(n), 1 + rng.poisson(1.6, n))
    labels = rng.choice(n_labels, len(owners), p=how_often / how_often.sum())
    features = rng.integers(0, n_labels, (n_labels, 4))[labels]
    heard = rng.random(features.shape) < 0.5
    rows = np.concatenate((np.repeat(owners, 4).reshape(-1, 4)[heard], np.repeat(np.arange(n), 6)))
    columns = np.concatenate((features[heard], rng.integers(0, n_labels, 6 * n)))
    X = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(n, n_labels))
    Y = sparse.csr_array((np.ones(len(owners)), (owners, labels)), shape=(n, n_labels))
    model = blend(network="drop").fit(X[:2000], Y[:2000])
    right = model.score(X[2000:], Y[2000:])
    assert model._fitted.correction.frequent < -0.1
    model._adopt(replace(model._fitted, correction=model._fitted.correction._replace(frequent=0.0)))
    assert right > model.score(X[2000:], Y[2000:]) + 0.01


@pytest.mark.parametrize("kind", ["single", "several"])
def test_what_frequent_labels_gain_is_in_every_answer(monkeypatch, tmp_path, kind):
    """Of labels that are all alike otherwise the frequent ones come first."""
    X, Y = data(0.6)
    y = np.asarray(Y.argmax(axis=1)).ravel() if kind == "single" else Y
    gained, models = 0.9, []
    for worth in (0.0, gained):
        monkeypatch.setattr(frequency, "worth", lambda *_, worth=worth: worth)
        models.append(blend(network="drop").fit(X[:N], y[:N]))
    model = models[1]
    assert model._fitted.correction.frequent == gained
    (before, _), (labels, p) = (each.topk_numbers(X[N:], 10) for each in models)
    assert (np.diff(p) <= 0).all()
    counts, changed = model.label_counts_, labels[:, 0] != before[:, 0]
    assert changed.any()
    assert (counts[labels[changed, 0]] > counts[before[changed, 0]]).all()
    np.testing.assert_array_equal(np.argmax(model.predict_proba(X[N:]), axis=1), labels[:, 0])
    model.save(tmp_path / "model")
    again = BlendClassifier.load(tmp_path / "model").topk_numbers(X[N:], 10)
    for found, saved in zip((labels, p), again, strict=True):
        np.testing.assert_array_equal(saved, found)
    arrays, metadata = load(tmp_path / "model")
    del metadata["correction"]["frequent"]  # as in models of before
    save(tmp_path / "older", arrays, metadata)
    np.testing.assert_array_equal(
        BlendClassifier.load(tmp_path / "older").topk_numbers(X[N:], 10)[0][:, 0], before[:, 0]
    )
