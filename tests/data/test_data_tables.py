"""CSV, TSV and JSONL: texts, labels and numbers, and what bad tables get."""

from __future__ import annotations

import ast
import csv
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet as pq

from sparsenet.data import DataError, TextDataset, iter_table, read, read_table
from sparsenet.data.sources import ReadSizes, Source
from sparsenet.data.table_rows import MISSING
from tests.support.data_cases import COMPRESSORS, in_blocks, time_ratio

cells = st.text(st.characters(exclude_characters="\0\r", exclude_categories=["Cs"]), max_size=12)
#: Labels that mean a missing value are warned of: a test of their own has those.
names = cells.filter(lambda cell: cell.strip() not in MISSING)


@given(st.lists(st.tuples(cells, names), min_size=1), st.sampled_from(["\n", "\r\n"]))
def test_csv_round_trip(rows, newline):
    file = io.StringIO()
    writer = csv.writer(file, lineterminator=newline)
    writer.writerows([("text", "label"), *rows])
    data = read_table(io.BytesIO(file.getvalue().encode()), format="csv")
    assert data.texts == [text for text, _ in rows]
    assert data.labels == [[label.strip()] if label.strip() else [] for _, label in rows]


@given(st.lists(st.tuples(cells, st.lists(names.filter(str.strip), unique_by=str.strip)), min_size=1))
def test_jsonl_round_trip(rows):
    lines = "".join(json.dumps({"text": text, "label": labels, "more": 1}) + "\n" for text, labels in rows)
    data = read(io.BytesIO(lines.encode()), "jsonl")
    assert isinstance(data, TextDataset)
    assert data.texts == [text for text, _ in rows]
    assert data.labels == [[label.strip() for label in labels] for _, labels in rows]


@given(st.lists(st.tuples(*[st.text("ab \"',é", max_size=9)] * 2).filter(any), min_size=1))
def test_tsv_takes_quotes_as_they_are(rows):
    lines = "".join(f"{label}\t{text}\n" for label, text in rows)
    data = read_table(io.BytesIO(lines.encode()), format="tsv", text=1, target=0, quotes=False)
    assert data.texts == [text for _, text in rows]


@given(st.lists(st.tuples(*[st.text("ab \t\"',é", max_size=9)] * 2).filter(any), min_size=1))
def test_reads_tsv_as_other_programs_quote_it(rows):
    """What csv, and so pandas, writes with a tab between."""
    file = io.StringIO()
    csv.writer(file, delimiter="\t", lineterminator="\n").writerows(rows)
    data = read_table(io.BytesIO(file.getvalue().encode()), format="tsv", text=1, target=0)
    assert data.texts == [text for _, text in rows]


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ('"a ""b"" c"\tx', ['a "b" c', "x"]),
        ('"a\tb"\tx', ["a\tb", "x"]),
        ('a "b"\t"x"', ['a "b"', "x"]),
        ('"a" or "b"\tx', ['"a" or "b"', "x"]),
        ('"a\t"x', ['"a', '"x']),
        ('"\tx', ['"', "x"]),
        ('""\tx', ["", "x"]),
        ('"a\t', ['"a', ""]),
    ],
)
def test_tsv_fields_may_be_quoted_or_literal(line, fields):
    def cells(**options):
        data = read_table(io.BytesIO(line.encode()), format="tsv", text=0, target=1, **options)
        return [data.texts[0], *(data.labels[0] or [""])]

    assert cells() == fields
    if line.count("\t") == 1:
        assert cells(quotes=False) == line.split("\t")


@given(st.lists(st.tuples(cells, names), min_size=1), st.sampled_from(["|", ";", "\t", "§", " "]))
def test_any_delimiter_and_encoding_round_trip(rows, delimiter):
    file = io.StringIO()
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    writer.writerows([("text", "label"), *rows])
    how = {"format": "csv", "delimiter": delimiter}
    written = file.getvalue()
    for encoding in ("utf-8", "utf-8-sig", "gb18030", "latin-1"):
        try:
            raw = written.encode(encoding)
        except UnicodeEncodeError:
            continue
        data = read_table(io.BytesIO(raw), encoding=encoding, **how)
        assert data.texts == [text for text, _ in rows]
        assert data.labels == [[label.strip()] if label.strip() else [] for _, label in rows]


