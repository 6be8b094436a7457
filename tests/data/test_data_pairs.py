"""Points in one file and labels in another: matrices of SciPy, or of text under a header of two counts."""

import gzip
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from sparsenet import data
from sparsenet.data import DataError, read, read_pair, read_xmc
from tests.support.command_line import fails, run, write_xmc
from tests.support.data_cases import same


def text_of(matrix, header=None):
    rows = [" ".join(f"{j}:{v:g}" for j, v in zip(row.indices, row.data, strict=True)) for row in matrix]
    first = header or f"{matrix.shape[0]} {matrix.shape[1]}"
    return ("\n".join([first, *rows]) + "\n").encode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Hold the same points as one file, and as two in each form."""
    path = tmp_path_factory.mktemp("pairs")
    for name, n, seed in (("train", 300, 1), ("test", 100, 2)):
        whole = read_xmc(write_xmc(path / f"{name}.txt", n, seed))
        for kind, matrix in (("X", whole.X), ("Y", whole.Y)):
            sparse.save_npz(path / f"{name}.{kind}.npz", sparse.csr_matrix(matrix))
            (path / f"{name}_X_{kind}.txt").write_bytes(text_of(matrix))
            (path / f"{name}_X_{kind}.txt.gz").write_bytes(gzip.compress(text_of(matrix)))
    return path


@pytest.mark.parametrize("points", ["train.X.npz", "train_X_X.txt", "train_X_X.txt.gz"])
@pytest.mark.parametrize("labels", ["train.Y.npz", "train_X_Y.txt"])
def test_pair_of_files_equals_one_file(folder, points, labels):
    assert same(read_pair(folder / points, folder / labels), read_xmc(folder / "train.txt"))


def test_streams_are_read_and_widths_may_be_larger():
    X, Y = sparse.csr_array([[0, 1.5], [2, 0]]), sparse.csr_array([[1, 1, 0], [0, 0, 0]])
    headers = []
    found = read_pair(
        BytesIO(text_of(X)),
        BytesIO(text_of(Y)),
        n_features=5,
        n_labels=7,
        on_header=lambda *about: headers.append(about),
    )
    assert (found.X.shape, found.Y.shape) == ((2, 5), (2, 7))
    assert headers == [("<stream>", 2, None), ("<stream>", None, 3)]
    assert found.X.toarray()[:, :2].tolist() == X.toarray().tolist()
    assert found.Y.toarray()[:, :3].tolist() == Y.toarray().tolist()


def test_nonzero_entries_are_labels(tmp_path):
    stored = sparse.csr_array(([3, 0, -1], [0, 1, 2], [0, 2, 3]), shape=(2, 4))
    sparse.save_npz(tmp_path / "y.npz", stored)
    sparse.save_npz(tmp_path / "x.npz", sparse.csc_array(np.eye(2)))
    found = read_pair(tmp_path / "x.npz", tmp_path / "y.npz", n_labels=6)
    assert found.Y.toarray().tolist() == [[1, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0]]
    assert found.Y.dtype == found.X.dtype == np.float32


def test_points_alone_are_read_without_labels(folder):
    for name in ("train.X.npz", "train_X_X.txt"):
        alone = read(str(folder / name))
        assert alone.X.shape == (300, 60)
        assert alone.Y.shape == (300, 0)
    wide = [batch.Y.shape for batch in data.iter_batches(folder / "train_X_X.txt", batch_rows=200, n_labels=20)]
    assert wide == [(200, 20), (100, 20)]
    wider = read(str(folder / "train.X.npz"), n_features=70, n_labels=5, threads=1)
    assert (wider.X.shape, wider.Y.shape) == ((300, 70), (300, 5))
    with pytest.raises(DataError, match="read_pair reads both"):
        read_xmc(folder / "train_X_X.txt")


def test_repeated_entries_are_summed_as_floats(tmp_path):
    twice = sparse.coo_array((np.array([100, 100, -128, -128], np.int8), ([0, 0, 1, 1], [1, 1, 2, 2])), shape=(2, 3))
    sparse.save_npz(tmp_path / "x.npz", twice)
    wide = sparse.csr_array(np.eye(2))
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    sparse.save_npz(tmp_path / "y.npz", wide)
    found = read_pair(tmp_path / "x.npz", tmp_path / "y.npz")
    assert found.X.toarray().tolist() == [[0, 200, 0], [0, 0, -256]]
    assert found.X.indices.dtype == found.Y.indices.dtype == np.int32


def refused(points, labels, **options):
    with pytest.raises(DataError) as caught:
        read_pair(points, labels, **options)
    return str(caught.value)


def test_errors_in_text_matrices_name_the_line():
    good = b"2 3\n0:1\n1:1\n"
    assert "line 3: " in refused(BytesIO(good), BytesIO(b"2 3\n0:1\n3:1\n"))
    assert "announces 3 points, but the file ends after 2" in refused(BytesIO(b"3 3\n0:1\n1:1\n"), BytesIO(good))
    said = refused(BytesIO(good), BytesIO(b"1 3\n7 0:1\n"))
    assert "line 2: expected `id:value ...`, found '7': an entry of a matrix is written as its column" in said
    with pytest.raises(DataError, match=r"line 2: .* found '7': line 1 has two counts"):
        read(BytesIO(b"1 3\n7 0:1\n"))
    assert "line 1: the header announces 3 labels, but at most 2 are" in refused(
        BytesIO(good), BytesIO(good), n_labels=2
    )
    assert "line 3: label 3 is out of range" in refused(BytesIO(good), BytesIO(b"2 3\n0:1\n3:1\n"))
    assert "line 1: the header has three counts" in refused(BytesIO(b"2 3 4\n0 0:1\n1 1:1\n"), BytesIO(good))
    assert "line 1: expected the header `rows features`, found '0:1'" in refused(BytesIO(b"0:1\n1:1\n"), BytesIO(good))
    said = refused(BytesIO(good), BytesIO(b"3 3\n0:1\n1:1\n2:1\n"))
    assert "holds 3 rows, and <stream> 2" in said


def test_errors_in_npz_matrices_name_the_problem(tmp_path):
    x, y = tmp_path / "x.npz", tmp_path / "y.npz"
    sparse.save_npz(y, sparse.csr_array(np.eye(3)))
    for values, problem in (
        ([1, np.nan, 1], "row 2 (counted from 1) holds NaN"),
        ([1, 1, 1e39], "row 3 (counted from 1) holds NaN, infinity or a number beyond 32-bit floats"),
        ([1j, 1, 1], "of type complex128"),
    ):
        sparse.save_npz(x, sparse.diags_array(values).tocsr())
        assert f"{x}: " in (said := refused(x, y))
        assert problem in said
    np.savez(x, a=np.eye(3))
    assert "is not a sparse matrix as scipy.sparse.save_npz writes it" in refused(x, y)
    x.write_bytes(b"1 2 3\n")
    assert "is not a sparse matrix" in refused(x, y)
    sparse.save_npz(x, sparse.csr_array(np.eye(3)))
    whole = x.read_bytes()
    x.write_bytes(whole[: len(whole) // 2])
    assert "is not a sparse matrix" in refused(x, y)
    damaged = bytearray(whole)
    damaged[len(whole) // 3] ^= 0xFF
    x.write_bytes(damaged)
    assert "is not a sparse matrix" in refused(x, y)
    with open(x, "wb") as file:
        np.save(file, np.eye(3))
    assert "is not a sparse matrix" in refused(x, y)
    assert "is a dense array of NumPy" in refused(x.rename(tmp_path / "x.npy"), y)
    with pytest.raises(DataError, match="is a dense array of NumPy"):
        read(str(tmp_path / "x.npy"))
    for unnamed in (BytesIO(whole), BytesIO(gzip.compress(whole))):
        assert "a name that ends in .npz" in refused(unnamed, y)


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr", "coo"])
@pytest.mark.parametrize("ids", [[0, 9, 1], [0, 9, 2**28], [0, -(2**28), 1]])
def test_refuses_ids_beyond_the_matrix(tmp_path, kind, ids):
    x, ids = tmp_path / "x.npz", np.array(ids, np.int32)
    where = {"row": ids, "col": np.arange(3)} if kind == "coo" else {"indices": ids, "indptr": np.arange(4)}
    values = np.ones((3, 1, 1)) if kind == "bsr" else np.ones(3)
    np.savez(x, shape=np.array([3, 3]), data=values, format=kind.encode(), **where)
    assert "is not a sparse matrix" in refused(x, x)


def test_rejects_narrow_widths_and_missing_files(tmp_path):
    x, y = tmp_path / "x.npz", tmp_path / "y.npz"
    sparse.save_npz(y, sparse.csr_array(np.eye(3)))
    sparse.save_npz(x, sparse.csr_array(np.eye(3)))
    assert "has 3 features, but at most 2 are expected" in refused(x, y, n_features=2)
    assert "has 3 labels, but at most 1 are expected" in refused(x, y, n_labels=1)
    with pytest.raises(ValueError, match="between 0 and"):
        read_pair(x, y, n_labels=2**33)
    with pytest.raises(FileNotFoundError, match=r"nowhere\.npz"):
        read_pair(tmp_path / "nowhere.npz", y)
    with pytest.raises(ValueError, match="both standard input"):
        read_pair("-", "-")


# --- the commands ---


def trained(folder: Path, model: Path, points: str, *labels: object) -> dict[str, bytes]:
    how = ["--method", "network", "--epochs", 3, "--threads", 1]
    run("train", folder / points, "--model", model, *how, *labels)
    return {path.name: path.read_bytes() for path in sorted(model.iterdir())}


def test_pair_trains_the_same_model_as_one_file(folder, tmp_path):
    model = tmp_path / "model"
    one = trained(folder, model, "train.txt", "--valid", folder / "test.txt")
    scores = run("evaluate", model, folder / "test.txt").stdout.splitlines()
    answers = run("predict", model, folder / "test.txt").stdout
    for points, labels in (("X.npz", "Y.npz"), ("X_X.txt", "X_Y.txt")):
        join = "." if points.endswith("npz") else "_"
        valid = ["--valid", folder / f"test{join}{points}", "--valid-labels-file", folder / f"test{join}{labels}"]
        files = trained(folder, model, f"train{join}{points}", "--labels-file", folder / f"train{join}{labels}", *valid)
        assert files == one
        test = folder / f"test{join}{points}"
        measured = run("evaluate", model, test, "--labels-file", folder / f"test{join}{labels}", "--batch-size", 30)
        assert measured.stdout.splitlines()[:3] == scores[:3]
        assert run("predict", model, test, "--batch-size", 30).stdout == answers


def test_incomplete_pairs_are_reported(folder, tmp_path):
    train = ["train", "--model", tmp_path / "model", "--method", "network", "--epochs", 1]
    assert "--labels-file" in fails(*train, folder / "train.X.npz")
    assert "--labels-file" in fails(*train, folder / "train_X_X.txt")
    said = fails(*train, folder / "train.X.npz", "--labels-file", folder / "test.Y.npz")
    assert "test.Y.npz: holds 100 rows" in said
    sparse.save_npz(tmp_path / "none.npz", sparse.csr_array((300, 20)))
    sparse.save_npz(tmp_path / "few.npz", sparse.csr_array(np.ones((300, 5))))
    said = fails(*train, folder / "train.X.npz", "--labels-file", tmp_path / "none.npz")
    assert "none.npz: no row has a label" in said
    pair = [folder / "train.X.npz", "--labels-file", folder / "train.Y.npz"]
    said = fails(*train, *pair, "--valid-labels-file", folder / "test.Y.npz", status=2)
    assert "needs --valid" in said
    for valid in ("test.X.npz", "test_X_X.txt"):
        for method in ("network", "tree"):
            own = ["--model", tmp_path / "other", "--method", method, "--valid", folder / valid]
            assert "--valid-labels-file" in fails("train", *pair, *own)
            assert not (tmp_path / "other").exists()
    assert "nowhere.npz" in fails(*train, *pair, "--valid", tmp_path / "nowhere.npz", "--valid-labels-file", "x.npz")
    said = fails(*train, *pair[:2], "-", "--valid", folder / "test.X.npz", "--valid-labels-file", "-")
    assert "--labels-file and --valid-labels-file are both standard input" in said
    said = fails(*train, *pair, "--format", "svmlight", status=2)
    assert "whose format is detected" in " ".join(said.replace("│", " ").split())
    (tmp_path / "rows.svm").write_text("1 2:1\n")
    said = fails(*train, tmp_path / "rows.svm", *pair[1:])
    assert "expected the header `rows features`" in said
    (tmp_path / "reviews.csv").write_text("text,label\ngood,1\nbad,0\n")
    said = fails(*train[:3], tmp_path / "reviews.csv", "--labels-file", folder / "train.Y.npz", status=2)
    assert "--labels-file" in said
    run(*train, *pair)
    done = run("evaluate", tmp_path / "model", folder / "test.X.npz", "--labels-file", folder / "test.Y.npz")
    assert done.stderr == ""
    sparse.save_npz(tmp_path / "narrow.npz", sparse.csr_array((100, 30)))
    done = run("evaluate", tmp_path / "model", tmp_path / "narrow.npz", "--labels-file", folder / "test.Y.npz")
    assert "narrow.npz has 30 features, the model has 60: is this the right file?" in done.stderr
    done = run("evaluate", tmp_path / "model", folder / "train.X.npz", "--labels-file", tmp_path / "few.npz")
    assert "few.npz has 5 labels, the model has 20: is this the right file?" in done.stderr
    assert "--labels-file" in fails("evaluate", tmp_path / "model", folder / "test_X_X.txt")
    said = fails("evaluate", tmp_path / "model", folder / "train.X.npz", "--labels-file", tmp_path / "none.npz")
    assert "none.npz: holds no labels" in said
    assert "nope.npz" in fails("evaluate", tmp_path / "model", tmp_path / "nope.npz")
    assert "--labels-file" in fails("evaluate", tmp_path / "model", folder / "test.X.npz")
    sparse.save_npz(tmp_path / "wide.npz", sparse.csr_array((3, 61)))
    assert "has 61 features, but at most 60" in fails("predict", tmp_path / "model", tmp_path / "wide.npz")


def test_evaluate_refuses_column_labels_for_named_labels(folder, tmp_path):
    rows = "".join(f"{-1 - i % 3} {i % 3}:1\n" for i in range(60))
    (tmp_path / "train.svm").write_text(rows)
    run("train", tmp_path / "train.svm", "--model", tmp_path / "model", "--method", "network", "--epochs", 1)
    sparse.save_npz(tmp_path / "x.npz", sparse.csr_array(np.eye(3)))
    said = fails("evaluate", tmp_path / "model", tmp_path / "x.npz", "--labels-file", tmp_path / "x.npz")
    assert "labels that are column numbers" in said
    pair = ["--valid", tmp_path / "x.npz", "--valid-labels-file", tmp_path / "x.npz"]
    said = fails("train", tmp_path / "train.svm", "--model", tmp_path / "model", "--method", "network", *pair)
    assert "labels that are column numbers" in said
