"""The figures that `bench.check` guards: ``python -m bench.figures`` prints them once, as JSON.

Each is work done in a CPU second, so that more is better and what else the machine does matters less; each is the
best of short repetitions, or the best quarter of a training's steps: other processes' use of caches and memory only
ever takes away. It runs on whatever `sparsenet` the path finds first, so that the
same measurement can be made of two versions of the library: it uses the public classifier alone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from bench.clock import Clock, TimeIsUp
from bench.planted import Shape, generate
from sparsenet import ExtremeClassifier, kernels

REPEATS = 7
#: Planted data that is trained on: small enough to take a second, large enough for weights beyond the caches.
SHAPE = Shape.with_labels(20_000, points=8192, test_points=512, features=50_000)
BATCHES, WARM_UP = 40, 5
#: Given, or the classifier finds out what these are worth, and figures change with what it finds.
HIDDEN = 256


def rate(work: float, function: Callable[[], Any]) -> float:
    """Return units of work in a CPU second, the best of the repetitions."""
    function()
    spent = []
    for _ in range(REPEATS):
        start = time.process_time()
        function()
        spent.append(time.process_time() - start)
    return work / min(spent)


def training(data: Any, **settings: Any) -> tuple[float, ExtremeClassifier]:
    """Return points trained on in a CPU second once the first steps are over, and the model."""
    model, clock = ExtremeClassifier(n_jobs=1, random_state=0, **settings), Clock(BATCHES)
    with suppress(TimeIsUp):
        model.fit(data.X, data.Y, callbacks=[clock])
    steps = np.diff(clock.cpu)[WARM_UP:]
    given = model.get_params()["batch_size"]
    size = model.choices_["batch_size"][0] if given == "auto" else given
    return size / float(np.quantile(steps, 0.25)), model


def main() -> None:
    """Measure and print."""
    data = generate(SHAPE)
    figures: dict[str, float] = {}
    figures["training, points"], model = training(data, hidden=HIDDEN)
    figures["training, deep alone, points"], _ = training(data, hidden=HIDDEN, wide=False)
    figures["training, wide alone, points"], _ = training(data, hidden=0)
    n = data.X_test.shape[0]
    figures["prediction in bulk, points"] = rate(n, lambda: model.topk(data.X_test, 5))
    alone = [data.X_test[i : i + 1] for i in range(200)]
    figures["prediction one by one, points"] = rate(len(alone), lambda: [model.topk(point, 5) for point in alone])
    print(json.dumps({"library": str(Path(kernels.__file__).parents[1]), "figures": figures}))


if __name__ == "__main__":
    main()