def test_a_table_in_another_encoding(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("text;label\nnaïve, très;é\n5 € “off”;b\n".encode("cp1252"))
    data = read_table(path, delimiter=";", encoding="cp1252")
    assert (data.texts, data.labels) == (["naïve, très", "5 € “off”"], [["é"], ["b"]])
    assert [b.texts for b in iter_table(path, batch_rows=1, delimiter=";", encoding="cp1252")] == [
        [t] for t in data.texts
    ]
    with pytest.raises(
        DataError,
        match=r"line 2: byte 0xef at column 3 is not UTF-8; .* or pass its encoding, such as encoding='latin-1'",
    ):
        read_table(path, delimiter=";")
    with pytest.raises(DataError, match="line 2: byte 0xef at column 3 is not ascii; "):
        read_table(path, delimiter=";", encoding="ascii")
    with pytest.raises(DataError, match=r"line 1: .* seem to be separated by ';': read it with delimiter=';'"):
        read_table(path, encoding="cp1252")


@pytest.mark.parametrize("said", [None, ",", ";", "|", "\t"])
@pytest.mark.parametrize("written", [",", ";", "|", "\t"])
@pytest.mark.parametrize("format", ["csv", "tsv"])
def test_suggested_delimiter_works(format, written, said):
    raw = f"text{written}label\na b{written}x\n".encode()
    if written == (said or {"csv": ",", "tsv": "\t"}[format]):
        assert read_table(io.BytesIO(raw), format=format, delimiter=said).texts == ["a b"]
        return
    with pytest.raises(DataError, match="read it with delimiter=") as caught:
        read_table(io.BytesIO(raw), format=format, delimiter=said)
    advised = ast.literal_eval(str(caught.value).partition("read it with delimiter=")[2])
    assert read_table(io.BytesIO(raw), format=format, delimiter=advised).texts == ["a b"]


def test_suggests_no_encoding_for_formats_that_have_one():
    with pytest.raises(DataError, match=r"is not UTF-8; convert the file, for instance with iconv$"):
        read_table(io.BytesIO(b'{"text": "na\xefve", "label": "x"}\n'), format="jsonl")


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"delimiter": 5}, "delimiter must be one character, no quote and no line end, got 5"),
        ({"delimiter": b","}, "delimiter must be one character"),
        ({"delimiter": "\0"}, "delimiter must be one character"),
        ({"encoding": "a\0b"}, "encoding must be one that Python knows"),
        ({"encoding": 5}, "encoding must be one that Python knows"),
        ({"delimiter": ""}, "delimiter must be one character, no quote and no line end, got ''"),
        ({"delimiter": ", "}, "delimiter must be one character"),
        ({"delimiter": '"'}, "delimiter must be one character"),
        ({"delimiter": "\n"}, "delimiter must be one character"),
        ({"encoding": "latin-99"}, "encoding must be one that Python knows, such as .*, got 'latin-99'"),
        ({"encoding": "base64"}, "encoding must be one that Python knows"),
        ({"encoding": "utf-16"}, "encoding='utf-16' has other line ends than those of ASCII: convert"),
        ({"encoding": "cp037"}, "encoding='cp037' has other line ends"),
    ],
)
def test_rejects_invalid_delimiters_and_encodings(said, message):
    with pytest.raises(ValueError, match=message):
        read_table(io.BytesIO(b"text,label\n"), format="csv", **said)


