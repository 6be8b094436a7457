"""What bad input gets: an error that names the file, the line, what was found and what to do."""

from __future__ import annotations

import io
import os
import random
import sys
import zlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import zstandard

from sparsenet.data import DataError, Dataset, iter_batches, read, read_svmlight, read_xmc
from tests.support.data_cases import BACKEND_PARAMS, BACKENDS, COMPRESSORS, in_blocks, same, use_backend


@pytest.fixture(params=BACKEND_PARAMS, autouse=True)
def reader_backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    use_backend(monkeypatch, request.param)
    return request.param


def write(folder: Path, data: bytes, name: str = "bad.txt") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


XMC_ERRORS = {
    # body after a header of 3 points, 5 features and 4 labels: line and words of the error
    "more rows": (b"1 1:1\n2 2:1\n3 3:1\n0 0:1\n", 5, "announces 3 points, and here is one more; correct line 1"),
    "fewer rows": (b"1 1:1\n2 2:1\n", 3, "announces 3 points, but the file ends after 2; fetch it again"),
    "label out of range": (b"1 1:1\n4 1:1\n", 3, "label 4 is out of range: ids go from 0 to 3 (line 1 announces 4"),
    "negative label": (b"-1 1:1\n", 2, "label -1 is negative"),
    "huge label": (b"4294967296 1:1\n", 2, "label 4294967296 is beyond 2^31"),
    "huger label": (b"1,99999999999999999999999 1:1\n", 2, "label 99999999999999999999999 is beyond 2^31"),
    "repeated label": (b"1 1:1\n3,1,3 1:1\n", 3, "label 3 occurs twice; keep one"),
    "no label": (b"cat 1:1\n", 2, "label 'cat' is not an integer"),
    "fractional label": (b"1.5 1:1\n", 2, "label '1.5' is not an integer"),
    "empty label": (b"1,,2 1:1\n", 2, "label '' is not an integer"),
    "trailing comma": (b"1, 1:1\n", 2, "label '' is not an integer"),
    "glued": (b"1,2:3\n", 2, "label '2:3' is not an integer"),
    "feature out of range": (b"0 5:1\n", 2, "feature 5 is out of range: ids go from 0 to 4 (line 1 announces 5"),
    "negative feature": (b"0 -1:1\n", 2, "feature -1 is negative"),
    "feature that wraps around": (b"0 4294967297:1\n", 2, "feature 4294967297 is beyond 2^31"),
    "feature that wraps around twice": (b"0 18446744073709551617:1\n", 2, "feature 18446744073709551617 is beyond"),
    "repeated feature": (b"0 3:1 1:2 3:4\n", 2, "feature 3 occurs twice; keep one of them, or their sum"),
    "repeated in a row": (b"0 3:1 3:4\n", 2, "feature 3 occurs twice"),
    "no feature": (b"0 3:1 4\n", 2, "'4' is not a feature; write features as id:value"),
    "comment": (b"0 3:1 # why\n", 2, "'#' is not a feature"),
    "fractional feature": (b"0 3.0:1\n", 2, "feature id '3.0' is not an integer"),
    "nan": (b"0 3:nan\n", 2, "value nan of feature 3 is not finite"),
    "inf": (b"0 3:-Inf\n", 2, "value -Inf of feature 3 is not finite"),
    "too large": (b"0 3:1e39\n", 2, "value 1e39 of feature 3 is beyond 3.4e38"),
    "too large for a double": (b"0 3:-1e999\n", 2, "value -1e999 of feature 3 is beyond 3.4e38"),
    "by a hair": (b"0 3:340282356779733661637539395458142568448\n", 2, "is beyond 3.4e38"),
    "no number": (b"0 3:one\n", 2, "value 'one' of feature 3 is not a number"),
    "no value": (b"0 3:\n", 2, "value '' of feature 3 is not a number"),
    "underscore": (b"0 3:1_0\n", 2, "value '1_0' of feature 3 is not a number"),
    "hexadecimal": (b"0 3:0x1\n", 2, "value '0x1' of feature 3 is not a number"),
    "no exponent": (b"0 3:1e\n", 2, "value '1e' of feature 3 is not a number"),
    "two points": (b"0 3:1.2.3\n", 2, "value '1.2.3' of feature 3 is not a number"),
    "NUL": (b"0 3:1\x00 4:1\n", 2, r"value '1\x00' of feature 3 is not a number"),
    "not UTF-8": (b"0 3:1\n\xff\xfe\n", 3, "is not an integer"),
    "the first error counts": (b"0 3:1\n1 7:1\n9 1:1\n", 3, "feature 7 is out of range"),
}  # fmt: skip


