"""Draw the hold-out: training points kept apart, on which decisions are measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sparsenet.kernels.types import I64

Strategy = Literal["random", "time", "group"]


@dataclass(frozen=True, eq=False)
class Holdout:
    """Numbers of the points to train on, and of the points held out; both ascend.

    Examples
    --------
    >>> Holdout.draw(10, 3, seed=0).held
    array([1, 2, 8])
    >>> Holdout.draw(10, 3, seed=0, strategy="time").held
    array([7, 8, 9])
    """

    kept: I64
    held: I64

    @classmethod
    def draw(cls, n: int, n_held: int, seed: int, strategy: Strategy = "random", by: Any = None) -> Holdout:
        """Hold out `n_held` of n points.

        Parameters
        ----------
        strategy : {"random", "time", "group"}
            ``"time"`` holds out the last points by the times `by`, or by their order. ``"group"`` holds out whole
            groups, named by `by`, until there are at least `n_held` points.
        """
        if not 0 <= n_held <= n:
            raise ValueError(f"n_held must be from 0 to the {n} points, got {n_held}")
        if strategy == "random":
            order = np.random.default_rng((seed, 2)).permutation(n)
            return cls(np.sort(order[n_held:]), np.sort(order[:n_held]))
        if strategy == "time":
            order = np.arange(n) if by is None else np.argsort(np.asarray(by), kind="stable")
            return cls(np.sort(order[: n - n_held]), np.sort(order[n - n_held :]))
        if strategy == "group":
            _, groups, counts = np.unique(np.asarray(by), return_inverse=True, return_counts=True)
            order = np.random.default_rng((seed, 2)).permutation(len(counts))
            n_groups = int(np.searchsorted(np.cumsum(counts[order]), n_held)) + 1 if n_held else 0
            is_held = np.isin(groups, order[:n_groups])
            return cls(np.flatnonzero(~is_held), np.flatnonzero(is_held))
        raise ValueError(f"strategy must be 'random', 'time' or 'group', got {strategy!r}")

    def __len__(self) -> int:
        return len(self.held)
