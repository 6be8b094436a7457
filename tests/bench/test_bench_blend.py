"""A blend in all ways of asking it: each is measured on held-out points."""

import json
import sys

import pytest

from bench import blend
from bench.planted import Shape, generate, write_xmc


def test_each_way_is_measured(tmp_path, monkeypatch, capsys):
    data = generate(Shape(points=300, test_points=60, features=500, labels=100))
    folder, out = tmp_path / "small", tmp_path / "result.json"
    folder.mkdir()
    write_xmc(folder / "train.txt", data.X, data.Y)
    write_xmc(folder / "test.txt", data.X_test, data.Y_test)
    monkeypatch.setattr("bench.cache.CACHE", tmp_path / "cache")
    monkeypatch.setattr("bench.running.use_cpus", lambda threads: None)  # the tests keep their CPUs
    arguments = [
        "--data",
        str(folder),
        "--weights",
        "0,1",
        "--beams",
        "10,1000",
        "--neighbors",
        "0,50",
        "--threads",
        "1",
    ]
    monkeypatch.setattr(sys, "argv", ["blend", *arguments, "--out", str(out)])
    blend.main()
    shown = capsys.readouterr().out
    (run,) = json.loads(out.read_text())["runs"]
    ways = [
        "tree alone",
        "network alone",
        "tree and neighbours",
        "0 neighbours",
        "50 neighbours",
        "weight 0",
        "weight 1",
        "beam 10",
        "beam 1000",
    ]
    assert [*run["scores"]] == ways
    assert run["scores"]["weight 1"] == run["scores"]["beam 10"] == run["scores"]["50 neighbours"], "the default in all"
    assert all(scores["P@1"] > 0.2 for scores in run["scores"].values())
    assert all(curve["slope"] > 0 for curve in run["calibration"].values())
    for company, way in (("with neighbours", "weight 1"), ("without a network", "tree and neighbours")):
        assert run["calibration"][company]["best: right"] == pytest.approx(run["scores"][way]["P@1"])
    assert "| weight 1 | " in shown

    monkeypatch.setattr(sys, "argv", ["blend", "--show", str(out)])
    blend.main()
    assert capsys.readouterr().out == shown