def test_tsv_field_over_two_lines():
    lines = b'x\ta\ny\t"b\nc"\n'
    with pytest.raises(DataError, match=r"line 3: 1 fields where the first row has 2; .* quotes=True"):
        read_table(io.BytesIO(lines), format="tsv", text=1, target=0)
    with pytest.raises(DataError, match=r"line 2: 1 fields .* does not close in its line: .* quotes=True"):
        read_table(io.BytesIO(b'a\tx\n"b\nc"\ty\n'), format="tsv", text=0, target=1)
    assert read_table(io.BytesIO(lines), format="tsv", text=1, target=0, quotes=True).texts == ["a", "b\nc"]


@pytest.mark.parametrize("compression", COMPRESSORS)
@pytest.mark.parametrize("suffix", ["tsv", "csv", "jsonl"])
def test_formats_by_name(tmp_path, compression, suffix):
    rows = {
        "tsv": 'text\tlabel\n"a, b\t1\nc\t\n',
        "csv": 'text,label\n"""a, b",1\nc,\n',
        "jsonl": '{"text": "\\"a, b", "label": 1}\n{"label": null, "text": "c"}\n',
    }
    name = f"data.{suffix}" + ("" if compression == "plain" else f".{compression}")
    path = tmp_path / name
    path.write_bytes(COMPRESSORS[compression](rows[suffix].encode()))
    data = read(path)
    assert isinstance(data, TextDataset)
    assert (data.texts, data.labels) == (['"a, b', "c"], [["1"], []])
    with path.open("rb") as file:
        assert read(file).texts == data.texts


def test_columns_are_found_by_name():
    table = b"\xef\xbb\xbfid,title,tags,price,stock\n1,one,a|b| c ,1.5,-2\n\n2,two,,1e3,0\n"
    options = {"format": "csv", "text": "title", "target": "tags", "label_delimiter": "|"}
    data = read_table(io.BytesIO(table), features=["price", "stock", "id"], **options)
    assert data.texts == ["one", "two"]
    assert data.labels == [["a", "b", "c"], []]
    assert data.features.dtype == np.float32
    assert data.features.tolist() == [[1.5, -2, 1], [1000, 0, 2]]
    assert data.n_points == 2
    assert repr(data) == "<TextDataset of 2 points: texts, labels, features>"
    by_position = read_table(io.BytesIO(table), format="csv", header=True, text=1, target=None, features=[3])
    assert (by_position.texts, by_position.labels) == (["one", "two"], None)
    numbers = read_table(io.BytesIO(table), format="csv", text=None, target=None, features=["id"])
    assert (numbers.texts, numbers.features.tolist()) == (None, [[1], [2]])
    assert repr(numbers) == "<TextDataset of 2 points: features>"


def test_json_labels_become_strings():
    labels = ["one", 1, 2.5, True, ["a", 1, False], [], None, ""]
    lines = "\n".join(json.dumps({"text": "", "label": label}) for label in labels)
    data = read_table(io.BytesIO(lines.encode()), format="jsonl")
    assert data.labels == [["one"], ["1"], ["2.5"], ["true"], ["a", "1", "false"], [], [], []]


@pytest.mark.parametrize(
    ("format", "text", "n_skipped"),
    [
        ("csv", 'text,label\n\none,x\n"tw\n\no",y\n\n', 2),
        ("tsv", "text\tlabel\none\tx\n\n\t\n", 1),
        ("jsonl", '\n{"text": "one", "label": "x"}\n \n{"text": "two", "label": []}\n', 2),
        ("lines", "__label__x one\n\t\n\ntwo\n", 2),
    ],
)
def test_blank_lines_are_skipped_and_counted(format, text, n_skipped):
    counts: list[int] = []
    [batch] = iter_table(io.BytesIO(text.encode()), batch_rows=9, format=format, on_skipped=counts.append)
    assert [len(own) for own in batch.labels] == [1, int(format == "csv")]
    assert sum(counts) == n_skipped


