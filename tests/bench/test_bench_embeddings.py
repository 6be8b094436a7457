"""Planted embeddings: equal data for equal arguments, and each model is measured and kept."""

import json

import numpy as np
import pytest

from bench import embeddings

SMALL = {"points": 300, "width": 24, "labels": 20, "test": 60, "seed": 0}


def test_planted_embeddings_are_reproducible_unit_vectors_of_all_labels():
    data, again = embeddings.planted(**SMALL), embeddings.planted(**SMALL)
    for one, other in zip(data, again, strict=True):
        np.testing.assert_array_equal(one, other)
    assert data.X.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(data.X, axis=1), 1, rtol=1e-5)
    assert len(np.unique(data.y)) == 20
    assert (embeddings.planted(**SMALL | {"seed": 1}).X != data.X).any()


@pytest.mark.parametrize("name", ["tree", "bare-blend", "knn", "centroid", "logistic"])
def test_measures_accuracy_time_and_memory(name):
    found = embeddings.measure(name, SMALL)
    assert found["accuracy"] > 50
    assert found["cpu_seconds"] > 0
    assert found["gigabytes"] >= found["data_gigabytes"] > 0


def test_leaves_logistic_regression_out_above_its_limit_and_keeps_results(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(embeddings, "MOST_LABELS_OF_LOGISTIC", 10)
    sizes = [f"--{name}={value}" for name, value in SMALL.items()]
    embeddings.main(
        [*sizes, "--models", "centroid,logistic", "--dtype", "float16", "--out", str(tmp_path / "out.json")]
    )
    saved = json.loads((tmp_path / "out.json").read_text())
    assert [run["model"] for run in saved["runs"]] == ["centroid"]
    assert saved["shape"]["dtype"] == "float16"
    assert "centroid" in capsys.readouterr().out
