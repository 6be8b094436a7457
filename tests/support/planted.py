"""A problem that a small classifier learns within a second."""

import numpy as np
from scipy import sparse

from sparsenet import ExtremeClassifier

NAMES = np.array([f"label {number:02d}" for number in range(40)], dtype=object)


def planted(n=400, n_features=60, n_labels=40, seed=0):
    """Draw points whose features give their labels: label l has the features l and l + 1."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_labels, (n, 2))
    X = sparse.lil_array((n, n_features))
    for point, own in enumerate(labels):
        for label in own:
            X[point, label] = X[point, label + 1] = 1 + rng.random()
        X[point, rng.integers(0, n_features)] += 0.3
    Y = np.zeros((n, n_labels), np.int64)
    Y[np.arange(n)[:, None], labels] = 1
    return X.tocsr(), Y


X, Y = planted()
FAST = {"hidden": 32, "n_jobs": 1, "random_state": 0, "epochs": 60, "batch_size": 64}


def fast(**parameters):
    """Make a small classifier; `parameters` override."""
    return ExtremeClassifier(**{**FAST, **parameters})


def lists(names):
    return [[names[label] for label in np.flatnonzero(row)] for row in Y]
