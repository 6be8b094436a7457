"""Failed allocations: one line names the step."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparsenet import ExtremeClassifier, TextClassifier, TreeClassifier, data
from sparsenet.cli import about_machine, models
from tests.support.command_line import fails, run
from tests.support.patience import PATIENCE

NO_WORDS = [
    "std::bad_alloc",
    "Unable to allocate 763. MiB for an array with shape (100000001,)",
    "Allocation failed (probably too large).",
    "",
]
POINTS = "0 0:1\n1 1:1\n" * 9


def failing(words: str) -> Any:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError(words)

    return fail


@pytest.fixture
def points(tmp_path: Path) -> Path:
    path = tmp_path / "points.txt"
    path.write_text(POINTS)
    return path


@pytest.fixture
def fails_in(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Run a command while one of its functions fails to allocate memory, and return the error."""

    def run_failing(owner: Any, step: str, words: str, *arguments: object) -> str:
        with monkeypatch.context() as patched:
            patched.setattr(owner, step, failing(words))
            return fails(*arguments)

    return run_failing


@pytest.mark.parametrize("words", NO_WORDS)
@pytest.mark.parametrize(("method", "kind"), [("tree", TreeClassifier), ("network", ExtremeClassifier)])
def test_failed_allocation_in_training_names_the_model_size(
    points: Path, fails_in: Callable[..., str], words: str, method: str, kind: type
) -> None:
    said = fails_in(kind, "fit", words, "train", points, "--method", method, "--model", points.with_name("m"))
    assert said.startswith("sparsenet: error: memory ran out for training a model of 2 features and 2 labels: if most")


def test_informative_memory_error_is_kept(points: Path, fails_in: Callable[..., str]) -> None:
    train = ("train", points, "--method", "tree", "--model", points.with_name("m"))
    said = fails_in(TreeClassifier, "fit", "y has too many columns", *train)
    assert said == "sparsenet: error: y has too many columns\n"


def test_failed_allocation_names_the_step(points: Path, fails_in: Callable[..., str]) -> None:
    model = points.with_name("m")
    run("train", points, "--method", "tree", "--model", model)
    train = ("train", points, "--model", points.with_name("n"))
    scoring = "scoring 18 points by 2 features and 2 labels: lower --batch-size"
    for owner, step, command, what in (
        (data, "read", train, f"the points of {points}"),
        (models, "load", ("evaluate", model, points), f"loading {model}"),
        (models, "load", ("predict", model, points), f"loading {model}"),
        (TreeClassifier, "topk_numbers", ("evaluate", model, points), scoring),
        (TreeClassifier, "topk_numbers", ("predict", model, points), scoring),
    ):
        said = fails_in(owner, step, NO_WORDS[0], *command)
        assert said == f"sparsenet: error: memory ran out for {what}\n"


def test_failed_allocation_of_texts_names_the_file(points: Path, fails_in: Callable[..., str]) -> None:
    texts = points.with_name("t.csv")
    texts.write_text("text,label\na,x\nb,y\n")
    said = fails_in(TextClassifier, "fit", NO_WORDS[1], "train", texts, "--model", points.with_name("m"))
    assert said == f"sparsenet: error: memory ran out for training on the texts of {texts}\n"
    said = fails_in(about_machine, "collect", "std::bad_alloc", "info")
    assert said == "sparsenet: error: memory ran out (std::bad_alloc)\n"


def test_header_with_too_many_features_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "points.txt"
    path.write_text("1 2000000000 2\n0 1:1\n")
    command = [sys.executable, "-m", "sparsenet", "train", path, "--method", "tree", "--model", tmp_path / "m"]
    limited = ["sh", "-c", 'ulimit -v 6000000; exec "$@"', "sh", *command]
    done = subprocess.run(limited, capture_output=True, text=True, timeout=300 * PATIENCE)
    assert done.returncode == 1
    assert "training with 2,000,000,000 features needs" in done.stderr
    assert "number the features without gaps" in done.stderr
    assert "Traceback" not in done.stderr
