"""Tasks for tests of executors, in a module that spawned workers can import."""

import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from sparsenet import Workers
from sparsenet.core.workers import task_runner
from sparsenet.engines.tree.train_levels import route


def processes(n=2, method="fork"):
    """Return a pool of processes."""
    return ProcessPoolExecutor(n, mp_context=multiprocessing.get_context(method))


@contextmanager
def killing(folder, file, worker):
    """Kill the process whose number `worker` returns, as soon as a file is in the folder of the run."""
    ended, killed = threading.Event(), []

    def kill():
        while not ended.wait(0.001):
            if list(folder.glob(f"*/{file}")):
                killed.append(worker())
                os.kill(killed[0], signal.SIGKILL)
                return

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield killed
    finally:
        ended.set()
        killer.join()
    assert killed, f"the run ended before {file} was seen"


def run(executor, function, arguments, **settings):
    """Run tasks on an executor, next to a shared array."""
    with task_runner(Workers(executor, **settings)) as runner, runner.session() as session:
        session.scratch.put("numbers", np.arange(10))
        return session.run(function, arguments)


def add(scratch, number):
    return int(scratch.get("numbers")[0].sum()) + number


def deleted_files():
    """Return the names of the deleted files that this process still maps."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {Path(line.removesuffix(" (deleted)")).name for line in lines if line.endswith(" (deleted)")}


def fail(scratch, number):
    raise ValueError(f"number {number} is bad")


def fail_unpicklably(scratch):
    class LocalError(Exception):
        pass

    raise LocalError("cannot be sent")


def sleep(scratch, seconds):
    time.sleep(seconds)


def meet(scratch, folder, name, n):
    """Wait until n tasks run at the same time."""
    Path(folder, f"begun {name}").touch()
    for _ in range(6000):
        if len(list(Path(folder).glob("begun *"))) == n:
            return
        time.sleep(0.01)
    raise TimeoutError("the other tasks have not begun")


def end_or_fail(scratch, folder, seconds, n):
    """Fail, or end after some seconds, once n tasks run at the same time."""
    meet(scratch, folder, seconds, n)
    if not seconds:
        raise ValueError("all have begun")
    time.sleep(seconds)
    Path(folder, f"ended {seconds}").touch()


def process(scratch):
    return os.getpid()


def read_missing(scratch):
    scratch.get("other")


def die(scratch, marker, number):
    """Kill this worker, unless the marker exists: then return the number."""
    if marker is None or not Path(marker).exists():
        if marker is not None:
            Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def route_once_dying(scratch, plan, shard):
    """Route a shard of a tree; the first one kills its worker."""
    die(scratch, os.environ["DIED"], shard)
    return route(scratch, plan, shard)


def interrupt_all(scratch, *arguments):
    """Press Ctrl-C in the driver, and end this worker."""
    os.kill(os.getppid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGKILL)