def test_batches_equal_the_whole_table():
    text = "text,label\n" + "".join(f'"row\n{i}",{i % 3}\n' for i in range(25))
    whole = read_table(io.BytesIO(text.encode()), format="csv")
    batches = list(iter_table(in_blocks(text.encode(), block=3), batch_rows=7, format="csv"))
    assert [batch.n_points for batch in batches] == [7, 7, 7, 4]
    assert [text for batch in batches for text in batch.texts or []] == whole.texts
    assert [labels for batch in batches for labels in batch.labels or []] == whole.labels


ERRORS = {
    # format, text, options: line and words of the error
    "missing column": ("csv", "txt,label\na,b\n", {}, 1, "there is no column 'text'; the first row holds 'txt'"),
    "no header": ("tsv", "pos\tgood film\n", {}, 1, "give positions if there is no header"),
    "old line ends": ("csv", "text,label\ra,b\rc,d\n", {}, 1, "seem to end in carriage returns alone: write"),
    "missing position": ("tsv", "a\tb\n", {"text": 2, "target": 0}, 1, "there is no column 2: there are 2, counted"),
    "column twice": ("csv", "text,label,text\n", {}, 1, "column 'text' occurs twice"),
    "too many fields": ("csv", "text,label\na,b\nc,d,e\n", {}, 3, "3 fields where the first row has 2"),
    "too few fields": ("csv", "text,label\na,b\n\nc\n", {}, 4, "1 fields where the first row has 2"),
    "open quote": ("csv", 'text,label\na,b\n"c,d\ne,f\n', {}, 3, "a quote opens here and does not close; close it"),
    "open quote on a later line": ("csv", 'text,label\n"a\nb","c\n', {}, 3, "a quote opens here"),
    "after a quote": ("csv", 'text,label\n"a"b,c\n', {}, 2, "'b,c' follows a closing quote"),
    "a repeated label": ("csv", "text,label\na,x;y;x\n", {"label_delimiter": ";"}, 2, "holds the label 'x' twice"),
    "no number": ("csv", "text,n\na,one\n", {"features": ["n"], "target": None}, 2, "must hold a number, found 'one'"),
    "missing number": ("csv", "text,n\na,\n", {"features": ["n"], "target": None}, 2, "must hold a number, found ''"),
    "nan": ("csv", "text,n\na,nan\n", {"features": ["n"], "target": None}, 2, "'n' holds nan, which is not a finite"),
    "1e39": ("csv", "text,n\na,1e39\n", {"features": ["n"], "target": None}, 2, "'n' holds 1e39, which is not a"),
    "broken JSON": ("jsonl", '{"text": "a", "label": 1}\n{"text": \n', {}, 2, "broken JSON: Expecting value at column"),
    "not an object": ("jsonl", "[1]\n", {}, 1, "expected a JSON object, found '[1]'"),
    "missing key": ("jsonl", '{"text": "a", "tag": 1}\n', {}, 1, "there is no key 'label'; there are 'text', 'tag'"),
    "text that is none": ("jsonl", '{"text": 3, "label": 1}\n', {}, 1, "column 'text' must hold texts, got 3"),
    "label that is none": ("jsonl", '{"text": "", "label": {"a": 1}}\n', {}, 1, "'label' must hold labels"),
    "infinite label": ("jsonl", '{"text": "", "label": 1e400}\n', {}, 1, "'label' must hold labels, texts or numbers"),
    "one of several": ("jsonl", '{"text": "", "label": [1, -1e400]}\n', {}, 1, "got -inf"),
    "nan label": ("jsonl", '{"text": "", "label": NaN}\n', {}, 1, "'label' must hold labels"),
    "deep JSON": ("jsonl", "[" * 200_000 + "\n", {}, 1, "JSON that cannot be read"),
    "boolean": ("jsonl", '{"text": "", "n": true}\n', {"features": ["n"], "target": None}, 1, "'n' must hold a number"),
    "large integer": ("jsonl", f'{{"text": "", "n": {10**400}}}\n', {"features": ["n"], "target": None}, 1, "number"),
    "NUL": ("csv", "text,label\na,b\0\n", {}, 2, "there is a NUL byte"),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_errors_name_the_file_and_line(tmp_path: Path, case):
    suffix, text, options, line, words = ERRORS[case]
    path = tmp_path / f"bad.{suffix}"
    path.write_bytes(text.encode())
    with pytest.raises(DataError) as caught:
        read_table(path, **options)
    assert str(caught.value).startswith(f"{path}, line {line}: ")
    assert words in str(caught.value)


@pytest.mark.parametrize("format", ["csv", "tsv"])
def test_warns_once_of_labels_that_look_missing(tmp_path: Path, format):
    path = tmp_path / f"t.{format}"
    lines = ["text,label", "a,NaN", "b,x", "c,N/A", "d,NaN", "NaN,y", "e,Nancy", "f,"]
    path.write_text("\n".join(lines).replace(",", "," if format == "csv" else "\t"))
    words = r"t\..sv: column 'label' holds 'N/A' in 1 row, 'NaN' in 2 rows, read as ordinary labels: if they mean"
    with pytest.warns(UserWarning, match=words) as said:
        found = read_table(path)
    assert len(said) == 1
    assert found.labels == [["NaN"], ["x"], ["N/A"], ["NaN"], ["y"], ["Nancy"], []]
    with pytest.warns(UserWarning, match=words) as said:
        assert len(list(iter_table(path, batch_rows=2))) == 4
    assert len(said) == 1
    assert read_table(path, target=None).n_points == 7  # without labels there is no warning


@pytest.mark.parametrize("block", [3, 2 << 20])
@pytest.mark.parametrize(("format", "header"), [("csv", True), ("csv", False), ("tsv", False), ("lines", None)])
def test_refuses_lines_that_end_in_carriage_returns(format, header, block):
    content = b"text,label\ra,b\rc,d\r"
    words = r"stream, line 1: lines seem to end in carriage returns alone, .*; convert them, for instance with tr"
    with pytest.raises(DataError, match=words):
        read_table(in_blocks(content, block=block), text=0, target=None, format=format, header=header)
    with pytest.raises(DataError, match=words):
        read(in_blocks(content, block=block))  # as sparse points


@pytest.mark.parametrize("text", ["a\rb\nc\rd\n", "a\rb\nc", "a\r\r\n", "a\r", "a\r\r"])
def test_accepts_carriage_returns_within_lines(text):
    found = read_table(io.BytesIO(text.encode()), text=0, target=None, format="csv", header=False)
    assert found.n_points == text.rstrip("\n").count("\n") + 1


def test_wrong_utf8_names_the_line(tmp_path: Path):
    path = tmp_path / "latin.csv"
    path.write_bytes("text,label\none,1\ncafé,2\n".encode("latin-1"))
    with pytest.raises(DataError, match="line 3: byte 0xe9 at column 4 is not UTF-8; convert") as caught:
        read_table(path)
    assert caught.value.line == 3


def test_quoted_fields_take_linear_time():
    def read_fields(n: int) -> None:
        file = io.BytesIO(b",".join([b'"field"'] * n) + b"\n")
        with pytest.raises(DataError, match="there is no column 'text'"):
            read_table(file, format="csv")

    assert time_ratio(read_fields, 50_000) < 9


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
def test_the_error_for_a_repeated_label_takes_linear_time(tmp_path: Path, format):
    def read_labels(n: int) -> None:
        labels = [*map(str, range(n)), str(n - 1)]
        path = tmp_path / f"{n}.{format}"
        if format == "parquet":
            pq.write_table(pa.table({"text": ["a"], "label": ["|".join(labels)]}), path)
        elif format == "csv":
            path.write_text(f"text,label\na,{'|'.join(labels)}\n")
        else:
            path.write_text(json.dumps({"text": "a", "label": labels}))
        with pytest.raises(DataError, match=f"label '{n - 1}' (is there )?twice"):
            read_table(path, label_delimiter="|")

    assert time_ratio(read_labels, 20_000) < 9


def test_many_columns_take_linear_time():
    def read_columns(n: int) -> None:
        names = [f"c{i}" for i in range(n)]
        file = io.BytesIO(f"{','.join(names)}\n{','.join('1' * n)}\n".encode())
        assert read_table(file, format="csv", text=None, target=None, features=names).features.sum() == n

    assert time_ratio(read_columns, 4_000) < 9


def not_utf8(values: list[bytes]) -> pa.Array:
    """Return an array of strings with these bytes."""
    ends = np.cumsum([0, *map(len, values)]).astype(np.int32)
    return pa.StringArray.from_buffers(len(values), pa.py_buffer(ends.tobytes()), pa.py_buffer(b"".join(values)))


@pytest.mark.parametrize("use_dictionary", [True, False])
def test_parquet_that_is_not_utf8_names_the_row_and_the_column(tmp_path: Path, use_dictionary):
    path = tmp_path / "t.parquet"
    good, bad = pa.array(["a"] * 80), not_utf8([b"a"] * 70 + ["café".encode("latin-1")] + [b"b"] * 9)
    nested = pa.ListArray.from_arrays(pa.array(range(81)), bad)
    for columns, name in (((bad, good), "text"), ((good, bad), "label"), ((good, nested), "label")):
        pq.write_table(pa.table(columns, names=["text", "label"]), path, use_dictionary=use_dictionary)
        problem = f"row 70: column '{name}' holds text that is not UTF-8, byte 0xe9 at position 4: write the file with"
        with pytest.raises(DataError, match=problem) as caught:
            read_table(path)
        assert caught.value.path == str(path)
        before = []
        with pytest.raises(DataError, match="row 70: "):
            before.extend(batch.n_points for batch in iter_table(path, batch_rows=7))
        assert read_table(path, text=None, target={"text": "label", "label": "text"}[name]).n_points == 80
    pq.write_table(pa.table([good, good], names=["text", "label"]), path)
    path.write_bytes(path.read_bytes().replace(b"label", b"labe\xff"))
    with pytest.raises(DataError, match="a column's name is not UTF-8"):
        read_table(path)


def test_rows_of_parquet_before_a_bad_cell_are_yielded(tmp_path: Path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"text": not_utf8([b"a", b"b", b"\xff", b"d"])}), path)
    batches = iter_table(path, batch_rows=3, target=None)
    assert next(batches).texts == ["a", "b"]
    with pytest.raises(DataError, match="row 2: column 'text' holds text that is not UTF-8, byte 0xff at position 1"):
        next(batches)


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("s"), pa.timestamp("ms", tz="No/Where")])
def test_values_of_parquet_that_python_cannot_hold_name_the_row_and_the_column(tmp_path: Path, kind):
    path = tmp_path / "t.parquet"
    pq.write_table(
        pa.table({"text": ["a", "b"], "label": pa.array([None, 10**9 if kind.bit_width == 32 else 10**15], kind)}), path
    )
    with pytest.raises(DataError, match="row 1: column 'label' holds a value that cannot be read: "):
        read_table(path)


