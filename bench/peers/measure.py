"""The measurements of every adapter: read, train, save and predict.

``python -m bench.peers.NAME JOB.json`` runs an adapter in its own environment. It writes ``result.json`` and
``predictions.npz`` to the folder of the job. Only NumPy and SciPy are needed here.

CPU seconds are user + system time of the process, of all its threads and of its children. Wall time is recorded too.
"""

from __future__ import annotations

import importlib.metadata
import json
import mmap
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

#: Labels per point when prediction is timed.
TOP = 5
#: Additional beam width of the other trees when seen items are masked, because masked labels fill most of a beam.
#: sparsenet widens its beam by up to as much.
WIDER_BEAM = 64
#: Test points for timing calls with a single point.
SINGLES = 1000
#: Bulk prediction is repeated for at least this time.
BULK_SECONDS = 1.0

Labels = Iterable[Sequence[int] | NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job of the driver: `data` contains {train,test}.txt and {train,test}.{X,Y}.npz, `folder` receives results."""

    data: Path
    folder: Path
    settings: Mapping[str, Any]
    threads: int
    seed: int
    depth: int
    mask_seen: bool

    @classmethod
    def load(cls, path: str) -> Job:
        fields = json.loads(Path(path).read_text())
        return cls(**{**fields, "data": Path(fields["data"]), "folder": Path(fields["folder"])})

    def matrix(self, name: str) -> sparse.csr_matrix:
        """Load a matrix such as ``"test.X"``."""
        return sparse.csr_matrix(sparse.load_npz(self.data / f"{name}.npz"))


class Peer(Protocol):
    """A system behind an adapter. The version of `distribution`, its name on PyPI, is recorded."""

    distribution: str

    def __init__(self, job: Job) -> None: ...

    def read(self) -> None:
        """Parse the training data; measured separately from training."""

    def train(self) -> None:
        """Do everything from parsed data to a model that can predict; measured."""

    def save(self, path: Path) -> None:
        """Write the model to a file or folder of that name, and load it again if prediction needs that."""

    # A peer with a static method `load(path)`, which returns a saved model, is measured for the memory of that, too.

    def use_threads(self, threads: int) -> None:
        """Set the number of threads for prediction."""

    def mask_seen_items(self) -> None:
        """Prepare for masking: enough predictions must be left after the features of a point are removed."""

    def points(self, X: sparse.csr_matrix) -> Any:
        """Convert test points to the input of the system; not measured, since it counts as parsing."""

    def predict(self, points: Any, k: int) -> Any:
        """Predict the k best labels of each point; measured."""

    def ranked(self, output: Any) -> Labels:
        """Convert the output of `predict` to label numbers, best first, for each point; not measured."""


def main(make_peer: type[Peer]) -> None:
    """Run the job that the command line names, or measure the memory of a saved model."""
    if sys.argv[1] == "--load":
        print(json.dumps(_loaded(make_peer, Path(sys.argv[2]))))
        return
    job = Job.load(sys.argv[1])
    peer = make_peer(job)
    result: dict[str, Any] = {"versions": _versions(peer)}
    with measured(result, "parse"):
        peer.read()
    forget_peak()
    result["rss_before_training_mb"] = peak_mb()
    with measured(result, "train"):
        peer.train()
    result["peak_rss_mb"] = peak_mb()
    model = job.folder / "model"
    peer.save(model)
    result["model_mb"] = size_mb(model)
    if hasattr(make_peer, "load") and result["model_mb"]:
        spec = sys.modules["__main__"].__spec__
        assert spec is not None, "an adapter runs as a module"
        command = [sys.executable, "-m", spec.name, "--load", str(model)]
        result |= json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    X = job.matrix("test.X")
    result |= bulk(peer, X, job.threads) | singles(peer, X, job.seed)
    peer.use_threads(job.threads)
    if job.mask_seen:
        peer.mask_seen_items()
    labels = _padded(peer.ranked(peer.predict(peer.points(X), job.depth)), X.shape[0], job.depth)
    np.savez_compressed(job.folder / "predictions.npz", labels=labels)
    result["peak_rss_with_prediction_mb"] = peak_mb()
    (job.folder / "result.json").write_text(json.dumps(result))


def _versions(peer: Peer) -> dict[str, str]:
    names = {peer.distribution, "numpy", "scipy"}
    installed = {dist.name: dist.version for dist in importlib.metadata.distributions() if dist.name in names}
    return {"python": platform.python_version(), **installed}


# --- speed ---


def bulk(peer: Peer, X: sparse.csr_matrix, threads: int, seconds: float = BULK_SECONDS) -> dict[str, float]:
    """Time the best bulk call of a system, repeated for at least `seconds`."""
    peer.use_threads(threads)
    points = peer.points(X)
    peer.predict(peer.points(X[:10]), TOP)  # the first call may include set-up
    spent: dict[str, float] = {}
    passes = 0
    with measured(spent, "bulk"):
        start = time.perf_counter()
        while passes == 0 or time.perf_counter() - start < seconds:
            peer.predict(points, TOP)
            passes += 1
    n_predicted = passes * X.shape[0]
    return {
        "points_per_cpu_second": n_predicted / spent["bulk_cpu_seconds"],
        "points_per_second": n_predicted / spent["bulk_seconds"],
    }


def singles(peer: Peer, X: sparse.csr_matrix, seed: int) -> dict[str, float]:
    """Time calls with a single point on one thread; further threads do not help, and may wait for each other."""
    peer.use_threads(1)
    chosen = np.random.default_rng(seed).permutation(X.shape[0])[:SINGLES]
    points = [peer.points(X[i : i + 1]) for i in chosen]
    for point in points[:20]:
        peer.predict(point, TOP)
    wall, cpu = [], []
    for point in points:
        start, before = time.perf_counter_ns(), time.process_time_ns()
        peer.predict(point, TOP)
        wall.append((time.perf_counter_ns() - start) / 1e6)
        cpu.append((time.process_time_ns() - before) / 1e6)
    p50, p99 = np.percentile(wall, [50, 99])
    return {"single_ms_p50": float(p50), "single_ms_p99": float(p99), "single_cpu_ms_p50": float(np.median(cpu))}


@contextmanager
def measured(result: dict[str, Any], name: str) -> Iterator[None]:
    """Add the CPU and wall seconds that the body takes to `result`."""
    wall, cpu = time.perf_counter(), _cpu_seconds()
    yield
    result[f"{name}_cpu_seconds"] = _cpu_seconds() - cpu
    result[f"{name}_seconds"] = time.perf_counter() - wall


def _cpu_seconds() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


# --- sizes ---


def _loaded(make_peer: Any, path: Path) -> dict[str, float]:
    """Return the resident memory that a loaded model adds to the libraries, in 10^6 bytes."""
    before = _resident_mb()
    model = make_peer.load(path)
    found = {"loaded_mb": _resident_mb() - before}
    del model
    return found


def _resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE / 1e6


def forget_peak() -> None:
    """Reset the peak of resident memory to its current value, so that the peak of parsing does not count."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_mb() -> float:
    """Return the peak of resident memory since `forget_peak`, in 10^6 bytes.

    getrusage does not serve: on Linux its ru_maxrss starts from the memory of the parent process.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError("/proc/self/status has no VmHWM: peak memory can only be measured on Linux")


def size_mb(path: Path) -> float:
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files) / 1e6


def _padded(rows: Labels, n_points: int, depth: int) -> NDArray[np.int32]:
    """Return label numbers as (n_points, depth), padded with -1."""
    labels = np.full((n_points, depth), -1, dtype=np.int32)
    n_rows = 0
    for row, found in zip(labels, rows, strict=False):
        row[: len(found)] = found[:depth]
        n_rows += 1
    if n_rows != n_points:
        raise ValueError(f"{n_rows} rows of predictions for {n_points} points")
    return labels


def ranked_csr(scores: sparse.csr_matrix) -> Labels:
    """Rank the entries of each row of a sparse matrix by score."""
    for begin, end in zip(scores.indptr[:-1], scores.indptr[1:], strict=True):
        yield scores.indices[begin:end][np.argsort(-scores.data[begin:end], kind="stable")]


def unit_rows(X: sparse.csr_matrix) -> sparse.csr_matrix:
    """Divide each row by its Euclidean length, as float32; empty rows stay empty."""
    lengths = np.sqrt(np.bincount(np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), X.data**2, X.shape[0]))
    values = X.data / np.repeat(np.where(lengths > 0, lengths, 1), np.diff(X.indptr))
    return sparse.csr_matrix((values.astype(np.float32), X.indices, X.indptr), shape=X.shape)


def bags(X: sparse.csr_matrix) -> list[list[tuple[int, float]]]:
    """Return each point as a list of (feature, value), for systems that take Python lists."""
    indices, values = X.indices.tolist(), X.data.tolist()
    bounds = zip(X.indptr[:-1], X.indptr[1:], strict=True)
    return [list(zip(indices[begin:end], values[begin:end], strict=True)) for begin, end in bounds]