@pytest.mark.parametrize("case", XMC_ERRORS)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_xmc_errors_name_the_file_and_line(tmp_path, case, ending):
    body, line, words = XMC_ERRORS[case]
    path = write(tmp_path, b"3 5 4\n" + body)
    path.write_bytes(path.read_bytes().replace(b"\n", ending.encode()))
    for reader in (read_xmc, read, lambda p: list(iter_batches(p, batch_rows=1))):
        with pytest.raises(DataError) as caught:
            reader(path)
        assert str(caught.value).startswith(f"{path}, line {line}: ")
        assert words in str(caught.value)
        assert caught.value.line == line


HEADERS = {
    "1 2": "expected the header `points features labels`, found '1 2'",
    "1 2 3 4": "expected the header",
    "a b c": "expected the header",
    "-1 2 3": "announces a negative count",
    "": "expected the header",
    "1 99999999999 3": "the header announces 99999999999 features, but 2^31 - 1 at most are possible",
    "1 2 99999999999": "the header announces 99999999999 labels",
    "99999999999999999999 3 2": "the header announces 99999999999999999999 points, but 2^62 at most are possible",
    f"{2**63 - 1} 3 2": f"the header announces {2**63 - 1} points, but 2^62 at most are possible",
    f"1 {2**64} 2": f"the header announces {2**64} features, but 2^31 - 1 at most are possible",
    "1 3 2" + " " * 5000: "expected the header `points features labels`, found 4096 bytes and no end",
    "1 3 2" + " " * 5000 + "7": "expected the header `points features labels`, found 4096 bytes and no end",
}


@pytest.mark.parametrize("header", HEADERS)
def test_refuses_wrong_headers(tmp_path, header):
    with pytest.raises(DataError) as caught:
        read_xmc(write(tmp_path, header.encode() + b"\n1 1:1\n"))
    assert HEADERS[header] in str(caught.value)
    assert caught.value.line == 1


def test_a_header_of_too_many_points_allocates_nothing(tmp_path):
    with pytest.raises(DataError, match="announces 999999999999 points, but the file ends after 1"):
        read_xmc(write(tmp_path, b"999999999999 2 3\n1 1:1\n"))


def test_refuses_headers_wider_than_expected():
    with pytest.raises(DataError, match="announces 9 features, but at most 5 are expected"):
        read_xmc(io.BytesIO(b"1 9 3\n1 1:1\n"), n_features=5)
    with pytest.raises(DataError, match="announces 3 labels, but at most 2 are expected"):
        read_xmc(io.BytesIO(b"1 9 3\n1 1:1\n"), n_labels=2)


