"""`ExtremeHead` under an encoder: gradients, steps, answers and copies."""

from __future__ import annotations

import copy
import io
import tracemalloc
from typing import Any

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch")

import safetensors.torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from sparsenet import SGD, WidePath  # noqa: E402
from sparsenet.core.rows import Rows, transpose  # noqa: E402
from sparsenet.torch import ExtremeHead  # noqa: E402
from sparsenet.torch.hidden_tensors import as_array  # noqa: E402
from sparsenet.torch.row_gradients import Gradients, RowGradient  # noqa: E402

EXACT = {"sampler": "none", "precision": "float32"}
N_INPUTS, N_LABELS = 6, 9


def batch(n: int = 5, seed: int = 0) -> tuple:
    """Return hidden states and two labels of each point."""
    rng = np.random.default_rng(seed)
    hidden = torch.from_numpy(rng.normal(size=(n, N_INPUTS)).astype(np.float32))
    return hidden, [rng.choice(N_LABELS, 2, replace=False).tolist() for _ in range(n)]


def indicator(labels: list) -> Any:
    found = torch.zeros(len(labels), N_LABELS)
    for point, ids in enumerate(labels):
        found[point, ids] = 1
    return found


def dense_loss(loss: str, scores: Any, labels: list) -> Any:
    target = indicator(labels)
    if loss == "bce":
        return nn.functional.binary_cross_entropy_with_logits(scores, target, reduction="sum") / len(labels)
    return nn.functional.cross_entropy(scores, target / target.sum(1, keepdim=True))


@pytest.mark.parametrize("loss", ["bce", "softmax"])
def test_gradients_equal_dense_autograd_with_all_labels_active(loss: str) -> None:
    hidden, labels = batch()
    head = ExtremeHead(N_INPUTS, N_LABELS, loss=loss, optimizer=SGD(rate=1.0), **EXACT)
    linear = head.to_linear()
    expected = dense_loss(loss, linear(hidden.requires_grad_()), labels)
    expected.backward()
    wanted, hidden.grad = hidden.grad, None
    found = head(hidden, labels)
    (3 * found).backward()
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)
    torch.testing.assert_close(hidden.grad, 3 * wanted, rtol=1e-5, atol=1e-6)
    head.step(loss_scale=3)
    torch.testing.assert_close(head.weight, linear.weight - linear.weight.grad, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(head.bias, linear.bias - linear.bias.grad, rtol=1e-5, atol=1e-6)


def test_accumulates_gradients_of_several_batches() -> None:
    first, second = batch(4, seed=1), batch(4, seed=2)
    parts, whole = (ExtremeHead(N_INPUTS, N_LABELS, optimizer=SGD(rate=1.0), **EXACT) for _ in range(2))
    losses = [parts(*first) / 2, parts(*second) / 2]  # two forwards before the first backward
    (losses[0] + losses[1]).backward()
    whole(torch.cat((first[0], second[0])), first[1] + second[1]).backward()
    parts.step()
    whole.step()
    torch.testing.assert_close(parts.weight, whole.weight)


def test_accumulates_sampled_rows_that_differ() -> None:
    head = ExtremeHead(N_INPUTS, 4000, optimizer=SGD(rate=1.0), n_negatives=3)
    before = head.weight.clone()
    for label in (7, 3000):
        head(torch.ones(1, N_INPUTS), [[label]]).backward()
    head.step()
    changed = (head.weight != before).any(1).nonzero().ravel()
    assert {7, 3000} <= set(changed.tolist())
    assert len(changed) <= 8


def test_trains_an_encoder_and_itself() -> None:
    torch.manual_seed(0)
    points, labels = torch.eye(20), torch.arange(0, 4000, 200)
    encoder, head = nn.Linear(20, 16), ExtremeHead(16, 4000, n_negatives=64)
    optimizer = torch.optim.Adam(encoder.parameters(), lr=0.02)
    head.attach(optimizer)
    before = encoder.weight.clone()
    for _ in range(150):
        optimizer.zero_grad()
        head(torch.relu(encoder(points)), labels).backward()
        optimizer.step()
    assert head.steps == 150
    assert not torch.equal(before, encoder.weight)
    assert (head.topk(torch.relu(encoder(points)), k=1).labels.ravel() == labels).float().mean() > 0.9


def test_learns_under_a_frozen_encoder() -> None:
    hidden, labels = batch()
    head = ExtremeHead(N_INPUTS, N_LABELS)
    loss = head(hidden, labels)
    assert loss.requires_grad
    loss.backward()
    assert head.step() > 0


def test_no_grad_leaves_nothing_to_step() -> None:
    head = ExtremeHead(N_INPUTS, N_LABELS)
    with torch.no_grad():
        assert not head(*batch()).requires_grad
    with pytest.raises(RuntimeError, match=r"step\(\) needs the gradient of a backward"):
        head.step()


def test_follows_the_schedule_of_the_attached_optimizer() -> None:
    hidden, labels = batch()
    encoder = nn.Linear(N_INPUTS, N_INPUTS)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.5)
    head = ExtremeHead(N_INPUTS, N_LABELS, optimizer=SGD(rate=1.0), **EXACT)
    handle, before = head.attach(optimizer), head.weight.clone()
    optimizer.param_groups[0]["lr"] = 0.0
    head(encoder(hidden), labels).backward()
    optimizer.step()
    assert torch.equal(head.weight, before)
    assert head.steps == 1
    handle.remove()
    head(encoder(hidden), labels).backward()
    optimizer.step()
    assert head.steps == 1


