"""Searches of a hold-out in shards find what one search of all its points finds."""

from dataclasses import replace

import numpy as np
import pytest

from sparsenet import BlendClassifier
from sparsenet.core.tasks import HERE
from sparsenet.engines.blend.holdout_search import HoldoutSearch
from tests.support.planted import X, Y

HELD = np.arange(3, 90, 4)


DENSE = np.random.default_rng(0).normal(size=(X.shape[0], 24)).astype(np.float32)


@pytest.fixture(scope="module", params=["sparse", "dense"])
def data(request):
    return X if request.param == "sparse" else DENSE


@pytest.fixture(scope="module")
def blend(data):
    return BlendClassifier(network="drop", random_state=0, n_jobs=1).fit(data, Y)


@pytest.fixture
def search(blend, data):
    with HERE.session() as session:
        yield HoldoutSearch(session, blend._features(data).take(HELD), HELD, 1, shard_points=7)


def test_the_tree(blend, search):
    tree = blend._fitted.tree
    for n in (3, len(blend.classes_)):
        for ours, whole in zip(search.tree(tree)(n, 4), tree.rank(search.points, n, beam=4, threads=1), strict=True):
            np.testing.assert_array_equal(ours, whole)


def test_neighbors_without_the_point_itself(blend, search, data):
    neighbors = blend._fitted.neighbors
    for most in (20, 1 << 16):
        found = search.neighbors(neighbors, 5)(most)
        own = replace(neighbors, max_comparisons=most)
        whole = own.weigh_votes(*own.nearest_others(blend._features(data).take(HELD), HELD, 5, 1), own.power)
        np.testing.assert_array_equal(found.indices, whole.indices)
        np.testing.assert_array_equal(found.data, whole.data)
        assert not found.data[found.indices == np.repeat(HELD, 6)].any()
