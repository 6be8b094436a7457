"""Training a tree announces its memory step by step, and stops before it takes more than its limit."""

import re
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from sparsenet import TreeClassifier
from sparsenet.core.memory import announce
from sparsenet.engines.tree import tree_memory

N, N_FEATURES, N_LABELS = 12_000, 4000, 1200
RNG = np.random.default_rng(0)
COLUMNS = np.sort(RNG.integers(0, N_FEATURES, (N, 12)), axis=1)
X = sparse.csr_array(
    (np.ones(N * 12, np.float32), COLUMNS.ravel(), np.arange(0, N * 12 + 1, 12)), shape=(N, N_FEATURES)
)
X.sum_duplicates()
Y = COLUMNS[:, 0] * N_LABELS // N_FEATURES


def tree(**parameters: Any) -> TreeClassifier:
    return TreeClassifier(**{"n_jobs": 1, "random_state": 0, "verbose": False, "epochs": 2, **parameters})


@pytest.fixture
def announced(monkeypatch):
    """Collect the bytes of each step."""
    steps: list[dict[str, int]] = []

    def record(needed: dict[str, int], *rest: Any, **how: Any) -> str | None:
        steps.append(needed)
        return announce(needed, *rest, **how)

    monkeypatch.setattr(tree_memory, "announce", record)
    return steps


def test_announces_the_machines_within_a_tenth(announced):
    model = tree().fit(X, Y)
    trained = sum(array.nbytes for level in model._fitted.levels for array in level.as_tuple())
    assert announced[-1]["tree"] == pytest.approx(trained, rel=0.1)


@pytest.mark.parametrize("cache", [False, True])
def test_refuses_before_the_tree_grows(cache, tmp_path, monkeypatch):
    monkeypatch.setattr("sparsenet.engines.tree.fit_tree.grow", lambda *given, **more: pytest.fail("grown"))
    with pytest.raises(MemoryError, match=r"needs .*points .*growing .*limit is 1\.0 MB: raise memory_limit, lower"):
        tree(memory_limit="1MB").fit(X, Y, **({"cache": tmp_path} if cache else {}))


def test_refuses_a_level_by_its_first_nodes(announced, monkeypatch):
    tree().fit(X, Y)
    before = max(sum(step.values()) for step in announced[:-1])
    assert sum(announced[-1].values()) > before
    announced.clear()
    with pytest.raises(MemoryError, match=r"training needs .*tree .*raise memory_limit, lower beam"):
        tree(memory_limit=before).fit(X, Y)
    assert announced[-1]["tree"] > 2 * announced[-2]["tree"], "the estimate of the last level, not what it took"


def test_shows_the_memory(capsys):
    tree(verbose=True, memory_limit="2GB").fit(X, Y)
    assert re.search(r"sparsenet: .* needed \(points .*, growing .*\), 2\.0 GB available", capsys.readouterr().err)
