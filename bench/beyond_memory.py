"""Points on disk against points in memory: CPU time, peak memory and equality of a tree, a network and a blend.

    python -m bench.beyond_memory [--points 500000] [--labels 50000] [--models tree,network,blend] [--memory-limit 2GB]
                                  [--ways disk,memory] [--sizes FILE] [--threads 1] [--seed 0] [--kill SECONDS]
                                  [--data DIR] [--out FILE]

The points are `bench.planted` ones, saved as arrays that are mapped into memory. Each model is trained twice, each time
in a process of its own: with ``cache=``, and from matrices in memory with the sizes that the first run chose. With
``--ways memory``, --sizes names the result of the run from disk. The network trains one epoch, and the blend consists
of a tree and neighbors. Peak memory includes Python and its libraries. Training from disk keeps a checkpoint; with
--kill it is killed once, and goes on from there.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy import sparse

from bench import planted
from bench.peers.measure import forget_peak, peak_mb
from bench.planted import Shape
from bench.report import head, keep, setting
from bench.runner import in_child, use_cpus
from sparsenet import BlendClassifier, ExtremeClassifier, TreeClassifier, kernels
from sparsenet.core.memory import announce
from sparsenet.data.point_cache import stored_matrix
from sparsenet.engines.blend import blend_memory
from sparsenet.engines.network import building
from sparsenet.engines.tree import tree_memory
from sparsenet.metrics import precision_at_k

#: The arrays of a matrix, and their types in the files.
PARTS = {"indices": np.int32, "data": np.float32}
#: Numbers that are read from a file at a time.
NUMBERS_AT_A_TIME = 1 << 22


def write(folder: Path, shape: Shape, seed: int) -> None:
    """Save the arrays of a planted set, block by block: all its words may exceed memory."""
    labels, label_starts, bags = planted.draw(shape, seed)
    label_starts.tofile(folder / "Y.indptr")
    labels.tofile(folder / "Y.indices")
    np.ones(len(labels), np.float32).tofile(folder / "Y.data")
    held_by, sizes = np.zeros(shape.features, np.int64), [np.zeros(1, np.int64)]
    with (folder / "X.indices").open("wb") as words, (folder / "X.counts").open("wb") as counts:
        for bag in bags:
            bag.words.tofile(words)
            bag.counts.tofile(counts)
            held_by += np.bincount(bag.words, minlength=shape.features)
            sizes.append(bag.sizes)
    starts = np.cumsum(np.concatenate(sizes))
    starts.tofile(folder / "X.indptr")
    idf = planted.idf(held_by, len(starts) - 1)
    with (
        (folder / "X.indices").open("rb") as words,
        (folder / "X.counts").open("rb") as counts,
        (folder / "X.data").open("wb") as values,
    ):
        while len(read := np.fromfile(words, np.int32, NUMBERS_AT_A_TIME)):
            planted.tf_idf(np.fromfile(counts, np.int16, NUMBERS_AT_A_TIME), idf[read]).tofile(values)
    (folder / "X.counts").unlink()
    (folder / "shape.json").write_text(json.dumps({"points": shape.points, "X": shape.features, "Y": shape.labels}))


def read(folder: Path, name: str, *, mapped: bool = False, testing: bool = False) -> Any:
    """Load the training or test rows of a matrix, or map them into memory."""
    about = json.loads((folder / "shape.json").read_text())
    indptr = np.fromfile(folder / f"{name}.indptr", np.int64)
    own = indptr[about["points"] :] if testing else indptr[: about["points"] + 1]
    arrays = []
    for part in ("data", "indices"):
        file = folder / f"{name}.{part}"
        if mapped:
            arrays.append(np.memmap(file, PARTS[part], mode="r")[own[0] : own[-1]])
        else:
            offset = int(own[0]) * np.dtype(PARTS[part]).itemsize
            arrays.append(np.fromfile(file, PARTS[part], int(own[-1] - own[0]), offset=offset))
    starts = (own - own[0]).astype(np.int32)  # SciPy wants both kinds of numbers in one type
    return sparse.csr_array((*arrays, starts), shape=(len(own) - 1, about[name]))


def model_of(job: dict[str, Any]) -> Any:
    """Make the classifier of a job."""
    common = {"n_jobs": job["threads"], "random_state": job["seed"], "normalize": "rows", "verbose": True}
    if job["model"] == "blend":
        return BlendClassifier(network="drop", tree=TreeClassifier(memory_limit=job["memory_limit"]), **common)
    common["memory_limit"] = job["memory_limit"]
    return TreeClassifier(**common) if job["model"] == "tree" else ExtremeClassifier(epochs=1, **common, **job["sizes"])


@contextmanager
def announced() -> Iterator[dict[str, int]]:
    """Record the most memory, in bytes by purpose, that is announced at a time."""
    most: dict[str, int] = {}

    def record(needed: dict[str, int], *rest: Any, **more: Any) -> str | None:
        if sum(needed.values()) > sum(most.values()):
            most.clear()
            most.update(needed)
        return announce(needed, *rest, **more)

    with ExitStack() as stack:
        for module in (building, tree_memory, blend_memory):
            stack.enter_context(patch.object(module, "announce", record))
        yield most


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
        where = {"cache": folder / "cache", "checkpoint": folder / f"checkpoint-{job['model']}", "resume": True}
        model.fit(X, Y, **(where if cached else {}))
    found |= {"train_cpu": time.process_time() - cpu, "train_wall": time.perf_counter() - wall}
    found["fit_peak_mb"] = peak_mb()
    found["announced_mb"] = {purpose: size / 1e6 for purpose, size in needed.items()}
    if job["model"] == "network" and cached:
        found["sizes"] = {"hidden": model.choices_["hidden"].value, "wide_budget": model.choices_["wide_budget"].value}
    X_test, Y_test = (read(folder, name, testing=True) for name in ("X", "Y"))
    found["P@1"] = float(precision_at_k(Y_test[:5000], model.predict_topk(X_test[:5000], k=1), 1))
    found["peak_mb"] = peak_mb()  # a network announces the memory of predictions, too
    arrays, _ = model._pack(small=False)
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return {**found, "model_mb": sum(array.nbytes for array in arrays.values()) / 1e6, "digest": digest.hexdigest()}


def sizes_of(report: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Return the sizes that each model chose from disk."""
    return {run["model"]: run.get("sizes", {}) for run in report["runs"] if run["from"] == "disk"}


