"""`fit(executor=...)` on Dask: the model of one process, also if a worker is killed."""

import os
import time
from contextlib import contextmanager

import pytest

from sparsenet import Workers
from tests.support import pool_tasks
from tests.support.same_networks import assert_same_network, network, on_threads
from tests.support.same_trees import assert_same_tree, many_tasks, tree

distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")
pytestmark = pytest.mark.filterwarnings("ignore")  # Dask's own threads and sockets


#: Seconds that a busy machine may take to start and connect workers.
PATIENCE = 180


@contextmanager
def client_of(n_processes, threads=1):
    how = {"threads_per_worker": threads, "processes": True, "dashboard_address": None, "protocol": "tcp"}
    with (
        dask.config.set({"distributed.comm.timeouts.connect": PATIENCE, "distributed.comm.timeouts.tcp": PATIENCE}),
        distributed.LocalCluster(n_workers=n_processes, **how) as cluster,
        distributed.Client(cluster, timeout=PATIENCE) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client():
    with client_of(2) as client:
        yield client


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch):
    many_tasks(monkeypatch)


def test_a_tree_is_the_same(client, tmp_path):
    assert_same_tree(tree(executor=Workers(client.get_executor(), scratch=tmp_path)), tree())
    assert list(tmp_path.iterdir()) == []


def test_a_network_is_the_same(client, tmp_path):
    found = network(executor=Workers(client.get_executor(), scratch=tmp_path, n_workers=2))
    assert_same_network(found, on_threads(1))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(("n_processes", "threads"), [(1, 1), (4, 1), (2, 4)])
def test_models_are_the_same_with_other_workers(n_processes, threads):
    with client_of(n_processes, threads) as client:
        assert_same_tree(tree(executor=client.get_executor()), tree())
        assert_same_network(network(executor=client.get_executor()), on_threads(1))


@contextmanager
def killed(client, folder, file):
    """Kill a worker as soon as a file is in the folder of the run."""
    before = client.run(os.getpid)
    with pool_tasks.killing(folder, file, lambda: min(before.values())) as pids:
        yield Workers(client.get_executor(), scratch=folder, timeout=PATIENCE, n_workers=2)
    client.wait_for_workers(2, timeout=PATIENCE)
    assert pids[0] not in client.run(os.getpid).values()


def test_a_tree_is_the_same_if_a_worker_is_killed(client, tmp_path):
    with killed(client, tmp_path, "machines0") as workers:
        found = tree(executor=workers)
    assert_same_tree(found, tree())


def test_a_network_is_the_same_if_a_worker_is_killed(client, tmp_path):
    with killed(client, tmp_path, "steps*.2.records0") as workers:
        found = network({"epochs": 4}, executor=workers)
    assert_same_network(found, on_threads(1, {"epochs": 4}))


def test_the_error_of_a_task_has_its_traceback(client, tmp_path):
    with pytest.raises(ValueError, match="number 3 is bad") as caught:
        pool_tasks.run(client.get_executor(), pool_tasks.fail, [(3,)], scratch=tmp_path)
    assert any("in fail\n" in note for note in caught.value.__notes__)


def test_deadline_cancels_tasks(client, tmp_path):
    with pytest.raises(TimeoutError, match="no task ended"):
        pool_tasks.run(client.get_executor(), pool_tasks.sleep, [(2,)] * 8, scratch=tmp_path, timeout=0.5)
    assert list(tmp_path.iterdir()) == []
    begun = time.perf_counter()
    assert len(pool_tasks.run(client.get_executor(), pool_tasks.process, [()], scratch=tmp_path)) == 1
    assert time.perf_counter() - begun < 5
