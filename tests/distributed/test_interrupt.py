"""Ctrl-C in a terminal ends the driver and leaves no worker and no file behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = """
import sys
from contextlib import contextmanager
from sparsenet import Workers
from sparsenet.engines.tree.machines import Rules
from tests.support.pool_tasks import processes
from tests.support.same_networks import network
from tests.support.same_trees import many_tasks, tree


class Patch:
    setattr = staticmethod(setattr)


def train(executor):
    while True:
        workers = Workers(executor, scratch=sys.argv[1], timeout=60, n_workers=2)
        tree(executor=workers) if sys.argv[2] == "tree" else network({"epochs": 50}, executor=workers)


if __name__ == "__main__":
    many_tasks(Patch)
    {run}
"""
#: The file that shows that workers train a model.
BEGUN = {"tree": "*/machines0", "network": "*/steps*.3.records0"}
RUNS = {
    "a function": "train(lambda: processes(2, 'spawn'))",
    "a pool": "\n    with processes(2, 'spawn') as pool: train(pool)",
    "dask": """
    from distributed import Client, LocalCluster
    how = dict(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with LocalCluster(**how) as cluster, Client(cluster) as client: train(client.get_executor())""",
}


def processes_of(session):
    """Return the numbers of the processes of a session that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _parent, _group, own = path.read_text().rpartition(")")[2].split()[:4]
        except OSError:  # it has just ended
            continue
        if int(own) == session and state != "Z":
            found.append(int(path.parent.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("model", BEGUN)
@pytest.mark.parametrize("run", ["a function", pytest.param("a pool", marks=pytest.mark.slow), "dask"])
def test_leaves_nothing_behind(run, model, tmp_path):
    if run == "dask":
        pytest.importorskip("distributed")
    (tmp_path / "program.py").write_text(PROGRAM.replace("{run}", RUNS[run]))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    paths = os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, str(tmp_path / "program.py"), str(scratch), model]
    driver = subprocess.Popen(
        command, env=os.environ | {"PYTHONPATH": paths}, stderr=subprocess.PIPE, start_new_session=True, text=True
    )
    try:
        deadline = time.monotonic() + 60
        while not list(scratch.glob(BEGUN[model])):
            assert driver.poll() is None, driver.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.killpg(driver.pid, signal.SIGINT)
        errors = driver.communicate(timeout=40)[1]
        assert driver.returncode != 0
        assert "KeyboardInterrupt" in errors
        assert list(scratch.iterdir()) == []
        deadline = time.monotonic() + 5
        while processes_of(driver.pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert processes_of(driver.pid) == []
    finally:
        for process in processes_of(driver.pid):
            os.kill(process, signal.SIGKILL)
