"""`as_module`: a fitted network answers and learns as a PyTorch module."""

from __future__ import annotations

import numpy as np
import pytest

from sparsenet import BlendClassifier, ExtremeClassifier
from tests.support.planted import planted

torch = pytest.importorskip("torch")

from sparsenet.torch import as_module  # noqa: E402

X, Y = planted(n=300, n_features=120, n_labels=40, seed=0)
OPTIONS = {"hidden": (12, 8), "epochs": 3, "n_jobs": 1, "random_state": 0, "precision": "float32"}


@pytest.fixture(scope="module", params=[True, False], ids=["wide", "deep"])
def classifier(request: pytest.FixtureRequest) -> ExtremeClassifier:
    return ExtremeClassifier(**{**OPTIONS, "wide": request.param}).fit(X, Y)


def test_scores_equal_those_of_the_classifier(classifier: ExtremeClassifier) -> None:
    module = as_module(classifier).eval()
    labels, scores = module.topk(X[:50], k=5)
    expected = np.take_along_axis(classifier.decision_function(X[:50]), labels.numpy(), axis=1)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4)
    assert (labels[:, 0].numpy() == classifier.topk_numbers(X[:50], k=1)[0][:, 0]).mean() > 0.95


def test_a_frozen_module_has_no_gradient(classifier: ExtremeClassifier) -> None:
    module = as_module(classifier)
    assert not module(X[:20], Y[:20]).requires_grad
    assert not any(weight.requires_grad for weight in module.parameters())


def test_a_trainable_module_learns_and_leaves_the_classifier(classifier: ExtremeClassifier) -> None:
    torch.manual_seed(0)
    module = as_module(classifier, trainable=True)
    bag = list(module.encoder.features.parameters())
    dense = [weight for name, weight in module.encoder.named_parameters() if not name.startswith("features")]
    optimizers = [torch.optim.SparseAdam(bag, lr=0.01), torch.optim.Adam(dense, lr=0.01)]
    module.head.attach(optimizers[1])
    before, weight = classifier.topk_numbers(X, k=3)[1], module.head.weight.clone()
    losses = []
    for _ in range(20):
        loss = module(X, Y)
        losses.append(loss.item())
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
    assert losses[-1] < 0.8 * losses[0]
    assert not torch.equal(module.head.weight, weight)
    assert np.array_equal(before, classifier.topk_numbers(X, k=3)[1])


def test_refuses_other_classifiers() -> None:
    with pytest.raises(TypeError, match="must be an ExtremeClassifier, got BlendClassifier"):
        as_module(BlendClassifier())
    with pytest.raises(ValueError, match="has no hidden units"):
        as_module(ExtremeClassifier(**{**OPTIONS, "hidden": 0}).fit(X, Y))


@pytest.mark.parametrize("shape", [(2, 3), (2, 60), (4,)])
def test_refuses_points_of_another_width(classifier: ExtremeClassifier, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="X must have the shape"):
        as_module(classifier).topk(np.ones(shape, np.float32))