def test_truncated_and_empty_tables(tmp_path: Path):
    path = tmp_path / "a.csv.gz"
    whole = COMPRESSORS["gz"](b"text,label\n" + b"".join(b"%d,%d\n" % (i * i, i) for i in range(999)))
    path.write_bytes(whole[:-100])
    with pytest.raises(DataError, match="cut short"):
        read_table(path)
    for compress in COMPRESSORS.values():
        path.write_bytes(compress(b""))
        with pytest.raises(DataError, match="the file is empty"):
            read_table(path)
        with pytest.raises(DataError, match="the file is empty"):
            list(iter_table(path, batch_rows=2))


@pytest.mark.parametrize("batch_rows", [1, 2, 3, 9])
def test_yields_the_rows_before_an_error(batch_rows: int):
    lines = b'{"text": "a"}\n{"text": "b"}\n{"text": "c"}\n{"text": null}\n{"text": "e"}\n'
    batches = iter_table(io.BytesIO(lines), batch_rows=batch_rows, target=None, format="jsonl")
    found: list[str] = []

    def take() -> None:
        for batch in batches:
            found.extend(batch.texts or [])

    with pytest.raises(DataError, match="must hold texts") as caught:
        take()
    assert (found, caught.value.line) == (["a", "b", "c"], 4)
    assert list(batches) == []


