"""The comparison of indexes: its data, its measurement of our systems, and its table."""

import argparse

import numpy as np
import pytest

from bench import finding, finding_network
from bench.finding_sets import planted

OURS = ["exact", "cells", "cells-supervised", "cells-of-inputs-supervised", "tables", "tables-supervised"]


def test_planted_points_are_near_their_vectors():
    problem = planted(300, 32, 60, 0, [0.5, 1.5])[1.5]
    np.testing.assert_array_equal(planted(300, 32, 60, 0, [1.5])[1.5].points, problem.points)
    np.testing.assert_allclose(np.linalg.norm(problem.vectors, axis=1), 1, rtol=1e-5)
    best = np.argmax(problem.points @ problem.vectors.T, axis=1)
    assert 0.3 < (best == problem.y).mean() < 1
    assert len(problem.examples().labels) == 600


def test_other_libraries_get_biases_and_one_length():
    problem = planted(50, 8, 20, 0, [1.5])[1.5]
    assert problem.extended_vectors(one_length=True) is problem.vectors
    biased = problem._replace(bias=np.arange(50, dtype=np.float32))
    for one_length in (False, True):
        vectors, points = biased.extended_vectors(one_length=one_length), biased.extended_points()
        np.testing.assert_allclose(
            points @ vectors.T, problem.points @ problem.vectors.T + biased.bias - 24.5, rtol=1e-4, atol=1e-4
        )
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), np.linalg.norm(vectors[-1]), rtol=1e-5)


def options_of(tmp_path, **changed):
    usual = {"vectors": 300, "width": 16, "k": 1, "recall": 0.9, "points": 20, "noise": [0.5, 1.5], "cells": None}
    usual |= {"out": tmp_path / "found.json", "indexes": None, "build": False}
    return argparse.Namespace(**usual, **changed)


def test_finds_neighbors_among_planted_embeddings(tmp_path):
    report = finding.measure(options_of(tmp_path, kind="embeddings", systems=["exact", "cells-of-points"]))
    exact, cells = report["runs"]
    assert exact["recall"] == 1
    assert 0.7 < cells["recall"] <= 1


@pytest.mark.parametrize("kind", ["planted", "network"])
def test_measures_each_of_our_systems(tmp_path, kind):
    report = finding.measure(options_of(tmp_path, kind=kind, systems=OURS))
    runs = {run["system"]: run for run in report["runs"] if run["noise"] != 0.5}
    assert list(runs) == OURS
    assert runs["exact"]["recall"] == 1
    assert runs["exact"]["P@1"] == runs["cells"]["exact_P@1"]
    assert all(runs[name]["recall"] >= 0.6 for name in OURS)
    assert finding.markdown(report).count("\n| cells") == (6 if kind == "planted" else 3)


def test_compares_predictors_of_a_trained_network(tmp_path):
    sizes = {"labels": 200, "width": 16, "points": 50, "k": 1, "threads": 1}
    report = finding_network.measure(argparse.Namespace(**sizes, recall=0.9, out=tmp_path / "found.json"))
    exact, cells, _ = report["runs"]
    assert exact["recall"] == 1
    assert abs(cells["P@1"] - exact["P@1"]) < 20
    assert "| cells, supervised |" in finding_network.markdown(report)
