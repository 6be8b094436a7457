"""One fit for `bench.gate`, in a fresh process: ``python -m bench.gate_run JOB RESULT``.

Only the public API is used, so that the same script runs with the library of either commit.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import sparsenet
from bench.peers.measure import forget_peak, measured, peak_mb

TOP = 5


def make(model: str, threads: int, seed: int) -> Any:
    """Return an unfitted classifier with default settings."""
    usual: dict[str, Any] = {"n_jobs": threads, "random_state": seed}
    if model == "text":
        return sparsenet.TextClassifier(**usual)
    if model == "tree":
        return sparsenet.TreeClassifier(**usual)
    if model == "network":
        return sparsenet.ExtremeClassifier(**usual)
    if model == "light":
        return sparsenet.BlendClassifier(network="drop", **usual)
    return sparsenet.BlendClassifier(**usual)


def load(job: dict[str, Any]) -> dict[str, Any]:
    """Return training and test data: texts with their labels, or matrices."""
    data = Path(job["data"])
    if job["model"] == "text":
        parts = json.loads(data.read_text())
        return {"X": parts["train"][0], "y": parts["train"][1], "test": parts["test"][0]}
    X, Y, test = (sparse.csr_array(sparse.load_npz(data / f"{name}.npz")) for name in ("train.X", "train.Y", "test.X"))
    return {"X": X, "y": Y, "test": test}


def warm_up(model: str) -> None:
    """Train a tiny model, so that late imports are not counted as training."""
    if model == "text":
        make(model, 1, 0).fit(["good day", "bad night"] * 4, ["good", "bad"] * 4)
        return
    rng = np.random.default_rng(0)
    X = sparse.csr_array((rng.random((60, 20)) < 0.2).astype(np.float32))
    Y = sparse.csr_array((rng.random((60, 8)) < 0.3).astype(np.float32))
    make(model, 1, 0).fit(X, Y)


def main(job: dict[str, Any], answers: Path) -> dict[str, Any]:
    """Fit, predict, and return what was measured; the predictions are written to `answers`."""
    data = load(job)
    warm_up(job["model"])
    model = make(job["model"], job["threads"], job["seed"])
    found: dict[str, Any] = {"library": str(Path(sparsenet.__file__).parent)}
    forget_peak()
    with measured(found, "train"):
        model.fit(data["X"], data["y"])
    found["peak_rss_mb"] = peak_mb()
    if job["model"] == "text":
        first, probabilities = model.topk(data["test"], 1)
        predicted = {"predicted": np.asarray(model.predict(data["test"]), dtype=str), "labels": first.astype(str)}
    else:
        excluded = {"exclude": data["test"]} if job["mask_seen"] else {}
        labels, probabilities = model.topk(data["test"], TOP, **excluded)
        predicted = {"labels": labels}
    np.savez(answers, probabilities=probabilities[:, 0], **predicted)
    return found


if __name__ == "__main__":
    job = json.loads(Path(sys.argv[1]).read_text())
    Path(sys.argv[2]).write_text(json.dumps(main(job, Path(sys.argv[2]).with_suffix(".npz"))))
