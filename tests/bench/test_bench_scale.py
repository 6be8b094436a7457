"""Scale and inference: measurements, derived figures and tables."""

import json
import os
import shutil
import subprocess

import numpy as np
import pytest

from bench import inference, inference_run, limits, scale, scale_run
from bench.cache import plant
from bench.clock import Clock, TimeIsUp
from bench.planted import Shape
from bench.report import assignment
from bench.scale_run import announced
from tests.support.planted import X, Y, fast

LIMITS = {"fma_gflops": 100.0, "read_gbs": 20.0, "gather_gbs": 10.0, "update_gbs": 8.0}
WORK = {"points": 256, "hidden": 128, "active": 5000, "present": 15_000}
MACHINE = {"cpu": "a CPU", "isa_used": "avx2", "commit": "0123456789abcdef", "uncommitted_changes": False}


def run_of(labels, step, **changes):
    times = {f"{part}_{clock}_seconds": step for part in ("step", "epoch", "start") for clock in ("cpu", "wall")}
    run = {"system": "sparsenet", "hidden": 128, "labels": labels, "status": "measured", "load_average_before": 0.5}
    sizes = {"batches": 10, "epoch_batches": 20, "batch_size": 256, "rss_before_mb": 100.0, "peak_mb": 200.0}
    return {**run, **times, **sizes, "needed_mb": {"weights": 80.0, "batch": 20.0}, "work": WORK, **changes}


def report_of(*runs):
    head = {"started": "today", "machine": MACHINE, "threads": 1, "limits": {"all": LIMITS}}
    return {**head, "runs": list(runs)}


def test_fits_the_exponent_of_a_power_law():
    sizes = [10_000, 100_000, 670_091, 3_000_000]
    assert scale.exponent(sizes, [7 * size**0.3 for size in sizes]) == pytest.approx(0.3)
    assert scale.exponent(sizes, [5.0] * 4) == pytest.approx(0, abs=1e-12)


def test_the_least_time_of_a_step_is_the_sum_of_its_parts():
    found = limits.least_step_seconds(WORK, LIMITS)
    assert found["tile"] == pytest.approx(6 * 5000 * 256 * 128 / 100e9)
    assert found["gather rows"] == pytest.approx(4 * 128 * 20_000 / 10e9)
    assert found["update rows"] == pytest.approx(24 * 128 * 20_000 / 8e9)
    assert found["total"] == pytest.approx(sum(value for name, value in found.items() if name != "total"))
    assert limits.least_step_seconds({**WORK, "bf16": True}, LIMITS) == found  # the limits contain no bfloat16
    halved = limits.least_step_seconds({**WORK, "bf16": True}, {**LIMITS, "bf16_gflops": 200.0})
    assert halved["tile"] == pytest.approx(found["tile"] / 2)
    wide = limits.least_step_seconds({**WORK, "support": 1e6, "touched_lines": 1e5, "pairs": 1e6}, LIMITS)
    assert wide["read supports"] == pytest.approx(4e6 / 20e9)
    assert wide["update wide weights"] == pytest.approx(2 * 2 * 64e5 / 8e9)
    assert wide["total"] > found["total"]


def test_tables_show_medians_ratios_and_missing_runs():
    failed = {"system": "dense", "labels": 1000, "hidden": 128, "status": "not run", "reason": "no environment"}
    dense = {"system": "dense", "labels": 8000, "hidden": 128, "status": "measured", "epoch_cpu_seconds": 6.0}
    runs = [run_of(1000, 0.01), run_of(1000, 0.03), run_of(1000, 0.02), run_of(8000, 0.04)]
    text = scale.markdown(report_of(*runs, failed, dense))
    assert "| 1,000 | 128 | 78 (78) |" in text  # 20 ms / 256
    assert "| 6 | 150 |" in text
    assert "100 / 100 = 1.00" in text
    assert "110 / 100 = 1.10" in scale.markdown(report_of(run_of(1000, 0.01, peak_with_prediction_mb=210.0)))
    assert "grows as L^0.333" in text
    assert "dense at 1,000 labels, 128 units: not run: no environment" in text
    assert "load average before a run 0.5 to 0.5" in text


