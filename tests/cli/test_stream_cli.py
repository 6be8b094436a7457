"""Streams of events on the command line: train, evaluate, predict and info."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparsenet import load
from sparsenet.temporal import NextItem, TemporalLinkPredictor
from tests.support.text_command_line import run


def write_stream(path: Path, first: int, last: int) -> Path:
    """Write edits of users who stay at a page or go on to the next one."""
    rng, page = np.random.default_rng(0), np.zeros(20, int)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["who", "page", "time"])
        for time in range(last):
            user = rng.integers(20)
            page[user] = rng.choice([page[user], (page[user] + 1) % 15])
            if time >= first:
                rows.writerow([f"u{user:02}", f"p{page[user]:02}", time])
    return path


TRAIN = ["--method", "next-item", "--user", "who", "--item", "page"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("streams")
    edits, later = write_stream(folder / "edits.csv", 0, 800), write_stream(folder / "later.csv", 800, 1000)
    status, shown, said = run("train", edits, *TRAIN, "--model", folder / "wiki", "--valid", later)
    assert (status, said) == (0, "")
    assert "20 users, 15 items, 800 events" in shown
    assert "MRR " in shown
    return folder


def fitted(folder: Path) -> NextItem:
    return NextItem(output="arrays").fit(folder / "edits.csv", user="who", item="page")


def test_the_model_is_that_of_python(folder: Path) -> None:
    model = load(folder / "wiki")
    assert isinstance(model, NextItem)
    assert model.topk("u03")["score"].tolist() == fitted(folder).topk("u03")["score"].tolist()


def test_evaluates_as_python_and_changes_nothing(folder: Path) -> None:
    for _ in range(2):
        status, shown, _ = run("evaluate", folder / "wiki", folder / "later.csv", "--json")
        found: dict[str, Any] = json.loads(shown)
        assert (status, found.pop("events"), found.pop("seconds") >= 0) == (0, 200, True)
        assert found == fitted(folder).score(folder / "later.csv")


def test_predicts_for_users_in_their_order(folder: Path) -> None:
    status, shown, _ = run("predict", folder / "wiki", "-", "--k", "2", stdin=b"u07\nnobody\n\nu07\n")
    assert status == 0
    lines = [line.split("\t") for line in shown.splitlines()]
    assert [line[0] for line in lines] == ["u07", "nobody", "u07"]
    assert [cell.split(":")[0] for cell in lines[0][1:]] == fitted(folder).topk("u07", k=2)["item"].tolist()
    status, shown, _ = run("predict", folder / "wiki", "-", "--k", "1", "--format", "jsonl", stdin=b"u07\n")
    assert json.loads(shown)["items"] == [lines[0][1].split(":")[0]]


def test_describes_the_model(folder: Path) -> None:
    status, shown, _ = run("info", folder / "wiki")
    assert status == 0
    assert "NextItem" in shown
    assert "user in 'who', item in 'page', time in 'time'" in shown
    found = json.loads(run("info", folder / "wiki", "--json")[1])
    assert (found["users"], found["items"], found["events"], found["settings"]) == (20, 15, 800, {})


def test_describes_a_link_predictor(tmp_path: Path) -> None:
    log = {"source": [1, 2, 1], "target": [3, 4, 4], "time": [0, 1, 2]}
    TemporalLinkPredictor(memory=8, batch_size=2, epochs=1, random_state=0).fit(log).save(tmp_path / "links")
    status, shown, _ = run("info", tmp_path / "links")
    assert status == 0
    assert "TemporalLinkPredictor" in shown
    assert "4 nodes, 3 events" in shown


@pytest.fixture(scope="module")
def links(folder: Path) -> Path:
    model = TemporalLinkPredictor(memory=8, random_state=0, n_jobs=1)
    model.fit(folder / "edits.csv", source="who", target="page").save(folder / "links")
    return folder / "links"


def test_evaluates_a_link_predictor(links: Path, folder: Path) -> None:
    status, shown, _ = run("evaluate", links, folder / "later.csv", "--json")
    found: dict[str, Any] = json.loads(shown)
    assert (status, found.pop("events"), found.pop("seconds") >= 0) == (0, 200, True)
    assert found == TemporalLinkPredictor.load(links).score(folder / "later.csv")
    status, shown, _ = run("evaluate", links, folder / "later.csv")
    assert f"AP historical {100 * found['AP historical']:.2f}" in shown
    assert "200 events in" in shown


def test_predicts_the_links_of_a_table(links: Path, folder: Path) -> None:
    (folder / "pairs.csv").write_text("page,who\np03,u07\np04,nobody\n")
    status, shown, _ = run("predict", links, folder / "pairs.csv")
    assert status == 0
    wanted = TemporalLinkPredictor.load(links).predict_proba(["u07", "nobody"], ["p03", "p04"])
    assert shown == f"u07\tp03:{wanted[0]:.6g}\nnobody\tp04:{wanted[1]:.6g}\n"
    content = (folder / "pairs.csv").read_bytes()
    status, shown, _ = run("predict", links, "-", "--input-format", "csv", "--format", "jsonl", stdin=content)
    first = {"source": "u07", "target": "p03", "probability": float(f"{wanted[0]:.6g}")}
    assert (status, json.loads(shown.splitlines()[0])) == (0, first)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("who,page,time\nu01,p01,5\n", "later.csv, line 2: the time 5 in column 'time' is before 799"),
        ("who,page,time\nu01,p01,800\nu01,,801\n", "later.csv, line 3: column 'page' is empty"),
        ("who,time\nu01,800\n", "later.csv: target='page' is not a column"),
        ("who,page,time\nu01,p01,soon\n", "later.csv, line 2: column 'time' holds 'soon'"),
    ],
)
def test_names_what_is_wrong_with_a_log(links: Path, tmp_path: Path, table: str, message: str) -> None:
    (tmp_path / "later.csv").write_text(table)
    status, _, said = run("evaluate", links, tmp_path / "later.csv")
    assert status == 1
    assert message in said
    if "800" in table:
        status, _, said = run("predict", links, tmp_path / "later.csv")
        assert (status, message in said) == (1, True)


def test_refuses_options_without_effect_on_a_link_predictor(links: Path, folder: Path) -> None:
    for options, message in (
        (["--k", "3"], "has no effect on a link predictor"),
        (["--input-format", "lines"], "lines is not for logs"),
    ):
        status, _, said = run("predict", links, folder / "later.csv", *options)
        assert (status, message in " ".join(said.split())) == (2, True)


def test_sorts_and_sets_options(folder: Path) -> None:
    rows = (folder / "edits.csv").read_text().splitlines()
    mixed = folder / "mixed.csv"
    mixed.write_text("\n".join([rows[0], *reversed(rows[1:])]) + "\n")
    status, _, said = run("train", mixed, *TRAIN, "--model", folder / "mixed")
    assert status == 1
    assert "goes back from 799 to 798: pass --sort" in said
    status, _, _ = run("train", mixed, *TRAIN, "--sort", "--history", "5", "--model", folder / "mixed")
    assert status == 0
    assert "history=5" in run("info", folder / "mixed")[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([*TRAIN, "--weight", "n"], "has no effect on a model of a stream"),
        ([*TRAIN, "--seed", "5"], "has no effect on a model of a stream"),
        (["--user", "who", "--item", "page", "--history", "5"], "is for streams of events: --method next-item"),
        ([*TRAIN, "--format", "svmlight"], "svmlight is not for logs"),
    ],
)
def test_refuses_options_without_effect(options: list[str], message: str, folder: Path) -> None:
    status, _, said = run("train", folder / "edits.csv", *options, "--model", folder / "none")
    assert status == 2
    assert message in " ".join(said.split()).replace("│ ", "").replace(" │", "")
