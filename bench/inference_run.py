"""Measure one model for `bench.inference` in a separate process: ``python -m bench.inference_run JOB RESULT``."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.cache import load
from bench.clock import Clock, TimeIsUp
from bench.peers.measure import BULK_SECONDS, TOP, bulk, peak_mb, singles, size_mb
from sparsenet import ExtremeClassifier, kernels, metrics

#: Test points for P@k and for recall against exact scoring.
TEST_POINTS = 2000
#: The recall that the shortest shortlist must reach, and the sample of other points that it is fitted to.
RECALL, SAMPLE_POINTS = 0.97, 256
#: Labels that a search in cells scores exactly.
CELL_CANDIDATES = 20
FLOAT = 4


@dataclass(frozen=True)
class Mode:
    """A way to predict: a batch, ``X -> labels (n, k), scores``, and one point, ``indices, values -> labels``."""

    many: Callable[[Any], Any]
    one: Callable[[Any, Any], Any] | None = None


def modes(model: ExtremeClassifier, sample: Any) -> dict[str, Mode]:
    """Return the ways to predict: exact scoring, a shortlist, and a shorter one that is fitted to a sample."""
    found = {"exact": Mode(lambda X: model.topk(X, TOP))}
    if model.network_.output.wide:
        shortlist = model.predictor(TOP)
        found["shortlist"] = Mode(shortlist, shortlist.one)
        short = model.predictor(TOP, recall=RECALL, sample=sample)
        found[f"shortlist of {short.postings} postings, recall {RECALL}"] = Mode(short, short.one)
    else:
        near = model.predictor(TOP, candidates=CELL_CANDIDATES, recall=RECALL, sample=sample)
        found[f"cells, recall {RECALL}"] = Mode(near, near.one)
    return found


class Ours:
    """A mode of prediction with the interface that `bench.peers.measure` times."""

    distribution = "sparsenet"

    def __init__(self, model: ExtremeClassifier, mode: Mode) -> None:
        self.model, self._mode = model, mode

    def use_threads(self, threads: int) -> None:
        self.model.set_params(n_jobs=threads)

    def points(self, X: Any) -> Any:
        return X

    def predict(self, points: Any, k: int) -> Any:
        if self._mode.one is not None and points.shape[0] == 1:
            return self._mode.one(points.indices, points.data)
        return self._mode.many(points)


def main(job: dict[str, Any], bulk_seconds: float = BULK_SECONDS) -> dict[str, Any]:
    """Train briefly, save, load, and measure each way to predict."""
    X, Y, X_test, Y_test = (load(job["data"], name) for name in ("train.X", "train.Y", "test.X", "test.Y"))
    model = ExtremeClassifier(n_jobs=job["threads"], random_state=job["seed"], **job["settings"])
    with suppress(TimeIsUp):
        model.fit(X, Y, callbacks=[Clock(job["batches"])])
    with tempfile.TemporaryDirectory(prefix="sparsenet-bench-") as folder:
        model.save(Path(folder) / "model")
        size = size_mb(Path(folder) / "model")
        model = ExtremeClassifier.load(Path(folder) / "model")
    exact, _ = model.set_params(n_jobs=job["threads"]).topk(X_test[:TEST_POINTS], TOP)
    found = {}
    for name, mode in modes(model, X_test[-SAMPLE_POINTS:]).items():
        peer: Any = Ours(model, mode)
        rows = bulk(peer, X_test[: job["bulk_points"]], job["threads"], bulk_seconds)
        rows |= singles(peer, X_test, job["seed"])
        labels, _ = mode.many(X_test[:TEST_POINTS])
        found[name] = {**rows, "recall@5": recall(exact, labels)}
        found[name] |= {f"P@{k}": metrics.precision_at_k(Y_test[:TEST_POINTS], labels, k) for k in (1, 3, 5)}
    return {
        "isa": kernels.isa_used(),
        "model_mb": size,
        "peak_mb": peak_mb(),
        "modes": found,
        "work": work(model, X_test),
    }


def recall(exact: Any, labels: Any) -> float:
    """Return the share of the exact top labels that were found.

    >>> recall(np.array([[1, 2], [3, 4]]), np.array([[2, 9], [4, 3]]))
    0.75
    """
    return float(np.mean([np.isin(best, row).mean() for best, row in zip(exact, labels, strict=True)]))


def work(model: ExtremeClassifier, X: Any) -> dict[str, float]:
    """Return the least bytes to read and flop to compute for the exact scores of one point, on average."""
    output = model.network_.output
    dense = output.n_labels * (output.n_inputs + 1)
    held = np.diff(output.wide.inverted().indptr)[X.indices].sum() / X.shape[0] if output.wide else 0.0
    # A wide weight is stored with its label id. Cache lines shared by neighboring entries are ignored.
    return {"bytes": FLOAT * dense + 2 * FLOAT * held, "flop": 2 * dense + 2 * held, "wide_weights": float(held)}


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(main(json.loads(Path(sys.argv[1]).read_text()))))
