"""`sparsenet info MODEL`: reports on models of points and text, and refusal of other directories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sparsenet import ExtremeClassifier, TextClassifier, storage
from sparsenet.cli.about_model import choices_of, collect, describe
from sparsenet.selection.choose import Decision
from tests.support.command_line import fails, files, run, write_xmc
from tests.support.texts import planted


@pytest.fixture
def tagger(tmp_path: Path) -> Path:
    write_xmc(tmp_path / "train.txt", 60, seed=1)
    options = ("--hidden", 8, "--epochs", 3, "--valid", write_xmc(tmp_path / "valid.txt", 20, seed=2), "--seed", 5)
    run("train", tmp_path / "train.txt", "--model", tmp_path / "tagger", "--method", "network", *options)
    return tmp_path / "tagger"


def about(model: Path) -> dict[str, Any]:
    return json.loads(run("info", model, "--json").stdout)


def test_report_on_a_model_of_points(tagger: Path) -> None:
    found, model = about(tagger), ExtremeClassifier.load(tagger)
    assert (found["kind"], found["labels"], found["features"], found["points"]) == ("ExtremeClassifier", 20, 60, 60)
    assert found["weights"] == sum(array.size for name, array in model.network_.weights().items() if "ind" not in name)
    assert found["bytes"] == sum(map(len, files(tagger).values()))
    assert (found["precision"], found["label_kind"]) == ("32 bits", "sparse")
    assert (found["settings"]["epochs"], found["chosen"]["epochs"], found["chosen"]["normalize"]) == (3, 3, "rows")
    assert found["validation"].keys() == {"P@1", "P@3", "P@5"}
    model.save(tagger, compact=True)
    assert about(tagger)["precision"] == "8 and 16 bits"
    assert about(tagger)["bytes"] < found["bytes"]


def test_text_output(tagger: Path) -> None:
    lines = dict(line.split(maxsplit=1) for line in run("info", tagger).stdout.splitlines())
    assert lines["labels"] == "20 (columns of a matrix)"
    assert lines["trained"] == "on  60 points"
    assert lines["settings"] == "epochs=3, hidden=8, random_state=5"
    assert "normalize=rows" in lines["chosen"]


@pytest.mark.parametrize("method", ["linear", "network"])
def test_report_on_a_text_model(tmp_path: Path, method: str) -> None:
    texts, labels = planted(200)
    own = {"cost": 2.0} if method == "linear" else {"epochs": 3}
    model = TextClassifier(method=method, time_budget=20, random_state=0, **own).fit(texts, labels)
    model.save(tmp_path / "m")
    found = about(tmp_path / "m")
    assert (found["kind"], found["labels"], found["label_kind"]) == ("TextClassifier", 3, "single")
    assert found["points"] == 200
    assert found["validation"] == {"P@1": model.validation_score_}
    assert found["chosen"]["method"] == method
    assert found["precision"] == ("8 bits" if method == "linear" else "32 bits")
    if method == "linear":
        assert found["weights"] == 3 * (found["features"] + 1)
        best = max(model.search_, key=lambda trial: trial["score"])
        assert {name: found["chosen"][name] for name in ("cost", "word_ngrams")} == {
            name: best[name] for name in ("cost", "word_ngrams")
        }
    said = run("info", tmp_path / "m").stdout
    assert ("cost=2.0" if method == "linear" else "epochs=3") in said
    assert "3 (one per text)" in said


def test_report_names_text_columns(tmp_path: Path) -> None:
    texts, labels = planted(200)
    TextClassifier(random_state=0).fit(texts, labels).save(tmp_path / "m")
    assert about(tmp_path / "m")["columns"] is None
    assert "\ncolumns" not in run("info", tmp_path / "m").stdout
    frame = pd.DataFrame({"title": texts, "body": texts, "team": labels})
    TextClassifier(random_state=0).fit(frame, text=["title", "body"], target="team").save(tmp_path / "m")
    known = {"text": ["title", "body"], "target": "team", "label_delimiter": None}
    assert about(tmp_path / "m")["columns"] == known
    assert "columns     texts in 'title' and 'body', labels in 'team'\n" in run("info", tmp_path / "m").stdout
    TextClassifier(random_state=0).fit(frame, labels, text="title").save(tmp_path / "m")
    assert "columns     texts in 'title'\n" in run("info", tmp_path / "m").stdout


def test_wrong_directories_are_refused(tagger: Path, tmp_path: Path) -> None:
    assert "nowhere: does not exist; a sparsenet model is a directory" in fails("info", tmp_path / "nowhere")
    assert "is not a sparsenet model" in fails("info", tmp_path)
    data = next(tagger.glob("arrays-*"))
    data.write_bytes(data.read_bytes()[:-1])
    assert "the file is damaged" in fails("info", tagger, "--json")


class Parts:
    """A stand-in for a fitted classifier with parts and choices."""

    def __init__(self, choices: dict[str, Any], **parts: Any) -> None:
        self.choices_ = choices
        vars(self).update(parts)


def test_choices_of_every_classifier_have_one_form() -> None:
    decision = Decision("dearer", "better", ("usual", "dearer"), 0.5, 0.25, 100)
    fields = {"value": "dearer", "why": "better", "options": ["usual", "dearer"]}
    fields |= {"gain": 0.5, "standard_error": 0.25, "n": 100}
    undecided = {"options": [], "gain": None, "standard_error": None, "n": 0}
    network = Parts({"hidden": Decision(256, "fits"), "rate": (np.float32(0.5), "a pair of an old pickle")})
    whole = Parts({"cost": decision}, network_=network, tree_=object())
    assert choices_of(whole) == {
        "cost": fields,
        "network__hidden": {"value": 256, "why": "fits", **undecided},
        "network__rate": {"value": 0.5, "why": "a pair of an old pickle", **undecided},
    }
    assert choices_of(object()) == {}


def test_decisions_are_shown_with_their_reason(tagger: Path) -> None:
    found = collect(tagger)
    assert found["choices"]["batch_size"]["options"] == []
    assert "\ndecided" not in describe(found)
    found["choices"]["cost"] = Decision(
        "dearer", "dearer: P@1 1.00 percentage points above usual", ("usual", "dearer")
    )._asdict()
    assert "\ndecided     cost: dearer: P@1 1.00 percentage points above usual\n" in describe(found)


def test_info_without_a_model_describes_the_machine() -> None:
    assert "kernels" in run("info").stdout


@pytest.mark.parametrize(
    "options",
    [("--method", "tree"), ("--no-network",), ("--hidden", 0, "--epochs", 1, "--compact")],
    ids=["tree", "blend without a network", "blend"],
)
def test_validation_scores_are_saved_with_trees_and_blends(tmp_path: Path, options: tuple[Any, ...]) -> None:
    train, valid = write_xmc(tmp_path / "train.txt", 60, 0), write_xmc(tmp_path / "valid.txt", 40, 1)
    arguments = ("train", train, "--model", tmp_path / "m", *options)
    run(*arguments)
    before = about(tmp_path / "m")
    assert before["validation"] is None
    assert "held out" not in run("info", tmp_path / "m").stdout
    measured = json.loads(run(*arguments, "--valid", valid, "--json").stdout)["validation"]
    assert about(tmp_path / "m") == before | {"validation": measured, "bytes": about(tmp_path / "m")["bytes"]}
    assert f"held out    P@1 {100 * measured['P@1']:.2f}  P@3 " in run("info", tmp_path / "m").stdout
    arrays, metadata = storage.load(tmp_path / "m")
    storage.save(tmp_path / "m", arrays, metadata | {"validation": {"P@1": 1.5}})
    assert "P@1 must be a number in [0, 1], got 1.5" in fails("info", tmp_path / "m")
