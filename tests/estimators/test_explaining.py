"""Explanations: contributions of features and near training points to a label's score."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logit

from sparsenet import BlendClassifier, ExtremeClassifier, TreeClassifier
from sparsenet.engines.blend.candidates import propose
from sparsenet.engines.network.inference import dense_scores
from tests.support.planted import X, Y, fast

N_LABELS = Y.shape[1]
NETWORKS = {
    "wide": {"hidden": 0},
    "deep": {"wide": False, "hidden": 16},
    "both": {"hidden": 16},
    "two layers": {"hidden": (16, 8)},
    "tanh": {"hidden": (16, 8), "activation": "tanh"},
    "softmax": {"hidden": 8, "loss": "softmax"},
}
BLENDS = {
    "whole": {"network": ExtremeClassifier(hidden=16, epochs=2)},
    "softmax": {"network": ExtremeClassifier(hidden=16, epochs=2, loss="softmax")},
    "no network": {"network": "drop"},
    "no neighbors": {"network": ExtremeClassifier(hidden=16, epochs=2), "n_neighbors": 0},
}
NAMED = [f"label {i:02d}" for i in range(N_LABELS)]
LISTS = [[NAMED[label] for label in np.flatnonzero(row)] for row in Y]


def total(explanation):
    parts = sum(part.score for part in explanation.parts)
    return explanation.bias + parts + (explanation.neighbors_score or 0)


@pytest.mark.parametrize("kind", NETWORKS)
def test_parts_of_a_network_sum_to_its_score(kind):
    model = fast(epochs=2, **NETWORKS[kind]).fit(X, LISTS)
    scores = dense_scores(model.network_, model._features(X[:3]), 1)
    for row, label in ((0, None), (1, 3), (2, 17)):
        found = model.explain(X[[row]], None if label is None else NAMED[label])
        number = scores[row].argmax() if label is None else label
        assert found.label == NAMED[number]
        assert found.score == pytest.approx(scores[row, number], abs=1e-4)
        assert total(found) == pytest.approx(found.score, abs=1e-9)
        assert {part.column for part in found.parts} <= set(X[[row]].tocoo().col.tolist())
    assert found.probability == pytest.approx(model.topk(X[[2]], 1, only=[NAMED[17]])[1][0, 0], rel=1e-5)


def test_a_feature_of_a_wide_path_adds_its_weight():
    """Without hidden units, leaving a feature out changes the score by its part."""
    model = fast(epochs=2, hidden=0, normalize="none").fit(X, Y)
    found = model.explain(X[[5]], 2)
    without = X[[5]].tolil()
    without[0, found.parts[0].column] = 0
    assert found.score - model.explain(sparse.csr_array(without), 2).score == pytest.approx(
        found.parts[0].score, abs=1e-4
    )


@pytest.mark.parametrize("form", [lambda A: A, lambda A: A.toarray()])
def test_parts_of_a_tree_sum_to_the_log_odds(form):
    model = TreeClassifier(random_state=0).fit(form(X), Y)
    for label in (None, 0, 11, 39):
        found = model.explain(form(X[[7]]), label)
        assert found.score == pytest.approx(logit(found.probability), abs=1e-3)
        assert total(found) == pytest.approx(found.score, abs=1e-9)


@pytest.mark.parametrize("kind", BLENDS)
def test_parts_of_a_blend_sum_to_its_score(kind):
    model = BlendClassifier(random_state=0, **BLENDS[kind]).fit(X, Y)
    k, fitted = model._neighbors()[1], model.fitted_
    for label in (0, 11, 39):
        how = {"k": k, "beam": 10, "threads": 1, "among": np.array([label], np.int32)}
        candidates = propose(fitted.parts(with_neighbors=k > 0), model._features(X[[7]]), 4, **how)
        found = model.explain(X[[7]], label)
        assert found.score == pytest.approx(fitted.combining(k).scores(candidates)[0, 0], abs=1e-4)
        assert total(found) == pytest.approx(found.score, abs=1e-9)
        assert all(Y[voter.row, label] for voter in found.neighbors)
        assert sum(voter.share for voter in found.neighbors) <= 1 + 1e-6
    if k > 0:
        own = model.explain(X[[7]], int(np.flatnonzero(Y[7])[0]))
        assert own.neighbors[0].row == 7  # the point itself is nearest


def test_names_columns_of_a_data_frame_and_shows_values():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"size": rng.normal(100, 9, 200), "noise": rng.normal(size=200)})
    model = TreeClassifier(random_state=0).fit(frame, np.where(frame["size"] > 100, "large", "small"))
    found = model.explain(frame.iloc[[3]])
    assert found.parts[0].name == "size"
    assert found.parts[0].value == frame["size"][3]
    assert f"size = {frame['size'][3]:g}" in str(found)
    assert str(found).splitlines()[0] == f"{found.label}: {found.score:+.3f} (probability {found.probability:.3f})"


def test_escapes_names_in_html_and_on_terminals():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.eye(4), columns=["<b>", "a\x1b[31m", "c", "d"])
    found = TreeClassifier(random_state=0).fit(frame, ["<i>", "b\x07", "c", "d"]).explain(frame.iloc[[0]], "<i>")
    page = found._repr_html_()
    assert "&lt;b&gt;" in page
    assert "&lt;i&gt;" in page
    assert "<b>" not in page.replace("<p><b>", "").replace("</b></p>", "")
    other = TreeClassifier(random_state=0).fit(frame, ["<i>", "b\x07", "c", "d"]).explain(frame.iloc[[1]])
    assert "a\\x1b[31m" in other._repr_html_()
    assert "\x1b" not in other._repr_html_() + str(other)
    assert "\x07" not in other._repr_html_() + str(other)
    assert "near training points" not in page


def test_a_table_of_a_blend_lists_the_rows_that_voted():
    model = BlendClassifier(network="drop", random_state=0).fit(X, Y)
    text = str(model.explain(X[[7]], int(np.flatnonzero(Y[7])[0])))
    assert "(near training points: rows 7 (" in text
    assert "(bias of every point)" in text


@pytest.mark.parametrize("model", [fast(epochs=1), TreeClassifier(), BlendClassifier(network="drop")])
def test_a_blank_point_has_no_parts(model):
    found = model.fit(X, Y).explain(np.zeros(X.shape[1]))
    assert found.parts == []
    assert found.score == pytest.approx(logit(found.probability), abs=1e-3)


@pytest.mark.parametrize(
    "row", [lambda A: A[4].tolist(), lambda A: A[4], lambda A: A[[4]], lambda A: (*A[4].tolist(),)]
)
def test_takes_a_row_alone(row):
    model = TreeClassifier(random_state=0).fit(X, Y)
    assert model.explain(row(X.toarray())) == model.explain(X[[4]])


@pytest.mark.parametrize("model", [fast(epochs=1), TreeClassifier(), BlendClassifier(network="drop")])
def test_refuses_other_rows_and_labels(model):
    model.fit(X, LISTS)
    with pytest.raises(ValueError, match=r"X has 3 rows, and explain takes one: pass X\[\[0\]\]"):
        model.explain(X[:3])
    with pytest.raises(ValueError, match="X has 0 rows, and explain takes one"):
        model.explain(X[:0])
    with pytest.raises(ValueError, match="label must be one of the 40 in classes_, got 'tea'"):
        model.explain(X[[0]], "tea")
    with pytest.raises(ValueError, match="label must be one of the 40 in classes_, got 3"):
        model.explain(X[[0]], np.int64(3))


@pytest.mark.parametrize("model", [TreeClassifier(), BlendClassifier(network="drop")])
def test_refuses_a_label_without_training_points(model):
    with pytest.raises(ValueError, match="label 40 had no training point, so there is no score to explain"):
        model.fit(X, np.pad(Y, ((0, 0), (0, 1)))).explain(X[[0]], 40)


def test_not_fitted():
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        TreeClassifier().explain([1.0])
