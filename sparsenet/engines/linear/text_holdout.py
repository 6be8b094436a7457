"""Choose the texts that are held out to measure a model and to calibrate its probabilities."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sparsenet.core.rows import Rows
from sparsenet.selection.holdout import Holdout
from sparsenet.selection.turns import Turns


@dataclass(frozen=True, kw_only=True)
class HoldoutOptions:
    """How many texts are held out.

    Attributes
    ----------
    validation_fraction : float or None
        Fraction of the texts; None chooses it.
    memory_limit : int or None
        Bytes that the scores of held-out texts may take.
    max_measured, max_pairs : int
        With more labels, and more pairs of a text and a label, a second training would take minutes.
    turns : Turns
        The number of held-out texts, and how often the model is trained without some.
    max_scores, score_bytes : int
        Scores of held-out texts, and the bytes of each: calibration holds several tables of them.
    """

    validation_fraction: float | None = None
    memory_limit: int | None = None
    max_measured: int = 1000
    max_pairs: int = 20_000_000
    turns: Turns = field(default_factory=Turns)
    max_scores: int = 1 << 24
    score_bytes: int = 64

    def max_in_memory(self, n_labels: int) -> int:
        """Return the number of texts whose scores fit into memory."""
        limit = self.max_scores if self.memory_limit is None else self.memory_limit // self.score_bytes
        return max(min(limit, self.max_scores) // n_labels, self.turns.fewest)


@dataclass(frozen=True)
class TextHoldout:
    """Texts to train and to measure on, once or in turns; with `for_good`, the model never learns from the latter."""

    turns: list[Holdout]
    for_good: bool = False


def draw_holdout(
    labels: Rows, options: HoldoutOptions, seed: int, *, for_good: bool = False, n_scored: int | None = None
) -> TextHoldout | None:
    """Draw the texts to measure on; None if there are too few to measure anything, or if none are wanted.

    With `for_good`, or where a second training would take minutes, the model is not trained again on all texts.
    `n_scored` is the number of labels that are scored for each text, all by default.
    """
    n, n_labels, max_texts = len(labels), labels.width, options.max_in_memory(n_scored or labels.width)
    fraction = options.validation_fraction
    requested = None if fraction is None else min(round(fraction * n), n - 1)
    takes_minutes = n_labels > options.max_measured and n * n_labels > options.max_pairs
    for_good = for_good or (requested is None and takes_minutes)
    if for_good:
        n_held = requested if requested is not None else 0 if n < 200 else min(n // 20, 2000, max_texts)
        holdout = _left_out(labels, n_held, seed)
        min_texts = options.turns.fewest if requested is None else 1
        return TextHoldout([holdout], for_good=True) if len(holdout) >= min_texts else None
    if requested is not None:
        return TextHoldout([Holdout.draw(n, min(requested, max_texts), seed)]) if requested else None
    turns = options.turns.draw(labels, seed, max_texts)
    return TextHoldout(turns) if turns else None


def _left_out(labels: Rows, n_held: int, seed: int) -> Holdout:
    """Draw texts that the model never learns from, none of them the only text of a label."""
    counts = np.bincount(labels.indices, minlength=labels.width)
    owners = np.repeat(np.arange(len(labels)), np.diff(labels.indptr))
    candidates = np.setdiff1d(np.arange(len(labels)), owners[counts[labels.indices] == 1])
    drawn = Holdout.draw(len(candidates), min(n_held, len(candidates)), seed)
    held = candidates[drawn.held]
    return Holdout(np.setdiff1d(np.arange(len(labels)), held), held)
