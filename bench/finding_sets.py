"""Vectors and points of `bench.finding`: planted ones, word vectors of texts, networks, and embeddings."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench import embedding_sets
from sparsenet import ExtremeClassifier, WordVectors
from sparsenet.index.vector_index import Examples
from sparsenet.kernels.types import F32, I32

#: Vectors of a planted cluster, and the spread of a cluster relative to its center.
CLUSTER, SPREAD = 50, 1.0


class Problem(NamedTuple):
    """Vectors with biases, points with the number of their vector, and what makes points to learn from."""

    vectors: F32
    bias: F32
    points: F32
    y: I32
    examples: Callable[[], Examples]
    n_cells: int | None = None

    def extended_vectors(self, *, one_length: bool) -> F32:
        """Return vectors whose products contain the biases, as other libraries need, all of one length or not.

        The mean of the biases, which orders nothing, is left out, so that vectors are not alike because of it.
        """
        if not self.bias.any():
            return self.vectors
        bias = self.bias - self.bias.mean()
        squares = np.einsum("ij,ij->i", self.vectors, self.vectors) + np.square(bias)
        rest = np.sqrt(squares.max() - squares) if one_length else np.zeros_like(bias)
        return np.column_stack((self.vectors, bias, rest))

    def extended_points(self) -> F32:
        """Return the points for `extended_vectors`."""
        if not self.bias.any():
            return self.points
        return np.hstack((self.points, np.tile(np.array([1, 0], np.float32), (len(self.points), 1))))


def planted(n: int, width: int, n_points: int, seed: int, noises: list[float]) -> dict[float | None, Problem]:
    """Plant clustered vectors, and for each noise points that are noisy copies of them.

    Equal arguments give equal data. Vectors have length 1, and the noise that is added to one is `noise` long.
    """
    rng = np.random.default_rng((seed, n, width))
    centers = rng.standard_normal((-(-n // CLUSTER), width), np.float32)
    vectors = np.empty((n, width), np.float32)
    for start in range(0, n, 1 << 16):
        own = slice(start, min(start + (1 << 16), n))
        vectors[own] = centers[rng.integers(0, len(centers), own.stop - start)]
        vectors[own] += np.float32(SPREAD) * rng.standard_normal((own.stop - start, width), np.float32)
        vectors[own] = unit(vectors[own])
    return {noise: noisy_copies(vectors, n_points, copy.deepcopy(rng), noise) for noise in noises}


def noisy_copies(vectors: F32, n_points: int, rng: np.random.Generator, noise: float) -> Problem:
    """Return points near vectors, and two a vector to learn from."""
    n, width = vectors.shape

    def noisy(y: Any) -> F32:
        added = rng.standard_normal((len(y), width), np.float32) * np.float32(noise / np.sqrt(width))
        return unit(vectors[y] + added)

    y = rng.integers(0, n, n_points).astype(np.int32)
    points = noisy(y)
    seen = rng.integers(0, n, 2 * n).astype(np.int32)
    return Problem(vectors, np.zeros(n, np.float32), points, y, lambda: examples_of(noisy(seen), seen))


def of_texts(path: Path, n: int, n_points: int, seed: int) -> Problem:
    """Embed distinct lines as vectors, and half of the words of a line as points."""
    rng, words = np.random.default_rng(seed), WordVectors.read("wordllama")
    lines = list(dict.fromkeys(path.read_text().splitlines()))
    lines = [line for line in lines if len(line.split()) >= 4]
    lines = [lines[i] for i in rng.permutation(len(lines))[:n]]

    def half(i: int) -> str:
        parts = lines[i].split()
        return " ".join(parts[j] for j in np.sort(rng.permutation(len(parts))[: len(parts) // 2]))

    def embedded(ids: I32) -> F32:
        return unit(words.embed([half(i) for i in ids], n_jobs=1))

    y = rng.integers(0, len(lines), n_points).astype(np.int32)
    points = embedded(y)
    seen = rng.integers(0, len(lines), 2 * len(lines)).astype(np.int32)
    vectors = unit(words.embed(lines, n_jobs=1))
    return Problem(vectors, np.zeros(len(vectors), np.float32), points, y, lambda: examples_of(embedded(seen), seen))


def trained(n_labels: int, width: int, n_points: int, seed: int) -> tuple[ExtremeClassifier, embedding_sets.Embeddings]:
    """Train a network without a wide path on two planted embeddings a label."""
    data = embedding_sets.planted(2 * n_labels, width, n_labels, n_points, seed)
    model = ExtremeClassifier(hidden=width, wide=False, epochs=5, random_state=seed, n_jobs=1)
    return model.fit(data.X, data.Y.indices), data


def of_network(n: int, width: int, n_points: int, seed: int) -> Problem:
    """Search the output layer of a network by its hidden units."""
    model, data = trained(n, width, n_points, seed)
    output, names_of = model.network_.output, model.classes_

    def units(X: Any) -> F32:
        parts = [model._features(X[i : i + 4096]) for i in range(0, len(X), 4096)]
        return np.concatenate([model.network_.hidden_units(part, 1) for part in parts])

    y, seen = (np.searchsorted(names_of, labels).astype(np.int32) for labels in (data.Y_test.indices, data.Y.indices))
    vectors, bias = np.ascontiguousarray(output.weight.value), output.bias.value.reshape(-1).copy()
    return Problem(vectors, bias, units(data.X_test), y, lambda: examples_of(units(data.X), seen))


def of_embeddings(n: int, width: int, n_points: int, seed: int) -> Problem:
    """Plant embeddings of labels; the nearest of the training points are sought, and no point is right or wrong."""
    data = embedding_sets.planted(n, width, n // 10, n_points, seed)
    points, y = data.X_test.copy(), np.full(n_points, -1, np.int32)  # the original also holds the training points
    return Problem(data.X, np.zeros(n, np.float32), points, y, lambda: examples_of(data.X[:0], y[:0]))


def examples_of(inputs: F32, labels: I32) -> Examples:
    return Examples(inputs, np.arange(len(labels) + 1), labels)


def unit(vectors: Any) -> F32:
    """Scale rows to unit length; zeros stay zero."""
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9), np.float32)
