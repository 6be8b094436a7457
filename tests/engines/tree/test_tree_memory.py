"""Training a tree announces its memory step by step, and stops before it takes more than its limit."""

import re
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from sparsenet import TreeClassifier
from sparsenet.core.memory import announce
from sparsenet.core.rows import Rows
from sparsenet.core.tasks import Host
from sparsenet.engines.tree import tree_memory
from sparsenet.engines.tree.machines import ROUTING_BYTES, Rules
from sparsenet.engines.tree.train_levels import _joined
from sparsenet.engines.tree.tree_shape import CHILDREN
from tests.support.freed_memory import needs_malloc_trim, resident

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


@pytest.mark.parametrize(("n_copied", "width"), [(2, 8 * N_FEATURES), (0, N_FEATURES)])
def test_threads_share_the_nodes_that_all_points_reach(n_copied, width, announced):
    """Points are copied once for each node, and not at all if that takes less memory than weights of all features."""
    points = Rows(X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data, width)
    labels = Rows.of(sparse.csr_array(np.eye(2, dtype=np.float32)[np.arange(N) % 2]))
    memory = tree_memory.TreeMemory.of((points, labels), Rules(), 64)
    memory.check_training([], np.full(2, N + points.n_entries))
    a_node = tree_memory.POINT_BYTES * N + 2 * 64 * width
    copies = n_copied * tree_memory.ENTRY_BYTES * points.n_entries
    assert announced[-1]["routing"] == pytest.approx(2 * ROUTING_BYTES * N + 2 * a_node + copies, rel=0.01)


class OnHosts:
    """A runner whose workers were seen on these hosts."""

    def __init__(self, *hosts):
        self.found = [Host(*host) for host in hosts]

    def hosts(self):
        return self.found


def memory_on(*hosts, limit=None):
    points, labels = Rows.of(X), Rows.of(sparse.csr_array(np.eye(2, dtype=np.float32)[np.arange(N) % 2]))
    return tree_memory.TreeMemory.of((points, labels), Rules(), 1, memory_limit=limit, runner=OnHosts(*hosts))


WORK = np.full(8, N + X.nnz)


def test_the_memory_of_a_task_is_that_of_its_worker(announced):
    memory_on(("here", True, 1, 0), ("there", False, 3, 10**12)).check_training([], WORK)
    here, there = announced
    assert set(here) == {"points", "1 worker"}
    assert set(there) == {"3 workers on there"}
    assert there["3 workers on there"] == 3 * here["1 worker"]


def test_a_process_without_workers_counts_no_task(announced):
    memory_on(("there", False, 1, 10**12)).check_training([], WORK, trained=1.0, n_rows=1)
    rows = WORK.sum()
    assert announced[0].keys() == {"points", "tree", "joining"}
    assert announced[0]["tree"] == tree_memory.ROW_BYTES * rows


@pytest.mark.parametrize(("limit", "available"), [(None, 10**6), (10**7, 10**12)])
def test_the_limit_holds_for_the_fullest_host(limit, available):
    memory = memory_on(("small", False, 8, available), ("large", False, 1, 10**12), limit=limit)
    with pytest.raises(MemoryError, match=r"8 workers on small .*: (raise memory_limit, )?lower beam"):
        memory.check_training([], WORK)


def test_shows_the_memory(capsys):
    tree(verbose=True, memory_limit="2GB").fit(X, Y)
    assert re.search(r"sparsenet: .* needed \(points .*, growing .*\), 2\.0 GB available", capsys.readouterr().err)


@needs_malloc_trim
def test_the_parts_of_a_level_leave_no_room_behind_when_they_are_joined():
    rows = 3_000
    starts, bias = np.array([0, rows]), np.zeros((1, CHILDREN), np.float32)
    part = starts, np.zeros(rows, np.int32), np.ones(rows, np.float32), np.ones((rows, CHILDREN), np.int8), bias
    parts = [tuple(array.copy() for array in part) for _ in range(600)]
    before = resident()
    joined = _joined(parts)
    assert sum(array.nbytes for array in joined) > 40_000_000
    assert resident() - before < 10_000_000
