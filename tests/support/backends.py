"""The backends of the kernels that this machine can test, and where they are installed."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sysconfig
from functools import cache
from pathlib import Path

MODULES = {"native": "sparsenet._core", "numba": "sparsenet.kernels.numba"}


def has_extension() -> bool:
    if importlib.util.find_spec(MODULES["native"]) is not None:
        return True
    if os.environ.get("SPARSENET_REQUIRE_EXT") == "1":
        raise ImportError("SPARSENET_REQUIRE_EXT=1, and the extension sparsenet._core is not installed")
    return False


def require_installed() -> None:
    """Refuse to test anything but an installed wheel with its extension."""
    site = Path(sysconfig.get_path("platlib")).resolve()
    for name in ("sparsenet", MODULES["native"]):
        found = importlib.util.find_spec(name)
        if found is None or found.origin is None or not Path(found.origin).resolve().is_relative_to(site):
            raise ImportError(f"SPARSENET_TEST_INSTALLED=1, and {name} is not in {site}: {found}")
    used = importlib.import_module("sparsenet.kernels").backend()
    if used != "native":
        raise ImportError(f"SPARSENET_TEST_INSTALLED=1, and the kernels in use are those of {used}")


@cache
def levels() -> list[tuple[str, str]]:
    """List every (backend, instruction set) that this machine can test: native ones, best last, then Numba."""
    native = importlib.import_module(MODULES["native"]).isa_available() if has_extension() else []
    return [*(("native", isa) for isa in native), ("numba", "numba")]


@cache
def quick_levels(smoke: bool) -> set[tuple[str, str]]:
    """Return the levels of `make test`: scalar, the best native one, and Numba in smoke tests or without others."""
    native = [level for level in levels() if level[0] == "native"]
    return {*native[:1], *native[-1:], *(levels()[-1:] if smoke or not native else [])}
