"""Accuracy within time budgets: each width is trained in each budget."""

import json
import sys

import pytest

from bench import budget
from bench.planted import Shape, generate, write_xmc


@pytest.mark.slow
def test_each_width_is_trained_in_each_budget(tmp_path, monkeypatch, capsys):
    data = generate(Shape(points=300, test_points=60, features=500, labels=100))
    folder, out = tmp_path / "small", tmp_path / "result.json"
    folder.mkdir()
    write_xmc(folder / "train.txt", data.X, data.Y)
    write_xmc(folder / "test.txt", data.X_test, data.Y_test)
    monkeypatch.setattr("bench.cache.CACHE", tmp_path / "cache")
    monkeypatch.setattr("bench.report.use_cpus", lambda threads: None)  # other tests need their CPUs
    arguments = ["--data", str(folder), "--seconds", "0.01,60", "--hidden", "auto,8", "--threads", "1"]
    monkeypatch.setattr(sys, "argv", ["budget", *arguments, "--out", str(out)])
    budget.main()
    shown = capsys.readouterr().out
    runs = json.loads(out.read_text())["runs"]
    assert [(run["seconds"], run["hidden"], run["width"]) for run in runs] == [
        (0.01, "auto", 0),
        (0.01, 8, 8),
        (60, "auto", 256),
        (60, 8, 8),
    ]
    assert runs[2]["scores"]["P@1"] > 0.2 > 5 * 1 / 100  # chance is 1 of 100 labels
    assert all(run["wall_seconds"] < run["seconds"] + 20 for run in runs)
    assert "| small | 60 | 8 | 8 | " in shown

    monkeypatch.setattr(sys, "argv", ["budget", "--show", str(out)])
    budget.main()
    assert capsys.readouterr().out == shown
