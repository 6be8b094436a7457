"""Choose the texts that are held out to measure a model and to calibrate its probabilities."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sparsenet.core.rows import Rows
from sparsenet.kernels.types import I64
from sparsenet.selection.holdout import split


@dataclass(frozen=True, kw_only=True)
class HoldoutOptions:
    """How many texts are held out.

    Attributes
    ----------
    validation_fraction : float or None
        Share of the texts; None chooses it.
    memory_limit : int or None
        Bytes that the scores of held-out texts may take.
    most_measured, most_pairs : int
        With more labels, and more pairs of a text and a label, a second training would take minutes.
    enough, turns : int
        This many held-out texts suffice. With few texts, parts are held out in turn, at most `turns` times.
    enough_others, most_further_turns : int
        Held-out texts wanted of labels other than the most frequent one. Further turns are taken for them with at most
        `most_further_turns` texts.
    most, fewest : int
        Bounds of the number of held-out texts.
    fewest_of_label, most_of_rare : int
        Texts left out for good leave their labels at least `fewest_of_label` texts. If all labels are rarer, they leave
        one, and at most `most_of_rare` texts are left out.
    most_scores, score_bytes : int
        Scores of held-out texts, and the bytes of each: calibration holds several tables of them.
    """

    validation_fraction: float | None = None
    memory_limit: int | None = None
    most_measured: int = 1000
    most_pairs: int = 20_000_000
    enough: int = 800
    turns: int = 5
    enough_others: int = 200
    most_further_turns: int = 40_000
    most: int = 5000
    fewest: int = 10
    fewest_of_label: int = 4
    most_of_rare: int = 200
    most_scores: int = 1 << 24
    score_bytes: int = 64

    def can_train_twice(self, n_texts: int, n_labels: int) -> bool:
        """Tell whether to train one model to measure, and another one on all texts."""
        return n_labels <= self.most_measured or n_texts * n_labels <= self.most_pairs

    def n_left_out(self, n_texts: int) -> int:
        """Return the number of texts to leave out for good where a second training takes too long."""
        requested = self.n_requested(n_texts)
        return requested if requested is not None else 0 if n_texts < 200 else min(n_texts // 20, 2000)

    def n_requested(self, n_texts: int) -> int | None:
        """Return the number of held-out texts that the user asks for; None if that is left to the classifier."""
        if self.validation_fraction is None:
            return None
        return min(round(self.validation_fraction * n_texts), n_texts - 1)

    def most_in_memory(self, n_labels: int) -> int:
        """Return the number of texts whose scores fit into memory."""
        limit = self.most_scores if self.memory_limit is None else self.memory_limit // self.score_bytes
        return max(min(limit, self.most_scores) // n_labels, self.fewest)


@dataclass(frozen=True)
class TextHoldout:
    """Texts to train and to measure on, once or in turns; with `for_good`, the model never learns from the latter."""

    turns: list[tuple[I64, I64]]
    for_good: bool = False


def draw_holdout(labels: Rows, options: HoldoutOptions, seed: int) -> TextHoldout | None:
    """Draw the texts to measure on; None if there are too few to measure anything, or if none are wanted."""
    n, n_labels = len(labels), labels.width
    requested = options.n_requested(n)
    if requested is not None:
        n_held = min(requested, options.most_in_memory(n_labels))
        return TextHoldout([split(n, n_held, seed)]) if requested > 0 else None
    if n < options.fewest:
        return None
    if not options.can_train_twice(n, n_labels):
        return _left_out(labels, options, seed)
    if n < max(options.enough, 4 * n_labels):
        return _in_turns(labels, options.turns, options.turns, seed)
    wanted = _n_wanted(labels, options)
    share = min(
        max(min(n // 10, options.most), min(wanted, n // options.turns)),
        options.most_in_memory(n_labels),
    )
    n_turns = max(
        math.ceil(options.enough / share),
        min(math.ceil(wanted / share), options.most_further_turns // n),
    )
    return _in_turns(labels, n // share, min(n_turns, options.turns), seed)


def _in_turns(labels: Rows, n_parts: int, n_turns: int, seed: int) -> TextHoldout:
    """Split the texts into parts, stratified by label, and hold out the first `n_turns` of them in turn.

    Unstratified parts hold more of the labels that the other parts lack: a model of these would seem to choose such
    labels too seldom.
    """
    labelled = np.append(labels.indices, -1)[labels.indptr[:-1]]
    order = np.random.default_rng((seed, 2)).permutation(len(labels))
    part = np.empty(len(labels), np.int64)
    part[order[np.argsort(labelled[order], kind="stable")]] = np.arange(len(labels)) % n_parts
    return TextHoldout([(np.flatnonzero(part != turn), np.flatnonzero(part == turn)) for turn in range(n_turns)])


def _n_wanted(labels: Rows, options: HoldoutOptions) -> int:
    """Return the number of held-out texts with enough labels other than the most frequent one."""
    n_labels = len(labels.indices)
    others = n_labels - int(np.bincount(labels.indices, minlength=1).max())
    if others == 0:
        return options.enough
    return max(options.enough, math.ceil(options.enough_others * len(labels) / others))


def _left_out(labels: Rows, options: HoldoutOptions, seed: int) -> TextHoldout | None:
    """Draw texts that the model never learns from, without depriving a label of its last texts."""
    counts = np.bincount(labels.indices, minlength=labels.width)
    # Several texts of a label may be drawn, but hardly ever all of them.
    rare = np.append(counts[labels.indices] <= options.fewest_of_label, False)
    spared = np.add.reduceat(rare, labels.indptr[:-1]) == 0 if len(labels) else np.empty(0, bool)
    candidates = np.flatnonzero(spared | (np.diff(labels.indptr) == 0))
    n_held = min(options.n_left_out(len(labels)), options.most_scores // labels.width)
    rng = np.random.default_rng((seed, 2))
    others = np.sort(rng.permutation(candidates)[:n_held])
    if len(others) < options.fewest:
        others = _one_of_each(labels, counts, min(n_held, options.most_of_rare), rng)
    if len(others) < options.fewest:
        return None
    return TextHoldout([(np.setdiff1d(np.arange(len(labels)), others), others)], for_good=True)


def _one_of_each(labels: Rows, counts: I64, n_held: int, rng: np.random.Generator) -> I64:
    """Draw texts that share no label, and whose labels all have another text."""
    single = np.append(counts[labels.indices] < 2, False)
    can_go = (np.diff(labels.indptr) > 0) & (np.add.reduceat(single, labels.indptr[:-1]) == 0)
    chosen: list[int] = []
    touched: set[int] = set()
    for text in rng.permutation(np.flatnonzero(can_go)).tolist():
        if len(chosen) == n_held:
            break
        own = labels.indices[labels.indptr[text] : labels.indptr[text + 1]].tolist()
        if touched.isdisjoint(own):
            chosen.append(text)
            touched.update(own)
    return np.array(sorted(chosen), np.int64)