def test_a_run_is_compared_with_the_limits_around_it():
    usual = limits.least_step_seconds(WORK, LIMITS)["total"]
    slow = {name: rate / 2 for name, rate in LIMITS.items()}
    beside = limits.mean([slow, {name: rate / 6 for name, rate in LIMITS.items()}])  # the mean is a third
    assert beside["fma_gflops"] == pytest.approx(100 / 3)
    runs = [run_of(1000, seconds, limits_beside=beside) for seconds in (2.0, 1.0, 3.0)]
    report = report_of(*runs)
    assert scale.against_roofline(report, runs, LIMITS) == pytest.approx((20 * usual, 2 / (20 * usual)))
    assert scale.against_roofline(report, runs) == pytest.approx((60 * usual, 2 / (60 * usual)))
    unlike = [*runs[:2], run_of(1000, 3.0, limits_beside=LIMITS)]  # runs with different limits
    assert scale.against_roofline(report, unlike)[1] == pytest.approx(2 / (60 * usual))
    assert scale.against_roofline(report, [run_of(1000, 2.0)]) == pytest.approx((20 * usual, 2 / (20 * usual)))


def has_compiler():
    compiler = shutil.which(os.environ.get("CC", "cc"))
    return compiler is not None and subprocess.run([compiler, "--version"], capture_output=True).returncode == 0


@pytest.mark.skipif(not has_compiler(), reason="no working C compiler")
def test_measures_the_limits_of_this_machine(workplace):
    found = limits.machine_limits(1, megabytes=50, rounds=3)
    best, median = found["best"], found["median"]
    assert list(best) == list(median) == ["fma_gflops", "bf16_gflops", "read_gbs", "gather_gbs", "update_gbs"]
    assert all(0 < median[name] <= best[name] for name in best if name != "bf16_gflops")
    assert 0 <= median["bf16_gflops"] <= best["bf16_gflops"]


def test_a_partial_epoch_is_marked_as_extrapolated():
    text = scale.markdown(report_of(run_of(1000, 0.01), run_of(8000, 0.01, batches=20)))
    rows = [line for line in text.splitlines() if line.startswith(("| 1,000", "| 8,000"))]
    assert "| extrapolated |" in rows[0]
    assert "| measured |" in rows[1]


def test_writes_a_plot(tmp_path):
    scale.plot(report_of(run_of(1000, 0.01), run_of(8000, 0.02)), tmp_path / "sub" / "scale.png")
    assert (tmp_path / "sub" / "scale.png").read_bytes().startswith(b"\x89PNG")


def test_a_clock_ends_training_and_leaves_a_model():
    clock, model = Clock(7), fast(epochs=3)
    with announced() as needed, pytest.raises(TimeIsUp):
        model.fit(X, Y, callbacks=[clock])
    assert clock.done == 7
    assert model.topk(X[:3], 2)[0].shape == (3, 2)
    assert {"weights", "optimizer", "batch"} <= set(needed)
    found = clock.summary(warm_up=2)
    assert (found["batches"], found["epoch_batches"]) == (7, 7)
    whole = clock.wall[-1] - clock.wall[0]
    assert found["start_wall_seconds"] + 7 * found["step_wall_seconds"] == pytest.approx(whole)


def test_counts_the_work_of_the_layers():
    work = []
    with scale_run.counted(work):
        fast(epochs=1).fit(X, Y)
    assert len(work) == 7
    assert work[0]["points"] == 64
    assert work[0]["active"] == 40  # every label
    assert work[0]["present"] <= 60
    assert 0 < work[0]["touched"] <= work[0]["support"]
    assert work[0]["pairs"] >= work[0]["touched"]


