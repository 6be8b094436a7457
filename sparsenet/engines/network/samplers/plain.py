"""Samplers of negatives that ignore the batch: random, by frequency, or all labels."""

from __future__ import annotations

import numpy as np

from sparsenet.engines.network.samplers.sampler import Sampler, uniform
from sparsenet.kernels.types import F32, F64, I32, I64


class RandomSampler(Sampler):
    """Draw every label with the same probability.

    Examples
    --------
    >>> sampler = RandomSampler()
    >>> sampler.prepare(1000, np.ones(1000, np.int64))
    >>> sampler.sample(np.empty((1, 8), np.float32), 5, np.random.default_rng(0)).size
    5
    """

    def sample(self, hidden: F32, n_negatives: int, rng: np.random.Generator) -> I32:
        """See `Sampler`."""
        return uniform(self.n_labels, n_negatives, rng)

    def __repr__(self) -> str:
        """Name the sampler and its settings; a checkpoint compares them on resume."""
        return f"{type(self).__name__}()"

    def expected(self, ids: I32, n_negatives: int) -> F32:
        """See `Sampler`."""
        return np.full(len(ids), min(n_negatives / max(self.n_labels, 1), 1), np.float32)


class AllSampler(RandomSampler):
    """Use all labels as negatives, without sampling.

    Examples
    --------
    >>> sampler = AllSampler()
    >>> sampler.prepare(3, np.ones(3, np.int64))
    >>> sampler.sample(np.empty((1, 8), np.float32), 1, np.random.default_rng(0)).tolist()
    [0, 1, 2]
    """

    def sample(self, hidden: F32, n_negatives: int, rng: np.random.Generator) -> I32:
        """See `Sampler`; ignores `n_negatives`."""
        return np.arange(self.n_labels, dtype=np.int32)

    def expected(self, ids: I32, n_negatives: int) -> F32:
        """See `Sampler`."""
        return np.ones(len(ids), np.float32)


class FrequencySampler(Sampler):
    """Draw labels without replacement in proportion to ``count ** power``.

    Labels that never occur get a count of 1, so that every label can be drawn.

    Parameters
    ----------
    power : float
        1 draws labels by their frequency, 0 uniformly; values in between favour rare labels.

    Examples
    --------
    >>> sampler = FrequencySampler(power=0.5)
    >>> sampler.prepare(3, np.array([100, 25, 0]))
    >>> [round(float(p), 1) for p in sampler.expected(np.arange(3), n_negatives=1)]
    [0.6, 0.3, 0.1]
    """

    def __init__(self, power: float = 0.5) -> None:
        if not 0 <= power <= 4:
            raise ValueError(f"power must be from 0 to 4, got {power!r}")
        self.power = power

    def __repr__(self) -> str:
        """Name the sampler and its settings."""
        return f"FrequencySampler(power={self.power})"

    def prepare(self, n_labels: int, label_counts: I64) -> None:
        """See `Sampler`."""
        self.n_labels = n_labels
        weights = np.maximum(label_counts, 1).astype(np.float64) ** self.power
        self._shares: F64 = weights / max(weights.sum(), 1)
        self._cumulative: F64 = np.cumsum(self._shares)
        self._arrival_times: dict[int, float] = {}

    def sample(self, hidden: F32, n_negatives: int, rng: np.random.Generator) -> I32:
        """See `Sampler`."""
        if n_negatives >= self.n_labels:
            return np.arange(self.n_labels, dtype=np.int32)
        chosen = np.empty(0, np.int64)
        # Sample without replacement by rejecting repeats. If most draws are repeats (few labels, or a few dominate),
        # draw the rest by a race of exponential clocks.
        for _ in range(8):
            missing = n_negatives - chosen.size
            if missing == 0 or 4 * n_negatives > self.n_labels:
                break
            points = rng.random(missing + missing // 4 + 1) * self._cumulative[-1]
            drawn = np.concatenate((chosen, np.searchsorted(self._cumulative, points, side="right")))
            first = np.sort(np.unique(drawn, return_index=True)[1])
            chosen = drawn[first][:n_negatives]
        if chosen.size < n_negatives:
            chosen = np.concatenate((chosen, self._race(chosen, n_negatives - chosen.size, rng)))
        return np.sort(chosen).astype(np.int32)

    def _race(self, exclude: I64, n: int, rng: np.random.Generator) -> I64:
        # With an exponential clock per label, the first n arrivals are a weighted sample without replacement.
        arrivals = rng.exponential(size=self.n_labels) / self._shares
        arrivals[exclude] = np.inf
        return np.argpartition(arrivals, n - 1)[:n]

    def expected(self, ids: I32, n_negatives: int) -> F32:
        """See `Sampler`.

        The sample is the first n arrivals of exponential clocks. The time of the n-th arrival is approximated by the
        time at which n arrivals are expected. The error is of order ``1 / n``, unless n is close to the number of
        labels.
        """
        if n_negatives >= self.n_labels:
            return np.ones(len(ids), np.float32)
        return -np.expm1(-self._shares[ids] * self._time_of_arrivals(n_negatives)).astype(np.float32)

    def _time_of_arrivals(self, n_negatives: int) -> float:
        if n_negatives not in self._arrival_times:
            # Newton's method on a concave increasing function: from below it increases to the root.
            time = float(n_negatives)
            for _ in range(100):
                absent = np.exp(-self._shares * time)
                step = (n_negatives - float((1 - absent).sum())) / float((self._shares * absent).sum())
                time += step
                if step <= 1e-9 * time:
                    break
            self._arrival_times[n_negatives] = time
        return self._arrival_times[n_negatives]

    def memory(self, n_labels: int, width: int) -> int:
        """See `Sampler`."""
        return 16 * n_labels
