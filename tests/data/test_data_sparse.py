"""XMC and svmlight: what is read is what was written, by both backends, whole and in batches."""

from __future__ import annotations

import io
import pickle
import sys
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from scipy import sparse

from sparsenet.data import DataError, Dataset, iter_batches, read, read_svmlight, read_xmc
from tests.support.data_cases import (
    BACKEND_PARAMS,
    COMPRESSORS,
    HARD_NUMBERS,
    in_blocks,
    nearest_float32,
    same,
    use_backend,
)

#: The backend is a fixture, the same for all examples of a test.
one_backend = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(params=BACKEND_PARAMS, autouse=True)
def reader_backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    use_backend(monkeypatch, request.param)
    return request.param


def xmc_bytes(X: sparse.csr_array, Y: sparse.csr_array, newline: str = "\n") -> bytes:
    lines = [f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}"]
    for i in range(X.shape[0]):
        labels = ",".join(map(str, Y.indices[Y.indptr[i] : Y.indptr[i + 1]]))
        span = slice(X.indptr[i], X.indptr[i + 1])
        pairs = (f"{f}:{v!r}" for f, v in zip(X.indices[span].tolist(), X.data[span].tolist(), strict=True))
        lines.append(" ".join([labels, *pairs]))
    return (newline.join(lines) + newline).encode()


@st.composite
def points(draw: st.DrawFn) -> tuple[sparse.csr_array, sparse.csr_array]:
    n, d, n_labels = draw(st.integers(0, 8)), draw(st.integers(1, 12)), draw(st.integers(1, 9))
    values = st.floats(width=32, allow_nan=False, allow_infinity=False).filter(bool)
    X, Y = sparse.lil_array((n, d), dtype=np.float32), sparse.lil_array((n, n_labels), dtype=np.float32)
    for i in range(n):
        for f in draw(st.sets(st.integers(0, d - 1), max_size=d)):
            X[i, f] = draw(values)
        for label in draw(st.sets(st.integers(0, n_labels - 1), max_size=4)):
            Y[i, label] = 1
    return sparse.csr_array(X), sparse.csr_array(Y)