def test_refuses_an_unclosed_quote_early():
    stream = io.BytesIO(b'text,label\n"a,b\n' + b"c,d\n" * 1_000_000)
    with pytest.raises(DataError, match="line 2: a quote opens here"):
        read_table(Source(stream, "stream", sizes=ReadSizes(line=1000)), format="csv")
    assert stream.tell() < 3 << 20  # one block of 2 MiB


@pytest.mark.parametrize("name", ["t.parquet", "T.PQ"])
def test_parquet_equals_csv(tmp_path: Path, name: str):
    path, n, texts = tmp_path / name, 150, [f"text {i}" for i in range(150)]
    frame = pd.DataFrame({"price": np.arange(n) / 2, "text": texts, "label": ["a|b", "b", ""] * 50})
    frame.to_parquet(path)
    columns: dict[str, Any] = {"features": ["price"], "label_delimiter": "|"}
    found = read_table(path, **columns)
    as_csv = read_table(io.BytesIO(frame.to_csv(index=False).encode()), format="csv", **columns)
    assert (found.texts, found.labels) == (as_csv.texts, as_csv.labels)
    np.testing.assert_array_equal(found.features, as_csv.features)
    assert found.lines.tolist() == list(range(n))  # rows, as there are no lines
    assert read(str(path)).texts == found.texts
    assert read_table(path, text=1, target=None).texts == found.texts
    assert [batch.n_points for batch in iter_table(path, batch_rows=100, **columns)] == [100, 50]
    assert read_table(path, text=None, target=None, features=["price"]).n_points == n
    path.rename(tmp_path / "unnamed")
    assert read_table(tmp_path / "unnamed", format="parquet").texts == found.texts


