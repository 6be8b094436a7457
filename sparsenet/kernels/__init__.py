"""Select the native or the Numba kernels at first use, behind one set of names.

`SPARSENET_KERNELS` is ``auto`` (native if installed, else Numba with one warning), ``native`` or ``numba``.
`SPARSENET_REQUIRE_EXT=1` turns a missing extension into an error. A *broken* extension always raises. For signatures
and contracts see ``sparsenet/_core.pyi``. Numba is imported only if it is used.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import warnings
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparsenet._core import *  # noqa: F403

CHOICES = ("auto", "native", "numba")


class KernelWarning(UserWarning):
    """Warning that the slower Numba kernels are in use.

    Examples
    --------
    >>> from sparsenet import KernelWarning
    >>> issubclass(KernelWarning, UserWarning)
    True
    """


def _choose() -> ModuleType:
    choice = os.environ.get("SPARSENET_KERNELS", "auto")
    if choice not in CHOICES:
        raise ImportError(f"SPARSENET_KERNELS must be one of {', '.join(CHOICES)}, got {choice!r}")
    if choice == "numba":
        return importlib.import_module("sparsenet.kernels.numba")
    # Fall back to Numba only if the extension is absent: one that fails to load must raise.
    if importlib.util.find_spec("sparsenet._core") is not None:
        return importlib.import_module("sparsenet._core")
    if choice == "native" or os.environ.get("SPARSENET_REQUIRE_EXT") == "1":
        raise ImportError(
            "the C++ extension sparsenet._core is not installed; install a C++17 compiler and reinstall sparsenet, "
            "or set SPARSENET_KERNELS=numba"
        )
    warnings.warn(
        "the C++ extension is not installed: sparsenet runs on Numba, which is slower. "
        "Install a C++17 compiler and reinstall, or silence this with SPARSENET_KERNELS=numba.",
        KernelWarning,
        stacklevel=3,
    )
    return importlib.import_module("sparsenet.kernels.numba")


def backend() -> str:
    """Return which kernels are in use: ``"native"`` or ``"numba"``."""
    return "native" if _module().__name__ == "sparsenet._core" else "numba"


_chosen: ModuleType | None = None


def _module() -> ModuleType:
    global _chosen
    if _chosen is None:
        _chosen = _choose()
    return _chosen


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    function = getattr(_module(), name)
    globals()[name] = function  # later look-ups skip this function
    return function
