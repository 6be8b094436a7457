"""Which instruction set is chosen, and what is asked of the system for it."""

import os
import subprocess
import sys

import pytest

from sparsenet import kernels

pytestmark = pytest.mark.skipif(
    kernels.backend() != "native" or "amxbf16" not in kernels.isa_available(), reason="needs a CPU with AMX"
)

ARCH_PRCTL, GET_PERMISSIONS, TILES = 158, 0x1022, 1 << 18
#: Prints the level in use and whether this process has asked for the state of tiles.
PROGRAM = f"""
import ctypes
import sparsenet.kernels as kernels
used, granted = kernels.isa_used(), ctypes.c_uint64()
assert ctypes.CDLL(None).syscall({ARCH_PRCTL}, {GET_PERMISSIONS}, ctypes.byref(granted)) == 0
print(used, bool(granted.value & {TILES}))
"""
#: Before that, an alternate signal stack that has no room for tiles: Linux then refuses them.
NO_ROOM = """
import ctypes
class Stack(ctypes.Structure):
    _fields_ = [("start", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]
room = ctypes.create_string_buffer(8192)
assert ctypes.CDLL(None).sigaltstack(ctypes.byref(Stack(ctypes.addressof(room), 0, 8192)), None) == 0
"""


def run(program: str, isa: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SPARSENET_ISA": isa, "SPARSENET_KERNELS": "native"}
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)


@pytest.mark.parametrize("isa", ["avx2", "avx512bf16"])
def test_tiles_are_asked_for_only_by_the_level_that_has_them(isa: str) -> None:
    assert run(PROGRAM, isa).stdout.split() == [isa, "False"]


def test_tiles_are_asked_for_where_they_are_used() -> None:
    assert run(PROGRAM, "").stdout.split() == ["amxbf16", "True"]


def test_without_room_for_tiles_the_next_best_level_is_used() -> None:
    assert run(NO_ROOM + PROGRAM, "").stdout.split() == ["avx512bf16", "False"]


def test_a_level_asked_for_by_name_that_the_system_refuses_is_an_error() -> None:
    done = run(NO_ROOM + PROGRAM, "amxbf16")
    assert done.returncode != 0
    assert "instruction set 'amxbf16': the system gives this process no state for tiles" in done.stderr
    assert os.strerror(28) in done.stderr  # ENOSPC


def test_a_level_that_was_refused_is_asked_for_again() -> None:
    """The refusal holds for as long as its reason does, not for the life of the process."""
    later = """
assert ctypes.CDLL(None).sigaltstack(ctypes.byref(Stack(None, 2, 0)), None) == 0
kernels.set_isa("amxbf16")
print(kernels.isa_used())
"""
    assert run(NO_ROOM + PROGRAM + later, "").stdout.split() == ["avx512bf16", "False", "amxbf16"]