SVMLIGHT_ERRORS = {
    "no label": (b"1 1:1\ncat 1:1\n", {}, 2, "label 'cat' is not a finite number"),
    "nan label": (b"nan 1:1\n", {}, 1, "label 'nan' is not a finite number"),
    "repeated label": (b"# comment\n\n1.5,1.5 1:1\n", {}, 3, "label 1.5 occurs twice"),
    "repeated feature": (b"1 2:1 1:1 2:1\n", {}, 1, "feature 2 occurs twice"),
    "huge feature": (b"1 2147483647:1\n", {}, 1, "feature 2147483647 is beyond 2^31"),
    "two labels": (b"1 1:1\n1,2 1:1\n", {"multilabel": False}, 2, "not exactly one label"),
    "none": (b"1:1\n", {"multilabel": False}, 1, "not exactly one label"),
    "from 0": (b"1 0:1\n", {"zero_based": False}, 1, "feature 0 where ids count from 1; read the file with zero_based"),
    "too wide": (b"1 5:1\n", {"zero_based": True, "n_features": 5}, 1, "ids go from 0 to 4 (n_features=5)"),
    "too wide from 1": (b"1 6:1\n", {"n_features": 5}, 1, "feature 6 is out of range"),
    "too many labels": (b"0 1:1\n3 1:1\n", {"n_labels": 3}, 2, "label 3 is out of range: ids go from 0 to 2"),
    "bad query": (b"1 qid:x 1:1\n", {}, 1, "feature id 'qid' is not an integer"),
    "whole labels that would be one": (
        b"1 1:1\n9007199254740993 1:1\n",
        {},
        2,
        "label 9007199254740993 is beyond 2^53",
    ),
    "negative ones": (b"1,-9007199254740992 1:1\n", {}, 1, "beyond 2^53, where whole numbers are rounded; number"),
    "long ones": (b"1" * 300 + b" 1:1\n", {"multilabel": False}, 1, "... is beyond 2^53"),
    "no labels": (b"1:1\n1 0:1\n", {"n_labels": 0}, 2, "label 1 is out of range: there are no labels (n_labels=0)"),
    "no features": (
        b"1 0:1\n",
        {"n_features": 0},
        1,
        "feature 0 is out of range: there are no features (n_features=0)",
    ),
    "only comments": (b"# one\n\n", {}, 3, "without a single point"),
    "a header": (b"3 4 5\n1 1:1\n", {}, 1, "'4' is not a feature"),
}


@pytest.mark.parametrize("case", SVMLIGHT_ERRORS)
def test_svmlight_errors_name_the_file_and_line(tmp_path, case):
    text, options, line, words = SVMLIGHT_ERRORS[case]
    path = write(tmp_path, text)
    with pytest.raises(DataError) as caught:
        read_svmlight(path, **options)
    assert words in str(caught.value)
    assert caught.value.line == line
    assert caught.value.path == str(path)


def test_refuses_a_width_that_the_last_line_contradicts(tmp_path):
    path = write(tmp_path, b"1 1:1\n1 5:1\n1 0:1\n")
    with pytest.raises(DataError, match="feature 5 of point 2 is out of range: feature 0 occurs"):
        read_svmlight(path, n_features=5, zero_based="auto")
    with pytest.raises(DataError, match=r"feature 0 of point 2 is out of range: there are no features \(n_features=0"):
        read_svmlight(write(tmp_path, b"1\n1 0:1\n"), n_features=0, zero_based="auto")
    assert read_svmlight(write(tmp_path, b"1\n"), n_features=0, zero_based="auto").X.shape == (1, 0)


GOOD_THEN_BAD = b"0 1:1\n1 2:1\n0 3:1\n1 x\n1 4:1\n"


@pytest.mark.parametrize("header", [b"5 5 2\n", b""])
@pytest.mark.parametrize("block_bytes", [8, 2 << 20])
@pytest.mark.parametrize(("batch_rows", "lengths"), [(1, [1, 1, 1]), (2, [2, 1]), (9, [3])])
def test_yields_the_points_before_an_error(header, block_bytes, batch_rows, lengths):
    source = in_blocks(header + GOOD_THEN_BAD, block=block_bytes)
    batches = iter_batches(source, batch_rows=batch_rows, n_features=5, n_labels=2)
    found = [next(batches) for _ in lengths]
    assert [batch.n_points for batch in found] == lengths
    assert [feature for batch in found for feature in batch.X.indices] == [1, 2, 3]
    with pytest.raises(DataError, match=f"line {5 if header else 4}: 'x' is not a feature"):
        next(batches)


