"""`fit(executor=MPIPoolExecutor())`: the model of one process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mpi4py")

PROGRAM = """
import sys
from mpi4py.futures import MPIPoolExecutor
from sparsenet import Workers
from tests.support.same_networks import assert_same_network, network, on_threads
from tests.support.same_trees import assert_same_tree, tree

if __name__ == "__main__":
    with MPIPoolExecutor() as pool:
        workers = Workers(pool, scratch=sys.argv[1], timeout=300)
        assert_same_tree(tree(executor=workers), tree())
        assert_same_network(network(executor=workers), on_threads(1))
    print("the same")
"""


@pytest.mark.parametrize("n", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 4, 8))])
def test_models_are_the_same(tmp_path, n):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "scratch").mkdir()
    launcher = Path(sys.executable).with_name("mpiexec")
    command = [str(launcher) if launcher.exists() else "mpiexec", "-n", str(n + 1)]
    command += [sys.executable, "-m", "mpi4py.futures", str(tmp_path / "program.py"), str(tmp_path / "scratch")]
    roots = dict.fromkeys(("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"), "1")
    # More processes than cores must not wait by spinning.
    settings = {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", "OMPI_MCA_mpi_yield_when_idle": "1", **roots}
    paths = os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        command, env=os.environ | settings | {"PYTHONPATH": paths}, capture_output=True, text=True, timeout=400
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["the", "same"]
    assert list((tmp_path / "scratch").iterdir()) == []
