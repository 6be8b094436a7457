"""Hash families: compute one code per table for each vector.

A family prepares label vectors and query vectors differently, to account for norm and bias, and hashes both with the
same functions. Codes are bit-identical on every machine: vectors are rounded to integers first, and everything after
that is exact arithmetic or comparison.
"""

from __future__ import annotations

import numpy as np

from sparsenet import kernels
from sparsenet.index.hashing.lsh_config import Family, LSHConfig
from sparsenet.index.hashing.sphere import LENGTH, TINY, LabelSphere
from sparsenet.kernels.types import F32, I32, U16, U64


class SimHash:
    """Signed random projections (Charikar 2002) of vectors completed to equal length.

    A bit is equal for two vectors with probability ``1 - angle / pi``. A label vector becomes ``[w, b, r]``, where r
    brings its length to `radius`. A query becomes ``[x, 1, 0]``. The cosine of the two is then the score, up to a
    factor of the query. Projections are near-normal integers: random signs would tie for sparse vectors.

    Limit: if a few labels are much longer than the rest, r dominates all other labels and makes them look alike.
    """

    def __init__(self, config: LSHConfig, width: int) -> None:
        shape = (config.n_tables * config.n_bits, width + 2)
        nibbles = _words(config.seed, shape[0] * shape[1])
        low, mask = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(4)
        pairs = (nibbles & low) + ((nibbles >> mask) & low)
        # The sum of 16 uniform integers below 16 has mean 120 and standard deviation 18.4.
        sums = pairs.view(np.uint8).reshape(*shape, 8).sum(axis=2, dtype=np.int32)
        self.functions: F32 = (sums - 120).astype(np.float32)
        self._n_tables = config.n_tables

    def label_vectors(self, sphere: LabelSphere, weight: F32, bias: F32) -> F32:
        """Prepare rows of the output layer: integers of length `LENGTH`, (n, h + 2)."""
        integers, squares = sphere.quantized(sphere.centered(weight, bias))
        lengths = np.sqrt(squares)
        integers = np.rint(integers * (LENGTH / np.maximum(lengths, LENGTH)).astype(np.float32)[:, None])
        completion = np.rint(np.sqrt(np.maximum(LENGTH**2 - squares, 0)))
        return np.column_stack((integers, completion.astype(np.float32)))

    def query_vectors(self, hidden: F32) -> F32:
        """Prepare points: integers of at most length `LENGTH`, (n, h + 2)."""
        out = np.zeros((len(hidden), hidden.shape[1] + 2), np.float32)
        out[:, :-2], out[:, -2] = hidden, 1
        peaks = np.abs(out).max(axis=1, keepdims=True)
        out *= np.float32(LENGTH / np.sqrt(out.shape[1])) / peaks
        return np.rint(out, out=out)

    def codes(self, vectors: F32, threads: int) -> U16:
        """Hash prepared vectors: (n_tables, n).

        The matrix product is exact in any order of summation, with or without fused operations. Partial sums are
        integers of at most ``length(vector) * length(projection)``, below 2**24 for widths up to `MAX_WIDTH`.
        """
        scores = np.empty((len(vectors), len(self.functions)), np.float32)
        kernels.matmul(vectors, self.functions, scores, None, None, None, False, True, False, threads)
        codes = np.empty((self._n_tables, len(vectors)), np.uint16)
        kernels.lsh_pack_signs(scores, codes, threads)
        return codes


class _Bins:
    """Codes from the largest of a few coordinates a bin."""

    functions: I32

    def codes(self, vectors: F32, threads: int) -> U16:
        """Hash prepared vectors: (n_tables, n)."""
        codes = np.empty((len(self.functions), len(vectors)), np.uint16)
        kernels.lsh_bin_codes(vectors, self.functions, codes, threads)
        return codes


