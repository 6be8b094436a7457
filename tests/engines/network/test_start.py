"""Initial weights of the wide path: their norm from leave-one-out scores, their rate from the norm."""

import numpy as np
import pytest
from scipy import sparse

from bench.planted import Shape, generate
from sparsenet import SGD, Adagrad, ExtremeClassifier, WideConfig
from sparsenet.core.rows import Rows, transpose
from sparsenet.engines.network import wide_init
from sparsenet.engines.network.wide import WidePath
from sparsenet.metrics import precision_at_k
from tests.support.planted import X, Y

LABELS = Rows.of(sparse.csr_array(Y, dtype=np.float32))
CONFIG = WideConfig()


def norm(points, labels=LABELS, config=CONFIG, seed=0, threads=1):
    features = Rows.of(sparse.csr_array(points, dtype=np.float32))
    return wide_init.fitted_norm(features, labels, transpose(labels), config, seed, threads)


def wide(**parameters):
    return ExtremeClassifier(hidden=0, epochs=1, random_state=0, verbose=False, **parameters)


def test_recovers_the_factor_of_planted_scores():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=20_000)
    yes = rng.random(len(scores)) < 1 / (1 + np.exp(-(2.5 * scores - 3)))
    ordered = np.concatenate((scores[yes], scores[~yes]))
    answers = wide_init._ScoredPairs(ordered, np.ones(len(ordered)), int(yes.sum()))
    assert wide_init._fit_factor(answers) == pytest.approx(2.5, rel=0.05)


def test_counts_act_like_repeated_pairs():
    rng = np.random.default_rng(1)
    scores, counts = rng.normal(size=300), np.append(np.ones(100), rng.integers(1, 9, 200))
    repeated = wide_init._ScoredPairs(np.repeat(scores, counts.astype(int)), np.ones(int(counts.sum())), 100)
    assert wide_init._fit_factor(wide_init._ScoredPairs(scores, counts, 100)) == pytest.approx(
        wide_init._fit_factor(repeated), rel=1e-9
    )


def test_the_factor_is_zero_if_scores_mislead():
    """Wrong labels score higher than right ones: the best factor would be negative."""
    scores = np.concatenate((np.linspace(-1, 0, 100), np.linspace(0, 1, 100)))
    assert wide_init._fit_factor(wide_init._ScoredPairs(scores, np.ones(200), 100)) == 0


def test_separable_answers_give_a_finite_factor():
    scores = np.concatenate((np.linspace(1, 2, 100), np.linspace(-2, -1, 100)))
    assert 1 < wide_init._fit_factor(wide_init._ScoredPairs(scores, np.ones(200), 100)) < np.inf


def test_leave_one_out_scores_exclude_the_point():
    rng = np.random.default_rng(2)
    points = sparse.csr_array((rng.random((40, 12)) < 0.4) * rng.normal(size=(40, 12)), dtype=np.float32)
    truth = sparse.csr_array(np.eye(4)[np.arange(40) % 4], dtype=np.float32)
    features, labels = Rows.of(points), Rows.of(truth)
    unit = WideConfig(norm=1.0)
    answers = wide_init._score_sample(features, labels, features, transpose(labels), unit, np.random.default_rng(0), 1)
    dense = points.toarray().astype(np.float64)
    for i in range(40):
        others = [j for j in range(40) if j % 4 == i % 4 and j != i]
        direction = dense[others].sum(axis=0)
        expected = dense[i] @ direction / np.linalg.norm(direction) * len(others) ** 0.25
        assert answers.scores[i] == pytest.approx(expected, rel=1e-5)
    assert answers.n_positives == 40
    assert answers.weights[40:].sum() == pytest.approx(40 * 3 / 10)
    assert answers.weights[:40].tolist() == [0.1] * 40


def test_the_norm_cancels_the_scale_of_features():
    assert norm(10 * X) == pytest.approx(norm(X) / 10, rel=0.02)


def test_uninformative_features_shorten_the_start():
    """Features of half of the points, whatever their labels, fill every centroid."""
    common = np.random.default_rng(3).random((X.shape[0], 30)) < 0.5
    assert norm(sparse.hstack((X, sparse.csr_array(common, dtype=np.float32)))) < 0.7 * norm(X)


def test_noise_of_both_signs_shortens_the_start():
    """As in a table whose columns are standardised: no label knows anything of a point that it has not seen.

    A factor fitted to 256 answers has a standard error of 0.11 here.
    """
    rng = np.random.default_rng(4)
    points, labels = rng.normal(size=(2000, 30)), np.eye(20)[rng.integers(0, 20, 2000)]
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    norms = [norm(points, Rows.of(sparse.csr_array(labels, dtype=np.float32)), seed=seed) for seed in range(5)]
    assert np.mean(norms) < 0.2


def test_the_norm_does_not_depend_on_threads():
    assert norm(X, threads=1) == norm(X, threads=3)


