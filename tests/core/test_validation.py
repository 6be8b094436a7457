"""Bad input raises an error that names the argument, the value, and the remedy."""

from datetime import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

from sparsenet import (
    SGD,
    BinaryCrossEntropy,
    BlendClassifier,
    ExtremeClassifier,
    LSHConfig,
    RandomSampler,
    TextClassifier,
    TreeClassifier,
)
from sparsenet.core.validation import number_of_bytes

X = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.2, 0.9]])
Y = [0, 1, 0, 1]


def small(**parameters):
    return ExtremeClassifier(**{"hidden": 4, "epochs": 2, "n_jobs": 1, "random_state": 0, **parameters})


@pytest.mark.parametrize(
    ("parameter", "value", "message"),
    [
        ("hidden", -1, "hidden must be an integer from 0 to 65536, got -1"),
        ("hidden", (), "hidden must be a number of units or a tuple of them, got an empty one"),
        ("hidden", (8, 0), "each of hidden must be an integer from 1 to 65536, got 0"),
        ("hidden", 1.5, "hidden must be an integer from 0 to 65536, got 1.5"),
        ("wide", "yes", "wide must be True or False, got 'yes'"),
        ("activation", "sigmoid", "activation must be one of 'relu', 'linear', 'tanh', got 'sigmoid'"),
        ("dropout", 1.5, r"dropout must be a number in \[0, 1\), got 1.5"),
        ("dropout", 1, r"dropout must be a number in \[0, 1\), got 1"),
        ("loss", BinaryCrossEntropy, r"loss must be an object, got the class BinaryCrossEntropy: pass .*\(...\)"),
        ("sampler", RandomSampler, r"sampler must be an object, got the class RandomSampler: pass RandomSampler\("),
        ("sampler", LSHConfig, "sampler must be an object, got the class LSHConfig"),
        ("optimizer", SGD, r"optimizer must be an object, got the class SGD: pass SGD\("),
        ("loss", "hinge", "loss must be one of 'bce', 'softmax' or a Loss object, got 'hinge'"),
        ("sampler", "best", "sampler must be one of 'random', 'frequency', 'lsh', 'none', an LSHConfig or a Sampler"),
        ("n_negatives", 0, "n_negatives must be an integer from 1 to 2147483647, got 0"),
        ("per_sample", True, "per_sample=True supports the deep path only: set wide=False"),
        ("epochs", 0, "epochs must be an integer from 1 to 2147483647, got 0"),
        ("epochs", "many", "epochs must be an integer from 1 to 2147483647, got 'many'"),
        ("epochs", True, "epochs must be an integer from 1 to 2147483647, got True"),
        ("batch_size", 0, "batch_size must be an integer from 1"),
        ("optimizer", "lion", "optimizer must be one of 'adam', 'adagrad', 'sgd' or an Optimizer object, got 'lion'"),
        ("learning_rate", 0, r"learning_rate must be a number in \(0, 1000\], got 0"),
        ("learning_rate", np.nan, "learning_rate must be a number .*, got nan"),
        ("weight_decay", -0.1, r"weight_decay must be a number in \[0, 1\], got -0.1"),
        ("wide_learning_rate", -1.0, "wide_learning_rate must be a number .*, got -1.0"),
        ("wide_weight_decay", "none", "wide_weight_decay must be a number .*, got 'none'"),
        ("wide_budget", 0, "wide_budget must be an integer from 1 to 2147483647, got 0"),
        ("warmup", 1.0, r"warmup must be a number in \[0, 1\), got 1.0"),
        ("decay", "step", "decay must be one of 'constant', 'linear', 'cosine', got 'step'"),
        ("label_smoothing", 0.5, r"label_smoothing must be a number in \[0, 0.5\), got 0.5"),
        (
            "normalize",
            True,
            "normalize must be one of 'auto', 'rows', 'columns', 'together', 'mixed', 'none', got True",
        ),
        ("validation_fraction", 1.0, r"validation_fraction must be a number in \[0, 1\), got 1.0"),
        ("validation_fraction", 0.9, "validation_fraction=0.9 of 4 rows leaves none to train on"),
        ("patience", 0, "patience must be an integer from 1 to 2147483647, got 0"),
        ("patience", 3, "patience needs validation data"),
        ("memory_limit", "plenty", "memory_limit must be a number of bytes such as .*'8GB'.*, got 'plenty'"),
        ("memory_limit", 2**63, f"memory_limit must be an integer from 1 to {2**63 - 1}, got {2**63}"),
        ("memory_limit", "99999999TB", f"memory_limit must be an integer from 1 to {2**63 - 1}"),
        ("memory_limit", "9" * 400, f"memory_limit must be an integer from 1 to {2**63 - 1}, got '999"),
        ("n_jobs", 0, r"n_jobs must be None, -1 \(both: all CPUs\), -2 .*, or an integer from 1 to 1024, got 0"),
        ("n_jobs", -1025, "n_jobs must be None, -1 .*, got -1025"),
        ("n_jobs", 1.5, "n_jobs must be None, -1 .*, got 1.5"),
        ("random_state", -1, "random_state must be None, an integer from 0 to 4294967295 or a RandomState, got -1"),
        ("random_state", "foo", "random_state must be .*, got 'foo'"),
        ("random_state", np.random.default_rng(), "random_state must be .*, got a Generator"),
        ("verbose", -1, "verbose must be True, False or an integer of at least 0, got -1"),
        ("verbose", "yes", "verbose must be True, False or an integer of at least 0, got 'yes'"),
    ],
)
def test_rejects_absurd_parameters(parameter, value, message):
    with pytest.raises(ValueError, match=message):
        small(**{parameter: value}).fit(X, Y)


