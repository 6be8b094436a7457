"""TextClassifier on files: formats and errors."""

from __future__ import annotations

import pandas as pd
import pytest

from sparsenet import DataError, TextClassifier
from tests.support.texts import planted, write


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.jsonl", "t.parquet", "t.csv.gz", "t.txt"])
def test_every_format_gives_the_same_model(tmp_path, name):
    texts, labels = planted(100)
    write(tmp_path / name, texts, labels)
    expected = TextClassifier(random_state=0).fit(texts, labels).predict_proba(texts)
    columns = {} if name == "t.txt" else {"text": "review", "target": "topic"}
    for path in (tmp_path / name, str(tmp_path / name)):
        model = TextClassifier(random_state=0).fit(path, **columns)
        assert model.predict_proba(texts).tolist() == expected.tolist()


@pytest.mark.parametrize("said", [{"header": True}, {"quotes": False}, {"delimiter": ";"}, {"encoding": "ascii"}])
@pytest.mark.parametrize("name", ["t.jsonl", "t.parquet"])
def test_rejects_csv_options_for_other_formats(tmp_path, name, said):
    write(tmp_path / name, *planted(20))
    [(option, value)] = said.items()
    with pytest.raises(ValueError, match=f"^{option}={value!r} is for CSV and TSV"):
        TextClassifier().fit(tmp_path / name, text="review", target="topic", **said)


def test_fasttext_lines_may_have_several_labels(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text("__label__a __label__b one two\n__label__b three\n" * 10)
    model = TextClassifier(random_state=0).fit(path)
    assert model.classes_.tolist() == ["a", "b"]
    assert model.predict(["three"]) == [["b"]]


@pytest.mark.parametrize(
    "said",
    [
        {"text": "review"},
        {"target": 1},
        {"label_delimiter": ","},
        {"header": True},
        {"quotes": False},
        {"delimiter": ";"},
    ],
)
@pytest.mark.parametrize("format", ["auto", "lines"])
def test_fasttext_lines_have_no_columns(tmp_path, said, format):
    path = tmp_path / "train.txt"
    path.write_text("__label__a,b one\n__label__b two\n" * 10)
    [(name, value)] = said.items()
    with pytest.raises(ValueError, match=f"^{name}={value!r} is for tables, and {path} is read as lines"):
        TextClassifier().fit(path, format=format, **said)


@pytest.mark.parametrize("blank", ["\t", "\v", "\f", "\r", " \t "])
def test_any_blank_ends_a_fasttext_label(tmp_path, blank):
    path = tmp_path / "train.txt"
    path.write_bytes(f"__label__a{blank}hello{blank}there\n__label__b{blank}good bye\n".encode() * 10)
    found = TextClassifier(random_state=0).fit(path)
    expected = TextClassifier(random_state=0).fit(["hello there", "good bye"] * 10, ["a", "b"] * 10)
    assert found.classes_.tolist() == ["a", "b"]
    assert found.predict_proba(["hello", "bye"]).tolist() == expected.predict_proba(["hello", "bye"]).tolist()


def test_a_repeated_fasttext_label_counts_once(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text("__label__a one __label__a\n__label__b two\n" * 10)
    model = TextClassifier(random_state=0).fit(path)
    assert not model.multilabel_
    assert model.label_counts_.tolist() == [10, 10]


def test_skips_blank_fasttext_lines(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text("\n__label__a one\n \t\n__label__b two\n" * 10 + "\n")
    model = TextClassifier(random_state=0).fit(path)
    assert not model.multilabel_
    assert model.label_counts_.tolist() == [10, 10]
    path.write_text("__label__a one\n\nno label\n" * 10)
    with pytest.raises(DataError, match="line 3: the text has no label"):
        TextClassifier().fit(path)
    path.write_text("\n \n")
    with pytest.raises(DataError, match=r"holds no texts: .* its lines are blank"):
        TextClassifier().fit(path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "text,label\ngood,x\n", "there is no column 'review'"),
        ("t.csv", "review,topic\ngood,x\nbad\n", "line 3: 1 fields where the first row has 2"),
        ("t.csv", 'review,topic\ngood,x\n"never closes,y\nmore,z\n', "line 3: a quote opens here and does not close"),
        ("t.csv", b"review,topic\ncaf\xe9,x\n", "line 2: byte 0xe9 at column 4 is not UTF-8"),
        ("t.csv", "review,topic\na\0b,x\n", "line 2: there is a NUL byte"),
        ("t.csv", "", "the file is empty"),
        ("t.jsonl", '{"review": "good", "topic": "x"}\n{"review": "bad"}\n', "line 2: there is no key 'topic'"),
        ("t.jsonl", '{"review": "good"\n', "line 1: broken JSON"),
        ("t.txt", "no label here\n", "holds no labels"),
        ("t.txt", "__label__x fine\n__label__ nameless\n", "line 2: a label has no name"),
        ("t.parquet", "not a parquet file", "is not a Parquet file"),
    ],
)
def test_reports_what_is_wrong_with_a_file(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    columns = {} if name == "t.txt" else {"text": "review", "target": "topic"}
    with pytest.raises(DataError, match=message) as caught:
        TextClassifier().fit(path, **columns)
    assert str(path) in str(caught.value)


def test_reports_a_missing_parquet_column(tmp_path):
    write(tmp_path / "t.parquet", *planted(10))
    with pytest.raises(DataError, match="there is no column 'text'; there are id, review, topic"):
        TextClassifier().fit(tmp_path / "t.parquet", target="topic")


def test_parquet_labels_are_lists_or_split(tmp_path):
    path, texts = tmp_path / "t.parquet", ["one two", "three", "one"] * 10
    pd.DataFrame({"text": texts, "label": ["a | b", "b", "a|"] * 10}).to_parquet(path)
    model = TextClassifier(random_state=0).fit(path, label_delimiter="|")
    assert model.classes_.tolist() == ["a", "b"]
    assert model.predict(["three"]) == [["b"]]
    assert TextClassifier(random_state=0).fit(path).classes_.tolist() == ["a | b", "a|", "b"]
    pd.DataFrame({"text": texts, "label": [["a", "b"], ["b"], ["a"]] * 10}).to_parquet(path)
    assert TextClassifier(random_state=0).fit(path).predict_proba(texts).tolist() == model.predict_proba(texts).tolist()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["a", None], "row 70: column 'label' must hold labels, texts or numbers, got None$"),
        (["a", ""], "row 70: column 'label' must hold labels, texts or numbers, got ''$"),
        (["b", "a", "b"], "row 70: column 'label' holds the label 'b' twice$"),
    ],
)
def test_reports_invalid_labels_in_a_parquet_list(tmp_path, wrong, message):
    path = tmp_path / "t.parquet"
    pd.DataFrame({"text": ["one"] * 71, "label": [["a"]] * 70 + [wrong]}).to_parquet(path)
    with pytest.raises(DataError, match=message):
        TextClassifier().fit(path)


