"""Training from files larger than memory: texts are not kept, and features may lie in temporary files."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparsenet import DataError, TextClassifier, kernels
from sparsenet.core.seeds import run_seed
from sparsenet.core.spilling import Spill, SpillingArray
from sparsenet.engines.linear.problem import Problem
from sparsenet.engines.linear.text_holdout import draw_holdout
from sparsenet.engines.text.fit_text import FittedText, fit, fit_network
from sparsenet.engines.text.text_options import TextOptions
from sparsenet.features.text.corpus import Corpus
from sparsenet.features.text.featuriser import FeatureRules, extract
from sparsenet.features.text.text_files import FileRules, iter_texts
from tests.support.patience import PATIENCE
from tests.support.texts import planted, write

COLUMNS = {"text": "review", "target": "topic"}


def assert_equal(one: FittedText, other: FittedText) -> None:
    for name in ("matrix", "factors", "bias"):
        np.testing.assert_array_equal(getattr(one.model, name), getattr(other.model, name))
    assert one.score == other.score
    assert one.target.classes.tolist() == other.target.classes.tolist()


def streamed(path: Path, options: TextOptions, **columns: Any) -> FittedText:
    """Fit on the small batches of a file."""
    rules = FileRules(**columns, batch_characters=3000)
    batches = list(iter_texts(path, rules))
    assert len(batches) > 3
    read = partial(iter_texts, path, rules)
    corpus = Corpus.of_file(str(path), read, options.features, 1, options.memory_limit)
    return fit(corpus, options, seed=run_seed(0), threads=1)


def options_of(**parameters: Any) -> TextOptions:
    return TextOptions.of(TextClassifier(**parameters).get_params())


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.parquet", "t.txt"])
def test_batches_and_temporary_files_change_nothing(tmp_path, name):
    texts, labels = planted(700)
    write(tmp_path / name, texts, labels)
    expected = TextClassifier(random_state=0, n_jobs=1).fit(texts, labels)
    columns: dict[str, Any] = {"text": ["review"], "target": "topic"} if name != "t.txt" else {}
    for options in (options_of(), options_of(memory_limit="64kB")):
        assert_equal(streamed(tmp_path / name, options, **columns), expected._fitted)


def test_takes_texts_part_by_part():
    texts, _ = planted(100)
    rows = extract(*kernels.join_texts(texts), FeatureRules(bits=14), 1)
    some, spill = np.arange(0, 100, 3), Spill(1 << 30)
    expected, found = (replace(rows, part_features=n).take(some, spill) for n in (1 << 24, 99))
    for name in ("indptr", "slots", "counts"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_samples_texts_to_choose_character_lengths(tmp_path):
    texts, labels = planted(700)
    write(tmp_path / "t.csv", texts, labels)
    options = options_of(time_budget=20)
    options = replace(options, features=replace(options.features, max_bytes_characters=5000, sampled_bytes=4000))
    corpus = Corpus.of_texts(texts, labels, options.features, 1)
    expected = fit(corpus, options, seed=run_seed(0), threads=1)
    assert expected.vocabulary.rules.char_high == 0
    assert {trial["word_ngrams"] for trial in expected.search} == {2, 3}
    found = streamed(tmp_path / "t.csv", options, text=["review"], target="topic")
    assert_equal(found, expected)
    assert found.search == expected.search


def test_a_pipe_is_read_once_and_searched_by_cost_alone(tmp_path):
    texts, labels = planted(400)
    write(tmp_path / "t.txt", texts, labels)
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["sh", "-c", 'cat "$0" > "$1"', tmp_path / "t.txt", tmp_path / "pipe"]):
        model = TextClassifier(random_state=0, n_jobs=1, time_budget=60).fit(tmp_path / "pipe")
    assert {(trial["word_ngrams"], trial["cost"]) for trial in model.search_} == {(2, 1.0), (2, 0.3), (2, 3.0)}
    assert model.n_texts_ == 400
    program = "from sparsenet import TextClassifier as T; print(len(T(time_budget=60, n_jobs=1).fit('-').search_))"
    with (tmp_path / "t.txt").open("rb") as file:
        done = subprocess.run(
            [sys.executable, "-c", program], stdin=file, capture_output=True, timeout=300 * PATIENCE, check=True
        )
    assert done.stdout.split() == [b"3"]


def test_reports_a_file_that_changes_while_read(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("__label__a one\n__label__b two\n" * 20)
    chosen = TextOptions.of(TextClassifier().get_params()).features
    read: Any = Corpus.of_file(str(path), lambda: iter_texts(path, FileRules()), chosen, 1)
    assert len(read.features(read.rules)) == 40
    path.write_text("__label__a one\n")
    with pytest.raises(DataError, match=r"t\.txt: held 40 texts when it was read first, and 1 later: it must stay"):
        read.features(read.rules)


def test_several_labels_in_a_column(tmp_path):
    (tmp_path / "t.csv").write_text("text,label\n" + "one two,a|b\nthree,b\n" * 20)
    model = TextClassifier(random_state=0).fit(tmp_path / "t.csv", label_delimiter="|")
    assert model.classes_.tolist() == ["a", "b"]
    assert model.predict(["three"]) == [["b"]]


def test_a_network_reads_points_from_temporary_files(tmp_path):
    texts, labels = planted(700)
    write(tmp_path / "t.csv", texts, labels)

    class InFiles(Problem):
        spill = Spill(1000)

    options = options_of(method="network")
    read = partial(iter_texts, tmp_path / "t.csv", FileRules(text=["review"], target="topic"))
    corpus = Corpus.of_file(str(tmp_path / "t.csv"), read, options.features, 1, 16_000)
    settings = (None, run_seed(0), 1, None)
    found = fit_network(
        InFiles(corpus.rows, corpus.labels, True, *settings),
        corpus,
        np.bincount(corpus.labels.indices),
        options,
        0.0,
        draw_holdout(corpus.labels, options.holdout, run_seed(0), for_good=True),
    )
    other = TextClassifier(random_state=0, n_jobs=1, method="network").fit(texts, labels)
    np.testing.assert_array_equal(found.answers.scores(texts[:50], 1), other.decision_function(texts[:50]))


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_spills_large_arrays_only(tmp_path, monkeypatch, size):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    numbers = np.arange(size, dtype=np.int32)
    for max_bytes in (100, 10_000):
        spill = Spill(max_bytes)
        array = spill.empty(size, np.float32)
        assert array.shape == (size,)
        array[:] = numbers
        pieces = spill.growing(np.int32)
        for begin in range(0, size, 7):
            pieces.append(numbers[begin : begin + 7])
        np.testing.assert_array_equal(pieces.joined(), numbers)
        np.testing.assert_array_equal(array, numbers)
        mapped = array.base is not None
        assert mapped == (4 * size > max_bytes)
    del array, pieces
    gc.collect()
    assert os.listdir(tmp_path) == [], "a temporary file has no name"
    assert len(os.listdir("/proc/self/fd")) == before


def test_reports_a_full_disk(tmp_path, monkeypatch):
    def full(*_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(os, "posix_fallocate", full)
    message = r"No space left on device: features .* take 400 B or more .* the folder {}; let TMPDIR name another one"
    with pytest.raises(OSError, match=message.format(tmp_path)):
        Spill(10).empty(100, np.float32)


def test_reports_a_disk_that_fills_up(monkeypatch):
    """Write to a device that is always full, through the buffer of a file."""
    for size in (10, 1_000_000):
        file = open("/dev/full", "wb")  # noqa: SIM115, closed below
        spill = Spill(10)
        monkeypatch.setattr(Spill, "new_file", lambda spill, file=file: file)
        pieces = SpillingArray(np.dtype(np.int32), spill)

        def fill(pieces=pieces, size=size):
            pieces.append(np.zeros(size, np.int32))
            pieces.joined()

        with pytest.raises(OSError, match=r"No space left on device: .* let TMPDIR name another one"):
            fill()
        with contextlib.suppress(OSError):  # closing flushes the rest of its buffer
            file.close()


def test_files_grow_if_room_cannot_be_reserved(monkeypatch):
    monkeypatch.delattr(os, "posix_fallocate")
    array = Spill(10).empty(100, np.float32)
    array[:] = 1
    assert (array.base is not None, array.sum()) == (True, 100)


PROGRAM = """
import sys
from pathlib import Path
from sparsenet import TextClassifier
model = TextClassifier(random_state=0, n_jobs=1).fit(sys.argv[1])
status = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
print(len(model.classes_), status["VmHWM"].split()[0])  # ru_maxrss would be that of pytest, if larger
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_raw_text(tmp_path):
    """120 MB of text take no more memory than 60 MB of the same words."""
    texts, labels = planted(4000)
    peaks = []
    for times in (400, 800):
        lines = (f"__label__{label} {(text + ' ') * times}\n" for text, label in zip(texts, labels, strict=True))
        (tmp_path / "t.txt").write_text("".join(lines))
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, tmp_path / "t.txt"],
            capture_output=True,
            text=True,
            timeout=300 * PATIENCE,
            check=True,
        )
        n_labels, peak = map(int, done.stdout.split())
        assert n_labels == 3
        peaks.append(peak * 1024)
        size = (tmp_path / "t.txt").stat().st_size
    assert size > 120 << 20
    assert peaks[1] - peaks[0] < 16 << 20, "of 60 MB more text"
