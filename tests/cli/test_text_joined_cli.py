"""The command line on texts in several columns, and models that remember them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sparsenet import TextClassifier
from tests.support.joined_texts import (
    BODIES,
    BOTH,
    FORMATS,
    JOINED,
    KNOWN,
    LABELS,
    TABLE,
    TEXTS,
    TITLES,
    fitted,
    saved_with,
)
from tests.support.text_command_line import run, sparsenet

COLUMNS = ("--text", "title", "--text", "body", "--target", "topic")


def write(path: Path, **columns: Any) -> Path:
    import polars as pl  # slow to import, and few tests need it

    FORMATS[path.suffix[1:]](pl.DataFrame(columns), path)
    return path


def succeeds(*arguments: object, stdin: bytes = b"") -> str:
    code, stdout, said = run(*arguments, stdin=stdin)
    assert code == 0, said
    return stdout


def answers(*arguments: object, stdin: bytes = b"") -> list[str]:
    return [line.rpartition(":")[0] for line in succeeds(*arguments, "--k", "1", stdin=stdin).splitlines()]


def accuracy(*arguments: object) -> float:
    return json.loads(succeeds("evaluate", *arguments, "--json"))["accuracy"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("joined")
    succeeds("train", write(folder / "train.csv", **TABLE), *COLUMNS, "--model", folder / "m")
    return folder / "m"


def test_columns_are_joined_in_option_order(model):
    trained = TextClassifier.load(model)
    assert trained.columns_ == KNOWN
    assert trained.predict_proba(JOINED).tolist() == fitted(JOINED, LABELS).predict_proba(JOINED).tolist()


@pytest.mark.parametrize("suffix", FORMATS)
def test_other_files_are_read_by_learnt_columns(model, tmp_path, suffix):
    path = write(tmp_path / f"t.{suffix}", id=TEXTS, body=BODIES, topic=LABELS, title=TITLES)
    expected = TextClassifier.load(model).predict(JOINED).tolist()
    assert answers("predict", model, path) == expected
    assert answers("predict", model, path, *COLUMNS[:4]) == expected
    right = accuracy(model, path)
    assert right == accuracy(model, path, *COLUMNS) == TextClassifier.load(model).score(JOINED, LABELS)
    succeeds("compress", model, "--max-bytes", "1MB", "--valid", path, "--output", tmp_path / "small")
    assert TextClassifier.load(tmp_path / "small").columns_ == KNOWN


def test_options_override_learnt_columns(model, tmp_path):
    path = write(tmp_path / "t.csv", **TABLE | {"title": ["nothing"] * len(TEXTS), "head": TITLES})
    assert answers("predict", model, path, "--text", "head", "--text", "body") == answers(
        "predict", model, write(tmp_path / "other.csv", **TABLE)
    )
    assert accuracy(model, path, "--text", "title") < accuracy(model, path, "--text", "head", "--text", "body")


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("lacking", BOTH)
def test_file_without_one_of_the_columns_is_refused(model, tmp_path, suffix, lacking):
    """The default column is not used instead, although it exists."""
    columns = {name: own for name, own in TABLE.items() if name != lacking} | {"text": TEXTS}
    for command in ("predict", "evaluate"):
        code, stdout, said = run(command, model, write(tmp_path / f"t.{suffix}", **columns))
        assert (code, stdout) == (1, "")
        assert f"t.{suffix}" in said
        assert f"there is no {'key' if suffix == 'jsonl' else 'column'} '{lacking}'" in said


def test_file_without_all_columns_is_read_by_defaults(model, tmp_path):
    expected = TextClassifier.load(model).predict(TEXTS).tolist()
    assert answers("predict", model, write(tmp_path / "t.csv", text=TEXTS, label=LABELS)) == expected
    (tmp_path / "t.txt").write_text("\n".join(TEXTS) + "\n")
    assert answers("predict", model, tmp_path / "t.txt") == expected
    code, _, said = run("predict", model, write(tmp_path / "t.csv", words=TEXTS, label=LABELS))
    assert code == 1
    assert "no column 'title', which the model learnt from; there are 'words', 'label': name the columns of" in said


def test_separate_labels_have_no_learnt_column(tmp_path):
    import polars as pl

    fitted(pl.DataFrame(TABLE), LABELS, text=BOTH).save(tmp_path / "m")
    path = write(tmp_path / "t.csv", title=TITLES, body=BODIES, label=LABELS)
    assert accuracy(tmp_path / "m", path) == TextClassifier.load(tmp_path / "m").score(JOINED, LABELS)


def test_models_with_one_learnt_column_read_files_by_it(tmp_path):
    saved_with(tmp_path / "m", KNOWN | {"text": "body"})
    path = write(tmp_path / "t.csv", **TABLE | {"text": TITLES})
    assert answers("predict", tmp_path / "m", path) == TextClassifier.load(tmp_path / "m").predict(BODIES).tolist()


@pytest.mark.parametrize(
    "line", ["title,body,topic\n", "id\tbody\n", '{"title": "a"}\n', '{"topic": 1, "body": "a"}\n']
)
def test_line_that_looks_like_a_header_is_reported(model, line):
    assert "names a column that the model learnt from" in run("predict", model, stdin=line.encode())[2]


@pytest.mark.parametrize("line", ["title\n", "the title, a body, and more\n", "{title}\n", "title body\n"])
def test_text_with_column_names_is_not_reported(model, line):
    assert run("predict", model, stdin=line.encode())[2] == ""


def test_pipe_is_read_by_learnt_columns(model, tmp_path):
    content = write(tmp_path / "t.csv", **TABLE).read_bytes()
    expected = TextClassifier.load(model).predict(JOINED).tolist()
    assert answers("predict", model, *COLUMNS[:4], "--input-format", "csv", stdin=content) == expected
    succeeds("train", "-", "--format", "csv", *COLUMNS, "--model", tmp_path / "m", stdin=content)
    assert TextClassifier.load(tmp_path / "m").columns_ == KNOWN


def test_positions_are_remembered_as_names(model, tmp_path):
    path, columns = write(tmp_path / "t.csv", **TABLE), ("--text", "0", "--text", "2", "--header")
    succeeds("train", path, *columns, "--target", "1", "--model", tmp_path / "m")
    assert TextClassifier.load(tmp_path / "m").columns_ == TextClassifier.load(model).columns_
    by_name = answers("predict", model, path)
    assert answers("predict", tmp_path / "m", path, *columns) == answers("predict", tmp_path / "m", path) == by_name


def test_header_read_as_joined_text_is_reported(model, tmp_path):
    """Joined names may have more words than one name."""
    path, columns = tmp_path / "t.csv", ("--text", "0", "--text", "2")
    write(path, **{"Title of ticket": TITLES, "topic": LABELS, "Its body": BODIES})
    row = f"sparsenet: warning: {path}: the first row, 'Title of ticket\\nIts body'"
    said = sparsenet("predict", model, path, *columns).stderr.decode()
    assert said.startswith(f"{row}, was taken for a text, and looks like a header: pass --header")
    said = sparsenet("train", path, *columns, "--target", "1", "--model", tmp_path / "m").stderr.decode()
    assert said.startswith(f"{row} with the label 'topic' that no other row has, was taken for a text")


def test_repeated_column_is_refused(model, tmp_path):
    path, small = write(tmp_path / "t.csv", **TABLE), tmp_path / "m"
    twice = ("--text", "title", "--text", "title")
    for command in (
        ["train", path, "--target", "topic", "--model", small],
        ["evaluate", model, path],
        ["predict", model, path],
        ["compress", model, "--max-bytes", "1MB", "--valid", path, "--output", small],
    ):
        code, stdout, said = run(*command, *twice)
        assert (code, stdout) == (2, "")
        assert "Invalid value for '--text': names the column 'title' twice: name it once" in said
    code, _, said = run("predict", model, path, "--text", "1", "--text", "01")
    assert code == 1
    assert "error: --text names the column 1 twice" in said
    assert not small.exists()


def test_label_column_is_refused_as_text(model, tmp_path):
    path = write(tmp_path / "t.csv", **TABLE)
    for command in (["train", path, "--model", tmp_path / "m"], ["evaluate", model, path]):
        code, stdout, said = run(*command, "--text", "title", "--text", "topic", "--target", "topic")
        assert (code, stdout) == (1, "")
        assert "error: --text and --target are both 'topic': name two columns" in said
    assert not (tmp_path / "m").exists()
