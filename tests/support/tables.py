"""Tables for tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsenet.data.frames import Frame, read_frame


def table(**columns: Any) -> Frame:
    """Make a frame of columns."""
    return read_frame(columns)


def mixed_table(n: int = 200, seed: int = 0) -> Frame:
    """Make a table with a column of each type."""
    rng = np.random.default_rng(seed)
    words = np.array(["red", "green", "blue", "long", "short", "small", "large", "old", "new", "odd"], object)

    def some(low: int, high: int) -> list[str]:
        return list(rng.choice(words, rng.integers(low, high), replace=False))

    seconds = rng.integers(0, 10**8, n).astype("timedelta64[s]")
    return read_frame(
        {
            "price": np.where(rng.random(n) < 0.1, np.nan, np.exp(2 * rng.normal(size=n))),
            "stars": rng.integers(1, 6, n),
            "weight": [f"{x:.3f}" for x in rng.normal(size=n)],
            "carrier": [["AA", "BB", "CC", None][i] for i in rng.integers(0, 4, n)],
            "is_new": rng.random(n) < 0.3,
            "when": np.datetime64("2020-01-01", "us") + seconds,
            "day": [f"{d}/{m}/2021" for d, m in zip(rng.integers(1, 29, n), rng.integers(1, 13, n), strict=True)],
            "genres": ["|".join(sorted(some(1, 4))) for _ in range(n)],
            "viewed": [rng.integers(0, 30, rng.integers(0, 5)).tolist() for _ in range(n)],
            "title": [" ".join(some(4, 7)) for _ in range(n)],
            "same": ["x"] * n,
        }
    )
