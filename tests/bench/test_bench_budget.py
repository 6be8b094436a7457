"""Accuracy within time budgets: each width is trained in each budget."""

import json

import pytest

from bench import budget


@pytest.mark.slow
def test_each_width_is_trained_in_each_budget(small, workplace, capsys):
    arguments = ["--data", str(small), "--seconds", "0.01,60", "--hidden", "auto,8", "--threads", "1"]
    budget.main([*arguments, "--out", "result.json"])
    shown = capsys.readouterr().out
    runs = json.loads((workplace / "result.json").read_text())["runs"]
    assert [(run["seconds"], run["hidden"], run["width"]) for run in runs] == [
        (0.01, "auto", 0),
        (0.01, 8, 8),
        (60, "auto", 256),
        (60, 8, 8),
    ]
    assert runs[2]["scores"]["P@1"] > 0.2 > 5 * 1 / 100  # chance is 1 of 100 labels
    assert all(run["wall_seconds"] < run["seconds"] + 20 for run in runs)
    assert "| small | 60 | 8 | 8 | " in shown

    budget.main(["--show", "result.json"])
    assert capsys.readouterr().out == shown
