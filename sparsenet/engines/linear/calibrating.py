"""How a calibration is found: the one under which the labels of held-out texts are most probable."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from sparsenet.core.rows import Rows
from sparsenet.engines.linear import competing
from sparsenet.engines.linear.calibration import Calibration
from sparsenet.kernels.types import F32
from sparsenet.selection.platt import fit_platt

#: The steps in which a threshold is searched for, of the root of probability: with many labels it is a small one.
STEPS = 1000
#: The most labels that are named, for each true one: where probabilities tell nothing, to name all is best by F1.
MOST_NAMED = 3
#: How many true labels what they say about the threshold counts as much as what probabilities say.
FEW_TRUE = 100


def fit(scores: F32, labels: Rows, *, exclusive: bool, missed: int = 0) -> Calibration:
    """Return the calibration under which held-out labels are most probable.

    Exclusive labels compete in a softmax, where a shift would change nothing. Others have a threshold too; `missed`
    true labels of the texts have no score.
    """
    if exclusive:
        return Calibration(competing.fit(scores, labels).steepness)
    truth = _as_table(labels, scores.shape)
    # What is believed before counts as one text, and a text tells about every label.
    firmness = 0.5 / max(len(scores), 1) / scores.shape[1]
    found = Calibration(*fit_platt(scores, truth, log_slope=competing.USUAL, precision=firmness))
    return replace(found, threshold=_best_threshold(found.probabilities(scores, exclusive=False), truth, missed))


def _as_table(labels: Rows, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    truth = np.zeros(shape, bool)
    truth[np.repeat(np.arange(len(labels)), np.diff(labels.indptr)), labels.indices] = True
    return truth


def _best_threshold(probabilities: F32, truth: NDArray[np.bool_], missed: int) -> float:
    """Return the probability above which labels are to be named for the best F1 of all pairs of a text and a label.

    If all probabilities were right, that would be half of the best F1. They are not, where one curve is to do for all
    labels: to name what is above the border that is best for these texts found more on bibtex, delicious and
    citeulike-t (F1 of 0.494, 0.370 and 0.199 for 0.490, 0.361 and 0.148). Where there are few texts it is between, and
    one half where no label that is found stands out from the others.
    """
    n_true = np.count_nonzero(truth) + missed
    right, named = (
        np.histogram(np.sqrt(some), STEPS, (0, 1))[0][::-1].cumsum() for some in (probabilities[truth], probabilities)
    )
    f1 = np.where(named <= MOST_NAMED * n_true, 2 * right / np.maximum(named + n_true, 1), 0)
    half = float(f1.max()) / 2
    if half == 0:
        return Calibration.threshold
    best = (np.maximum(STEPS - 1 - np.flatnonzero(f1 == f1.max()), 1) / STEPS) ** 2  # maybe more than one, descending
    found, expected = (math.log(p / (1 - p)) for p in (min(max(half, best[-1]), best[0]), half))
    trust = n_true / (n_true + FEW_TRUE)
    between = float(expit(trust * found + (1 - trust) * expected))
    return min(max(between, float(best[-1])), Calibration.threshold)