def main(arguments: Sequence[str] | None = None) -> None:
    """Save the points, train each model from disk and from memory, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=500_000)
    parser.add_argument("--labels", type=int, default=50_000)
    parser.add_argument("--models", default="tree,network")
    parser.add_argument("--ways", default="disk,memory", help="disk alone for points that memory cannot hold")
    parser.add_argument("--sizes", type=Path, help="a result from disk, whose sizes a network in memory takes")
    parser.add_argument("--memory-limit", default="2GB", help="the limit of each model from disk")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--limit", type=float, default=7200, help="seconds that each training may take")
    parser.add_argument(
        "--data", help="a folder to write the points to, or one that has them; default: a temporary one"
    )
    parser.add_argument("--kill", type=float, help="seconds after which the first training from disk is killed")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    use_cpus(options.threads)
    shape = Shape(points=options.points, labels=options.labels, test_points=5000)
    report = head(threads=options.threads)
    known = {} if options.sizes is None else sizes_of(json.loads(options.sizes.read_text()))
    with ExitStack() as stack:
        folder = options.data or stack.enter_context(tempfile.TemporaryDirectory(prefix="sparsenet-bench-"))
        if not (Path(folder) / "shape.json").exists():
            write(Path(folder), shape, options.seed)
        for name in options.models.split(","):
            job = {"data": folder, "seed": options.seed, "model": name, "memory_limit": options.memory_limit}
            how: dict[str, Any] = {"threads": options.threads, "limit": options.limit}
            runs, sizes = {}, known.get(name, {})
            if "disk" in options.ways:
                on_disk = {**job, "cached": True, "sizes": {}}
                if options.kill:
                    in_child("bench.beyond_memory", on_disk, **{**how, "limit": options.kill})
                runs["disk"] = in_child("bench.beyond_memory", on_disk, **how)
                sizes = runs["disk"].get("sizes", {})
                for state in Path(folder).glob(f"checkpoint-{name}*"):
                    shutil.rmtree(state)
            if "memory" in options.ways:
                in_memory = {**job, "memory_limit": None, "cached": False, "sizes": sizes}
                runs["memory"] = in_child("bench.beyond_memory", in_memory, **how)
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
