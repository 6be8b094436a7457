"""Points on disk against points in memory: CPU time, peak memory and equality of a tree and of one epoch of a network.

    python -m bench.beyond_memory [--points 500000] [--labels 50000] [--models tree,network] [--memory-limit 2GB]
                                  [--ways disk,memory] [--threads 1] [--seed 0] [--out FILE]

The points are `bench.planted` ones, saved as arrays that are mapped into memory. Each model is trained twice, each time
in a process of its own: with ``cache=``, and from matrices in memory with the sizes that the first run chose. Peak
memory includes Python and its libraries.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from bench.peers.measure import forget_peak, peak_mb
from bench.planted import Shape, generate
from bench.report import head, keep, setting
from bench.runner import in_child, use_cpus
from bench.scale_run import announced
from sparsenet import ExtremeClassifier, TreeClassifier, kernels
from sparsenet.data.point_cache import stored_matrix
from sparsenet.metrics import precision_at_k

PARTS = ("indptr", "indices", "data")


def write(folder: Path, shape: Shape, seed: int) -> None:
    """Save the arrays of a planted set."""
    data = generate(shape, seed)._asdict()
    for name in [*data]:
        matrix = data.pop(name)
        np.save(folder / f"{name}.shape.npy", matrix.shape)
        for part in PARTS:
            np.save(folder / f"{name}.{part}.npy", getattr(matrix, part))


def read(folder: Path, name: str, *, mapped: bool) -> Any:
    """Load a matrix, or map it into memory."""
    mode: Any = "r" if mapped else None
    indptr, indices, data = (np.load(folder / f"{name}.{part}.npy", mmap_mode=mode) for part in PARTS)
    return sparse.csr_array((data, indices, indptr), shape=tuple(np.load(folder / f"{name}.shape.npy")))


def model_of(job: dict[str, Any]) -> Any:
    """Make the classifier of a job."""
    common = {"n_jobs": job["threads"], "random_state": job["seed"], "normalize": "rows", "verbose": False}
    if job["model"] == "tree":
        return TreeClassifier(**common)
    return ExtremeClassifier(epochs=1, memory_limit=job["memory_limit"], **common, **job["sizes"])


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """Train once, from disk or from memory."""
    folder, cached = Path(job["data"]), job["cached"]
    kernels.backend()
    model = model_of(job)
    X, Y = (read(folder, name, mapped=cached) for name in ("X", "Y"))
    found: dict[str, Any] = {}
    forget_peak()
    found["rss_before_mb"] = peak_mb()
    if cached:
        cpu = time.process_time()
        stored = stored_matrix(X, folder / "cache")
        found["store_cpu"] = time.process_time() - cpu
        found["store_peak_mb"] = peak_mb()
        found["bytes_per_entry"] = Path(stored.path).stat().st_size / stored.nnz
        del stored
        forget_peak()
    cpu, wall = time.process_time(), time.perf_counter()
    with announced() as needed:
        model.fit(X, Y, **({"cache": folder / "cache"} if cached else {}))
    found |= {"train_cpu": time.process_time() - cpu, "train_wall": time.perf_counter() - wall}
    found["fit_peak_mb"] = peak_mb()
    found["announced_mb"] = {purpose: size / 1e6 for purpose, size in needed.items()}
    if job["model"] == "network" and cached:
        found["sizes"] = {"hidden": model.choices_["hidden"].value, "wide_budget": model.choices_["wide_budget"].value}
    X_test, Y_test = (read(folder, f"{name}_test", mapped=False) for name in ("X", "Y"))
    found["P@1"] = float(precision_at_k(Y_test[:5000], model.predict_topk(X_test[:5000], k=1), 1))
    found["peak_mb"] = peak_mb()  # a network announces the memory of predictions, too
    arrays, _ = model._pack(small=False)
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return {**found, "model_mb": sum(array.nbytes for array in arrays.values()) / 1e6, "digest": digest.hexdigest()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Save the points, train each model from disk and from memory, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=500_000)
    parser.add_argument("--labels", type=int, default=50_000)
    parser.add_argument("--models", default="tree,network")
    parser.add_argument("--ways", default="disk,memory", help="disk alone for points that memory cannot hold")
    parser.add_argument("--memory-limit", default="2GB", help="the limit of the network")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--limit", type=float, default=7200, help="seconds that each training may take")
    parser.add_argument("--folder", help="where the points and their cache are written; default: a temporary folder")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    use_cpus(options.threads)
    shape = Shape(points=options.points, labels=options.labels, test_points=5000)
    report = head(threads=options.threads)
    with tempfile.TemporaryDirectory(prefix="sparsenet-bench-", dir=options.folder) as folder:
        write(Path(folder), shape, options.seed)
        for name in options.models.split(","):
            job = {"data": folder, "seed": options.seed, "model": name, "memory_limit": options.memory_limit}
            how: dict[str, Any] = {"threads": options.threads, "limit": options.limit}
            disk = in_child("bench.beyond_memory", {**job, "cached": True, "sizes": {}}, **how)
            runs = {"disk": disk}
            if "memory" in options.ways:
                sizes = {**job, "memory_limit": None, "cached": False, "sizes": disk.get("sizes", {})}
                runs["memory"] = in_child("bench.beyond_memory", sizes, **how)
            for way, run in runs.items():
                about = {"model": name, "points": options.points, "labels": options.labels, "from": way}
                report["runs"].append({**about, **run})
                print(json.dumps(report["runs"][-1]), flush=True)
            if options.out:
                keep(report, options.out)
    print(setting(report))


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1].endswith("job.json"):
        Path(sys.argv[2]).write_text(json.dumps(measure(json.loads(Path(sys.argv[1]).read_text()))))
    else:
        main()
