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
    gap_rate, user_rate, item_rate : float
        How far an average goes to a new value: the gaps of a user, its repeats and new items, the repeats of an item.
    keep_first, keep_second : float
        How much of the counts of an item's successors remains at each successor, and of two items' successors.
    count_scale, share_scale : float
        Counts and shares of successors are multiplied by these before the logarithm.
    lowest_level : float
        A decayed count of 2 to the power of minus this, or less, is level 0.
    prior, least_variance : float
        Candidates of variance 1 that each feature has seen before the first, and the least variance to divide by.
    learning_rate, first_square, keep_squares : float
        Adagrad: the rate, the first sum of squares, and how much of it remains at each event.
    negligible : float
        Gradients of a score below this are skipped.
    """

    gap_rate: float = 0.2
    user_rate: float = 0.1
    item_rate: float = 0.02
    keep_first: float = 0.98
    keep_second: float = 0.9
    count_scale: float = 16.0
    share_scale: float = 32.0
    lowest_level: float = 3.0
    prior: float = 100.0
    least_variance: float = 1e-3
    learning_rate: float = 0.05
    first_square: float = 0.01
    keep_squares: float = 0.9999
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
