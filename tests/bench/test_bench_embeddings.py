"""Embeddings: equal data for equal arguments, and each model is measured, scored and kept."""

import json

import numpy as np
import pytest
from scipy import sparse

from bench import embedding_run, embedding_sets, embeddings

SMALL = {"points": 300, "width": 24, "labels": 20, "test": 60}


@pytest.fixture(scope="module")
def data():
    return embedding_sets.planted(seed=0, **SMALL)


def test_planted_embeddings_are_reproducible_unit_vectors_of_all_labels(data):
    again = embedding_sets.planted(seed=0, **SMALL)
    np.testing.assert_array_equal(data.X, again.X)
    np.testing.assert_array_equal(data.Y.indices, again.Y.indices)
    assert data.X.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(data.X, axis=1), 1, rtol=1e-5)
    assert (np.diff(data.Y.indptr) == 1).all()
    assert len(np.unique(data.Y.indices)) == data.Y.shape[1] == 20
    assert (embedding_sets.planted(seed=1, **SMALL).X != data.X).any()


def test_embeds_texts_by_their_words(tmp_path):
    np.save(tmp_path / "table.npy", np.eye(3, dtype=np.float32))
    (tmp_path / "words.txt").write_text("goal\nbread\nbank\n")
    rows = [{"text": "goal bread", "labels": ["a", "b"]}, {"text": "bank", "labels": ["c"]}]
    for part in ("train", "test"):
        (tmp_path / f"many.{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = embedding_sets.of_texts(tmp_path, "many", str(tmp_path / "table.npy"), 2, 1)
    np.testing.assert_allclose(data.X, [[0.5**0.5, 0.5**0.5, 0], [0, 0, 1]])
    assert data.Y.toarray().tolist() == [[1, 1, 0], [0, 0, 1]]
    assert data.X_test.shape == (1, 3)


@pytest.mark.parametrize("name", ["tree", "bare-blend", "knn", "centroid", "logistic"])
def test_measures_accuracy_time_and_memory(name, data, tmp_path):
    data.write(tmp_path)
    found = embedding_run.main({"data": str(tmp_path), "model": name, "seed": 0, "threads": 1})
    assert found["P@1"] > 50
    assert found["P@1"] >= found["P@3"] >= found["P@5"]
    assert found["train_cpu_seconds"] > 0
    assert found["peak_rss_mb"] > 0


def test_ranks_points_with_several_labels():
    X = np.eye(4, dtype=np.float32)
    Y = sparse.csr_array(np.array([[1, 1, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0]], np.float32))
    for model in (embedding_run.Centroid({}), embedding_run.Knn({})):
        model.fit(X, Y)
        assert embedding_run.precision(model.best(X)[:, :1], Y) == 1
    assert embedding_run.precision(np.array([[0, -1], [1, 2], [2, 2], [0, 2]]), Y) == 3 / 8


def test_leaves_logistic_regression_out_above_its_limit_and_keeps_results(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(embeddings, "MOST_LABELS_OF_LOGISTIC", 10)
    monkeypatch.setattr(embeddings, "use_cpus", lambda threads: None)
    monkeypatch.setattr(
        embeddings, "in_child", lambda module, job, **how: job | {"load_average_before": 1.0} | measured()
    )
    sizes = [f"--{name}={value}" for name, value in SMALL.items()]
    for models in ("centroid,logistic", "knn"):
        embeddings.main([*sizes, "--models", models, "--out", str(tmp_path / "out.json")])
    runs = json.loads((tmp_path / "out.json").read_text())["runs"]
    assert [run["model"] for run in runs] == ["centroid", "knn"]
    assert runs[0]["set"] == "planted-300-24-20-60-float32"
    embeddings.main(["--show", str(tmp_path / "out.json")])
    assert "| knn | 60.00 | 30.00 | 20.00 | 1.0 | 0.5 | 2.00 |" in capsys.readouterr().out


def measured():
    scores = {"P@1": 60.0, "P@3": 30.0, "P@5": 20.0}
    return {"status": "measured", "train_cpu_seconds": 1.0, "answer_cpu_seconds": 0.5, "peak_rss_mb": 2000.0, **scores}
