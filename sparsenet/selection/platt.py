"""From scores to probabilities, as Platt has it: a slope and a shift, under which held-out labels are most probable."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from sparsenet.kernels.types import F32, F64

#: Within these bounds, probabilities of unseen points cannot come out as 0 or 1 because a few held out were all right.
STEEPNESS = (0.05, 20.0)
#: The digits that a search is for, and after how many steps it ends in any case.
CLOSE_ENOUGH = 1e-3
MOST_STEPS = 100
#: Where a step leads uphill, curvatures are taken to be larger by this factor, and more.
MOST_DAMPING = 1e9
#: Keeps the curvature of certain answers above zero.
TINY = 1e-12


def most_probable(
    scores: F32, truth: NDArray[np.bool_], *, usual: float, firmness: float, counts: F64 | None = None
) -> tuple[float, float]:
    """Return the steepness and the shift under which each label is by itself most probable, by Newton's method.

    As Platt has it, one more label of each kind than there are is taken to be of the other: else a few points without
    any would make all labels of all points impossible. Before any is seen the logarithm of the steepness is believed to
    be `usual`: how far it is from there, squared, counts `firmness` beside the mean loss of the scores, each of which
    stands for so many as `counts` says, or for one. That is convex, and goes over all of them: searches without
    derivatives go over them three times as often.

    Examples
    --------
    Of scores that say too much, which are right no more often than four times of five:

    >>> scores = np.repeat(np.array([-9.0, 9.0], np.float32), 500)
    >>> truth = np.tile([True, False, False, False, False], 200)
    >>> truth[500:] = ~truth[500:]
    >>> steepness, shift = most_probable(scores, truth, usual=0.0, firmness=1e-6)
    >>> round(float(expit(9 * steepness + shift)), 2)
    0.8
    """
    exact = scores.astype(np.float64)
    n = float(truth.size if counts is None else counts.sum())
    n_true = float(np.count_nonzero(truth) if counts is None else counts[truth].sum())
    n_false = n - n_true
    target = np.where(truth, (n_true + 1) / (n_true + 2), 1 / (n_false + 2))

    def mean(values: F64) -> float:
        return float(values.mean() if counts is None else (counts * values).sum() / n)

    def loss(steepness: float, shift: float) -> float:
        logits = steepness * exact + shift
        return mean(np.logaddexp(0, logits) - target * logits) + firmness * (math.log(steepness) - usual) ** 2

    # From where the labels have their frequency on average: far from there the loss is flat, and bends nowhere.
    steepness = math.exp(usual)
    shift = math.log((n_true + 1) / (n_false + 1)) - steepness * mean(exact)
    reached, damping = loss(steepness, shift), 0.0
    for _ in range(MOST_STEPS):
        p = expit(steepness * exact + shift)
        off, weight = p - target, p * (1 - p)
        belief = 2 * firmness / steepness
        d_steepness = mean(off * exact) + belief * (math.log(steepness) - usual)
        d_shift, h_shift = mean(off), mean(weight)
        weight *= exact
        h_both, h_steepness = mean(weight), mean(weight * exact) + belief / steepness
        while True:
            down, across = h_steepness * (1 + damping) + TINY, h_shift * (1 + damping) + TINY
            turned = steepness + (h_both * d_shift - across * d_steepness) / max(down * across - h_both**2, TINY**2)
            turned = min(max(turned, STEEPNESS[0]), STEEPNESS[1])
            # Where a bound holds the steepness back, the shift is what is best for that one.
            moved = shift - (d_shift + h_both * (turned - steepness)) / across
            now = loss(turned, moved)
            if now <= reached:
                break
            damping = max(4 * damping, CLOSE_ENOUGH)
            if damping > MOST_DAMPING:
                return float(steepness), float(shift)
        close = abs(turned - steepness) < CLOSE_ENOUGH * steepness and abs(moved - shift) < CLOSE_ENOUGH
        steepness, shift, reached, damping = turned, moved, now, damping / 4
        if close and damping < 1:
            break
    return float(steepness), float(shift)
