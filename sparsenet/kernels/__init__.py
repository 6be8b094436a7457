"""The kernels, native or Numba: one choice, made at first use, behind one set of names.

`SPARSENET_KERNELS` = ``auto`` (native if it is there, else Numba with one warning), ``native`` or ``numba``;
`SPARSENET_REQUIRE_EXT=1` makes a missing extension an error. A *broken* extension always raises. Signatures and
contracts are those of ``sparsenet/_core.pyi``; Numba is imported only when it is used.
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
    """The slower kernels are in use.

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
    # Only absence is forgiven: an extension that is there and does not load must be heard of.
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
    """Return ``"native"`` or ``"numba"``: which kernels are in use."""
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
    globals()[name] = function  # the next look-up does not come here
    return function
