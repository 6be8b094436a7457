"""Results that are equal on every machine: hashes, codes, parsed, scaled and counted features, saved models.

`python -m tests.support.golden_cases` writes the shared values, and the models of this architecture; run it on both
(`tools/sysroot.py` names a Python for aarch64). Do that only for a change that is meant to change results, and say so
in CHANGELOG.md: saved models and checkpoints hold what is hashed here.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sparsenet import ExtremeClassifier, LSHConfig, TextClassifier, kernels, read
from sparsenet.core.rows import Rows
from sparsenet.demo.docstring_points import name_words, sentences
from sparsenet.features.scaling import Scaling
from sparsenet.features.text.featuriser import FeatureRules, extract
from sparsenet.features.text.vocabulary import Vocabulary
from sparsenet.index.hashing.families import HASH_FAMILIES, _words
from sparsenet.index.hashing.hash_index import LSHIndex
from sparsenet.index.hashing.sphere import measure

FOLDER = Path(__file__).parents[1] / "golden"
VALUES = FOLDER / "values.json"
#: Machines that trained and saved models; each model loads on all.
MACHINES = ("aarch64", "x86_64")
FAMILIES = ("simhash", "dwta", "minhash")
TOP = 5
# Numbers at and near the midpoints of two float32, with many digits, signs, exponents, and the extremes.
NUMBERS = """
1 0.1 -0.1 3.14159265358979 16777217 16777219 1.00000005960464477539062500000000001 0.30000001192092896
1e-40 1.4e-45 7.1e-46 3.4028234e38 -2.5E-7 .5 5. +7 123456789012345678901234567890 0.000000000000000000001
"""
DOCSTRING = """Sort an array in place. The order of equal elements is kept.

Parameters
----------
axis : int
    Axis along which to sort.

