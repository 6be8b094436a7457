"""What scores of labels say that exclude each other: how steep they are, and by how much each label is to be shifted.

Each label is trained against all others, so that one which few texts have hardly ever scores above zero, and would win
too seldom. How much too seldom, held-out texts tell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.rows import Rows
from sparsenet.engines.linear.calibration import bent
from sparsenet.kernels.types import F32, F64, I32, I64
from sparsenet.selection.platt import CLOSE_ENOUGH, MOST_STEPS, STEEPNESS

LOGARITHMS = (math.log(STEEPNESS[0]), math.log(STEEPNESS[1]))
#: What is believed before any text is seen, as firmly as one text can tell: log steepness, give or take 1; that rarity
#: asks for no shift, give or take 1 for each time that a label is e times rarer; and a label's own shift beyond that.
#: What goes by rarity makes up for it, and never adds to it: texts that no label stands out for would have it so, since
#: they may as well have a frequent one, and rare labels that do stand out would then win too seldom.
USUAL, BY_RARITY, OWN = math.log(2.0), 1.0, 0.2
#: A label's shift is found where so many texts have it; others have that of the rarest of these. No shift is worth more
#: than so much of a score: the distance from where a label begins to that at which training leaves it alone.
FEWEST, FARTHEST = 2, 1.0
#: Keeps a division by no text at all from failing.
TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Competition:
    """Labels have the softmax of steepness times `bent` scores, to which shifts (n_labels,) were added if asked for."""

    steepness: float
    shifts: F64


def fit(
    scores: F32, labels: Rows, counts: I64 | None = None, costs: F32 | None = None, *, curvature: float = 0.0
) -> Competition:
    """Return what makes the labels of held-out texts most probable; without `counts` of the labels there are no shifts.

    With `costs` (n_labels,) it is as if there were so many times as many texts of a label.
    """
    found = _shifts(scores, labels, counts, costs)
    says = bent(found.seen.scores + found.shifts[found.known], curvature)
    steepness = _found(replace(found.seen, scores=says, shifted=False)).steepness
    return Competition(math.exp(steepness), found.shifts)


def cross_fitted(scores: F32, labels: Rows, counts: I64 | None, costs: F32 | None = None) -> I32:
    """Return the labels that win, of each half of the texts by what the other half tells."""
    if counts is None:
        return np.asarray(scores.argmax(axis=1), np.int32)
    best = np.zeros(len(scores), np.int32)
    for half in (0, 1):
        others = np.arange(1 - half, len(scores), 2)
        shifts = _shifts(scores[others], labels.take(others), counts, costs).shifts
        best[half::2] = (scores[half::2] + shifts).argmax(axis=1)
    return best


class _Shifted(NamedTuple):
    """Shifts of all labels, those that are `known`, and what was seen of these."""

    shifts: F64
    known: NDArray[np.bool_]
    seen: _Seen


def _shifts(scores: F32, labels: Rows, counts: I64 | None, costs: F32 | None) -> _Shifted:
    """Return what is to be added to the scores of each label."""
    has_one = np.diff(labels.indptr) == 1
    exact, right = scores[has_one].astype(np.float64), labels.indices[labels.indptr[:-1][has_one]]
    # While the only text of a label is held out, no model knows the label: it is never right.
    known = np.ones(labels.width, bool) if counts is None else counts >= FEWEST
    shifts = np.zeros(labels.width)
    if counts is None or not known[right].any():
        return _Shifted(shifts, np.ones_like(known), _Seen.of(exact, right, None, costs))
    told, number = known[right], np.cumsum(known, dtype=np.int32) - 1
    own_costs = None if costs is None else costs[known]
    seen = _Seen.of(exact[told][:, known], number[right[told]], counts[known], own_costs)
    at = _found(seen)
    own = (at.by_rarity * seen.commonness + at.own) / math.exp(at.steepness)
    # Where scores say little, shifts would be all that there is, and what is learnt later could not overcome them.
    shifts[known] = np.clip(own, -FARTHEST, FARTHEST)
    shifts[~known] = shifts[known & (counts == counts[known].min())].mean()
    shifts[~known & (counts == 0)] = shifts.min()  # of what no text has had yet nothing speaks for it
    return _Shifted(shifts, known, seen)


def _found(seen: _Seen) -> _Place:
    """Search for the place of the least loss."""
    # By methods that need no linear algebra: its library starts a thread for each core, which for a handful of numbers
    # took more time than all training on 3,000 texts.
    at = _Place(USUAL, 0.0, np.zeros(len(seen.commonness)))
    loss, probabilities = seen.loss(at)
    for _ in range(MOST_STEPS):
        step, length = seen.step(at, probabilities), 1.0
        while True:
            there = at.after(step, length)
            lower, found = seen.loss(there)
            if lower <= loss or length < CLOSE_ENOUGH:
                break
            length /= 2
        if lower > loss:
            break
        moved = there.far_from(at)
        at, loss, probabilities = there, lower, found
        if moved < CLOSE_ENOUGH:
            break
    return at


def _commonness(counts: I64) -> F64:
    """Return by how much e times each label is more frequent than labels are."""
    logarithms = np.log(np.maximum(counts, 1.0))
    return np.asarray(logarithms - logarithms.mean(), np.float64)


@dataclass(frozen=True, eq=False)
class _Place:
    """What is searched for: log steepness, the shift by rarity, and each label's own beyond that."""

    steepness: float
    by_rarity: float
    own: F64

    def after(self, step: _Place, length: float) -> _Place:
        """Return the place after so much of a step."""
        steepness = min(max(self.steepness + length * step.steepness, LOGARITHMS[0]), LOGARITHMS[1])
        by_rarity = min(self.by_rarity + length * step.by_rarity, 0.0)
        return _Place(steepness, by_rarity, self.own + length * step.own)

    def is_at_the_border(self, step: float) -> bool:
        """Tell whether such a step would leave what steepness may be."""
        low, high = LOGARITHMS
        return (self.steepness == low and step < 0) or (self.steepness == high and step > 0)

    def far_from(self, other: _Place) -> float:
        """Return the largest change of a number."""
        own = float(np.abs(self.own - other.own).max(initial=0))
        return max(abs(self.steepness - other.steepness), abs(self.by_rarity - other.by_rarity), own)


