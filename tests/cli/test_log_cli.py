"""Recommenders on the command line: train, predict, evaluate and info."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparsenet import Recommender
from tests.support.text_command_line import run, sparsenet


def write_log(path: Path, seed: int, n_users: int = 60, first: int = 0) -> Path:
    """Write a log of users who like one of three groups of items."""
    rng = np.random.default_rng(seed)
    lines = ["who,what,when,amount"]
    for minute in range(10 * n_users):
        user = first + int(rng.integers(n_users))
        item = 3 * rng.integers(8) + user % 3 if rng.random() < 0.8 else rng.integers(24)
        lines.append(f"u{user:02},i{item:02},2026-03-01T{minute // 60 % 24:02}:{minute % 60:02},{rng.integers(1, 4)}")
    path.write_text("\n".join(lines) + "\n")
    return path


COLUMNS = ["--user", "who", "--item", "what", "--time", "when", "--weight", "amount"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    write_log(folder / "log.csv", 0)
    write_log(folder / "later.csv", 1)
    write_log(folder / "new.csv", 2, first=60)
    status, shown, said = run("train", folder / "log.csv", *COLUMNS, "--model", folder / "shop")
    assert (status, said) == (0, "")
    assert "60 users, 24 items, 600 events" in shown
    return folder


def answers(*arguments: Any, stdin: str = "") -> list[list[str]]:
    status, shown, _ = run("predict", *arguments, stdin=stdin.encode())
    assert status == 0
    return [line.split("\t") for line in shown.splitlines()]


def test_the_model_is_that_of_python(folder: Path) -> None:
    model = Recommender(random_state=0).fit(folder / "log.csv", "who", "what", "when", "amount")
    found, own = Recommender.load(folder / "shop").recommend(k=3), model.recommend(k=3)
    assert all(np.array_equal(found[name], own[name]) for name in own)


def test_predicts_for_users_by_name_in_their_order(folder: Path) -> None:
    found = answers(folder / "shop", "-", "--k", "2", stdin="u07\nu03\n\nu07\n")
    assert [line[0] for line in found] == ["u07", "u03", "u07"]
    assert found[0] == found[2]
    model = Recommender.load(folder / "shop")
    assert [cell.split(":")[0] for cell in found[1][1:]] == model.recommend("u03", k=2)["item"].tolist()
    (folder / "users.txt").write_text("u07\nu03\n")
    assert answers(folder / "shop", folder / "users.txt", "--k", "2", "--batch-size", "1") == found[:2]


def test_unknown_users_get_popular_items(folder: Path) -> None:
    status, shown, said = run("predict", folder / "shop", stdin=b"nobody\nu01\n")
    assert status == 0
    assert "1 user not in the training log: they get the most popular items" in said
    popular = Recommender.load(folder / "shop").recommend_for([], k=5)["item"].tolist()
    assert [cell.split(":")[0] for cell in shown.splitlines()[0].split("\t")[1:]] == popular


def test_predicts_for_baskets(folder: Path) -> None:
    found = answers(folder / "shop", "--baskets", "--k", "2", stdin="i00, i03\ni01\n")
    model = Recommender.load(folder / "shop")
    assert [cell.split(":")[0] for cell in found[0]] == model.recommend_for(["i00", "i03"], k=2)["item"].tolist()
    assert len(found) == 2
    assert answers(folder / "shop", "--baskets", "--k", "2", "--delimiter", ";", stdin="i00;i03\n") == found[:1]


def test_one_warning_names_unknown_items_of_all_baskets(folder: Path) -> None:
    how = ["--baskets", "--k", "2", "--batch-size", "1"]
    status, shown, said = run("predict", folder / "shop", *how, stdin=b"i00,zz\nyy,i03\n")
    assert status == 0
    assert said.count("warning") == 1
    assert "warning: the model does not know 2 of 4 items, 'zz', 'yy': left out" in said
    assert shown == run("predict", folder / "shop", *how, stdin=b"i00\ni03\n")[1]


def test_predicts_for_the_users_of_a_new_log(folder: Path) -> None:
    found = answers(folder / "shop", folder / "new.csv", "--k", "3")
    own = Recommender.load(folder / "shop").recommend(history=folder / "new.csv", k=3)
    assert [line[0] for line in found] == own["user"].tolist()[::3]
    assert [cell.split(":")[0] for line in found for cell in line[1:]] == own["item"].tolist()
    piped = answers(folder / "shop", "--input-format", "csv", "--k", "3", stdin=(folder / "new.csv").read_text())
    assert piped == found


def test_only_and_exclude_name_items_in_a_file_or_a_list(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "stock.txt").write_text("i05\n\ni08\ni11\n")
    stock, stdin = ("--only", tmp_path / "stock.txt"), "u07\n"
    found = answers(folder / "shop", "-", *stock, "--include-seen", stdin=stdin)[0][1:]
    assert sorted(cell.split(":")[0] for cell in found) == ["i05", "i08", "i11"]
    found = answers(folder / "shop", "-", *stock, "--exclude", "i05, i11", "--include-seen", stdin=stdin)[0][1:]
    assert [cell.split(":")[0] for cell in found] == ["i08"]
    status, _, said = run("predict", folder / "shop", "-", "--exclude", "sofa", stdin=stdin.encode())
    assert status == 1
    assert "exclude holds 'sofa'" in said


def test_jsonl_answers(folder: Path) -> None:
    status, shown, _ = run("predict", folder / "shop", "--format", "jsonl", "--k", "1", stdin=b"u07\n")
    assert status == 0
    found = json.loads(shown)
    assert list(found) == ["user", "items", "scores"]
    assert found["user"] == "u07"
    assert len(found["items"]) == len(found["scores"]) == 1


def test_include_seen(folder: Path) -> None:
    [line] = answers(folder / "shop", "--k", "24", "--include-seen", stdin="u07\n")
    assert len(line) == 25
    [line] = answers(folder / "shop", "--k", "24", stdin="u07\n")
    assert len(line) < 25


def test_evaluates_on_a_later_log(folder: Path) -> None:
    status, shown, _ = run("evaluate", folder / "shop", folder / "later.csv", "--json", "--k", "3")
    assert status == 0
    found = json.loads(shown)
    own = Recommender.load(folder / "shop").evaluate(folder / "later.csv", k=[3, 20])
    assert found.pop("seconds") > 0
    assert found == own
    status, shown, _ = run("evaluate", folder / "shop", folder / "later.csv")
    assert status == 0
    assert [line.split("@")[0].strip() for line in shown.splitlines()][:6] == [
        *("P", "recall", "nDCG", "MRR", "coverage", "popularity bias")
    ]


def test_evaluates_on_new_users_with_a_split(folder: Path) -> None:
    status, _, said = run("evaluate", folder / "shop", folder / "new.csv")
    assert status == 1
    assert "no user that the model knows, but 'u100' and others: add --split random to measure on new users" in said
    assert run("evaluate", folder / "shop", folder / "new.csv", "--split", "random")[0] == 0


def test_valid_is_measured_after_training(folder: Path, tmp_path: Path) -> None:
    train = ["train", folder / "log.csv", *COLUMNS, "--model", tmp_path / "shop", "--valid", folder / "later.csv"]
    status, shown, _ = run(*train)
    assert status == 0
    assert "recall          @20" in shown
    assert json.loads(run(*train, "--json")[1])["valid"]["recall@20"] > 0


def test_positions_for_a_file_without_a_header(folder: Path, tmp_path: Path) -> None:
    lines = (folder / "log.csv").read_text().splitlines()[1:]
    (tmp_path / "u.data").write_text("\n".join(lines).replace(",", "\t") + "\n")
    train = ["train", tmp_path / "u.data", "--model", tmp_path / "shop", "--user", "0", "--item", "1"]
    assert run(*train, "--time", "2", "--weight", "3", "--format", "tsv")[0] == 0
    own, named = (Recommender.load(path).recommend(k=2) for path in (tmp_path / "shop", folder / "shop"))
    assert own["item"].tolist() == named["item"].tolist()
    status, _, said = run(*train)
    assert status == 1
    assert "cannot tell the format" in said


def test_names_that_are_numbers(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame({"user": [1, 1, 2, 2, 3], "item": [7, 8, 7, 9, 7]}).to_parquet(tmp_path / "log.parquet")
    assert run("train", tmp_path / "log.parquet", "--user", "user", "--model", tmp_path / "shop")[0] == 0
    assert answers(tmp_path / "shop", "--k", "1", stdin="1\n")[0][1].startswith("9:")
    assert answers(tmp_path / "shop", "--k", "1", "--baskets", stdin="7,8\n")[0][0].startswith("9:")
    status, _, said = run("predict", tmp_path / "shop", stdin=b"1\nann\n")
    assert status == 1
    assert "<stdin>, line 2: expected a whole number, as in the training log, found 'ann'" in said


def test_evaluates_a_pipe(folder: Path) -> None:
    content = (folder / "later.csv").read_bytes()
    status, shown, _ = run("evaluate", folder / "shop", "-", "--json", stdin=content)
    assert status == 0
    wanted = json.loads(run("evaluate", folder / "shop", folder / "later.csv", "--json")[1])
    assert json.loads(shown) | {"seconds": 0} == wanted | {"seconds": 0}


def test_a_list_of_users_has_an_encoding_and_no_options_of_tables(folder: Path) -> None:
    status, shown, said = run("predict", folder / "shop", "--encoding", "latin-1", stdin="René\n".encode("latin-1"))
    assert status == 0
    assert shown.startswith("René\t")
    status, _, said = run("predict", folder / "shop", stdin="René\n".encode("latin-1"))
    assert status == 1
    assert "<stdin>, line 1: byte 0xe9 at column 4 is not UTF-8" in said
    for option in (["--quotes"], ["--delimiter", ";"], ["--decimal", ","]):
        status, _, said = run("predict", folder / "shop", *option, stdin=b"u01\n")
        assert (status, f"{option[0]}: is for tables, and this is a list with a name on each line" in said) == (2, True)
    status, _, said = run("predict", folder / "shop", folder / "new.csv", "--batch-size", "5")
    assert (status, "--batch-size: is for a list of names, and a log is answered as a whole" in said) == (2, True)


def test_without_users(folder: Path, tmp_path: Path) -> None:
    assert run("train", folder / "log.csv", *COLUMNS, "--model", tmp_path / "shop", "--no-keep-users")[0] == 0
    status, _, said = run("predict", tmp_path / "shop", stdin=b"u01\n")
    assert status == 1
    assert "keeps no names of users: pass a log of what they took, or --baskets" in said
    assert answers(tmp_path / "shop", folder / "new.csv", "--k", "3") == answers(
        folder / "shop", folder / "new.csv", "--k", "3"
    )
    assert "no names of users" in run("info", tmp_path / "shop")[1]
    status, _, said = run("evaluate", tmp_path / "shop", folder / "later.csv")
    assert status == 1
    assert "keeps no users (train --no-keep-users): add --split random" in said


def test_info(folder: Path) -> None:
    status, shown, _ = run("info", folder / "shop")
    assert status == 0
    for words in (
        "Recommender, ",
        "60 users, 24 items, 600 events",
        "user in 'who', item in 'what'",
        "histories of all",
    ):
        assert words in shown
    found = json.loads(run("info", folder / "shop", "--json")[1])
    assert (found["kind"], found["users"], found["keeps_users"]) == ("Recommender", 60, True)


def test_empty_input_has_no_answers(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "none.csv").write_text("who,what,when,amount\n")
    for arguments in ([], ["--baskets"], [tmp_path / "none.csv"]):
        assert answers(folder / "shop", *arguments) == []


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--user", "customer"], 1, "--user 'customer' is not a column; there are 'who', 'what', 'when', 'amount'"),
        (["--user", "who", "--item", "what", "--text", "what"], 2, "--text: has no effect on a recommender"),
        (["--user", "who", "--method", "tree"], 2, "--method: has no effect on a recommender"),
        (["--user", "who", "--item", "what", "--time", "who"], 1, "must be different columns, got 'who' twice"),
        (
            ["--user", "who", "--item", "what", "--time", "amount", "--format", "xmc"],
            2,
            "xmc is not for tables and logs",
        ),
        (["--time", "when"], 2, "--time: is for logs of interactions, which train tells by --user and --item"),
        (["--user", "who", "--item", "what", "--weight", "what"], 1, "must be different columns"),
        (["--user", "who", "--item", "when", "--weight", "what"], 1, "line 2: column 'what' holds 'i"),
    ],
)
def test_wrong_usage(folder: Path, tmp_path: Path, arguments: list[str], status: int, message: str) -> None:
    code, _, said = run("train", folder / "log.csv", "--model", tmp_path / "shop", *arguments)
    assert code == status
    assert message in said
    assert not (tmp_path / "shop" / "manifest.json").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["predict", "shop", "new.csv", "--threshold", "0.5"], "has no effect on a recommender"),
        (["predict", "shop", "new.csv", "--exclude-seen"], "has no effect on a recommender"),
        (["predict", "shop", "new.csv", "--input-format", "svmlight"], "svmlight is not for tables and logs"),
        (["evaluate", "shop", "later.csv", "--plot", "a.png"], "has no effect on a recommender"),
        (["compress", "shop", "--max-bytes", "1MB"], "is a recommender; only text models are compressed"),
    ],
)
def test_options_of_classifiers_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(folder)
    status, _, said = run(*arguments)
    assert status == 2
    assert message in said


@pytest.mark.slow
def test_a_pipe_is_a_log_too(folder: Path, tmp_path: Path) -> None:
    log = (folder / "log.csv").read_bytes()
    sparsenet("train", "-", *COLUMNS, "--format", "csv", "--model", tmp_path / "shop", stdin=log)
    own, named = (Recommender.load(path).recommend(k=2) for path in (tmp_path / "shop", folder / "shop"))
    assert own["item"].tolist() == named["item"].tolist()