@pytest.mark.parametrize("value", [2**31, 2**63, 10**30], ids=str)
@pytest.mark.parametrize("parameter", ["n_negatives", "epochs", "patience", "wide_budget"])
def test_rejects_integers_that_no_model_could_hold(parameter, value):
    with pytest.raises(ValueError, match=f"{parameter} must be an integer from 1 to 2147483647, got {value}"):
        small(validation_fraction=0.5, **{parameter: value}).fit(X, Y)


@pytest.mark.parametrize(("verbose", "shown"), [(0, False), (1, True), (2, True), (False, False), (True, True)])
def test_verbose_accepts_numbers_like_scikit_learn(verbose, shown, capsys):
    small(verbose=verbose).fit(X, Y)
    assert ("needed" in capsys.readouterr().err) == shown


def test_rejects_a_network_without_hidden_units_and_wide_path():
    with pytest.raises(ValueError, match="hidden=0 and wide=False leave a network without weights"):
        small(hidden=0, wide=False).fit(X, Y)


def test_hashing_needs_hidden_units():
    with pytest.raises(ValueError, match="sampler='lsh' hashes hidden units, and hidden=0 has none"):
        small(hidden=0, sampler="lsh").fit(X, Y)


def placed(value, as_type):
    bad = X.copy()
    bad[2, 1] = value
    return as_type(bad)


@pytest.mark.parametrize("as_type", [np.asarray, sparse.csr_array, sparse.csc_matrix, sparse.coo_array, pd.DataFrame])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.nan, r"X holds NaN in row 2, column 1: fill in or drop missing values"),
        (np.inf, r"X holds infinity \(inf\) in row 2, column 1: replace or drop it"),
        (-np.inf, r"X holds infinity \(-inf\) in row 2, column 1"),
        (1e39, r"X holds 1e\+39, beyond the range of float32 .* in row 2, column 1: rescale this column"),
    ],
)
@pytest.mark.parametrize("method", ["fit", "predict", "partial_fit"])
def test_rejects_nan_and_infinite_features(as_type, value, message, method):
    model = small().fit(as_type(X), Y)
    arguments = () if method == "predict" else (Y,)
    with pytest.raises(ValueError, match=message):
        getattr(model, method)(placed(value, as_type), *arguments)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"])
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, None, 2.0, 3.0], "X holds NaN in row 1, column 'hue': fill in"),
        (["1", "2", "red", "4"], "X holds 'red' in row 2, column 'hue': encode it by numbers"),
        (["x" * 1000, *"abc"], r"X holds 'x+\.\.\.x+' in row 0, column 'hue': encode it by numbers"),
        ([datetime(2020, 1, 1)] * 4, r"X holds .*2020.* in row 0, column 'hue': encode it by numbers"),
    ],
    ids=["missing", "text", "long text", "dates"],
)
def test_missing_values_are_reported_by_column_name(frame, values, message):
    if frame is not pd.DataFrame and isinstance(values[0], datetime):
        pytest.skip("Polars and Arrow make numbers of dates")
    good = {"size": X[:, 0].tolist(), "age": X[:, 1].tolist()}
    bad = frame({**good, "hue": values})
    with pytest.raises(ValueError, match=message):
        small().fit(bad, Y)
    model = small().fit(frame({**good, "hue": X[:, 2].tolist()}), Y)
    with pytest.raises(ValueError, match=message):
        model.predict(bad)


