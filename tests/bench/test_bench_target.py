"""Time to quality: fits of several lengths and their table."""

import json

import pytest

from bench import target


@pytest.mark.parametrize(
    ("ours", "setting"),
    [
        ("sparsenet-tree", "beam=5"),
        pytest.param("sparsenet", "hidden=8", marks=pytest.mark.slow),
        pytest.param("sparsenet-light", "tree__beam=5", marks=pytest.mark.slow),
    ],
)
def test_each_number_of_epochs_is_a_separate_fit(small, workplace, capsys, ours, setting):
    out, picture = workplace / "result.json", workplace / "curves.svg"
    arguments = ["--data", str(small), "--systems", "pecos", "--epochs", "1,4", "--repeats", "2"]
    arguments += ["--threads", "1", "--ours", ours, "--set", setting, "--out", str(out), "--plot", str(picture)]
    target.main(arguments)
    shown = capsys.readouterr().out
    runs = json.loads(out.read_text())["runs"]
    epochs_of = target.OURS[ours]
    assert sorted((run["system"], run["settings"].get(epochs_of), run["seed"]) for run in runs) == [
        ("pecos", None, 0),
        ("pecos", None, 1),
        *((ours, epochs, seed) for epochs in (1, 4) for seed in (0, 1)),
    ]
    assert {run["reason"] for run in runs if run["system"] == "pecos"} == {"no environment for pecos: run make peers"}
    # Sorted by time, and fits of milliseconds may come in either order.
    steps = next(line for line in shown.splitlines() if line.startswith("small, ")).removeprefix("small, epochs: ")
    assert sorted(step.partition(":")[0] for step in steps.split("; ")) == ["1", "4"]
    assert picture.stat().st_size > 1000
    target.main(["--show", str(out)])
    assert capsys.readouterr().out == shown


def run(system, score, seconds, epochs=None):
    settings = {} if epochs is None else {"epochs": epochs}
    clocks = {"train_cpu_seconds": seconds, "train_seconds": seconds / 2}
    return {
        "data": "d",
        "system": system,
        "settings": settings,
        "status": "measured",
        "scores": {"P@1": score},
        **clocks,
    }


def test_the_fastest_fit_that_reaches_the_target_counts():
    runs = [run("pecos", 0.60, 10.0), run("pecos", 0.62, 30.0), run("omikuji-parabel", 0.7, 5.0)]
    runs += [run("sparsenet", 0.55, 1.0, 1), run("sparsenet", 0.61, 4.0, 3), run("sparsenet", 0.65, 9.0, 8)]
    report = {"runs": runs, "data": {"d": {}}, "threads": 2, "started": "today", "ours": "sparsenet"}
    report["machine"] = {"cpu": "a CPU", "isa_used": "avx2", "commit": "0" * 40, "uncommitted_changes": False}
    rows = target.markdown(report).splitlines()
    assert "| d | pecos | 61.0 | 20 (10) | 3 epochs: 61.0 | 4 (2) | 20 % |" in rows
    assert "| d | omikuji-parabel | 70.0 | 5 (2.5) | not reached | - | - |" in rows