def test_yields_the_batches_before_a_truncation():
    broken = COMPRESSORS["gz"](TEXT)[:-20]
    batches = iter_batches(in_blocks(broken, block=100), batch_rows=1)
    assert next(batches).X.indices.tolist() == [0]
    with pytest.raises(DataError, match="cut short"):
        list(batches)


@pytest.mark.parametrize("zero_based", ["auto", None])
def test_batches_need_an_explicit_zero_based(zero_based):
    with pytest.raises(ValueError, match=f"zero_based must be True or False in batches, got {zero_based!r}"):
        iter_batches(io.BytesIO(b"1 1:1\n"), batch_rows=1, zero_based=zero_based)


@pytest.mark.parametrize("reader", [read, read_xmc, read_svmlight, lambda p: list(iter_batches(p, batch_rows=1))])
def test_refuses_empty_files(tmp_path, reader):
    for compress in COMPRESSORS.values():
        with pytest.raises(DataError, match="the file is empty"):
            reader(write(tmp_path, compress(b"")))


def test_names_files_that_cannot_be_opened(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="missing"):
        read(tmp_path / "missing.txt")
    with pytest.raises(IsADirectoryError, match=tmp_path.name):
        read(tmp_path)

    def refuse(path, *args, **kwargs):
        raise PermissionError(13, os.strerror(13), os.fspath(path))

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(PermissionError, match="secret"):
        read(tmp_path / "secret.txt")


def test_a_failing_disk_names_the_file():
    class Broken(io.RawIOBase):
        name = "broken.txt"

        def readable(self) -> bool:
            return True

        def readinto(self, buffer) -> int:
            raise OSError(5, "Input/output error")

    with pytest.raises(OSError, match=r"broken\.txt"):
        read(Broken())


@pytest.mark.parametrize("method", ["read", "readinto"])
@pytest.mark.parametrize("first", [b"", b"1 2 1\n"])
def test_a_stream_that_does_not_wait_is_refused(method, first):
    given = [first] if first else []

    def fill(buffer):
        if not given:
            return None
        text = given.pop()
        buffer[: len(text)] = text
        return len(text)

    stream = SimpleNamespace(name="pipe", read=lambda n: given.pop() if given else None)
    if method == "readinto":
        stream.readinto = fill
    with pytest.raises(BlockingIOError, match=r"nothing to read yet, but the stream does not wait for more.*'pipe'"):
        read_xmc(stream)


TEXT = b"400 9 9\n" + b"".join(b"%d %d:%d\n" % (i % 9, i * i % 9, i * i * i) for i in range(400))


@pytest.mark.parametrize("compression", [name for name in COMPRESSORS if name != "plain"])
def test_refuses_truncated_files(tmp_path, compression):
    whole = COMPRESSORS[compression](TEXT)
    for n in {*range(12, len(whole), 97), len(whole) - 1}:
        with pytest.raises(DataError, match=r"ends early: the file was cut short|damaged") as caught:
            read(write(tmp_path, whole[:n]))
        assert caught.value.line is not None


@pytest.mark.parametrize("compression", [name for name in COMPRESSORS if name != "plain"])
def test_corrupt_files_are_errors_or_unchanged_data(tmp_path, compression):
    whole = COMPRESSORS[compression](TEXT)
    expected = read_xmc(io.BytesIO(TEXT))
    for n in range(20, len(whole), 41):
        damaged = bytearray(whole)
        damaged[n] ^= 0x10
        try:
            found = read(write(tmp_path, bytes(damaged)))
        except DataError as error:
            assert str(tmp_path) in str(error)  # noqa: PT017
        else:  # a byte that does not matter, such as the time in a gzip header
            assert same(found, expected)