def test_reports_unknown_columns_before_bad_values():
    model = small().fit(pd.DataFrame(X, columns=["size", "age", "hue"]), Y)
    with pytest.raises(ValueError, match="The feature names should match"):
        model.predict(pd.DataFrame({"size": X[:, 0], "age": X[:, 1], "name": list("abcd")}))


def broken(**changes):
    matrix = sparse.csr_array(X)
    for name, (position, value) in changes.items():
        getattr(matrix, name)[position] = value
    return matrix


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (broken(indices=(1, 3)), "X holds the column index 3, but they go from 0 to 2"),
        (broken(indices=(0, -1)), "X holds the column index -1, but they go from 0 to 2"),
        (broken(indptr=(1, 6)), "X.indptr must hold 5 numbers that rise from 0 to at most 7"),
        (broken(indptr=(4, 99)), "X.indptr must hold 5 numbers that rise from 0 to at most 7"),
        (broken(indptr=(0, 1)), "X.indptr must hold 5 numbers that rise from 0"),
    ],
)
def test_rejects_a_broken_csr_matrix(matrix, message):
    with pytest.raises(ValueError, match=message):
        small().fit(matrix, Y)


def test_rejects_a_broken_csc_matrix():
    matrix = sparse.csc_array(X)
    matrix.indices[0] = 4
    with pytest.raises(ValueError, match="X holds the row index 4, but they go from 0 to 3"):
        small().fit(matrix, Y)


@pytest.mark.parametrize(("n_jobs", "threads"), [(None, 4), (-1, 4), (-2, 3), (-4, 1), (-9, 1), (7, 7)])
def test_counts_threads_like_joblib(monkeypatch, n_jobs, threads):
    monkeypatch.setattr("sparsenet.core.machine.usable_cpus", lambda: 4)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    for model in (ExtremeClassifier, TreeClassifier, BlendClassifier, TextClassifier):
        assert model(n_jobs=n_jobs)._threads() == threads


def test_rejects_a_broken_coo_matrix():
    matrix = sparse.coo_array(X)
    matrix.coords[1][0] = -2
    with pytest.raises(ValueError, match="X holds the column index -2, but they go from 0 to 2"):
        small().fit(matrix, Y)


def test_rejects_broken_csr_labels():
    labels = sparse.csr_array(np.eye(4, 3))
    labels.indices[0] = 7
    with pytest.raises(ValueError, match="y holds the column index 7, but they go from 0 to 2"):
        small().fit(X, labels)


def test_sums_duplicates_without_changing_the_input():
    twice = sparse.csr_array((np.array([0.5, 0.5, 1.0]), np.array([0, 0, 1]), np.array([0, 2, 3])), shape=(2, 3))
    assert twice.has_canonical_format is False
    twice.has_canonical_format = True  # what SciPy may have cached is not to be trusted
    once = sparse.csr_array([[1.0, 0, 0], [0, 1, 0]])
    a, b = small().fit(twice, [0, 1]), small().fit(once, [0, 1])
    np.testing.assert_array_equal(a.predict_proba(once), b.predict_proba(twice))
    assert twice.nnz == 3


