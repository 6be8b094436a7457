"""The gate between two commits: its data, scores, verdicts, restarts and exit status."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from bench import gate, gate_run, gate_scores, sides
from bench.planted import Shape, generate, write_xmc

ROOT = Path(__file__).parents[2]
LIMITS = gate_scores.Limits()
CALIBRATED = {"probability": 0.5, "right": 0.5, "points": 10}


def run(side, seed=0, name="small", model="blend", scores=(60.0, 40.0, 20.0), cpu=10.0, **calibrations):
    calibration = {"all": CALIBRATED, "rare": CALIBRATED, "middle": CALIBRATED, "frequent": CALIBRATED, **calibrations}
    about = {"set": name, "model": model, "seed": seed, "side": side, "status": "measured"}
    measured = {"train_cpu_seconds": cpu, "train_seconds": cpu / 2, "peak_rss_mb": 100.0}
    return {**about, **measured, "scores": dict(zip(("P@1", "P@3", "P@5"), scores, strict=True))} | {
        "calibration": calibration
    }


def report(*runs):
    return {"base": "0" * 40, "runs": list(runs)}


def write_sets(folder):
    """Write a sparse set and a set of texts."""
    data = generate(Shape(points=300, test_points=60, features=100, labels=100))
    (folder / "small").mkdir(parents=True)
    test = data.X_test
    write_xmc(folder / "small" / "train.txt", data.X, data.Y)
    write_xmc(folder / "small" / "test.txt", test, data.Y_test)
    (folder / "text").mkdir()
    for part in ("train", "test"):
        lines = [f"{kind}\t{kind} word{i % 5}\n" for i in range(40) for kind in ("good", "bad")]
        (folder / "text" / f"mood.{part}.tsv").write_text("".join(lines))
    return folder


def test_finds_sparse_sets_and_texts(tmp_path):
    write_sets(tmp_path)
    (tmp_path / "streams").mkdir()
    found = gate.find_sets([tmp_path])
    assert {name: source.is_text for name, source in found.items()} == {"small": False, "mood": True}


def test_refuses_two_sets_of_the_same_name(tmp_path):
    write_sets(tmp_path / "a")
    write_sets(tmp_path / "b")
    with pytest.raises(SystemExit, match="small is both in"):
        gate.find_sets([tmp_path / "a", tmp_path / "b"])


def test_equal_counts_share_a_third():
    assert gate_scores.thirds(np.array([5, 1, 9, 1, 7, 9])).tolist() == [1, 0, 2, 0, 1, 2]
    assert gate_scores.thirds(np.full(4, 3)).tolist() == [1, 1, 1, 1]


def test_calibration_is_measured_in_each_third():
    probabilities, right = np.array([0.9, 0.7, 0.2]), np.array([True, False, True])
    found = gate_scores.calibration(probabilities, right, np.array([1, 2, 3]))
    assert found["all"] == {"probability": pytest.approx(0.6), "right": pytest.approx(2 / 3), "points": 3}
    assert found["frequent"] == {"probability": 0.2, "right": 1.0, "points": 1}
    assert "rare" not in gate_scores.calibration(probabilities, right, np.full(3, 1))


def test_scores_sparse_sets_by_precision_and_calibration():
    truth = sparse.csr_array(np.array([[1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1]]))
    data = gate_scores.Prepared(
        name="s", data=Path(), digest="", truth=truth, label_counts=np.arange(6), mask_seen=False
    )
    labels = np.array([[0, 1, 2, 3, 4], [3, 4, 5, 0, 1]], np.int32)
    found = gate_scores.score(data, {"labels": labels, "probabilities": np.array([0.8, 0.4])})
    assert found["scores"] == {"P@1": 50.0, "P@3": pytest.approx(50.0), "P@5": pytest.approx(30.0)}
    assert found["calibration"]["rare"] == {"probability": 0.8, "right": 1.0, "points": 1}
    assert found["calibration"]["frequent"]["right"] == 0.0


def test_scores_texts_by_accuracy_and_calibration():
    data = gate_scores.Prepared(
        name="t", data=Path(), digest="", truth=np.array(["a", "b"]), label_counts={"a": 3, "b": 1}, mask_seen=False
    )
    answers = {"labels": np.array([["a"], ["a"]]), "predicted": np.array(["a", "b"])}
    found = gate_scores.score(data, {**answers, "probabilities": np.array([0.8, 0.6])})
    assert found["scores"] == {"accuracy": 100.0}
    assert found["calibration"]["all"] == {"probability": pytest.approx(0.7), "right": 0.5, "points": 2}


@pytest.mark.parametrize(
    ("changes", "failing"),
    [
        ({}, []),
        ({"scores": (59.9, 39.9, 19.9)}, ["mean precision"]),
        ({"scores": (59.86, 40.0, 20.0)}, []),
        ({"scores": (59.0, 40.0, 19.9)}, ["mean precision", "worst set"]),
        ({"cpu": 10.51}, ["training CPU seconds"]),
        ({"cpu": 10.49}, []),
        ({"all": {**CALIBRATED, "probability": 0.531}}, ["worst calibration of a set"]),
        ({"all": {**CALIBRATED, "probability": 0.471}}, []),
        ({"rare": {**CALIBRATED, "right": 0.551}}, ["worst calibration of a third"]),
        ({"rare": {**CALIBRATED, "right": 0.549}}, []),
    ],
)
def test_each_gate_fails_beyond_its_limit(changes, failing):
    pairs = gate_scores.compare([run("base"), run("new", **changes)])
    found = [text for text, passed in gate_scores.verdicts(pairs, LIMITS) if not passed]
    assert len(found) == len(failing)
    assert all(text.startswith(start) for text, start in zip(found, failing, strict=True))
    assert gate_scores.holds(report(run("base"), run("new", **changes)), LIMITS) == (not failing)


def test_means_are_over_sets_and_the_worst_is_named():
    runs = [run(side, name=name) for side in gate_scores.SIDES for name in ("a", "b")]
    runs += [run("base", name="c"), run("new", name="c", scores=(59.0, 40.0, 20.0), cpu=11.0)]
    (mean, _), (worst, _), (time, _), *_ = gate_scores.verdicts(gate_scores.compare(runs), LIMITS)
    assert mean == "mean precision over 3 comparisons: -0.111 points"
    assert worst == "worst set, c blend: -0.333 points"
    assert time == "training CPU seconds, new / base: 1.033"


def test_compares_only_seeds_that_both_sides_have():
    runs = [run("base", 0), run("base", 1, scores=(10.0, 10.0, 10.0)), run("new", 0)]
    (both,) = gate_scores.compare(runs).values()
    assert gate_scores.gain(both) == 0
    assert gate_scores.compare([run("base")]) == {}


def test_a_failed_run_fails_the_gate_and_is_named():
    failed = {"set": "small", "model": "blend", "seed": 1, "side": "new", "status": "failed", "reason": "no memory"}
    found = report(run("base"), run("new"), failed)
    assert not gate_scores.holds(found, LIMITS)
    assert "small, blend, seed 1, new: failed: no memory" in gate_scores.markdown(found, LIMITS)
    assert not gate_scores.holds(report(), LIMITS)


def test_seen_items_are_masked(tmp_path):
    rng = np.random.default_rng(0)
    Y = (rng.random((200, 40)) < 0.2).astype(np.float32)
    X = (rng.random((200, 40)) < 0.2).astype(np.float32)
    for name, matrix in (("train.X", X), ("train.Y", Y), ("test.X", X[:50])):
        sparse.save_npz(tmp_path / f"{name}.npz", sparse.csr_matrix(matrix))
    job = {"data": str(tmp_path), "model": "light", "threads": 1, "seed": 0, "mask_seen": True}
    gate_run.main(job, tmp_path / "masked.npz")
    gate_run.main({**job, "mask_seen": False}, tmp_path / "plain.npz")
    rows = np.arange(50)[:, None]
    masked, plain = (np.load(tmp_path / f"{name}.npz")["labels"] for name in ("masked", "plain"))
    assert not X[rows, masked].any()
    assert X[rows, plain].any()


@pytest.fixture
def checkout(workplace):
    """Make a folder with the library of this tree, as `sides.build` leaves a checkout."""
    place = workplace / "place"
    (place / sides.LIBRARY).mkdir(parents=True)
    (place / "sparsenet").symlink_to(ROOT / "sparsenet")
    (place / sides.LIBRARY / "sparsenet").symlink_to(ROOT / "sparsenet")
    return place


@pytest.mark.slow
def test_equal_sides_are_equal_and_only_failed_or_outdated_runs_repeat(checkout, workplace, monkeypatch, capsys):
    monkeypatch.setenv(gate.DATA_VARIABLE, str(write_sets(workplace / "data")))

    def compare(*arguments):
        options = gate.parse(["--seeds", "1", "--threads", "1", "--out", "gate.json", *arguments])
        passes = gate.passes(options, gate.chosen(options), dict.fromkeys(gate_scores.SIDES, checkout), "0" * 40)
        return passes, capsys.readouterr().out, json.loads((workplace / "gate.json").read_text())["runs"]

    passes, shown, runs = compare()
    assert [(one["set"], one["model"], one["side"]) for one in runs] == [
        ("small", "blend", "base"),
        ("small", "blend", "new"),
        ("mood", "text", "base"),
        ("mood", "text", "new"),
    ]
    for base, new in (runs[:2], runs[2:]):
        assert base["scores"] == new["scores"]
        assert base["calibration"] == new["calibration"]
        assert base["train_cpu_seconds"] > 0 < base["peak_rss_mb"]
    assert "holds: mean precision over 2 comparisons: +0.000 points" in shown
    assert passes == gate_scores.holds({"runs": runs}, LIMITS)
    assert compare("--limit", "0.01") == (passes, shown, runs), "a kept run was repeated"

    (checkout / "setup.py").write_text("changed = True")
    passes, shown, failed = compare("--limit", "0.01")
    assert not passes
    assert "mood, text, seed 0, new: failed: stopped after 0.01 s" in shown
    assert [one["status"] for one in failed] == ["failed"] * 4
    assert {one["sources"] for one in failed}.isdisjoint(one["sources"] for one in runs)
    _, _, repeated = compare("--limit", "0.02")
    assert [one["reason"] for one in repeated] == ["stopped after 0.02 s"] * 4


def test_an_unknown_set_is_refused(workplace):
    data = write_sets(workplace / "data")
    with pytest.raises(SystemExit, match="no set named bibtex"):
        gate.main(["--threads", "1", "--data", str(data), "--sets", "bibtex"])


def test_the_fingerprint_follows_the_sources(tmp_path):
    (tmp_path / "sparsenet").mkdir()
    (tmp_path / "setup.py").write_text("")
    (tmp_path / "sparsenet" / "a.py").write_text("x = 1")
    first = sides.fingerprint(tmp_path)
    (tmp_path / "notes.md").write_text("no source")
    assert sides.fingerprint(tmp_path) == first
    (tmp_path / "sparsenet" / "a.py").write_text("x = 2")
    assert sides.fingerprint(tmp_path) != first


def test_a_library_of_another_checkout_is_an_error(tmp_path):
    with pytest.raises(RuntimeError, match="expected the library of"):
        sides.check_library(str(ROOT / "sparsenet"), tmp_path)
