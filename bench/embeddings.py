"""Dense embeddings with many labels: accuracy, CPU seconds and memory, against simple classifiers.

    python -m bench.embeddings [--points 20000] [--width 384] [--labels 4000] [--test 4000] [--seed 0]
                               [--models blend,bare-blend,tree,network,knn,centroid,logistic] [--dtype float32]
                               [--out FILE]

The embeddings are planted: labels are leaves of a tree with two levels, and have a place in a latent space of 64
dimensions. A point lies near the place of its label, as far as its label is wide, and a fixed linear map with a falling
spectrum takes it to the width, where noise is added. As with text encoders, some directions have most of the variance,
and points have unit length. Counts of labels follow a power law.

Each model is trained in a process of its own, with one thread. `logistic` is left out above 500 labels, where it does
not finish. `knn` votes by cosine with the number of neighbors that is best on a tenth of the training points.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
LATENT, FAMILY, GROUP = 64, 16, 256
#: Spread of families in a group, labels in a family, points of a label, and noise of the embedding.
SPREADS = (0.9, 0.7, 0.6, 0.35)
MOST_LABELS_OF_LOGISTIC = 500


class Embeddings(NamedTuple):
    """Training and test points, and one label each."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array


def planted(points: int, width: int, labels: int, test: int, seed: int, dtype: str = "float32") -> Embeddings:
    """Generate embeddings; equal arguments give equal data."""
    rng = np.random.default_rng((seed, points, width, labels))
    groups = rng.normal(size=(-(-labels // GROUP), LATENT))
    families = groups[np.arange(-(-labels // FAMILY)) * FAMILY // GROUP]
    families = families + SPREADS[0] * rng.normal(size=families.shape)
    places = families[np.arange(labels) // FAMILY] + SPREADS[1] * rng.normal(size=(labels, LATENT))
    widths = SPREADS[2] * rng.uniform(0.5, 1.5, size=labels)
    chances = (np.arange(labels) + 50.0) ** -0.7
    n = points + test
    y = rng.permutation(labels)[rng.choice(labels, n, p=chances / chances.sum())]
    y[:labels] = np.arange(labels) if labels <= points else y[:labels]
    to_width = rng.normal(size=(LATENT, width)) * (np.arange(1, LATENT + 1) ** -0.3)[:, None]
    X = np.empty((n, width), dtype)
    for begin in range(0, n, 8192):
        own = slice(begin, min(begin + 8192, n))
        latent = places[y[own]] + widths[y[own], None] * rng.normal(size=(own.stop - begin, LATENT))
        block = latent @ to_width
        block += SPREADS[3] * np.sqrt(np.square(block).mean()) * rng.normal(size=block.shape)
        X[own] = block / np.linalg.norm(block, axis=1, keepdims=True)
    order = rng.permutation(points)
    return Embeddings(X[:points][order], y[:points][order], X[points:], y[points:])


class Knn:
    """A vote of the nearest points by cosine; their number is chosen on a tenth of the training points."""

    def fit(self, X: Array, y: Array) -> Knn:
        from sklearn.neighbors import KNeighborsClassifier

        held = np.arange(len(X)) % 10 == 0
        scores = {}
        for k in (1, 5, 10, 20):
            model = KNeighborsClassifier(k, weights="distance", metric="cosine").fit(X[~held], y[~held])
            scores[k] = model.score(X[held][:1000], y[held][:1000])
        self.model = KNeighborsClassifier(max(scores, key=lambda k: scores[k]), weights="distance", metric="cosine")
        self.model.fit(X, y)
        return self

    def score(self, X: Array, y: Array) -> float:
        hits = [self.model.score(X[i : i + 500], y[i : i + 500]) * len(X[i : i + 500]) for i in range(0, len(X), 500)]
        return float(sum(hits) / len(X))


def _centroid() -> Any:
    from sklearn.neighbors import NearestCentroid

    return NearestCentroid()


def _logistic() -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))


def _ours(name: str) -> Any:
    import sparsenet

    how: dict[str, Any] = {"random_state": 0, "n_jobs": 1}
    if name == "network":
        return sparsenet.ExtremeClassifier(**how)
    if name == "tree":
        return sparsenet.TreeClassifier(**how)
    return sparsenet.BlendClassifier(network="drop" if name == "bare-blend" else None, **how)


MODELS: dict[str, Callable[[], Any]] = {
    **{name: (lambda name=name: _ours(name)) for name in ("blend", "bare-blend", "tree", "network")},  # type: ignore[misc]
    "knn": Knn,
    "centroid": _centroid,
    "logistic": _logistic,
}


def measure(name: str, shape: dict[str, Any]) -> dict[str, Any]:
    """Train and score one model; memory is the peak of this process beyond the data."""
    data = planted(**shape)
    before, started, cpu = _peak(), time.perf_counter(), time.process_time()
    model = MODELS[name]().fit(data.X, data.y)
    trained, trained_cpu, after = time.perf_counter() - started, time.process_time() - cpu, _peak()
    cpu = time.process_time()
    score = model.score(data.X_test, data.y_test)
    found = {"model": name, "accuracy": 100 * score, "cpu_seconds": trained_cpu, "seconds": trained}
    choices = {key: str(decision.value) for key, decision in getattr(model, "choices_", {}).items()}
    answers = time.process_time() - cpu
    return {**found, "answer_cpu_seconds": answers, "gigabytes": after, "data_gigabytes": before, "choices": choices}


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("points", 20_000), ("width", 384), ("labels", 4_000), ("test", 4_000), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--dtype", default="float32", choices=("float16", "float32", "float64"))
    parser.add_argument("--out", type=Path)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Measure all models, and print a line for each."""
    options = parse(arguments)
    shape = {name: getattr(options, name) for name in ("points", "width", "labels", "test", "seed", "dtype")}
    found = []
    for name in options.models.split(","):
        if name == "logistic" and options.labels > MOST_LABELS_OF_LOGISTIC:
            continue
        with get_context("spawn").Pool(1) as pool:  # a process of its own, for its memory
            found.append(pool.apply(measure, (name, shape)))
        print(
            f"{name:<12}{found[-1]['accuracy']:7.2f} %  {found[-1]['cpu_seconds']:8.1f} CPU s  "
            f"{found[-1]['gigabytes']:5.2f} GB  {found[-1]['choices']}",
            flush=True,
        )
    if options.out:
        options.out.write_text(json.dumps({"shape": shape, "runs": found}, indent=1) + "\n")
    return found


if __name__ == "__main__":
    main()