def test_accepts_unsorted_rows_and_spare_room():
    data, ids = np.array([1.0, 0.5, 1.0, 9.0]), np.array([2, 0, 1, 0])
    matrix = sparse.csr_array((data, ids, np.array([0, 2, 3])), shape=(2, 3))
    plain = sparse.csr_array([[0.5, 0, 1.0], [0, 1, 0]])
    a, b = small().fit(matrix, [0, 1]), small().fit(plain, [0, 1])
    np.testing.assert_array_equal(a.predict_proba(plain), b.predict_proba(matrix))


@pytest.mark.parametrize(
    ("points", "labels", "message"),
    [
        (np.empty((0, 3)), [], "0 sample"),
        (np.empty((3, 0)), [0, 1, 0], "0 feature"),
        (X, None, "requires y to be passed, but the target y is None"),
        (X, [0, 1], "X has 4 rows, y has 2: y must have an entry for each row of X"),
        (X, [[], [], [], []], "y holds no label at all"),
        (X, sparse.csr_array((4, 3)), "y holds no label at all"),
        (X, sparse.csr_array((4, 0)), "y holds no label at all"),
        (X, np.empty((4, 0)), "y has no columns"),
        (X, np.array([[0, 1], [2, 0], [0, 1], [1, 1]]), "0 and 1 for each label, got 2 in row 1, column 0"),
        (X, [0.5, 1.5, 0.5, 1.5], "Unknown label type: continuous"),
        (X, [0.0, np.nan, 1.0, 0.0], "y holds nan in row 1"),
        (X, ["a", None, "b", "a"], "y holds None in row 1: every row needs a label; drop the row"),
        (X, [["a"], [None], ["b"], []], "y holds None in row 1: leave it out of the list"),
        (X, [["a", "b"], [], ["c", float("nan")], []], "y holds nan in row 2: leave it out of the list"),
        (X, [[1.0, 2.0], [], [1.0], [np.nan]], "y holds nan in row 3 .*: leave it out of the list"),
        (X, [None, ["a"], ["b"], []], "row 0 of y is None, others are lists of labels"),
        (X, ["a", 1, "b", 2], "y must hold strings alone or whole numbers alone, got int, str"),
        (X, [1, "a", 2, "b"], "y must hold strings alone or whole numbers alone, got int, str"),
        (X, (1, "a", 2, "b"), "y must hold strings alone or whole numbers alone, got int, str"),
        (X, [[1], ["a"], [2], ["b"]], "y must hold strings alone or whole numbers alone"),
        (
            X,
            [["a"], "b", ["c"], []],
            "row 1 of y is not a list of labels, but row 0 is: give every row a list, an empty one",
        ),
        (X, np.array([[0, 2], [1, 0], [0, 0], [1, 1]]), "indicator of 0 and 1 for each label, got .*2.* in row 0"),
        (X, np.ones((4, 2), complex), "indicator of 0 and 1 for each label, got complex128"),
        (X, np.ones((4, 2, 2)), "y must have one or two dimensions, got 3"),
        (X, sparse.csr_array([[np.nan], [1], [0], [1]]), "y holds NaN in row 0, column 0"),
        (X, sparse.csr_array(np.eye(4, 2) * 1j), "y must hold numbers, .* got complex128"),
        ([["a", "b"]] * 4, Y, "X holds lists of strings, such as 'a' in row 0"),
        (X * 1j, Y, "Complex data not supported"),
        (X[0], Y, r"X is a single vector of \d+ values, .* X\.reshape\(1, -1\) makes it one row"),
    ],
)
def test_rejects_wrong_shapes_and_types(points, labels, message):
    with pytest.raises((ValueError, TypeError), match=message):
        small().fit(points, labels)


