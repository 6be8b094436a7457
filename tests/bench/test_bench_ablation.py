"""The ablation: variants, time budgets, data sets and tables."""

import json

import pytest

from bench import ablation, ablation_run
from bench.cache import plant
from bench.planted import Shape
from sparsenet import SampledSoftmax
from sparsenet.index.hashing import LSHConfig
from tests.support.planted import X, Y, fast

MACHINE = {"cpu": "a CPU", "isa_used": "avx2", "commit": "0" * 40, "uncommitted_changes": False}


@pytest.mark.parametrize("name", ablation.VARIANTS)
def test_the_classifier_accepts_each_variant(name):
    settings = ablation.VARIANTS[name].settings
    fast(**ablation_run.parameters(settings, n_labels=Y.shape[1]), epochs=1).fit(X, Y)


def test_settings_of_hashing_and_softmax_become_objects():
    found = ablation_run.parameters({"sampler": "lsh-minhash", "loss": "softmax", "correct": False}, n_labels=1000)
    assert isinstance(found["sampler"], LSHConfig)
    assert found["sampler"].family == "minhash"
    assert found["loss"] == SampledSoftmax(correct=False)
    assert ablation_run.parameters({"sampler": "frequency"}, 1000) == {"sampler": "frequency"}


def test_the_learning_rate_falls_with_the_remaining_time():
    now = [100.0]
    budget = ablation_run.Budget(10.0, lambda: now[0])
    schedule = ablation_run.BudgetSchedule(budget)
    assert schedule.factor(1, 10) == 1
    now[0] = 105.0
    assert schedule.factor(2, 10) == pytest.approx((1 + ablation_run.FINAL) / 2)
    now[0] = 120.0
    assert schedule.factor(3, 10) == pytest.approx(ablation_run.FINAL)


@pytest.mark.parametrize("name", ["random", "softmax, no logQ", "deep, each its own, lsh dwta"])
def test_a_run_ends_at_its_time_limit(name, workplace):
    data = plant(Shape(points=300, test_points=60, features=500, labels=100))
    job = {"settings": {"hidden": 8, **ablation.VARIANTS[name].settings}, "data": str(data.folder)}
    result = ablation_run.main({**job, "seconds": 0.3, "clock": "cpu", "threads": 1, "seed": 0})
    assert result["steps"] > 0
    assert 0.3 <= result["spent_seconds"] < 3
    assert result["P@1"] > 0
    run = {"variant": name, "title": "tiny", "seed": 0, "seconds": 1, "status": "measured", "load_average_before": 0.0}
    report = {"started": "today", "machine": MACHINE, "threads": 1, "clock": "cpu", "repeats": 1}
    text = ablation.markdown({**report, "runs": [{**run, **result}]})
    assert f"| {name} | {100 * result['P@1']:.1f} /" in text
    ablation.plot({**report, "runs": [{**run, **result}]}, workplace / "ablation.png")
    assert (workplace / "ablation.png").stat().st_size > 1000


def test_planted_sets_run_before_real_ones(workplace):
    (workplace / "tags").mkdir()
    for part in ("train", "test"):
        (workplace / "tags" / f"{part}.txt").write_text("2 3 4\n0,3 0:1\n1 2:0.5\n")
    arguments = ["--labels", "100", "--data", "tags", "--seconds", "1,2", "--variants", "random;bf16"]
    shape = json.dumps({"points": 300, "test_points": 60, "features": 500})
    measured = {"status": "measured", "P@1": 0.5, "epochs": 1.0, "load_average_before": 0.0}
    options = ablation.parse([*arguments, "--shape", shape, "--out", "out.json"])
    runs = ablation.measure(options, lambda module, job, threads: {**job, **measured})["runs"]
    assert [(run["title"], run["seconds"], run["variant"]) for run in runs] == [
        ("planted-100, 100 labels", 1, "random"),
        ("planted-100, 100 labels", 1, "bf16"),
        ("tags, 4 labels", 2, "random"),
        ("tags, 4 labels", 2, "bf16"),
    ]
    assert len(json.loads((workplace / "out.json").read_text())["runs"]) == 4
