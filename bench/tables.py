"""Scaling of table columns: the accuracy of each classifier with each value of `normalize`.

    python -m bench.tables [--data DIR [DIR ...]] [--tables NAMES] [--ways auto,columns,together,mixed,rows]
                           [--repeats 3] [--threads 2] [--out bench/results/tables.json] [--show FILE]

The tables are the small ones of scikit-learn, in their own units and in other units, and generated ones: a few
informative columns among noise, or amounts next to categories. NAMES selects tables by the start of their names. A DIR
is in the format of the extreme classification repository, as `bench.dense_sets` writes it, and becomes a dense array.
The result is accuracy in %: on the test points of a DIR, or on three tenths of a table, drawn anew for each seed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_blobs, make_classification
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import minmax_scale

from bench.cache import prepare
from bench.machine import load_average
from bench.report import add_result_options, head, keep, present, setting
from bench.runner import names
from sparsenet import BlendClassifier, ExtremeClassifier, TreeClassifier

BUNDLED = {"digits": load_digits, "wine": load_wine, "cancer": load_breast_cancer}
Tables = dict[str, tuple[NDArray[Any], NDArray[Any]]]
#: Points, columns, informative columns, classes, clusters per class, and separation of classes.
MADE = {
    "made-20": (6000, 40, 15, 20, 2, 2.0),
    "made-50": (6000, 40, 30, 50, 1, 2.0),
    "made-5": (4000, 20, 10, 5, 2, 1.0),
    "made-10": (8000, 100, 20, 10, 3, 1.5),
}
#: Points, classes, amounts, categories, values per category, and whether amounts are scaled to 0 to 1.
MIXED = {
    "mixed-30": (8000, 20, 6, 4, 30, False),
    "mixed-300": (8000, 50, 8, 3, 300, False),
    "mixed-300, 0 to 1": (8000, 50, 8, 3, 300, True),
}
#: The share of points with a preferred value of their class, and the number of preferred values.
PREFERENCE, N_PREFERRED = 0.35, 20
CLASSIFIERS: dict[str, Any] = {
    "network": ExtremeClassifier,
    "tree": TreeClassifier,
    "tree and neighbors": lambda **given: BlendClassifier(network="drop", **given),
    "blend": BlendClassifier,
}
#: Columns in other units are multiplied by 10 to a power of up to plus or minus this.
DECADES = 3
Parts = tuple[Any, Any, Any, Any]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, or show a kept result, as a table."""
    present(parse(arguments), lambda options: measure(options, drawn(), CLASSIFIERS), markdown)


def measure(options: argparse.Namespace, tables: Tables, classifiers: Mapping[str, Any]) -> dict[str, Any]:
    """Train each classifier with each scaling on each table and seed."""
    report = head(threads=options.threads)
    for seed in range(options.repeats):
        for name, parts in _split(options, tables, seed):
            for way in options.ways:
                for kind, make in classifiers.items():
                    model = make(normalize=way, random_state=seed, n_jobs=options.threads, verbose=False)
                    report["runs"].append({"data": name, "seed": seed, "way": way, "kind": kind} | _run(model, *parts))
            if options.out:
                keep(report, options.out)
    return report


def markdown(report: dict[str, Any]) -> str:
    """Show the means over seeds, a row for each table and classifier."""
    runs = report["runs"]
    ways, kinds = (list(dict.fromkeys(run[of] for run in runs)) for of in ("way", "kind"))
    lines = [setting(report), "", "| | | " + " | ".join(ways) + " |", "|---" * (2 + len(ways)) + "|"]
    for name in dict.fromkeys(run["data"] for run in runs):
        for kind in kinds:
            own = [[run for run in runs if (run["data"], run["kind"], run["way"]) == (name, kind, way)] for way in ways]
            lines.append(
                f"| {name} | {kind} | " + " | ".join(f"{mean(run['right'] for run in of):.1f}" for of in own) + " |"
            )
    return "\n".join(lines)


def _run(model: Any, X: Any, X_test: Any, y: Any, y_test: Any) -> dict[str, Any]:
    before, cpu = load_average(), time.process_time()
    model.fit(X, y)
    cpu = time.process_time() - cpu
    best, given = model.topk_numbers(X_test, 1)[0][:, 0], y_test if y.ndim == 2 else y_test[:, None] == model.classes_
    right = np.asarray(given[np.arange(len(best)), best]) != 0
    return {"right": 100 * float(right.mean()), "cpu_seconds": cpu, "load_average_before": before}


def _split(options: argparse.Namespace, tables: Tables, seed: int) -> Iterator[tuple[str, Parts]]:
    """Yield the name of each table, and its training and test points with their labels."""
    for folder in options.data:
        data = prepare(folder)
        X, X_test = (data.matrix(f"{part}.X").toarray() for part in ("train", "test"))
        yield data.name, (X, X_test, data.matrix("train.Y"), data.matrix("test.Y"))
    for name, (X, y) in tables.items():
        if name.startswith(tuple(options.tables)):
            yield name, tuple(train_test_split(X, y, test_size=0.3, random_state=seed))


def drawn() -> Tables:
    """Load the small tables of scikit-learn and generate the others."""
    rng = np.random.default_rng(0)
    found: Tables = {}
    for name, load in BUNDLED.items():
        X, y = load(return_X_y=True)
        found |= {name: (X, y), f"{name}, units": (in_other_units(X, rng), y)}
    for name, (n, n_columns, n_informative, n_classes, n_clusters, separation) in MADE.items():
        found[name] = make_classification(
            n,
            n_columns,
            n_informative=n_informative,
            n_redundant=0,
            n_classes=n_classes,
            n_clusters_per_class=n_clusters,
            class_sep=separation,
            random_state=0,
        )
    found |= {name: mixed(*made, np.random.default_rng(0)) for name, made in MIXED.items()}
    X, y = make_blobs(6000, centers=200, n_features=20, cluster_std=4, random_state=0)
    return found | {"blobs": (X, y), "blobs, units": (in_other_units(X, rng), y)}


def mixed(
    n: int, n_classes: int, n_amounts: int, n_categories: int, n_values: int, is_share: bool, rng: np.random.Generator
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return noisy amounts of each point's class, and categories as one-hot columns."""
    y = rng.integers(0, n_classes, n)
    amounts = rng.normal(size=(n_classes, n_amounts))[y] + 1.5 * rng.normal(size=(n, n_amounts))
    amounts += 5 * rng.normal(size=n_amounts)
    columns = [minmax_scale(amounts) if is_share else in_other_units(amounts, rng)]
    for _ in range(n_categories):
        preferred = rng.integers(0, n_values, (n_classes, N_PREFERRED))[y, rng.integers(0, N_PREFERRED, n)]
        others = (n_values * rng.random(n) ** 2).astype(int)
        columns.append(np.eye(n_values)[np.where(rng.random(n) < PREFERENCE, preferred, others)])
    return np.hstack(columns), y


def in_other_units(X: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """Multiply each column by ten to a random power."""
    scaled: NDArray[Any] = X * 10.0 ** rng.uniform(-DECADES, DECADES, X.shape[1])
    return scaled


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="+", default=[], metavar="DIR")
    parser.add_argument("--tables", type=names, default=[""])
    parser.add_argument("--ways", type=names, default=["auto", "columns", "together", "mixed", "rows"])
    add_result_options(parser, repeats=3)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
