"""Workers give the answers of one process, bit for bit."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sparsenet import BlendClassifier, ExtremeClassifier, TextClassifier, TreeClassifier, Workers
from sparsenet.core import scratch as scratch_files
from sparsenet.distributed import topk_numbers
from tests.support.planted import X, Y
from tests.support.pool_tasks import add, deleted_files, processes, run

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def network():
    return ExtremeClassifier(hidden=8, epochs=2)


@pytest.mark.parametrize(
    "model",
    [TreeClassifier(), network(), BlendClassifier(network=network()), BlendClassifier(network="drop")],
    ids=["tree", "network", "blend", "blend without network"],
)
def test_answers_are_the_same_on_processes(model, tmp_path):
    model = model.set_params(random_state=0, n_jobs=1).fit(X, Y)
    wanted = model.topk_numbers(X, 4)
    with processes(2) as pool:
        found = topk_numbers(model, X, 4, executor=Workers(pool, scratch=tmp_path), shard_points=90)
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(a, b)
        assert topk_numbers(model, X[:0], 99, executor=pool)[0].shape == (0, 40)
    assert list(tmp_path.iterdir()) == []


def test_a_worker_answers_for_the_model_at_hand():
    one, other = (TreeClassifier(random_state=0, cost=cost).fit(X, Y) for cost in (0.5, 1e-3))
    with processes(1) as pool:
        for model in (one, other, one):
            found = topk_numbers(model, X, 4, executor=pool)[1]
            np.testing.assert_array_equal(found, model.topk_numbers(X, 4)[1])


def test_threads_keep_no_model():
    model = TreeClassifier(random_state=0).fit(X, Y)
    with ThreadPoolExecutor(2) as pool:
        found = topk_numbers(model, X, 4, executor=pool, shard_points=90)
    np.testing.assert_array_equal(found[0], model.topk_numbers(X, 4)[0])
    assert not scratch_files._made


def test_workers_free_the_file_of_a_model():
    model = network().set_params(random_state=0).fit(X, Y)
    with processes(1) as pool:
        topk_numbers(model, X, 4, executor=pool)
        run(pool, add, [(1,)])
        assert "model" not in pool.submit(deleted_files).result()


@pytest.mark.parametrize("shard_points", [0, -90, 1.5])
def test_rejects_shards_without_points(shard_points):
    model = TreeClassifier(random_state=0).fit(X, Y)
    with ThreadPoolExecutor(1) as pool, pytest.raises(ValueError, match="shard_points must be an integer"):
        topk_numbers(model, X, 4, executor=pool, shard_points=shard_points)


def test_rejects_other_models():
    with processes(1) as pool, pytest.raises(ValueError, match="model must be one of BlendClassifier"):
        topk_numbers(TextClassifier(), ["a text"], executor=pool)