Notes
-----
Merge sort reads every element once a level. See :func:`numpy.sort` for a copy.
"""


# Words, cases, scripts, marks, emoji, non-words and invalid texts.
TEXTS = [
    "",
    "Sort an array, sort it!",
    "don't 'quote' rock'n'roll' ''x",
    "Straße STRASSE ΣΊΣΥΦΟΣ σίσυφος İstanbul ẞ ﬀ",
    "日本語のテキスト と カタカナ・中文,ไทยภาษา 한국어 문장",
    "e\u0301te\u0301 soft\u00adhyphen zero\u200dwidth नमस्ते",
    "😀😀 👩\u200d👩\u200d👧 €5.99 snake_case C++ №7 ①",
    "half a pair \ud83d of surrogates\0\r\n\u2028",
    "x" * 200 + " " + " ".join(f"w{i}" for i in range(300)),
]
RULES = (FeatureRules(), FeatureRules(word_ngrams=3, char_low=1, char_high=2, bits=30), FeatureRules(char_high=0))
QUESTIONS = ["how to sort a list", "a line through points", "draw it", "ΣΊΣΥΦΟΣ draws a straße"]


def numbers(seed: int, *shape: int) -> NDArray[np.float32]:
    """Draw float32 numbers from -1 to 1 that are the same in every version of NumPy and on every machine."""
    whole = (_words(seed, int(np.prod(shape))) >> np.uint64(40)).astype(np.float32)
    return (whole / np.float32(2**23) - np.float32(1)).reshape(shape)


def digest(*arrays: NDArray[Any]) -> str:
    """Digest types, shapes and bytes."""
    hasher = hashlib.sha256()
    for array in arrays:
        hasher.update(f"{array.dtype.str} {array.shape} ".encode())
        hasher.update(np.ascontiguousarray(array).tobytes())
    return hasher.hexdigest()[:32]


def hashed(family: str) -> dict[str, str]:
    """Hash labels and points by one family, and search for the points."""
    weight, bias, hidden = numbers(1, 300, 20), numbers(2, 300), np.maximum(numbers(3, 40, 20), 0)
    config = LSHConfig(family=family, n_tables=6, n_bits=9)
    functions = HASH_FAMILIES[config.family](config, 20)
    frame, lengths = measure(weight, bias, config.covered, config.headroom)
    labels = functions.codes(functions.label_vectors(frame, weight, bias), 1)
    index = LSHIndex(config, n_labels=300, width=20)
    index.rebuild(weight, bias)
    ids, hits = index.query(hidden, limit=50)
    return {
        f"{family}: functions": digest(functions.functions),
        f"{family}: frame": digest(frame.center, np.float64([frame.radius]), lengths),
        f"{family}: codes of labels": digest(labels),
        f"{family}: codes of points": digest(functions.codes(functions.query_vectors(hidden), 1)),
        f"{family}: labels found": digest(ids, hits),
    }


def points() -> sparse.csr_array:
    """Make a sparse matrix of 60 points and 30 features."""
    dense = numbers(4, 60, 30)
    dense[np.abs(dense) < 0.7] = 0
    return sparse.csr_array(dense)


def parsed() -> sparse.csr_array:
    """Read the numbers that are hard to round, in the format of the extreme classification repository."""
    lines = [f"{len(NUMBERS.split())} 3 2", *(f"0,1 0:{text} 2:1" for text in NUMBERS.split())]
    return read(io.BytesIO("\n".join(lines).encode() + b"\n"), format="xmc").X


def counted() -> dict[str, str]:
    """Turn texts into counted features, and these into points."""
    found: dict[str, str] = {}
    labels = Rows.of(sparse.csr_array(np.eye(len(TEXTS), 3, dtype=np.float32) + np.eye(len(TEXTS), 3, k=-3)))
    for rules in RULES:
        rows = extract(*kernels.join_texts(TEXTS), rules, 1)
        points = Vocabulary.learn(rules, rows, labels).points(rows, 1)
        name = "texts by " + ", ".join(map(str, rules.as_tuple()))
        found[name] = digest(rows.indptr, rows.slots, rows.counts)
        found[f"{name}: points"] = digest(points.indptr, points.indices, points.data)
    return found


def values() -> dict[str, str]:
    """Compute everything that must have the same bits everywhere."""
    found: dict[str, str] = {"words": digest(_words(5, 100))}
    for family in FAMILIES:
        found |= hashed(family)
    found["numbers in a file"] = digest(parsed().data)
    rows = Scaling.learn(points(), "rows").apply(points())
    found["scaled rows"] = digest(rows.indptr, rows.indices, rows.data)
    found["scaled columns"] = digest(Scaling.learn(numbers(6, 40, 7), "columns").apply(numbers(6, 40, 7)).data)
    text = [*sentences(DOCSTRING), name_words("numpy.ma.MaskedArray.sort")]
    found["sentences and words"] = hashlib.sha256("\n".join(text).encode()).hexdigest()[:32]
    return found | counted()


def make_extreme() -> ExtremeClassifier:
    """Train a model of points: both paths, few labels, names of several alphabets."""
    labels = (np.abs(points().toarray()).argsort(axis=1)[:, -2:] // 2).tolist()
    names = [[f"label {label:02d} \N{GREEK SMALL LETTER LAMDA}" for label in {*own}] for own in labels]
    model = ExtremeClassifier(hidden=8, epochs=30, batch_size=16, n_jobs=1, random_state=0, verbose=False)
    return model.fit(points(), names)


def make_text() -> TextClassifier:
    """Train a model of texts; with so few, all of them are learnt from."""
    subjects = {"sort": "a list, rows by a key, an array", "fit": "a line, a curve to points", "plot": "a curve, bars"}
    texts = [f"{verb} {thing}" for verb, things in subjects.items() for thing in things.split(", ")]
    model = TextClassifier(char_ngrams=(3, 4), bits=12, n_jobs=1, random_state=0)
    return model.fit(texts, [text.split()[0] for text in texts])


def extreme_best(model: ExtremeClassifier) -> tuple[list[list[str]], list[list[float]]]:
    """Return the names and scores of the best labels of every point."""
    names, scores = model.topk(points(), TOP)
    return names.tolist(), scores.tolist()


def text_best(model: TextClassifier) -> tuple[list[list[str]], list[list[float]]]:
    """Return all labels and their probabilities, best first, of every question."""
    found = model.predict_proba(QUESTIONS)
    order = np.argsort(-found, axis=1)
    return model.classes_[order].tolist(), np.take_along_axis(found, order, axis=1).tolist()


Best = Callable[[Any], tuple[list[list[str]], list[list[float]]]]


@dataclass(frozen=True)
class Saved:
    """A kind of saved model: functions that train, save, load and query it."""

    make: Callable[[], Any]
    load: Callable[[Path], Any]
    best: Best
    options: dict[str, bool]


KINDS = {
    "extreme": Saved(make_extreme, ExtremeClassifier.load, extreme_best, {}),
    "compact": Saved(make_extreme, ExtremeClassifier.load, extreme_best, {"compact": True}),
    "text": Saved(make_text, TextClassifier.load, text_best, {}),
}


def write(folder: Path) -> None:
    """Write all golden files that this machine can make; `folder` is named after its architecture."""
    VALUES.write_text(json.dumps(values(), indent=0) + "\n", encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    for name, kind in KINDS.items():
        kind.make().save(folder / name, **kind.options)
        labels, scores = kind.best(kind.load(folder / name))
        kept = {"labels": labels, "scores": scores}
        (folder / f"{name}.json").write_text(json.dumps(kept, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(FOLDER / platform.machine())
