"""Points in one file and labels in another: matrices of SciPy, or of text under a header of two counts."""

import gzip
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from data_cases import same
from scipy import sparse
from test_cli import fails, run, write_xmc

from sparsenet import data
from sparsenet.data import DataError, read, read_pair, read_xmc


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
def test_a_pair_of_files_holds_what_one_does(folder, points, labels):
    assert same(read_pair(folder / points, folder / labels), read_xmc(folder / "train.txt"))


def test_streams_are_read_and_widths_may_be_larger():
    X, Y = sparse.csr_array([[0, 1.5], [2, 0]]), sparse.csr_array([[1, 1, 0], [0, 0, 0]])
    told = []
    found = read_pair(
        BytesIO(text_of(X)), BytesIO(text_of(Y)), n_features=5, n_labels=7, on_header=lambda *about: told.append(about)
    )
    assert (found.X.shape, found.Y.shape) == ((2, 5), (2, 7))
    assert told == [("<stream>", 2, None)]
    assert found.X.toarray()[:, :2].tolist() == X.toarray().tolist()
    assert found.Y.toarray()[:, :3].tolist() == Y.toarray().tolist()


def test_labels_are_where_a_row_is_not_zero(tmp_path):
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
    assert read(str(folder / "train.X.npz"), n_features=70).X.shape == (300, 70)


def refused(points, labels, **options):
    with pytest.raises(DataError) as caught:
        read_pair(points, labels, **options)
    return str(caught.value)


def test_what_is_wrong_with_a_text_is_said_by_line():
    good = b"2 3\n0:1\n1:1\n"
    assert "line 3: " in refused(BytesIO(good), BytesIO(b"2 3\n0:1\n3:1\n"))
    assert "announces 3 points, but the file ends after 2" in refused(BytesIO(b"3 3\n0:1\n1:1\n"), BytesIO(good))
    assert "line 2: " in refused(BytesIO(b"1 3\n7 0:1\n"), BytesIO(good))  # a label, where there is none
    assert "line 1: the header announces labels" in refused(BytesIO(b"2 3 4\n0 0:1\n1 1:1\n"), BytesIO(good))
    assert "line 1: expected the header" in refused(BytesIO(b"0:1\n1:1\n"), BytesIO(good))
    said = refused(BytesIO(good), BytesIO(b"3 3\n0:1\n1:1\n2:1\n"))
    assert "holds 3 rows, and <stream> 2" in said


def test_what_is_wrong_with_a_matrix_is_said(tmp_path):
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
    assert "is no sparse matrix as scipy.sparse.save_npz writes it" in refused(x, y)
    x.write_bytes(b"1 2 3\n")
    assert "is no sparse matrix" in refused(x, y)
    sparse.save_npz(x, sparse.csr_array(np.eye(3)))
    whole = x.read_bytes()
    x.write_bytes(whole[: len(whole) // 2])
    assert "is no sparse matrix" in refused(x, y)
    damaged = bytearray(whole)
    damaged[len(whole) // 3] ^= 0xFF
    x.write_bytes(damaged)
    assert "is no sparse matrix" in refused(x, y)
    x.write_bytes(whole)
    assert "has 3 columns, but at most 2 are expected" in refused(x, y, n_features=2)
    assert "has 3 columns, but at most 1 are expected" in refused(x, y, n_labels=1)
    beyond = {"indices": np.array([0, 9, 1]), "indptr": np.arange(4), "data": np.ones(3), "format": b"csr"}
    np.savez(x, shape=np.array([3, 3]), **beyond)
    assert "is no sparse matrix" in refused(x, y)
    with pytest.raises(FileNotFoundError, match=r"nowhere\.npz"):
        read_pair(tmp_path / "nowhere.npz", y)
    with pytest.raises(ValueError, match="both standard input"):
        read_pair("-", "-")


# --- the commands ---


def trained(folder: Path, model: Path, points: str, *labels: object) -> dict[str, bytes]:
    how = ["--method", "network", "--epochs", 3, "--threads", 1]
    run("train", folder / points, "--model", model, *how, *labels)
    return {path.name: path.read_bytes() for path in sorted(model.iterdir())}


def test_models_of_one_file_and_of_two_are_the_same(folder, tmp_path):
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


def test_what_a_pair_lacks_is_said(folder, tmp_path):
    train = ["train", "--model", tmp_path / "model", "--method", "network", "--epochs", 1]
    assert "--labels-file" in fails(*train, folder / "train.X.npz")
    assert "--labels-file" in fails(*train, folder / "train_X_X.txt")
    said = fails(*train, folder / "train.X.npz", "--labels-file", folder / "test.Y.npz")
    assert "test.Y.npz: holds 100 rows" in said
    sparse.save_npz(tmp_path / "none.npz", sparse.csr_array((300, 5)))
    said = fails(*train, folder / "train.X.npz", "--labels-file", tmp_path / "none.npz")
    assert "none.npz: no row has a label" in said
    pair = [folder / "train.X.npz", "--labels-file", folder / "train.Y.npz"]
    said = fails(*train, *pair, "--valid-labels-file", folder / "test.Y.npz", status=2)
    assert "needs --valid" in said
    (tmp_path / "reviews.csv").write_text("text,label\ngood,1\nbad,0\n")
    said = fails(*train[:3], tmp_path / "reviews.csv", "--labels-file", folder / "train.Y.npz", status=2)
    assert "--labels-file" in said
    run(*train, *pair)
    assert "--labels-file" in fails("evaluate", tmp_path / "model", folder / "test.X.npz")
    sparse.save_npz(tmp_path / "wide.npz", sparse.csr_array((3, 61)))
    assert "has 61 columns, but at most 60" in fails("predict", tmp_path / "model", tmp_path / "wide.npz")


def test_a_model_whose_labels_have_other_names_is_not_measured_by_columns(folder, tmp_path):
    rows = "".join(f"{-1 - i % 3} {i % 3}:1\n" for i in range(60))
    (tmp_path / "train.svm").write_text(rows)
    run("train", tmp_path / "train.svm", "--model", tmp_path / "model", "--method", "network", "--epochs", 1)
    sparse.save_npz(tmp_path / "x.npz", sparse.csr_array(np.eye(3)))
    said = fails("evaluate", tmp_path / "model", tmp_path / "x.npz", "--labels-file", tmp_path / "x.npz")
    assert "numbers of columns" in said
