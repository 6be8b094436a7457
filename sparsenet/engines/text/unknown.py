"""Predict label frequencies for texts without known features.

Such a text has no words, or only words that did not occur in training. Biases are learnt from texts with words. Alone
they would rank rare labels first, with probabilities near 1. So these texts get the label frequencies of all training
texts, and of any training texts without words.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.rows import Rows
from sparsenet.engines.linear.linear_model import LinearModel, both_classes
from sparsenet.features.label_stats import smoothed_frequencies
from sparsenet.kernels.types import F32, F64, I64


def label_frequencies(labels: Rows, is_empty: NDArray[np.bool_], costs: F32 | None, *, exclusive: bool) -> F64:
    """Estimate the frequency of each label among texts without words, (n_labels,), weighted by `costs` (n_labels,)."""
    of_empty = labels.take(np.flatnonzero(is_empty))
    counts = [np.bincount(own.indices, minlength=labels.width) for own in (labels, of_empty)]
    frequencies = smoothed_frequencies(counts[0], len(labels), counts[1], len(of_empty))
    if costs is None:
        return frequencies
    weighted = frequencies * costs
    return np.asarray(weighted / (weighted.sum() if exclusive else weighted + 1 - frequencies))


def with_probabilities(model: LinearModel, probabilities: F64, *, exclusive: bool) -> LinearModel:
    """Set the scores of texts without known features, so that they get these `probabilities`."""
    scores = model.calibration.scores_of(probabilities, exclusive=exclusive)
    if model.n_columns == 1 and len(scores) == 2:
        scores = np.diff(scores) / 2
    return replace(model, unknown=np.asarray(scores, np.float32))


def with_more_texts(
    model: LinearModel,
    before: LinearModel,
    n_before: int,
    positions: I64,
    labels: Rows,
    is_empty: NDArray[np.bool_],
    costs: F32 | None,
    *,
    exclusive: bool,
) -> LinearModel:
    """Update the scores of texts without known features after further training.

    `before` is the model after `n_before` texts, `positions` are the new positions of its labels, and `labels` and
    `is_empty` describe the further texts.
    """
    if before.unknown is None:  # a model of an older version
        return model
    scores = both_classes(before.unknown[None], len(positions)) if exclusive else before.unknown[None]
    total = len(labels) * label_frequencies(labels, is_empty, costs, exclusive=exclusive)
    total[positions] += n_before * before.calibration.probabilities(scores, exclusive=exclusive)[0]
    return with_probabilities(model, total / max(n_before + len(labels), 1), exclusive=exclusive)
