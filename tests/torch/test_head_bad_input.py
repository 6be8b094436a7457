"""Bad input of `ExtremeHead`: clear errors, and unchanged weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch")

from sparsenet.torch import ExtremeHead  # noqa: E402

HIDDEN = torch.ones(2, 4)
LABELS = [[0], [1]]


def with_value(value: float) -> Any:
    hidden = HIDDEN.clone()
    hidden[1, 2] = value
    return hidden


@pytest.mark.parametrize(
    ("hidden", "labels", "error", "message"),
    [
        (HIDDEN, [[0], [5]], ValueError, "labels must be from 0 to 4, got 5 for point 1"),
        (HIDDEN, [[0], [-2]], ValueError, "labels must be from 0 to 4, got -2 for point 1"),
        (HIDDEN, torch.tensor([0, -1]), ValueError, "labels must be from 0 to 4, got -1 for point 1"),
        (HIDDEN, [[0], []], ValueError, "labels has no label for point 1"),
        (HIDDEN, torch.tensor([[0, 1], [-1, -100]]), ValueError, "labels has no label for point 1"),
        (HIDDEN, [[0]], ValueError, "labels has 1 points, hidden has 2"),
        (HIDDEN, [[0], ["a"]], TypeError, "labels of point 1 must be integers"),
        (HIDDEN, [[0], [1.0]], TypeError, "labels of point 1 must be integers"),
        (HIDDEN, "ab", TypeError, "labels must be a list of lists"),
        (HIDDEN, None, TypeError, "labels must be a list of lists"),
        (HIDDEN, torch.tensor([0.0, 1.0]), TypeError, "labels must be a list of lists"),
        (HIDDEN, torch.zeros(2, 3), ValueError, "indicator with 3 columns, the head has 5"),
        (HIDDEN, sparse.csr_array((2, 6)), ValueError, "labels has 6 columns, the head has 5"),
        (with_value(float("nan")), LABELS, ValueError, r"hidden holds nan at \[1, 2\]"),
        (with_value(float("inf")), LABELS, ValueError, r"hidden holds inf at \[1, 2\]"),
        (HIDDEN.double(), LABELS, TypeError, "hidden must be a tensor of float32"),
        (HIDDEN.long(), LABELS, TypeError, "hidden must be a tensor of float32"),
        (HIDDEN.numpy(), LABELS, TypeError, "hidden must be a tensor, got ndarray"),
        (HIDDEN[:, :3], LABELS, ValueError, r"hidden must have the shape \(n, 4\), got \(2, 3\)"),
        (HIDDEN[:0], [], ValueError, "hidden has no points"),
        (HIDDEN[0], LABELS, ValueError, r"hidden must have the shape \(n, 4\)"),
    ],
)
def test_a_bad_batch_names_the_argument(hidden: object, labels: object, error: type, message: str) -> None:
    head = ExtremeHead(4, 5)
    before = head.weight.clone()
    with pytest.raises(error, match=message):
        head(hidden, labels)
    assert torch.equal(head.weight, before)
    head(HIDDEN, LABELS).backward()  # and the next batch works
    head.step()


FORMS = [
    [[0, 2], [1]],
    [torch.tensor([0, 2]), np.array([1])],
    torch.tensor([[0, 2], [1, -1]]),
    torch.tensor([[2, 0, 0], [-100, 1, -100]]),
    np.array([[0, 2], [1, -1]]),
    torch.tensor([[1.0, 0, 1, 0, 0], [0, 1, 0, 0, 0]]),
    torch.tensor([[1, 0, 1, 0, 0], [0, 1, 0, 0, 0]]).bool(),
    torch.tensor([[1.0, 0, 1, 0, 0], [0, 1, 0, 0, 0]]).to_sparse(),
    sparse.csr_array([[1.0, 0, 1, 0, 0], [0, 1, 0, 0, 0]]),
]


@pytest.mark.parametrize("labels", FORMS)
def test_takes_every_form_of_labels(labels: object) -> None:
    assert ExtremeHead(4, 5)(HIDDEN, labels).item() == ExtremeHead(4, 5)(HIDDEN, FORMS[0]).item()


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_takes_labels_as_csr_tensor() -> None:
    labels = FORMS[5].to_sparse_csr()
    assert ExtremeHead(4, 5)(HIDDEN, labels).item() == ExtremeHead(4, 5)(HIDDEN, FORMS[0]).item()


def test_step_twice_and_backward_twice_are_refused() -> None:
    head = ExtremeHead(4, 5)
    loss = head(HIDDEN.clone().requires_grad_(), LABELS)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match=r"has one backward\(\)"):
        loss.backward()
    head.step()
    with pytest.raises(RuntimeError, match=r"step\(\) needs the gradient"):
        head.step()


def test_an_infinite_gradient_leaves_the_weights() -> None:
    head = ExtremeHead(4, 5)
    before = head.weight.clone()
    (head(HIDDEN, LABELS) * 1e38 * 1e3).backward()
    with pytest.raises(FloatingPointError, match="weights stay as they were"):
        head.step()
    assert torch.equal(head.weight, before)


def test_an_overflow_at_a_loss_scale_is_skipped() -> None:
    head = ExtremeHead(4, 5)
    before = head.weight.clone()
    (head(HIDDEN, LABELS) * 1e38 * 1e3).backward()
    assert not np.isfinite(head.step(loss_scale=1e30))
    assert torch.equal(head.weight, before)
    assert head.steps == 0


def test_zero_grad_drops_the_gradient() -> None:
    head = ExtremeHead(4, 5)
    head(HIDDEN, LABELS).backward()
    head.zero_grad()
    with pytest.raises(RuntimeError, match="needs the gradient"):
        head.step()


def changed_state(name: str, value: object) -> dict:
    head = ExtremeHead(4, 5, sampler="lsh", n_negatives=2)
    head(HIDDEN, LABELS).backward()
    head.step()
    return {**head.state_dict(), name: value}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("weight", torch.zeros(5, 3), r"weight must have the shape \(5, 4\), got \(5, 3\)"),
        ("bias", torch.full((5,), torch.nan), "bias holds NaN"),
        ("output.weight.first", torch.zeros(2, 2), r"output.weight.first must have the shape \(5, 4\), got \(2, 2\)"),
        ("output.weight.second", torch.full((5, 4), torch.inf), "output.weight.second holds NaN or infinity"),
        ("output.other", torch.zeros(2), "output.other is not part of a head with this optimizer"),
        ("sampler.stale", torch.zeros(4, dtype=torch.bool), "does not fit the sampler: stale must be"),
        ("weight", 3, "weight must be a tensor"),
        ("steps", torch.tensor(-1), "steps must be an integer of at least 0, got -1"),
        ("batches", torch.tensor(0.5), "batches must be an integer of at least 0, got 0.5"),
    ],
)
def test_a_bad_state_changes_nothing(name: str, value: object, message: str) -> None:
    head = ExtremeHead(4, 5, sampler="lsh", n_negatives=2, seed=1)
    before = {name: tensor.clone() for name, tensor in head.named_buffers()}
    with pytest.raises(RuntimeError, match=message):
        head.load_state_dict(changed_state(name, value))
    assert all(torch.equal(tensor, before[name]) for name, tensor in head.named_buffers())
    assert head.steps == 0


def test_an_incomplete_state_changes_nothing() -> None:
    state = changed_state("bias", torch.ones(5))
    del state["output.weight.first"]
    head = ExtremeHead(4, 5, sampler="lsh", n_negatives=2)
    before = head.bias.clone()
    with pytest.raises(RuntimeError, match=r"output\.weight\.first is missing"):
        head.load_state_dict(state)
    assert torch.equal(head.bias, before)


def test_loads_weights_alone_if_not_strict() -> None:
    head, linear = ExtremeHead(4, 5), torch.nn.Linear(4, 5)
    head(HIDDEN, LABELS).backward()
    head.step()
    head.load_state_dict(linear.state_dict(), strict=False)
    assert torch.equal(head.weight, linear.weight)
    assert head.steps == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_inputs": 0}, "n_inputs must be"),
        ({"n_labels": 0}, "n_labels must be"),
        ({"loss": "mse"}, "loss must be one of"),
        ({"sampler": "best"}, "sampler must be one of"),
        ({"optimizer": "rmsprop"}, "optimizer must be one of"),
        ({"learning_rate": 0.0}, "learning_rate must be"),
        ({"label_counts": np.ones(4, int)}, "label_counts must be 5 integers"),
        ({"label_counts": -np.ones(5, int)}, "label_counts must be 5 integers"),
        ({"seed": -1}, "seed must be"),
    ],
)
def test_a_bad_option_is_named(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ExtremeHead(**{"n_inputs": 4, "n_labels": 5, **options})


def test_attach_takes_an_optimizer() -> None:
    with pytest.raises(TypeError, match=r"optimizer must be a torch\.optim\.Optimizer"):
        ExtremeHead(4, 5).attach("adam")