def test_rejects_negative_parquet_columns(tmp_path):
    write(tmp_path / "t.parquet", *planted(10))
    for text, target in ((1, -1), (-2, 2)):
        with pytest.raises(DataError, match=f"there is no column {min(text, target)}; there are id, review, topic"):
            TextClassifier().fit(tmp_path / "t.parquet", text=text, target=target)


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.jsonl", "t.parquet"])
def test_strips_blanks_around_labels(tmp_path, name):
    write(tmp_path / name, ["one", "two", "three", "four"] * 5, ["x", " x", "y\u00a0", "y "] * 5)
    model = TextClassifier(random_state=0).fit(tmp_path / name, text="review", target="topic")
    assert model.classes_.tolist() == ["x", "y"]
    write(tmp_path / name, ["one", "two", "three"], ["x", "y", "  "])
    with pytest.raises(DataError, match="has no label"):
        TextClassifier().fit(tmp_path / name, text="review", target="topic")


@pytest.mark.parametrize("name", ["t.jsonl", "t.parquet"])
def test_booleans_have_one_spelling(tmp_path, name):
    write(tmp_path / name, ["one", "two"] * 5, [True, False] * 5)
    model = TextClassifier(random_state=0).fit(tmp_path / name, text="review", target="topic")
    assert model.classes_.tolist() == ["false", "true"]


