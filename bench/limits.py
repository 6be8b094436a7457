"""The roofline: what this machine can do at most, and the least time that a training step could take on it.

    python -m bench.limits [--threads 1]

`bench/roofline.c` is compiled for this machine and run; a C compiler is needed, as for the project itself.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

SOURCE = Path(__file__).with_name("roofline.c")
PROGRAM = Path(".bench") / "roofline"
#: The array that is streamed and gathered from, in megabytes, and how often.
MEGABYTES, ROUNDS = 800, 9
LINE = 64
#: Bytes of a float32 weight that Adam reads and writes: the weight and both moments; Adagrad: the weight and one sum.
ADAM_BYTES, ADAGRAD_ARRAYS = 24, 2


def machine_limits(threads: int, reached: str = "best") -> dict[str, float]:
    """Measure limits, and return the "best" that were reached, the machine's own, or what `measured` has else."""
    return measured(threads)[reached]


def measured(threads: int) -> dict[str, dict[str, float]]:
    """Measure GFLOP/s of multiply-adds (float32, bfloat16) and GB/s of streamed reads, gathered and updated rows.

    Of some rounds the "best", and the "median", which is what others left of it at the time.
    """
    if not PROGRAM.exists() or PROGRAM.stat().st_mtime < SOURCE.stat().st_mtime:
        PROGRAM.parent.mkdir(exist_ok=True)
        # All that this very CPU has: the program stays here, and is no part of what is built for others.
        flags = ["-O3", "-march=native", "-ffp-contract=fast"]
        subprocess.run([os.environ.get("CC", "cc"), *flags, "-o", PROGRAM, SOURCE, "-lpthread"], check=True)
    command = [PROGRAM.resolve(), str(threads), str(MEGABYTES), str(ROUNDS)]
    found: dict[str, dict[str, float]] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return found


def mean(some: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of limits that were measured one after another."""
    return {name: fmean(limits[name] for limits in some) for name in some[0]}


def least_step_seconds(work: Mapping[str, float], limits: Mapping[str, float]) -> dict[str, float]:
    """Return what a training step takes at the machine's limits, by what bounds each part, and their sum.

    `work` counts points, hidden units, active labels, features present and, for the wide path, weights in the active
    labels' supports, weights touched, the cache lines they are on, and pairs of a touched weight and a point. Three
    products make the tile and its gradients. Each row present or active is gathered once and updated once by Adam;
    supports are streamed; touched weights are updated by Adagrad where they lie, whole cache lines at a time. What
    caches can hold is free: the tile, rows met a second time. Parts are added up, as if nothing overlapped.
    """
    n, h, a, p = (work[name] for name in ("points", "hidden", "active", "present"))
    lines = work.get("touched_lines", 0) * LINE
    # Where tiles are bfloat16, and the CPU has an instruction for that, they have a limit of their own.
    tile_gflops = max(limits["fma_gflops"], limits.get("bf16_gflops", 0) if work.get("bf16") else 0)
    parts = {
        "tile": 6 * a * n * h / (1e9 * tile_gflops),
        "wide arithmetic": 4 * work.get("pairs", 0) / (1e9 * limits["fma_gflops"]),
        "gather rows": 4 * h * (a + p) / (1e9 * limits["gather_gbs"]),
        "update rows": ADAM_BYTES * h * (a + p) / (1e9 * limits["update_gbs"]),
        "read supports": 4 * work.get("support", 0) / (1e9 * limits["read_gbs"]),
        "update wide weights": 2 * ADAGRAD_ARRAYS * lines / (1e9 * limits["update_gbs"]),
    }
    return {**parts, "total": sum(parts.values())}


def main() -> None:
    """Print the limits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    print(json.dumps(measured(parser.parse_args().threads)))


if __name__ == "__main__":
    main()
