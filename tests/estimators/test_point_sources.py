"""Files, data sets, arrays of other libraries, and what is no matrix, as X and y of the point classifiers."""

import numpy as np
import pytest
from scipy import sparse

from sparsenet import BlendClassifier, DataError, TreeClassifier, read
from sparsenet.data import Dataset
from tests.support.planted import X, Y, fast

N, N_LABELS = Y.shape
MODELS = {
    "network": lambda: fast(epochs=2),
    "tree": lambda: TreeClassifier(random_state=0),
    "blend": lambda: BlendClassifier(network="drop", random_state=0),
}
kinds = pytest.mark.parametrize("kind", MODELS)


def write_xmc(path, X, Y, header=True):
    X, Y = sparse.csr_array(X), sparse.csr_array(Y)
    lines = [f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}"] if header else []
    for i in range(X.shape[0]):
        row, labels = X[[i]].tocoo(), Y[[i]].tocoo().col
        pairs = " ".join(f"{j}:{float(v)!r}" for j, v in zip(row.col, row.data, strict=True))
        lines.append(f"{','.join(map(str, labels))} {pairs}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("points")
    write_xmc(path / "train.txt", X, Y)
    write_xmc(path / "few.txt", X[:7], Y[:7], header=False)  # without the last features
    np.save(path / "dense.npy", X.toarray().astype(np.float32))
    sparse.save_npz(path / "points.npz", sparse.csr_matrix(X))
    (path / "names.svm").write_text("".join(f"{'+1' if i % 2 else '-1'} {i % 2}:1\n" for i in range(40)))
    (path / "table.csv").write_text("a,b\n1,2\n")
    return path


@kinds
def test_learns_from_a_file_and_answers_files(kind, folder):
    model = MODELS[kind]().fit(folder / "train.txt")
    data = read(folder / "train.txt")
    other = MODELS[kind]().fit(data.X, data.Y)
    np.testing.assert_array_equal(model.predict_proba(X[:9]), other.predict_proba(X[:9]))
    few = read(folder / "few.txt", n_features=X.shape[1], n_labels=N_LABELS)
    assert model.score(str(folder / "few.txt")) == model.score(few.X, few.Y)
    np.testing.assert_array_equal(model.topk_numbers(folder / "few.txt", 3)[0], model.topk_numbers(few.X, 3)[0])
    assert (model.predict(folder / "few.txt") != model.predict(few.X)).nnz == 0


@kinds
def test_learns_from_a_data_set_and_answers_one(kind, folder):
    data = read(folder / "train.txt")
    model = MODELS[kind]().fit(data)
    assert model.score(data) == model.score(data.X, data.Y)
    small = read(folder / "few.txt")
    assert small.X.shape[1] <= X.shape[1]
    assert model.score(small) == model.score(folder / "few.txt")
    assert model.predict(small).shape == (7, N_LABELS)


@kinds
def test_a_file_of_vectors_is_mapped_and_needs_y(kind, folder):
    model = MODELS[kind]().fit(folder / "dense.npy", Y)
    plain = MODELS[kind]().fit(np.load(folder / "dense.npy"), Y)
    np.testing.assert_array_equal(
        model.predict_proba(folder / "dense.npy"), plain.predict_proba(np.load(folder / "dense.npy"))
    )
    assert model.score(folder / "dense.npy", Y) > 0.5
    for query in (MODELS[kind]().fit, model.score):
        with pytest.raises(ValueError, match=r"dense\.npy' holds no labels: pass y"):
            query(folder / "dense.npy")


def test_a_scipy_matrix_needs_y(folder):
    model = MODELS["tree"]().fit(folder / "points.npz", Y)
    assert model.score(folder / "points.npz", Y) == model.score(X, Y)
    assert model.predict(folder / "points.npz").shape == Y.shape
    with pytest.raises(ValueError, match=r"points\.npz' holds no labels: pass y, or read both files with"):
        MODELS["tree"]().fit(folder / "points.npz")


@kinds
def test_labels_with_names_in_a_file_are_predicted_by_name(kind, folder):
    model = MODELS[kind]().fit(folder / "names.svm")
    assert model.classes_.tolist() == [-1, 1]
    assert model.score(folder / "names.svm") == 1
    assert model.predict(folder / "names.svm")[:2].tolist() == [-1, 1]


def test_a_network_validates_on_a_file_and_trains_on_more(folder):
    model = fast(epochs=2).fit(folder / "train.txt", validation=folder / "few.txt")
    assert "P@1" in model.history_[0]
    assert model.partial_fit(folder / "few.txt").n_points_ == N + 7
    with pytest.raises(ValueError, match=r"validation: .*holds no labels"):
        fast(epochs=1).fit(X, Y, validation=folder / "dense.npy")


@kinds
@pytest.mark.parametrize(
    ("X", "y", "error", "message"),
    [
        ("table.csv", None, DataError, r"is a table: TableClassifier trains on its columns, and TextClassifier"),
        ("train.txt", Y, ValueError, r"y must be None if X is '.*train\.txt', which holds its labels"),
        ("nothing.txt", None, FileNotFoundError, "nothing.txt"),
        ("broken.npy", Y, DataError, r"broken\.npy: is damaged, or holds anything but an array"),
    ],
)
def test_refuses_files_that_do_not_fit(kind, folder, X, y, error, message):
    (folder / "broken.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(error, match=message):
        MODELS[kind]().fit(folder / X, y)


def test_refuses_a_data_set_and_y(folder):
    data = read(folder / "train.txt")
    with pytest.raises(ValueError, match="y must be None if X is the Dataset, which holds its labels"):
        MODELS["tree"]().fit(data, Y)
    with pytest.raises(ValueError, match="the Dataset holds no labels: pass y"):
        MODELS["tree"]().fit(Dataset(X=data.X, Y=sparse.csr_array(Y.shape, dtype=np.float32)))


def test_refuses_a_file_with_features_that_the_model_does_not_know(folder, tmp_path):
    model = MODELS["tree"]().fit(folder / "train.txt")
    (tmp_path / "wide.svm").write_text("0 1:1\n1 99999:1\n")
    with pytest.raises(DataError, match=r"wide\.svm, line 2: .*99999"):
        model.predict(tmp_path / "wide.svm")


# --- arrays of other libraries ---


class OnlyArray:
    """Like a tensor of another library, which NumPy converts."""

    def __init__(self, values):
        self.values = values
        self.shape, self.dtype = values.shape, values.dtype

    def __array__(self, dtype=None, copy=None):
        return self.values if dtype is None else self.values.astype(dtype)

    def __len__(self):
        return len(self.values)


class OnlyDLPack:
    """Like a tensor of a library that NumPy does not know."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


DENSE = X.toarray().astype(np.float32)


def vectors_of_polars():
    return pytest.importorskip("polars").Series(DENSE.tolist())


def array_column_of_polars():
    return pytest.importorskip("polars").DataFrame({"e": DENSE})["e"]


def vectors_of_arrow():
    pyarrow = pytest.importorskip("pyarrow")
    return pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(DENSE.ravel()), DENSE.shape[1])


FORMS = {
    "float16": lambda: DENSE.astype(np.float16),
    "Fortran": lambda: np.asfortranarray(DENSE),
    "array protocol": lambda: OnlyArray(DENSE),
    "DLPack": lambda: OnlyDLPack(DENSE),
    "DLPack of 16 bits": lambda: OnlyDLPack(DENSE.astype(np.float16)),
    "lists": lambda: DENSE.tolist(),
    "pandas": lambda: pytest.importorskip("pandas").DataFrame(DENSE),
    "vectors in pandas": lambda: pytest.importorskip("pandas").Series(list(DENSE)),
    "vectors in Polars": vectors_of_polars,
    "an Array column of Polars": array_column_of_polars,
    "vectors in Arrow": vectors_of_arrow,
    "objects": lambda: np.array([*DENSE, None], object)[:-1],
}


@pytest.mark.parametrize("form", FORMS)
def test_takes_matrices_of_other_kinds(form):
    model = TreeClassifier(normalize="rows", random_state=0).fit(FORMS[form](), Y)
    plain = TreeClassifier(normalize="rows", random_state=0).fit(DENSE, Y)
    few = FORMS[form]()
    assert model.score(few, Y) == pytest.approx(plain.score(DENSE, Y), abs=0.02)


def test_does_not_copy_float32(monkeypatch):
    seen = []
    monkeypatch.setattr("sparsenet.estimators.tree.Target.learn", lambda y: (_ for _ in ()).throw(RuntimeError))
    monkeypatch.setattr("sparsenet.estimators.point_sources.check_features", lambda model, X, fitting: seen.append(X))
    with pytest.raises(RuntimeError):
        TreeClassifier().fit(DENSE, Y)
    assert seen[0] is DENSE
    from sparsenet.core.validation import check_features

    for values in (DENSE, OnlyDLPack(DENSE), OnlyArray(DENSE)):
        checked = check_features(TreeClassifier(), values, fitting=True)
        assert np.shares_memory(checked, DENSE)
        assert checked.dtype == np.float32


LAZY = type("LazyFrame", (), {"collect": lambda self: None, "columns": ["a"]})
REFUSED = {
    "dicts": ([{"a": 1.0}] * N, "X holds dicts: TableClassifier takes those, and .*DictVectorizer makes a matrix"),
    "mapping": (
        {"a": [1.0] * N, "b": [2.0] * N},
        "X is a mapping of 2 columns: pass a matrix of numbers, or use",
    ),
    "ids": ([[3, 7], [1]] * (N // 2), r"of length 2 in row 0, and of 1 in row 1: lists of ids become .*MultiLabelBin"),
    "sets": ([{3, 7}] * N, "X holds sets: lists of ids become a sparse matrix"),
    "names": ([["a", "b"]] * N, "X holds lists of strings, such as 'a' in row 0: lists of ids become"),
    "lazy": (LAZY(), r"X is a LazyFrame, whose rows are not there yet: pass what its collect\(\) returns"),
    "masked": (np.ma.masked_array(DENSE, DENSE > 0), "X is masked in row 0, column .*: fill missing values in"),
    "ragged": (
        np.array([np.zeros(2), np.zeros(3)], object),
        r"X holds a vector of the shape \(2,\) in row 0",
    ),
    "no vector": (np.array([np.zeros(2), None], object), "X holds no vector in row 1: leave the row out"),
    "texts": (["a text"] * N, "X holds texts: TextClassifier takes those"),
    "strings": (np.array([["1", "x"]] * N), "X holds 'x' in row 0, column 1: encode it by numbers"),
    "mixed rows": ([[1, "x"]] * N, "X holds 'x' in row 0, column 1"),
    "dates": (np.zeros((N, 2), "M8[s]"), r"X holds datetime64\[s\]: pass numbers, or use TableClassifier"),
}


@kinds
@pytest.mark.parametrize("case", REFUSED)
def test_refuses_what_is_no_matrix_and_says_what_to_use(kind, case):
    values, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        MODELS[kind]().fit(values, [0, 1] * (N // 2) if len(getattr(values, "shape", (N,))) else Y)


def labels_of_arrow(values):
    return pytest.importorskip("pyarrow").array(values)


NAMES = [f"c{row.argmax()}" for row in Y]
LISTS = [[name, "all"] for name in NAMES]
LABELS = {
    "pandas": lambda y: pytest.importorskip("pandas").Series(y),
    "polars": lambda y: pytest.importorskip("polars").Series(y),
    "arrow": labels_of_arrow,
    "a frame of pandas": lambda y: pytest.importorskip("pandas").DataFrame({"y": y}),
    "a frame of Polars": lambda y: pytest.importorskip("polars").DataFrame({"y": y}),
    "a table of Arrow": lambda y: pytest.importorskip("pyarrow").table({"y": y}),
    "objects": lambda y: np.array([*y, None], object)[:-1],
}


@pytest.mark.parametrize("form", LABELS)
@pytest.mark.parametrize("y", [NAMES, LISTS], ids=["single", "lists"])
@pytest.mark.filterwarnings("ignore:A column-vector y")
def test_takes_labels_of_other_libraries(form, y):
    given = LABELS[form](y)
    model, plain = (TreeClassifier(random_state=0).fit(X, own) for own in (given, y))
    assert model.classes_.tolist() == plain.classes_.tolist()
    assert model.fitted_.target.kind == plain.fitted_.target.kind
    assert model.score(X, given) == plain.score(X, y)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([{"a": 1}] * N, "y holds dicts: pass a label, or a list of labels, for each row"),
        ({"a": 1}, "y is a mapping of 1 entries: pass a list of labels, one for each row of X"),
        ("train.txt", "y is the string 'train.txt': pass a list of labels, or a file as X alone"),
        (LAZY(), r"y is a LazyFrame, whose rows are not there yet: pass what its collect\(\) returns"),
        (None, "requires y to be passed, but the target y is None"),
    ],
)
@kinds
def test_refuses_what_are_no_labels(kind, y, message):
    with pytest.raises(ValueError, match=message):
        MODELS[kind]().fit(X, y)


@kinds
def test_no_points_have_no_answers(kind):
    model = MODELS[kind]().fit(X, Y)
    assert model.predict(X[:0]).shape == (0, N_LABELS)
    for restriction in ({}, {"only": [3, 4]}, {"exclude": [3]}, {"only": np.ones((0, N_LABELS))}):
        assert model.topk_numbers(X[:0], 2, **restriction)[0].shape == (0, 2)
    with pytest.raises(ValueError, match="X has no rows: there must be at least one"):
        model.score(X[:0], Y[:0])