def xz_with_dictionary(bits: int) -> bytes:
    """Return a file whose header declares a dictionary of 2 to the power of 12 + `bits` / 2 bytes; 40 bits: 4 GB."""
    whole = bytearray(COMPRESSORS["xz"](TEXT))
    assert whole[12:16] == b"\x02\x00\x21\x01"  # the header of the block: its size, flags, LZMA2, one byte that follows
    whole[16] = bits
    whole[20:24] = zlib.crc32(whole[12:20]).to_bytes(4, "little")
    return bytes(whole)


def test_an_xz_dictionary_beyond_memory_is_refused(tmp_path, monkeypatch):
    assert read(write(tmp_path, xz_with_dictionary(24))).n_points == 400  # 16 MB
    monkeypatch.setattr("sparsenet.data.codecs.available_memory", lambda: 1 << 40)
    large = write(tmp_path, xz_with_dictionary(40))
    words = (
        "line 1: the xz data asks for a dictionary of 4,294,967,295 bytes, which is beyond the limit of 2,147,483,648"
    )
    with pytest.raises(DataError, match=words) as caught:
        read(large)
    assert caught.value.path == str(large)
    monkeypatch.setattr("sparsenet.data.codecs.available_memory", lambda: 1 << 20)
    assert read(write(tmp_path, xz_with_dictionary(28))).n_points == 400  # 64 MB, as xz -9 writes
    with pytest.raises(DataError, match="a dictionary of 268,435,456 bytes, which is beyond the limit of 134,217,728"):
        read(write(tmp_path, xz_with_dictionary(32)))
    with pytest.raises(DataError, match="a dictionary of 4,294,967,295 bytes"):
        read(write(tmp_path, COMPRESSORS["xz"](TEXT[:900]) + xz_with_dictionary(40)))


def test_a_zstandard_window_beyond_memory_is_refused(tmp_path):
    for log in (27, 28, 31):
        settings = zstandard.ZstdCompressionParameters(window_log=log, enable_ldm=False)
        stream = zstandard.ZstdCompressor(compression_params=settings).compressobj()
        path = write(tmp_path, stream.compress(TEXT) + stream.flush())
        if log == 27:
            assert read(path).n_points == 400
            continue
        with pytest.raises(DataError, match=rf"line 1: the Zstandard data asks for a dictionary of {2**log:,} bytes"):
            read(path)
    whole = b"\x28\xb5\x2f\xfd\xa0" + (3 << 30).to_bytes(4, "little") + b"\x01\0\0"  # one segment of 3 GB
    with pytest.raises(DataError, match="the Zstandard data asks for a dictionary of 3,221,225,472 bytes"):
        read(write(tmp_path, whole))


@pytest.mark.parametrize("compression", [name for name in COMPRESSORS if name != "plain"])
def test_reads_concatenated_compressed_members(tmp_path, compression):
    compress = COMPRESSORS[compression]
    parts = [TEXT[:1000], b"", TEXT[1000:1003], TEXT[1003:]]
    joined = b"".join(map(compress, parts))
    expected = read_xmc(io.BytesIO(TEXT))
    assert same(read(write(tmp_path, joined)), expected)
    assert same(read(write(tmp_path, joined + b"\0" * 64)), expected)
    with pytest.raises(DataError, match="is followed by something else"):
        read(write(tmp_path, joined + b"something else"))
    with pytest.raises(DataError, match="cut short"):
        read(write(tmp_path, joined + compress(b"\n\n\n")[:-3]))


def test_refuses_zip_archives(tmp_path):
    with pytest.raises(DataError, match="this is a zip archive; unpack it"):
        read(write(tmp_path, b"PK\x03\x04" + b"\0" * 60))


def test_missing_zstandard_package_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.setitem(sys.modules, "compression", None)
    with pytest.raises(ImportError, match=r"pip install sparsenet\[zstd\]"):
        read(write(tmp_path, COMPRESSORS["zst"](TEXT)))


def test_refuses_overlong_lines():
    row = " ".join(f"{i}:1" for i in range(70_000))  # more than half a MB
    sizes = {"block": 100, "line": 1 << 20}
    assert read_svmlight(in_blocks(f"1 1:1\n2 {row}\n".encode(), **sizes)).X.nnz == 70_001
    with pytest.raises(DataError, match="line 2: the line is longer than 1 MB"):
        read_svmlight(in_blocks(f"1 1:1\n2 {row} {row}\n".encode(), **sizes))


