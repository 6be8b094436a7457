"""Each option of each command is used for a kind of model, or refused in words."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sparsenet.cli import usage
from sparsenet.cli.command_option import EVERY, CommandOption
from sparsenet.cli.option_table import options_of
from tests.support.command_line import run, write_xmc

#: Options of every training run, for models that are small enough here.
TRAIN: dict[str, list[str]] = {
    "blend": ["points.txt", "--valid", "points.txt"],
    "bare-blend": ["points.txt", "--valid", "points.txt", "--no-network"],
    "network": ["points.txt", "--valid", "points.txt", "--method", "network", "--epochs", "1"],
    "tree": ["points.txt", "--valid", "points.txt", "--method", "tree"],
    "text": ["table.csv", "--text", "words", "--target", "kind"],
    "table": ["table.csv", "--target", "kind", "--method", "linear"],
    "log": ["log.csv", "--user", "user", "--item", "item"],
    "stream": ["log.csv", "--method", "next-item"],
    "links": ["log.csv", "--method", "links", "--source", "user", "--target", "item", "--memory", "8"],
}
#: Arguments of the commands that take a model, by kind of model.
LATER: dict[str, dict[str, list[list[str]]]] = {
    "evaluate": {
        "tree": [["points.txt"]],
        "text": [["table.csv"]],
        "table": [["table.csv"]],
        "log": [["later.csv", "--include-seen"]],
        "stream": [["later.csv"]],
        "links": [["later.csv"]],
    },
    "predict": {
        "tree": [["points.txt"]],
        "text": [["table.csv"], ["lines.txt"]],
        "table": [["table.csv"]],
        "log": [["log.csv"], ["names.txt"], ["names.txt", "--baskets"]],
        "stream": [["later.csv"], ["names.txt"]],
        "links": [["later.csv"]],
    },
    "update": {"stream": [["later.csv"]], "links": [["later.csv"]]},
    "compress": {"text": [["--max-bytes", "1GB", "--valid", "table.csv"]]},
}
RUNS = [(command, kind, words) for command, own in LATER.items() for kind, runs in own.items() for words in runs]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, rng = tmp_path_factory.mktemp("options"), np.random.default_rng(0)
    write_xmc(folder / "points.txt", 60, 0)
    (folder / "names.txt").write_text("u1\nu2\n")
    (folder / "lines.txt").write_text("some words\n")
    with (folder / "table.csv").open("w", newline="") as file:
        rows = [[f"w{n % 3} {n}", n % 7, f"kind {n % 3}"] for n in range(60)]
        csv.writer(file).writerows([["words", "size", "kind"], *rows])
    for name, first in (("log", 0), ("later", 200)):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            pairs = rng.integers(0, 9, (200, 2)).tolist()
            rows = [[f"u{user}", f"u{item}", first + n] for n, (user, item) in enumerate(pairs)]
            csv.writer(file).writerows([["user", "item", "time"], *rows])
    return folder


@contextmanager
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """Collect the names of the options that a command reads, apart from checks that read all of them."""
    found: set[str] = set()
    is_on = [True]

    class Given(SimpleNamespace):
        def __getattribute__(self, name: str) -> Any:
            if is_on[0]:
                found.add(name)
            return super().__getattribute__(name)

    def unrecorded(check: Callable[..., Any]) -> Callable[..., Any]:
        def run_unrecorded(*arguments: Any) -> Any:
            before, is_on[0] = is_on[0], False
            try:
                return check(*arguments)
            finally:
                is_on[0] = before

        return run_unrecorded

    monkeypatch.setattr(sys.modules["sparsenet.cli.app"], "SimpleNamespace", Given)
    for name in ("check_options", "parameters", "table_options"):
        monkeypatch.setattr(usage, name, unrecorded(getattr(usage, name)))
    yield found


def words_of(folder: Path, words: list[str]) -> list[object]:
    return [folder / word if word.endswith((".csv", ".txt")) else word for word in words]


def ignored(command: str, kind: str, found: set[str], refused: Callable[[CommandOption], bool]) -> list[str]:
    """Return the options that should have an effect, are not read and set no parameter."""
    return [
        option.flag
        for option in options_of(command)
        if option.why_not(kind, command) is None
        and option.name not in found
        and not option.parameter_of(kind)
        and not refused(option)
    ]


@pytest.mark.parametrize("kind", TRAIN)
def test_train_uses_each_option_that_it_takes(kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with recorded(monkeypatch) as found:
        run("train", *words_of(folder, TRAIN[kind]), "--model", folder / kind, "--threads", "1")
    assert ignored("train", kind, found, lambda option: False) == []


#: A value of each option that some files refuse.
VALUES = {
    "quotes": ["--quotes"],
    "delimiter": ["--delimiter", ";"],
    "decimal": ["--decimal", ","],
    "batch_size": ["--batch-size", "7"],
}


@pytest.mark.parametrize(("command", "kind", "words"), RUNS)
def test_a_command_uses_each_option_that_it_takes(
    command: str, kind: str, words: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = folder / f"{command} {kind}"
    if not model.exists():
        run("train", *words_of(folder, TRAIN[kind]), "--model", model, "--threads", "1")
    arguments = [command, model, *words_of(folder, words)]

    def refused(option: CommandOption) -> bool:
        values = VALUES.get(option.name)
        return values is not None and "--" in run(*arguments, *values, status=2).stderr

    of_saved = kind if kind not in ("tree", "network", "blend") else "points"
    with recorded(monkeypatch) as found:
        run(*arguments)
    assert ignored(command, of_saved, found, refused) == []


@pytest.mark.parametrize("command", ["evaluate", "predict", "update", "compress"])
def test_a_reason_names_no_option_that_the_command_lacks(command: str) -> None:
    own = {option.flag for option in options_of(command)}
    for option in options_of(command):
        for kind in EVERY - option.kinds:
            reason = option.why_not(kind, command)
            assert reason
            assert own.issuperset(re.findall(r"(?<!train )--[a-z-]+", reason)), reason
