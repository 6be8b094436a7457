"""Answers on the workers of an executor, and an executor for Ray. Nothing else in sparsenet imports this package."""

from typing import TYPE_CHECKING, Any

from sparsenet.distributed.answering import topk_numbers as topk_numbers

if TYPE_CHECKING:
    from sparsenet.distributed.ray import RayExecutor as RayExecutor

__all__ = ["RayExecutor", "topk_numbers"]


def __getattr__(name: str) -> Any:
    """Import `RayExecutor` at first use, since it needs Ray."""
    if name != "RayExecutor":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from sparsenet.distributed.ray import RayExecutor
    except ImportError as error:
        raise ImportError("RayExecutor needs Ray: pip install 'sparsenet[ray]'") from error
    return RayExecutor