def test_parquet_errors_name_the_row(tmp_path: Path):
    path = tmp_path / "t.parquet"
    frame = pd.DataFrame({"text": ["a", "b", None], "label": ["x", "y", "z"], "price": [1.0, float("inf"), 2.0]})
    frame.to_parquet(path)
    with pytest.raises(DataError, match="row 2: column 'text' must hold texts, got None; fill missing texts in with"):
        read_table(path)
    with pytest.raises(DataError, match="row 1: column 'price' holds inf, which is not a finite 32-bit float; fill"):
        read_table(path, text=None, features=["price"])
    with pytest.raises(DataError, match="row 1: column 'price' must hold labels, texts or numbers, got inf"):
        read_table(path, text=None, target="price")
    with pytest.raises(DataError, match=r"row 0: column 'label' must hold a number, found 'x'$"):
        read_table(path, text=None, target=None, features=["label"])
    odd = pa.table([["a"], ["x;y"], ["b"], [Decimal("1.5")]], names=["text", "label", "text", "price"])
    pq.write_table(odd, path)
    for text in ("text", 2):
        with pytest.raises(DataError, match="column 'text' occurs twice; rename one"):
            read_table(path, text=text)
    assert read_table(path, text=None, features=["price"]).features.tolist() == [[1.5]]
    with pytest.raises(DataError, match=r"row 0: column 'label' must hold a number, found 'x;y'$"):
        read_table(path, text=None, target=None, features=["label"])
    sizes: list[int] = []
    read_table(path, text=None, on_bytes=sizes.append)
    assert sizes == [path.stat().st_size]
    with pytest.raises(DataError, match="this is Parquet, whose end is read first"):
        read_table(io.BytesIO(path.read_bytes()), format="parquet")


