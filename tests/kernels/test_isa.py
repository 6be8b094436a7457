"""Choice of the instruction set, and the permission for tiles that the system grants."""

import os
import subprocess
import sys

import pytest

from sparsenet import kernels

pytestmark = pytest.mark.skipif(
    kernels.backend() != "native" or "amxbf16" not in kernels.isa_available(), reason="needs a CPU with AMX"
)

ARCH_PRCTL, GET_PERMISSIONS, TILES = 158, 0x1022, 1 << 18
#: Prints the level in use and whether this process has requested tile state.
PROGRAM = f"""
import ctypes
import sparsenet.kernels as kernels
used, granted = kernels.isa_used(), ctypes.c_uint64()
assert ctypes.CDLL(None).syscall({ARCH_PRCTL}, {GET_PERMISSIONS}, ctypes.byref(granted)) == 0
print(used, bool(granted.value & {TILES}))
"""
#: First sets an alternate signal stack without room for tiles, so that Linux refuses them.
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
def test_requests_tiles_only_on_the_amx_level(isa: str) -> None:
    assert run(PROGRAM, isa).stdout.split() == [isa, "False"]


def test_requests_tiles_on_first_use() -> None:
    assert run(PROGRAM, "").stdout.split() == ["amxbf16", "True"]


def test_falls_back_if_there_is_no_room_for_tiles() -> None:
    assert run(NO_ROOM + PROGRAM, "").stdout.split() == ["avx512bf16", "False"]


def test_rejects_a_named_level_that_the_system_refuses() -> None:
    done = run(NO_ROOM + PROGRAM, "amxbf16")
    assert done.returncode != 0
    assert "instruction set 'amxbf16': the system gives this process no state for tiles" in done.stderr
    assert os.strerror(28) in done.stderr  # ENOSPC


def test_requests_a_refused_level_again() -> None:
    """The refusal ends when its reason ends, not with the process."""
    later = """
assert ctypes.CDLL(None).sigaltstack(ctypes.byref(Stack(None, 2, 0)), None) == 0
kernels.set_isa("amxbf16")
print(kernels.isa_used())
"""
    assert run(NO_ROOM + PROGRAM + later, "").stdout.split() == ["avx512bf16", "False", "amxbf16"]
