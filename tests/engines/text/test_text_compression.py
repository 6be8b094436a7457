"""Compressed text models: their size, the loss in accuracy, and packed arrays."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from sparsenet import ModelError, TextClassifier
from sparsenet.engines.text import compact_arrays
from sparsenet.engines.text.compression import coarse
from tests.support.text_command_line import run
from tests.support.texts import planted, write


def fitted(topics: int = 3, **parameters) -> TextClassifier:
    return TextClassifier(random_state=0, n_jobs=1, **parameters).fit(*planted(400, topics=topics))


def on_disk(folder) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def many_labels(n: int = 600) -> tuple[list[str], list[str]]:
    """Draw texts of twenty labels, each with its own words."""
    rng = np.random.default_rng(0)
    labels = rng.integers(20, size=n)
    return [f"word{label} thing{label} and some filler {rng.integers(50)}" for label in labels], [
        f"label {label}" for label in labels
    ]


# --- compress ---


@pytest.mark.parametrize("topics", [2, 3])
@pytest.mark.parametrize("max_bytes", [6_000, "4kB"])
def test_files_fit_the_given_size(tmp_path, topics, max_bytes):
    model = fitted(topics)
    texts, labels = planted(200, seed=1, topics=topics)
    report = model.compress(max_bytes, texts, labels)
    model.save(tmp_path / "model")
    limit = 4000 if max_bytes == "4kB" else max_bytes
    assert on_disk(tmp_path / "model") == report.bytes_after <= limit < report.bytes_before
    assert report.bytes_after > 0.9 * limit, "no more is dropped than must be"
    assert 0 < report.weights_after < report.weights_before
    copy = TextClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(copy.predict_proba(texts), model.predict_proba(texts))
    assert report.accuracy_after == model.score(texts, labels) == copy.score(texts, labels) > 0.9
    assert report.n_texts == 200


def test_many_labels_drop_single_weights(tmp_path):
    texts, labels = many_labels()
    model = TextClassifier(random_state=0).fit(texts, labels)
    before = model.score(texts, labels)
    report = model.compress(6000, texts, labels)
    model.save(tmp_path / "model")
    assert on_disk(tmp_path / "model") <= 6000
    assert report.accuracy_before == before
    assert report.accuracy_after > 0.95
    assert model.explain(texts[0]).label == labels[0]
    smaller = model.compress(5000, texts, labels)
    assert smaller.bytes_before == report.bytes_after
    assert smaller.weights_after < report.weights_after


def test_a_small_enough_model_is_unchanged():
    model = fitted()
    texts, labels = planted(50, seed=2)
    before = model.predict_proba(texts)
    report = model.compress("1MB", texts, labels)
    assert report.bytes_after == report.bytes_before
    assert report.accuracy_after == report.accuracy_before
    np.testing.assert_array_equal(model.predict_proba(texts), before)


def test_the_report_says_if_accuracy_was_not_measured():
    texts, labels = planted(50, seed=2)
    assert "50 texts" in str(fitted().compress(4000, texts, labels))
    unmeasured = fitted().compress(4000)
    assert unmeasured.accuracy_before is None
    assert unmeasured.accuracy_after is None
    assert "not measured" in str(unmeasured)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((100,), "max_bytes=100 is impossible: names of 3 labels"),
        ((0,), "max_bytes must be"),
        (("much",), "max_bytes must be a number of bytes"),
        ((4000, ["a text"]), "texts and labels must be given together"),
        ((4000, ["a text"], ["food", "food"]), "1 texts, y has 2 entries"),
        ((4000, [], []), "X holds no texts"),
        ((4000, [None], ["food"]), "texts must hold texts"),
    ],
)
def test_rejects_impossible_sizes_without_changes(arguments, message):
    model = fitted()
    before = model._saved_size(model._fitted)
    with pytest.raises(ValueError, match=message):
        model.compress(*arguments)
    assert model._saved_size(model._fitted) == before


def test_unknown_labels_count_as_misses():
    with pytest.warns(UserWarning, match="y holds no label that the classifier knows"):
        report = fitted().compress(4000, ["a goal", "a match"], ["sports", "games"])
    assert (report.accuracy_before, report.accuracy_after, report.n_texts) == (0.0, 0.0, 2)


def test_a_compressed_model_of_few_labels_can_learn_on():
    model = fitted()
    model.compress(4000)
    model.partial_fit(*planted(300, seed=3))
    assert model.score(*planted(200, seed=4)) > 0.95


# --- the command ---


def test_the_command_reports_the_loss(tmp_path):
    write(tmp_path / "train.csv", *planted(300))
    write(tmp_path / "test.csv", *planted(100, seed=1))
    columns = ["--text", "review", "--target", "topic"]
    model, small = tmp_path / "model", tmp_path / "small"
    assert run("train", tmp_path / "train.csv", *columns, "--model", model)[0] == 0
    command = ["compress", model, "--max-bytes", "4kB", "--valid", tmp_path / "test.csv", *columns, "--output", small]
    status, shown, error = run(*command, "--json")
    assert status == 0, error
    report = json.loads(shown)
    assert on_disk(small) == report["bytes_after"] <= 4000 < on_disk(model)
    assert report["accuracy_after"] > 0.9
    assert report["n_texts"] == 100
    assert "not measured" in run("compress", model, "--max-bytes", "5kB")[1]
    assert on_disk(model) <= 5000
    status, _, error = run("compress", model, "--max-bytes", "50")
    assert status == 1
    assert "impossible" in error


# --- packed arrays ---------


@pytest.mark.parametrize("size", [0, 1, 7, 300])
@pytest.mark.parametrize("bits", [1, 7, 22, 28])
def test_ascending_ids_round_trip(size, bits):
    rng = np.random.default_rng(size + bits)
    slots = np.unique(rng.integers(0, 1 << bits, size)).astype(np.int32)
    packed = compact_arrays.pack({"slots": slots})
    back = compact_arrays.unpack(packed)["slots"]
    assert back.dtype == np.int32
    np.testing.assert_array_equal(back, slots)
    assert packed["slots.gaps"].nbytes <= slots.nbytes


@pytest.mark.parametrize("levels", [1, 2, 3, 4, 15, 16, 17, 255, 256, 257])
@pytest.mark.parametrize("dtype", [np.float32, np.int8])
def test_values_round_trip_in_fewer_bits(levels, dtype):
    rng = np.random.default_rng(levels)
    values = (np.arange(levels) - levels // 2).astype(dtype)
    array = rng.choice(values, (411, 3))
    packed = compact_arrays.pack({"matrix": array})
    back = compact_arrays.unpack(packed)["matrix"]
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)
    distinct = len(np.unique(array))
    bits = next(b for b in (1, 2, 4, 8, 32) if distinct <= 1 << b)
    expected = min(bits, 8 * array.itemsize) * array.size / 8
    assert packed.get("matrix.codes", packed.get("matrix")).nbytes == np.ceil(expected)


def test_pointers_and_ids_round_trip():
    arrays: dict[str, Any] = {
        "indptr": np.array([0, 3, 3, 1000], np.int64),
        "columns": np.array([0, 5, 255], np.int32),
        "counts": np.array([70_000, 2], np.int64),
        "bias": np.array([0.5, 0.25], np.float32),
    }
    packed = compact_arrays.pack(arrays)
    assert {name: array.dtype for name, array in packed.items()} == {
        "indptr.lengths": np.uint16,
        "columns": np.uint8,
        "counts": np.uint32,
        "bias": np.float32,
    }
    back: dict[str, Any] = compact_arrays.unpack(packed)
    for name, array in arrays.items():
        assert back[name].dtype == array.dtype
        np.testing.assert_array_equal(back[name], array)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"slots.gaps": np.array([1, 200], np.uint8)}, "slots.gaps must be a list of bytes"),
        ({"slots.gaps": np.array([255, 255, 255, 255, 1], np.uint8)}, "slots.gaps holds a number that is too large"),
        ({"slots.gaps": np.zeros(2, np.int32)}, "slots.gaps must be a list of bytes"),
        ({"indptr.lengths": np.array([-1, 3])}, "indptr.lengths must be a list of unsigned integers"),
        ({"matrix.shape": np.array([1 << 40, 1 << 40])}, "bytes of codes for"),
        ({"matrix.shape": np.array([-4, 2])}, "matrix.shape must be a list of sizes"),
        ({"matrix.codes": np.array([255, 255, 255], np.uint8)}, "holds codes outside of its list of values"),
        ({"matrix.codes": np.zeros(9, np.uint8)}, "9 bytes of codes for 12 values"),
        ({"matrix.levels": np.zeros(0, np.int8)}, "matrix must have codes"),
    ],
)
def test_rejects_damaged_packing(change, message):
    arrays = {
        "slots": np.array([1, 5], np.int32),
        "indptr": np.array([0, 3, 4], np.int64),
        "matrix": np.tile(np.array([[-1, 0, 1]], np.int8), (4, 1)),
    }
    with pytest.raises(ModelError, match=message):
        compact_arrays.unpack(compact_arrays.pack(arrays) | change)


@pytest.mark.parametrize("n", [1, 256, 5000])
def test_rounded_values_are_near_and_few(n):
    values = np.random.default_rng(0).uniform(0.01, 20, n).astype(np.float32)
    rounded = coarse(values)
    assert len(np.unique(rounded)) <= 256
    np.testing.assert_allclose(rounded, values, rtol=0.02)
    np.testing.assert_array_equal(coarse(rounded), rounded)


@pytest.mark.parametrize("n_zeros", [1, 5000, 9000])
def test_keeps_zeros_and_rounds_the_others(n_zeros):
    values = np.random.default_rng(0).uniform(0.01, 20, 9000).astype(np.float32)
    values[:n_zeros] = 0
    rounded = coarse(values)
    assert len(np.unique(rounded)) <= 256
    np.testing.assert_allclose(rounded, values, rtol=0.02)
    np.testing.assert_array_equal(rounded == 0, values == 0)
    np.testing.assert_array_equal(coarse(rounded), rounded)
