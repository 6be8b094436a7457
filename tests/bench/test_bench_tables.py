"""Scaling of tables: every classifier, scaling and table is measured."""

import json

import numpy as np
import pytest

from bench import cache, tables
from sparsenet import TreeClassifier

RNG = np.random.default_rng(0)


@pytest.fixture
def few(monkeypatch, tmp_path):
    """Reduce the tables to one generated table and one folder, and the classifiers to trees."""
    monkeypatch.setattr(cache, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(tables, "BUNDLED", {})
    monkeypatch.setattr(tables, "MADE", {"made": (900, 40, 8, 6, 1, 2.0)})
    monkeypatch.setattr(tables, "MIXED", {"mixed": (900, 6, 3, 2, 30, False)})
    monkeypatch.setattr(tables, "CLASSIFIERS", {"tree": TreeClassifier})
    (tmp_path / "kinds").mkdir()
    for part, n in (("train", 300), ("test", 60)):
        rows = [
            f"{i % 3} " + " ".join(f"{j}:{x:.3f}" for j, x in enumerate(RNG.normal(size=5) + i % 3)) for i in range(n)
        ]
        (tmp_path / "kinds" / f"{part}.txt").write_text(f"{n} 5 3\n" + "\n".join(rows) + "\n")
    return tmp_path


def test_each_way_is_tried_of_each_table_and_kept(few, monkeypatch, capsys):
    out = few / "tables.json"
    arguments = ["--data", str(few / "kinds"), "--ways", "columns,together,mixed,rows", "--repeats", "2"]
    arguments += ["--tables", "mixed,bl", "--out", str(out)]
    monkeypatch.setattr("sys.argv", ["tables", *arguments])
    tables.main()
    shown = capsys.readouterr().out
    runs = json.loads(out.read_text())["runs"]
    assert len(runs) == len({(run["data"], run["seed"], run["way"]) for run in runs}) == 4 * 4 * 2
    right = {(run["data"], run["way"], run["seed"]): run["right"] for run in runs}
    assert right["kinds", "columns", 0] > 60
    assert right["blobs, units", "columns", 0] > right["blobs, units", "together", 0] + 30
    assert right["mixed", "mixed", 0] > right["mixed", "rows", 0] + 5
    ways = ("columns", "together", "mixed", "rows")
    expected = [np.mean([right["kinds", way, seed] for seed in range(2)]) for way in ways]
    assert f"| kinds | tree | {' | '.join(f'{mean:.1f}' for mean in expected)} |" in shown
    monkeypatch.setattr("sys.argv", ["tables", "--show", str(out)])
    tables.main()
    assert capsys.readouterr().out == shown
