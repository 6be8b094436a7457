"""Hash families: from vectors to one code for each table.

A family prepares label vectors and query vectors differently (that is where norm and bias enter) and hashes both
with the same functions. Codes are the same bit for bit on every machine: vectors are rounded to integers first, and
from there on only exact arithmetic and comparisons are used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from sparsenet import kernels
from sparsenet.index.hashing.frame import LENGTH, TINY, Frame
from sparsenet.index.hashing.lsh_config import LSHConfig
from sparsenet.kernels.types import F32, I32, U16, U64


class HashFamily(Protocol):
    """What an index needs of a family."""

    @property
    def functions(self) -> F32 | I32:
        """The array that the hash functions are made of."""

    def label_vectors(self, frame: Frame, weight: F32, bias: F32) -> F32:
        """Prepare rows of the output layer: weight (n, h), bias (n,)."""

    def query_vectors(self, hidden: F32) -> F32:
        """Prepare points: hidden (n, h)."""

    def codes(self, vectors: F32, threads: int) -> U16:
        """Hash prepared vectors: (n_tables, n)."""


def make_family(config: LSHConfig, width: int) -> HashFamily:
    """Build the hash functions that `config` describes, for vectors of `width` units."""
    families: dict[str, Callable[[LSHConfig, int], HashFamily]]
    families = {"simhash": SimHash, "dwta": DWTA, "minhash": MinHash}
    return families[config.family](config, width)


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
        kernels.matmul(vectors, self.functions, scores, None, None, None, False, True, False, threads)
        codes = np.empty((self._n_tables, len(vectors)), np.uint16)
        kernels.lsh_pack_signs(scores, codes, threads)
        return codes


class DWTA:
    """Densified winner-take-all (Chen and Shrivastava 2018), aware of norm and bias.

    A bin looks at a few random coordinates and yields the position of the largest; zeros do not take part, and a
    bin that sees only zeros borrows from another. With two coordinates, two vectors agree if they order them alike.

    The order of coordinates ignores length and bias. So the last place of each bin is a threshold that no query has:
    what completes a label's vector to the radius, spread over its coordinates, ``sqrt((radius**2 - l**2) / h)``. The
    smaller l, the rarer the bins in which the vector beats the threshold; where it does not, no query meets it. Here
    l is ``|w| + b``, the greatest score that the label has with a query of length 1, if that is positive.

    Limit: it compares orders, so the score is approached only in rank, and negative weights count only by not being
    large. For hidden vectors that are mostly positive and peaked, as after ReLU, it finds more than SimHash.
    """

    def __init__(self, config: LSHConfig, width: int) -> None:
        shape = (config.n_tables, config.n_bits // config.bits_per_bin, config.window - 1)
        self.functions: I32 = np.full((*shape[:2], config.window), width, np.int32)
        self.functions[..., :-1] = _permuted(config.seed, width, shape)

    def label_vectors(self, frame: Frame, weight: F32, bias: F32) -> F32:
        """See `HashFamily`: (n, h + 1)."""
        centered = frame.centered(weight, bias)
        squares = frame.quantized(centered[:, :-1])[1]
        length = np.sqrt(squares) * (frame.radius / LENGTH) + centered[:, -1]
        missing = np.maximum(frame.radius**2 - np.maximum(length, 0) ** 2, 0)
        centered[:, -1] = np.sqrt(missing / max(weight.shape[1], 1))
        return centered

    def query_vectors(self, hidden: F32) -> F32:
        """See `HashFamily`: (n, h + 1)."""
        return np.hstack((hidden, np.zeros((len(hidden), 1), np.float32)))

    def codes(self, vectors: F32, threads: int) -> U16:
        """See `HashFamily`."""
        return _bin_codes(vectors, self.functions, threads)


class MinHash:
    """Densified one-permutation MinHash (Shrivastava 2017) of the set of a vector's large coordinates.

    A bin yields the first member it sees, in the order of a random permutation: winner-take-all among zeros and ones.
    A label's set holds the coordinates above ``radius / sqrt(h)``, so that a longer vector has more; a query's, those
    above the root mean square of its own. Label sets are padded to one size with elements that no query has
    (asymmetric minwise hashing, Shrivastava and Li 2015): the chance of agreeing then grows with the size of the
    overlap o alone, ``o / (padded + |query| - o)``. That size is ``h / 4 * (1 - b / radius)``: a bias makes it smaller
    and agreement likelier.

    Limit: one bit of each weight is all that counts; the weakest of the three on dense vectors, the natural one for
    binary ones.
    """

    def __init__(self, config: LSHConfig, width: int) -> None:
        self._n_padding = -(-width // 2)
        shape = (config.n_tables, config.n_bits // config.bits_per_bin, config.window)
        self.functions: I32 = _permuted(config.seed, width + self._n_padding, shape)

    def label_vectors(self, frame: Frame, weight: F32, bias: F32) -> F32:
        """See `HashFamily`: zeros and ones, (n, h + h / 2)."""
        centered = frame.centered(weight, bias)
        present = centered[:, :-1] > np.float32(frame.radius / np.sqrt(weight.shape[1]))
        padded = np.rint(self._n_padding / 2 * (1 - centered[:, -1:].astype(np.float64) / frame.radius))
        missing = padded - present.sum(axis=1, keepdims=True)
        return np.hstack((present, np.arange(self._n_padding) < missing)).astype(np.float32)

    def query_vectors(self, hidden: F32) -> F32:
        """See `HashFamily`: zeros and ones, (n, h + h / 2)."""
        peaks = np.maximum(np.abs(hidden).max(axis=1, initial=0, keepdims=True), TINY)
        squares = np.square(np.rint(hidden * (LENGTH / peaks)).astype(np.float64))
        present = (hidden > 0) & (squares > squares.mean(axis=1, keepdims=True))
        return np.hstack((present, np.zeros((len(hidden), self._n_padding), bool))).astype(np.float32)

    def codes(self, vectors: F32, threads: int) -> U16:
        """See `HashFamily`."""
        return _bin_codes(vectors, self.functions, threads)


def _bin_codes(vectors: F32, bins: I32, threads: int) -> U16:
    codes = np.empty((len(bins), len(vectors)), np.uint16)
    kernels.lsh_bin_codes(vectors, bins, codes, threads)
    return codes


def _permuted(seed: int, n_coordinates: int, shape: tuple[int, ...]) -> I32:
    """Fill `shape` from one random permutation of the coordinates after another."""
    size = int(np.prod(shape))
    n_permutations = -(-size // n_coordinates)
    keys = _words(seed, n_permutations * n_coordinates).reshape(n_permutations, n_coordinates)
    return np.argsort(keys, axis=1, kind="stable").astype(np.int32).ravel()[:size].reshape(shape)


def _words(seed: int, size: int) -> U64:
    """Return pseudo-random words (SplitMix64): unlike NumPy's generators, the same in every version for ever."""
    start = np.uint64(seed * 0xD1342543DE82EF95 % 2**64)
    x = (np.arange(1, size + 1, dtype=np.uint64) + start) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
