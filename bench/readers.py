"""Rows per second of the svmlight and XMC readers, against scikit-learn's on the same file.

    python bench/readers.py [--rows 20000] [--repeats 5] [--threads 1,2] [--json]

Each round runs every reader once, so that other load affects all alike; figures are medians.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file

from sparsenet import kernels
from sparsenet.data import read_svmlight, read_xmc


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


def run(folder: Path, n_rows: int, repeats: int, threads: list[int]) -> list[dict[str, Any]]:
    svmlight, xmc = folder / "points.svm", folder / "points.txt"
    write_file(svmlight, n_rows, header=False)
    write_file(xmc, n_rows, header=True)
    readers: dict[str, Callable[[], object]] = {
        "sklearn load_svmlight_file": lambda: load_svmlight_file(svmlight, dtype=np.float32, multilabel=True),
    }
    for n in threads:
        readers[f"read_svmlight, threads={n}"] = partial(read_svmlight, svmlight, threads=n)
        readers[f"read_xmc, threads={n}"] = partial(read_xmc, xmc, threads=n)
    read_svmlight(svmlight), read_xmc(xmc)  # the Numba kernels compile at first use
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in readers}
    for _ in range(repeats):
        for name, reader in readers.items():
            times[name].append(measure(reader))
    size = svmlight.stat().st_size / 1e6
    results = []
    for name, pairs in times.items():
        wall, cpu = (median(pair[i] for pair in pairs) for i in (0, 1))
        base_wall, base_cpu = (median(pair[i] for pair in times["sklearn load_svmlight_file"]) for i in (0, 1))
        results.append(
            {
                "reader": name,
                "wall_s": wall,
                "cpu_s": cpu,
                "rows_per_s": n_rows / wall,
                "rows_per_cpu_s": n_rows / cpu,
                "mb_per_cpu_s": size / cpu,
                "times_sklearn_cpu": base_cpu / cpu,
                "times_sklearn_wall": base_wall / wall,
            }
        )
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=5)
    threads = sorted({1, len(os.sched_getaffinity(0))})
    parser.add_argument("--threads", type=lambda text: [int(n) for n in text.split(",")], default=threads)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = run(Path(folder), arguments.rows, arguments.repeats, arguments.threads)
    machine = {"backend": kernels.backend(), "cpus": os.cpu_count(), "python": platform.python_version()}
    if arguments.json:
        json.dump({"machine": machine, "arguments": vars(arguments), "results": results}, sys.stdout, indent=2)
        print()
        return
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    print(f"{'reader':28}{'wall s':>9}{'CPU s':>9}{'rows/s':>12}{'MB/CPU s':>10}{'x CPU':>8}{'x rows/s':>10}")
    for row in results:
        print(
            f"{row['reader']:28}{row['wall_s']:9.3f}{row['cpu_s']:9.3f}{row['rows_per_s']:12,.0f}"
            f"{row['mb_per_cpu_s']:10.0f}{row['times_sklearn_cpu']:8.1f}{row['times_sklearn_wall']:10.1f}"
        )


if __name__ == "__main__":
    main()
