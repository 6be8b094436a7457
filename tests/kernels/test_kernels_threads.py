"""Kernel calls from several threads at once and after a fork, and how the Numba backend splits its work."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import numba
import numpy as np
import pytest

from sparsenet.kernels.numba import numba_common as common
from tests.support.kernel_calls import LARGE, Call
from tests.support.kernel_cases import calls


def sample(function: str) -> Call:
    return next(call for _, call in calls(function, LARGE[1]))


@pytest.mark.parametrize("function", ["csr_matmul", "matmul", "bce_gradient", "predict_topk"])
def test_calls_from_several_threads_at_once_give_the_same_bytes(backend: ModuleType, function: str) -> None:
    call = sample(function)
    alone = call.run(backend)
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda threads: call.run(backend, threads), [1, 2, 3, 4] * 4))
    for outputs in together:
        assert {name: x.tobytes() for name, x in outputs.items()} == {name: x.tobytes() for name, x in alone.items()}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize("function", ["csr_matmul", "matmul"])
def test_a_forked_child_computes_the_same_bytes(backend: ModuleType, function: str) -> None:
    call = sample(function)
    alone = call.run(backend, threads=2)["out"].tobytes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads and fork: the very thing under test
        child = os.fork()
    if child == 0:
        signal.alarm(20)  # a deadlock kills the child, not the test run
        os._exit(0 if call.run(backend, threads=2)["out"].tobytes() == alone else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# --- the Numba backend ---


@pytest.mark.parametrize(("n_tasks", "threads", "grain"), [(0, 2, 1), (1, 4, 1), (10, 3, 1), (100, 2, 16), (7, 1, 2)])
def test_ranges_cover_every_task_once(n_tasks: int, threads: int, grain: int) -> None:
    done = np.zeros(n_tasks, int)
    ranges = []

    def kernel(first: int, last: int) -> None:
        done[first:last] += 1
        ranges.append(last - first)

    common.parallel_for(kernel, n_tasks, threads, grain=grain)
    assert (done == 1).all()
    assert len(ranges) <= max(1, -(-n_tasks // grain))


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("on_caller", [True, False])
def test_exceptions_are_raised_after_running_ranges_end(error: type[BaseException], on_caller: bool) -> None:
    caller, running, started = threading.current_thread(), [0], threading.Barrier(2)
    lock = threading.Lock()

    def kernel(first: int, last: int) -> None:
        with lock:
            running[0] += 1
        if first < 2 and not started.broken:
            started.wait(10)
        try:
            if (threading.current_thread() is caller) == on_caller:
                raise error("stop")
            time.sleep(0.05)
        finally:
            with lock:
                running[0] -= 1

    with pytest.raises(error):
        common.parallel_for(kernel, 8, 2)
    assert running == [0]


@pytest.mark.parametrize("kernels", ["native", pytest.param("numba", marks=pytest.mark.levels)])
def test_daemon_threads_inside_a_kernel_do_not_abort_the_end_of_the_process(kernels: str) -> None:
    if kernels == "native":
        pytest.importorskip("sparsenet._core")
    program = """
        import threading, time
        import numpy as np
        from sparsenet import kernels

        a = np.ones((128, 128), np.float32)

        def work():
            out = np.empty_like(a)
            while True:
                kernels.matmul(a, a, out, None, None, None, False, False, False, 1)

        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.3)
    """
    environment = {**os.environ, "SPARSENET_KERNELS": kernels}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], env=environment, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def test_works_alone_if_no_thread_starts() -> None:
    """The stack limit sets the size of a new thread's stack: here it exceeds the memory limit."""
    pytest.importorskip("sparsenet._core")
    program = """
        import threading
        import numpy as np
        from sparsenet import kernels

        a, out = np.ones((400, 300), np.float32), np.empty((400, 400), np.float32)
        kernels.matmul(a, a, out, None, None, None, False, True, False, 4)
        assert (out == 300).all()
        try:
            threading.Thread(target=print).start()
        except RuntimeError:
            print("no thread")
    """

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_STACK, (1 << 36, resource.getrlimit(resource.RLIMIT_STACK)[1]))
        resource.setrlimit(resource.RLIMIT_AS, (1 << 35, 1 << 35))

    if resource.getrlimit(resource.RLIMIT_STACK)[1] != resource.RLIM_INFINITY:
        pytest.skip("the limit on stacks cannot be raised here")
    environment = {**os.environ, "SPARSENET_KERNELS": "native", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, preexec_fn=limit)
    if done.stdout == "\n":  # what the thread printed
        pytest.skip("the limit on stacks is not heeded here, as under an emulator")
    assert (done.returncode, done.stdout) == (0, "no thread\n"), done.stderr


def test_kernels_compile_without_a_cache_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    njit = numba.njit

    def nowhere_to_write(cache: bool = False, **options: object) -> object:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return njit(**options)

    njit(lambda: None)()  # Numba's own functions, compiled with the first one, are not meant
    monkeypatch.setattr(numba, "njit", nowhere_to_write)

    def double(x: float) -> float:
        return 2 * x

    assert common.jit(double)(1.5) == 3.0
