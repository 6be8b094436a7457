"""The layer API: small networks, equal to plain NumPy if all neurons are active."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from sparsenet import (
    SGD,
    Adagrad,
    Adam,
    AllSampler,
    BinaryCrossEntropy,
    Dense,
    FrequencySampler,
    LSHSampler,
    Network,
    RandomSampler,
    Rows,
    SampledOutput,
    SampledSoftmax,
    Schedule,
    SparseInput,
    Trainer,
    TrainingConfig,
    WideConfig,
    WidePath,
)
from sparsenet.core import centroids as centroids_module
from sparsenet.core.batches import Batcher, Workspace
from sparsenet.core.rows import transpose
from sparsenet.engines.network import inference
from sparsenet.engines.network import wide as wide_module
from sparsenet.engines.network.layers import Activation, Pass
from tests.support.networks import FEATURES, TRUTH, D, L, N, assert_equal_weights, network, precision, train, wide_path
from tests.support.planted import X as POINTS
from tests.support.planted import Y as LABELS

# --- equal to a dense reference ---

SLOPES = {"relu": lambda y: y > 0, "linear": np.ones_like, "tanh": lambda y: 1 - y * y}
FUNCTIONS = {"relu": lambda z: np.maximum(z, 0), "linear": lambda z: z, "tanh": np.tanh}


class Reference:
    """The same network in float64, dense, with gradients by hand and plain gradient descent."""

    def __init__(self, made, activation, loss):
        arrays = {name: array.astype(np.float64) for name, array in made.weights().items()}
        self.below = [(arrays["input.weight"], arrays["input.bias"])] if made.input else []
        self.below += [(arrays[f"{p.name}.weight"].T.copy(), arrays[f"{p.name}.bias"]) for p in self._dense(made)]
        self.output, self.bias = arrays["output.weight"], arrays["output.bias"]
        self.wide, self.support = np.zeros((L, D)), np.zeros((L, D), bool)
        if made.output.wide:
            path = made.output.wide
            at = np.repeat(np.arange(L), np.diff(path.indptr)), path.indices
            self.wide[at], self.support[at] = arrays["wide.weight"][:, 0], True
        self.activation, self.loss = activation, loss

    @staticmethod
    def _dense(made):
        class Named:
            def __init__(self, layer):
                self.name = layer.weight.name.removesuffix(".weight")

        return [Named(layer) for layer in made.hidden]

    def step(self, x, y, rate):
        n, units = len(x), [x]
        for weight, bias in self.below:
            units.append(FUNCTIONS[self.activation](units[-1] @ weight + bias))
        top = units[-1] if self.below else np.zeros((n, 0))
        scores = top @ self.output.T + self.bias.T + x @ self.wide.T
        if self.loss == "bce":
            loss = (np.logaddexp(0, scores) - y * scores).sum() / n
            grad = (1 / (1 + np.exp(-scores)) - y) / n
        else:
            target = y / y.sum(axis=1, keepdims=True)
            logs = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
            loss, grad = -(target * logs).sum() / n, (np.exp(logs) - target) / n
        below = grad @ self.output
        self.output -= rate * grad.T @ top
        self.bias -= rate * grad.sum(axis=0)[:, None]
        self.wide -= rate * (grad.T @ x) * self.support
        for (weight, bias), inputs, outputs in reversed(list(zip(self.below, units, units[1:], strict=False))):
            below *= SLOPES[self.activation](outputs)
            passed = below @ weight.T
            weight -= rate * inputs.T @ below
            bias -= rate * below.sum(axis=0)
            below = passed
        return loss

    def scores(self, x):
        units = x
        for weight, bias in self.below:
            units = FUNCTIONS[self.activation](units @ weight + bias)
        deep = units @ self.output.T if self.below else 0
        return deep + self.bias.T + x @ self.wide.T


@pytest.mark.parametrize("activation", ["relu", "linear", "tanh"])
@pytest.mark.parametrize("loss", ["bce", "softmax"])
@pytest.mark.parametrize(("units", "wide"), [((16,), False), ((16, 8), True), ((), True)], ids=["deep", "both", "wide"])
def test_all_neurons_active_equals_a_dense_reference(activation, loss, units, wide):
    objects = {"bce": BinaryCrossEntropy(), "softmax": SampledSoftmax()}
    made = network(*units, wide=wide, activation=activation, loss=objects[loss], optimizer=SGD(rate=0.1))
    reference = Reference(made, activation, loss)
    trainer = train(made, epochs=5)
    x, y = POINTS.toarray().astype(np.float32).astype(np.float64), LABELS
    for record in trainer.history:
        assert record["loss"] == pytest.approx(reference.step(x, y, 0.1), rel=1e-5)
    labels, scores = made.topk(FEATURES, L, threads=2)
    expected = np.take_along_axis(reference.scores(x), labels.astype(np.int64), axis=1)
    np.testing.assert_allclose(scores, expected, rtol=2e-4, atol=2e-4)
    np.testing.assert_array_equal(scores, -np.sort(-scores, axis=1))


@pytest.mark.parametrize("block", [7, 8192])
@pytest.mark.parametrize(("units", "wide"), [((16,), False), ((16, 8), False), ((16,), True), ((), True)])
def test_all_scores_match_topk(units, wide, block):
    made = network(*units, wide=wide, loss=BinaryCrossEntropy())
    made.output.label_block = block
    made.output.bias.value[:] = np.random.default_rng(0).normal(size=(L, 1))
    labels, ordered = made.topk(FEATURES, L, threads=2)
    expected = np.empty_like(ordered)
    np.put_along_axis(expected, labels.astype(np.int64), ordered, axis=1)
    made.topk = None
    found = inference.dense_scores(made, FEATURES, threads=2)
    if wide:  # the reference sums its weights by feature, the network by label
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    else:
        np.testing.assert_array_equal(found, expected)
    assert made.all_scores(FEATURES.slice(0, 0), 1).shape == (0, L)


def test_individual_and_shared_active_sets_agree_over_all_labels():
    shared, each = (network(16, wide=False, optimizer=SGD(rate=0.1), per_sample=p) for p in (False, True))
    a, b = train(shared, epochs=3, batch_size=50), train(each, epochs=3, batch_size=50)
    assert a.history[-1]["loss"] == pytest.approx(b.history[-1]["loss"], rel=1e-4)
    for name, array in shared.weights().items():
        np.testing.assert_allclose(each.weights()[name], array, rtol=1e-3, atol=1e-5, err_msg=name)


# --- learning ---


@pytest.mark.parametrize(
    ("units", "settings"),
    [
        ((), {}),
        ((32,), {"sampler": RandomSampler(), "n_negatives": 10}),
        ((32,), {"wide": False, "sampler": LSHSampler(), "n_negatives": 10, "optimizer": Adam(rate=5e-3)}),
        ((32,), {"wide": False, "sampler": RandomSampler(), "n_negatives": 5, "per_sample": True}),
        ((32, 16), {"wide": False, "optimizer": Adam(rate=5e-3), "dropout": 0.1}),
        ((32,), {"loss": SampledSoftmax(), "sampler": FrequencySampler(), "n_negatives": 10}),
        ((32,), {"optimizer": Adagrad(rate=0.05)}),
        ((32,), {"optimizer": SGD(rate=0.5)}),
        ((32,), {"activation": "tanh", "loss": BinaryCrossEntropy(smoothing=0.02, reweight=0.5)}),
    ],
    ids=str,
)
def test_learns_planted_labels(units, settings):
    made = network(*units, **settings)
    train(made, epochs=60, batch_size=40, schedule=Schedule(warmup=0.05, decay="linear"))
    assert precision(made) > 0.95


def test_a_custom_network_takes_a_few_lines():
    made = Network(
        input=SparseInput(n_features=60, n_units=32),
        hidden=[Dense(32, 16, activation="tanh")],
        output=SampledOutput(16, 40, sampler=RandomSampler(), loss=SampledSoftmax(), n_negatives=20),
    )
    made.initialise(seed=0)
    Trainer(made, FEATURES, TRUTH, TrainingConfig(epochs=60, batch_size=20)).run()
    assert precision(made) > 0.9


def test_the_correction_matters_only_for_unequal_sampling():
    losses = SampledSoftmax(correct=True), SampledSoftmax(correct=False)
    a, b = (network(8, loss=loss) for loss in losses)
    train(a), train(b)
    assert_equal_weights(a, b)
    a, b = (network(8, loss=loss, sampler=FrequencySampler(), n_negatives=5) for loss in losses)
    train(a), train(b)
    assert not np.array_equal(a.output.bias.value, b.output.bias.value)


@pytest.mark.parametrize("sampler", [RandomSampler, FrequencySampler])
def test_reweighted_losses_estimate_the_full_loss(sampler):
    """If a batch shares negatives, labels of its other points are always negatives and weigh too much."""
    settings = {"loss": BinaryCrossEntropy(reweight=1), "wide": False}
    made = network(8, **settings)
    train(made, epochs=2, batch_size=40)
    batch = next(Batcher(FEATURES, TRUTH, batch_size=40, seed=0).epoch(0))
    hidden = made.hidden_units(batch.features, 1)
    full = made.output.forward(batch, hidden, Pass(1, Workspace(), np.random.default_rng(0)))[0]
    for per_sample in (True, False):
        sampled = network(8, sampler=sampler(), n_negatives=5, per_sample=per_sample, **settings)
        sampled.set_weights(made.weights())
        sampled.output.prepare(LABELS.sum(axis=0), 1)
        contexts = (Pass(1, Workspace(), np.random.default_rng(seed)) for seed in range(400))
        losses = [sampled.output.forward(batch, hidden, context)[0] for context in contexts]
        if per_sample:
            assert abs(np.mean(losses) - full) < 5 * np.std(losses) / 20
        else:
            assert np.mean(losses) - full > 5 * np.std(losses) / 20


def test_rejects_layers_that_do_not_fit():
    with pytest.raises(ValueError, match="layer 2 takes 8 inputs, but the layer below has 16 outputs"):
        Network(input=SparseInput(D, 16), output=SampledOutput(8, L, sampler=AllSampler(), loss=BinaryCrossEntropy()))
    twins = [Dense(16, 16), Dense(16, 8)]
    with pytest.raises(ValueError, match=r"two layers have weights called 'dense.weight'"):
        Network(
            input=SparseInput(D, 16),
            hidden=twins,
            output=SampledOutput(8, L, sampler=AllSampler(), loss=BinaryCrossEntropy()),
        )
    with pytest.raises(ValueError, match="needs hidden units"):
        SampledOutput(0, L, sampler=AllSampler(), loss=BinaryCrossEntropy())
    with pytest.raises(ValueError, match="per_sample=True supports the deep path only"):
        network(8, per_sample=True)


@pytest.mark.parametrize("name", ["relu", "linear", "tanh"])
def test_dropout_keeps_the_mean_and_the_gradient_of_kept_units(name):
    ones = np.full((500, 200), 0.5, np.float32)
    silent = Activation(name, dropout=0.25)
    kept = ones.copy()
    silent.forward(kept, Pass(1, rng=np.random.default_rng(0)), "layer")
    plain = ones.copy()
    silent.forward(plain, Pass(1), "layer")
    assert (kept == 0).mean() == pytest.approx(0.25, abs=0.01)
    assert kept.mean() == pytest.approx(plain.mean(), rel=0.01)
    x = ones.copy()
    old = np.random.Generator(np.random.MT19937(1))  # draws 32-bit numbers
    grad = silent.forward(x, Pass(1, rng=old), "layer")(np.ones_like(ones))
    np.testing.assert_array_equal(grad == 0, x == 0)
    assert (x == 0).mean() == pytest.approx(0.25, abs=0.01)


# --- the wide path ---


def test_the_wide_path_starts_from_centroids_within_its_budget():
    path = WidePath.from_centroids(FEATURES, transpose(TRUTH), WideConfig(budget=3, norm=2.0, norm_power=0.5), 1)
    counts = LABELS.sum(axis=0)
    centroids = LABELS.T @ POINTS.toarray()
    for label in range(L):
        mine = slice(path.indptr[label], path.indptr[label + 1])
        support, weights = path.indices[mine], path.weight.value[mine, 0]
        assert set(support) == set(np.argsort(-centroids[label], kind="stable")[:3])
        np.testing.assert_allclose(np.linalg.norm(weights), 2.0 * counts[label] ** 0.5, rtol=1e-5)
        np.testing.assert_allclose(
            weights / weights[0], centroids[label][support] / centroids[label][support[0]], rtol=1e-4
        )


@pytest.mark.parametrize("entries", [1, 40, 10**9])
def test_centroids_do_not_depend_on_blocks_of_labels(monkeypatch, entries):
    whole = WidePath.from_centroids(FEATURES, transpose(TRUTH), WideConfig(budget=4), 1)
    monkeypatch.setattr(centroids_module, "BLOCK_ENTRIES", entries)
    calls = []
    centroids = wide_module._initial_weights
    monkeypatch.setattr(wide_module, "_initial_weights", lambda *a: calls.append(len(a[1])) or centroids(*a))
    cut = WidePath.from_centroids(FEATURES, transpose(TRUTH), WideConfig(budget=4), 2)
    assert sum(calls) == L
    assert (len(calls) > 1) == (entries < 10**9)
    for name in ("indptr", "indices"):
        np.testing.assert_array_equal(getattr(cut, name), getattr(whole, name))
    assert cut.weight.value.tobytes() == whole.weight.value.tobytes()


def test_growing_keeps_weights_and_state_and_the_budget():
    half = slice(0, 40)
    features = Rows.of(sparse.csr_array(POINTS[half], dtype=np.float32))
    labels = Rows.of(sparse.csr_array(LABELS[half], dtype=np.float32))
    made = network(wide=True)
    made.output.wide = wide_path(Adagrad(), features, labels)
    train(made, features, labels)
    path = made.output.wide
    before = {
        (label, feature): (float(value), float(square))
        for label in range(L)
        for feature, value, square in zip(
            path.indices[path.indptr[label] : path.indptr[label + 1]],
            path.weight.value[path.indptr[label] : path.indptr[label + 1], 0],
            path.weight.state["squares"][path.indptr[label] : path.indptr[label + 1], 0],
            strict=True,
        )
    }
    had = np.diff(path.indptr)
    path.configure(replace(path.config, budget=12))
    path.grow(FEATURES, transpose(TRUTH), 1)
    assert len(path.indices) > len(before)
    assert (np.diff(path.indptr) <= np.maximum(had, 12)).all()
    owners = np.repeat(np.arange(L), np.diff(path.indptr))
    for label, feature, value, square in zip(
        owners, path.indices, path.weight.value[:, 0], path.weight.state["squares"][:, 0], strict=True
    ):
        if had[label]:
            assert before.get((label, feature), (0.0, 0.0)) == (value, square)
    assert made.topk(FEATURES, 3, 1)[0].shape == (N, 3)


def test_points_are_scored_in_blocks_that_stay_short() -> None:
    def sizes(n_labels: int, width: int) -> set[int]:
        output = SampledOutput(width, n_labels, sampler=RandomSampler(), loss=BinaryCrossEntropy())
        network = Network(input=SparseInput(1, width), output=output)
        points = Rows(np.zeros(5121, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), 1)
        return {len(block) for block in network.blocks(points)}

    assert sizes(1000, 64) == {1024}
    assert sizes(670_091, 256) == {256}
    assert sizes(10_000_000, 512) == {128}


@pytest.mark.parametrize("units", [(8,), ()], ids=["deep", "wide alone"])
def test_rejects_points_and_labels_of_another_width(units) -> None:
    """A kernel would read their weights beyond the end of the arrays."""
    made = network(*units)
    wider = Rows(FEATURES.indptr, FEATURES.indices, FEATURES.data, 10**6)
    with pytest.raises(ValueError, match="features has 1000000 columns, the network takes 60"):
        made.topk(wider, k=1, threads=1)
    with pytest.raises(ValueError, match="features has 1000000 columns, the network takes 60"):
        train(made, wider)
    with pytest.raises(ValueError, match="labels has 1000000 columns, the network has 40 labels"):
        train(made, labels=Rows(TRUTH.indptr, TRUTH.indices, TRUTH.data, 10**6))
