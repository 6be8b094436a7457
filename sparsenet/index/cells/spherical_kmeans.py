"""Spherical k-means: unit centroids that have the largest products with their vectors."""

from __future__ import annotations

import numpy as np

from sparsenet import kernels
from sparsenet.index.exact import exact_topk
from sparsenet.kernels.types import F32, I32

#: Vectors assigned at a time.
BLOCK = 1 << 16


def spherical_kmeans(vectors: F32, n_cells: int, *, n_iterations: int, seed: int, threads: int) -> F32:
    """Return the centroids (n_cells, h) of `vectors` (n, h); with fewer vectors than cells, some repeat.

    A cell that becomes empty moves to one of the vectors with the smallest products with their centroids.
    """
    unit = normalized(vectors)
    order = np.random.default_rng(seed).permutation(len(unit))
    centroids = unit[np.sort(order[np.arange(n_cells) % len(unit)])]
    for _ in range(n_iterations):
        cells, products = nearest_cells(unit, centroids, threads)
        counts = np.bincount(cells, minlength=n_cells)
        sums = np.empty_like(centroids)
        by_cell = np.argsort(cells, kind="stable").astype(np.int32)
        starts = np.concatenate(([0], np.cumsum(counts)))
        kernels.csr_matmul(starts, by_cell, np.ones(len(unit), np.float32), unit, sums, threads)
        empty = np.flatnonzero(counts == 0)[: len(unit)]
        sums[empty] = unit[np.argsort(products, kind="stable")[: len(empty)]]
        centroids = normalized(sums)
    return centroids


def kmeans_memory(n: int, width: int) -> int:
    """Return the bytes of n vectors, the same at unit length, and their cells and order."""
    return (8 * width + 32) * n


def nearest_cells(vectors: F32, centroids: F32, threads: int) -> tuple[I32, F32]:
    """Return the cell of each vector, the one with the largest product, and that product, (n,) each."""
    cells, products = np.empty(len(vectors), np.int32), np.empty(len(vectors), np.float32)
    no_bias = np.zeros(len(centroids), np.float32)
    for start in range(0, len(vectors), BLOCK):
        own = slice(start, start + BLOCK)
        found, best = exact_topk(np.ascontiguousarray(vectors[own]), centroids, no_bias, 1, threads)
        cells[own], products[own] = found[:, 0], best[:, 0]
    return cells, products


def normalized(vectors: F32) -> F32:
    """Return `vectors` at unit length; zeros stay zero."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    return np.asarray(vectors / np.maximum(lengths, np.finfo(np.float32).tiny)[:, None], np.float32)