@one_backend
@given(points(), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_xmc_round_trip(data, newline, cut):
    X, Y = data
    text = xmc_bytes(X, Y, newline)
    if cut and X.shape[0] and (X[[-1]].nnz or Y[[-1]].nnz):
        text = text.removesuffix(newline.encode())
    assert same(read_xmc(io.BytesIO(text)), Dataset(X=X, Y=Y))


@one_backend
@given(points().filter(lambda data: data[0].shape[0] > 0), st.booleans(), st.booleans())
def test_svmlight_equals_sklearn(data, zero_based, multilabel):
    from sklearn.datasets import dump_svmlight_file, load_svmlight_file  # a second to import

    X, Y = data
    assume(X.nnz or Y.nnz or not multilabel)  # a file of blank lines holds no points
    y = Y if multilabel else np.arange(X.shape[0]) - 1
    file = io.BytesIO()
    dump_svmlight_file(X, y, file, zero_based=zero_based, multilabel=multilabel, comment="one\ntwo")
    file.seek(0)
    theirs, labels = load_svmlight_file(file, dtype=np.float32, multilabel=multilabel)
    file.seek(0)
    ours = read_svmlight(file, multilabel=multilabel, zero_based="auto")
    assert ours.X.shape == theirs.shape
    for name in ("indptr", "indices", "data"):
        assert np.array_equal(getattr(ours.X, name), getattr(theirs, name))
    if multilabel:
        assert [tuple(row.indices) for row in ours.Y] == [tuple(map(int, row)) for row in labels]
    else:
        assert np.array_equal(ours.y, labels)


def test_reads_xmc_rows():
    text = b"7 9 5\n3,1 8:0.5 0:-2\n 4:1\n2:3 1:+1\n4\n\n\t5:1e-3 \t 6:.5\r\n0  7:1.\n"
    data = read_xmc(io.BytesIO(text))
    assert np.diff(data.X.indptr).tolist() == [2, 1, 2, 0, 0, 2, 1]
    assert data.X.indices.tolist() == [0, 8, 4, 1, 2, 5, 6, 7]
    assert data.X.data.tolist() == np.float32([-2, 0.5, 1, 1, 3, 1e-3, 0.5, 1]).tolist()
    assert np.diff(data.Y.indptr).tolist() == [2, 0, 0, 1, 0, 0, 1]
    assert data.Y.indices.tolist() == [1, 3, 4, 0]
    assert (data.n_points, data.n_features, data.n_labels) == (7, 9, 5)
    assert data.X.indices.dtype == np.int32
    assert data.X.has_canonical_format
    assert np.array_equal((data.X @ np.eye(9)).astype(np.float32), data.X.toarray())


def test_reads_svmlight_rows():
    text = b"# comment\n\n1,0 qid:3 1:1 3:2 # 4:4\n 2 2:1\nqid:-1 2:5\n\t\n3#\n2:1"
    data = read_svmlight(io.BytesIO(text), zero_based=False)
    assert np.diff(data.X.indptr).tolist() == [2, 1, 1, 0, 1]
    assert data.X.indices.tolist() == [0, 2, 1, 1, 1]
    assert np.diff(data.Y.indptr).tolist() == [2, 1, 0, 1, 0]
    assert data.Y.indices.tolist() == [0, 1, 2, 3]
    assert data.classes is None
    assert not data.zero_based


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["-1", "+1"], np.array([-1, 1])),
        (["0.5", "-2.25"], np.array([0.5, -2.25])),
        (["3000000000", "7"], np.array([3_000_000_000, 7])),
        (["9007199254740991", "-9007199254740991"], np.array([2**53 - 1, 1 - 2**53])),
        (["1e300", "0.12345678901234567"], np.array([1e300, 0.12345678901234567])),
    ],
)
def test_labels_are_kept_as_given(labels, expected):
    data = read_svmlight(io.BytesIO("".join(f"{label} 1:1\n" for label in labels).encode()), multilabel=False)
    assert np.array_equal(data.y, expected)
    assert data.y.dtype == expected.dtype
    assert np.array_equal(data.classes, np.unique(expected))


def test_y_needs_one_label_per_point():
    with pytest.raises(ValueError, match="point 1 has 2 labels"):
        _ = read_svmlight(io.BytesIO(b"1 1:1\n0,1 1:1\n")).y


# Numbers near the end of the text are read another way than those in its midst.
AFTER = pytest.mark.parametrize("after", ["", "# " + 60 * "x"], ids=["last", "midst"])


@AFTER
@pytest.mark.parametrize("text", HARD_NUMBERS)
def test_numbers_are_rounded_to_nearest(text, after):
    found = read_svmlight(io.BytesIO(f"0 0:{text}\n{after}".encode())).X.data[0]
    assert found.view(np.uint32) == nearest_float32(text).view(np.uint32)
    label = f"{text}.0" if text.isdigit() else text  # digits alone are whole numbers, which are not rounded
    assert float(read_svmlight(io.BytesIO(f"{label} 0:1\n".encode()), multilabel=False).y[0]) == float(text)


decimals = st.from_regex(r"[+-]?([0-9]{1,30}\.?[0-9]{0,30}|\.[0-9]{1,30})(e[+-]?[0-9]{1,2})?", fullmatch=True)
usual_decimals = st.from_regex(r"[0-9]{1,9}\.[0-9]{1,9}", fullmatch=True)


