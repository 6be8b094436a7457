"""One training of `bench.scale`, in a process of its own: ``python -m bench.scale_run JOB RESULT``.

It measures set-up, the cost of a step, peak and announced memory, and the least amount of computation and memory
traffic of a step.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from bench.cache import load
from bench.clock import WARM_UP, Clock, TimeIsUp
from bench.peers.measure import forget_peak, peak_mb
from sparsenet import ExtremeClassifier, kernels, metrics
from sparsenet.engines.network import building
from sparsenet.engines.network.options import NetworkOptions
from sparsenet.engines.network.output import SampledOutput
from sparsenet.engines.network.wide import WidePath

#: Test points for P@1 after the measured steps.
TEST_POINTS = 2000
#: The smallest page of memory in bytes.
PAGE = 4096


def main(job: dict[str, Any]) -> dict[str, Any]:
    """Train with the settings of the job, and return the measurements."""
    X, Y, X_test, Y_test = (load(job["data"], name) for name in ("train.X", "train.Y", "test.X", "test.Y"))
    touch_memory(job["touch_gb"])
    clock = Clock(job["batches"])
    work: list[dict[str, float]] = []
    model = ExtremeClassifier(n_jobs=job["threads"], random_state=job["seed"], epochs=1, **job["settings"])
    forget_peak()
    before = peak_mb()
    with ExitStack() as stack:
        needed = stack.enter_context(announced())
        stack.enter_context(counted(work))
        stack.enter_context(suppress(TimeIsUp))
        model.fit(X, Y, callbacks=[clock])
    bf16 = NetworkOptions.of(model.get_params(deep=False)).bf16
    result: dict[str, Any] = {
        "isa": kernels.isa_used(),
        **clock.summary(),
        "batch_size": model.get_params()["batch_size"],
        "needed_mb": {purpose: size / 1e6 for purpose, size in needed.items()},
        "rss_before_mb": before,
        "peak_mb": peak_mb(),
        "work": {name: float(np.mean([batch[name] for batch in work])) for name in work[0]} | {"bf16": bf16},
    }
    labels = model.topk(X_test[:TEST_POINTS], 5)[0]
    result["P@1"] = metrics.precision_at_k(Y_test[:TEST_POINTS], labels, 1)
    result["peak_with_prediction_mb"] = peak_mb()
    return result


def touch_memory(gigabytes: float) -> None:
    """Touch memory once, and release it.

    A virtual machine may receive a page from its host at the first touch only. Without this, the start of a training
    would include that time, which depends on earlier processes.
    """
    np.empty(int(1e9 * gigabytes), np.uint8)[::PAGE] = 1


@contextmanager
def announced() -> Iterator[dict[str, int]]:
    """Record the memory, in bytes by purpose, that an estimator announces before it trains."""
    check, needed = building.check_memory, {}

    def record(request: dict[str, int], *rest: Any) -> None:
        needed.update(request)
        check(request, *rest)

    building.check_memory = record  # type: ignore[assignment]
    try:
        yield needed
    finally:
        building.check_memory = check


@contextmanager
def counted(work: list[dict[str, float]]) -> Iterator[None]:
    """Count the work of the warm-up steps, which are not timed."""
    forward, touch = SampledOutput.forward, WidePath.touch
    sizes: dict[str, float] = {}

    def counting_touch(self: WidePath, active: Any, postings: Any, *rest: Any) -> Any:
        touched = touch(self, active, postings, *rest)
        if len(work) < WARM_UP:
            held = np.diff(postings.starts)[postings.slots[self.indices[touched.positions]]]
            sizes["support"] = float((self.indptr[active + 1] - self.indptr[active]).sum())
            sizes["touched"] = len(touched.positions)
            sizes["touched_lines"] = len(np.unique(touched.positions // 16))
            sizes["pairs"] = float(held.sum())
        return touched

    def counting_forward(self: SampledOutput, batch: Any, hidden: Any, context: Any) -> Any:
        found = forward(self, batch, hidden, context)
        if len(work) < WARM_UP and self._latest is not None:
            sizes["points"], sizes["hidden"] = hidden.shape
            sizes["active"] = len(self._latest.changed)
            sizes["present"] = len(batch.feature_postings.ids)
            work.append(dict(sizes))
        return found

    SampledOutput.forward, WidePath.touch = counting_forward, counting_touch  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        SampledOutput.forward, WidePath.touch = forward, touch  # type: ignore[method-assign]


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(main(json.loads(Path(sys.argv[1]).read_text()))))