def test_reports_a_missing_file():
    with pytest.raises(FileNotFoundError):
        TextClassifier().fit("/nowhere/train.csv")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", "text,label\none,x\n,y\n  ,x\n"),
        ("t.jsonl", '{"text": "one", "label": "x"}\n{"text": "", "label": "y"}\n{"text": "\\t", "label": "x"}\n'),
        ("t.txt", "__label__x one\n__label__y\n__label__x  \n"),
    ],
)
def test_counts_empty_texts(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    with pytest.warns(UserWarning, match=f"{name}: empty texts, 2 of 3, count as others do") as said:
        model = TextClassifier(random_state=0).fit(tmp_path / name)
    assert len(said) == 1
    assert model.n_texts_ == 3
    TextClassifier(random_state=0).fit(["one", ""], ["x", "y"])  # texts in memory give no warning


ROWS = "a lovely film,good\na dull film,bad\nlovely and short,good\ndull and long,bad\n"


@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_warns_about_a_header_taken_for_a_text(tmp_path, name):
    path = tmp_path / name
    content = f"review,topic\n{ROWS}"
    path.write_text(content if name == "t.csv" else content.replace(",", "\t"))
    with pytest.warns(UserWarning, match=r"the first row, 'review' with the label 'topic' .* pass header=True") as said:
        model = TextClassifier(random_state=0).fit(path, text=0, target=1)
    assert len(said) == 1
    assert "topic" in model.classes_
    model = TextClassifier(random_state=0).fit(path, text=0, target=1, header=True)
    assert model.classes_.tolist() == ["bad", "good"]
    model = TextClassifier(random_state=0).fit(path, text=0, target=1, header=False)  # explicit, so no warning
    assert "topic" in model.classes_


@pytest.mark.parametrize(
    "header",
    ["review,stars?", "Review Text (EN),stars", "Review Text,Sentiment (1-5)", "review_text,stars/5", "text,label:"],
)
def test_column_names_may_hold_any_characters(tmp_path, header):
    (tmp_path / "t.csv").write_text(f"{header}\n{ROWS}")
    with pytest.warns(UserWarning, match="looks like a header"):
        TextClassifier(random_state=0).fit(tmp_path / "t.csv", text=0, target=1)


@pytest.mark.parametrize(
    "content",
    [
        ROWS,
        f"a lovely and short film,unique\n{ROWS}",
        f"film,good\n{ROWS}",
        f"film,17\n{ROWS}",
        f"What a film!,topic\n{ROWS}",
        "review,topic\nfilm,good\n",
    ],
)
def test_does_not_mistake_other_rows_for_a_header(tmp_path, content):
    path = tmp_path / "t.csv"
    path.write_text(content)
    TextClassifier(random_state=0).fit(path, text=0, target=1)  # a warning would be an error


def test_reads_a_file_in_its_encoding(tmp_path):
    path, (texts, labels) = tmp_path / "t.csv", planted(40)
    rows = [f"{text} à la carte|{label}" for text, label in zip(texts, labels, strict=True)]
    path.write_bytes("\n".join(["review|topic", *rows]).encode("latin-1"))
    model = TextClassifier(random_state=0)
    model.fit(path, text="review", target="topic", delimiter="|", encoding="latin-1")
    other = TextClassifier(random_state=0).fit([f"{text} à la carte" for text in texts], labels)
    assert model.predict_proba(texts).tolist() == other.predict_proba(texts).tolist()
    kept = {"format": "csv", "delimiter": "|", "encoding": "latin-1"}
    assert model.columns_ == {"text": ["review"], "target": "topic", "label_delimiter": None, "file": kept}
    assert model.predict_proba(path).tolist() == model.predict_proba([f"{text} à la carte" for text in texts]).tolist()
    frame = {"delimiter": "|", "text": "review", "target": "topic"}
    with pytest.raises(ValueError, match=r"delimiter='\|' is for files"):
        model.fit(pd.DataFrame({"review": texts, "topic": labels}), **frame)


def test_quotes_enclose_fields_in_tsv(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text('text\tlabel\n"a ""lovely"" film"\tgood\ndull\t"bad"\n')
    assert TextClassifier(random_state=0).fit(path).classes_.tolist() == ["bad", "good"]
    assert TextClassifier(random_state=0).fit(path, quotes=False).classes_.tolist() == ['"bad"', "good"]