@dataclass(frozen=True, eq=False)
class _Seen:
    """Scores (n, n_labels), what is right and how much a text counts (n,), and how common labels are (n_labels,)."""

    scores: F64
    right: I32
    weights: F64
    commonness: F64
    shifted: bool

    @classmethod
    def of(cls, scores: F64, right: I32, counts: I64 | None, costs: F32 | None) -> _Seen:
        """See what texts say; without `counts` of the labels it is not about shifts."""
        weights = np.ones(len(right)) if costs is None else costs[right].astype(np.float64)
        # As many texts altogether as tell as much: one that counts ten times is no ten that are of one opinion.
        weights *= weights.sum() / max(float(np.square(weights).sum()), TINY)
        commonness = np.zeros(scores.shape[1]) if counts is None else _commonness(counts)
        return cls(scores, right, weights, commonness, counts is not None)

    def loss(self, at: _Place) -> tuple[float, F64]:
        """Return how improbable the labels are, and what is believed before, and all probabilities."""
        logits = math.exp(at.steepness) * self.scores
        logits += at.by_rarity * self.commonness + at.own
        logits -= logits.max(axis=1, keepdims=True)
        improbable = -logits[np.arange(len(logits)), self.right]
        np.exp(logits, out=logits)
        total = logits.sum(axis=1)
        logits /= total[:, None]
        improbable += np.log(total)
        belief = (at.steepness - USUAL) ** 2 + (at.by_rarity / BY_RARITY) ** 2 + float(np.square(at.own / OWN).sum())
        return _sum(self.weights, improbable) + belief / 2, logits

    def step(self, at: _Place, probabilities: F64) -> _Place:
        """Return where the bottom would be: by Newton for two numbers together, and for each other by itself."""
        steepness, texts, weights = math.exp(at.steepness), np.arange(len(self.scores)), self.weights
        expected = probabilities * self.scores
        mean, square = expected.sum(axis=1), np.einsum("ij,ij->i", expected, self.scores)
        slope = steepness * _sum(weights, mean - self.scores[texts, self.right]) + at.steepness - USUAL
        curve = steepness**2 * _sum(weights, square - mean**2) + 1
        if not self.shifted:
            return _Place(-slope / curve, 0.0, np.zeros_like(at.own))
        rarity = self.commonness
        common, common_square = (np.einsum("ij,j->i", probabilities, of) for of in (rarity, rarity**2))
        slope_rarity = _sum(weights, common - rarity[self.right]) + at.by_rarity / BY_RARITY**2
        curve_rarity = _sum(weights, common_square - common**2) + 1 / BY_RARITY**2
        together = np.einsum("ij,j->i", expected, rarity) - mean * common
        both = steepness * _sum(weights, together)
        determinant = curve * curve_rarity - both**2
        weighed = np.multiply(probabilities, weights[:, None], out=expected)
        often = weighed.sum(axis=0)
        own = often - np.bincount(self.right, weights, minlength=len(often)) + at.own / OWN**2
        # Each by itself. Labels take from each other what one is given, so that the whole may curve up to twice as
        # much: where that is felt, the loss is higher after the step, and half of it is taken.
        bound = often - np.einsum("ij,ij->j", weighed, probabilities) + 1 / OWN**2
        along, by_rarity = (both * slope_rarity - curve_rarity * slope), (both * slope - curve * slope_rarity)
        along, by_rarity = along / determinant, by_rarity / determinant
        # Where one of the two may go no further, the other goes by itself.
        if at.is_at_the_border(along):
            along, by_rarity = 0.0, -slope_rarity / curve_rarity
        if at.by_rarity == 0 and by_rarity > 0:
            along, by_rarity = -slope / curve, 0.0
        return _Place(along, by_rarity, -own / bound)


def _sum(weights: F64, values: F64) -> float:
    return float(np.einsum("i,i->", weights, values))
