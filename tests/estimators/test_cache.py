"""`fit(..., cache=folder)` reads points from disk, and learns the model that points in memory give, bit for bit."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

from sparsenet import (
    BlendClassifier,
    CheckpointError,
    ExtremeClassifier,
    Recommender,
    TableClassifier,
    TreeClassifier,
)
from sparsenet.data import iter_batches, streamed_rows
from sparsenet.engines.neighbors import posting_lists
from sparsenet.engines.tree.level_checkpoint import LevelCheckpoint

RNG = np.random.default_rng(0)
Y = sparse.csr_array(RNG.random((600, 30)) < 0.08, dtype=np.float32)
COUNTS = sparse.csr_array(RNG.poisson(Y @ RNG.gamma(0.02, 8.0, (30, 200))) * 1.0)
AMOUNTS = Y @ RNG.normal(size=(30, 12)) * 10.0 ** RNG.integers(-2, 3, 12) + RNG.normal(size=(600, 12))


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed_rows, "ENTRIES_AT_A_TIME", 300)
    monkeypatch.setattr(posting_lists, "ENTRIES_AT_A_TIME", 1000)


def network(**parameters: Any) -> ExtremeClassifier:
    return ExtremeClassifier(**{"hidden": 16, "epochs": 2, "random_state": 0, "n_jobs": 1} | parameters)


def assert_same(a: Any, b: Any) -> None:
    """Compare all arrays of two models."""
    (one, about), (other, about_other) = a._pack(small=False), b._pack(small=False)
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)
    about.pop("history", None), about_other.pop("history", None)  # with seconds
    assert about == about_other


def tree(**parameters: Any) -> TreeClassifier:
    """Make a tree whose upper nodes do not fit into a task, and are read part by part."""
    model = TreeClassifier(**{"random_state": 0, "n_jobs": 1} | parameters)
    model._rules = lambda: replace(TreeClassifier._rules(model), call_entries=1000)  # type: ignore[method-assign]
    return model


def blend(**parameters: Any) -> BlendClassifier:
    return BlendClassifier(
        network=ExtremeClassifier(hidden=16, epochs=2), **{"random_state": 0, "n_jobs": 1} | parameters
    )


MODELS: dict[str, Callable[..., Any]] = {"network": network, "tree": tree, "blend": blend}
each_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


@each_model
@pytest.mark.parametrize("normalize", ["auto", "none", "mixed"])
def test_sparse_points(model: Callable[..., Any], normalize: str, tmp_path: Path) -> None:
    X = COUNTS * 0.1  # float64, which has no float32 of the same value
    X.data[5] = 0
    made = [model(normalize=normalize).fit(X, Y, **how) for how in ({}, {"cache": tmp_path})]
    assert_same(*made)


@each_model
@pytest.mark.parametrize("normalize", ["auto", "columns", "together", "rows", "mixed"])
def test_a_table(model: Callable[..., Any], normalize: str, tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", AMOUNTS.astype(np.float32))
    y = np.array(list("abc"))[np.digitize(AMOUNTS[:, 0], [-1, 1])]
    made = [model(normalize=normalize).fit(tmp_path / "X.npy", y, **how) for how in ({}, {"cache": tmp_path})]
    assert_same(*made)


@each_model
def test_a_file_and_its_batches(model: Callable[..., Any], tmp_path: Path) -> None:
    numbers = [" ".join(map("{}:{}".format, point.indices, point.data)) for point in COUNTS]
    rows = [f"{','.join(map(str, own.indices))} {point}" for own, point in zip(Y, numbers, strict=True)]
    path = tmp_path / "points.txt"
    path.write_text("\n".join(["600 200 30", *rows]) + "\n")
    a, b = (model().fit(path, **how) for how in ({}, {"cache": tmp_path}))
    assert_same(a, b)
    batches = iter_batches(path, batch_rows=70)
    assert_same(a, model().fit(batches, cache=tmp_path))


@each_model
def test_batches_of_names(model: Callable[..., Any], tmp_path: Path) -> None:
    names = [[f"label {label}" for label in own.indices] for own in Y]
    batches = ((COUNTS[i : i + 100], names[i : i + 100]) for i in range(0, 600, 100))
    assert_same(model().fit(COUNTS, names), model().fit(batches, cache=tmp_path))


def test_held_out_points(tmp_path: Path) -> None:
    made = [network(validation_fraction=0.2, patience=1).fit(COUNTS, Y, **how) for how in ({}, {"cache": tmp_path})]
    assert_same(*made)


def test_a_run_that_was_stopped_resumes(tmp_path: Path) -> None:
    class Stop:
        def on_epoch(self, record: dict[str, float]) -> None:
            raise KeyboardInterrupt

    how: dict[str, Any] = {"cache": tmp_path, "checkpoint": tmp_path / "run", "resume": True}
    with pytest.raises(KeyboardInterrupt):
        network().fit(COUNTS, Y, callbacks=[Stop()], **how)
    assert_same(network().fit(COUNTS, Y), network().fit(COUNTS, Y, **how))
    with pytest.raises(CheckpointError, match="other training data"):
        network().fit(COUNTS[::-1], Y, **how)


def test_a_tree_that_was_stopped_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    how: dict[str, Any] = {"cache": tmp_path, "checkpoint": tmp_path / "run", "resume": True}
    save = LevelCheckpoint.save

    def save_and_stop(*arguments: Any) -> None:
        save(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(LevelCheckpoint, "save", save_and_stop)
        with pytest.raises(KeyboardInterrupt):
            tree().fit(COUNTS, Y, **how)
    assert_same(tree().fit(COUNTS, Y), tree().fit(COUNTS, Y, **how))


def test_a_blend_that_was_stopped_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    how: dict[str, Any] = {"cache": tmp_path, "checkpoint": tmp_path / "run", "resume": True}

    def stop(*arguments: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(posting_lists, "posting_lists", stop)
        with pytest.raises(KeyboardInterrupt):
            blend().fit(COUNTS, Y, **how)
    files = [path.name for path in tmp_path.iterdir()]
    assert sum(name.endswith(".points") for name in files) == 1
    assert "run.tree" in files
    assert_same(blend().fit(COUNTS, Y), blend().fit(COUNTS, Y, **how))


@pytest.mark.parametrize("name", ["points.svm.zst", "points.svm.gz"])
def test_a_compressed_file(name: str, tmp_path: Path) -> None:
    codec = pytest.importorskip("zstandard") if name.endswith("zst") else gzip
    rows = [f"{i % 3} {i % 7 + 1}:1 {i % 11 + 9}:0.5" for i in range(60)]
    (tmp_path / name).write_bytes(codec.compress("\n".join(rows).encode()))
    path = tmp_path / name
    for model in (tree(), network(), blend()):
        assert_same(clone(model).fit(path), clone(model).fit(path, cache=tmp_path / "cache"))
    assert len(list((tmp_path / "cache").iterdir())) == 1


@each_model
def test_nan_in_a_mapped_file_names_it(model: Callable[..., Any], tmp_path: Path) -> None:
    X = np.ones((5000, 3), np.float32)  # more rows than are stored at a time
    X[4997, 1] = np.nan
    np.save(tmp_path / "X.npy", X)
    for how in ({}, {"cache": tmp_path / "cache"}):
        with pytest.raises(ValueError, match=rf"^X in {tmp_path / 'X.npy'} holds NaN in row 4997, column 1"):
            model().fit(tmp_path / "X.npy", np.arange(5000) % 2, **how)
    assert not any((tmp_path / "cache").iterdir())


@each_model
def test_batches_have_the_same_columns_and_there_is_one(model: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="batch 1 has 100 sparse columns, but batch 0 has 200 sparse columns"):
        model().fit([(COUNTS, Y), (COUNTS[:, :100], Y)], cache=tmp_path)
    with pytest.raises(ValueError, match="there are no rows: pass an iterable of pairs"):
        model().fit(iter([]), cache=tmp_path)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("model", [TableClassifier(), Recommender()], ids=["table", "log"])
@pytest.mark.parametrize("name", ["cache", "executor"])
def test_tables_and_logs_name_the_alternative(model: Any, name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"stays in the memory .* no {name}: leave it out, or (encode|use sparsenet)"):
        model.fit({"user": [1, 2], "item": [1, 2]}, **{name: tmp_path})


@pytest.mark.parametrize("model", [tree, blend])
def test_workers_get_the_points_of_a_cache(model: Callable[..., Any], tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as executor:
        assert_same(model().fit(COUNTS, Y), model().fit(COUNTS, Y, cache=tmp_path, executor=executor))


@each_model
def test_what_cannot_be_streamed_is_named(model: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="y=None for an iterable of batches"):
        model().fit(iter([(COUNTS, Y)]), Y, cache=tmp_path)
    with pytest.raises(ValueError, match=r"got list: pass numpy\.asarray\(X\) for a list of rows"):
        model().fit(COUNTS.toarray().tolist(), Y, cache=tmp_path)
    with pytest.raises(ValueError, match="X is an iterator: if it yields batches"):
        model().fit(iter([(COUNTS, Y)]))
    with pytest.raises(ValueError, match="cache takes a file, a matrix or an iterable of batches"):
        model().fit({"a": COUNTS}, Y, cache=tmp_path)
    for empty, y in ((COUNTS[:0], Y[:0]), ([(COUNTS[:0], Y[:0])], None)):
        with pytest.raises(ValueError, match=r"at least one|minimum of 1|there are no rows"):
            model().fit(empty, y, cache=tmp_path)
    for folder in (True, ""):
        with pytest.raises(ValueError, match=f"cache must be the path of a folder, got {folder!r}"):
            model().fit(COUNTS, Y, cache=folder)


def test_a_stream_may_have_empty_batches(tmp_path: Path) -> None:
    batches = [(COUNTS[:0], Y[:0]), (COUNTS[:400], Y[:400]), (COUNTS[400:], Y[400:])]
    assert_same(tree().fit(COUNTS, Y), tree().fit(batches, cache=tmp_path))


def test_a_stream_of_data_frames_has_the_names_of_its_columns(tmp_path: Path) -> None:
    y = RNG.integers(0, 3, 600)
    frame = pd.DataFrame(AMOUNTS, columns=list("abcdefghijkl"))
    model = tree().fit(((frame[i : i + 300], y[i : i + 300]) for i in (0, 300)), cache=tmp_path)
    assert_same(model, tree().fit(frame, y))
    assert model.feature_names_in_.tolist() == list("abcdefghijkl")
    with pytest.raises(ValueError, match=r"batch 1 has 12 dense columns named 'l', .*, but batch 0 has .* named 'a', "):
        tree().fit([(frame[:300], y[:300]), (frame[frame.columns[::-1]][300:], y[300:])], cache=tmp_path)
    with pytest.raises(ValueError, match="y of batch 0 is a data frame, whose names of columns would be lost"):
        tree().fit([(frame, pd.DataFrame({"x": y > 0, "y": y == 0}))], cache=tmp_path)


@pytest.mark.parametrize(
    ("other", "form"),
    [(["a"], "a list"), (np.array(["a"]), "an array of strings"), (np.eye(1, 2), "an array of numbers in 2 columns")],
)
def test_batches_have_labels_of_one_form(other: Any, form: str, tmp_path: Path) -> None:
    batches = [(COUNTS[:3], np.arange(3)), (COUNTS[:1], other)]
    with pytest.raises(ValueError, match=f"y of batch 1 is {form}, but y of batch 0 is an array of numbers"):
        tree().fit(batches, cache=tmp_path)
