"""Texts with enough labels for a network."""

from __future__ import annotations

import numpy as np

FILLER = [f"filler{i}" for i in range(40)]


def planted(n: int, n_labels: int = 60, seed: int = 0, first: int = 0) -> tuple[list[str], list[str]]:
    """Draw texts, each with two of its label's three words."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(first, first + n_labels, n)
    texts = [
        " ".join(rng.permutation([*rng.choice([f"w{i}a", f"w{i}b", f"w{i}c"], 2), *rng.choice(FILLER, 6)]))
        for i in numbers
    ]
    return texts, [f"label{i:03d}" for i in numbers]
