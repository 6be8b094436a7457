"""Test whether this commit is slower than another one: ``make bench-check`` runs

    python -m bench.check [--base main] [--rounds 9] [--most-rounds 27] [--limit 0.05]
                          [--out bench/results/check.json]

The working tree, uncommitted changes included, and the base commit are built with the same compiler and Python.
`bench/figures.py` measures both in turn on this machine: one process each per round, in alternating order. Figures of
another day or machine are never compared.

For each figure the *ratio* within a round counts, so load that lasts longer than a round cancels out. The verdict uses
the median ratio over rounds, and order statistics as its 95 % confidence interval. A figure FAILS if the median fell by
more than the limit and the whole interval is below 1. It is *unresolved* if the interval reaches below the limit
otherwise, because a loss of that size could be hidden. Then further rounds are run, up to a bound; figures that stay
unresolved are reported and pass. `--base HEAD` without changes compares a commit with itself and shows the resolution
of this machine.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench import machine, sides
from bench.report import head, keep

CONFIDENCE = 0.95
SIDES = ("base", "this")


@dataclass(frozen=True)
class Verdict:
    """The verdict on a figure: median and interval of its ratios, this commit over the base."""

    ratio: float
    low: float
    high: float
    state: str


def interval(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return order statistics that enclose the true median with at least this probability, or the range if too few.

    >>> interval([5.0, 1.0, 4.0, 2.0, 3.0, 6.0, 9.0, 8.0, 7.0])
    (2.0, 8.0)
    """
    ordered, n = sorted(values), len(values)
    skipped = 0
    # The number of values below the median is binomial.
    while 1 - 2 * sum(math.comb(n, j) for j in range(skipped + 2)) / 2**n >= confidence:
        skipped += 1
    return ordered[skipped], ordered[n - 1 - skipped]


def decide(ratios: Sequence[float], limit: float) -> Verdict:
    """Decide whether a figure fell by more than the limit, or whether the interval is too wide to tell.

    >>> decide([0.90, 0.91, 0.89, 0.90, 0.92, 0.90, 0.91, 0.90, 0.89], limit=0.05).state
    'FAILS'
    >>> decide([1.0, 1.01, 0.99, 1.0, 1.02, 1.0, 1.01, 1.0, 0.99], limit=0.05).state
    'holds'
    """
    middle, (low, high) = median(ratios), interval(ratios)
    if middle < 1 - limit and high < 1:
        state = "FAILS"
    elif low < 1 - limit:
        state = "unresolved"
    else:
        state = "holds"
    return Verdict(middle, low, high, state)


def main() -> None:
    """Build both sides, measure, and exit with 1 if a figure fails."""
    options = _options()
    places = {"base": sides.checkout(options.base), "this": Path.cwd()}
    for place in places.values():
        sides.build(place)
    report = head(base=sides.git("rev-parse", options.base), limit=options.limit)
    verdicts: dict[str, Verdict] = {}
    while len(report["runs"]) < options.most_rounds:
        report["runs"].append(_round(places, len(report["runs"])))
        print(f"round {len(report['runs'])} of {options.rounds}", file=sys.stderr, flush=True)
        if len(report["runs"]) < options.rounds:
            continue
        verdicts = {name: decide(ratios, options.limit) for name, ratios in ratios_of(report["runs"]).items()}
        report["verdicts"] = {name: vars(verdict) for name, verdict in verdicts.items()}
        keep(report, options.out)
        if all(verdict.state != "unresolved" for verdict in verdicts.values()):
            break
    print(markdown(report))
    sys.exit(any(verdict.state == "FAILS" for verdict in verdicts.values()))


def ratios_of(rounds: Sequence[dict[str, Any]]) -> dict[str, list[float]]:
    """Return the ratio of each round for each figure that both sides have."""
    names = [name for name in rounds[0]["this"] if name in rounds[0]["base"]]
    return {name: [one["this"][name] / one["base"][name] for one in rounds] for name in names}


def markdown(report: dict[str, Any]) -> str:
    """Return the verdicts as a table, and the largest loss that could be hidden."""
    about, rounds = report["machine"], report["runs"]
    changed = " with uncommitted changes" if about["uncommitted_changes"] else ""
    loads = [one["load_average_before"] for one in rounds]
    lines = [
        f"{report['started']}: {about['cpu']} ({about['isa_used']}), one thread; {about['commit'][:10]}{changed} "
        f"against {report['base'][:10]}; {len(rounds)} rounds, load average {min(loads):.1f} to {max(loads):.1f}.",
        "",
        "| figure, in a CPU second | base | this | this / base | 95 % interval | |",
        "|---" * 6 + "|",
    ]
    for name, verdict in report["verdicts"].items():
        base, this = (f"{median(one[side][name] for one in rounds):,.4g}" for side in SIDES)
        span = f"{verdict['low']:.3f} to {verdict['high']:.3f}"
        lines.append(f"| {name} | {base} | {this} | {verdict['ratio']:.3f} | {span} | {verdict['state']} |")
    lost = {name: 1 - verdict["low"] for name, verdict in report["verdicts"].items()}
    worst = max(lost, key=lambda name: lost[name])
    lines += ["", f"The least certain figure, {worst}, could hide a loss of up to {100 * max(lost[worst], 0):.1f} %."]
    return "\n".join(lines)


def _round(places: dict[str, Path], number: int) -> dict[str, Any]:
    found: dict[str, Any] = {"load_average_before": machine.load_average()}
    for side in SIDES if number % 2 == 0 else SIDES[::-1]:
        found[side] = _figures(places[side])
    return found


def _figures(place: Path) -> dict[str, float]:
    """Measure the library of a checkout with the script of this one."""
    command = [sys.executable, "-P", "-m", "bench.figures"]
    done = subprocess.run(command, env=sides.environment(place), stdout=subprocess.PIPE, text=True, check=True)
    result = json.loads(done.stdout)
    sides.check_library(result["library"], place)
    figures: dict[str, float] = result["figures"]
    return figures


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", default="main", help="the commit to compare with")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--most-rounds", type=int, default=27)
    parser.add_argument("--limit", type=float, default=0.05, help="the largest share that a figure may fall by")
    parser.add_argument("--out", type=Path, default=Path("bench/results/check.json"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
