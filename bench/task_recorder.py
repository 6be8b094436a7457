"""An executor that records the CPU time and the sizes of messages of the tasks it passes on."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


def timed(call: Callable[..., Any], *arguments: Any) -> tuple[Any, float, int]:
    """Return the result of a call, its CPU seconds and its size in a message."""
    begun = time.process_time()
    outcome = call(*arguments)
    return outcome, time.process_time() - begun, len(pickle.dumps(outcome))


class Recorder(Executor):
    """An executor that records the tasks it passes on."""

    def __init__(self, pool: Executor) -> None:
        self.pool, self.records = pool, list[dict[str, Any]]()

    def submit(self, call: Callable[..., Any], /, *arguments: Any, **_: Any) -> Future[Any]:
        """Pass a task on, and record it when it is done."""
        function, _scratch, own = arguments
        record = {
            "name": function.__name__,
            "depth": getattr(own[0], "depth", -1) if own else -1,
            "sent": len(pickle.dumps((call, arguments))),
        }
        outer: Future[Any] = Future()

        def done(inner: Future[Any]) -> None:
            outcome, cpu, received = inner.result()
            value = int(outcome.value.sum()) if function.__name__ == "route" else 0
            self.records.append({**record, "cpu": cpu, "received": received, "value": value})
            outer.set_result(outcome)

        self.pool.submit(timed, call, *arguments).add_done_callback(done)
        return outer


def summed(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add up the tasks of each function and depth."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for record in records:
        key = record["name"], record["depth"]
        total = found.setdefault(key, {"name": key[0], "depth": key[1], "tasks": 0, "longest": 0.0})
        total["tasks"] += 1
        total["longest"] = max(total["longest"], record["cpu"])
        for what in ("cpu", "sent", "received", "value"):
            total[what] = total.get(what, 0) + record[what]
    return list(found.values())
