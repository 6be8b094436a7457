"""Hold-outs: training points kept apart to decide on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def split(n_points: int, n_held: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the points to train on and those to measure on, both ascending."""
    order = np.random.default_rng((seed, 2)).permutation(n_points)
    return np.sort(order[n_held:]), np.sort(order[:n_held])
