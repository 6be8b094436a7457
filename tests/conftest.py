"""Shared fixtures: kernel tests run on each usable backend and instruction set."""

from __future__ import annotations

import importlib
import os
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

pytest.register_assert_rewrite("tests.support")

from tests.support.backends import MODULES, has_extension, levels, quick_levels, require_installed  # noqa: E402

# A shell lets background jobs ignore Ctrl-C, which dozens of tests press.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

if os.environ.get("SPARSENET_TEST_INSTALLED") == "1":
    require_installed()
if not has_extension():
    # Choose Numba explicitly: falling back to it warns once, which would fail the first test.
    os.environ.setdefault("SPARSENET_KERNELS", "numba")


@cache
def load_hypothesis_profile() -> None:
    """Draw the same examples in each `make test`; `make fuzz` draws many more, and different ones each time."""
    from hypothesis import settings

    settings.register_profile("same", derandomize=True, max_examples=150, deadline=None)
    settings.register_profile("fuzz", derandomize=False, max_examples=3000, deadline=None, print_blob=True)
    settings.load_profile(os.environ.get("SPARSENET_EXAMPLES", "same"))


def pytest_pycollect_makemodule(module_path: Path) -> None:
    """Load the profile before a module that uses Hypothesis; other modules start faster without it."""
    if "hypothesis" in module_path.read_text(encoding="utf-8"):
        load_hypothesis_profile()


@pytest.hookimpl(trylast=True)  # so that the levels of one call come one after the other
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that takes `backend` on every level; mark the levels that only `make test-all` runs."""
    if "backend" not in metafunc.fixturenames:
        return
    smoke = any(metafunc.definition.iter_markers("numba_smoke"))
    quick = quick_levels(smoke)
    params = [
        pytest.param(
            (name, isa),
            id=name if name == isa else f"{name}-{isa}",
            marks=[] if (name, isa) in quick else pytest.mark.levels,
        )
        for name, isa in levels()
    ]
    metafunc.parametrize("backend", params, indirect=True)


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """Yield the module of kernels, set to one instruction set."""
    name, isa = request.param
    module = importlib.import_module(MODULES[name])
    before = module.isa_used()
    module.set_isa(isa)
    yield module
    module.set_isa(before)


@pytest.fixture(scope="module")
def narrow_network() -> Iterator[None]:
    """Narrow the networks over texts to 16 hidden units: full width takes a third of the suite under emulation."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sparsenet.engines.text.text_network.HIDDEN", 16)
        yield
