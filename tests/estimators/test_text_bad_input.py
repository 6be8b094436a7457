"""Texts that are empty, huge, damaged or alone give a sensible result, or an error that names file and line.

Each file goes through the classifier and through the command line, which must say the same.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sparsenet import DataError, TextClassifier
from sparsenet.cli.reporting import in_options
from tests.support.text_command_line import run, sparsenet
from tests.support.texts import planted

TEXTS, LABELS = planted(60)
GOOD = "text,label\n" + "".join(f"{text},{label}\n" for text, label in zip(TEXTS, LABELS, strict=True))
NEXT = 62  # the number of the next line
HUGE = 100_000_000


def as_lines(rows: list[tuple[str, str]]) -> str:
    return "".join(f"__label__{label} {text}\n" for text, label in rows)


def as_jsonl(rows: list[dict]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


ROW = {"text": "a goal", "label": "sport"}
WRONG: dict[str, tuple[str, Any, str]] = {
    "an empty file": ("t.csv", "", "the file is empty"),
    "a header alone": ("t.csv", "text,label\n", "holds no texts: there is nothing below its header"),
    "no label at all": ("t.csv", "text,label\na,\nb,\n", "holds no labels: their column is empty"),
    "a label missing": ("t.csv", GOOD + "lost,\n", f"line {NEXT}: the text has no label: give it one, or leave it out"),
    "a column missing": (
        "t.csv",
        "review,label\na,x\n",
        "line 1: there is no column 'text'; the first row holds 'review'",
    ),
    "a column twice": ("t.csv", "text,text,label\na,b,x\n", "line 1: column 'text' occurs twice"),
    "a ragged row, long": ("t.csv", GOOD + "a,b,c\n", f"line {NEXT}: 3 fields where the first row has 2"),
    "a ragged row, short": ("t.csv", GOOD + "a\n", f"line {NEXT}: 1 fields where the first row has 2"),
    "a quote that never closes": ("t.csv", GOOD + '"a,x\nb,y\n', f"line {NEXT}: a quote opens here and does not close"),
    "more after a quote": ("t.csv", GOOD + '"a" b,x\n', f"line {NEXT}: ' b,x' follows a closing quote"),
    "Latin 1": ("t.csv", GOOD.encode() + b"na\xefve,x\n", f"line {NEXT}: byte 0xef at column 3 is not UTF-8"),
    "UTF-16": (
        "t.csv",
        GOOD.encode("utf-16"),
        "line 1: byte 0xff at column 1 is not UTF-8; it begins like UTF-16: convert",
    ),
    "a null byte": ("t.csv", GOOD + "a\0b,x\n", f"line {NEXT}: there is a NUL byte"),
    "a gzip file cut short": ("t.csv.gz", gzip.compress(GOOD.encode())[:-20], "the file was cut short"),
    "a damaged gzip file": ("t.txt.gz", gzip.compress(GOOD.encode())[:10] + b"\xff" * 80, "the gzip data is damaged"),
    "a damaged bzip2 file": ("t.txt.bz2", bz2.compress(GOOD.encode())[:14] + bytes(80), "the bzip2 data is damaged"),
    "a ragged row of TSV": ("t.tsv", "text\tlabel\na\tx\nb\n", "line 3: 1 fields where the first row has 2"),
    "JSON that is broken": ("t.jsonl", as_jsonl([ROW]) + '{"text": "a"\n', "line 2: broken JSON"),
    "JSON of another kind": ("t.jsonl", as_jsonl([ROW]) + "[1]\n", "line 2: expected a JSON object, found '[1]'"),
    "a key missing": ("t.jsonl", as_jsonl([ROW, {"text": "a"}]), "line 2: there is no key 'label'"),
    "a text that is null": (
        "t.jsonl",
        as_jsonl([ROW, {**ROW, "text": None}]),
        "line 2: column 'text' must hold texts, got None",
    ),
    "a label that is null": ("t.jsonl", as_jsonl([ROW, {**ROW, "label": None}]), "line 2: the text has no label"),
    "a label that is an object": (
        "t.jsonl",
        as_jsonl([{**ROW, "label": {}}]),
        "line 1: column 'label' must hold labels",
    ),
    "a line without a label": ("t.txt", as_lines([("a", "x")]) + "b\n", "line 2: the text has no label"),
    "a label without a name": ("t.txt", as_lines([("a", "x"), ("b", "")]), "line 2: a label has no name"),
    "Latin 1 in a line": ("t.txt", as_lines([("a", "x")]).encode() + b"__label__x \xe9\n", "line 2: byte 0xe9"),
    "half of a pair": ("t.jsonl", as_jsonl([ROW, {**ROW, "label": "a\ud800"}]), r"line 2: label 'a\ud800' has half of"),
    "an array of JSON": ("t.json", json.dumps([ROW]), "JSON must have one object per line, with format='jsonl'; jq -c"),
    "an array of lines": (
        "t.jsonl",
        "[\n" + as_jsonl([ROW]) + "]\n",
        "line 1: broken JSON: Expecting value at column 2; ",
    ),
    "an array in a line": ("t.jsonl", json.dumps([ROW]) + "\n", "jq -c '.[]' converts an array"),
    "semicolons": (
        "t.csv",
        GOOD.replace(",", ";"),
        "its fields seem to be separated by ';': read it with delimiter=';'",
    ),
    "tabs in CSV": ("t.csv", GOOD.replace(",", "\t"), r"separated by '\t': read it with delimiter='\t'"),
    "commas in TSV": ("t.tsv", GOOD, "separated by ',': read it with delimiter=','"),
    "Parquet of another name": (
        "t.csv",
        b"PAR1\x00\xff",
        "this is Parquet, whose end is read first: name a file",
    ),
    "Parquet of no name": ("t", b"PAR1\x00\xff", "this is Parquet, whose end is read first"),
    "no Parquet": ("t.parquet", "text,label\n", "is not a Parquet file, or is damaged"),
}


@pytest.mark.parametrize(("name", "content", "message"), WRONG.values(), ids=WRONG)
def test_reports_file_and_line_of_bad_input(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError) as caught:
        TextClassifier().fit(path)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)
    model = tmp_path / "model"
    code, out, said = run("train", path, "--model", model)
    assert (code, out) == (1, "")
    assert said == f"sparsenet: error: {in_options(' '.join(str(caught.value).split()))}"
    assert not model.exists() or not any(model.iterdir())


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bad")
    (folder / "good.csv").write_text(GOOD)
    assert run("train", folder / "good.csv", "--model", folder / "model")[0] == 0
    return folder


@pytest.mark.parametrize("kind", ["a header alone", "a label missing", "a ragged row, long", "Latin 1", "a null byte"])
def test_reports_file_and_line_of_bad_validation_data(trained, kind):
    name, content, message = WRONG[kind]
    (trained / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    code, out, said = run("evaluate", trained / "model", trained / name)
    assert (code, out) == (1, "")
    assert f"{trained / name}" in said
    assert message in said


def test_rejects_json_arrays_as_plain_texts(trained):
    (trained / "t.json").write_text(json.dumps([ROW]))
    code, out, said = run("predict", trained / "model", trained / "t.json")
    assert (code, out) == (1, "")
    assert (
        "t.json: JSON must have one object per line, with --input-format jsonl; jq -c '.[]' converts an array" in said
    )


def test_reports_damage_within_a_parquet_file(tmp_path):
    path = tmp_path / "t.parquet"
    pd.DataFrame({"text": TEXTS, "label": LABELS}).to_parquet(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + bytes(200) + whole[204:])
    with pytest.raises(DataError, match=r"t\.parquet: is not a Parquet file, or is damaged"):
        TextClassifier().fit(path)
    pd.DataFrame({"text": [*TEXTS, None], "label": [*LABELS, "x"]}).to_parquet(path)
    with pytest.raises(DataError, match=r"t\.parquet: row 60: column 'text' must hold texts, got None"):
        TextClassifier().fit(path)
    pd.DataFrame({"text": TEXTS, "label": [*LABELS[:-1], None]}).to_parquet(path)
    with pytest.raises(DataError, match=r"t\.parquet: the text in row 59 has no label"):
        TextClassifier().fit(path)


@pytest.mark.parametrize("labels", [["x", "y", "a\udcff"], [["x"], [], ["x", "a\udcff"]]])
def test_rejects_a_lone_surrogate_in_a_label(labels):
    message = r"label 'a\\udcff' in row 2 has half of a surrogate pair"
    with pytest.raises(ValueError, match=message):
        TextClassifier().fit(["one", "two", "three"], labels)
    model = TextClassifier(random_state=0).fit(
        ["one", "two", "three"], [["x"]] * 3 if labels[0] == ["x"] else ["x"] * 3
    )
    with pytest.raises(ValueError, match=message):
        model.partial_fit(["one", "two", "three"], labels)
    with pytest.raises(ValueError, match=r"label 'a\\udcff' has half"):
        TextClassifier().partial_fit(["one"], ["x"], classes=["x", "a\udcff"])


def test_rejects_one_column_as_text_and_label(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(GOOD)
    with pytest.raises(ValueError, match="text and target are both 'label': name two columns"):
        TextClassifier().fit(path, text="label", target="label")
    code, _, said = run("train", path, "--text", "label", "--target", "label", "--model", tmp_path / "model")
    assert (code, "--text and --target are both 'label': name two columns" in said) == (1, True), said


def test_warns_about_swapped_columns(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(GOOD)
    code, out, said = run("train", path, "--text", "label", "--target", "text", "--model", tmp_path / "model")
    assert (code, out[:8]) == (0, "60 texts")
    assert said.startswith("sparsenet: warning: ")
    assert said.endswith(" of 60 texts have a label of their own: is --target the right column?")


@pytest.mark.parametrize(("shared", "warned"), [(1, False), (0, True)])
def test_detects_swapped_columns_by_unique_labels(tmp_path, shared, warned):
    path = tmp_path / "t.csv"
    own = [f"a{i}|b{i}" for i in range(20)]
    rows = [f"text {i},{names + '|common' * (i < 15 and shared)}" for i, names in enumerate(own)]
    path.write_text("\n".join(["text,label", *rows, "text,common", "text,common"]) + "\n")
    code, _, said = run("train", path, "--label-delimiter", "|", "--model", tmp_path / "model")
    assert code == 0
    assert ("warning: 20 of 22 texts have no label that occurs twice: is --target" in said) == warned
    assert said.count("warning") == warned


@pytest.mark.parametrize(("compound", "warned"), [("a;b", True), ("a | b", True), ("a,b", True), ("a;c", False)])
def test_suggests_a_delimiter_for_combined_labels(tmp_path, compound, warned):
    path = tmp_path / "t.csv"
    rows = [f'"text {i} of {label}","{label}"' for i in range(10) for label in ("a", "b", compound)]
    path.write_text("\n".join(["text,label", *rows]) + "\n")
    code, _, said = run("train", path, "--model", tmp_path / "model")
    assert code == 0
    assert (f"warning: found 1 label made of other labels, such as '{compound}'" in said) == warned
    assert ("add --label-delimiter '" in said) == warned
    assert run("train", path, "--model", tmp_path / "model", "--label-delimiter", ";")[2] == ""


def test_suggests_no_delimiter_for_lines_or_decimals(tmp_path):
    path = tmp_path / "t.csv"
    rows = [f'"text {i} of {label}","{label}"' for i in range(10) for label in ("1", "5", "1,5")]
    path.write_text("\n".join(["text,label", *rows]) + "\n")
    assert run("train", path, "--model", tmp_path / "model")[2] == ""
    lines = tmp_path / "t.txt"
    lines.write_text("".join(f"__label__{label} text {i}\n" for i in range(10) for label in ("a", "b", "a,b")))
    assert run("train", lines, "--model", tmp_path / "model")[2] == ""


# --- from a pipe ---


@pytest.mark.parametrize(
    "command",
    [
        ["train", "-", "--model", "other"],
        pytest.param(["evaluate", "model", "-"], marks=pytest.mark.slow),
        pytest.param(["predict", "model"], marks=pytest.mark.slow),
    ],
    ids=lambda command: command[0],
)
def test_rejects_parquet_from_a_pipe(trained, command):
    frame = io.BytesIO()
    pd.DataFrame({"text": TEXTS, "label": LABELS}).to_parquet(frame)
    command = [trained / word if word in ("model", "other") else word for word in command]
    done = sparsenet(*command, stdin=frame.getvalue(), check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"sparsenet: error: <stdin>: this is Parquet, whose end is read first: name a file" in done.stderr


def test_reads_every_format_from_a_pipe(trained):
    model = trained / "model"
    rows = list(zip(TEXTS[:5], LABELS[:5], strict=True))
    piped = {
        "lines": "".join(f"{text}\n" for text, _ in rows),
        "csv": "text,label\n" + "".join(f'"{text}",{label}\n' for text, label in rows),
        "tsv": "text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows),
        "jsonl": as_jsonl([{"text": text, "label": label} for text, label in rows]),
    }
    for format, content in piped.items():
        code, out, said = run("predict", model, "--k", 1, "--input-format", format, stdin=content.encode())
        assert (code, said) == (0, "")
        assert [line.partition(":")[0] for line in out.splitlines()] == LABELS[:5], format
        if format != "lines":
            code, out, said = run("evaluate", model, "-", "--format", format, "--json", stdin=content.encode())
            assert (code, json.loads(out)["P@1"]) == (0, 1.0), said
    code, out, _ = run("evaluate", model, "-", "--json", stdin=as_lines(rows).encode())
    assert json.loads(out)["P@1"] == 1.0


LINES = as_lines(list(zip(TEXTS, LABELS, strict=True))).encode()


@pytest.mark.parametrize(
    ("arguments", "content"),
    [
        (["--format", "csv"], GOOD.encode()),
        pytest.param([], LINES, marks=pytest.mark.slow),
        pytest.param([], b"\xef\xbb\xbf" + LINES, marks=pytest.mark.slow),
    ],
    ids=["csv", "lines", "lines after a byte-order mark"],
)
def test_trains_from_a_pipe(tmp_path, arguments, content):
    done = sparsenet("train", "-", "--model", tmp_path / "model", "--json", *arguments, stdin=content)
    assert json.loads(done.stdout)["labels"] == 3


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "message"),
    [
        (["--input-format", "csv"], b'text\ngoal\n"soup\n', 1, "<stdin>, line 3: a quote opens here"),
        (["--input-format", "csv"], b"review\ngoal\n", 1, "<stdin>, line 1: there is no column 'text'"),
        (["--input-format", "csv"], b"text\nna\xefve\n", 1, "<stdin>, line 2: byte 0xef"),
        (["--input-format", "jsonl"], b'{"text": "goal"}\n{"nope": 1}\n', 1, "<stdin>, line 2: there is no key 'text'"),
        (["--text", "review"], b"review\ngoal\n", 2, "pass csv, tsv or jsonl"),
        (["--input-format", "xmc"], b"1 2 3\n", 2, "xmc is for models of sparse points, and this is a text model"),
    ],
)
def test_reports_errors_in_a_pipe(trained, arguments, stdin, code, message):
    found, _, said = run("predict", trained / "model", *arguments, stdin=stdin)
    assert found == code
    assert message in said


def test_answers_every_line_of_a_pipe(trained):
    """A filter in a pipeline must survive bad lines: invalid UTF-8 reads as U+FFFD, null bytes separate words."""
    lines = [b"a goal", b"", b"na\xefve goal", b"goal\0goal", b"\xff\xfe", b"\0", b"\xef\xbb\xbf goal", b"goal\r"]
    done = sparsenet("predict", trained / "model", "--k", 1, stdin=b"\n".join(lines))
    answers = [line.partition(":")[0] for line in done.stdout.decode().splitlines()]
    assert len(answers) == len(lines)
    assert [answers[i] for i in (0, 2, 3, 6, 7)] == ["sport"] * 5
    assert run("predict", trained / "model") == (0, "", "")  # nothing in, nothing out


def test_columns_without_names_have_positions(tmp_path):
    path = tmp_path / "train.csv"
    path.write_text("".join(f'"{label}","{text}"\n' for text, label in zip(TEXTS, LABELS, strict=True)))
    expected = TextClassifier(random_state=0).fit(TEXTS, LABELS).predict_proba(TEXTS[:5]).tolist()
    assert TextClassifier(random_state=0).fit(path, text=1, target=0).predict_proba(TEXTS[:5]).tolist() == expected
    code, _, said = run("train", path, "--text", 1, "--target", 0, "--model", tmp_path / "model")
    assert code == 0, said
    assert TextClassifier.load(tmp_path / "model").predict_proba(TEXTS[:5]).tolist() == expected
    code, _, said = run("train", path, "--text", 7, "--target", 0, "--model", tmp_path / "model")
    assert (code, "train.csv, line 1: there is no column 7: there are 2, counted from 0" in said) == (1, True)


# --- odd but valid input -----------


def test_empty_texts_count_for_their_labels(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(GOOD + ",sport\n,sport\n")
    with pytest.warns(UserWarning, match="empty texts, 2 of 62, count as others do"):
        model = TextClassifier(random_state=0).fit(path)
    assert model.label_counts_.sum() == 62
    assert model.predict([""]).shape == (1,)
    assert TextClassifier(random_state=0).fit(["", "", ""], ["a", "a", "b"]).predict(["", "new"]).tolist() == ["a", "a"]


def test_a_single_class_is_always_predicted(tmp_path):
    (tmp_path / "t.csv").write_text("text,label\none,only\nanother,only\n")
    code, out, said = run("train", tmp_path / "t.csv", "--model", tmp_path / "model")
    assert (code, said) == (0, "")
    assert out.startswith("2 texts, 1 label\n")
    assert run("predict", tmp_path / "model", stdin=b"whatever\n\n")[1] == "only:1\nonly:1\n"
    assert run("evaluate", tmp_path / "model", tmp_path / "t.csv", "--k", "1")[1].startswith("accuracy   100.00\n")


def test_accepts_a_label_seen_once(tmp_path):
    (tmp_path / "t.csv").write_text(GOOD + "a zebra crossing the zoo,animals\n")
    code, out, said = run("train", tmp_path / "t.csv", "--model", tmp_path / "model", "--json")
    assert (code, json.loads(out)["labels"]) == (0, 4), said
    assert run("predict", tmp_path / "model", "--k", 1, stdin=b"zebra crossing")[1].startswith("animals:")


def test_unknown_labels_count_as_misses(trained):
    (trained / "new.csv").write_text(GOOD + "a zebra,animals\n")
    done = sparsenet("evaluate", trained / "model", trained / "new.csv", "--json", "--k", 1)
    assert json.loads(done.stdout)["P@1"] == pytest.approx(60 / 61)


def test_learns_and_answers_a_text_of_100_mb(tmp_path):
    huge = ("the goal of the team was a match in the league, " * (HUGE // 48 + 1))[:HUGE]
    model = TextClassifier(random_state=0, n_jobs=1).fit([*TEXTS, huge], [*LABELS, "sport"])
    assert model.predict_one(huge) == "sport"
    assert np.isfinite(model.predict_proba([huge])).all()


def test_a_field_of_a_file_may_have_100_mb(trained):
    path = trained / "huge.csv"
    path.write_text("text\n" + '"a goal,\n' + "z" * HUGE + '"\n')
    code, out, said = run("predict", trained / "model", path, "--k", 1)
    assert code == 0, said
    assert out.startswith("sport:")
    path.unlink()
