"""Points without known features get the most frequent labels, whatever the model."""

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array, vstack

import sparsenet
from sparsenet import BlendClassifier, ExtremeClassifier, ModelError, Rows, TextClassifier, TreeClassifier
from sparsenet.features.feature_arrays import unpack_label_stats

N, WIDTH, N_LABELS = 300, 40, 12
MODELS = [
    pytest.param(TreeClassifier(random_state=0), id="tree"),
    pytest.param(ExtremeClassifier(hidden=8, epochs=2, random_state=0), id="network"),
    pytest.param(ExtremeClassifier(hidden=8, epochs=2, loss="softmax", random_state=0), id="softmax"),
    pytest.param(BlendClassifier(network=ExtremeClassifier(hidden=8, epochs=2), random_state=0), id="blend"),
    pytest.param(BlendClassifier(network="drop", random_state=0), id="light"),
]


def points(rng: np.random.Generator, n: int = N) -> csr_array:
    """Return points of 30 of the 40 features."""
    X = np.zeros((n, WIDTH))
    X[:, :30] = rng.random((n, 30)) * (rng.random((n, 30)) < 0.2)
    X[:, 0] = 1.0  # no point is empty
    return csr_array(X)


def labels(rng: np.random.Generator, n: int = N) -> csr_array:
    """Return labels, the first ones rare and the last ones frequent."""
    chosen = rng.choice(N_LABELS, size=n, p=np.arange(1, N_LABELS + 1) / (N_LABELS * (N_LABELS + 1) / 2))
    return csr_array((np.ones(n), chosen, np.arange(n + 1)), shape=(n, N_LABELS))


def unknown() -> csr_array:
    """Return an empty point, a point with an unknown feature, and a point that stores a zero."""
    return csr_array(([1.0, 0.0], [WIDTH - 1, 3], [0, 0, 1, 2]), shape=(3, WIDTH))


def unknown_rows() -> Rows:
    return Rows.of(unknown())


@pytest.fixture(scope="module")
def training() -> tuple[csr_array, csr_array]:
    rng = np.random.default_rng(0)
    return points(rng), labels(rng)


@pytest.mark.parametrize("model", MODELS)
class TestUnknownPoints:
    def test_unknown_points_get_the_most_frequent_labels(
        self, model: Any, training: tuple[csr_array, csr_array]
    ) -> None:
        model.fit(*training)
        usual = np.argsort(-model.label_counts_, kind="stable")
        found, p = model.topk_numbers(unknown(), k=5)
        assert (found == usual[:5]).all()
        np.testing.assert_allclose(p, np.tile(model.label_counts_[usual[:5]] / N, (3, 1)), rtol=1e-6)
        every = model.predict_proba(unknown())
        np.testing.assert_allclose(every, np.tile(model.label_counts_ / N, (3, 1)), rtol=1e-6)

    def test_unknown_points_do_not_change_other_answers(
        self, model: Any, training: tuple[csr_array, csr_array]
    ) -> None:
        X, y = training
        model.fit(X, y)
        alone = model.topk_numbers(X[:4], k=3)
        beside = model.topk_numbers(vstack([unknown(), X[:4]]).tocsr(), k=3)
        # A batch of another length sums products in another order.
        assert (alone[0] == beside[0][3:]).all()
        np.testing.assert_allclose(alone[1], beside[1][3:], rtol=1e-4)
        assert not (alone[0] == model.topk_numbers(unknown()[:1], k=3)[0]).all()

    def test_unknown_points_do_not_get_excluded_labels(self, model: Any, training: tuple[csr_array, csr_array]) -> None:
        model.fit(*training)
        usual = np.argsort(-model.label_counts_, kind="stable")
        banned = np.zeros((3, N_LABELS))
        banned[:, usual[0]] = 1
        assert (model.topk_numbers(unknown(), k=4, exclude=banned)[0] == usual[1:5]).all()

    def test_empty_training_points_count_for_unknown_points(
        self, model: Any, training: tuple[csr_array, csr_array]
    ) -> None:
        X, y = training
        rarest = csr_array((np.ones(30), np.zeros(30, int), np.arange(31)), shape=(30, N_LABELS))
        model.fit(vstack([X, csr_array((30, WIDTH))]).tocsr(), vstack([y, rarest]).tocsr())
        found, p = model.topk_numbers(unknown(), k=1)
        assert (found == 0).all()
        expected = (30 + 10 * model.label_counts_[0] / 330) / 40
        np.testing.assert_allclose(p, expected, rtol=1e-6)

    def test_a_saved_model_answers_unknown_points_alike(
        self, model: Any, training: tuple[csr_array, csr_array], tmp_path: Any
    ) -> None:
        X, y = training
        model.fit(vstack([X, csr_array((30, WIDTH))]).tocsr(), vstack([y, y[:30]]).tocsr())
        model.save(tmp_path / "model")
        loaded = sparsenet.load(tmp_path / "model")
        np.testing.assert_array_equal(loaded.predict_proba(unknown()), model.predict_proba(unknown()))
        assert loaded._fitted.seen.n_blank == 30


