"""The command line on tables with mixed columns."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

from sparsenet import TableClassifier
from tests.support.text_command_line import in_process


def sparsenet(*words):
    """Run a command; return its exit status and output as text."""
    done = in_process(*words)
    return SimpleNamespace(returncode=done.returncode, stdout=_text(done.stdout), stderr=_text(done.stderr))


def _text(output):
    return output.decode() if isinstance(output, bytes) else output


def write(path, n=200, seed=0, *, mark=","):
    """Write a table whose class depends on a number and a category."""
    rng = np.random.default_rng(seed)
    size, colour = rng.normal(size=n), rng.choice(["red", "blue"], n)
    kind = np.where(size > 0, colour, "none")
    rows = [f"{s:.3f}{mark}{c}{mark}{k}" for s, c, k in zip(size, colour, kind, strict=True)]
    path.write_text("\n".join([mark.join(("size", "colour", "kind")), *rows, ""]))
    return kind


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    write(folder / "train.csv")
    write(folder / "test.csv", 60, seed=1)
    done = sparsenet(
        *("train", folder / "train.csv", "--target", "kind", "--method", "linear", "--model", folder / "model"),
        *("--valid", folder / "test.csv", "--json"),
    )
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout), done.stderr


def test_train_reports_what_was_learnt(trained):
    folder, summary, notes = trained
    assert summary["points"] == 200
    assert summary["labels"] == 3
    assert summary["method"] == "linear"
    assert summary["valid"] > 0.9
    assert summary["validation"]["accuracy"] > 0.9
    assert "colour  category" in notes
    model = TableClassifier.load(folder / "model")
    assert model.method == "linear"
    assert model.n_jobs is None


def test_evaluate(trained):
    folder, summary, _ = trained
    done = sparsenet("evaluate", folder / "model", folder / "test.csv", "--k", "1,2", "--json")
    assert done.returncode == 0, done.stderr
    scores = json.loads(done.stdout)
    assert scores["accuracy"] == scores["P@1"] == summary["valid"]
    assert {"P@2", "nDCG@1", "PSP@1", "recall@100", "macro_f1"} <= scores.keys()
    assert "60 rows in" in sparsenet("evaluate", folder / "model", folder / "test.csv").stdout


def test_predict(trained):
    folder, _, _ = trained
    done = sparsenet("predict", folder / "model", folder / "test.csv", "--k", "2", "--format", "jsonl")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    model = TableClassifier.load(folder / "model")
    assert [row["labels"][0] for row in rows] == model.predict(folder / "test.csv").tolist()
    done = sparsenet("predict", folder / "model", folder / "test.csv", "--threshold", "0.99")
    assert all(line == "" or float(line.split(":")[1].split("\t")[0]) >= 0.99 for line in done.stdout.splitlines())
    (folder / "empty.csv").write_text("size,colour\n")
    assert sparsenet("predict", folder / "model", folder / "empty.csv").stdout == ""


def test_other_formats(trained, tmp_path):
    folder, _, _ = trained
    write(tmp_path / "test.tsv", 60, seed=1, mark="\t")
    write(tmp_path / "test.txt", 60, seed=1, mark=";")
    scores = [
        sparsenet("evaluate", folder / "model", path, "--json", *more)
        for path, more in (
            (folder / "test.csv", ()),
            (tmp_path / "test.tsv", ()),
            (tmp_path / "test.txt", ("--format", "csv", "--delimiter", ";")),
        )
    ]
    assert len({json.loads(done.stdout)["P@1"] for done in scores}) == 1


def test_info(trained):
    folder, _, _ = trained
    words = sparsenet("info", folder / "model").stdout
    assert "TableClassifier" in words
    assert "colour  category" in words
    found = json.loads(sparsenet("info", folder / "model", "--json").stdout)
    assert found["target"] == "kind"
    assert found["chosen"] == {"method": "linear"}


@pytest.mark.slow
def test_types_and_methods(trained, tmp_path):
    folder, _, _ = trained
    ask = ["train", folder / "train.csv", "--target", "kind", "--model", tmp_path / "model", "--method", "boosting"]
    done = sparsenet(*ask, "--types", "colour=ignore,size=number", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["method"] == "boosting"
    assert "colour  ignore" in done.stderr
    assert sparsenet(*ask, "--types", "colour=hue").returncode == 1
    assert "price=number" in sparsenet(*ask, "--types", "colour").stderr


@pytest.mark.slow
def test_several_classes_in_a_cell(tmp_path):
    write(tmp_path / "train.csv")
    text = (tmp_path / "train.csv").read_text().replace(",none\n", ",none;small\n")
    (tmp_path / "train.csv").write_text(text)
    ask = ["train", tmp_path / "train.csv", "--target", "kind", "--model", tmp_path / "model", "--method", "table"]
    done = sparsenet(*ask, "--label-delimiter", ";", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["labels"] == 4
    scores = json.loads(sparsenet("evaluate", tmp_path / "model", tmp_path / "train.csv", "--json").stdout)
    assert scores["P@1"] > 0.9


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--target", "kin"], "--target 'kin' is not a column; there are 'size', 'colour', 'kind'"),
        (["--target", "kind", "--word-ngrams", "2"], "has no effect on a model of a table"),
        (["--target", "kind", "--hidden", "8"], "has no effect on a model of a table"),
        (["--target", "kind", "--resume"], "a model of a table has no checkpoints to resume from"),
    ],
)
def test_refuses_options(trained, tmp_path, options, problem):
    folder, _, _ = trained
    done = sparsenet("train", folder / "train.csv", "--model", tmp_path / "model", *options)
    assert done.returncode in (1, 2)
    assert problem in " ".join(done.stderr.replace("│", " ").split())
    assert not (tmp_path / "model").exists()


def test_a_table_without_its_columns_is_refused(trained, tmp_path):
    folder, _, _ = trained
    (tmp_path / "less.csv").write_text("size\n1\n")
    done = sparsenet("predict", folder / "model", tmp_path / "less.csv")
    assert done.returncode == 1
    assert "the column 'colour' is missing" in done.stderr
    assert sparsenet("predict", folder / "model", folder / "test.csv", "--threshold", "learnt").returncode == 2
    assert sparsenet("compress", folder / "model", "--max-bytes", "5kB").returncode == 2


def test_names_the_file_and_the_options_that_mend_it(trained, tmp_path):
    folder, _, _ = trained
    (tmp_path / "none.csv").write_text("size,colour,kind\n")
    done = sparsenet("evaluate", folder / "model", tmp_path / "none.csv")
    assert done.returncode == 1
    assert "none.csv: holds no rows, so there is nothing to measure" in done.stderr
    (tmp_path / "big.csv").write_text("size,colour,kind\nbig,red,none\n")
    done = sparsenet("evaluate", folder / "model", tmp_path / "big.csv")
    assert "or fit with --types size=category (options of train: --types)" in done.stderr
    (tmp_path / "rows.jsonl").write_text('{"size": 1, "colour": "red", "kind": "none"}\n')
    done = sparsenet("evaluate", folder / "model", tmp_path / "rows.jsonl", "--delimiter", ";")
    assert "--delimiter ';' is for CSV and TSV, and this file is read as jsonl: leave it out" in done.stderr


def test_a_text_column_trains_a_text_model(tmp_path):
    rows = [f"{'good' if i % 2 else 'bad'} thing {i},{i % 2}" for i in range(40)]
    (tmp_path / "train.csv").write_text("\n".join(["text,kind", *rows, ""]))
    done = sparsenet("train", tmp_path / "train.csv", "--target", "kind", "--model", tmp_path / "model", "--json")
    assert done.returncode == 0, done.stderr
    assert "multilabel" in json.loads(done.stdout)


def test_evaluate_compares_classes_by_spelling_as_score_does(tmp_path):
    size = [float(i % 2) for i in range(60)]
    frame = {"size": size, "kind": [3.0 if each else 4.0 for each in size]}
    model = TableClassifier(method="linear", random_state=0, n_jobs=1).fit(frame, target="kind")
    model.save(tmp_path / "model")
    path = tmp_path / "rows.csv"
    path.write_text("size,kind\n" + "1,3\n0,4\n" * 5 + "1,5\n")
    found = json.loads(sparsenet("evaluate", tmp_path / "model", path, "--json", "--k", 1).stdout)
    assert found["accuracy"] == model.score(path) == 10 / 11
