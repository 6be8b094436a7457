"""Comparisons of temporal graph networks: negatives, measures, appended results, and the table of published rows."""

import json

import numpy as np
import pytest

from bench import published, tgn, tgn_accuracy
from bench.stream_peers import Recency


def log_of(n):
    rng = np.random.default_rng(0)
    return {
        "sources": rng.integers(0, 6, n),
        "targets": 6 + rng.integers(0, 8, n),
        "times": np.arange(n),
        "features": np.zeros((n, 1), np.float32),
        "n_nodes": 14,
        "first_target": 6,
    }


def test_negatives_are_other_targets_known_before_the_end_of_the_batch():
    log, size = log_of(200), 7
    drawn, historical = tgn_accuracy.negatives(log, size)
    for e in range(200):
        first = e - e % size
        known = {*log["targets"][: first + size].tolist()}
        own = {
            int(t)
            for s, t in zip(*(log[name][:first] for name in ("sources", "targets")), strict=True)
            if s == log["sources"][e]
        }
        own.discard(int(log["targets"][e]))
        assert drawn[e] in known
        assert historical[e] in own or (not own and historical[e] == drawn[e])
        assert log["targets"][e] not in (drawn[e], historical[e]) or len(known) == 1


def test_rules_are_measured_from_the_state_before_each_batch():
    log = log_of(40) | {"sources": np.tile([0, 1], 20), "targets": np.tile([6, 7], 20), "n_nodes": 8}
    found = tgn_accuracy.rule_scores(Recency(2), log, 4)
    assert {found[name] for name in ("AP", "AP historical", "MRR", "recall@1")} == {1}
    changed = log | {"targets": np.array([6, 7] * 17 + [7, 6] * 3)}
    found = tgn_accuracy.rule_scores(Recency(2), changed, 40)
    assert found["MRR"] == pytest.approx(2 / 3)  # both targets tie, because they are unknown


def test_runs_systems_and_appends(workplace):
    rng = np.random.default_rng(0)
    rows = [f"{rng.integers(9)},{rng.integers(7)},{t}" for t in range(300)]
    (workplace / "log.csv").write_text("\n".join(["user,item,time", *rows]) + "\n")
    options = ["--data", "log.csv", "--json", "found.json"]
    tgn_accuracy.main([*options, "--systems", "NextItem,recency,EdgeBank", "--batches", "1,20"])
    tgn_accuracy.main([*options, "--systems", "sparsenet", "--batches", "20", "--epochs", "1,2", "--append"])
    runs = json.loads((workplace / "found.json").read_text())["runs"]
    assert [(run["system"], run.get("epochs")) for run in runs[5:]] == [
        ("EdgeBank", None),
        ("sparsenet", 1),
        ("sparsenet", 2),
    ]
    assert all({"AP", "AP historical", "MRR", "recall@10"} <= run["scores"].keys() for run in runs)
    assert all(run["commit"] for run in runs)


def test_times_steps_among_few_and_many_nodes_and_prints_them_beside_published_rows(workplace, capsys):
    tgn.main(["--nodes", "50,500", "--batches", "2", "--repeats", "2", "--json", "nodes.json"])
    report = json.loads((workplace / "nodes.json").read_text())
    assert [run["nodes"] for run in report["runs"]] == [50, 500, 50, 500]
    for run, ms in zip(report["runs"], (2, 4, 2, 4), strict=True):
        run["sparsenet_ms"] = ms
    (workplace / "nodes.json").write_text(json.dumps(report))
    report["runs"] = [{"batch": 10, "features": 1, "sparsenet_ms": ms, "pyg_ms": 3 * ms} for ms in (1, 2, 9)]
    (workplace / "steps.json").write_text(json.dumps(report))
    capsys.readouterr()
    published.main(["tgn", "--steps", "steps.json", "--nodes", "nodes.json"])
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert sum("quoted" in row for row in rows) == 3
    assert "| 2.0 ms a step, PyG on the same thread 6.0 ms: 3.0 times | ours |" in rows[-2]
    assert rows[-1].endswith("| 2.0 to 4.0 ms a step: throughput -50 % | ours |")


def test_draws_accuracy_by_batch_size(tmp_path):
    pytest.importorskip("matplotlib")
    scores = {"AP": 0.9, "AP historical": 0.8, "MRR": 0.2}
    runs = [{"system": "sparsenet", "batch": b, "scores": scores, "events_per_cpu_second": 10 * b} for b in (1, 10)]
    tgn_accuracy.plot({"runs": [*runs, {"system": "recency"}]}, tmp_path / "found.svg")
    assert "AP historical" in (tmp_path / "found.svg").read_text()
