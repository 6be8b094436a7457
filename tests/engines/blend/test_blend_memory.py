"""The announced memory of a blend covers the points, the tree, the neighbors and the network."""

import gc
import tracemalloc
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from sparsenet import BlendClassifier, ExtremeClassifier, TextClassifier, TreeClassifier
from sparsenet.core.memory import announce
from sparsenet.core.rows import Rows
from sparsenet.core.tasks import Host
from sparsenet.engines.blend import blend_memory
from sparsenet.engines.network import building
from sparsenet.engines.tree import tree_memory

N, N_FEATURES, N_LABELS = 9000, 3000, 600
RNG = np.random.default_rng(0)
Y = RNG.integers(0, N_LABELS, N)
OWN = RNG.integers(0, N_FEATURES, (N_LABELS, 4))
COLUMNS = np.hstack((OWN[Y], RNG.integers(0, N_FEATURES, (N, 8))))
X = sparse.csr_array(
    (np.ones(N * 12, np.float32), COLUMNS.ravel(), np.arange(0, N * 12 + 1, 12)), shape=(N, N_FEATURES)
)
X.sum_duplicates()
TEXTS = [" ".join(f"w{column:x}" for column in row) for row in COLUMNS.tolist()]
MODELS: dict[str, tuple[Any, Any]] = {
    "points": (BlendClassifier(network=ExtremeClassifier(epochs=1)), X),
    "texts": (TextClassifier(method="blend", epochs=1), TEXTS),
}


@pytest.fixture(params=MODELS)
def model_and_points(request):
    model, points = MODELS[request.param]
    return model.set_params(random_state=0, n_jobs=1, verbose=False), points


def test_announces_the_peak(model_and_points, monkeypatch):
    model, points = model_and_points
    needed = []
    monkeypatch.setattr(building, "check_memory", lambda each, *rest: needed.append(each))
    model.fit(points[:1000], Y[:1000])  # imports and compiles
    gc.collect()
    needed.clear()
    tracemalloc.start()
    model.fit(points, Y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert {"points", "tree", "neighbors", "weights"} <= set(needed[-1])
    assert sum(needed[-1].values()) == pytest.approx(peak, rel=0.15)


def test_a_limit_counts_the_parts_next_to_the_network(monkeypatch):
    needed = []
    monkeypatch.setattr(building, "check_memory", lambda each, *rest: needed.append(each))
    model = ExtremeClassifier(epochs=1, hidden=16, wide_budget=64)
    BlendClassifier(network=model, n_jobs=1, random_state=0, verbose=False).fit(X, Y)
    monkeypatch.undo()
    limit = sum(needed[-1].values())
    for given, refused in ((limit, False), (limit - 1, True)):
        blend = BlendClassifier(network=model.set_params(memory_limit=given), n_jobs=1, random_state=0, verbose=False)
        if refused:
            with pytest.raises(MemoryError, match=r"training needs .*points .*tree .*neighbors"):
                blend.fit(X, Y)
        else:
            blend.fit(X, Y)


def test_refuses_before_the_tree_is_trained(monkeypatch):
    monkeypatch.setattr("sparsenet.engines.blend.fit_blend.fit_tree.fit", lambda *given, **more: pytest.fail("trained"))
    with pytest.raises(
        MemoryError,
        match=r"needs .*texts .*points .*routing .*neighbors .*limit is 1\.0 MB: raise memory_limit, or use",
    ):
        TextClassifier(method="blend", memory_limit=10**6, verbose=False).fit(TEXTS, Y)
    monkeypatch.setattr("sparsenet.engines.blend.blend_memory.available_memory", lambda: 0)
    with pytest.raises(MemoryError, match=r"there are .*: use fewer points or features"):
        BlendClassifier(network="drop", verbose=False).fit(X, Y)


def test_announces_the_neighbors_next_to_the_tree(monkeypatch):
    steps = []
    monkeypatch.setattr(
        blend_memory, "announce", lambda needed, *r, **how: steps.append(needed) or announce(needed, *r, **how)
    )
    model = BlendClassifier(network="drop", verbose=False, random_state=0).fit(X, Y)
    tree = sum(array.nbytes for level in model.fitted_.tree.levels for array in level.as_tuple())
    assert [set(step) for step in steps] == [{"points", "routing", "neighbors"}, {"points", "tree", "neighbors"}]
    assert steps[1]["tree"] == tree


@pytest.mark.parametrize("network", ["drop", None])
def test_a_blend_has_a_limit_for_all_its_parts(network):
    tree = TreeClassifier(memory_limit="1GB")
    blend = BlendClassifier(network=network, tree=tree, memory_limit=10**6, verbose=False)
    with pytest.raises(MemoryError, match=r"needs .*limit is 1\.0 MB"):
        blend.fit(X, Y)
    with pytest.raises(ValueError, match="memory_limit must be"):
        blend.set_params(memory_limit="much").fit(X, Y)


@pytest.mark.parametrize("network", ["drop", None])
def test_the_limit_of_the_tree_covers_its_training(network):
    blend = BlendClassifier(network=network, tree=TreeClassifier(memory_limit=10**6), verbose=False)
    with pytest.raises(MemoryError, match=r"needs .*limit is 1\.0 MB"):
        blend.fit(X, Y)


def test_the_lower_limit_of_tree_and_network_holds():
    for limits in ((10**6, 10**12), (10**12, 10**6)):
        tree, network = TreeClassifier(memory_limit=limits[0]), ExtremeClassifier(memory_limit=limits[1], epochs=1)
        with pytest.raises(MemoryError, match=r"needs .*limit is 1\.0 MB"):
            BlendClassifier(network=network, tree=tree, verbose=False).fit(X, Y)


def test_the_limit_covers_a_second_tree(monkeypatch):
    steps = []
    monkeypatch.setattr(
        tree_memory, "announce", lambda needed, *r, **how: steps.append(needed) or announce(needed, *r, **how)
    )
    usual = BlendClassifier(network="drop", verbose=False, random_state=0)
    usual.fit(X[:2000], Y[:2000])
    first, second = (max(sum(s.values()) for s in steps if ("first tree" in s) == own) for own in (False, True))
    assert first < second
    limited = clone(usual).set_params(tree=TreeClassifier(memory_limit=second - 1))
    with pytest.warns(UserWarning, match=r"keeps its default weights and probabilities: training needs .*first tree"):
        limited.fit(X[:2000], Y[:2000])


class OnHosts:
    """A runner whose workers were seen on these hosts."""

    def __init__(self, *hosts):
        self.found = [Host(*host) for host in hosts]

    def hosts(self):
        return self.found


def test_counts_the_tasks_of_neighbors_on_each_host(monkeypatch):
    announced = []
    monkeypatch.setattr(blend_memory, "announce", lambda needed, *rest, **more: announced.append(needed))
    points = Rows.of(X), Rows.of(sparse.csr_array(np.eye(N_LABELS, dtype=np.float32)[Y]))
    runner = OnHosts(("here", True, 2, 10**12), ("there", False, 1, 10**12))
    blend_memory.check_parts_fit(points, held={}, beam=0, k=50, memory_limit=None, shown=False, runner=runner)
    here, there = announced
    assert here["2 workers"] == 2 * there["1 worker on there"] > 16 * 2 * X.nnz
    refusing = OnHosts(("there", False, 8, 10**5))
    monkeypatch.undo()
    with pytest.raises(MemoryError, match=r"8 workers on there .*there are 100\.0 kB: use fewer points"):
        blend_memory.check_parts_fit(points, held={}, beam=0, k=50, memory_limit=None, shown=False, runner=refusing)
