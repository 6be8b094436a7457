"""Pictures of classifiers: their data, drawing, and refused arguments."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.dummy import DummyClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsenet import ExtremeClassifier, TextClassifier, plots
from sparsenet.plots import matrix, reliability
from tests.support.planted import X, Y
from tests.support.text_command_line import run, sparsenet
from tests.support.texts import planted


@pytest.fixture(scope="module")
def model():
    return TextClassifier(random_state=0, n_jobs=1).fit(*planted(300, clues=1))


TEST = planted(200, seed=1, clues=1)


def answers(truth, best, probability=None, n=None):
    n = n or max(*truth, *best) + 1
    rows = sparse.csr_array((np.ones(len(truth)), (range(len(truth)), truth)), shape=(len(truth), n))
    sure = np.full(len(best), 0.5, np.float32) if probability is None else np.asarray(probability, np.float32)
    return plots.Answers(rows, np.asarray(best, np.int32), sure, [f"label {i}" for i in range(n)])


def texts_in(figure):
    """Return all texts in a figure."""
    return [text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text"))]


def saved(figure, path):
    figure.savefig(path)
    assert path.stat().st_size > 5000
    return texts_in(figure)


def test_confusions_are_counted_and_shown_by_row(tmp_path):
    found = answers([0, 0, 0, 1, 1, 2], [0, 0, 1, 1, 1, 0])
    assert found.confusions().toarray().tolist() == [[2, 1, 0], [0, 2, 0], [1, 0, 0]]
    assert found.hits.tolist() == [True, True, False, True, True, False]
    written = saved(plots.evaluation(found), tmp_path / "confusion.png")
    assert {"67", "33", "100", "label 0", "label 2", "true label"} <= set(written)
    assert "% of each row; 66.7 % of all are right" in written


def test_most_confused_labels_are_shown_next_to_each_other(tmp_path):
    rng = np.random.default_rng(0)
    truth = rng.integers(150, size=6000)
    best = truth.copy()
    for a, b in ((7, 140), (20, 90), (3, 66)):  # pairs that are confused
        both = np.isin(truth, (a, b)) & (rng.random(6000) < 0.4)
        best[both] = a + b - truth[both]
    found = answers(truth.tolist(), best.tolist())
    chosen = matrix._most_confused(found.confusions(), 6).tolist()
    assert set(chosen) == {7, 140, 20, 90, 3, 66}
    for a, b in ((7, 140), (20, 90), (3, 66)):
        assert abs(chosen.index(a) - chosen.index(b)) == 1
    written = saved(plots.evaluation(found, most=6), tmp_path / "many.png")
    assert "any other" in written
    assert sum(text.startswith("the 6 of 150 labels confused most") for text in written) == 1
    assert sorted(matrix._most_confused(answers([0, 1, 2], [0, 1, 2], n=50).confusions(), 4).tolist())[:3] == [0, 1, 2]


def test_wilson_intervals():
    low, high = reliability._wilson(np.array([0.0, 0.5, 1.0]), np.array([10, 100, 10]))
    np.testing.assert_allclose(low, [0, 0.404, 0.722], atol=2e-3)
    np.testing.assert_allclose(high, [0.278, 0.596, 1], atol=2e-3)


def test_calibration_shows_probability_and_share_of_right_labels(tmp_path):
    found = answers([0] * 10, [0] * 6 + [1] * 4, [0.95] * 5 + [0.55] * 5)
    figure = plots.evaluation(found)
    axes = next(
        a for a in figure.findobj(lambda a: hasattr(a, "get_xlim")) if a.get_ylabel() == "share of right labels"
    )
    line = max(axes.lines, key=lambda line: line.get_marker() == "o")
    np.testing.assert_allclose(line.get_xydata(), [[0.55, 0.2], [0.95, 1.0]], atol=1e-6)
    words = "mean probability 75.0 %, right 60.0 %; expected calibration error 20.0 %"
    assert words in saved(figure, tmp_path / "c.png")


def test_pictures_of_a_text_classifier(model, tmp_path):
    right = f"{100 * model.score(*TEST):.1f} %"
    assert any(right in text for text in saved(plots.confusion(model, *TEST), tmp_path / "confusion.png"))
    assert any(right in text for text in saved(plots.calibration(model, *TEST), tmp_path / "calibration.svg"))
    fresh = TextClassifier(random_state=0, n_jobs=1)
    written = saved(plots.learning_curve(fresh, *planted(200, clues=1), TEST), tmp_path / "learning.png")
    assert {"Learning curve", "new points", "200", "100", "50"} <= set(written)


@pytest.mark.parametrize("form", [np.array, pd.Series])
def test_curves_take_columns(form):
    texts, labels = planted(80)
    fresh = TextClassifier(random_state=0, n_jobs=1)
    figure = plots.learning_curve(fresh, form(texts), form(labels), TEST, shares=[0.25, 1])
    assert {"20", "80"} <= set(texts_in(figure))


def test_pictures_of_an_extreme_classifier(tmp_path):
    X, y = load_iris(return_X_y=True)
    model = ExtremeClassifier(hidden=16, epochs=30, random_state=0, n_jobs=1)
    model.fit(X[::2], y[::2], validation=(X[1::2], y[1::2]))
    saved(plots.confusion(model, X[1::2], y[1::2]), tmp_path / "confusion.png")
    saved(plots.calibration(model, X[1::2], y[1::2]), tmp_path / "calibration.png")
    assert "30 epochs" in saved(plots.training_curve(model.history_), tmp_path / "training.png")
    assert "P@1 on validation points, %" in texts_in(plots.training_curve(model.history_))
    assert "P@1 on validation points, %" not in texts_in(plots.training_curve([{"epoch": 1.0, "loss": 2.0}]))


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("draw", [plots.confusion, plots.calibration])
def test_pipeline_is_drawn_like_its_classifier(draw, nested):
    points, labels = load_iris(return_X_y=True)
    scaled = make_pipeline(StandardScaler(), ExtremeClassifier(hidden=8, epochs=20, random_state=0, n_jobs=1))
    pipeline = (make_pipeline(make_pipeline(scaled)) if nested else scaled).fit(points, labels)
    alone = draw(scaled[-1], scaled[0].transform(points), labels)
    assert texts_in(draw(pipeline, points, labels)) == texts_in(alone)


def test_rejects_other_classifiers():
    points, labels = load_iris(return_X_y=True)
    other = make_pipeline(StandardScaler(), DummyClassifier()).fit(points, labels)
    with pytest.raises(TypeError, match=r"a fitted classifier of sparsenet, or a Pipeline .*, got DummyClassifier"):
        plots.confusion(other, points, labels)


def test_several_labels_have_a_calibration_but_no_confusions(tmp_path):
    model = ExtremeClassifier(hidden=8, epochs=2, random_state=0, n_jobs=1).fit(X, Y)
    assert "Confusions" not in saved(plots.evaluation(plots.Answers.of(model, X, Y)), tmp_path / "several.png")
    saved(plots.calibration(model, X, Y), tmp_path / "calibration.png")
    with pytest.raises(ValueError, match="confusions need one label per point"):
        plots.confusion(model, X, Y)


def test_lists_of_zeros_and_ones_are_labels():
    lists = [[0, 1], [1, 2], [0, 2], [2]] * 20
    points = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1], [0, 0, 1]] * 20, np.float32)
    model = ExtremeClassifier(hidden=0, epochs=2, random_state=0, n_jobs=1).fit(points, lists)
    found = plots.Answers.of(model, points[:2], [[0, 1], [1, 0]])
    assert found.truth.toarray().tolist() == [[1, 1, 0], [1, 1, 0]]


def test_names_are_shortened_and_not_parsed_as_math(tmp_path):
    texts, labels = planted(40, topics=2)
    names = {"sport": "$x^2$_{" + "long" * 20, "food": "naïve 食べ物"[:5]}
    y = [names[label] for label in labels]
    figure = plots.confusion(TextClassifier(random_state=0).fit(texts, y), texts, y)
    assert "$x^2$_{" + ("long" * 20)[:20] + "…" in saved(figure, tmp_path / "names.png")


def test_unknown_labels_are_misses_and_counted(model, tmp_path):
    found = plots.Answers.of(model, ["a goal", "a zebra"], ["sport", "animals"])
    assert found.hits.tolist() == [True, False]
    said = "1 of 2 have no label that the model knows, and no row"
    assert any(said in text for text in texts_in(plots.evaluation(found)))
    figure = plots.confusion(model, ["a goal", "a zebra", "a yak"], ["sport", "animals", "animals"])
    titles = [text for text in texts_in(figure) if "33.3 % of all are right" in text]
    assert titles == ["% of each row; 33.3 % of all are right\n2 of 3 have no label that the model knows, and no row"]
    figure.savefig(tmp_path / "unknown.png")
    assert not any("no label" in text for text in texts_in(plots.confusion(model, ["a goal"], ["sport"])))


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda model: plots.confusion(model, ["a"], ["sport", "food"]), "y has 2 entries for 1 points"),
        (lambda model: plots.calibration(model, [], []), "there are no points"),
        (lambda model: plots.confusion(model, *TEST, most=1), "most must be an integer of at least 2"),
        (lambda model: plots.calibration(model, *TEST, bins=0), "bins must be"),
        (lambda model: plots.learning_curve(model, *TEST, TEST, shares=[0]), "shares must be numbers above 0"),
        (lambda model: plots.training_curve([]), "history holds no epoch"),
    ],
)
def test_wrong_arguments_are_refused(model, draw, message):
    with pytest.raises(ValueError, match=message):
        draw(model)


def test_missing_matplotlib_names_the_extra():
    code = (
        "import sys; sys.modules['matplotlib'] = None; sys.modules['matplotlib.figure'] = None\n"
        "from sparsenet import plots\n"
        "try:\n    plots.training_curve([{'epoch': 1.0, 'loss': 1.0}])\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "plots need matplotlib: pip install 'sparsenet[plot]'\n"


def test_command_line_draws_text_models(model, tmp_path):
    model.save(tmp_path / "model")
    lines = "".join(f"__label__{label} {text}\n" for text, label in zip(*TEST, strict=True))
    (tmp_path / "test.txt").write_text(lines + "__label__unknown a zebra\n")
    sparsenet("evaluate", tmp_path / "model", tmp_path / "test.txt", "--k", 1, "--plot", tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    for place, reason in (("p.doc", "must end in one of .png, .svg, .pdf"), ("no/p.png", "there is no directory")):
        code, _, said = run("evaluate", tmp_path / "model", tmp_path / "test.txt", "--k", 1, "--plot", tmp_path / place)
        assert code == 2
        assert reason in " ".join(said.replace("│", " ").split())


def test_command_line_draws_models_of_points(tmp_path):
    ExtremeClassifier(hidden=8, epochs=2, random_state=0, n_jobs=1).fit(X, Y).save(tmp_path / "model")
    rows = [f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}"]
    for i in range(X.shape[0]):
        features = " ".join(f"{j}:{v}" for j, v in zip(X[[i]].indices, X[[i]].data, strict=True))
        rows.append(f"{','.join(map(str, np.flatnonzero(Y[i])))} {features}")
    (tmp_path / "test.txt").write_text("\n".join(rows) + "\n")
    code, _, said = run("evaluate", tmp_path / "model", tmp_path / "test.txt", "--k", 1, "--plot", tmp_path / "p.svg")
    assert code == 0, said
    assert "<svg" in (tmp_path / "p.svg").read_text()[:1000]
