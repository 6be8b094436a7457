"""Hash index: speed of building and querying, and recall by the number of candidates.

    python -m bench.lsh [--labels 10000,100000,1000000] [--width 128] [--threads 1] [--tables 50]

The data is planted: label vectors form clusters and vary in length and bias; points are noisy activations of one label,
non-negative as after ReLU. Times are CPU seconds of the process, for queries the least of five. "candidates" is the
mean number of distinct labels in the buckets of a point, at most `probe_limit` from each. recall@5 is the share of a
point's exact top five among the first candidates; the row "random" shows it for random labels.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np

from sparsenet import kernels
from sparsenet.index.exact import exact_topk
from sparsenet.index.hashing import LSHConfig, LSHIndex

LIMITS = (50, 200, 1000, 5000)
N_POINTS = 256


def planted(n_labels: int, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    clusters = rng.standard_normal((max(n_labels // 20, 50), width), dtype=np.float32)
    inputs = 0.7 * clusters[rng.integers(len(clusters), size=n_labels)]
    inputs += 0.7 * rng.standard_normal(inputs.shape, dtype=np.float32)
    weight = np.maximum(inputs - 0.3, 0)
    weight -= weight.mean(axis=0)
    weight *= 2 * np.exp(0.3 * rng.standard_normal((n_labels, 1), dtype=np.float32))
    weight /= np.sqrt(np.square(weight).sum(axis=1).mean())
    chosen = inputs[rng.integers(n_labels, size=N_POINTS)]
    hidden = np.maximum(chosen + 0.6 * rng.standard_normal(chosen.shape, dtype=np.float32) - 0.3, 0)
    bias = 0.3 * rng.standard_normal(n_labels, dtype=np.float32) - 5
    return hidden, weight, bias


def cpu_seconds(function: Callable[[], object], repeats: int = 1) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
    return best


def measure(config: LSHConfig, threads: int, hidden: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> str:
    n_labels, width = weight.shape
    index = LSHIndex(config, n_labels, width, threads)
    build = cpu_seconds(lambda: index.rebuild(weight, bias))
    changed = np.arange(0, len(weight), 20)
    update = cpu_seconds(lambda: index.update(weight, bias, changed))
    index.query(hidden, 4096)
    shared = cpu_seconds(lambda: index.query(hidden[::4], 4096), 5)
    batch = cpu_seconds(lambda: index.query_each(hidden, 512), 5)
    single = cpu_seconds(lambda: index.query_each(hidden[:1], 512), 5)
    candidates = index.query_each(hidden, len(weight)).ids.size / N_POINTS
    recalls = recall_by_limit(index, hidden, weight, bias)
    return (
        f"{len(weight):>9,} {config.family:>8} {config.n_bits:>4} {index.nbytes / 2**20:>7.0f} {build:>7.2f} "
        f"{len(weight) / build / 1e6:>8.2f} {update:>7.2f} {shared * 1e3:>8.2f} {batch / N_POINTS * 1e6:>8.0f} "
        f"{single * 1e6:>7.0f} {candidates:>10.0f}  " + " ".join(f"{recall:>6.3f}" for recall in recalls)
    )


def recall_by_limit(index: LSHIndex, hidden: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> list[float]:
    top = exact_topk(hidden, weight, bias, 5, index.threads)
    found = index.query_each(hidden, max(LIMITS))
    bounds = zip(found.indptr[:-1], found.indptr[1:], strict=True)
    lists = [found.ids[first:last] for first, last in bounds]
    return [
        float(np.mean([np.isin(row, ids[:limit]).mean() for row, ids in zip(top, lists, strict=True)]))
        for limit in LIMITS
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", default="10000,100000,1000000")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tables", type=int, default=50)
    options = parser.parse_args()
    print(f"kernels {kernels.backend()} {kernels.isa_used()}, {options.threads} threads, {options.tables} tables")
    print(
        f"{'labels':>9} {'family':>8} {'bits':>4} {'MiB':>7} {'build s':>7} {'Mlabel/s':>8} {'5% upd':>7} "
        f"{'64 sh.ms':>8} {'us/point':>8} {'one us':>7} {'candidates':>10}  recall@5 of {', '.join(map(str, LIMITS))}"
    )
    for n_labels in map(int, options.labels.split(",")):
        hidden, weight, bias = planted(n_labels, options.width)
        for family in ("simhash", "dwta", "minhash"):
            config = LSHConfig.for_size(n_labels, family, n_tables=options.tables)
            print(measure(config, options.threads, hidden, weight, bias), flush=True)
        chance = " ".join(f"{min(limit / n_labels, 1):>6.3f}" for limit in LIMITS)
        print(f"{n_labels:>9,} {'random':>8}{'':77}{chance}")


if __name__ == "__main__":
    main()