@AFTER
@one_backend
@given(decimals | usual_decimals, st.integers(0, 2**31 - 2))
def test_any_number_is_rounded_to_nearest(after, text, feature):
    file = io.BytesIO(f"0 {feature}:{text}\n{after}".encode())
    if abs(Decimal(text)) >= 2**128 - 2**103:  # where rounding goes up to infinity
        with pytest.raises(DataError, match=r"beyond 3\.4e38"):
            read_svmlight(file)
    else:
        X = read_svmlight(file, zero_based=True).X
        assert X.indices.tolist() == [feature]
        assert X.data[0] == nearest_float32(text)


def sample(n: int = 700, seed: int = 0) -> bytes:
    rng = np.random.default_rng(seed)
    X = sparse.random_array((n, 300), density=0.03, format="csr", dtype=np.float32, rng=rng)
    Y = sparse.random_array((n, 90), density=0.02, format="csr", dtype=np.float32, rng=rng)
    return xmc_bytes(X, Y)


@pytest.mark.parametrize("compression", COMPRESSORS)
@pytest.mark.parametrize("block", [1, 7, 100, 5000])
def test_result_does_not_depend_on_blocks_or_compression(compression, block):
    text = sample(60 if block == 1 else 700)
    expected = read_xmc(io.BytesIO(text))
    compressed = COMPRESSORS[compression](text)
    assert same(read(in_blocks(compressed, block=block, read=block)), expected)
    batches = list(iter_batches(in_blocks(compressed, block=block, read=block), batch_rows=13))
    assert [batch.n_points for batch in batches[:-1]] == [13] * (len(batches) - 1)
    joined = Dataset(X=sparse.vstack([b.X for b in batches]), Y=sparse.vstack([b.Y for b in batches]))
    assert same(joined, expected)


def test_result_does_not_depend_on_threads():
    rows = b"".join(b"%d,%d 3:0.5 %d:0.25\n" % (i % 50, 50 + i % 7, 4 + i % 90) for i in range(60_000))
    text = b"60000 100 60\n" + rows
    assert same(read_xmc(io.BytesIO(text), threads=1), read_xmc(io.BytesIO(text), threads=4))
    comments = rows.replace(b"3:0.5", b"qid:3 3:0.5 # 1:2,")
    one, four = (read_svmlight(io.BytesIO(comments + b"\n" + rows), threads=n, zero_based=True) for n in (1, 4))
    assert same(one, four)
    assert one.n_points == 120_000


def test_streams_and_standard_input(monkeypatch, tmp_path):
    text = sample(50)
    expected = read_xmc(io.BytesIO(text))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(COMPRESSORS["gz"](text))))
    assert same(read("-"), expected)
    only_read = SimpleNamespace(read=io.BytesIO(text).read)
    assert same(read_xmc(only_read), expected)
    path = tmp_path / "data.txt"
    path.write_bytes(text)
    with path.open() as file, pytest.raises(TypeError, match="binary"):
        read_xmc(file)
    with pytest.raises(TypeError, match="expected a path"):
        read_xmc(3)


def test_batches_arrive_as_soon_as_their_lines():
    # Nothing may wait for more than it needs: whoever feeds a pipe line by line gets answers line by line.
    class Slow(io.RawIOBase):
        lines = (b"0 1:1\n", b"1 2:1\n")
        given = 0

        def readable(self) -> bool:
            return True

        def readinto(self, buffer) -> int:
            if self.given == len(self.lines):
                return 0
            line = self.lines[self.given]
            self.given += 1
            buffer[: len(line)] = line
            return len(line)

    stream = Slow()
    batches = iter_batches(stream, batch_rows=1, n_features=3, n_labels=2)
    for n in (1, 2):
        assert next(batches).X.indices.tolist() == [n]
        assert stream.given == n


def test_skipped_svmlight_lines_are_counted():
    counts: list[int] = []
    text = b"# a comment\n1 0:1\n\n \t\r\n2 1:1 # another\n 1:2\n#"
    batches = iter_batches(io.BytesIO(text), batch_rows=2, n_features=2, n_labels=3, on_skipped=counts.append)
    assert [batch.n_points for batch in batches] == [2, 1]
    assert sum(counts) == 4
    assert sum(batch.n_points for batch in iter_batches(io.BytesIO(b"3 2 2\n0 1:1\n\n \n"), batch_rows=2)) == 3


