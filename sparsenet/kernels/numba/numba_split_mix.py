"""SplitMix64 random numbers in Numba, the same as in ``csrc/core/split_mix.h``."""

from __future__ import annotations

import numpy as np

from sparsenet.kernels.numba.numba_common import jit

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@jit
def scrambled(z: np.uint64) -> np.uint64:
    """Return the random number of a state; the next state is `z` + GOLDEN."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@jit
def split_mix(n: np.uint64) -> np.uint64:
    """Return the n-th random number of the sequence that starts at the state GOLDEN."""
    return scrambled(n * GOLDEN)
