"""What every adapter does with its system: read, train, save, predict, and measure that.

An adapter is run as ``python -m bench.peers.NAME JOB.json`` by its own environment; it leaves ``result.json`` and
``predictions.npz`` in the job's folder. NumPy and SciPy are all that is needed here.

CPU seconds are user + system of the process, all its threads and its children. The wall clock runs beside them.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
import resource
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

#: Predictions asked for where time is measured.
TOP = 5
#: Where what a point's features name is struck from its predictions, the trees of others follow so many more nodes of a
#: level for them, as sparsenet's does: what is struck takes up most of a beam.
WIDER_BEAM = 64
#: Test points that are sent alone, one after the other, to measure the time of one call.
SINGLES = 1000
#: Bulk prediction is repeated until it has taken so long.
BULK_SECONDS = 1.0

Labels = Iterable[Sequence[int] | NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class Job:
    """What the driver asks for: `data` holds {train,test}.txt and {train,test}.{X,Y}.npz, `folder` takes results."""

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
    """A system behind an adapter. `distribution` is its name on PyPI, whose version is recorded."""

    distribution: str

    def __init__(self, job: Job) -> None: ...

    def read(self) -> None:
        """Parse the training data: measured, but apart from training."""

    def train(self) -> None:
        """Do everything between parsed data and a model that predicts."""

    def save(self, path: Path) -> None:
        """Write the model to a file or folder of that name; the model may be loaded again for prediction."""

    def use_threads(self, threads: int) -> None:
        """Predict with so many threads from now on."""

    def strike_seen(self) -> None:
        """Predict from now on so that enough is left when what the features of a point name is struck."""

    def points(self, X: sparse.csr_matrix) -> Any:
        """Turn test points into what the system takes: not measured, as it is a matter of parsing."""

    def predict(self, points: Any, k: int) -> Any:
        """Predict the k best labels of each point: measured."""

    def ranked(self, output: Any) -> Labels:
        """Turn what `predict` returned into label numbers, best first, for each point: not measured."""


def main(make_peer: type[Peer]) -> None:
    """Carry out the job named on the command line."""
    job = Job.load(sys.argv[1])
    peer = make_peer(job)
    result: dict[str, Any] = {"versions": _versions(peer)}
    with _measured(result, "parse"):
        peer.read()
    forget_peak()
    result["rss_before_training_mb"] = peak_mb()
    with _measured(result, "train"):
        peer.train()
    result["peak_rss_mb"] = peak_mb()
    model = job.folder / "model"
    peer.save(model)
    result["model_mb"] = size_mb(model)
    X = job.matrix("test.X")
    result |= bulk(peer, X, job.threads) | singles(peer, X, job.seed)
    peer.use_threads(job.threads)
    if job.mask_seen:
        peer.strike_seen()
    labels = _padded(peer.ranked(peer.predict(peer.points(X), job.depth)), X.shape[0], job.depth)
    np.savez_compressed(job.folder / "predictions.npz", labels=labels)
    result["peak_rss_with_prediction_mb"] = peak_mb()
    (job.folder / "result.json").write_text(json.dumps(result))


def _versions(peer: Peer) -> dict[str, str]:
    names = {peer.distribution, "numpy", "scipy"}
    installed = {dist.name: dist.version for dist in importlib.metadata.distributions() if dist.name in names}
    return {"python": platform.python_version(), **installed}


# --- speed ---


def bulk(peer: Peer, X: sparse.csr_matrix, threads: int) -> dict[str, float]:
    peer.use_threads(threads)
    points = peer.points(X)
    peer.predict(peer.points(X[:10]), TOP)  # the first call may set things up
    spent: dict[str, float] = {}
    passes = 0
    with _measured(spent, "bulk"):
        start = time.perf_counter()
        while passes == 0 or time.perf_counter() - start < BULK_SECONDS:
            peer.predict(points, TOP)
            passes += 1
    n_predicted = passes * X.shape[0]
    return {
        "points_per_cpu_second": n_predicted / spent["bulk_cpu_seconds"],
        "points_per_second": n_predicted / spent["bulk_seconds"],
    }


def singles(peer: Peer, X: sparse.csr_matrix, seed: int) -> dict[str, float]:
    """Time calls with one point each, on one thread: more of them do not help and may wait for each other."""
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
def _measured(result: dict[str, Any], name: str) -> Iterator[None]:
    wall, cpu = time.perf_counter(), _cpu_seconds()
    yield
    result[f"{name}_cpu_seconds"] = _cpu_seconds() - cpu
    result[f"{name}_seconds"] = time.perf_counter() - wall


def _cpu_seconds() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


# --- sizes ---


def forget_peak() -> None:
    """Let the peak start again from the memory that is held now: what parsing needed for a while is not training's."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_mb() -> float:
    """Return the most memory that this process has held since `forget_peak`, in 10^6 bytes.

    Not by getrusage: on Linux its ru_maxrss starts from what the parent process held.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError("/proc/self/status names no VmHWM; peak memory can be measured on Linux alone")


def size_mb(path: Path) -> float:
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files) / 1e6


def _padded(rows: Labels, n_points: int, depth: int) -> NDArray[np.int32]:
    """Lay label numbers out as (n_points, depth), -1 where a system predicted fewer."""
    labels = np.full((n_points, depth), -1, dtype=np.int32)
    n_rows = 0
    for row, found in zip(labels, rows, strict=False):
        row[: len(found)] = found[:depth]
        n_rows += 1
    if n_rows != n_points:
        raise ValueError(f"{n_rows} rows were predicted for {n_points} points")
    return labels


def ranked_csr(scores: sparse.csr_matrix) -> Labels:
    """Rank the entries of each row by score, for systems that return a sparse matrix."""
    for begin, end in zip(scores.indptr[:-1], scores.indptr[1:], strict=True):
        yield scores.indices[begin:end][np.argsort(-scores.data[begin:end], kind="stable")]


def unit_rows(X: sparse.csr_matrix) -> sparse.csr_matrix:
    """Divide each row by its length, float32; an empty row stays."""
    lengths = np.sqrt(np.bincount(np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), X.data**2, X.shape[0]))
    values = X.data / np.repeat(np.where(lengths > 0, lengths, 1), np.diff(X.indptr))
    return sparse.csr_matrix((values.astype(np.float32), X.indices, X.indptr), shape=X.shape)


def bags(X: sparse.csr_matrix) -> list[list[tuple[int, float]]]:
    """Return each point as a list of (feature, value), for systems that take Python lists."""
    indices, values = X.indices.tolist(), X.data.tolist()
    bounds = zip(X.indptr[:-1], X.indptr[1:], strict=True)
    return [list(zip(indices[begin:end], values[begin:end], strict=True)) for begin, end in bounds]