def test_batches_ignore_labels_on_demand():
    batches = iter_batches(io.BytesIO(b"-7.5 1:1\n9 2:1\n"), batch_rows=9, n_features=3, with_labels=False)
    (batch,) = batches
    assert batch.Y.shape == (2, 0)
    with pytest.raises(ValueError, match="needs n_labels"):
        list(iter_batches(io.BytesIO(b"1 1:1\n"), batch_rows=9, n_features=3))
    (batch,) = iter_batches(io.BytesIO(b"1 3 9\n8 0:1\n"), batch_rows=1, n_features=5, n_labels=2, with_labels=False)
    assert (batch.X.shape, batch.Y.shape) == ((1, 5), (1, 0))


def test_memory_is_bounded_by_the_batch():
    batches = iter_batches(in_blocks(sample(3000), block=1 << 12), batch_rows=10)
    held = [batch.X.data if batch.X.data.base is None else batch.X.data.base for batch in batches]
    assert max(map(len, held)) < 2000  # of 27,000


def test_given_widths_may_exceed_the_ids(tmp_path):
    data = read_xmc(io.BytesIO(b"1 3 2\n1 2:1\n"), n_features=7, n_labels=9)
    assert (data.X.shape, data.Y.shape) == ((1, 7), (1, 9))
    data = read_svmlight(io.BytesIO(b"1 2:1\n"), n_features=7, n_labels=9, zero_based=True)
    assert (data.X.shape, data.Y.shape, data.X.indices.tolist()) == ((1, 7), (1, 9), [2])
    data = read_svmlight(io.BytesIO(b"1 7:1\n"), n_features=7, zero_based=False)
    assert data.X.indices.tolist() == [6]


def test_file_without_feature_0_keeps_its_ids(tmp_path):
    """Else a file without feature 0 would not fit a model that was trained on one that has it."""
    (tmp_path / "test.svm").write_text("1 2:1\n")
    for read_it in (read, read_svmlight):
        assert read_it(tmp_path / "test.svm", n_features=7).X.indices.tolist() == [2]
    (batch,) = iter_batches(tmp_path / "test.svm", batch_rows=10, n_features=7, n_labels=2)
    assert batch.X.indices.tolist() == [2]


def test_progress_counts_all_bytes(tmp_path: Path):
    path = tmp_path / "data.gz"
    path.write_bytes(COMPRESSORS["gz"](sample()))
    seen: list[int] = []
    read(path, on_bytes=seen.append)
    assert sum(seen) == path.stat().st_size


def test_data_error_pickles():
    error = pickle.loads(pickle.dumps(DataError("a.txt", 3, "broken")))
    assert (str(error), error.path, error.line) == ("a.txt, line 3: broken", "a.txt", 3)


@pytest.mark.parametrize(
    "options",
    [{"n_features": -1}, {"n_labels": 2**31}, {"threads": 0}, {"zero_based": "maybe"}],
)
def test_rejects_wrong_arguments(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        read_svmlight(io.BytesIO(b"1 1:1\n"), **options)


@pytest.mark.parametrize(
    "text", [b"1 3 2\n1 0:0.5\n", b"1 0:0.5\n1 2:1\n", b"1 0:0.5"], ids=["XMC", "svmlight", "short"]
)
def test_a_byte_order_mark_is_skipped(text: bytes) -> None:
    plain, marked = read(io.BytesIO(text)), read(io.BytesIO(b"\xef\xbb\xbf" + text))
    np.testing.assert_array_equal(marked.X.toarray(), plain.X.toarray())
    np.testing.assert_array_equal(marked.Y.toarray(), plain.Y.toarray())
