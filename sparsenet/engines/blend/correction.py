"""How sure a blend may be, and of which labels: measured on training points that none of its parts has learnt.

The curves of `voting` lie between what fits unlike data sets best. On one of them the best labels are right in 60 of
100 cases where that curve says 47, on another in 70 where it says 81 (bench/notes/blends.md): what is known of the data
at hand tells better.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from sparsenet.core.ranked import best_first, is_hit
from sparsenet.engines.blend.unlearnt import Unlearnt
from sparsenet.kernels.types import F32, F64, I32, I64
from sparsenet.selection import frequency
from sparsenet.selection.platt import STEEPNESS, most_probable

#: Where fewer labels are right, nothing is told of how sure to be; and the usual curve is believed as firmly as so many
#: labels can tell.
FEW_TRUE, AS_FIRM_AS = frequency.FEW_TRUE, 10.0
#: Logits beyond this are as good as certain: those of labels that no part has heard of are beyond all bounds.
LARGEST_LOGIT = 20.0
#: So many labels are looked at, of all points: of fewer points, where each has thousands named.
MOST_LABELS = 1 << 17
#: What is saved is believed within these.
STEEPEST, FURTHEST = 100.0, 1000.0


class Correction(NamedTuple):
    """What a logit by the usual curves is multiplied by, and what is added then.

    Before, a logit gains `frequent` times the logarithm of how many points its label has. Where points have one label
    each, and the probability is asked that it is this one of all that are named, logits are then multiplied by `among`:
    what is added to all of them makes no difference there.
    """

    slope: float = 1.0
    shift: float = 0.0
    among: float = 1.0
    frequent: float = 0.0

    def put_in_order(self, labels: I32, odds: F32, label_counts: I64) -> tuple[I32, F32]:
        """Return the labels of each point and their logits, best first, once they have what frequent labels gain."""
        if self.frequent == 0:
            return labels, odds
        odds = odds + np.float32(self.frequent) * frequency.logarithms(label_counts[labels])
        labels, odds = best_first(odds, labels.shape[1], labels, odds)
        return labels, odds

    def apply(self, logits: F32) -> F32:
        """Return logits as they are on the data at hand."""
        return np.asarray(np.float32(self.slope) * logits + np.float32(self.shift))


#: As the curves are.
USUAL = Correction()


def measured(unlearnt: Unlearnt, n: int, label_counts: I64) -> Correction:
    """Return under what correction the n labels named for each point that no part has learnt are most probable."""
    unlearnt = unlearnt.every(max(1, -(-len(unlearnt) * n // MOST_LABELS)))
    named, votes = unlearnt.vote(n)
    right = is_hit(named, unlearnt.labels)
    if np.count_nonzero(right) < FEW_TRUE:
        return USUAL
    usual = np.clip(unlearnt.logits(votes), -LARGEST_LOGIT, LARGEST_LOGIT)
    # Without the point itself, which counts for what is right of it, and of which a point to come has no like.
    log_counts = frequency.logarithms(label_counts[named] - right)
    frequent = frequency.worth(usual, right, log_counts)
    usual += np.float32(frequent) * log_counts
    slope, shift = most_probable(usual, right, usual=0.0, firmness=AS_FIRM_AS / usual.size)
    return Correction(slope, shift, _among(usual.astype(np.float64), right), frequent)


def _among(usual: F64, right: NDArray[np.bool_]) -> float:
    """Return by what logits are multiplied so that each point's right one is most probable among those of a point.

    Points of which none of the labels named is right, or several, tell nothing.
    """
    alone = np.count_nonzero(right, axis=1) == 1
    usual, right = usual[alone], right[alone]
    if len(usual) < FEW_TRUE:
        return USUAL.among

    def loss(steepness: float) -> float:
        scaled = math.exp(steepness) * usual
        return float((logsumexp(scaled, axis=1) - scaled[right]).sum()) + AS_FIRM_AS * steepness**2

    low, high = map(math.log, STEEPNESS)
    return math.exp(minimize_scalar(loss, bounds=(low, high), method="bounded").x)