class DWTA(_Bins):
    """Densified winner-take-all (Chen and Shrivastava 2018), aware of norm and bias.

    A bin compares a few random coordinates and returns the position of the largest. Zeros are skipped, and a bin with
    only zeros borrows from another. With two coordinates, two vectors agree if they order them alike.

    The order of coordinates ignores length and bias. So the last place of each bin is a threshold, which is zero in
    queries: the completion of the label vector to the radius, spread over its coordinates, ``sqrt((radius**2 - l**2) /
    h)``. A smaller l means fewer bins in which the vector beats the threshold; in the others no query matches it. Here
    l is ``max(|w| + b, 0)``, a bound on the label's score for a query of length 1.

    Limit: only the order of scores is approximated, and all negative weights look alike. DWTA finds more than SimHash
    for hidden vectors that are mostly positive and peaked, as after ReLU.
    """

    def __init__(self, config: LSHConfig, width: int) -> None:
        shape = (config.n_tables, config.n_bits // config.bits_per_bin, config.window - 1)
        self.functions: I32 = np.full((*shape[:2], config.window), width, np.int32)
        self.functions[..., :-1] = _permuted(config.seed, width, shape)

    def label_vectors(self, sphere: LabelSphere, weight: F32, bias: F32) -> F32:
        """Prepare rows of the output layer: (n, h + 1)."""
        centered = sphere.centered(weight, bias)
        squares = sphere.quantized(centered[:, :-1])[1]
        length = np.sqrt(squares) * (sphere.radius / LENGTH) + centered[:, -1]
        missing = np.maximum(sphere.radius**2 - np.maximum(length, 0) ** 2, 0)
        centered[:, -1] = np.sqrt(missing / max(weight.shape[1], 1))
        return centered

    def query_vectors(self, hidden: F32) -> F32:
        """Prepare points: (n, h + 1)."""
        return np.hstack((hidden, np.zeros((len(hidden), 1), np.float32)))


class MinHash(_Bins):
    """Densified one-permutation MinHash (Shrivastava 2017) of the set of a vector's large coordinates.

    A bin returns its first set member in the order of a random permutation: winner-take-all among zeros and ones. A
    label's set contains the coordinates above ``radius / sqrt(h)``, more of them for longer vectors. A query's set
    contains the coordinates above its root mean square.

    Label sets are padded to one size with elements that no query has (asymmetric minwise hashing, Shrivastava and Li
    2015). The chance of a match, ``o / (padded + |query| - o)``, then grows with the overlap o only. The padded size is
    ``h / 4 * (1 - b / radius)``: a larger bias makes it smaller and a match likelier.

    Limit: only one bit of each weight counts. MinHash is the weakest of the three on dense vectors and the natural
    choice for binary ones.
    """

    def __init__(self, config: LSHConfig, width: int) -> None:
        self._n_padding = -(-width // 2)
        shape = (config.n_tables, config.n_bits // config.bits_per_bin, config.window)
        self.functions: I32 = _permuted(config.seed, width + self._n_padding, shape)

    def label_vectors(self, sphere: LabelSphere, weight: F32, bias: F32) -> F32:
        """Prepare rows of the output layer: zeros and ones, (n, h + h / 2)."""
        centered = sphere.centered(weight, bias)
        present = centered[:, :-1] > np.float32(sphere.radius / np.sqrt(weight.shape[1]))
        padded = np.rint(self._n_padding / 2 * (1 - centered[:, -1:].astype(np.float64) / sphere.radius))
        missing = padded - present.sum(axis=1, keepdims=True)
        return np.hstack((present, np.arange(self._n_padding) < missing)).astype(np.float32)

    def query_vectors(self, hidden: F32) -> F32:
        """Prepare points: zeros and ones, (n, h + h / 2)."""
        peaks = np.maximum(np.abs(hidden).max(axis=1, initial=0, keepdims=True), TINY)
        squares = np.square(np.rint(hidden * (LENGTH / peaks)).astype(np.float64))
        present = (hidden > 0) & (squares > squares.mean(axis=1, keepdims=True))
        return np.hstack((present, np.zeros((len(hidden), self._n_padding), bool))).astype(np.float32)


#: Each prepares label vectors and query vectors differently, and hashes both with the same `functions`.
HashFamily = SimHash | DWTA | MinHash
HASH_FAMILIES: dict[Family, type[HashFamily]] = {"simhash": SimHash, "dwta": DWTA, "minhash": MinHash}


def _permuted(seed: int, n_coordinates: int, shape: tuple[int, ...]) -> I32:
    """Fill an array with successive random permutations of the coordinates."""
    size = int(np.prod(shape))
    n_permutations = -(-size // n_coordinates)
    keys = _words(seed, n_permutations * n_coordinates).reshape(n_permutations, n_coordinates)
    return np.argsort(keys, axis=1, kind="stable").astype(np.int32).ravel()[:size].reshape(shape)


def _words(seed: int, size: int) -> U64:
    """Return pseudo-random words (SplitMix64), which, unlike NumPy's generators, never change between versions."""
    start = np.uint64(seed * 0xD1342543DE82EF95 % 2**64)
    x = (np.arange(1, size + 1, dtype=np.uint64) + start) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
