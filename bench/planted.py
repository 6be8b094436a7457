"""Planted data in the shape of Amazon-670K, or a multiple of it, from a seed.

    python -m bench.planted --labels 670091 --out DIR [--points N] [--test N] [--features N] [--seed 0]

writes DIR/train.txt and DIR/test.txt in the format of the extreme classification repository; `generate` returns the
same data as matrices.

The structure: labels are the leaves of a tree with two levels, about 16 labels to a family and 32 families to a group.
Labels, families and groups each have words (features) of their own. Label counts follow a power law, with at least one
point per label. The rarer a label, the closer its points are to each other in the tree. A point thus has related
labels, and frequent labels occur everywhere. Each word of a point comes from one of its labels, from the family or
group of that label, or from noise, which follows a power law over all words. Values are tf-idf.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

I32: TypeAlias = NDArray[np.int32]
I64: TypeAlias = NDArray[np.int64]
F32: TypeAlias = NDArray[np.float32]

LABELS_A_FAMILY, FAMILIES_A_GROUP = 16, 32
WORDS_A_LABEL, WORDS_A_FAMILY, WORDS_A_GROUP = 6, 12, 40
#: Shares of words from the label, its family and its group; the rest is noise.
SHARES = (0.30, 0.22, 0.15)
#: A word is drawn as ``n_features * u ** STEEPNESS``: noise prefers common words more than labels do.
NOISE_STEEPNESS, MEANING_STEEPNESS = 4.0, 2.0
#: The expected count of the label of rank r is 1 plus a share proportional to ``(r + RANK_SHIFT) ** -RANK_POWER``.
RANK_POWER, RANK_SHIFT = 0.9, 50
#: A label with c points is spread over about ``SPREAD * c + NEIGHBORS`` places of the tree.
SPREAD, NEIGHBORS = 8, 12
#: Points generated per block, which bounds temporary memory.
CHUNK = 8192


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The size of a data set; means are met within one or two per cent."""

    points: int = 490_449
    test_points: int = 20_000
    features: int = 135_909
    labels: int = 670_091
    features_a_point: float = 75.0
    labels_a_point: float = 5.45

    @classmethod
    def with_labels(cls, labels: int, **changes: Any) -> Shape:
        """Return the default shape with another number of labels; points are in proportion, at most the default."""
        whole = cls()
        points = min(round(whole.points * labels / whole.labels), whole.points)
        test_points = min(whole.test_points, max(points // 5, 1))
        return replace(whole, **{"points": points, "test_points": test_points, "labels": labels, **changes})


class Planted(NamedTuple):
    """Features and labels of training and test points: canonical CSR, float32, ids int32."""

    X: Any
    Y: Any
    X_test: Any
    Y_test: Any


class Bags(NamedTuple):
    """The words of some points: ids, ascending within a point, their counts, and the number of words of each point."""

    words: I32
    counts: NDArray[np.int16]
    sizes: I64


def generate(shape: Shape, seed: int = 0) -> Planted:
    """Generate a data set; equal arguments give equal data on every machine with the same NumPy."""
    labels, label_starts, bags = draw(shape, seed)
    features, counts, sizes = (np.concatenate(arrays) for arrays in zip(*bags, strict=True))
    values = tf_idf(counts, idf(np.bincount(features, minlength=shape.features), len(sizes))[features])
    X = _csr(values, features, np.concatenate(([0], np.cumsum(sizes))), shape.features)
    Y = _csr(np.ones(len(labels), np.float32), labels, label_starts, shape.labels)
    cut = shape.points  # points are in random order
    return Planted(X[:cut], Y[:cut], X[cut:], Y[cut:])


def draw(shape: Shape, seed: int = 0) -> tuple[I32, I64, Iterator[Bags]]:
    """Draw all points, those for tests last: label ids, row pointers of labels, and blocks of words."""
    rng = np.random.default_rng((seed, shape.labels, shape.points))
    labels, label_starts = _labels(shape, rng)
    return labels, label_starts, _features(shape, labels, label_starts, rng)


def _csr(values: F32, indices: I32, starts: I64, width: int) -> Any:
    matrix = sparse.csr_array((values, indices, starts.astype(np.int32)), shape=(len(starts) - 1, width))
    matrix.has_canonical_format = True
    return matrix


# --- labels --------------------------------------------------------------------------------------------------------


def label_counts(shape: Shape, total: int, rng: np.random.Generator) -> I64:
    """Draw the count of each label, repeats within a point included: one plus a power law, shuffled."""
    law = (np.arange(shape.labels) + RANK_SHIFT) ** -RANK_POWER
    if total <= shape.labels:  # fewer occurrences than labels: some never occur
        counts = rng.multinomial(total, law / law.sum())
    else:
        counts = 1 + rng.multinomial(total - shape.labels, law / law.sum())
    # Cap the most frequent labels.
    return rng.permutation(np.minimum(counts, max((shape.points + shape.test_points) // 20, 1)))


def _labels(shape: Shape, rng: np.random.Generator) -> tuple[I32, I64]:
    """Draw the labels of each point, as ids and row pointers."""
    n_points = shape.points + shape.test_points
    wanted = total = round(n_points * shape.labels_a_point)
    for _ in range(2):  # the first pass measures the share of repeats
        labels, starts = _place(shape, total, rng)
        total = round(total * wanted / len(labels))
    return labels, starts


def _place(shape: Shape, total: int, rng: np.random.Generator) -> tuple[I32, I64]:
    """Place labels along the line of leaves, and cut it into points; repeats within a point are merged."""
    n_points = shape.points + shape.test_points
    counts = label_counts(shape, total, rng)
    labels = np.repeat(np.arange(shape.labels, dtype=np.int32), counts)
    place = np.arange(len(labels)) + rng.standard_normal(len(labels)) * (SPREAD * counts[labels] + NEIGHBORS)
    labels = labels[np.argsort(place)]
    # Each point takes a run of neighbors in the line: one label, plus a random number of further ones.
    sizes = 1 + rng.multinomial(len(labels) - n_points, np.full(n_points, 1 / n_points))
    points = np.repeat(rng.permutation(n_points), sizes)
    pairs = np.unique(points * np.int64(shape.labels) + labels)
    starts = np.searchsorted(pairs, np.arange(n_points + 1) * np.int64(shape.labels))
    return (pairs % shape.labels).astype(np.int32), starts


# --- features ------------------------------------------------------------------------------------------------------


def _features(shape: Shape, labels: I32, label_starts: I64, rng: np.random.Generator) -> Iterator[Bags]:
    """Draw the words of each point, `CHUNK` points at a time."""
    tree = _Tree(shape, rng)
    n_points = len(label_starts) - 1
    lengths = _lengths(shape, tree, labels, label_starts, rng)
    for first in range(0, n_points, CHUNK):
        chunk = slice(first, min(first + CHUNK, n_points))
        yield _bags(tree, labels, label_starts[chunk.start : chunk.stop + 1], lengths[chunk], rng)


def _lengths(shape: Shape, tree: _Tree, labels: I32, label_starts: I64, rng: np.random.Generator) -> I64:
    """Draw the number of words of each point, repeats included, so that distinct words meet their mean."""
    n_points = len(label_starts) - 1
    mean = shape.features_a_point
    pilot = rng.integers(0, max(n_points - 256, 1), 8)
    for _ in range(3):
        found = []
        for first in pilot:
            starts = label_starts[first : first + 257]
            lengths = _gamma(mean, len(starts) - 1, rng)
            found.append(_bags(tree, labels, starts, lengths, rng)[2].mean())
        mean *= shape.features_a_point / float(np.mean(found))
    return _gamma(mean, n_points, rng)


def _gamma(mean: float, size: int, rng: np.random.Generator) -> I64:
    shape = 4.0  # a few words to a few hundred
    return 1 + np.rint(rng.gamma(shape, (mean - 1) / shape, size)).astype(np.int64)


class _Tree:
    """The words of labels, families and groups."""

    def __init__(self, shape: Shape, rng: np.random.Generator) -> None:
        self.n_features = shape.features
        # Shuffled, so that the number of a word does not reveal its frequency.
        self.names = rng.permutation(shape.features).astype(np.int32)
        n_families = -(-shape.labels // LABELS_A_FAMILY)
        n_groups = -(-n_families // FAMILIES_A_GROUP)
        sizes = ((shape.labels, WORDS_A_LABEL), (n_families, WORDS_A_FAMILY), (n_groups, WORDS_A_GROUP))
        self.levels = [self._draw(size, MEANING_STEEPNESS, rng) for size in sizes]

    def _draw(self, size: Any, steepness: float, rng: np.random.Generator) -> I32:
        u = rng.random(size, dtype=np.float32)
        number = np.minimum((self.n_features * u**steepness).astype(np.int32), self.n_features - 1)
        drawn: I32 = self.names[number]
        return drawn

    def words(self, labels: I32, rng: np.random.Generator) -> I32:
        """Draw one word for each of `labels`."""
        chosen = self._draw(len(labels), NOISE_STEEPNESS, rng)
        kind = np.searchsorted(np.cumsum(SHARES), rng.random(len(labels), dtype=np.float32))
        nodes = labels
        for level, (words, children) in enumerate(
            zip(self.levels, (1, LABELS_A_FAMILY, FAMILIES_A_GROUP), strict=True)
        ):
            nodes = nodes // children
            here = np.flatnonzero(kind == level)
            chosen[here] = words[nodes[here], rng.integers(0, words.shape[1], len(here))]
        return chosen


def _bags(tree: _Tree, labels: I32, label_starts: I64, lengths: I64, rng: np.random.Generator) -> Bags:
    """Draw the words of some points."""
    points = np.repeat(np.arange(len(lengths)), lengths)
    n_labels = np.diff(label_starts)
    place = label_starts[points] + (rng.random(len(points), dtype=np.float32) * n_labels[points]).astype(np.int64)
    drawn = tree.words(labels[np.minimum(place, label_starts[points + 1] - 1)], rng)
    pairs, counts = np.unique(points * np.int64(tree.n_features) + drawn, return_counts=True)
    sizes = np.bincount(pairs // tree.n_features, minlength=len(lengths))
    return Bags((pairs % tree.n_features).astype(np.int32), counts.astype(np.int16), sizes)


def idf(held_by: I64, n_points: int) -> F32:
    """Return the inverse document frequency of each word, given the number of points that have it."""
    found: F32 = np.log((n_points + 1) / (held_by + 1)).astype(np.float32)
    return found


def tf_idf(counts: NDArray[np.int16], idf_of_each: F32) -> F32:
    """Return the value of each word of a point."""
    values: F32 = 1 + np.log(counts, dtype=np.float32)
    values *= idf_of_each
    return np.maximum(values, np.float32(1e-3))


# --- files ---------------------------------------------------------------------------------------------------------


def write_xmc(path: Path, X: Any, Y: Any) -> None:
    """Write points in the format of the extreme classification repository."""
    with path.open("w", encoding="ascii") as file:
        file.write(f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}\n")
        file.writelines(_lines(X, Y))


def _lines(X: Any, Y: Any) -> Iterator[str]:
    for point in range(X.shape[0]):
        begin, end = X.indptr[point], X.indptr[point + 1]
        pairs = zip(X.indices[begin:end].tolist(), X.data[begin:end].tolist(), strict=True)
        labels = ",".join(map(str, Y.indices[Y.indptr[point] : Y.indptr[point + 1]].tolist()))
        yield f"{labels} {' '.join([f'{feature}:{value:.6f}' for feature, value in pairs])}\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Write a training and a test file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, default=Shape.labels)
    parser.add_argument("--points", type=int, help="training points; default: in proportion to the labels")
    parser.add_argument("--test", type=int, help="test points")
    parser.add_argument("--features", type=int, default=Shape.features)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    options = parser.parse_args(arguments)
    given = {"points": options.points, "test_points": options.test, "features": options.features}
    changes = {name: value for name, value in given.items() if value is not None}
    data = generate(Shape.with_labels(options.labels, **changes), options.seed)
    options.out.mkdir(parents=True, exist_ok=True)
    write_xmc(options.out / "train.txt", data.X, data.Y)
    write_xmc(options.out / "test.txt", data.X_test, data.Y_test)


if __name__ == "__main__":
    main()