def test_clips_the_gradient() -> None:
    free, clipped = (ExtremeHead(N_INPUTS, N_LABELS, optimizer=SGD(rate=1.0), **EXACT) for _ in range(2))
    before = free.weight.clone()
    norms = []
    for head, limit in ((free, None), (clipped, 0.01)):
        head(*batch()).backward()
        norms.append(head.step(max_norm=limit))
    assert norms[0] == norms[1] > 0.01
    torch.testing.assert_close(
        (clipped.weight - before) * (norms[0] / 0.01), free.weight - before, rtol=1e-3, atol=1e-4
    )


def test_the_norm_of_a_gradient_is_exact_and_within_range() -> None:
    large = np.full((1, 1 << 15), 2e19, np.float32)  # BLAS adds squares in float32, which overflows
    gradients = Gradients({"output.weight": RowGradient(np.zeros(1, np.int64), large)})
    assert gradients.norm() == pytest.approx(float(large[0, 0]) * (1 << 15) ** 0.5, rel=1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_takes_narrow_hidden_states_and_returns_their_type(dtype: Any) -> None:
    hidden, labels = batch()
    narrow = hidden.to(dtype).requires_grad_()
    head = ExtremeHead(N_INPUTS, N_LABELS)
    loss = head(narrow, labels)
    loss.backward()
    assert loss.dtype == torch.float32
    assert narrow.grad.dtype == dtype


def test_works_under_autocast() -> None:
    encoder, head = nn.Linear(N_INPUTS, N_INPUTS), ExtremeHead(N_INPUTS, N_LABELS)
    hidden, labels = batch()
    with torch.autocast("cpu", torch.bfloat16):
        loss = head(encoder(hidden), labels)
    loss.backward()
    assert encoder.weight.grad.abs().sum() > 0


def test_two_heads_share_an_encoder() -> None:
    hidden, labels = batch()
    hidden.requires_grad_()
    heads = [ExtremeHead(N_INPUTS, N_LABELS, seed=seed, **EXACT) for seed in range(2)]
    own = []
    for head in heads:
        (grad,) = torch.autograd.grad(head(hidden, labels), hidden)
        own.append(grad)
    sum(head(hidden, labels) for head in heads).backward()
    torch.testing.assert_close(hidden.grad, own[0] + own[1])


def test_moving_and_casting_the_model_leaves_the_head() -> None:
    model = nn.ModuleDict({"encoder": nn.Linear(N_INPUTS, N_INPUTS), "head": ExtremeHead(N_INPUTS, N_LABELS)})
    model.bfloat16()
    assert model["encoder"].weight.dtype == torch.bfloat16
    assert model["head"].weight.dtype == torch.float32
    assert not list(model["head"].parameters())


def test_the_same_seed_gives_the_same_weights_at_any_number_of_threads() -> None:
    heads = [ExtremeHead(N_INPUTS, 3000, n_jobs=threads, n_negatives=32) for threads in (1, 2)]
    for head in heads:
        for seed in range(3):
            head(*batch(seed=seed)).backward()
            head.step()
    assert torch.equal(heads[0].weight, heads[1].weight)


@pytest.mark.parametrize("sampler", ["random", "lsh"])
@pytest.mark.parametrize("way", ["state_dict", "safetensors", "deepcopy", "pickle"])
def test_a_copy_continues_equally(way: str, sampler: str) -> None:
    def train(head: ExtremeHead, seed: int) -> None:
        head(*batch(seed=seed)).backward()
        head.step()

    head = ExtremeHead(N_INPUTS, 2000, n_negatives=32, sampler=sampler)
    train(head, 0)
    if way == "state_dict":
        file = io.BytesIO()
        torch.save(head.state_dict(), file)
        file.seek(0)
        other = ExtremeHead(N_INPUTS, 2000, n_negatives=32, sampler=sampler, seed=0)
        other.load_state_dict(torch.load(file, weights_only=True))
    elif way == "safetensors":  # as the Trainer of Hugging Face saves
        other = ExtremeHead(N_INPUTS, 2000, n_negatives=32, sampler=sampler, seed=0)
        other.load_state_dict(safetensors.torch.load(safetensors.torch.save(head.state_dict())))
    elif way == "deepcopy":
        other = copy.deepcopy(head)
    else:
        file = io.BytesIO()
        torch.save(head, file)
        file.seek(0)
        other = torch.load(file, weights_only=False)
    before = other.weight.clone()
    train(head, 1)
    assert torch.equal(other.weight, before)  # nothing is shared
    train(other, 1)
    assert torch.equal(other.weight, head.weight)
    assert torch.equal(other.topk(batch()[0], 3).labels, head.topk(batch()[0], 3).labels)


def test_topk_scores_every_label() -> None:
    hidden, _ = batch()
    head = ExtremeHead(N_INPUTS, N_LABELS)
    scores = head.to_linear()(hidden)
    found = head.topk(hidden, k=3)
    torch.testing.assert_close(found.scores, scores.topk(3).values)
    assert torch.equal(found.labels, scores.topk(3).indices)
    torch.testing.assert_close(head.scores(hidden), scores)


def test_from_linear_and_to_linear_are_inverse() -> None:
    linear = nn.Linear(N_INPUTS, N_LABELS)
    copied = ExtremeHead.from_linear(linear, loss="softmax").to_linear()
    assert torch.equal(linear.weight, copied.weight)
    assert torch.equal(linear.bias, copied.bias)
    assert not ExtremeHead.from_linear(nn.Linear(N_INPUTS, N_LABELS, bias=False)).bias.any()


def test_shares_the_memory_of_its_weights_and_of_hidden_states() -> None:
    head, hidden = ExtremeHead(N_INPUTS, N_LABELS, optimizer=SGD(rate=1.0), **EXACT), torch.ones(3, N_INPUTS)
    views = head.weight.numpy(), np.from_dlpack(head.weight), torch.from_dlpack(head.weight).numpy()
    head(*batch()).backward()
    head.step()
    head.load_state_dict(ExtremeHead(N_INPUTS, N_LABELS, optimizer=SGD(rate=1.0), **EXACT).state_dict())
    assert all(np.shares_memory(view, head.weight.numpy()) for view in views)
    assert all(np.array_equal(view, head.weight) for view in views)
    assert np.shares_memory(as_array(hidden, N_INPUTS), hidden.numpy())


class Allocations(TorchDispatchMode):
    """Keeps the largest tensor that an operator of PyTorch returned, in bytes."""

    largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            self.largest = max(self.largest, tensor.nbytes if isinstance(tensor, torch.Tensor) else 0)
        return result


def test_a_step_copies_nothing_larger_than_the_batch() -> None:
    n_labels, n_negatives = 100_000, 16
    head = ExtremeHead(N_INPUTS, n_labels, n_negatives=n_negatives, n_jobs=1)
    hidden, labels = batch(64)
    for _ in range(2):  # the first step allocates the optimizer's state
        tracemalloc.start()
        with Allocations() as by_torch:
            head(hidden.requires_grad_(), labels).backward()
            head.step()
        by_numpy = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert by_torch.largest <= hidden.nbytes
    assert by_numpy < n_labels  # a byte for each label would be more than all arrays of the batch


def test_announces_the_bytes_of_its_arrays() -> None:
    head = ExtremeHead(N_INPUTS, 3000)
    head(*batch()).backward()
    head.step()
    announced = head.memory(batch_size=5)
    assert announced["weights"] == 4 * 3000 * (N_INPUTS + 1)
    assert announced["optimizer"] == sum(
        array.nbytes for name, array in head.state_dict().items() if name.startswith("output.")
    )


def wide_path(X: sparse.csr_array, Y: sparse.csr_array) -> WidePath:
    from sparsenet import WideConfig

    return WidePath.from_centroids(Rows.of(X), transpose(Rows.of(Y)), WideConfig(norm=1.0), threads=1)


def test_adds_a_wide_path_of_sparse_features() -> None:
    X = sparse.csr_array(np.eye(N_LABELS, 12, dtype=np.float32))
    Y = sparse.csr_array(np.eye(N_LABELS, dtype=np.float32))
    head = ExtremeHead(N_INPUTS, N_LABELS, wide=wide_path(X, Y), **EXACT)
    hidden = torch.zeros(N_LABELS, N_INPUTS)
    before = head.wide_weight.clone()
    losses = [head(hidden, Y, features=X) for _ in range(2)]  # two forwards before the first backward
    losses[1].backward()
    head.step()
    assert (head.wide_weight > before).all()  # each label has the feature of its own points only
    assert head.topk(hidden, 1, features=X).labels.ravel().tolist() == list(range(N_LABELS))
    copied = copy.deepcopy(head)
    assert torch.equal(copied.scores(hidden, features=X), head.scores(hidden, features=X))
    for form in (torch.from_numpy(X.toarray()), torch.from_numpy(X.toarray()).to_sparse()):
        assert torch.equal(head.scores(hidden, features=form), head.scores(hidden, features=X))
    with pytest.raises(ValueError, match="wide must have weights of 10 labels, got 9"):
        ExtremeHead(N_INPUTS, N_LABELS + 1, wide=wide_path(X, Y))


@pytest.mark.parametrize(
    ("features", "error", "message"),
    [
        (None, ValueError, "features are missing"),
        (np.ones((9, 12)), TypeError, "features must be a SciPy matrix or a tensor, got ndarray"),
        (sparse.csr_array((9, 11)), ValueError, r"features must have the shape \(9, 12\), got \(9, 11\)"),
        (torch.full((9, 12), torch.inf), ValueError, "features hold NaN or infinity"),
        (sparse.csr_array(np.eye(9, 12) * 1j), TypeError, "features must hold real numbers, got complex128"),
    ],
)
def test_bad_features_are_named(features: object, error: type, message: str) -> None:
    X, Y = (sparse.csr_array(np.eye(9, n, dtype=np.float32)) for n in (12, N_LABELS))
    head = ExtremeHead(N_INPUTS, N_LABELS, wide=wide_path(X, Y))
    with pytest.raises(error, match=message):
        head(torch.ones(9, N_INPUTS), Y, features=features)


def test_two_forwards_and_one_backward_learn_from_one_batch() -> None:
    first, second = batch(seed=1), batch(seed=2)
    one, both = (ExtremeHead(N_INPUTS, N_LABELS, **EXACT) for _ in range(2))
    loss = both(*first)
    both(*second)
    for result in (loss, one(*first)):
        result.backward()
    one.step()
    both.step()
    assert torch.equal(one.weight, both.weight)


@pytest.mark.parametrize(("sampler", "computed"), [("random", 256), ("none", 3000)])
def test_biases_start_at_one_label_among_those_that_a_step_computes(sampler: str, computed: int) -> None:
    head = ExtremeHead(N_INPUTS, 3000, sampler=sampler, n_negatives=256)
    assert torch.sigmoid(head.bias).sum().item() == pytest.approx(3000 / min(computed, 404), rel=1e-2)


def test_data_parallel_is_refused() -> None:
    with pytest.raises(RuntimeError, match="wrap the encoder alone"):
        ExtremeHead(2, 3)._replicate_for_data_parallel()  # what `nn.DataParallel` calls
