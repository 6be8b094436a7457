"""Helpers of all Numba kernels: compiling, checking arguments, and splitting work over threads.

Threads are plain Python threads around functions that release the GIL, not ``prange``. That makes `csr_matmul` twice as
fast, since the outlined loop of ``prange`` vectorises worse, and compiles in two thirds of the time. It also needs no
threading layer, so kernels may be called from several threads at once and after a fork.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise
from typing import Any, TypeVar, cast

import numba
import numpy as np

from sparsenet.kernels.types import F32, I32, I64, U8

Function = TypeVar("Function", bound=Callable[..., Any])


# --- compiling ---------------------------------------------------------------------------------------------


def jit(function: Function) -> Function:
    """Compile at first use, without the GIL, and cache the machine code on disk if possible."""
    # Reassociation lets sums vectorise. NaN and infinity keep their meaning, so that divergence shows.
    options = {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz"}}
    try:
        return cast(Function, numba.njit(cache=True, **options)(function))
    except RuntimeError:  # no writable cache directory: compile in each process
        return cast(Function, numba.njit(**options)(function))


# --- checking ----------------------------------------------------------------------------------------------

DTYPES = {
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "i8": np.dtype(np.int8),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "i16": np.dtype(np.int16),
    "u8": np.dtype(np.uint8),
    "u16": np.dtype(np.uint16),
    "u64": np.dtype(np.uint64),
}


def checked(**specs: str) -> Callable[[Function], Function]:
    """Check arrays before the call: ``@checked(indptr="ptr n+1 nnz", data="f32 >=nnz", out="out f32 n h")``.

    A spec is ``[out] dtype dimension ...``: ``out`` requires a writeable array, ``dtype?`` allows None. A dimension is
    a symbol (bound to a size at its first use), ``symbol+1``, ``>=symbol`` or ``_`` for any size. ``ptr`` means row
    pointers: int64, rising from 0 to the size of the second symbol. An argument `threads` must be at least 1.
    """
    parsed = {name: spec.split() for name, spec in specs.items()}

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            arguments = signature.bind(*args, **kwargs).arguments
            sizes: dict[str, int] = {}
            for name, spec in parsed.items():
                check_array(name, arguments[name], spec, sizes)
            if arguments.get("threads", 1) < 1:
                raise ValueError(f"threads must be at least 1, got {arguments['threads']}")
            return function(**arguments)

        return cast(Function, wrapper)

    return decorate


def check_array(name: str, array: Any, spec: list[str], sizes: dict[str, int]) -> None:
    """Check an array against the parts of a spec; `sizes` holds the size of each symbol."""
    writes = spec[0] == "out"
    dtype, *dimensions = spec[writes:]
    if dtype == "ptr":
        check_array(name, array, ["i64", dimensions[0]], sizes)
        _check_pointers(name, array, dimensions[1], sizes)
        return
    if dtype.endswith("?") and array is None:
        return
    wanted = DTYPES[dtype.rstrip("?")]
    if not isinstance(array, np.ndarray) or array.dtype != wanted:
        found = getattr(array, "dtype", type(array).__name__)
        raise ValueError(f"{name} must have dtype {wanted}, got {found}")
    if array.ndim != len(dimensions):
        raise ValueError(f"{name} must have {len(dimensions)} dimensions, got {array.ndim}")
    if not array.flags.c_contiguous:
        raise ValueError(f"{name} must be C-contiguous")
    if writes and not array.flags.writeable:
        raise ValueError(f"{name} must be writeable")
    for axis, (dimension, size) in enumerate(zip(dimensions, array.shape, strict=True)):
        _check_size(f"{name} has shape[{axis}] = {size}, expected", dimension, size, sizes)


def _check_pointers(name: str, pointers: I64, symbol: str, sizes: dict[str, int]) -> None:
    # Check only the ends: checking every pointer would cost as much as some kernels.
    if pointers[0] != 0:
        raise ValueError(f"{name} must start with 0, got {pointers[0]}")
    sizes[symbol] = int(pointers[-1])


def _check_size(found: str, dimension: str, size: int, sizes: dict[str, int]) -> None:
    symbol = dimension.removeprefix(">=").removesuffix("+1")
    extra = int(dimension.endswith("+1"))
    if symbol == "_":
        return
    if size < extra:
        raise ValueError(f"{found} at least {extra}")
    expected = sizes.setdefault(symbol, size - extra) + extra
    if dimension.startswith(">="):
        if size < expected:
            raise ValueError(f"{found} at least {expected}")
    elif size != expected:
        raise ValueError(f"{found} {expected}")


# --- threads -----------------------------------------------------------------------------------------------

MAX_THREADS = 1024
# Several ranges for each thread, so that fast threads take work from slow ones.
RANGES_PER_THREAD = 4

_pool: ThreadPoolExecutor | None = None


def _forget_pool() -> None:
    global _pool
    _pool = None


# A forked child does not inherit the threads of its parent.
os.register_at_fork(after_in_child=_forget_pool)


def _helpers() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        # The pool starts threads on demand, not all at once.
        _pool = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="sparsenet")
    return _pool


def parallel_for(kernel: Callable[..., Any], n_tasks: int, threads: int, *args: Any, grain: int = 1) -> None:
    """Call ``kernel(first, last, *args)`` on ranges that cover ``range(n_tasks)``, on up to `threads` threads.

    The bounds of ranges and their threads vary, so the result of a task must depend on its index only. That makes every
    kernel bit-identical at any number of threads. A range has at least `grain` tasks. An exception, Ctrl-C included, is
    raised after all running ranges have ended.
    """
    n_ranges = min(-(-n_tasks // grain), 1 if threads == 1 else RANGES_PER_THREAD * min(threads, MAX_THREADS))
    if n_ranges <= 1:
        if n_tasks > 0:
            kernel(0, n_tasks, *args)
        return
    bounds = [n_tasks * i // n_ranges for i in range(n_ranges + 1)]
    ranges = deque(pairwise(bounds))

    def work() -> None:
        while True:
            try:
                first, last = ranges.popleft()
            except IndexError:
                return
            kernel(first, last, *args)

    helpers = [_helpers().submit(work) for _ in range(min(threads, n_ranges) - 1)]
    try:
        work()
    finally:
        ranges.clear()
        wait(helpers)
    for helper in helpers:
        helper.result()


@jit
def close_gaps(starts: I64, ends: I64, first: I32, second: I32 | F32 | U8) -> None:
    """Compact rows of two arrays that begin at `starts` and have ``ends[i]`` entries; set `ends` to their new ends."""
    end = 0
    for i in range(len(ends)):
        for j in range(ends[i]):
            first[end + j] = first[starts[i] + j]
            second[end + j] = second[starts[i] + j]
        end += ends[i]
        ends[i] = end