def test_a_line_of_100_mb():
    n = 500_000
    pairs = " ".join(f"{i}:0.5" for i in range(n)).encode()
    line = b"3 " + pairs + b" " * (100_000_000 - len(pairs)) + b"\n"
    data = read_svmlight(io.BytesIO(b"1 1:1\n" + line + b"2 2:1\n"), zero_based=True)
    assert np.diff(data.X.indptr).tolist() == [1, n, 1]


def test_random_damage_is_an_error_or_data(reader_backend):
    dice = random.Random(7)
    texts = {read_xmc: TEXT[:300].replace(b"400", b"34", 1), read_svmlight: b"1,2 qid:1 1:1.5 2:-3e2 # c\n" * 9}
    alphabet = b"0123456789:,.-+eE# \t\r\n\0q\xffnaif"
    for reader, text in texts.items():
        for _ in range(700):
            damaged = bytearray(text)
            for _ in range(dice.randint(1, 4)):
                place = dice.randrange(len(damaged))
                damaged[place : place + dice.randint(0, 2)] = bytes(dice.choices(alphabet, k=dice.randint(0, 3)))
            check_outcome(reader, bytes(damaged))


def check_outcome(reader, text: bytes) -> None:
    """Both backends agree on a text, whatever is in it, to the letter of the error."""
    outcomes = []
    for reader_backend in BACKENDS:
        with pytest.MonkeyPatch.context() as patch:
            use_backend(patch, reader_backend)
            try:
                outcomes.append(reader(io.BytesIO(text)))
            except DataError as error:
                outcomes.append(str(error))
    for found in outcomes:
        first = outcomes[0]
        assert same(found, first) if isinstance(found, Dataset) and isinstance(first, Dataset) else found == first
        if isinstance(found, Dataset):
            assert np.isfinite(found.X.data).all()
            found.X.check_format(full_check=True)
            found.Y.check_format(full_check=True)


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("header", ["20,30,40", " 20, 30, 40 "])
def test_a_header_with_commas_is_pointed_out(tmp_path, header, ending):
    rows = "".join(f"{i % 7} {i}:1{ending}" for i in range(20))
    path = write(tmp_path, f"{header}{ending}{rows}".replace(", ", ",").encode())
    words = r"bad.txt, line 1: three numbers were read as a point with three labels, but 20 points follow, as many as"
    with pytest.warns(UserWarning, match=words) as said:
        assert read(path).n_points == 21
    assert len(said) == 1
    with pytest.warns(UserWarning, match=words):
        assert len(list(iter_batches(path, batch_rows=6, n_features=99, n_labels=99))) == 4


@pytest.mark.parametrize(
    ("first", "n"),
    [
        ("21,30,40", 20),
        ("19,30,40", 20),
        ("20,30,40 1:1", 20),
        ("20,30", 20),
        ("20,30,40,50", 20),
        ("20,30,4.5", 20),
        ("3,4,5", 3),
    ],
)
def test_point_with_three_labels_is_not_taken_for_a_header(tmp_path, first, n):
    rows = "".join(f"{i % 7} {i}:1\n" for i in range(n))
    assert read(write(tmp_path, f"{first}\n{rows}".encode())).n_points == n + 1  # warnings are errors
    assert read(write(tmp_path, f"{rows}{n},30,40\n".encode())).n_points == n + 1


@pytest.mark.parametrize("path", ["points.txt", "points.npz"])
def test_read_names_an_option_that_points_do_not_take(tmp_path, path):
    (tmp_path / path).write_text("0 0:1\n")
    with pytest.raises(TypeError, match=rf"{path} is read as sparse points, which take no 'text': .*format='csv'"):
        read(tmp_path / path, text="question")