@pytest.mark.parametrize("loss", ["bce", "softmax"])
def test_classes_of_one_label_a_row(loss: str, training: tuple[csr_array, csr_array]) -> None:
    names = np.array(["rare", "common"])[(np.arange(N) % 4 > 0).astype(int)]
    model = ExtremeClassifier(hidden=8, epochs=2, loss=loss, random_state=0).fit(training[0], names)
    assert model.predict(unknown()).tolist() == ["common"] * 3
    np.testing.assert_allclose(model.predict_proba(unknown()), [[0.75, 0.25]] * 3, rtol=1e-6)
    np.testing.assert_allclose(model.decision_function(unknown()), np.log(0.25 / 0.75), rtol=1e-5)


def test_a_predictor_answers_unknown_points(training: tuple[csr_array, csr_array]) -> None:
    model = ExtremeClassifier(hidden=8, epochs=2, random_state=0).fit(*training)
    predictor = model.predictor(k=3, candidates=6)
    expected, p = model.topk(unknown(), k=3)
    for row, (found, probabilities) in enumerate(zip(*predictor(unknown()), strict=True)):
        assert found.tolist() == expected[row].tolist()
        assert probabilities.tolist() == p[row].tolist()
    assert predictor.one([], [])[0].tolist() == expected[0].tolist()
    banned = expected[0, 0]
    assert predictor.one([WIDTH - 1], [2.0], exclude=[banned])[0][0] == expected[0, 1]


def test_features_learnt_later_are_known(training: tuple[csr_array, csr_array]) -> None:
    X, y = training
    model = ExtremeClassifier(hidden=8, epochs=2, random_state=0).fit(X, y)
    assert model._fitted.seen.blank(unknown_rows()).tolist() == [0, 1, 2]
    model.partial_fit(unknown()[1:2], y[:1])
    assert model._fitted.seen.blank(unknown_rows()).tolist() == [0, 2]
    assert model.n_points_ == N + 1


@pytest.mark.parametrize("normalize", ["columns", "none"])
def test_a_row_of_zeros_in_a_table_is_known(normalize: str) -> None:
    X = np.linspace(-1, 1, 201)[:, None] * np.array([[1.0, -1.0]])
    inside = np.abs(X[:, 0]) < 0.3
    inside[100] = True
    X_train, y_train = np.delete(X, 100, axis=0), np.delete(inside, 100)
    model = ExtremeClassifier(normalize=normalize, epochs=300, random_state=0).fit(X_train, y_train)
    assert model.predict(np.zeros((1, 2))).tolist() == [True]


@pytest.mark.parametrize(("kind", "blank"), [("rows", [0, 2]), ("columns", []), ("none", [])])
def test_models_saved_without_label_counts_load(kind: str, blank: list[int]) -> None:
    counts = np.arange(N_LABELS)
    seen = unpack_label_stats({"counts": counts}, {"n_points": N}, kind, N_LABELS, WIDTH)
    assert seen.blank(unknown_rows()).tolist() == blank


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"counts": np.full(N_LABELS, -1)}, "a whole number for each of 12 labels"),
        ({"counts": np.zeros(N_LABELS + 1, np.int64)}, "a whole number for each of 12 labels"),
        ({"seen.features": np.zeros(4, np.uint8)}, "a bit for each of 40 features"),
        ({"blank.labels": np.array([N_LABELS])}, "positions of 12 labels"),
        ({"blank.labels": np.array([-1])}, "positions of 12 labels"),
        ({"blank.counts": np.array([1, 2])}, "for each of blank.labels"),
        ({"blank.counts": np.array([1.0])}, "for each of blank.labels"),
    ],
)
def test_rejects_forged_label_counts(changed: dict[str, Any], message: str) -> None:
    arrays = {
        "counts": np.ones(N_LABELS, np.int64),
        "seen.features": np.zeros(5, np.uint8),
        "blank.labels": np.array([1]),
        "blank.counts": np.array([2]),
    }
    about = {"n_points": N, "n_blank": 2}
    assert unpack_label_stats(arrays, about, "rows", N_LABELS, WIDTH).blank_counts[1] == 2
    with pytest.raises(ModelError, match=message):
        unpack_label_stats({**arrays, **changed}, about, "rows", N_LABELS, WIDTH)


def test_texts_learnt_later_update_label_counts() -> None:
    texts = [f"word{i % 20} word{(i * 7) % 20}" for i in range(200)]
    model = TextClassifier(method="network", random_state=0).fit(texts, [f"b{i % 20}" for i in range(200)])
    before = model._fitted.model.fitted.seen
    model.partial_fit(["another one", "word1 another"], ["a", "c"])
    seen = model._fitted.model.fitted.seen
    assert seen.n_points == before.n_points + 2
    assert np.unpackbits(seen.features).sum() > np.unpackbits(before.features).sum()
    assert len(seen.blank_counts) == 22


