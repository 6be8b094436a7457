"""What a training run of `bench.quality` costs on a rented machine: its time, times what the machine costs an hour.

    python -m bench.price PRICE FILE [PRICE FILE ...]

PRICE is what the provider asks for an hour of the machine that made FILE, in any currency; look it up, there is none
here. The wall clock counts, since that is what is paid for; the median of the runs, and the whole machine, even if
fewer threads were used. Reading the data is not counted, nor is the time in which the machine stood idle.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import mean, median
from typing import Any

HEAD = (
    "| CPU | level | threads | data | system | precision | P@1 | training, s | price of a run | points for 1 |\n"
    f"{'|---' * 10}|"
)


def rows(price: float, report: dict[str, Any]) -> list[str]:
    """Return a line for each data set and system that was measured."""
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
    """Name what sparsenet multiplied with: two machines that chose by themselves did not do the same work."""
    if not system.startswith("sparsenet"):
        return "-"
    if settings.get("estimator") == "TreeClassifier":
        return "8 bits"
    return str(settings.get("precision") or f"auto: {machine.get('auto_precision', 'unknown')}")


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", nargs="+", metavar="PRICE FILE", help="price of an hour, and the result it goes with")
    pairs = parser.parse_args().pairs
    if len(pairs) % 2:
        parser.error("every FILE needs its PRICE before it")
    print(HEAD)
    for price, file in zip(pairs[::2], pairs[1::2], strict=True):
        try:
            hourly = float(price)
        except ValueError:
            parser.error(f"{price!r} is no price: each FILE has the price of an hour before it")
        print("\n".join(rows(hourly, json.loads(Path(file).read_text()))))


if __name__ == "__main__":
    main()
