"""`fit(executor=RayExecutor())`: the model of one process, also if a worker is killed."""

import os

import pytest

from sparsenet import Workers
from tests.support import pool_tasks
from tests.support.same_networks import assert_same_network, network, on_threads
from tests.support.same_trees import assert_same_tree, many_tasks, tree

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own threads and sockets


@pytest.fixture(scope="module")
def executor():
    from sparsenet.distributed import RayExecutor

    paths = os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH")]))
    ray.init(
        num_cpus=8,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=100 << 20,
        runtime_env={"env_vars": {"PYTHONPATH": paths}},
    )
    yield RayExecutor()
    ray.shutdown()


def test_a_tree_is_the_same(executor, tmp_path, monkeypatch):
    many_tasks(monkeypatch)
    assert_same_tree(tree(executor=Workers(executor, scratch=tmp_path)), tree())
    assert list(tmp_path.iterdir()) == []


def test_a_network_is_the_same(executor, tmp_path):
    found = network(executor=Workers(executor, scratch=tmp_path, n_workers=2))
    assert_same_network(found, on_threads(1))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 4, 8])
def test_models_are_the_same_with_other_workers(executor, n):
    from sparsenet.distributed import RayExecutor

    assert_same_tree(tree(executor=RayExecutor(num_cpus=8 / n)), tree())
    assert_same_network(network(executor=RayExecutor(num_cpus=8 / n)), on_threads(1))


def test_sends_the_tasks_of_a_lost_worker_again(executor, tmp_path):
    (tmp_path / "scratch").mkdir()
    tasks = [(str(tmp_path / "died"), number) for number in range(6)]
    found = pool_tasks.run(executor, pool_tasks.die, tasks, scratch=tmp_path / "scratch")
    assert found == list(range(6))


def test_takes_no_calls_after_shutdown(executor):
    from sparsenet.distributed import RayExecutor

    own = RayExecutor()
    own.shutdown()
    with pytest.raises(RuntimeError, match="after shutdown"):
        own.submit(len, ())
