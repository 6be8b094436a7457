"""The figures that `bench.check` guards: ``python -m bench.figures`` prints them once, as JSON.

Each is work done in a CPU second, so that more is better and what else the machine does matters less; each is a
median over short repetitions within this process. It runs on whatever `sparsenet` the path finds first, so that the
same measurement can be made of two versions of the library: it uses the classifier and the product of matrices alone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.clock import Clock, TimeIsUp
from bench.planted import Shape, generate
from sparsenet import ExtremeClassifier, kernels

REPEATS = 7
#: Planted data that is trained on: small enough to take a second, large enough for tiles and tables beyond the caches.
SHAPE = Shape.with_labels(20_000, points=8192, test_points=512, features=50_000)
BATCHES = 30


def rate(work: float, function: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Return units of work in a CPU second, the median over repetitions."""
    function()
    spent = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        spent.append(time.process_time() - start)
    return work / median(spent)


def training(data: Any, **settings: Any) -> tuple[float, ExtremeClassifier]:
    """Return points trained on in a CPU second once the first steps are over, and the model."""
    model, clock = ExtremeClassifier(n_jobs=1, random_state=0, **settings), Clock(BATCHES)
    with suppress(TimeIsUp):
        model.fit(data.X, data.Y, callbacks=[clock])
    return model.get_params()["batch_size"] / clock.summary(warm_up=5)["step_cpu_seconds"], model


def products() -> dict[str, float]:
    """Return GFLOP a CPU second of the output tile's products: gathered rows, and contiguous ones."""
    rng = np.random.default_rng(0)
    a, n, h, n_labels = 4096, 256, 128, 200_000
    weight, hidden = rng.random((n_labels, h), np.float32), rng.random((n, h), np.float32)
    ids = np.sort(rng.permutation(n_labels)[:a]).astype(np.int32)
    tile, grads = np.empty((a, n), np.float32), np.empty((a, h), np.float32)
    flop = 2e-9 * a * n * h

    def gathered() -> None:
        kernels.matmul(weight, hidden, tile, ids, None, False, True, 1)

    def contiguous() -> None:
        kernels.matmul(tile, hidden, grads, None, None, False, False, 1)

    return {"product of gathered rows, GFLOP": rate(flop, gathered, 21), "product, GFLOP": rate(flop, contiguous, 21)}


def main() -> None:
    """Measure and print."""
    data = generate(SHAPE)
    figures = products()
    figures["training, points"], model = training(data)
    figures["training, deep alone, points"], _ = training(data, wide=False)
    figures["training, wide alone, points"], _ = training(data, hidden=0)
    n = data.X_test.shape[0]
    figures["prediction in bulk, points"] = rate(n, lambda: model.topk(data.X_test, 5), 3)
    alone = [data.X_test[i : i + 1] for i in range(200)]
    figures["prediction one by one, points"] = rate(len(alone), lambda: [model.topk(point, 5) for point in alone], 3)
    print(json.dumps({"library": str(Path(kernels.__file__).parents[1]), "figures": figures}))


if __name__ == "__main__":
    main()
