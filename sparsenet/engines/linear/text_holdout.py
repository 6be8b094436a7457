"""Choose the texts that are held out to measure a model and to calibrate its probabilities."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sparsenet.core.rows import Rows
from sparsenet.selection.holdout import Holdout


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
    enough, turns : int
        This many held-out texts suffice. With few texts, parts are held out in turn, at most `turns` times.
    max_texts, min_texts : int
        Bounds of the number of held-out texts.
    max_scores, score_bytes : int
        Scores of held-out texts, and the bytes of each: calibration holds several tables of them.
    """

    validation_fraction: float | None = None
    memory_limit: int | None = None
    max_measured: int = 1000
    max_pairs: int = 20_000_000
    enough: int = 800
    turns: int = 5
    max_texts: int = 5000
    min_texts: int = 10
    max_scores: int = 1 << 24
    score_bytes: int = 64

    def max_in_memory(self, n_labels: int) -> int:
        """Return the number of texts whose scores fit into memory."""
        limit = self.max_scores if self.memory_limit is None else self.memory_limit // self.score_bytes
        return max(min(limit, self.max_scores) // n_labels, self.min_texts)


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
        min_texts = options.min_texts if requested is None else 1
        return TextHoldout([holdout], for_good=True) if len(holdout) >= min_texts else None
    if requested is not None:
        return TextHoldout([Holdout.draw(n, min(requested, max_texts), seed)]) if requested else None
    if n < options.min_texts:
        return None
    n_held = min(max(min(n // 10, options.max_texts), min(options.enough, -(-n // options.turns))), max_texts)
    n_turns = min(math.ceil(options.enough / n_held), options.turns)
    return _in_turns(labels, max(n // n_held, options.turns), n_turns, seed)


def _in_turns(labels: Rows, n_parts: int, n_turns: int, seed: int) -> TextHoldout:
    """Split the texts into parts, stratified by label, and hold out the first `n_turns` of them in turn.

    Unstratified parts hold more of the labels that the other parts lack: a model of these would seem to choose such
    labels too seldom.
    """
    labelled = np.append(labels.indices, -1)[labels.indptr[:-1]]
    order = np.random.default_rng((seed, 2)).permutation(len(labels))
    part = np.empty(len(labels), np.int64)
    part[order[np.argsort(labelled[order], kind="stable")]] = np.arange(len(labels)) % n_parts
    return TextHoldout([Holdout(np.flatnonzero(part != turn), np.flatnonzero(part == turn)) for turn in range(n_turns)])


def _left_out(labels: Rows, n_held: int, seed: int) -> Holdout:
    """Draw texts that the model never learns from, none of them the only text of a label."""
    counts = np.bincount(labels.indices, minlength=labels.width)
    owners = np.repeat(np.arange(len(labels)), np.diff(labels.indptr))
    candidates = np.setdiff1d(np.arange(len(labels)), owners[counts[labels.indices] == 1])
    drawn = Holdout.draw(len(candidates), min(n_held, len(candidates)), seed)
    held = candidates[drawn.held]
    return Holdout(np.setdiff1d(np.arange(len(labels)), held), held)
