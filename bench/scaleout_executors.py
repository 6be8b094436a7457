"""Train a tree and a blend on an executor, also if one of its workers is killed, and print hashes of the models.

    python -m bench.scaleout_executors processes --workers 2
    mpiexec -n 3 python -m mpi4py.futures -m bench.scaleout_executors mpi --workers 2

`bench.scaleout` runs this for each executor and number of workers. Tasks are small, so that there are
dozens. A killed worker of MPI ends the job: with ``--checkpoint DIRECTORY``, the same command then resumes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.planted import Planted, Shape, generate
from sparsenet import BlendClassifier, TreeClassifier, Workers
from sparsenet.engines.tree.machines import Rules

#: The executors, and the package that each needs.
EXECUTORS = {"processes": "concurrent.futures", "dask": "distributed", "ray": "ray", "mpi": "mpi4py"}
LABELS, POINTS = 1000, 9000
#: The task whose worker is killed.
KILLED = 20


class TreeOfSmallTasks(TreeClassifier):
    """A tree whose levels are many tasks, also with few points."""

    def _rules(self) -> Rules:
        return replace(super()._rules(), shard_points=2000, call_entries=1 << 16)


MODELS: dict[str, Callable[[], Any]] = {
    "tree": lambda: TreeOfSmallTasks(random_state=0, n_jobs=1, verbose=0),
    "blend": lambda: BlendClassifier(network="drop", tree=TreeOfSmallTasks(), random_state=0, n_jobs=1, verbose=0),
}


def planted() -> Planted:
    """Return the points and labels of all runs."""
    return generate(Shape.with_labels(LABELS, points=POINTS), 0)


def bits(model: Any) -> str:
    """Return a hash of everything that a model saves."""
    arrays, about = model._pack(small=False)
    found = hashlib.sha256(json.dumps(about, sort_keys=True, default=str).encode())
    for name in sorted(arrays):
        found.update(name.encode() + np.ascontiguousarray(arrays[name]).tobytes())
    return found.hexdigest()[:16]


def call_or_die(marker: str, call: Callable[..., Any], *arguments: Any) -> Any:
    """Call, but kill this worker if no other one was killed before."""
    if not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return call(*arguments)


class Killing(Executor):
    """An executor that kills the worker of its `KILLED`-th task; the marker is a file for that."""

    def __init__(self, inner: Executor, marker: str) -> None:
        self.inner, self.marker, self.n = inner, marker, 0

    def submit(self, call: Callable[..., Any], /, *arguments: Any, **_: Any) -> Future[Any]:
        """Send a call."""
        self.n += 1
        if self.n == KILLED:
            return self.inner.submit(call_or_die, self.marker, call, *arguments)
        return self.inner.submit(call, *arguments)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Shut the inner executor down."""
        self.inner.shutdown(wait=wait, cancel_futures=cancel_futures)


def processes(n: int) -> ProcessPoolExecutor:
    """Return a pool of spawned processes."""
    return ProcessPoolExecutor(n, mp_context=multiprocessing.get_context("spawn"))


@contextmanager
def opened(name: str, n: int) -> Iterator[Executor | Callable[[], Executor]]:
    """Start the workers of an executor; yield it, or a function that makes it again after a worker died."""
    if name == "processes":
        yield lambda: processes(n)
    elif name == "dask":
        from distributed import Client, LocalCluster

        how = {"threads_per_worker": 1, "processes": True, "dashboard_address": None, "memory_limit": 0}
        with LocalCluster(n_workers=n, **how) as cluster, Client(cluster) as client:
            yield client.get_executor()
    elif name == "ray":
        import ray

        from sparsenet.distributed import RayExecutor

        of_ray: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False, "logging_level": "error"}
        ray.init(num_cpus=n, object_store_memory=100 << 20, **of_ray)
        yield RayExecutor()
        ray.shutdown()
    else:
        from mpi4py.futures import MPIPoolExecutor

        with MPIPoolExecutor() as pool:
            yield pool


def killing(given: Executor | Callable[[], Executor], marker: Path) -> Killing | Callable[[], Killing]:
    """Wrap an executor, or a function that makes one."""
    if isinstance(given, Executor):
        return Killing(given, str(marker))
    return lambda: Killing(given(), str(marker))


def train(
    given: Executor | Callable[[], Executor], models: Sequence[str], runs: Sequence[str], checkpoint: Path | None
) -> dict[str, str]:
    """Train models, as they are or with a killed worker; return the bits.

    With a checkpoint, each run resumes, and only the first one kills a worker.
    """
    data, found = planted(), dict[str, str]()
    for name in models:
        with tempfile.TemporaryDirectory(prefix="sparsenet-bench-") as folder:
            if "whole" in runs:
                workers = Workers(given, scratch=folder, timeout=500)
                found[name] = bits(MODELS[name]().fit(data.X, data.Y, executor=workers))
            if "killed" in runs:
                marker = (Path(folder) if checkpoint is None else checkpoint) / f"{name}-killed"
                how = {} if checkpoint is None else {"checkpoint": checkpoint / name, "resume": True}
                workers = Workers(killing(given, marker), scratch=folder, timeout=500)
                found[f"{name}, killed"] = bits(MODELS[name]().fit(data.X, data.Y, executor=workers, **how))
                assert marker.exists(), "no worker was killed"
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the bits as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("executor", choices=list(EXECUTORS))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--runs", nargs="+", choices=["whole", "killed"], default=["whole", "killed"])
    parser.add_argument("--checkpoint", type=Path)
    options = parser.parse_args(arguments)
    with opened(options.executor, options.workers) as given:
        print(json.dumps(train(given, options.models, options.runs, options.checkpoint)))


if __name__ == "__main__":
    main()