def test_too_few_answers_keep_the_norm():
    few = slice(0, 20)
    labels = Rows.of(sparse.csr_array(Y[few], dtype=np.float32))
    assert norm(X[few], labels) == CONFIG.norm


@pytest.mark.parametrize(("every", "caution"), [(1, 1.0), (8, (5 / 20) ** 0.5)])
def test_the_first_rate_is_proportional_to_the_weights(every, caution):
    """The rate is smaller if labels have few points."""
    truth = sparse.csr_array(np.eye(10)[np.arange(400) % 10], dtype=np.float32)[::every]
    features, labels = Rows.of(sparse.csr_array(X, dtype=np.float32)[::every]), transpose(Rows.of(truth))
    path = WidePath.from_centroids(features, labels, CONFIG, 1)
    counts = np.diff(labels.indptr)
    typical = np.sqrt(np.square(path.weight.value, dtype=np.float64).mean())
    wanted = wide_init.FIRST_STEP * np.sqrt(min(1, counts[counts > 0].mean() / wide_init.ENOUGH_POINTS)) * typical
    assert wide_init.first_rate(CONFIG, path, counts) == pytest.approx(wanted, rel=0.01)
    assert wanted == pytest.approx(wide_init.FIRST_STEP * caution * typical, rel=0.5)


@pytest.mark.parametrize("batch_size", [1, 64])
def test_a_wrong_answer_makes_nearly_a_whole_first_step(batch_size):
    """A nearly right answer barely moves, for any batch and any feature values."""
    features = Rows.of(sparse.csr_array(X, dtype=np.float32))
    adagrad = Adagrad(rate=1.0, epsilon=wide_init.damping(features, batch_size))
    size = np.sqrt(np.square(features.data).mean())
    for wrong, step in ((1.0, 1 / 3), (0.01, 0.005)):  # with a damping of 2
        value = np.zeros((1, 1), np.float32)
        state = {"squares": np.zeros((1, 1), np.float32)}
        grads = np.full((1, 1), wrong * size / batch_size, np.float32)
        adagrad.step(value, state, np.zeros(1, np.int64), grads, step=1, factor=1.0, threads=1)
        assert -value[0, 0] == pytest.approx(step, rel=0.01)


@pytest.mark.slow
def test_labels_of_few_points_do_not_memorize_them():
    """A third of each point's words are noise, and a label has four points: initially right answers stay right."""
    data = generate(Shape.with_labels(2000, test_points=2000), seed=0)

    def fitted(**parameters):
        return ExtremeClassifier(hidden=0, random_state=0, verbose=False, **parameters).fit(data.X, data.Y)

    def right(model):
        return precision_at_k(data.Y_test, model.topk(data.X_test, 5)[0], 5)

    damped = fitted()
    undamped = fitted(wide_learning_rate=damped.network_.output.wide.config.optimizer.rate)
    assert undamped.network_.output.wide.config.optimizer.epsilon == Adagrad.epsilon
    assert right(damped) > right(undamped) + 0.02


def test_damping_follows_the_number_of_points():
    """Fewer points than a batch form a smaller batch with larger gradients."""
    points = sparse.csr_array(np.random.default_rng(0).random((40, 6)))
    model = ExtremeClassifier(hidden=0, epochs=1, normalize="none", n_jobs=1).fit(points, np.arange(40) % 2)
    assert model.network_.output.wide.config.optimizer.epsilon == wide_init.damping(
        Rows.of(points.astype(np.float32)), 40
    )


def test_the_first_rate_is_positive_without_weights():
    nothing = Rows(np.zeros(3, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), 5)
    assert wide_init.damping(nothing, 8) == Adagrad.epsilon
    path = WidePath.from_centroids(nothing, transpose(nothing), CONFIG, 1)
    assert wide_init.first_rate(CONFIG, path, np.zeros(5, np.int64)) > 0


def test_keeps_a_given_rate():
    model = wide(wide_learning_rate=0.3).fit(X, Y)
    assert model.network_.output.wide.config.optimizer.rate == 0.3
    assert model.network_.output.wide.config.norm != CONFIG.norm


def test_does_not_change_another_optimizer():
    features = Rows.of(sparse.csr_array(X, dtype=np.float32))
    config = WideConfig(optimizer=SGD(rate=0.1))
    how = {"own_rate": True, "batch_size": 64, "seed": 0, "threads": 1}
    path = wide_init.fitted_path(features, LABELS, transpose(LABELS), config, **how)
    assert path.weight.optimizer is config.optimizer


def test_a_saved_model_keeps_its_wide_settings(tmp_path):
    model = wide().fit(X[:300], Y[:300])
    model.save(tmp_path / "model")
    loaded = ExtremeClassifier.load(tmp_path / "model")
    assert loaded.network_.output.wide.config == model.network_.output.wide.config
    for each in (model, loaded):
        each.partial_fit(X[300:], Y[300:])
    assert model.predict_topk(X, k=3).toarray().tolist() == loaded.predict_topk(X, k=3).toarray().tolist()