@pytest.mark.parametrize("kind", [list, tuple, np.array, pd.Series, lambda texts: np.array(texts, object)])
def test_texts_are_referred_to_the_text_classifier(kind):
    texts = kind(["a word", "two words"])
    with pytest.raises(ValueError, match="takes a matrix of numbers, and X holds texts: TextClassifier takes those"):
        TreeClassifier().fit(texts, [0, 1])
    with pytest.raises(ValueError, match="ExtremeClassifier takes a matrix of numbers, and X holds texts"):
        small().fit(X, Y).predict(texts)


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, bool])
def test_answers_do_not_depend_on_the_type_of_rows(kind, dtype):
    """Some types pass the checks of scikit-learn, others skip them."""
    rng = np.random.default_rng(0)
    table = (rng.random((60, 9)) < 0.4).astype(float)
    model = TreeClassifier(n_jobs=1, random_state=0, normalize="rows").fit(table, rng.integers(0, 4, 60))
    rows = kind(table.astype(dtype))
    before = rows.copy()
    np.testing.assert_array_equal(model.predict_proba(rows), model.predict_proba(table))
    np.testing.assert_array_equal(model.predict_proba(rows[:, ::-1][:, ::-1]), model.predict_proba(table))
    assert (rows != before).nnz == 0
    rows.indices = rows.indices.astype(np.int64)
    np.testing.assert_array_equal(model.predict_proba(rows), model.predict_proba(table))
    with pytest.raises(ValueError, match="X has 8 features, but TreeClassifier is expecting 9"):
        model.predict(rows[:, :8])
    if rows.dtype.kind == "f":
        rows.data[3] = np.nan
        with pytest.raises(ValueError, match="X holds NaN in row"):
            model.predict(rows)


def test_warns_about_rows_without_feature_names():
    model = TreeClassifier(n_jobs=1).fit(pd.DataFrame(X, columns=["a", "b", "c"]), Y)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(sparse.csr_array(X))


def test_rejects_too_many_columns():
    wide = sparse.csr_array(([1.0], np.array([2**31], np.int64), [0, 1]), shape=(1, 2**31 + 1))
    with pytest.raises(ValueError, match=r"X has 2147483649 columns, at most 2\*\*31 - 1 are possible"):
        small().fit(wide, [0])


def test_rejects_prediction_before_fit():
    for method in ("predict", "predict_proba", "predict_topk", "topk", "decision_function"):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            getattr(small(), method)(X)
    with pytest.raises(NotFittedError):
        small().save("nowhere")


def test_rejects_the_wrong_number_of_features():
    model = small().fit(X, Y)
    with pytest.raises(ValueError, match="X has 2 features, but ExtremeClassifier is expecting 3"):
        model.predict(X[:, :2])
    with pytest.raises(ValueError, match="expecting 3"):
        model.partial_fit(sparse.csr_array(X[:, :2]), Y)


def test_rejects_other_column_names():
    model = small().fit(pd.DataFrame(X, columns=["a", "b", "c"]), Y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(pd.DataFrame(X, columns=["a", "b", "d"]))


@pytest.mark.parametrize("k", [0, -1, 1.5, "5"])
def test_rejects_an_absurd_k(k):
    with pytest.raises(ValueError, match="k must be an integer of at least 1"):
        small().fit(X, Y).topk(X, k)


def test_refuses_to_center_sparse_data():
    with pytest.raises(ValueError, match="normalize='columns' needs a dense X"):
        small(normalize="columns").fit(sparse.eye_array(40, format="csr"), np.arange(40) % 2)


def test_refuses_a_dense_answer_beyond_memory():
    model = small().fit(X, Y)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sparsenet.core.memory.MAX_CELLS", 7)
        with pytest.raises(ValueError, match="the scores of 2 labels for 4 rows would fill 32 B: use predict_topk"):
            model.predict_proba(X)
        assert model.predict_proba(X[:3]).shape == (3, 2)


@pytest.mark.parametrize(
    ("text", "size"), [("8GB", 8 * 10**9), ("1.5 GiB", 3 * 2**29), ("100", 100), ("2k", 2000), (77, 77)]
)
def test_parses_sizes_in_bytes(text, size):
    assert number_of_bytes("memory_limit", text) == size


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"optimizer": SGD(rate=0.1), "learning_rate": 1.0}, "learning_rate=1 would be ignored, because optimizer=SGD"),
        ({"optimizer": SGD(), "weight_decay": 0.1}, "weight_decay=0.1 would be ignored, because optimizer=SGD"),
        ({"loss": BinaryCrossEntropy(), "label_smoothing": 0.1}, "label_smoothing=0.1 would be ignored, because loss="),
    ],
    ids=str,
)
def test_rejects_settings_that_an_object_already_fixes(given, message):
    with pytest.raises(ValueError, match=message):
        small(**given).fit(X, Y)
