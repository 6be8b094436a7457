"""Data of `bench.torch_head`: sparse points with many labels, and static word vectors of texts."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.preprocessing import MultiLabelBinarizer

from bench.cache import prepare
from sparsenet import WordVectors
from sparsenet.data import read_table

#: Texts of the parts of a set, drawn at random: test files may be ordered.
TEXTS = {"train": 100_000, "test": 10_000}


class Split(NamedTuple):
    """Points and labels of both parts; points are sparse rows or vectors."""

    name: str
    X: Any
    Y: sparse.csr_array
    X_test: Any
    Y_test: sparse.csr_array


def of_points(folder: Path) -> Split:
    """Read a folder in the format of the extreme classification repository."""
    data = prepare(folder)
    return Split(folder.name, *(data.matrix(part) for part in ("train.X", "train.Y", "test.X", "test.Y")))


def of_texts(path: Path, vectors: str) -> Split:
    """Read PATH.train.jsonl and PATH.test.jsonl, plain or compressed, as vectors of variance 1; labels of training."""
    embed, labels = WordVectors.read(vectors).embed, MultiLabelBinarizer(sparse_output=True)
    parts = []
    for part, size in TEXTS.items():
        (file,) = path.parent.glob(f"{path.name}.{part}.jsonl*")
        found = read_table(file, text=["text"], target="labels")
        assert found.texts is not None
        assert found.labels is not None
        chosen = random.Random(0).sample(range(len(found.texts)), min(size, len(found.texts)))
        parts.append((embed([found.texts[i] for i in chosen], n_jobs=1), [list(found.labels[i]) for i in chosen]))
    (X, own), (X_test, own_test) = parts
    labels.fit(own)
    known = set(labels.classes_)
    Y_test = labels.transform([[label for label in row if label in known] for row in own_test])
    scale = 1 / X.std()
    Y, Y_test = (sparse.csr_array(part, dtype=np.float32) for part in (labels.transform(own), Y_test))
    return Split(f"{path.name}, {Path(vectors).name}", scale * X, Y, scale * X_test, Y_test)
