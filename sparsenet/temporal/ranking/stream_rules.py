"""The settings of a stream that no parameter sets; the kernels read them from the arrays of the state."""

from __future__ import annotations

from dataclasses import astuple, dataclass, field

import numpy as np

from sparsenet.kernels.types import F64


@dataclass(frozen=True, kw_only=True)
class StreamRates:
    """Numbers that the kernels use, in the order of `StreamRates` in `csrc/temporal/stream.h`.

    Attributes
    ----------
    average_rate : float
        How far a running average goes to a new value: about ten values describe a user.
    keep_counts : float
        How much of the counts of successors remains at each further one: links may change.
    least_variance : float
        The least variance of a feature: a flag that is rarely set is multiplied by 32 at most.
    learning_rate : float
        The rate of Adagrad.
    negligible : float
        A candidate whose score has a smaller gradient is skipped, as most are: that saves a tenth of the time.
    """

    average_rate: float = 0.1
    keep_counts: float = 0.98
    least_variance: float = 1e-3
    learning_rate: float = 0.05
    negligible: float = 1e-4

    def as_array(self) -> F64:
        """Return the numbers as the kernels take them."""
        return np.array(astuple(self))


@dataclass(frozen=True, kw_only=True)
class StreamRules:
    """Sizes of the state and the numbers of the kernels.

    Attributes
    ----------
    half_lives : tuple of float
        Popularity decays to one half within these numbers of events.
    n_popular : int
        Most popular items that are candidates, for each half-life.
    n_successors : int
        Successors of an item, or of two items.
    n_pairs : int
        Pairs of items whose successors are counted; a pair may replace another one.
    n_units : int
        Hidden units of the ranker.
    rates : StreamRates
    """

    half_lives: tuple[float, ...] = (32.0, 256.0, 2048.0, 16384.0)
    n_popular: int = 8
    n_successors: int = 16
    n_pairs: int = 65536
    n_units: int = 32
    rates: StreamRates = field(default_factory=StreamRates)


RULES = StreamRules()
