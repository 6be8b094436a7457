"""Scaling of tables: every classifier, scaling and table is measured."""

import json

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from bench import tables
from sparsenet import TreeClassifier

RNG = np.random.default_rng(0)


@pytest.fixture
def kinds(workplace):
    """Write dense points of three kinds to a folder."""
    folder = workplace / "kinds"
    folder.mkdir()
    for part, n in (("train", 300), ("test", 60)):
        rows = [
            f"{i % 3} " + " ".join(f"{j}:{x:.3f}" for j, x in enumerate(RNG.normal(size=5) + i % 3)) for i in range(n)
        ]
        (folder / f"{part}.txt").write_text(f"{n} 5 3\n" + "\n".join(rows) + "\n")
    return folder


def test_each_scaling_of_each_table_is_measured_and_kept(kinds, workplace, capsys):
    out, rng = workplace / "tables.json", np.random.default_rng(0)
    X, y = make_blobs(6000, centers=200, n_features=20, cluster_std=4, random_state=0)
    some = {"made": (X, y), "blobs": (X, y), "blobs, units": (tables.in_other_units(X, rng), y)}
    some["mixed"] = tables.mixed(900, 6, 3, 2, 30, False, rng)
    arguments = ["--data", str(kinds), "--ways", "columns,together,mixed,rows", "--repeats", "2"]
    options = tables.parse([*arguments, "--tables", "mixed,bl", "--out", str(out)])
    shown = tables.markdown(tables.measure(options, some, {"tree": TreeClassifier})) + "\n"
    runs = json.loads(out.read_text())["runs"]
    assert len(runs) == len({(run["data"], run["seed"], run["way"]) for run in runs}) == 4 * 4 * 2
    right = {(run["data"], run["way"], run["seed"]): run["right"] for run in runs}
    assert right["kinds", "columns", 0] > 60
    assert right["blobs, units", "columns", 0] > right["blobs, units", "together", 0] + 30
    assert right["mixed", "mixed", 0] > right["mixed", "rows", 0] + 5
    ways = ("columns", "together", "mixed", "rows")
    expected = [np.mean([right["kinds", way, seed] for seed in range(2)]) for way in ways]
    assert f"| kinds | tree | {' | '.join(f'{mean:.1f}' for mean in expected)} |" in shown
    tables.main(["--show", str(out)])
    assert capsys.readouterr().out == shown


def test_the_tables_have_their_names_and_shapes():
    found = tables.drawn()
    assert {name.split(",")[0] for name in found} == {*tables.BUNDLED, *tables.MADE, "mixed-30", "mixed-300", "blobs"}
    assert all(X.shape[0] == len(y) for X, y in found.values())
    assert found["mixed-30"][0].shape == (8000, 6 + 4 * 30)
    assert found["digits, units"][0].max() > 100 * found["digits"][0].max()