def test_a_run_reports_time_precision_and_memory(workplace):
    data = plant(Shape(points=3000, test_points=60, features=500, labels=100))
    job = {"data": str(data.folder), "batches": 30, "threads": 1, "seed": 0, "touch_gb": 0.01}
    result = scale_run.main({**job, "settings": {"hidden": 8, "batch_size": 64}})
    assert (result["batches"], result["epoch_batches"], result["batch_size"]) == (30, 47, 64)
    assert result["step_cpu_seconds"] > 0
    assert 0.2 < result["P@1"] <= 1
    assert result["peak_mb"] >= result["rss_before_mb"] > 0


def test_recall_ignores_the_order_of_labels():
    exact = np.array([[1, 2, 3], [4, 5, 6]])
    assert inference_run.recall(exact, exact[:, ::-1]) == 1
    assert inference_run.recall(exact, np.array([[1, 9, 9], [6, 5, 9]])) == pytest.approx(0.5)


def test_exact_scoring_reads_all_rows_and_the_weights_of_present_features():
    model = fast(epochs=1).fit(X, Y)
    work = inference_run.work(model, X[:10])
    inverted = model.network_.output.wide.inverted()
    held = np.mean([sum(np.diff(inverted.indptr)[X[[i]].indices]) for i in range(10)])
    assert work["bytes"] == pytest.approx(4 * 40 * 33 + 8 * held)
    exact, shortlist, fitted = inference_run.modes(model, X)
    assert (exact, shortlist) == ("exact", "shortlist")
    assert fitted == "shortlist of 16 postings, recall 0.97"
    assert list(inference_run.modes(fast(wide=False, epochs=1).fit(X, Y), X)) == ["exact", "cells, recall 0.97"]


def test_each_mode_of_prediction_is_measured(workplace):
    data = plant(Shape(points=2000, test_points=60, features=500, labels=200))
    job = {"data": str(data.folder), "batches": 8, "bulk_points": 30, "threads": 1, "seed": 0}
    result = inference_run.main({**job, "settings": {"hidden": 8, "batch_size": 256}}, bulk_seconds=0.01)
    assert [name.split(" of ")[0] for name in result["modes"]] == ["exact", "shortlist", "shortlist"]
    assert result["modes"]["exact"]["recall@5"] == 1
    assert 0.5 < result["modes"]["shortlist"]["recall@5"] <= 1
    assert all(mode["single_ms_p99"] >= mode["single_ms_p50"] > 0 for mode in result["modes"].values())


def test_the_inference_table_shows_its_bounds():
    bounds = inference.bounds({"bytes": 4e8, "flop": 2e8}, LIMITS)
    assert bounds == {"one point": pytest.approx(0.02), "bulk": pytest.approx(0.002)}
    modes = {"exact": {"single_ms_p50": 40.0, "single_ms_p99": 50.0, "recall@5": 1.0}}
    modes["exact"] |= {"single_cpu_ms_p50": 40.0, "points_per_second": 200.0, "points_per_cpu_second": 250.0}
    run = {"system": "sparsenet", "status": "measured", "load_average_before": 0.0, "model_mb": 10.0, "peak_mb": 50.0}
    run |= {"modes": modes, "work": {"bytes": 4e8, "flop": 2e8, "wide_weights": 5.0}}
    report = {**report_of(run), "limits": {"one": LIMITS, "all": LIMITS}}
    text = inference.markdown(report)
    assert "| sparsenet | exact | 40.000 / 50.000 | 40.000 | 200 | 250 |" in text
    assert text.count("measured 2.0 times that") == 2


def test_settings_are_parsed_as_json():
    assert assignment("hidden=256") == ("hidden", 256)
    assert assignment('loss="softmax"') == ("loss", "softmax")
    with pytest.raises(json.JSONDecodeError):
        assignment("loss=softmax")
