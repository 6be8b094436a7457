"""What is answered to a text of which a model knows nothing: one without words, or with none that training had.

A label's bias is learnt from texts that have words, and beside these it is right. Alone it puts rare labels first, and
calibration makes them certain. What is known of such a text is how often labels are right: of all texts, and of texts
without words if training had some.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.rows import Rows
from sparsenet.engines.linear.linear_model import LinearModel, both_classes
from sparsenet.features.label_stats import usual_shares
from sparsenet.kernels.types import F32, F64, I64


def shares(labels: Rows, is_empty: NDArray[np.bool_], costs: F32 | None, *, exclusive: bool) -> F64:
    """Return how often each label is right of a text without words, (n_labels,).

    With `costs` (n_labels,) it is as if there were so many times as many texts of a label.
    """
    of_empty = labels.take(np.flatnonzero(is_empty))
    counts = [np.bincount(own.indices, minlength=labels.width) for own in (labels, of_empty)]
    found = usual_shares(counts[0], len(labels), counts[1], len(of_empty))
    if costs is None:
        return found
    more = found * costs
    return np.asarray(more / (more.sum() if exclusive else more + 1 - found))


def told(model: LinearModel, found: F64, *, exclusive: bool) -> LinearModel:
    """Return the model with scores of such a text that say these shares."""
    scores = model.calibration.scores_of(found, exclusive=exclusive)
    if model.n_columns == 1 and len(scores) == 2:
        scores = np.diff(scores) / 2
    return model.knowing(np.asarray(scores, np.float32))


def told_on(
    model: LinearModel,
    before: LinearModel,
    n_before: int,
    where: I64,
    labels: Rows,
    is_empty: NDArray[np.bool_],
    costs: F32 | None,
    *,
    exclusive: bool,
) -> LinearModel:
    """Do the same for a model that has learnt from these texts too; `where` are the labels that it knew `before`."""
    if before.unknown is None:  # a model of an older version
        return model
    scores = both_classes(before.unknown[None], len(where)) if exclusive else before.unknown[None]
    found = len(labels) * shares(labels, is_empty, costs, exclusive=exclusive)
    found[where] += n_before * before.calibration.probabilities(scores, exclusive=exclusive)[0]
    return told(model, found / max(n_before + len(labels), 1), exclusive=exclusive)
