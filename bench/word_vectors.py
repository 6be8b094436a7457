"""Word vectors next to words: TextClassifier with and without them, on few training texts.

    python -m bench.word_vectors --data DIR [--sets NAME,...] [--texts 1000,100] [--seeds 3] [--vectors wordllama]
                                 [--systems NAME,...] [--threads 1] [--out FILE] [--show FILE]

DIR holds NAME.train.tsv and NAME.test.tsv as for `bench.text`. For each seed, every system learns from the same texts,
drawn from the training part, and answers the whole test part. Draws below --many texts are for sets of at most 20
labels. Logistic regressions choose their C from 1, 10 and 100 by three-fold cross-validation.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from bench.machine import load_average
from bench.report import head, keep, numbers, present, setting
from bench.runner import names
from bench.text import Labelled, read
from bench.text_peers import singles
from sparsenet import TextClassifier, WordVectors

SETS = ["banking77", "clinc150", "trec6", "sst2", "agnews-4k"]
#: Sets with more labels are measured with --many texts and more only.
FEW_LABELS = 20
COSTS = [1.0, 10.0, 100.0]
#: Test texts whose single answers are timed.
SINGLES = 2000
Model = Any
Make = Callable[[WordVectors, int, int], Model]


def _logistic(seed: int) -> GridSearchCV:
    folds = KFold(3, shuffle=True, random_state=seed)  # some labels have too few texts for strata
    return GridSearchCV(LogisticRegression(max_iter=300, tol=1e-3), {"C": COSTS}, cv=folds)


def _vectors_alone(vectors: WordVectors, seed: int, threads: int) -> Model:
    return make_pipeline(FunctionTransformer(lambda texts: vectors.embed(texts, n_jobs=threads)), _logistic(seed))


SYSTEMS: dict[str, Make] = {
    "sparsenet-vectors": lambda vectors, seed, threads: TextClassifier(
        vectors=vectors, n_jobs=threads, random_state=seed
    ),
    "sparsenet": lambda _vectors, seed, threads: TextClassifier(n_jobs=threads, random_state=seed),
    "tfidf-logistic": lambda _vectors, seed, _threads: make_pipeline(
        TfidfVectorizer(sublinear_tf=True), _logistic(seed)
    ),
    "vectors-logistic": _vectors_alone,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run everything and print a table."""
    present(_options(arguments), _measure, _markdown)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sets", type=names, default=SETS)
    parser.add_argument("--texts", type=numbers, default=[1000, 100], help="numbers of training texts")
    parser.add_argument("--many", type=int, default=1000, help="texts that sets of many labels need")
    parser.add_argument("--seeds", type=int, default=3, help="draws of the training texts")
    parser.add_argument("--vectors", default="wordllama", help="a path as WordVectors.read takes it")
    parser.add_argument("--systems", type=names, default=list(SYSTEMS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--show", type=Path)
    options = parser.parse_args(arguments)
    if options.data is None and options.show is None:
        parser.error("--data: name the folder of the texts")
    return options


def _measure(options: argparse.Namespace) -> dict[str, Any]:
    report = head(threads=options.threads, vectors=options.vectors)
    vectors = WordVectors.read(options.vectors)
    TextClassifier(n_jobs=1, vectors=vectors).fit(["warm up", "the process"], ["a", "b"])  # loads late imports
    for name in options.sets:
        train, test = read(options.data, name, "train"), read(options.data, name, "test")
        for n in options.texts:
            if n < options.many and len(set(train[1])) > FEW_LABELS:
                continue
            for seed in range(options.seeds):
                part = drawn(train, n, seed)
                for system in options.systems:
                    about = {"data": name, "texts": n, "seed": seed, "system": system}
                    model = SYSTEMS[system](vectors, seed, options.threads)
                    report["runs"].append({**about, "load_average_before": load_average(), **_run(model, part, test)})
                if options.out:
                    keep(report, options.out)
    return report


def drawn(data: Labelled, n: int, seed: int) -> Labelled:
    """Draw training texts."""
    chosen = np.random.default_rng(seed).permutation(len(data[0]))[:n]
    return [data[0][i] for i in chosen], [data[1][i] for i in chosen]


def _run(model: Model, train: Labelled, test: Labelled) -> dict[str, Any]:
    """Train and answer; return accuracy and times."""
    cpu = time.process_time()
    model.fit(*train)
    found: dict[str, Any] = {"train_cpu": time.process_time() - cpu}
    answers = model.predict(test[0])
    found["accuracy"] = float(np.mean([a == b for a, b in zip(answers, test[1], strict=True)]))
    if isinstance(model, TextClassifier):
        model.one = model.predict_one
        found["single_us_p50"] = 1e6 * singles(model, test[0][:SINGLES], warm_up=50)[50]
        if "vectors" in model.choices_:
            found["weight"] = model.choices_["vectors"].value
    return found


def _markdown(report: dict[str, Any]) -> str:
    """Lay out the mean accuracy of each set and system in %, and the medians of times."""
    runs = report["runs"]
    columns = list(dict.fromkeys((run["data"], run["texts"]) for run in runs))
    titles = [f"{name}, {n:,}" for name, n in columns]
    lines = [f"| system | mean | {' | '.join(titles)} | training CPU s | us for one text |"]
    lines.append(f"|{'---|' * (len(columns) + 4)}")
    for system in dict.fromkeys(run["system"] for run in runs):
        own = [run for run in runs if run["system"] == system]
        by_set = [
            100 * mean(run["accuracy"] for run in own if (run["data"], run["texts"]) == column) for column in columns
        ]
        single = [run["single_us_p50"] for run in own if "single_us_p50" in run]
        cells = [f"{mean(by_set):.1f}", *(f"{accuracy:.1f}" for accuracy in by_set)]
        cells += [f"{median(run['train_cpu'] for run in own):.2f}", f"{median(single):.0f}" if single else "-"]
        lines.append(f"| {system} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", setting(report)])


if __name__ == "__main__":
    main()