def texts_of(names: list[str], rng: np.random.Generator) -> list[str]:
    return [f"{name}word {' '.join(rng.choice(FILLERS, 3))}" for name in names]


FILLERS = [f"w{i}" for i in range(40)]
FREQUENT = ["rare"] * 30 + ["usual"] * 70 + ["common"] * 200
UNKNOWN_TEXTS = ["", "  ", "\N{SNOWMAN}\N{SNOWMAN}"]
TEXT_MODELS = [
    pytest.param({}, FREQUENT, id="linear"),
    pytest.param({}, [name for name in FREQUENT if name != "usual"], id="two classes"),
    pytest.param({}, [[name] for name in FREQUENT], id="lists"),
    pytest.param({"method": "network"}, FREQUENT, id="network"),
    pytest.param({"method": "network"}, [[name] for name in FREQUENT], id="network of lists"),
]


@pytest.mark.parametrize(("parameters", "y"), TEXT_MODELS)
def test_unknown_texts_get_the_most_frequent_labels(parameters: dict[str, Any], y: list[Any], tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    names = [name if isinstance(name, str) else name[0] for name in y]
    texts = texts_of(names, rng)
    model = TextClassifier(random_state=0, **parameters).fit(texts, y)
    order = np.argsort(-model.label_counts_)
    shares = np.tile(model.label_counts_ / len(y), (3, 1))
    model.save(tmp_path / "model")
    for same in (model, sparsenet.load(tmp_path / "model")):
        assert [same.predict_one(text) for text in UNKNOWN_TEXTS] == ["common"] * 3
        assert same.topk(UNKNOWN_TEXTS, k=2)[0].tolist() == [same.classes_[order[:2]].tolist()] * 3
        # A network holds out a few texts.
        np.testing.assert_allclose(same.predict_proba(UNKNOWN_TEXTS), shares, atol=0.02 if parameters else 1e-6)
        assert same.predict([*UNKNOWN_TEXTS, texts[0]])[3] == y[0]
    assert model.explain("").score == pytest.approx(model.explain("").bias)
    assert model.explain(texts[0]).score == pytest.approx(
        model.explain(texts[0]).bias + sum(part.score for part in model.explain(texts[0]).parts), abs=1e-4
    )


def test_empty_training_texts_count_for_unknown_texts() -> None:
    texts = texts_of(FREQUENT, np.random.default_rng(0)) + [""] * 50
    model = TextClassifier(random_state=0).fit(texts, FREQUENT + ["rare"] * 50)
    expected = (50 + 10 * 80 / 350) / 60
    assert model.predict(UNKNOWN_TEXTS).tolist() == ["rare"] * 3
    np.testing.assert_allclose(model.predict_proba(UNKNOWN_TEXTS)[:, 1], expected, rtol=1e-5)


def test_class_weights_apply_to_unknown_texts() -> None:
    texts = texts_of(FREQUENT, np.random.default_rng(0))
    model = TextClassifier(random_state=0, class_weight="balanced").fit(texts, FREQUENT)
    np.testing.assert_allclose(model.predict_proba(UNKNOWN_TEXTS), 1 / 3, rtol=1e-5)


def test_label_counts_follow_partial_fit() -> None:
    rng = np.random.default_rng(0)
    model = TextClassifier(random_state=0).fit(texts_of(FREQUENT, rng), FREQUENT)
    later = ["new"] * 300
    model.partial_fit(texts_of(later, rng), later)
    expected = {"common": 200, "new": 300, "rare": 30, "usual": 70}
    found = dict(zip(model.classes_.tolist(), model.predict_proba([""])[0].tolist(), strict=True))
    assert found == pytest.approx({name: count / 600 for name, count in expected.items()}, rel=1e-4)


def test_a_compressed_model_answers_unknown_texts_alike() -> None:
    rng = np.random.default_rng(0)
    model = TextClassifier(random_state=0).fit(texts_of(FREQUENT, rng), FREQUENT)
    before = model.predict_proba(UNKNOWN_TEXTS)
    model.compress(3000)
    np.testing.assert_array_equal(model.predict_proba(UNKNOWN_TEXTS), before)


@pytest.mark.parametrize("n_alike", [1, 3])
def test_one_known_feature_makes_a_point_known(training: tuple[csr_array, csr_array], n_alike: int) -> None:
    model = TreeClassifier(random_state=0).fit(*training)
    seen = model._fitted.seen
    mixed = csr_array(([1.0, 1.0, 1.0, 0.0, 1.0], [WIDTH - 1, WIDTH - 2, 0, 3, 5], [0, 3, 5]), shape=(2, WIDTH))
    rows = Rows.of(csr_array(vstack([mixed] * n_alike)))
    assert seen.blank(rows).tolist() == []
    assert seen.blank(rows.slice(0, 1)).tolist() == []
    assert seen.blank(Rows.of(unknown()[1:2])).tolist() == [0]
