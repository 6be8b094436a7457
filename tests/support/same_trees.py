"""A tree of three levels and many small tasks, trained anywhere, and its comparison with another one."""

import numpy as np
from scipy import sparse

from sparsenet import TreeClassifier
from sparsenet.engines.tree.machines import Rules
from tests.support.planted import planted

POINTS, _INDICATOR = planted(n=3000, n_features=1101, n_labels=1100, seed=1)
LABELS = sparse.csr_array(_INDICATOR)


def many_tasks(monkeypatch):
    """Make many tasks of few points."""
    made = Rules.__init__
    small = {"shard_points": 700, "call_entries": 1 << 12}
    monkeypatch.setattr(Rules, "__init__", lambda self, *args, **how: made(self, *args, **small | how))


def tree(**how):
    return TreeClassifier(random_state=0, n_jobs=1).fit(POINTS, LABELS, **how)


def assert_same_tree(one, other):
    np.testing.assert_array_equal(one.fitted_.shape.labels, other.fitted_.shape.labels)
    for a, b in zip(one.fitted_.levels, other.fitted_.levels, strict=True):
        for x, y in zip(a.as_tuple(), b.as_tuple(), strict=True):
            np.testing.assert_array_equal(x, y)
