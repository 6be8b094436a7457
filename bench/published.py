"""Published rows beside ours.

    python -m bench.published tgn [--steps FILE] [--nodes FILE]

Quoted rows were measured by others on other machines: they are no comparison of equals. Our rows come from the results
of `bench.tgn`, with machine and commit.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from bench.report import setting

RESULTS = Path(__file__).parent / "results"
#: A study of temporal graph networks on JODIE-Wikipedia; ratios of its text.
QUOTED = [
    ("accelerator with fast local memory, batch 10", "11 times the throughput of an A100", "quoted"),
    ("accelerator with fast local memory, batch 200", "3 times the throughput of an A100", "quoted"),
    ("the same, node memory in DRAM", "half of its throughput with local memory, at any size of the graph", "quoted"),
]


def median_of(runs: list[dict[str, Any]], name: str) -> float:
    """Return the median of a measurement over runs."""
    return float(median(run[name] for run in runs))


def step_rows(report: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return steps of sparsenet and PyG, by batch size and features."""
    rows = []
    for key in dict.fromkeys((run["batch"], run["features"]) for run in report["runs"]):
        own = [run for run in report["runs"] if (run["batch"], run["features"]) == key]
        ours, theirs = (median_of(own, f"{system}_ms") for system in ("sparsenet", "pyg"))
        what = f"sparsenet, one CPU thread, batch {key[0]}, features {key[1]}"
        rows.append(
            (what, f"{ours:.1f} ms a step, PyG on the same thread {theirs:.1f} ms: {theirs / ours:.1f} times", "ours")
        )
    return rows


def node_rows(report: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return the change of our steps from few nodes to many."""
    rows = []
    for size in dict.fromkeys(run["batch"] for run in report["runs"]):
        counts = sorted({run["nodes"] for run in report["runs"]})
        few, many = (
            median_of([run for run in report["runs"] if (run["batch"], run["nodes"]) == (size, n)], "sparsenet_ms")
            for n in (counts[0], counts[-1])
        )
        what = f"sparsenet, one CPU thread, batch {size}, {counts[0]:,} to {counts[-1]:,} nodes in DRAM"
        rows.append((what, f"{few:.1f} to {many:.1f} ms a step: throughput {100 * (few / many - 1):+.0f} %", "ours"))
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=["tgn"])
    parser.add_argument("--steps", type=Path, default=RESULTS / "tgn-steps.json", metavar="FILE")
    parser.add_argument("--nodes", type=Path, default=RESULTS / "tgn-nodes.json", metavar="FILE")
    options = parser.parse_args(arguments)
    reports = [json.loads(path.read_text()) for path in (options.steps, options.nodes)]
    rows = [*QUOTED, *step_rows(reports[0]), *node_rows(reports[1])]
    print("| system | throughput | source |\n|---|---|---|")
    print("\n".join(f"| {' | '.join(row)} |" for row in rows))
    print("\n" + "\n".join(map(setting, reports)))


if __name__ == "__main__":
    main()
