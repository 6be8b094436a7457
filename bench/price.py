"""Cost of a training run of `bench.quality` on a rented machine: its time times the price of an hour.

    python -m bench.price PRICE FILE [PRICE FILE ...]

PRICE is the provider's price for an hour of the machine that made FILE, in any currency; look it up. The cost is the
median wall time of the runs times the price of the whole machine, even if a run used fewer threads. Reading the data
and idle time are not counted.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

HEAD = (
    "| CPU | level | threads | data | system | precision | P@1 | training, s | price of a run | points per price |\n"
    f"{'|---' * 10}|"
)


def rows(price: float, report: dict[str, Any]) -> list[str]:
    """Return a row for each measured data set and system."""
    runs: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in report["runs"]:
        if run["status"] == "measured":
            runs.setdefault((run["data"], run["system"]), []).append(run)
    return [_row(price, report, *name, measured) for name, measured in runs.items()]


def _row(price: float, report: dict[str, Any], data: str, system: str, runs: list[dict[str, Any]]) -> str:
    seconds = median(run["train_seconds"] for run in runs)
    cost = price * seconds / 3600
    points = report["data"][data]["train"]["points"]
    machine = report["machine"]
    cells = (
        machine["cpu"],
        machine["isa_used"],
        str(report["threads"]),
        data,
        system,
        _precision(machine, system, runs[0]["settings"]),
    )
    first = f"{100 * mean(run['scores']['P@1'] for run in runs):.1f}"
    return f"| {' | '.join(cells)} | {first} | {seconds:.1f} | {cost:.4f} | {points / cost:,.0f} |"


def _precision(machine: dict[str, Any], system: str, settings: dict[str, Any]) -> str:
    """Name the precision of sparsenet's products, since the automatic choice differs between machines."""
    if not system.startswith("sparsenet"):
        return "-"
    if settings.get("estimator") == "TreeClassifier":
        return "8 bits"
    return str(settings.get("precision") or f"auto: {machine.get('auto_precision', 'unknown')}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "pairs", nargs="+", metavar="PRICE FILE", help="price of an hour, and the result of that machine"
    )
    pairs = parser.parse_args(arguments).pairs
    if len(pairs) % 2:
        parser.error("each FILE needs a PRICE before it")
    print(HEAD)
    for price, file in zip(pairs[::2], pairs[1::2], strict=True):
        try:
            hourly = float(price)
        except ValueError:
            parser.error(f"{price!r} is not a price: each FILE needs a PRICE before it")
        print("\n".join(rows(hourly, json.loads(Path(file).read_text()))))


if __name__ == "__main__":
    main()
