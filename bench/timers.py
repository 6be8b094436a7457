"""Where a training step's time goes: each kernel by its place of call, and the Python around them.

`watch()` replaces the kernels and a few methods by ones that keep time; the cost is some microseconds a call, against
steps of milliseconds. Time is the *own* time of a function: what it called and is watched itself is not in it. CPU
seconds are those of the process, all threads: with t threads and no waiting they are t times the wall clock's.
"""

from __future__ import annotations

import functools
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sparsenet import kernels
from sparsenet.core.batches import Slots
from sparsenet.core.rows import Rows
from sparsenet.engines.network.active import Sampling
from sparsenet.engines.network.layers import Activation
from sparsenet.engines.network.model import Network
from sparsenet.engines.network.output import SampledOutput
from sparsenet.engines.network.wide import WidePath

#: Kernels of a training step and of prediction; a name that the kernels no longer have is an error.
KERNELS = (
    "adagrad_rows",
    "adam_product",
    "adam_rows",
    "bce_gradient",
    "csr_matmul",
    "label_centroids",
    "matmul",
    "pair_dot",
    "predict_topk",
    "sgd_rows",
    "softmax_gradient",
    "transpose_batch",
    "wide_forward",
    "wide_gradient",
    "wide_touch",
)
METHODS: tuple[tuple[type, str], ...] = (
    (Activation, "forward"),
    (Network, "train_step"),
    (Network, "initialise"),
    (Rows, "take"),
    (SampledOutput, "_scores"),
    (SampledOutput, "forward"),
    (Sampling, "choose"),
    (Slots, "transpose"),
    (WidePath, "from_centroids"),
    (WidePath, "touch"),
)


class Times:
    """Calls, wall seconds and CPU seconds by place."""

    def __init__(self) -> None:
        self.clear()
        self._inside: list[list[float]] = []

    def clear(self) -> None:
        """Forget everything so far."""
        self.calls: dict[str, int] = defaultdict(int)
        self.wall: dict[str, float] = defaultdict(float)
        self.cpu: dict[str, float] = defaultdict(float)

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Charge the body to `name`, less what is measured within it."""
        children = [0.0, 0.0]
        self._inside.append(children)
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            self._inside.pop()
            if self._inside:
                self._inside[-1][0] += wall
                self._inside[-1][1] += cpu
            self.calls[name] += 1
            self.wall[name] += wall - children[0]
            self.cpu[name] += cpu - children[1]

    def rows(self, steps: int) -> list[dict[str, Any]]:
        """Return what a step costs in each place, in milliseconds, the dearest first."""
        total = sum(self.cpu.values()) or 1.0
        return [
            {
                "place": name,
                "calls": self.calls[name],
                "cpu_ms_a_step": 1e3 * self.cpu[name] / steps,
                "wall_ms_a_step": 1e3 * self.wall[name] / steps,
                "share": self.cpu[name] / total,
            }
            for name in sorted(self.cpu, key=self.cpu.__getitem__, reverse=True)
        ]


@contextmanager
def watch() -> Iterator[Times]:
    """Keep time of kernels and methods as long as the body lasts."""
    times = Times()
    before: list[tuple[Any, str, Any]] = []
    places = [(kernels, name) for name in KERNELS] + list(METHODS)
    for owner, name in places:
        original = getattr(owner, name)
        held = owner.__dict__.get(name, original)  # a classmethod is to be put back as one
        before.append((owner, name, held))
        by_caller = owner is kernels
        label = name if by_caller else f"{owner.__name__}.{name}"
        timed = _timed(times, label, original, by_caller)
        setattr(owner, name, staticmethod(timed) if isinstance(held, classmethod) else timed)
    try:
        yield times
    finally:
        for owner, name, held in before:
            setattr(owner, name, held)


def _timed(times: Times, label: str, function: Callable[..., Any], by_caller: bool) -> Callable[..., Any]:
    @functools.wraps(function)
    def timed(*arguments: Any, **named: Any) -> Any:
        name = label
        if by_caller:
            code = sys._getframe(1).f_code
            name = f"{label} in {getattr(code, 'co_qualname', code.co_name)}:{_size(arguments)}"
        with times.measure(name):
            return function(*arguments, **named)

    return timed


def _size(arguments: tuple[Any, ...]) -> str:
    """Tell calls of one kernel from one place apart: by whether a parameter has one column or several."""
    first = arguments[0]
    shape = getattr(first, "shape", ())
    return "" if len(shape) != 2 else " one column" if shape[1] == 1 else " rows"


def markdown(rows: list[dict[str, Any]], at_least: float = 0.003) -> str:
    """Lay the places out as a table; those below a share of `at_least` are summed up."""
    lines = ["| place | CPU ms a step | wall ms a step | share |", "|---|---|---|---|"]
    rest = [row for row in rows if row["share"] < at_least]
    for row in rows:
        if row["share"] >= at_least:
            times = f"{row['cpu_ms_a_step']:.2f} | {row['wall_ms_a_step']:.2f}"
            lines.append(f"| {row['place']} | {times} | {100 * row['share']:.1f} % |")
    cpu, wall, share = (sum(row[key] for row in rest) for key in ("cpu_ms_a_step", "wall_ms_a_step", "share"))
    lines.append(f"| the rest | {cpu:.2f} | {wall:.2f} | {100 * share:.1f} % |")
    return "\n".join(lines)
