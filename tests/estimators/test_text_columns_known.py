"""Text models remember the names of their columns and read further files by them."""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import polars as pl
import pytest

from sparsenet import ModelError, TextClassifier, storage
from tests.support.patience import PATIENCE
from tests.support.text_command_line import run
from tests.support.texts import planted

TEXTS, LABELS = planted(60)
KNOWN = {"text": ["review"], "target": "topic", "label_delimiter": None}
FORMATS = {
    "csv": lambda frame, path: frame.write_csv(path),
    "tsv": lambda frame, path: frame.write_csv(path, separator="\t"),
    "jsonl": lambda frame, path: frame.write_ndjson(path),
    "parquet": lambda frame, path: frame.write_parquet(path),
}


def write(path: Path, text: str = "review", target: str = "topic", labels=LABELS, **more) -> Path:
    """Write a table of any format, with an unused first column."""
    columns = {"id": [str(number) for number in range(len(TEXTS))], target: labels, text: TEXTS}
    FORMATS[path.suffix[1:]](pl.DataFrame(columns | more), path)
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("columns")
    train = write(folder / "train.csv")
    code, _, said = run("train", train, "--text", "review", "--target", "topic", "--model", folder / "m")
    assert code == 0, said
    return folder / "m"


def evaluate(model: Path, *arguments: object) -> dict:
    code, stdout, said = run("evaluate", model, *arguments, "--json")
    assert code == 0, said
    return json.loads(stdout)


@pytest.mark.parametrize("suffix", FORMATS)
def test_reads_other_files_by_learnt_names(model, tmp_path, suffix):
    path = write(tmp_path / f"test.{suffix}")
    assert evaluate(model, path)["accuracy"] == 1.0
    answers = run("predict", model, path, "--k", "1")[1].splitlines()
    assert [answer.split(":")[0] for answer in answers] == LABELS
    code, _, said = run("compress", model, "--max-bytes", "1MB", "--valid", path, "--output", tmp_path / "small")
    assert code == 0, said
    assert TextClassifier.load(tmp_path / "small").columns_ == KNOWN


def test_names_the_missing_column_of_a_file(model, tmp_path):
    path = write(tmp_path / "test.csv", text="comment", target="kind")
    for command, column in (("evaluate", "review"), ("predict", "review")):
        code, _, said = run(command, model, path)
        assert code == 1
        assert f"there is no column '{column}', which the model learnt from; there are 'id', 'kind', 'comment'" in said
    code, _, said = run("evaluate", model, path, "--text", "comment")
    assert "there is no column 'topic'" in said


def test_an_option_overrides_learnt_names(model, tmp_path):
    wrong = ["none"] * len(LABELS)
    path = write(tmp_path / "test.csv", labels=wrong, title=["nothing"] * len(TEXTS), right=LABELS)
    assert evaluate(model, path)["accuracy"] == 0.0
    assert evaluate(model, path, "--target", "right")["accuracy"] == 1.0
    assert evaluate(model, path, "--target", "right", "--text", "title")["accuracy"] < 1.0
    assert evaluate(model, path, "--target", "4", "--text", "2", "--header")["accuracy"] == 1.0


def test_reads_files_without_learnt_names_as_before(model, tmp_path):
    assert evaluate(model, write(tmp_path / "test.csv", "text", "label"))["accuracy"] == 1.0
    assert evaluate(model, write(tmp_path / "half.csv", "review", "label"))["accuracy"] == 1.0
    said = run("evaluate", model, write(tmp_path / "other.csv", "words", "kind"))[2]
    assert "there is no column 'review', which the model learnt from; there are 'id', 'kind', 'words'" in said
    lines = "".join(f"__label__{label} {text}\n" for label, text in zip(LABELS, TEXTS, strict=True))
    (tmp_path / "lines.txt").write_text(lines)
    assert evaluate(model, tmp_path / "lines.txt")["accuracy"] == 1.0


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.csv", b"", "t.csv: the file is empty"),
        ("t.jsonl", b"[1]\n", "t.jsonl, line 1: expected a JSON object"),
        ("t.parquet", b"PAR1 and no more", "t.parquet: is not a Parquet file, or is damaged"),
        ("none.csv", None, "none.csv: No such file"),
    ],
)
def test_reports_file_errors_as_before(model, tmp_path, name, content, said):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    code, stdout, stderr = run("evaluate", model, tmp_path / name)
    assert (code, stdout) == (1, "")
    assert said in stderr


