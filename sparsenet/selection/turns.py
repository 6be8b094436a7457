"""Hold out parts of the points in turn: the size of the hold-out of models that are trained again afterwards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsenet.core.rows import Rows
from sparsenet.selection.holdout import Holdout


@dataclass(frozen=True, kw_only=True)
class Turns:
    """How many points are held out to measure models of all other points.

    A tenth is held out once. If that is fewer than `enough`, `enough` points are. If these are more than one in
    `most_turns`, such parts are held out in turn until there are `enough`, or no more points.

    Attributes
    ----------
    enough : int
        This many points suffice.
    most_turns : int
        Most parts to hold out in turn.
    most : int
        Most points to hold out.
    fewest : int
        With fewer points nothing is held out.

    Examples
    --------
    >>> [Turns().sizes(n) for n in (100, 1500, 6000, 20_000)]
    [(20, 5), (300, 3), (800, 1), (2000, 1)]
    """

    enough: int = 800
    most_turns: int = 5
    most: int = 5000
    fewest: int = 10

    def sizes(self, n: int, most: int | None = None) -> tuple[int, int]:
        """Return the number of points of a turn, and of turns; `most` is a further bound of a turn."""
        n_held = max(min(n // 10, self.most), min(self.enough, -(-n // self.most_turns)))
        n_held = n_held if most is None else min(n_held, most)
        return n_held, min(-(-self.enough // n_held), self.most_turns)

    def draw(self, labels: Rows, seed: int, most: int | None = None) -> list[Holdout]:
        """Split the points into parts, stratified by label, and hold out the first ones in turn; none of few points.

        Unstratified parts hold more of the labels that the other parts lack: a model of these would seem to choose
        such labels too seldom.
        """
        n = len(labels)
        if n < self.fewest:
            return []
        n_held, n_turns = self.sizes(n, most)
        n_parts = max(n // n_held, self.most_turns)
        labelled = np.append(labels.indices, -1)[labels.indptr[:-1]]
        order = np.random.default_rng((seed, 2)).permutation(n)
        part = np.empty(n, np.int64)
        part[order[np.argsort(labelled[order], kind="stable")]] = np.arange(n) % n_parts
        return [Holdout(np.flatnonzero(part != turn), np.flatnonzero(part == turn)) for turn in range(n_turns)]
