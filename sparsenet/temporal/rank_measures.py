"""Measure ranks of right answers among all known ones."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

#: The rank of an answer that the model could not give, since it had not seen it before: a miss at every k.
MISS = 0


def rank_measures(ranks: NDArray[Any]) -> dict[str, float]:
    """Return the mean reciprocal rank, and the fractions of ranks up to 1 and 10; a `MISS` counts as 0 in all.

    Examples
    --------
    >>> import numpy as np
    >>> rank_measures(np.array([1, 2, MISS, 40]))
    {'MRR': 0.38125, 'recall@1': 0.25, 'recall@10': 0.5}
    """
    found = ranks[ranks != MISS]
    n = max(len(ranks), 1)
    return {"MRR": float((1 / found).sum() / n)} | {f"recall@{k}": float((found <= k).sum() / n) for k in (1, 10)}
