"""Hash families: from vectors to one code for each table.

A family prepares label vectors and query vectors differently (that is where norm and bias enter) and hashes both
with the same functions. Codes are the same bit for bit on every machine: vectors are rounded to integers first, and
from there on only exact arithmetic and comparisons are used.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sparsenet import kernels
from sparsenet.lsh.config import LSHConfig
from sparsenet.lsh.frame import LENGTH, TINY, Frame

F32 = NDArray[np.float32]
I32 = NDArray[np.int32]
U16 = NDArray[np.uint16]
U64 = NDArray[np.uint64]


class HashFamily(Protocol):
    """What an index needs of a family."""

    functions: F32 | I32

    def label_vectors(self, frame: Frame, weight: F32, bias: F32) -> F32:
        """Prepare rows of the output layer: weight (n, h), bias (n,)."""

    def query_vectors(self, hidden: F32) -> F32:
        """Prepare points: hidden (n, h)."""

    def codes(self, vectors: F32, threads: int) -> U16:
        """Hash prepared vectors: (n_tables, n)."""


def make_family(config: LSHConfig, width: int) -> HashFamily:
    """Build the hash functions that `config` describes, for vectors of `width` units."""
    families = {"simhash": SimHash, "dwta": DWTA, "minhash": MinHash}
    family: HashFamily = families[config.family](config, width)
    return family


class SimHash:
    """Signed random projections (Charikar 2002) of vectors completed to equal length.

    A bit is equal for two vectors with probability ``1 - angle / pi``. A label vector becomes ``[w, b, r]`` with r
    such that all have length `radius`, a query ``[x, 1, 0]``: the cosine of the two is the score over a constant
    of the query. Projections are near-normal integers, so that this holds for vectors with few non-zero entries,
    too, where those of plain signs would tie.

    Limit: if few labels are much longer than the rest, r dominates the rest, which then looks alike.
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

    def label_vectors(self, frame: Frame, weight: F32, bias: F32) -> F32:
        """See `HashFamily`: integers of length `LENGTH`, (n, h + 2)."""
        integers, squares = frame.quantized(frame.centered(weight, bias))
        lengths = np.sqrt(squares)
        integers = np.rint(integers * (LENGTH / np.maximum(lengths, LENGTH)).astype(np.float32)[:, None])
        rest = np.rint(np.sqrt(np.maximum(LENGTH**2 - squares, 0)))
        return np.column_stack((integers, rest.astype(np.float32)))

    def query_vectors(self, hidden: F32) -> F32:
        """See `HashFamily`: integers of at most length `LENGTH`, (n, h + 2)."""
        out = np.zeros((len(hidden), hidden.shape[1] + 2), np.float32)
        out[:, :-2], out[:, -2] = hidden, 1
        peaks = np.abs(out).max(axis=1, keepdims=True)
        out *= np.float32(LENGTH / np.sqrt(out.shape[1])) / peaks
        return np.rint(out, out=out)

    def codes(self, vectors: F32, threads: int) -> U16:
        """See `HashFamily`.

        The matrix product is exact, whatever the order of its sums and with or without fused operations: partial
        sums are integers of at most ``length(vector) * length(projection)``, which is below 2**24 up to `MAX_WIDTH`.
        """
        scores = np.empty((len(vectors), len(self.functions)), np.float32)
        kernels.matmul(vectors, self.functions, scores, None, None, False, True, threads)
        codes = np.empty((self._n_tables, len(vectors)), np.uint16)
        kernels.lsh_pack_signs(scores, codes, threads)
        return codes


class DWTA:
    """Densified winner-take-all (Chen and Shrivastava 2018), aware of norm and bias.

    A bin looks at a few random coordinates and yields the position of the largest; zeros do not take part, and a
    bin that sees only zeros borrows from another. With two coordinates, two vectors agree if they order them alike.

    The order of coordinates ignores length. So the last place of each bin is a threshold that no query has: what
    completes a label's vector to the radius, spread over its coordinates, ``sqrt((radius**2 - |v|**2) / h)``. The
    shorter a vector, the rarer the bins in which it beats the threshold; where it does not, no query meets it. The
    bias, as ``b / sqrt(m)``, sits at m coordinates at which every query has ``1 / sqrt(m)``.

    Limit: it compares orders, so the score is approached only in rank, and negative weights count only by not being
    large. For hidden vectors that are mostly positive and peaked, as after ReLU, it finds more than SimHash.
    """

    def __init__(self, config: LSHConfig, width: int) -> None:
        self._n_bias = _bias_copies(width)
        n_coordinates = width + self._n_bias
        per_table = config.n_bits // config.bits_per_bin
        shape = (config.n_tables, per_table, config.window - 1)
        self.functions: I32 = np.full((*shape[:2], config.window), n_coordinates, np.int32)
        self.functions[..., :-1] = _permuted(config.seed, n_coordinates, shape)

    def label_vectors(self, frame: Frame, weight: F32, bias: F32) -> F32:
        """See `HashFamily`: (n, h + m + 1)."""
        centered = frame.centered(weight, bias)
        squares = frame.quantized(centered)[1] * (frame.radius / LENGTH) ** 2
        threshold = np.sqrt(np.maximum(frame.radius**2 - squares, 0) / centered.shape[1])
        shared = centered[:, -1:] / np.float32(np.sqrt(self._n_bias))
        bias_copies = np.repeat(shared, self._n_bias, axis=1)
        return np.hstack((centered[:, :-1], bias_copies, threshold[:, None].astype(np.float32)))

    def query_vectors(self, hidden: F32) -> F32:
        """See `HashFamily`: (n, h + m + 1)."""
        out = np.zeros((len(hidden), hidden.shape[1] + self._n_bias + 1), np.float32)
        out[:, : hidden.shape[1]] = hidden
        out[:, hidden.shape[1] : -1] = np.float32(1 / np.sqrt(self._n_bias))
        return out

    def codes(self, vectors: F32, threads: int) -> U16:
        """See `HashFamily`."""
        return _bin_codes(vectors, self.functions, threads)


