"""Executors for clusters that have none of their own.

Needs Ray: ``pip install sparsenet[ray]``. Nothing else in sparsenet imports this package.
"""

try:
    import ray as _ray  # noqa: F401
except ImportError as error:  # a clear message instead of one about a module inside
    raise ImportError("sparsenet.distributed needs Ray: pip install 'sparsenet[ray]'") from error

from sparsenet.distributed.ray import RayExecutor as RayExecutor

__all__ = ["RayExecutor"]
