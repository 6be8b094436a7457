"""The table of blends and PECOS."""

import json

import pytest

from bench import blend_answers
from bench.peers import SYSTEMS

RUN = {"status": "measured", "load_average_before": 1.0, "single_cpu_ms_p50": 0.2, "points_per_cpu_second": 30000.0}
RUN |= {"train_cpu_seconds": 2.0, "model_mb": 3.0, "loaded_mb": 4.0}


@pytest.fixture
def result(tmp_path):
    runs = [
        {"data": "some", "system": "pecos", **RUN, "scores": {"P@1": p, "P@3": 0.4, "P@5": 0.3}} for p in (0.5, 0.6)
    ]
    runs[1] |= {"model_mb": 5.0}
    runs.append({"data": "some", "system": "sparsenet-blend", "status": "failed", "reason": "no memory"})
    about = {"cpu": "a CPU", "isa_used": "avx2", "commit": "0123456789ab", "uncommitted_changes": False}
    report = {"started": "now", "machine": about, "threads": 1, "data": {"some": {}}, "runs": runs}
    path = tmp_path / "result.json"
    path.write_text(json.dumps({**report, "systems": ["pecos", "sparsenet-blend"]}))
    return path


def test_shows_means_of_precision_and_medians_of_the_rest(result, capsys):
    blend_answers.main(["--show", str(result)])
    rows = capsys.readouterr().out.splitlines()[-2:]
    assert rows[0] == "| some | PECOS | 55.00 / 40.00 / 30.00 | 0.200 | 30,000 | 2.0 | 4.0 | 4.0 |"
    assert rows[1] == "| some | `BlendClassifier` |" + " |" * 6, "a failed run leaves its cells empty"


def test_shows_the_paired_change_by_rounding(result, capsys):
    report = json.loads(result.read_text())
    for system, shares in (("sparsenet-light", (0.5, 0.6)), ("sparsenet-light-floats", (0.501, 0.603))):
        for seed, share in enumerate(shares):
            scores = dict.fromkeys(blend_answers.RANKS, share)
            report["runs"].append({"data": "some", "system": system, "seed": seed, **RUN, "scores": scores})
    result.write_text(json.dumps(report))
    blend_answers.main(["--show", str(result)])
    row = capsys.readouterr().out.splitlines()[-1]
    assert row.startswith('| some | `BlendClassifier(network="drop")` | 2 | -0.200 ± 0.100 |')


def test_compares_systems_that_exist():
    assert set(blend_answers.NAMES) <= set(SYSTEMS)
