"""The demo of tables: predict destinations of made-up flights from columns of five types, and explain an answer."""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from sparsenet.data.frames import read_frame
from sparsenet.estimators.table import TableClassifier

#: Destinations of flights: the city, its distance in km, and a remark of pilots.
PLACES = {
    "Bergen": (1200, "rain at the airport"),
    "Cairo": (3300, "dust and heat"),
    "Dakar": (5100, "haze over the sea"),
    "Lima": (10100, "thin air in the mountains"),
    "Nairobi": (6600, "clear sky over the highlands"),
    "Oslo": (900, "snow on the runway"),
    "Perth": (13800, "strong wind from the sea"),
    "Quito": (9700, "short runway in the mountains"),
}
CARRIERS = ("Blue Wings", "Northern", "Southern Cross", "Condor")


def run(
    output: Path, *, interactive: bool = False, threads: int | None = None, seed: int = 0, n_flights: int = 2000
) -> None:
    """Run the demo: write a table, train, measure, explain. Results go to stdout, messages to stderr."""
    if interactive:
        raise ValueError("--interactive is for the demos of texts and logs: leave it out")
    flights = make_flights(n_flights, seed)
    output.mkdir(parents=True, exist_ok=True)
    n_test = n_flights // 10
    train, test = output / "flights.csv", output / "new-flights.csv"
    _write({name: cells[:-n_test] for name, cells in flights.items()}, train)
    _write({name: cells[-n_test:] for name, cells in flights.items()}, test)
    _say(f"{n_flights - n_test} flights: {train}")
    model = TableClassifier(n_jobs=threads, random_state=seed).fit(train, target="destination")
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(str(model.columns_), highlight=False)
    decision = model.choices_["method"]
    console.print(f"\nThe model: {decision.value} ({decision.why})", highlight=False)
    console.print(f"{model.score(test):.1%} of {n_test} new flights go where it says\n", highlight=False)
    console.print(_best(model, test))
    rows = read_frame(test)
    console.print(str(model.explain(rows.take(np.array([0])))), highlight=False)
    _say(f"now try: sparsenet train {train} --target destination --model flights")
    _say(f"and then: sparsenet predict flights {test} --k 3")


def make_flights(n_flights: int, seed: int) -> dict[str, list[str]]:
    """Return the columns of flights; some cells are empty, and no column alone tells the destination."""
    rng = np.random.default_rng(seed)
    columns: dict[str, list[str]] = {
        name: [] for name in ("carrier", "departs", "hours", "seats", "remark", "destination")
    }
    names = list(PLACES)
    for _ in range(n_flights):
        place = int(rng.integers(len(names)))
        distance, remark = PLACES[names[place]]
        carrier = CARRIERS[(place + int(rng.random() < 0.3)) % len(CARRIERS)]
        day, hour = int(rng.integers(365)), (3 * place + int(rng.integers(8))) % 24
        departs = datetime(2026, 1, 1) + timedelta(days=day, hours=hour, minutes=int(rng.integers(60)))
        remarks = [remark, *(PLACES[names[i]][1] for i in rng.integers(len(names), size=2))]
        cells = (
            carrier,
            departs.isoformat(timespec="minutes"),
            f"{distance / 850 * rng.lognormal(0, 0.25):.1f}" if rng.random() < 0.9 else "",
            str(int(rng.choice([50, 100, 180, 300], p=[0.2, 0.3, 0.3, 0.2]))),
            remarks[int(rng.integers(3))] if rng.random() < 0.8 else "",
            names[place],
        )
        for name, cell in zip(columns, cells, strict=True):
            columns[name].append(cell)
    return columns


def _write(table: Mapping[str, Sequence[str]], path: Path) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([table, *zip(*table.values(), strict=True)])


def _best(model: TableClassifier, test: Path, shown: int = 3, k: int = 3) -> Table:
    rows = read_frame(test).take(np.arange(shown))
    table = Table("carrier", "departs", "remark", "true", "best answers", title="Where new flights go")
    for row, (names, p) in enumerate(zip(*model.topk(rows, k=k), strict=True)):
        answers = ", ".join(f"{name} {share:.0%}" for name, share in zip(names, p, strict=True))
        cells = (str(rows[name][row] or "") for name in ("carrier", "departs", "remark", "destination"))
        table.add_row(*cells, answers)
    return table


def _say(text: str) -> None:
    print(f"sparsenet: {text}", file=sys.stderr, flush=True)
