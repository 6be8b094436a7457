"""A small network trained in shards, anywhere, and its comparison with another one."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from sparsenet import ExtremeClassifier
from tests.support.same_trees import LABELS, POINTS

FAST = {"hidden": 8, "epochs": 1, "batch_size": 64, "random_state": 0, "n_jobs": 1, "verbose": 0}


def network(own=FAST, n_points=320, **how):
    return ExtremeClassifier(**FAST | own).fit(POINTS[:n_points], LABELS[:n_points], **how)


def on_threads(n, own=None, **how):
    """Train on threads as workers."""
    with ThreadPoolExecutor(n) as pool:
        return network(own or {}, executor=pool, **how)


def assert_same_network(one, other):
    weights, others = one.network_.weights(), other.network_.weights()
    assert weights.keys() == others.keys()
    for name, array in weights.items():
        np.testing.assert_array_equal(array, others[name], err_msg=name)
    assert [record["loss"] for record in one.history_] == [record["loss"] for record in other.history_]
