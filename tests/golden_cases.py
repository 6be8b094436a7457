"""What must come out the same on every machine: hashes, codes, parsed and scaled features, and a saved model.

`python tests/golden_cases.py` writes tests/golden/ anew. Do that only for a change that is meant to change results,
and say so in CHANGELOG.md: saved models and checkpoints hold what is hashed here.
"""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sparsenet import ExtremeClassifier, LSHConfig, read
from sparsenet.demo.corpus import name_words, sentences
from sparsenet.estimators.scaling import Scaling
from sparsenet.lsh.families import _words, make_family
from sparsenet.lsh.frame import measure
from sparsenet.lsh.index import LSHIndex

FOLDER = Path(__file__).parent / "golden"
VALUES, MODEL = FOLDER / "values.json", FOLDER / "model"
FAMILIES = ("simhash", "dwta", "minhash")
TOP = 5
# Numbers on and beside the borders between two float32, with many digits, signs, exponents, and the extremes.
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
    config = LSHConfig(family=family, n_tables=6, n_bits=9)  # type: ignore[arg-type]
    functions = make_family(config, 20)
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
    return found


def make_model() -> ExtremeClassifier:
    """Train the model that is kept: both paths, few labels, names of several alphabets."""
    labels = (np.abs(points().toarray()).argsort(axis=1)[:, -2:] // 2).tolist()
    names = [[f"label {label:02d} \N{GREEK SMALL LETTER LAMDA}" for label in {*own}] for own in labels]
    model = ExtremeClassifier(hidden=8, epochs=30, batch_size=16, n_jobs=1, random_state=0, verbose=False)
    return model.fit(points(), names)


def best(model: ExtremeClassifier) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """Return the names and scores of the best labels, both (60, TOP)."""
    return model.topk(points(), TOP)


def write() -> None:
    """Write all golden files."""
    model = make_model()
    model.save(MODEL)
    names, scores = best(model)
    kept = {"values": values(), "labels": names.tolist(), "scores": [[float(x) for x in row] for row in scores]}
    VALUES.write_text(json.dumps(kept, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
