"""Dense embeddings with labels: planted ones, and mean word vectors of texts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[Any]
LATENT, FAMILY, GROUP = 64, 16, 256
#: Spread of families in a group, labels in a family, points of a label, and noise of the embedding.
SPREADS = (0.9, 0.7, 0.6, 0.35)


class Embeddings(NamedTuple):
    """Training and test points, and an indicator of their labels."""

    X: Array
    Y: sparse.csr_array
    X_test: Array
    Y_test: sparse.csr_array

    def write(self, folder: Path) -> None:
        """Write the points as .npy and the labels as .npz."""
        for name, value in self._asdict().items():
            if isinstance(value, np.ndarray):
                np.save(folder / f"{name}.npy", value)
            else:
                sparse.save_npz(folder / f"{name}.npz", value, compressed=False)

    @classmethod
    def read(cls, folder: Path) -> Embeddings:
        points = [np.load(folder / f"{name}.npy") for name in ("X", "X_test")]
        labels = [sparse.csr_array(sparse.load_npz(folder / f"{name}.npz")) for name in ("Y", "Y_test")]
        return cls(points[0], labels[0], points[1], labels[1])


def planted(points: int, width: int, labels: int, test: int, seed: int, dtype: str = "float32") -> Embeddings:
    """Generate embeddings; equal arguments give equal data.

    Labels are leaves of a tree with two levels, and have a place in a latent space of 64 dimensions. A point lies near
    the place of its label, as far as its label is wide, and a fixed linear map with a falling spectrum takes it to the
    width, where noise is added. As with text encoders, some directions have most of the variance, and points have unit
    length. Counts of labels follow a power law.
    """
    rng = np.random.default_rng((seed, points, width, labels))
    groups = rng.normal(size=(-(-labels // GROUP), LATENT))
    families = groups[np.arange(-(-labels // FAMILY)) * FAMILY // GROUP]
    families = families + SPREADS[0] * rng.normal(size=families.shape)
    places = families[np.arange(labels) // FAMILY] + SPREADS[1] * rng.normal(size=(labels, LATENT))
    widths = SPREADS[2] * rng.uniform(0.5, 1.5, size=labels)
    chances = (np.arange(labels) + 50.0) ** -0.7
    n = points + test
    y = rng.permutation(labels)[rng.choice(labels, n, p=chances / chances.sum())]
    y[:labels] = np.arange(labels) if labels <= points else y[:labels]
    to_width = rng.normal(size=(LATENT, width)) * (np.arange(1, LATENT + 1) ** -0.3)[:, None]
    X = np.empty((n, width), dtype)
    for begin in range(0, n, 8192):
        own = slice(begin, min(begin + 8192, n))
        latent = places[y[own]] + widths[y[own], None] * rng.normal(size=(own.stop - begin, LATENT))
        block = latent @ to_width
        block += SPREADS[3] * np.sqrt(np.square(block).mean()) * rng.normal(size=block.shape)
        X[own] = block / np.linalg.norm(block, axis=1, keepdims=True)
    order = rng.permutation(points)
    of_train, of_test = (
        indicator([[label] for label in some], range(labels)) for some in (y[:points][order], y[points:])
    )
    return Embeddings(X[:points][order], of_train, X[points:], of_test)


def of_texts(folder: Path, name: str, vectors: str, most: int, test: int) -> Embeddings:
    """Embed texts: the mean of the static vectors of their words, divided by its length.

    `name` is a pair of tables in `folder`, NAME.train.tsv, or of lines of JSON with `text` and `labels`, of which the
    first `most` and `test` texts are read. Test labels without a training text are dropped.
    """
    from sparsenet import WordVectors

    table = WordVectors.read(vectors)
    texts, labels = _read(folder, name, "train", most)
    test_texts, test_labels = _read(folder, name, "test", test)
    classes = sorted({label for own in labels for label in own})
    X, X_test = (_unit(table.embed(some)) for some in (texts, test_texts))
    return Embeddings(X, indicator(labels, classes), X_test, indicator(test_labels, classes))


def _read(folder: Path, name: str, part: str, most: int) -> tuple[list[str], list[list[Any]]]:
    from bench.text import read
    from sparsenet.data import read_table

    if not list(folder.glob(f"{name}.{part}.jsonl*")):
        texts, labels = read(folder, name, part)
        order = random.Random(0).sample(range(len(texts)), min(most, len(texts)))
        return [texts[i] for i in order], [[labels[i]] for i in order]
    (path,) = folder.glob(f"{name}.{part}.jsonl*")
    table = read_table(path, text="text", target="labels")
    assert table.texts is not None
    assert table.labels is not None
    return table.texts[:most], table.labels[:most]


def _unit(X: Array) -> Array:
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return np.asarray(X / np.where(lengths > 0, lengths, 1), np.float32)


def indicator(labels: Any, classes: Any) -> sparse.csr_array:
    """Return the matrix (n, classes) of lists of labels; others are dropped."""
    numbers = {label: number for number, label in enumerate(classes)}
    rows = [sorted({numbers[label] for label in own if label in numbers}) for own in labels]
    indptr = np.concatenate(([0], np.cumsum([len(own) for own in rows])))
    ids: Iterator[int] = (label for own in rows for label in own)
    indices = np.fromiter(ids, np.int64, indptr[-1])
    return sparse.csr_array((np.ones(len(indices), np.float32), indices, indptr), shape=(len(rows), len(classes)))
