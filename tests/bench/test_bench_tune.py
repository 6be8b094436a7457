"""Tuning: results are kept after each run and continued."""

import json
from typing import Any

import pytest

from bench import tune
from bench.peers import SYSTEMS, System

GRID: dict[str, list[Any]] = {"lr": [0.1, 0.2, 0.5], "batch": [1, 2]}
SCORES = {(lr, batch): lr + batch / 100 for lr in GRID["lr"] for batch in GRID["batch"]}


@pytest.fixture
def search(tmp_path):
    """Return a function that tunes for `most` runs, and returns the entry of the file and the settings that ran."""
    out = tmp_path / "tuned.json"

    def tuned(most, *arguments):
        ran: list[object] = []

        def run(system, data, settings):
            if len(ran) == most:
                raise KeyboardInterrupt
            key = tuple(settings.values())
            ran.append(key)
            if key == (0.5, 2):
                return {"status": "failed", "reason": "NaN"}
            scores = {f"P@{k}": SCORES[key] for k in (1, 3, 5)}
            return {"status": "measured", "scores": scores, "train_cpu_seconds": 1.0}

        given = ["--data", "x", "--systems", "fasttext-hs", "--out", str(out), *arguments]
        try:
            tune.tune(tune.parse(given), ["x"], systems, run)
        except KeyboardInterrupt:
            assert len(ran) == most
        return json.loads(out.read_text())["x"]["fasttext-hs"], ran

    systems = {**SYSTEMS, "fasttext-hs": System(adapter="fasttext", grid=GRID)}
    return tuned


def test_an_interrupted_search_continues(search):
    first, ran = search(2)
    assert first["settings"] == {"lr": 0.1, "batch": 2}
    assert first["left"] == 4
    whole, others = search(None)
    assert len(ran) + len(others) == len(set(ran + others)) == 6
    assert whole["settings"] == {"lr": 0.5, "batch": 1}
    assert whole["left"] == 0
    assert [one["settings"] for one in whole["tried"] if "problem" in one] == [{"lr": 0.5, "batch": 2}]
    assert search(0) == (whole, [])


def test_parallel_runs_find_the_same_settings(search):
    whole, _ = search(None)
    again, ran = search(None, "--anew", "--at-once", "3")
    assert len(ran) == 6
    assert sorted(map(str, again["tried"])) == sorted(map(str, whole["tried"]))
    assert (again["settings"], again["left"]) == (whole["settings"], 0)


def test_an_interrupted_search_keeps_other_entries(search, tmp_path):
    search(None, "--mask-seen", "x")
    for most in (0, 1):
        found, _ = search(most, "--systems", "fasttext-hs,fasttext-ova")
        assert ("mask_seen" in found) == (most == 0)
        assert "fasttext-ova" not in json.loads((tmp_path / "tuned.json").read_text())["x"]


def test_anew_repeats_every_setting(search):
    whole, _ = search(None)
    again, ran = search(None, "--anew")
    assert len(ran) == 6
    assert again == whole


def test_settings_of_another_metric_or_without_a_run_are_repeated(search, tmp_path):
    whole, _ = search(None)
    masked, ran = search(None, "--mask-seen", "x")
    assert len(ran) == 6
    assert masked == {**whole, "mask_seen": True}
    masked["tried"][0] = {"settings": masked["tried"][0]["settings"], "problem": "not run: no environment"}
    (tmp_path / "tuned.json").write_text(json.dumps({"x": {"fasttext-hs": masked}}))
    again, ran = search(None, "--mask-seen", "x")
    assert ran == [(0.1, 1)]
    assert sorted(map(str, again["tried"])) == sorted(map(str, whole["tried"]))


def test_an_entry_with_a_remark_is_tuned(search, tmp_path):
    words = {"settings": {"lr": 9}, "tried": "not tuned: the settings of another"}
    (tmp_path / "tuned.json").write_text(json.dumps({"x": {"fasttext-hs": words}, "y": {"other": words}}))
    assert search(None)[0]["settings"] == {"lr": 0.5, "batch": 1}
    assert json.loads((tmp_path / "tuned.json").read_text())["y"] == {"other": words}
