"""The leading singular vectors of a sparse matrix, the same bits at any number of threads."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from sparsenet import kernels
from sparsenet.core.rows import Rows, transpose
from sparsenet.engines.recommender.recommender_rules import RULES, RecommenderRules
from sparsenet.kernels.types import F32, F64


class Spectrum(NamedTuple):
    """Right singular vectors (width, d) and singular values (d,), the largest first."""

    vectors: F32
    values: F32


def leading(rows: Rows, n: int, *, seed: int, threads: int, rules: RecommenderRules = RULES) -> Spectrum:
    """Approximate the n leading right singular vectors by subspace iteration from random vectors.

    There are fewer if the matrix has a smaller rank. Products run in the project's kernels, and LAPACK on one thread:
    so the result does not depend on `threads`.
    """
    flipped = transpose(rows)
    size = min(n + rules.spare, rows.width, len(rows))
    basis = np.random.default_rng((seed, 5)).standard_normal((rows.width, size), np.float32)
    for _ in range(rules.passes):
        basis = _orthonormal(_product(flipped, _product(rows, basis, threads), threads), rules.noise, threads)
    images = _product(rows, basis, threads)
    variances, rotation = _eigen(_gram(images, threads))
    order = np.argsort(-variances, kind="stable")[: min(n, size)]
    order = order[variances[order] > rules.noise * max(variances.max(initial=0.0), np.finfo(np.float32).tiny)]
    vectors = _times(basis, np.ascontiguousarray(rotation[:, order], np.float32), threads)
    return Spectrum(vectors, np.sqrt(variances[order]).astype(np.float32))


def _product(rows: Rows, dense: F32, threads: int) -> F32:
    out = np.empty((len(rows), dense.shape[1]), np.float32)
    kernels.csr_matmul(rows.indptr, rows.indices, rows.data, dense, out, threads)
    return out


def _gram(matrix: F32, threads: int) -> F32:
    out = np.empty((matrix.shape[1], matrix.shape[1]), np.float32)
    kernels.matmul(matrix, matrix, out, None, None, None, True, False, False, threads)
    return out


def _times(a: F32, b: F32, threads: int) -> F32:
    out = np.empty((len(a), b.shape[1]), np.float32)
    kernels.matmul(a, b, out, None, None, None, False, False, False, threads)
    return out


def _eigen(gram: F32) -> tuple[F64, F64]:
    with threadpool_limits(1):
        variances, rotation = np.linalg.eigh(gram.astype(np.float64))
    return variances, rotation


def _orthonormal(matrix: F32, noise: float, threads: int) -> F32:
    """Return an orthonormal basis of the columns; directions without variance are dropped."""
    variances, rotation = _eigen(_gram(matrix, threads))
    some = variances > noise**2 * max(variances.max(initial=0.0), np.finfo(np.float32).tiny)
    return _times(matrix, np.ascontiguousarray(rotation[:, some] / np.sqrt(variances[some]), np.float32), threads)
