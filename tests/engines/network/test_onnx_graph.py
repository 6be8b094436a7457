"""Networks written as ONNX models answer as the classifier does."""

import numpy as np
import pytest
from scipy import sparse

from sparsenet import BinaryCrossEntropy, ExtremeClassifier
from sparsenet.engines.network import onnx_graph

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")


class OtherLoss:
    """A loss that the graph does not know."""

    log_odds = True

    def __init__(self):
        self._usual = BinaryCrossEntropy()

    def gradient(self, logits, positives, expected, threads):
        return self._usual.gradient(logits, positives, expected, threads)

    def probabilities(self, scores):
        return self._usual.probabilities(scores)


def answers_of(path, X):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return dict(zip(("classes", "labels", "probabilities"), session.run(None, {"X": X}), strict=True))


def trained(X, y, **parameters):
    settings = {"hidden": 16, "wide": False, "epochs": 3, "random_state": 0, "n_jobs": 1, **parameters}
    return ExtremeClassifier(**settings).fit(X, y)


def points(seed=0, n=300, d=24, n_labels=40):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_labels, n)
    X = (rng.random((n, d)) < 0.3) * rng.normal(size=(n, d)) + np.eye(n_labels, d)[y]
    return X.astype(np.float32), y


@pytest.mark.parametrize("normalize", ["rows", "columns", "together", "mixed", "none"])
@pytest.mark.parametrize("loss", ["bce", "softmax"])
def test_answers_equal_those_of_the_classifier(tmp_path, normalize, loss):
    X, y = points()
    model = trained(
        X if normalize in ("columns", "together") else sparse.csr_array(X), y, normalize=normalize, loss=loss
    )
    model.to_onnx(tmp_path / "model.onnx", k=7)
    found = answers_of(tmp_path / "model.onnx", X)
    classes, probabilities = model.topk(X, k=7)
    np.testing.assert_allclose(found["probabilities"], probabilities, rtol=1e-3, atol=1e-6)
    assert (found["classes"] == classes).mean() > 0.99  # near ties may change places
    np.testing.assert_array_equal(model.classes_[found["labels"]], found["classes"])


@pytest.mark.parametrize("activation", ["relu", "tanh", "linear"])
def test_all_layers_and_activations_are_written(tmp_path, activation):
    X, y = points()
    model = trained(X, y, hidden=(16, 12, 8), activation=activation)
    model.to_onnx(tmp_path / "model.onnx", k=1)
    found = answers_of(tmp_path / "model.onnx", X)
    np.testing.assert_array_equal(found["classes"][:, 0], model.predict(X))


def test_classes_keep_their_names(tmp_path):
    X, y = points(n_labels=3)
    model = trained(X, np.array(["cat", "dog", "ox"])[y])
    model.to_onnx(tmp_path / "model.onnx", k=10)
    found = answers_of(tmp_path / "model.onnx", X[:5])
    assert found["classes"].shape == (5, 3)
    np.testing.assert_array_equal(found["classes"], model.topk(X[:5], k=3)[0])


def test_lists_of_labels_give_independent_probabilities(tmp_path):
    X, y = points()
    model = trained(X, [[int(label), int(label) % 5] for label in y])
    model.to_onnx(tmp_path / "model.onnx", k=4)
    np.testing.assert_allclose(
        answers_of(tmp_path / "model.onnx", X)["probabilities"], model.topk(X, k=4)[1], rtol=1e-3
    )


def test_points_without_known_features_get_frequent_labels(tmp_path):
    X, y = points()
    X[:, 5] = 0  # never seen in training
    model = trained(sparse.csr_array(X), np.append(y[:-20], np.full(20, 7)))
    blank = np.zeros((2, X.shape[1]), np.float32)
    blank[1, 5] = 1
    model.to_onnx(tmp_path / "model.onnx", k=3)
    found, (classes, probabilities) = answers_of(tmp_path / "model.onnx", blank), model.topk(blank, k=3)
    np.testing.assert_array_equal(found["classes"], classes)
    np.testing.assert_array_equal(found["probabilities"], probabilities)


def test_large_weights_go_to_a_second_file(tmp_path, monkeypatch):
    X, y = points()
    model = trained(X, y)
    monkeypatch.setattr(onnx_graph, "MAX_MESSAGE_BYTES", 1)
    model.to_onnx(tmp_path / "model.onnx", k=2)
    size = (tmp_path / "model.onnx.data").stat().st_size
    model.to_onnx(tmp_path / "model.onnx", k=2)
    assert (tmp_path / "model.onnx.data").stat().st_size == size > 0
    np.testing.assert_array_equal(
        answers_of(tmp_path / "model.onnx", X)["labels"][:, 0], model.topk_numbers(X, k=1)[0][:, 0]
    )


@pytest.mark.parametrize(
    ("parameters", "match"),
    [({"wide": True}, "wide=False"), ({"loss": OtherLoss()}, "OtherLoss")],
)
def test_refuses_networks_that_onnx_cannot_hold(tmp_path, parameters, match):
    X, y = points()
    with pytest.raises(ValueError, match=match):
        trained(X, y, **parameters).to_onnx(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_rejects_k_below_one(tmp_path):
    X, y = points()
    with pytest.raises(ValueError, match="k must be"):
        trained(X, y).to_onnx(tmp_path / "model.onnx", k=0)


@pytest.mark.parametrize("name", ["missing/model.onnx", "."])
def test_rejects_a_path_that_cannot_be_a_file(tmp_path, name):
    X, y = points()
    with pytest.raises(ValueError, match="path must name a file in a folder that exists"):
        trained(X, y).to_onnx(tmp_path / name)
