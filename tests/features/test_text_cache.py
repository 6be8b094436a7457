"""`TextClassifier.fit(file, cache=folder)` keeps the features of the file, and learns the same model."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparsenet import DataError, TextClassifier, WordVectors, storage
from sparsenet.features.text import corpus
from sparsenet.storage.folder import Folder
from tests.support.texts import planted, write

TEXTS, LABELS = planted(300)
COLUMNS: dict[str, Any] = {"text": "review", "target": "topic"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write(tmp_path / "t.csv", TEXTS, LABELS)
    return tmp_path / "t.csv"


def learnt(file: Path, cache: Path | None = None, **parameters: Any) -> np.ndarray:
    model = TextClassifier(random_state=0, n_jobs=1, **parameters).fit(file, cache=cache, **COLUMNS)
    return np.asarray(model.decision_function(TEXTS[:50]))


@pytest.mark.parametrize("method", ["linear", "blend"])
def test_the_texts_are_read_once_and_the_model_is_the_same(
    method: str, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = learnt(file, method=method)
    np.testing.assert_array_equal(learnt(file, tmp_path / "cache", method=method), expected)
    monkeypatch.setattr(corpus, "extract_batches", lambda *_: pytest.fail("read again"))
    np.testing.assert_array_equal(learnt(file, tmp_path / "cache", method=method, memory_limit="500MB"), expected)


def test_other_settings_and_vectors_have_features_of_their_own(file: Path, tmp_path: Path) -> None:
    words = TEXTS[0].split()[:3]
    tables = [WordVectors.of_words(words, RNG.normal(size=(3, 4))) for RNG in map(np.random.default_rng, (0, 1))]
    for parameters in ({}, {"word_ngrams": 1}, {"vectors": tables[0]}, {"vectors": tables[1]}):
        expected = learnt(file, method="linear", **parameters)
        for _ in range(2):
            np.testing.assert_array_equal(learnt(file, tmp_path / "c", method="linear", **parameters), expected)
    assert len(list((tmp_path / "c").iterdir())) == 4


def test_a_file_that_changed_is_an_error(file: Path, tmp_path: Path) -> None:
    learnt(file, tmp_path / "c", method="linear")
    write(file, TEXTS[1:], LABELS[1:])
    with pytest.raises(DataError, match=r"t\.csv: was changed after its features were stored: remove .*\.texts to"):
        learnt(file, tmp_path / "c", method="linear")


@pytest.mark.parametrize("damage", ["cut", "flipped", "missing"])
def test_damage_is_an_error_that_names_the_folder(damage: str, file: Path, tmp_path: Path) -> None:
    learnt(file, tmp_path / "c", method="linear")
    (arrays,) = (tmp_path / "c").glob("*/arrays-*")
    data = bytearray(arrays.read_bytes())
    data[-5] ^= 1
    arrays.write_bytes(data[:-9] if damage == "cut" else data)
    if damage == "missing":
        arrays.unlink()
    with pytest.raises(DataError, match=r"\.texts: the cache of texts is damaged or was cut short: remove it"):
        learnt(file, tmp_path / "c", method="linear")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("features.slots", np.full(10**5, 1 << 30, np.int32)),
        ("features.counts", np.zeros(3, np.uint8)),
        ("features.indptr", np.arange(301)[::-1].copy()),
        ("labels.indices", np.full(300, 99, np.int32)),
        ("labels.indptr", np.zeros(2, np.int64)),
        ("classes.offsets", np.zeros(0, np.int64)),
    ],
)
def test_forged_arrays_are_refused(name: str, value: Any, file: Path, tmp_path: Path) -> None:
    learnt(file, tmp_path / "c", method="linear")
    (place,) = (tmp_path / "c").iterdir()
    arrays, metadata = storage.load(place)
    storage.save(place, {**arrays, name: value[: len(arrays[name])]}, metadata)
    with pytest.raises(DataError, match=r"\.texts: the cache of texts is damaged or was cut short: remove it"):
        learnt(file, tmp_path / "c", method="linear")


def test_a_full_disk_names_the_folder(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Folder, "write", full)
    with pytest.raises(OSError, match=rf"No space left on device: .* to the cache folder {tmp_path / 'c'}; make room"):
        learnt(file, tmp_path / "c", method="linear")
    monkeypatch.undo()
    np.testing.assert_array_equal(learnt(file, tmp_path / "c", method="linear"), learnt(file, method="linear"))


def test_features_stay_on_disk(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load, mapped = storage.load_mapped, []

    def load_mapped(path: Path) -> Any:
        found = load(path)
        mapped.extend(isinstance(array.base, np.memmap) for array in found[0].values())
        return found

    monkeypatch.setattr(storage, "load_mapped", load_mapped)
    learnt(file, tmp_path / "c", method="linear")
    assert all(mapped)


@pytest.mark.parametrize(
    "y", [LABELS, [[label] for label in LABELS], np.arange(300) % 7], ids=["names", "lists", "numbers"]
)
def test_a_stream_of_texts(y: Any, tmp_path: Path) -> None:
    batches = ((TEXTS[i : i + 70], y[i : i + 70]) for i in range(0, 301, 70))
    words = WordVectors.of_words(TEXTS[0].split()[:3], np.eye(3))
    expected = TextClassifier(random_state=0, vectors=words).fit(TEXTS, y)
    model = TextClassifier(random_state=0, vectors=words, memory_limit="1GB").fit(batches, cache=tmp_path)
    assert model.classes_.dtype == expected.classes_.dtype
    np.testing.assert_array_equal(model.decision_function(TEXTS[:50]), expected.decision_function(TEXTS[:50]))
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ([], "there are no texts"),
        ([([], [])], "there are no texts"),
        ([(["a"], ["x"]), (["b"], [])], "batch 1: X has 1 texts, y has 0 entries"),
        ([(["a"], ["x"]), ([3], ["y"])], "batch 1 must hold texts, got 3 in row 0"),
        ([(["a"], ["x"]), (["b"], None)], "batch 1 holds no labels"),
    ],
)
def test_refuses_batches_that_are_none(batches: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        TextClassifier().fit(iter(batches), cache=tmp_path)


@pytest.mark.parametrize("given", [{"text": "body"}, {"target": "team"}, {"label_delimiter": ","}, {"delimiter": ";"}])
def test_refuses_columns_of_batches(given: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(given))}='.*' is for files"):
        TextClassifier().fit(iter([(TEXTS, LABELS)]), cache=tmp_path, **given)


def test_refuses_texts_in_memory_and_what_is_no_folder(file: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cache is for a file of texts, and these are in memory: pass the path"):
        TextClassifier().fit(TEXTS, LABELS, cache=tmp_path)
    with pytest.raises(ValueError, match="X is an iterator: if it yields batches"):
        TextClassifier().fit(iter([(TEXTS, LABELS)]))
    with pytest.raises(ValueError, match="cache must be the path of a folder, got True"):
        TextClassifier().fit(file, cache=True, **COLUMNS)
    with pytest.raises(DataError, match="is a file, and the cache must be a folder"):
        TextClassifier().fit(file, cache=file, **COLUMNS)
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(DataError, match=r"pipe\.csv: is not a file that can be read again"):
        TextClassifier().fit(tmp_path / "pipe.csv", cache=tmp_path / "c")