def test_lines_are_read_with_their_labels(tmp_path: Path):
    path = tmp_path / "t.txt"
    path.write_text("__label__a two words __label__b\nno label\n")
    for found in (read_table(path, format="lines"), read(path, "lines")):
        assert (found.texts, found.labels) == (["two words", "no label"], [["a", "b"], []])
        assert found.lines.tolist() == [1, 2]
    assert read_table(path, format="lines", target=None).labels is None
    assert [batch.texts for batch in iter_table(path, batch_rows=1, format="lines")] == [["two words"], ["no label"]]
    with pytest.raises(ValueError, match="lines have none"):
        read_table(path, format="lines", features=["price"])
    with pytest.raises(DataError, match=r"line 1: a label has no name: 'a __label__'"):
        read_table(io.BytesIO(b"a __label__\n"), format="lines")


def test_rejects_wrong_arguments(tmp_path: Path):
    table = io.BytesIO(b"text,label\n")
    with pytest.raises(ValueError, match="cannot tell the format of"):
        read_table(tmp_path / "data.txt")
    with pytest.raises(ValueError, match="format must be"):
        read_table(table, format="xls")
    with pytest.raises(ValueError, match="format must be"):
        read(table, "xls")
    with pytest.raises(ValueError, match="nothing to read"):
        read_table(table, format="csv", text=None, target=None)
    with pytest.raises(ValueError, match="label_delimiter"):
        read_table(table, format="csv", label_delimiter="")
    with pytest.raises(TypeError, match="features must be a sequence"):
        read_table(table, format="csv", features="price")
    with pytest.raises(ValueError, match="batch_rows"):
        iter_table(table, batch_rows=0, format="csv")


@pytest.mark.parametrize(
    "said",
    [
        *({"header": True}, {"header": False}, {"quotes": True}, {"quotes": False}),
        *({"delimiter": ";"}, {"encoding": "ascii"}),
    ],
)
@pytest.mark.parametrize(
    ("path", "format"),
    [("t.jsonl", "auto"), ("t.txt", "jsonl"), ("t.parquet", "auto"), ("t.pq", "parquet"), ("t.txt", "lines")],
)
def test_csv_options_are_refused_for_other_formats(path, format, said):
    [(name, value)] = said.items()
    message = f"^{name}={value!r} is for CSV and TSV, and this file is read as (jsonl|parquet|lines): leave it out"
    with pytest.raises(ValueError, match=message):
        read_table(path, format=format, **said)
    with pytest.raises(ValueError, match=message):
        iter_table(path, batch_rows=1, format=format, **said)
    with pytest.raises(ValueError, match=message):
        read(path, format, **said)


def test_single_labels_need_one_label_in_each_row():
    def labels(table: bytes, **columns: str | None) -> list[str]:
        return read_table(io.BytesIO(table), format="csv", label_delimiter="|", **columns).single_labels()

    assert labels(b"text,label\na b,x\nc,y\n") == ["x", "y"]
    with pytest.raises(ValueError, match="line 3 has 2 labels, not one"):
        labels(b"text,label\na b,x\nc,y|z\n")
    with pytest.raises(ValueError, match="line 2 has 0 labels, not one"):
        labels(b"text,label\na b,\n")
    with pytest.raises(ValueError, match="read without a column of labels"):
        labels(b"text,label\na b,x\n", target=None)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('{"a": "x", "b": null, "label": "l"}', (["x"], [["l"]])),
        ('{"a": "x", "b": "y", "label": null}', (["x\ny"], [[]])),
        ('{"a": "x", "label": "l"}', "there is no key 'b'"),
        ('{"a": "x", "b": "y"}', "there is no key 'label'"),
        ('{"a": null, "b": null, "label": "l"}', "line 1"),
    ],
)
def test_a_null_may_be_left_out_but_a_missing_key_is_an_error(line, found):
    def read():
        return read_table(io.BytesIO(line.encode() + b"\n"), format="jsonl", text=["a", "b"])

    if isinstance(found, str):
        with pytest.raises(DataError, match=found):
            read()
    else:
        assert (read().texts, read().labels) == found
