"""Arguments of the layer API: an error names the argument, its value and the remedy, before a kernel runs."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from sparsenet import (
    SGD,
    Adagrad,
    Adam,
    BinaryCrossEntropy,
    Dense,
    Network,
    RandomSampler,
    Rows,
    SampledOutput,
    Schedule,
    SparseInput,
    Trainer,
    TrainingConfig,
    WideConfig,
)
from sparsenet.engines.network.samplers import Sampler
from tests.support.networks import FEATURES, TRUTH, D, L, network

CSR = sparse.csr_array(np.eye(3, dtype=np.float32))


def broken(**changes):
    matrix = CSR.copy()
    for name, (position, value) in changes.items():
        getattr(matrix, name)[position] = value
    return matrix


@pytest.mark.parametrize("other", [np.eye(3), CSR.tocsc(), [[1.0]], None], ids=["dense", "CSC", "list", "None"])
def test_rejects_rows_that_are_not_csr(other):
    with pytest.raises(TypeError, match=r"Rows\.of takes a SciPy matrix in CSR format, got .* pass csr_array\(X\)"):
        Rows.of(other)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (CSR * np.nan, "NaN"),
        (sparse.csr_array([[1e39]]), "beyond float32"),
        (broken(data=(1, -np.inf)), "infinity"),
        (broken(indices=(1, 3)), "indices go from 0 to 3, beyond the 3 columns"),
        (broken(indices=(1, -1)), "indices go from -1"),
        (broken(indptr=(1, 3)), "indptr must rise"),
        (broken(indptr=(3, 9)), "indptr must rise"),
    ],
)
def test_rejects_rows_of_a_broken_matrix(matrix, message):
    with pytest.raises(ValueError, match=message):
        Rows.of(matrix)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SparseInput(5, -1), "n_units must be an integer from 1"),
        (lambda: SparseInput(0, 4), "n_features must be an integer from 1"),
        (lambda: Dense(4, 2.5), "n_units must be an integer from 1"),
        (lambda: SampledOutput(4, 0, sampler=RandomSampler(), loss=BinaryCrossEntropy()), "n_labels must be"),
        (lambda: Adam(rate=np.nan), "rate must be a number"),
        (lambda: Adagrad(rate=-1.0), "rate must be a number"),
        (lambda: Adam(rate=10**400), "rate must be a number"),
        (lambda: SGD(decay=np.inf), "decay must be a number"),
        (lambda: Adagrad(epsilon=-1.0), r"epsilon must be a number in \(0, inf\], got -1.0"),
        (lambda: Adagrad(epsilon=0.0), "epsilon must be a number"),
        (lambda: Adam(epsilon=0), "epsilon must be a number"),
        (lambda: Adam(beta1=1.5), r"beta1 must be a number in \[0, 1\), got 1.5"),
        (lambda: Adam(beta2=-3), "beta2 must be a number"),
        (lambda: Adam(beta2=1.0), "beta2 must be a number"),
        (lambda: Schedule(final=np.nan), r"final must be a number in \[0, inf\], got nan"),
        (lambda: Schedule(peak=-1), "peak must be a number"),
        (lambda: Schedule(warmup="long"), "warmup must be a number"),
        (lambda: Schedule(warmup=1.0), r"warmup must be a number in \[0, 1\), got 1.0"),
        (lambda: Schedule(decay="step"), "decay must be one of 'constant', 'linear', 'cosine', got 'step'"),
        (lambda: WideConfig(norm=np.nan), "norm must be a number"),
        (lambda: WideConfig(norm_power=-np.inf), "norm_power must be a number"),
        (lambda: WideConfig(budget=1.5), "budget must be an integer of at least 1, got 1.5"),
        (lambda: TrainingConfig(batch_size="a"), "batch_size must be an integer from 1 to 2147483647, got 'a'"),
        (lambda: TrainingConfig(epochs=10**30), "epochs must be an integer"),
        (lambda: TrainingConfig(seed=-1), "seed must be an integer"),
        (lambda: TrainingConfig(patience=0), "patience must be an integer"),
        (lambda: TrainingConfig(schedule="linear"), r"schedule must be a Schedule, such as .*, got 'linear'"),
        (lambda: TrainingConfig(schedule=Schedule), r"schedule must be a Schedule, such as .*, got <class"),
        (lambda: TrainingConfig(schedule=None), r"schedule must be a Schedule, such as .*, got None"),
    ],
)
def test_rejects_absurd_settings(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "parts", [{"sampler": RandomSampler}, {"loss": BinaryCrossEntropy}], ids=lambda parts: next(iter(parts))
)
def test_rejects_classes_instead_of_objects(parts):
    (name, kind), given = next(iter(parts.items())), {"sampler": RandomSampler(), "loss": BinaryCrossEntropy()}
    with pytest.raises(ValueError, match=rf"{name} must be an object, got the class {kind.__name__}: pass"):
        SampledOutput(4, 3, **given | parts)


def test_rejects_a_network_without_weights():
    output = SampledOutput(8, L, sampler=RandomSampler(), loss=BinaryCrossEntropy())
    bare = Network(input=SparseInput(D, 8), output=output)
    for use in (lambda: Trainer(bare, FEATURES, TRUTH, TrainingConfig()), lambda: bare.topk(FEATURES, 1, 1)):
        with pytest.raises(ValueError, match=r"input\.weight has no weights yet: call initialise\(seed\)"):
            use()


def test_rejects_matrices_instead_of_rows():
    matrix = sparse.csr_array((4, D))
    with pytest.raises(TypeError, match=r"features must be Rows, got csr_array: pass Rows\.of\(X\)"):
        Trainer(network(8), matrix, TRUTH, TrainingConfig())
    with pytest.raises(TypeError, match=r"labels must be Rows, got csr_array: pass Rows\.of\(Y\)"):
        Trainer(network(8), FEATURES, matrix, TrainingConfig())
    made, labels = network(8), np.zeros((4, 1), np.int32)
    for ask in (
        lambda: made.topk(matrix, 1, 1),
        lambda: made.scores_of(matrix, labels, 1),
        lambda: made.log_totals(matrix, 1),
        lambda: made.hidden_units(matrix, 1),
    ):
        with pytest.raises(TypeError, match=r"features must be Rows, got csr_array: pass Rows\.of\(X\)"):
            ask()


@pytest.mark.parametrize("seed", [None, -1, 1.5, "0"])
def test_rejects_invalid_seeds(seed):
    with pytest.raises(ValueError, match=f"seed must be an integer .*, got {seed!r}"):
        network(8).initialise(seed)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_rejects_weights_that_are_not_finite(value):
    made = network(8)
    arrays = {name: array.astype(np.float64) for name, array in made.weights().items()}
    arrays["output.weight"][3, 2] = value
    with pytest.raises(ValueError, match=r"the weights output\.weight hold NaN or infinity"):
        made.set_weights(arrays)


@pytest.mark.parametrize("k", [0, -1, L + 1, 1.5, "5"])
def test_rejects_invalid_k(k):
    with pytest.raises(ValueError, match=f"k must be an integer from 1 to {L}, got {k!r}"):
        network(8).topk(FEATURES, k, 1)


class Faulty(Sampler):
    """Return the given sample and the given expectations."""

    def __init__(self, ids, expected=lambda n: np.ones(n, np.float32)):
        self.ids, self.probabilities = ids, expected

    def sample(self, hidden, n_negatives, rng):
        return self.ids

    def expected(self, ids, n_negatives):
        return self.probabilities(len(ids))


@pytest.mark.parametrize("per_sample", [False, True])
@pytest.mark.parametrize(
    ("ids", "error", "message"),
    [
        (np.array([-2, 3], np.int32), ValueError, f"must sample labels from 0 to {L - 1}, got -2 to 3"),
        (np.array([0, L], np.int32), ValueError, f"must sample labels from 0 to {L - 1}, got 0 to {L}"),
        (np.array([0, 3]), TypeError, "must sample a one-dimensional array of int32, got int64"),
        ([0, 3], TypeError, "must sample a one-dimensional array of int32, got (list|int64)"),
        (np.array([3, 3], np.int32), ValueError, "must sample distinct labels, ascending"),
        (np.array([3, 2], np.int32), ValueError, "must sample distinct labels, ascending"),
    ],
    ids=str,
)
def test_checks_what_a_sampler_returns(ids, error, message, per_sample):
    if per_sample and "distinct" in message:
        pytest.skip("pairs of a point and a label are merged, in whatever order they come")
    made = network(8, sampler=Faulty(ids), n_negatives=2, per_sample=per_sample, wide=not per_sample)
    with pytest.raises(error, match=message):
        Trainer(made, FEATURES, TRUTH, TrainingConfig(epochs=1)).run()


def test_names_a_sampler_that_returns_nothing():
    made = network(8, sampler=Faulty(None), n_negatives=2)
    with pytest.raises(TypeError, match=r"Faulty.* must sample a one-dimensional array of int32, got NoneType"):
        Trainer(made, FEATURES, TRUTH, TrainingConfig(epochs=1)).run()


@pytest.mark.parametrize("per_sample", [False, True])
@pytest.mark.parametrize(
    ("expected", "message"),
    [
        (lambda n: np.full(n, np.nan), "must expect probabilities, from 0 to 1, got nan of label"),
        (lambda n: np.full(n, 1.5, np.float32), "must expect probabilities, from 0 to 1, got 1.5 of label"),
        (lambda n: np.full(n, -0.5, np.float32), "must expect probabilities, from 0 to 1, got -0.5 of label"),
        (lambda n: np.ones(n + 1), r"must expect a number for each of \d+ labels, got float64 of shape"),
        (lambda n: 0.5, r"must expect a number for each of \d+ labels, got float64 of shape \(\)"),
        (lambda n: None, r"must expect a number for each of \d+ labels, got object of shape \(\)"),
    ],
    ids=range(6),
)
def test_checks_the_expected_counts_of_a_sampler(expected, message, per_sample):
    sampler = Faulty(np.array([0, 3], np.int32), expected)
    made = network(8, sampler=sampler, n_negatives=2, per_sample=per_sample, wide=not per_sample)
    with pytest.raises(ValueError, match=rf"Faulty.* {message}"):
        Trainer(made, FEATURES, TRUTH, TrainingConfig(epochs=1)).run()


class Blind(BinaryCrossEntropy):
    """A loss with a wrong gradient that it does not notice."""

    def gradient(self, logits, positives, expected, threads):
        logits[:] = np.nan
        return 1.0


def test_a_nan_gradient_ends_the_training():
    made = network(8, loss=Blind())
    with pytest.raises(ArithmeticError, match=r"Blind.* computed a non-finite gradient for a loss of 1"):
        Trainer(made, FEATURES, TRUTH, TrainingConfig(epochs=1)).run()
    assert np.isfinite(made.output.weight.value).all()


def test_rejects_patience_without_validation():
    with pytest.raises(ValueError, match="patience=1 needs validation"):
        Trainer(network(8), FEATURES, TRUTH, TrainingConfig(patience=1))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"indices": np.where(FEATURES.indices == FEATURES.indices[7], D, FEATURES.indices)}, ValueError, "indices go"),
        ({"indices": FEATURES.indices - np.int32(10**6)}, ValueError, "indices go from -"),
        ({"indptr": FEATURES.indptr + 1}, ValueError, "indptr must rise from 0"),
        ({"indptr": FEATURES.indptr[:0]}, ValueError, "indptr must rise from 0"),
        ({"data": FEATURES.data[:-1]}, ValueError, "indptr must rise from 0 to at most the number of entries stored"),
        (
            {"data": FEATURES.data.astype(np.float64)},
            TypeError,
            "data must be a one-dimensional array of float32, got fl",
        ),
        ({"indices": FEATURES.indices.tolist()}, TypeError, "indices must be a one-dimensional .* of int32, got list"),
    ],
)
def test_checks_rows_made_by_hand(changes, error, message):
    wrong = replace(FEATURES, **changes)
    with pytest.raises(error, match=f"features.*{message}"):
        Trainer(network(8), wrong, TRUTH, TrainingConfig())
    if len(wrong.indptr):
        with pytest.raises(error, match=f"features.*{message}"):
            network(8).topk(wrong, 1, 1)


def test_checks_labels_made_by_hand():
    wrong = replace(TRUTH, indices=TRUTH.indices + np.int32(L))
    with pytest.raises(ValueError, match=f"labels: indices go from .* beyond the {L} columns"):
        Trainer(network(8), FEATURES, wrong, TrainingConfig())
