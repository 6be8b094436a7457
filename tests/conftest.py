"""What tests share: every kernel test runs on each usable backend and instruction set."""

from __future__ import annotations

import importlib
import importlib.util
import os
import signal
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import settings

# A shell has what it runs in the background ignore Ctrl-C, which dozens of tests press.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

MODULES = {"native": "sparsenet._core", "numba": "sparsenet.kernels.numba"}


def has_extension() -> bool:
    if importlib.util.find_spec(MODULES["native"]) is not None:
        return True
    if os.environ.get("SPARSENET_REQUIRE_EXT") == "1":
        raise ImportError("SPARSENET_REQUIRE_EXT=1, and the extension sparsenet._core is not installed")
    return False


def require_installed() -> None:
    """Refuse to test anything but an installed package with its extension: a wheel is tested, not the source tree."""
    site = Path(sysconfig.get_path("platlib")).resolve()
    for name in ("sparsenet", MODULES["native"]):
        found = importlib.util.find_spec(name)
        if found is None or found.origin is None or not Path(found.origin).resolve().is_relative_to(site):
            raise ImportError(f"SPARSENET_TEST_INSTALLED=1, and {name} is not in {site}: {found}")
    used = importlib.import_module("sparsenet.kernels").backend()
    if used != "native":
        raise ImportError(f"SPARSENET_TEST_INSTALLED=1, and the kernels in use are those of {used}")


if os.environ.get("SPARSENET_TEST_INSTALLED") == "1":
    require_installed()
if not has_extension():
    # Chosen, not fallen back to: the one warning of that would be an error in whichever test comes first.
    os.environ.setdefault("SPARSENET_KERNELS", "numba")


def levels() -> list[tuple[str, str]]:
    """List every (backend, instruction set) that this machine can test."""
    names = ["native", "numba"] if has_extension() else ["numba"]
    return [(name, isa) for name in names for isa in importlib.import_module(MODULES[name]).isa_available()]


# One commit, one result: `make test` draws the same examples each time, and `make fuzz` many more, others each time.
settings.register_profile("same", derandomize=True, max_examples=150, deadline=None)
settings.register_profile("fuzz", derandomize=False, max_examples=3000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("SPARSENET_EXAMPLES", "same"))


@pytest.fixture(params=levels(), ids=lambda level: level[0] if level[0] == level[1] else "-".join(level))
def backend(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """The module of kernels, set to one instruction set."""
    name, isa = request.param
    module = importlib.import_module(MODULES[name])
    before = module.isa_used()
    module.set_isa(isa)
    yield module
    module.set_isa(before)


@pytest.fixture(scope="module")
def narrow_network() -> Iterator[None]:
    """Networks over texts of few hidden units: under emulation those of full width take a third of the whole suite."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sparsenet.engines.text.text_network.HIDDEN", 16)
        yield
