"""The roofline: peak rates of this machine, and the least time of a training step at these rates.

    python -m bench.limits [--threads 1]

`bench/roofline.c` is compiled for this machine and run, which needs a C compiler.
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
#: Size of the array for streamed and gathered reads in megabytes, and number of rounds.
MEGABYTES, ROUNDS = 800, 9
#: Bytes of a cache line.
LINE = 64
#: Adam reads and writes the weight and two moments, 24 bytes for float32. Adagrad has two arrays: weight and sum.
ADAM_BYTES, ADAGRAD_ARRAYS = 24, 2


def machine_limits(threads: int, megabytes: int = MEGABYTES, rounds: int = ROUNDS) -> dict[str, dict[str, float]]:
    """Measure GFLOP/s of multiply-adds (float32, bfloat16) and GB/s of streamed reads, gathered and updated rows.

    "best" is the maximum over rounds. "median" includes the load that other processes put on the machine.
    """
    if not PROGRAM.exists() or PROGRAM.stat().st_mtime < SOURCE.stat().st_mtime:
        PROGRAM.parent.mkdir(exist_ok=True)
        # -march=native is right here: the program is only run on the machine that compiles it.
        flags = ["-O3", "-march=native", "-ffp-contract=fast"]
        subprocess.run([os.environ.get("CC", "cc"), *flags, "-o", PROGRAM, SOURCE, "-lpthread"], check=True)
    command = [str(PROGRAM.resolve()), str(threads), str(megabytes), str(rounds)]
    found: dict[str, dict[str, float]] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return found


def mean(some: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of several measurements of the limits."""
    return {name: fmean(limits[name] for limits in some) for name in some[0]}


def least_step_seconds(work: Mapping[str, float], limits: Mapping[str, float]) -> dict[str, float]:
    """Return the least seconds of each part of a training step at the machine's limits, and their sum.

    `work` counts points, hidden units, active labels and present features. For the wide path it also counts weights in
    the supports of active labels, touched weights, their cache lines, and pairs of a touched weight and a point. Three
    products compute the tile and its gradients. Each active or present row is gathered once and updated once by Adam.
    Supports are streamed. Touched weights are updated in place by Adagrad, in whole cache lines. The tile and rows that
    are used again fit into caches, and cost nothing. The sum assumes that parts do not overlap.
    """
    n, h, a, p = (work[name] for name in ("points", "hidden", "active", "present"))
    lines = work.get("touched_lines", 0) * LINE
    # CPUs with bfloat16 instructions have a separate limit for bfloat16 tiles.
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
    print(json.dumps(machine_limits(parser.parse_args().threads)))


if __name__ == "__main__":
    main()
