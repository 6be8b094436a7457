"""`sparsenet predict` on input without points or texts: no answers, and success."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sparsenet import TextClassifier, TreeClassifier
from tests.support.command_line import run


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    TreeClassifier(random_state=0).fit(np.eye(4), ["a", "b", "c", "d"]).save(folder / "points")
    (folder / "train.csv").write_text("text,label\na lovely film,good\na dull film,bad\n")
    TextClassifier(random_state=0).fit(folder / "train.csv").save(folder / "texts")
    return folder


@pytest.mark.parametrize("model", ["points", "texts"])
@pytest.mark.parametrize(("name", "content"), [("new.txt", ""), ("new.csv", ""), ("-", "")])
def test_an_empty_file_has_no_answers(models: Path, tmp_path: Path, model: str, name: str, content: str) -> None:
    if (model, name) == ("points", "new.csv"):
        pytest.skip("points are no table")
    path = name if name == "-" else tmp_path / name
    if name != "-":
        (tmp_path / name).write_text(content)
    done = run("predict", models / model, path)
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("model", "name", "content"), [("points", "new.txt", "0 4 4\n"), ("texts", "new.csv", "text,label\n")]
)
def test_a_header_alone_has_no_answers(models: Path, tmp_path: Path, model: str, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    assert run("predict", models / model, tmp_path / name).stdout == ""
