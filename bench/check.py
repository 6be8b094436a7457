"""Is this commit slower than another? ``make bench-check``, which is

    python -m bench.check [--base main] [--rounds 9] [--most-rounds 27] [--limit 0.05]
                          [--out bench/results/check.json]

The sources as they are (uncommitted changes included) and those of the base commit are built side by side, with the
same compiler and Python, and measured in turn on this machine by the same script, `bench/figures.py`: one process
each in every round, the order swapped from round to round. Figures of another day or machine are never compared.

For each figure, what counts is the *ratio* of the two within a round, so that a busy spell which lasts longer than a
round falls out; its median over the rounds is the verdict, and the order statistics around it are an interval that
holds the true median in at least 95 of 100 cases. A figure FAILS if the median has fallen by more than the limit and
the whole interval lies below 1: slower, beyond noise. It is *unresolved* if the interval is wider than the limit
on its lower side, so that a loss of the limit's size could have hidden: then more rounds are run, up to a bound, and
what is unresolved even so is said and does not fail. `--base HEAD` with nothing changed compares a commit with itself
and shows what this machine can resolve.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench import machine
from bench.running import head, keep

WORKTREES = Path(".bench") / "worktrees"
#: A folder of a checkout that holds a link to its `sparsenet` alone, so that its `bench` stays out of sight.
LIBRARY = Path(".bench") / "library"
CONFIDENCE = 0.95
SIDES = ("base", "this")


@dataclass(frozen=True)
class Verdict:
    """What the ratios of a figure, this one over the base, say."""

    ratio: float
    low: float
    high: float
    state: str


def interval(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return order statistics that enclose the true median with at least that probability, or all if too few.

    >>> interval([5.0, 1.0, 4.0, 2.0, 3.0, 6.0, 9.0, 8.0, 7.0])
    (2.0, 8.0)
    """
    ordered, n = sorted(values), len(values)
    skipped = 0
    # How many of n values lie below their median is a matter of n coins.
    while 1 - 2 * sum(math.comb(n, j) for j in range(skipped + 2)) / 2**n >= confidence:
        skipped += 1
    return ordered[skipped], ordered[n - 1 - skipped]


def judge(ratios: Sequence[float], limit: float) -> Verdict:
    """Say whether a figure has fallen, has not, or whether that cannot be told.

    >>> judge([0.90, 0.91, 0.89, 0.90, 0.92, 0.90, 0.91, 0.90, 0.89], limit=0.05).state
    'FAILS'
    >>> judge([1.0, 1.01, 0.99, 1.0, 1.02, 1.0, 1.01, 1.0, 0.99], limit=0.05).state
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
    """Build, measure, judge; exit with 1 if a figure fails."""
    options = _options()
    places = {"base": _checkout(options.base), "this": Path.cwd()}
    for place in places.values():
        _build(place)
    report = head(base=_git("rev-parse", options.base), limit=options.limit)
    verdicts: dict[str, Verdict] = {}
    while len(report["runs"]) < options.most_rounds:
        report["runs"].append(_round(places, len(report["runs"])))
        print(f"round {len(report['runs'])} of {options.rounds}", file=sys.stderr, flush=True)
        if len(report["runs"]) < options.rounds:
            continue
        verdicts = {name: judge(ratios, options.limit) for name, ratios in ratios_of(report["runs"]).items()}
        report["verdicts"] = {name: vars(verdict) for name, verdict in verdicts.items()}
        keep(report, options.out)
        if all(verdict.state != "unresolved" for verdict in verdicts.values()):
            break
    print(markdown(report))
    sys.exit(any(verdict.state == "FAILS" for verdict in verdicts.values()))


def ratios_of(rounds: Sequence[dict[str, Any]]) -> dict[str, list[float]]:
    """Return the ratios of each figure that both sides have, a round each."""
    names = [name for name in rounds[0]["this"] if name in rounds[0]["base"]]
    return {name: [one["this"][name] / one["base"][name] for one in rounds] for name in names}


def markdown(report: dict[str, Any]) -> str:
    """Return the verdicts as a table, and what could be resolved."""
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
    lines += ["", f"A loss of up to {100 * max(lost[worst], 0):.1f} % could hide in the least certain figure, {worst}."]
    return "\n".join(lines)


def _round(places: dict[str, Path], number: int) -> dict[str, Any]:
    found: dict[str, Any] = {"load_average_before": machine.load_average()}
    for side in SIDES if number % 2 == 0 else SIDES[::-1]:
        found[side] = _figures(places[side])
    return found


def _figures(place: Path) -> dict[str, float]:
    """Measure the library of a checkout by the script of this one: both are found by PYTHONPATH, in this order."""
    paths = [(place / LIBRARY).resolve(), Path(__file__).resolve().parents[1]]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "SPARSENET_REQUIRE_EXT": "1"}
    command = [sys.executable, "-P", "-m", "bench.figures"]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    result = json.loads(done.stdout)
    if Path(result["library"]).resolve() != (place / "sparsenet").resolve():
        raise RuntimeError(f"{place} was to be measured, and {result['library']} was")
    figures: dict[str, float] = result["figures"]
    return figures


def _checkout(commit: str) -> Path:
    """Return a work tree of a commit under .bench, made once."""
    place = WORKTREES / _git("rev-parse", "--short=12", f"{commit}^{{commit}}")
    if not place.exists():
        _git("worktree", "prune")
        _git("worktree", "add", "--detach", "--force", str(place), commit)
    return place


def _build(place: Path) -> None:
    environment = {**os.environ, "SPARSENET_REQUIRE_EXT": "1"}
    subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=place, env=environment, check=True)
    library = place / LIBRARY
    library.mkdir(parents=True, exist_ok=True)
    if not (library / "sparsenet").is_symlink():
        (library / "sparsenet").symlink_to((place / "sparsenet").resolve())


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", default="main", help="the commit to compare with")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--most-rounds", type=int, default=27)
    parser.add_argument("--limit", type=float, default=0.05, help="the share that a figure may fall by")
    parser.add_argument("--out", type=Path, default=Path("bench/results/check.json"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
