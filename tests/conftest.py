"""What tests share: every kernel test runs on each usable backend and instruction set."""

from __future__ import annotations

import importlib
import os
import signal
from collections.abc import Iterator
from types import ModuleType

import pytest
from hypothesis import settings

from tests.support.backends import MODULES, has_extension, levels, require_installed

# A shell has what it runs in the background ignore Ctrl-C, which dozens of tests press.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

if os.environ.get("SPARSENET_TEST_INSTALLED") == "1":
    require_installed()
if not has_extension():
    # Chosen, not fallen back to: the one warning of that would be an error in whichever test comes first.
    os.environ.setdefault("SPARSENET_KERNELS", "numba")


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
