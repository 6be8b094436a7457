"""Ray as a `concurrent.futures.Executor`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

import ray


class RayExecutor(Executor):
    """An executor on the Ray cluster that this process is connected to; ``ray.init()`` connects it.

    Parameters
    ----------
    **options :
        Options of Ray's remote functions, such as ``num_cpus=2`` or ``memory=4e9``.

    Examples
    --------
    ::

        import ray
        from sparsenet import TreeClassifier, Workers
        from sparsenet.distributed import RayExecutor

        ray.init(address="auto")
        model = TreeClassifier().fit(X, y, executor=Workers(RayExecutor(), scratch="/shared"))
    """

    def __init__(self, **options: Any) -> None:
        # sparsenet sends tasks of lost workers again, and counts how often.
        self._call = ray.remote(_call).options(max_retries=0, **options)
        self._is_open = True

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Send a call to a worker."""
        if not self._is_open:
            raise RuntimeError("cannot send calls after shutdown: make another RayExecutor")
        reference = self._call.remote(function, args, kwargs)
        future: Future[Any] = reference.future()

        def cancel(future: Future[Any]) -> None:
            if future.cancelled():
                ray.cancel(reference)

        future.add_done_callback(cancel)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; the cluster goes on."""
        self._is_open = False


def _call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return function(*args, **kwargs)
