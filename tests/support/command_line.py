"""Run the command line within this process, and write files of points for it."""

from __future__ import annotations

import itertools
import os
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from sparsenet import cli

N_FEATURES, N_LABELS = 60, 20


def planted_rows(n: int, seed: int) -> Iterator[str]:
    """Yield points whose labels show in two features each; label 19 never occurs."""
    rng = random.Random(seed)
    for _ in range(n):
        labels = sorted(rng.sample(range(N_LABELS - 1), rng.randint(1, 2)))
        features = {2 * label + bit: 1.0 for label in labels for bit in (0, 1)} | {rng.randrange(40, N_FEATURES): 0.5}
        yield ",".join(map(str, labels)) + "".join(f" {i}:{v:g}" for i, v in sorted(features.items()))


def write_xmc(path: Path, n: int, seed: int) -> Path:
    path.write_text("\n".join([f"{n} {N_FEATURES} {N_LABELS}", *planted_rows(n, seed)]) + "\n")
    return path


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "sparsenet", *map(str, arguments)]


def run(*arguments: object, stdin: str = "", status: int = 0) -> Result:
    """Run a command within this process, which saves a second of start-up."""
    done = CliRunner().invoke(cli.app, [*map(str, arguments)], input=stdin, prog_name="sparsenet")
    assert done.exit_code == status, (done.stderr, done.exception)
    return done


def fails(*arguments: object, stdin: str = "", status: int = 1) -> str:
    """Run a command that must fail with nothing on stdout, and return its error."""
    done = run(*arguments, stdin=stdin, status=status)
    assert done.stdout == ""
    if status == 1:
        assert done.stderr.count("\n") == 1, "one line"
    return done.stderr


def press_ctrl_c_in(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    """Press Ctrl-C once, when a function or method first begins.

    A second press, by another thread, could reach the test runner after the first one was handled.
    """
    function, presses = getattr(owner, name), itertools.count()

    def interrupted(*arguments: Any, **options: Any) -> Any:
        if next(presses) == 0:
            os.kill(os.getpid(), signal.SIGINT)
        return function(*arguments, **options)

    monkeypatch.setattr(owner, name, interrupted)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
