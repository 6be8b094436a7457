"""Measure the figures that `bench.check` guards: ``python -m bench.figures`` prints them as JSON.

Each figure is work per CPU second: more is better, and other load matters less than for wall time. Each is the best of
short repetitions, or the best quarter of the training steps, because other processes can only make a run slower. The
script uses only public classifiers, so that it can measure two versions of the library.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import sparsenet
from bench.clock import Clock, TimeIsUp
from bench.planted import Shape, generate
from sparsenet import ExtremeClassifier

REPEATS = 7
#: Planted training data: small enough for a second, large enough for weights beyond the caches.
SHAPE = Shape.with_labels(20_000, points=8192, test_points=512, features=50_000)
BATCHES, WARM_UP = 40, 5
#: A fixed number, since the automatic choice could differ between versions.
HIDDEN = 256


def rate(work: float, function: Callable[[], Any]) -> float:
    """Return units of work per CPU second: the best repetition."""
    function()
    spent = []
    for _ in range(REPEATS):
        start = time.process_time()
        function()
        spent.append(time.process_time() - start)
    return work / min(spent)


def training(data: Any, **settings: Any) -> tuple[float, ExtremeClassifier]:
    """Return training points per CPU second after the first steps, and the model."""
    model, clock = ExtremeClassifier(n_jobs=1, random_state=0, **settings), Clock(BATCHES)
    with suppress(TimeIsUp):
        model.fit(data.X, data.Y, callbacks=[clock])
    steps = np.diff(clock.cpu)[WARM_UP:]
    batch_size = model.get_params()["batch_size"]
    if batch_size == "auto":
        batch_size = model.choices_["batch_size"][0]
    return batch_size / float(np.quantile(steps, 0.25)), model


def main() -> None:
    """Measure and print."""
    data = generate(SHAPE)
    figures: dict[str, float] = {}
    figures["training, points"], model = training(data, hidden=HIDDEN)
    figures["training, deep alone, points"], _ = training(data, hidden=HIDDEN, wide=False)
    figures["training, wide alone, points"], _ = training(data, hidden=0)
    n = data.X_test.shape[0]
    figures["prediction in bulk, points"] = rate(n, lambda: model.topk(data.X_test, 5))
    points = [data.X_test[i : i + 1] for i in range(200)]
    figures["prediction one by one, points"] = rate(len(points), lambda: [model.topk(point, 5) for point in points])
    print(json.dumps({"library": str(Path(sparsenet.__file__).parent), "figures": figures}))


if __name__ == "__main__":
    main()
