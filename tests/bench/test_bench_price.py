"""The price of a run: arithmetic, and the table of a measurement."""

import json
from typing import Any

import pytest

from bench import price, quality
from bench.peers import COMPARED


def measured(seconds: float, score: float, **other: object) -> dict[str, object]:
    run = {"data": "small", "system": "sparsenet", "status": "measured", "settings": {}, "train_seconds": seconds}
    return {**run, "scores": {"P@1": score}, **other}


def report(*runs: dict[str, object], **machine: object) -> dict[str, object]:
    about = {"cpu": "Neoverse V1", "isa_used": "svebf16", "auto_precision": "bfloat16", **machine}
    return {"machine": about, "threads": 4, "data": {"small": {"train": {"points": 7200}}}, "runs": list(runs)}


def cells(row: str) -> list[str]:
    return row.strip("| ").split(" | ")


def test_the_price_is_median_hours_times_the_hourly_price():
    runs = (measured(30, 0.50), measured(36, 0.51), measured(500, 0.52))
    (row,) = price.rows(2.0, report(*runs))
    about = ["Neoverse V1", "svebf16", "4", "small", "sparsenet", "auto: bfloat16"]
    assert cells(row) == [*about, "51.0", "36.0", "0.0200", "360,000"]
    assert len(cells(row)) == len(cells(price.HEAD.splitlines()[0]))


def test_failed_runs_are_left_out_and_systems_have_their_own_rows():
    failed = {"data": "small", "system": "sparsenet", "status": "failed", "reason": "killed"}
    fixed = measured(72, 0.5, system="sparsenet-float32", settings={"precision": "float32"})
    rows = price.rows(1.0, report(failed, measured(36, 0.5), fixed, measured(18, 0.4, system="pecos")))
    assert [cells(row)[4:6] for row in rows] == [
        ["sparsenet", "auto: bfloat16"],
        ["sparsenet-float32", "float32"],
        ["pecos", "-"],
    ]
    assert [cells(row)[8] for row in rows] == ["0.0100", "0.0200", "0.0050"]


def test_an_old_result_without_precision_is_readable():
    kept: Any = report(measured(36, 0.5))
    del kept["machine"]["auto_precision"]
    assert cells(price.rows(1.0, kept)[0])[5] == "auto: unknown"


@pytest.mark.slow
def test_a_measurement_in_both_precisions_becomes_a_table(small, workplace, capsys):
    out, tuned = workplace / "result.json", workplace / "tuned.json"
    quick = {"settings": {"epochs": 1, "hidden": 8}}
    tuned.write_text(json.dumps({"small": {"sparsenet-float32": quick, "sparsenet-bfloat16": quick}}))
    arguments = ["--data", str(small), "--systems", "sparsenet-float32,sparsenet-bfloat16"]
    arguments += ["--repeats", "1", "--threads", "1", "--tuned", str(tuned), "--out", str(out)]
    quality.main(arguments)
    assert {run["status"] for run in json.loads(out.read_text())["runs"]} == {"measured"}
    assert not {"sparsenet-float32", "sparsenet-bfloat16"} & set(COMPARED)
    capsys.readouterr()
    price.main(["1.5", str(out)])
    shown = capsys.readouterr().out.splitlines()
    assert [cells(row)[5] for row in shown[2:]] == ["float32", "bfloat16"]


@pytest.mark.parametrize(
    ("words", "problem"), [(["1.5"], "each FILE needs a PRICE"), (["a.json", "1.5"], "'a.json' is not a price")]
)
def test_refuses_arguments_that_are_not_pairs(capsys, words, problem):
    with pytest.raises(SystemExit):
        price.main(words)
    assert problem in capsys.readouterr().err
