"""Rows per second of the svmlight and XMC readers, against scikit-learn's on the same file.

    python -m bench.readers [--rows 20000] [--repeats 5] [--threads 1,2]

Each round runs every reader once, so that other load affects all alike; figures are medians.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
from sklearn.datasets import load_svmlight_file

from bench.report import numbers
from sparsenet import kernels
from sparsenet.data import read_svmlight, read_xmc

PEER = "sklearn load_svmlight_file"


def write_file(path: Path, n_rows: int, *, header: bool, seed: int = 0) -> None:
    """Write points in the shape of Amazon-670K: about 75 of 135,909 features and 5 of 670,091 labels per point."""
    rng = np.random.default_rng(seed)
    n_features, n_labels = 135_909, 670_091
    with path.open("w") as file:
        if header:
            file.write(f"{n_rows} {n_features} {n_labels}\n")
        for _ in range(n_rows):
            features = np.unique(rng.integers(0, n_features, rng.poisson(75) + 1))
            labels = np.unique(rng.integers(0, n_labels, rng.poisson(4) + 1))
            values = rng.random(len(features)) + 0.01
            pairs = " ".join(f"{f}:{v:.6g}" for f, v in zip(features, values, strict=True))
            file.write(",".join(map(str, labels)) + f" {pairs}\n")


def measure(call: Callable[[], object]) -> tuple[float, float]:
    """Return the wall and CPU seconds of a call."""
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - wall, time.process_time() - cpu


def medians(folder: Path, n_rows: int, repeats: int, threads: list[int]) -> tuple[dict[str, list[float]], float]:
    """Return the median wall and CPU seconds of each reader, and the size of the file in megabytes."""
    svmlight, xmc = folder / "points.svm", folder / "points.txt"
    write_file(svmlight, n_rows, header=False)
    write_file(xmc, n_rows, header=True)
    readers: dict[str, Callable[[], object]] = {
        PEER: lambda: load_svmlight_file(svmlight, dtype=np.float32, multilabel=True)
    }
    for n in threads:
        readers[f"read_svmlight, threads={n}"] = partial(read_svmlight, svmlight, threads=n)
        readers[f"read_xmc, threads={n}"] = partial(read_xmc, xmc, threads=n)
    read_svmlight(svmlight), read_xmc(xmc)  # the Numba kernels compile at first use
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in readers}
    for _ in range(repeats):
        for name, reader in readers.items():
            times[name].append(measure(reader))
    found = {name: [median(each) for each in zip(*pairs, strict=True)] for name, pairs in times.items()}
    return found, svmlight.stat().st_size / 1e6


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=numbers, default=sorted({1, len(os.sched_getaffinity(0))}))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        times, size = medians(Path(folder), options.rows, options.repeats, options.threads)
    print(f"{kernels.backend()} kernels, {os.cpu_count()} CPUs, Python {platform.python_version()}")
    print(f"{'reader':28}{'wall s':>9}{'CPU s':>9}{'rows/s':>12}{'MB/CPU s':>10}{'x CPU':>8}{'x rows/s':>10}")
    peer_wall, peer_cpu = times[PEER]
    for name, (wall, cpu) in times.items():
        print(
            f"{name:28}{wall:9.3f}{cpu:9.3f}{options.rows / wall:12,.0f}{size / cpu:10.0f}"
            f"{peer_cpu / cpu:8.1f}{peer_wall / wall:10.1f}"
        )


if __name__ == "__main__":
    main()