class MinHash:
    """Densified one-permutation MinHash (Shrivastava 2017) of the set of a vector's large coordinates.

    A bin yields the first member it sees, in the order of a random permutation: winner-take-all among zeros and ones.
    A label's set holds the coordinates above ``radius / sqrt(h)``, so that a longer vector has more; a query's, those
    above the root mean square of its own. Label sets are padded with elements that no query has (asymmetric
    minwise hashing, Shrivastava and Li 2015): the chance of agreeing then grows with the size of the overlap alone,
    ``o / (padded + |query| - o)``. For the bias, every query has m more elements and a label
    ``m * b / radius`` of them, rounded, within 0 and m.

    Limit: one bit of each weight is all that counts; the weakest of the three on dense vectors, the natural one for
    binary ones.
    """

    def __init__(self, config: LSHConfig, width: int) -> None:
        self._n_bias = _bias_copies(width)
        self._n_padding = -(-width // 4)
        shape = (config.n_tables, config.n_bits // config.bits_per_bin, config.window)
        self.functions: I32 = _permuted(config.seed, width + self._n_bias + self._n_padding, shape)

    def label_vectors(self, frame: Frame, weight: F32, bias: F32) -> F32:
        """See `HashFamily`: zeros and ones, (n, h + m + padding)."""
        centered = frame.centered(weight, bias)
        present = centered[:, :-1] > np.float32(frame.radius / np.sqrt(centered.shape[1]))
        share = np.rint(centered[:, -1:] * np.float32(self._n_bias / frame.radius))
        favoured = np.arange(self._n_bias) < share
        missing = self._n_padding - present.sum(axis=1, keepdims=True) - favoured.sum(axis=1, keepdims=True)
        return np.hstack((present, favoured, np.arange(self._n_padding) < missing)).astype(np.float32)

    def query_vectors(self, hidden: F32) -> F32:
        """See `HashFamily`: zeros and ones, (n, h + m + padding)."""
        peaks = np.maximum(np.abs(hidden).max(axis=1, initial=0, keepdims=True), TINY)
        squares = np.square(np.rint(hidden * (LENGTH / peaks)).astype(np.float64))
        mean = squares.sum(axis=1, keepdims=True) / max(hidden.shape[1], 1)
        present = (hidden > 0) & (squares > mean)
        bias = np.ones((len(hidden), self._n_bias), bool)
        return np.hstack((present, bias, np.zeros((len(hidden), self._n_padding), bool))).astype(np.float32)

    def codes(self, vectors: F32, threads: int) -> U16:
        """See `HashFamily`."""
        return _bin_codes(vectors, self.functions, threads)


def _bin_codes(vectors: F32, bins: I32, threads: int) -> U16:
    codes = np.empty((len(bins), len(vectors)), np.uint16)
    kernels.lsh_bin_codes(vectors, bins, codes, threads)
    return codes


def _bias_copies(width: int) -> int:
    return -(-width // 16)


def _permuted(seed: int, n_coordinates: int, shape: tuple[int, ...]) -> I32:
    """Fill `shape` from one random permutation of the coordinates after another."""
    size = int(np.prod(shape))
    n_permutations = -(-size // n_coordinates)
    keys = _words(seed, n_permutations * n_coordinates).reshape(n_permutations, n_coordinates)
    return np.argsort(keys, axis=1, kind="stable").astype(np.int32).ravel()[:size].reshape(shape)


def _words(seed: int, size: int) -> U64:
    """Return pseudo-random words (SplitMix64): unlike NumPy's generators, the same in every version for ever."""
    x = (np.arange(1, size + 1, dtype=np.uint64) + np.uint64(seed) * np.uint64(0xD1342543DE82EF95)) * np.uint64(
        0x9E3779B97F4A7C15
    )
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