@pytest.mark.slow
def test_reads_a_pipe_from_its_beginning(model, tmp_path):
    def answers(command: str, content: str) -> str:
        arguments = [sys.executable, "-m", "sparsenet", *command.split(), "--k", "1"]
        arguments = [str(model) if word == "MODEL" else word for word in arguments]
        done = subprocess.run(arguments, input=content, capture_output=True, text=True, timeout=300 * PATIENCE)
        assert done.returncode == 0, done.stderr
        said.append(done.stderr)
        return done.stdout

    said: list[str] = []

    content = write(tmp_path / "test.csv").read_text()
    found = answers("predict MODEL --input-format csv", content).splitlines()
    assert [answer.split(":")[0] for answer in found] == LABELS
    assert '"accuracy": 1.0' in answers("evaluate MODEL - --format csv --json", content)
    assert said == ["", ""]
    assert len(answers("predict MODEL", content).splitlines()) == len(TEXTS) + 1, "lines have no columns"
    assert "warning: line 1 of the texts" in said[-1]
    assert "if this is a table, add --input-format csv" in said[-1]
    answers("predict MODEL", '{"topic": "a", "review": "b"}\n')
    assert "--input-format" in said[-1]
    for innocent in ("review\n", "a review, of sorts\n", "please, review, me\n", "{review}\n"):
        answers("predict MODEL", innocent)
        assert said[-1] == ""
    answers("predict MODEL --input-format csv", 'review,topic\n"review,topic",x\n')
    assert said[-1] == "", "it was read as a table"


def test_keeps_the_learnt_delimiter(tmp_path):
    labels = [f"{own}|all" for own in LABELS]
    train, test = write(tmp_path / "train.csv", labels=labels), write(tmp_path / "test.csv", labels=labels)
    columns = ("--text", "review", "--target", "topic", "--label-delimiter", "|")
    assert run("train", train, *columns, "--model", tmp_path / "m")[0] == 0
    assert evaluate(tmp_path / "m", test)["unknown_labels"] == 0
    assert evaluate(tmp_path / "m", test, "--label-delimiter", ";")["unknown_labels"] == len(LABELS)
    assert evaluate(tmp_path / "m", test, "--target", "topic")["unknown_labels"] == len(LABELS), "nothing else is given"


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "Polars"])
def test_learns_names_from_frames(frame, tmp_path):
    both = frame({"review": TEXTS, "topic": LABELS})
    model = TextClassifier(random_state=0).fit(both, text="review", target="topic")
    assert model.columns_ == KNOWN
    assert model.partial_fit(TEXTS, LABELS).columns_ == KNOWN
    model.save(tmp_path / "m")
    assert TextClassifier.load(tmp_path / "m").columns_ == KNOWN
    assert evaluate(tmp_path / "m", write(tmp_path / "test.csv"))["accuracy"] == 1.0


def test_unnamed_input_learns_no_names(tmp_path):
    model = TextClassifier(random_state=0).fit(TEXTS, LABELS)
    assert model.columns_ is None
    assert TextClassifier(random_state=0).partial_fit(TEXTS, LABELS).columns_ is None
    table = write(tmp_path / "train.csv")
    assert model.fit(table, text="review", target="topic").columns_ == KNOWN
    assert model.fit(table, text=2, target=1, header=True).columns_ == KNOWN, "the header says what stands there"
    assert model.fit(table, text=2, target="topic").columns_ == KNOWN
    assert model.fit(table, text=2, target=1, header=False).columns_ is None
    table.write_text(table.read_text().replace("id,", "review,", 1))
    assert model.fit(table, text=2, target=1, header=True).columns_ is None, "of two columns of one name"
    (tmp_path / "lines.txt").write_text("__label__a one\n__label__b two\n")
    assert model.fit(tmp_path / "lines.txt").columns_ is None
    model.save(tmp_path / "m")
    assert evaluate(tmp_path / "m", write(tmp_path / "t.csv", "text", "label"))["points"] == len(TEXTS)


def test_learns_names_from_a_pipe(tmp_path):
    columns = ("--text", "review", "--target", "topic", "--format", "csv")
    content = write(tmp_path / "train.csv").read_bytes()
    code, _, said = run("train", "-", *columns, "--model", tmp_path / "m", stdin=content)
    assert code == 0, said
    assert TextClassifier.load(tmp_path / "m").columns_ == KNOWN


@pytest.mark.parametrize("columns", [{"text": 1, "target": "b", "label_delimiter": None}, KNOWN | {"target": 7}, 7])
def test_rejects_invalid_names(model, tmp_path, columns):
    arrays, metadata = storage.load(model)
    storage.save(tmp_path / "m", arrays, metadata | {"columns": columns})
    with pytest.raises(ModelError):
        TextClassifier.load(tmp_path / "m")
    code, _, said = run("evaluate", tmp_path / "m", write(tmp_path / "test.csv"))
    assert code == 1
    assert "error: " in said
