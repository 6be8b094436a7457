"""Streams of events on the command line: train, evaluate, predict and info."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparsenet import load
from sparsenet.cli import models, stream_commands
from sparsenet.storage.folder import Folder
from sparsenet.temporal import NextItem, TemporalLinkPredictor
from sparsenet.temporal.stream_model import StreamModel
from tests.support.command_line import files, press_ctrl_c_in
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


def test_answers_each_row_of_a_log(folder: Path) -> None:
    status, shown, said = run("predict", folder / "wiki", folder / "later.csv", "--k", 1)
    assert status == 0
    assert "200 rows of " in said
    assert said.endswith("later.csv answered for the users in column 'who' at the times in column 'time'")
    asked = [row.split(",") for row in (folder / "later.csv").read_text().splitlines()[1:]]
    users, times = [row[0] for row in asked], [float(row[2]) for row in asked]
    found = fitted(folder).topk(users, time=times, k=1)
    wanted = zip(users, found["item"].tolist(), found["score"].tolist(), strict=True)
    assert shown == "".join(f"{user}\t{item}:{score:.6g}\n" for user, item, score in wanted)


def test_answers_a_table_without_times_and_with_unknown_users(folder: Path) -> None:
    content = b"n,who\n1,u07\n2,nobody\n"
    options = ["--input-format", "csv", "--batch-size", 1]
    status, shown, said = run("predict", folder / "wiki", "-", *options, stdin=content)
    assert (status, [line.split("\t")[0] for line in shown.splitlines()]) == (0, ["u07", "nobody"])
    assert "answered for the users in column 'who' after the last event" in said
    assert "1 user unknown to the model, such as 'nobody'" in said


def test_says_that_lines_are_no_users(folder: Path) -> None:
    status, _, said = run("predict", folder / "wiki", "-", stdin=b"u07\nu07,p03,900\n")
    assert status == 0
    assert "1 user unknown to the model, such as 'u07,p03,900': they get what users without a history take" in said
    assert "pass --input-format csv" in said


def test_refuses_questions_before_the_last_event(folder: Path) -> None:
    status, shown, said = run("predict", folder / "wiki", folder / "edits.csv")
    assert (status, shown) == (1, "")
    assert "edits.csv, line 2: the time 0 in column 'time' is before 799" in said
    assert said.endswith("ask for a later time")


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


LINKS = ["--method", "links", "--source", "who", "--target", "page", "--threads", "1"]


def test_trains_the_link_predictor_of_python(links: Path, folder: Path) -> None:
    status, shown, said = run(
        "train", folder / "edits.csv", *LINKS, "--memory", 8, "--model", folder / "cli", "--valid", folder / "later.csv"
    )
    assert (status, said) == (0, "")
    assert "35 nodes, 800 events, loss 1." in shown
    assert "AP historical" in shown
    pair = ("u07", ["p03", "p05"])
    found, wanted = (TemporalLinkPredictor.load(path).predict_proba(*pair) for path in (folder / "cli", links))
    assert found.tolist() == wanted.tolist()


def test_options_set_the_parameters_of_a_link_predictor(folder: Path) -> None:
    options = {"neighbors": 3, "batch_size": 50, "epochs": 2, "learning_rate": 0.01, "dropout": 0.2, "max_nodes": 30}
    flags = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
    status, _, said = run("train", folder / "edits.csv", *LINKS, *flags, "--seed", 5, "--model", folder / "set")
    assert (status, said) == (0, "")
    model = TemporalLinkPredictor.load(folder / "set")
    assert options | {"random_state": 5, "memory": 100} == {
        name: model.get_params()[name] for name in (*options, "random_state", "memory")
    }
    assert model.n_nodes_ <= 30


@pytest.mark.parametrize("kind", ["wiki", "links"])
def test_updates_as_python(kind: str, links: Path, folder: Path) -> None:
    model, new = folder / kind, folder / f"new {kind}"
    before = sorted((file.name, file.read_bytes()) for file in model.iterdir())
    status, shown, said = run("update", model, folder / "later.csv", "--output", new)
    assert (status, said) == (0, "")
    assert shown.startswith("200 further events learnt\n")
    assert sorted((file.name, file.read_bytes()) for file in model.iterdir()) == before
    wanted = load(model).update(folder / "later.csv")
    wanted.save(folder / "wanted")
    arrays, found = ({file.name for file in path.glob("arrays*")} for path in (folder / "wanted", new))
    assert arrays == found
    status, _, said = run("update", new, folder / "later.csv")
    assert status == 1
    assert "later.csv, line 2: the time 800 in column 'time' is before 999, the last event learnt" in said
    assert load(new).n_events_ == 1000


@pytest.mark.parametrize(
    ("owner", "name", "said"),
    [
        (models, "stream_kind", "while starting: no model is saved, {model} stays as it was"),
        (stream_commands, "load", "while loading {model}: no model is saved, {model} stays as it was"),
        (StreamModel, "_read", "while learning the stream {log}: no model is saved, {model} stays as it was"),
        (NextItem, "_learn", "while learning the stream {log}: no model is saved, {model} stays as it was"),
        (Folder, "write", "while saving: {model} holds the earlier model, or all of the new one"),
        (Folder, "rename", "while saving: {model} holds the earlier model, or all of the new one"),
    ],
)
def test_ctrl_c_in_an_update_names_the_step_and_leaves_a_model(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, said: str
) -> None:
    model, log = tmp_path / "model", folder / "later.csv"
    shutil.copytree(folder / "wiki", model)
    before = files(model)
    press_ctrl_c_in(monkeypatch, owner, name)
    status, shown, told = run("update", model, log)
    assert (status, shown, told) == (130, "", f"sparsenet: interrupted: {said.format(model=model, log=log)}")
    assert files(model) == before
    assert load(model).n_events_ == 800


def test_an_extension_module_that_ctrl_c_interrupts_is_no_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise ImportError("initialization failed") from KeyboardInterrupt()

    monkeypatch.setattr(models, "stream_kind", interrupted)
    model = folder / "wiki"
    status, _, told = run("update", model, folder / "later.csv")
    assert (status, told) == (
        130,
        f"sparsenet: interrupted: while starting: no model is saved, {model} stays as it was",
    )
    assert run("evaluate", model, folder / "later.csv")[::2] == (130, "sparsenet: interrupted")


def test_updates_in_place_with_features(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("user,item,time,stars,way\na,x,1,5,web\nb,y,2,1,shop\n")
    (tmp_path / "items.csv").write_text("item,price\nx,3\ny,4\n")
    (tmp_path / "more.csv").write_text("item,price\nz,5\n")
    (tmp_path / "later.csv").write_text("user,item,time,stars,way\na,z,3,4,web\n")
    features = ["--event-features", "stars", "--event-features", "way", "--item-features", tmp_path / "items.csv"]
    options = ["--method", "next-item", *features, "--model", tmp_path / "shop"]
    assert run("train", tmp_path / "log.csv", *options)[0] == 0
    assert run("update", tmp_path / "shop", tmp_path / "later.csv", "--item-features", tmp_path / "more.csv")[0] == 0
    model = NextItem.load(tmp_path / "shop")
    assert (model.n_events_, model.features_) == (3, {"events": ["stars", "way"], "items": ["price"]})
    assert model._saved.stream.item_table.names == ["x", "y", "z"]


def test_wrong_files_for_validation(folder: Path, tmp_path: Path) -> None:
    ask = ["train", folder / "edits.csv", *TRAIN, "--model", tmp_path / "model", "--valid"]
    status, _, said = run(*ask, tmp_path / "nowhere.csv")
    assert (status, said) == (1, f"sparsenet: error: {tmp_path / 'nowhere.csv'}: No such file or directory")
    assert not (tmp_path / "model").exists()
    (tmp_path / "other.csv").write_text("user,page,time\nu01,p01,900\n")
    status, _, said = run(*ask, tmp_path / "other.csv")
    assert status == 1
    assert said.startswith(f"sparsenet: the model {tmp_path / 'model'} is saved, and was not measured")
    assert "other.csv: there is no column 'who', which the model learnt from" in said


def test_a_pipe_is_not_read_as_the_parquet_of_training(tmp_path: Path) -> None:
    pandas, _ = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    pandas.DataFrame({"user": [1, 2], "item": [3, 4], "time": [0, 1]}).to_parquet(tmp_path / "log.parquet")
    assert run("train", tmp_path / "log.parquet", "--method", "next-item", "--model", tmp_path / "model")[0] == 0
    status, _, said = run("update", tmp_path / "model", "-", stdin=b"user,item,time\n5,3,2\n")
    assert (status, "cannot tell the format of '<stdin>' by its name: give --format as csv" in said) == (1, True)
    status, _, said = run("update", tmp_path / "model", "-", "--format", "csv", stdin=b"user,item,time\n5,3,2\n")
    assert (status, said) == (0, "")
    assert load(tmp_path / "model").users_.tolist() == [1, 2, 5]
    status, _, said = run("train", tmp_path, "--method", "next-item", "--model", tmp_path / "model")
    assert (status, said) == (1, f"sparsenet: error: {tmp_path}: Is a directory")


def test_only_models_of_streams_are_updated(tmp_path: Path, folder: Path) -> None:
    run("train", folder / "edits.csv", "--user", "who", "--item", "page", "--model", tmp_path / "log")
    status, _, said = run("update", tmp_path / "log", folder / "later.csv")
    assert status == 2
    assert "is no model of a stream" in " ".join(said.split())


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ("a,x,2,1\nb,y,1,1\n", [], "line 3: the time in column 'time' goes back from 2 to 1: pass --sort"),
        ("a,x,1,1\nb,y,2,nan\n", ["--event-features", "size"], "line 3: column 'size' is empty, and features may not"),
        ("a,x,1,1\nb,y,nan,1\n", [], "line 3: column 'time' holds no time"),
        ("a,x,1,1\n", ["--event-features", "cost"], "log.csv: --event-features 'cost' is not a column"),
        ("", [], "holds no rows: a log has a row for each event"),
    ],
)
@pytest.mark.parametrize("kind", [["next-item", "--user", "who", "--item", "page"], LINKS[1:]])
def test_names_the_bad_row_of_training(
    kind: list[str], rows: str, options: list[str], message: str, tmp_path: Path
) -> None:
    (tmp_path / "log.csv").write_text("who,page,time,size\n" + rows)
    status, _, said = run("train", tmp_path / "log.csv", "--method", *kind, *options, "--model", tmp_path / "none")
    assert status == 1
    assert message in said
    assert not (tmp_path / "none").exists()


def test_evaluation_of_links_without_training_and_ranking(links: Path, folder: Path) -> None:
    status, shown, _ = run("evaluate", links, folder / "later.csv", "--no-train", "--no-ranking", "--json")
    wanted = TemporalLinkPredictor.load(links).score(folder / "later.csv", train=False, ranking=False)
    assert status == 0
    assert {name: json.loads(shown).get(name) for name in wanted} == wanted
    assert "MRR" not in json.loads(shown)


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
        ("who,time\nu01,800\n", "later.csv: there is no column 'page', which the model learnt from: rename"),
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
        (["--input-format", "lines"], "lines is not for tables and logs"),
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
        ([*TRAIN, "--no-header"], "--no-header: has no effect on a model of a stream"),
        ([*TRAIN, "--seed", "5"], "has no effect on a model of a stream"),
        ([*TRAIN, "--source", "who"], "next-item has users and items: --user and --item"),
        ([*LINKS, "--user", "who"], "links has sources and targets: --source and --target"),
        ([*LINKS, "--history", "5"], "has no effect on a link predictor"),
        ([*TRAIN, "--memory", "5"], "has no effect on a model of a stream"),
        (["--user", "who", "--item", "page", "--history", "5"], "is for streams of events: --method next-item"),
        (["--target", "page", "--source", "who"], "is for streams of events: --method links"),
        ([*TRAIN, "--format", "svmlight"], "svmlight is not for tables and logs"),
    ],
)
def test_refuses_options_without_effect(options: list[str], message: str, folder: Path) -> None:
    status, _, said = run("train", folder / "edits.csv", *options, "--model", folder / "none")
    assert status == 2
    assert message in " ".join(said.split()).replace("│ ", "").replace(" │", "")
