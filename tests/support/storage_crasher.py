"""Save a model in children that are killed, and print the surviving model; run by test_storage_crashes.py.

Usage: storage_crasher.py DIRECTORY every_step OLD | killed_at_any_time
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from sparsenet import storage
from tests.support.patience import PATIENCE

DIRECTORY = sys.argv[1]
STEPS = ("open", "write", "fsync", "replace", "unlink", "close", "mkdir")


def save(number: int, size: int = 5) -> None:
    storage.save(DIRECTORY, {"a": np.full((3, size), number, np.int64)}, {"number": number})


def check() -> int:
    arrays, metadata = storage.load(DIRECTORY)
    assert (arrays["a"] == metadata["number"]).all()
    return metadata["number"]


def in_child(action: Callable[[], None]) -> int:
    child = os.fork()
    if not child:
        action()
        os._exit(0)
    return child


def die_before(step: int) -> None:
    """Kill this process before the n-th step, counted from 0."""
    left = iter(range(step))

    def dying(function):
        def call(*arguments, **options):
            if next(left, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **options)

        return call

    for name in STEPS:
        setattr(os, name, dying(getattr(os, name)))


def save_dying(step: int) -> None:
    die_before(step)
    save(1)


def save_for_ever(first: int) -> None:
    for number in itertools.count(first):
        save(number, 20_000)


def every_step(old: bool) -> None:
    for step in itertools.count():
        shutil.rmtree(DIRECTORY, ignore_errors=True)
        if old:
            save(0)
        _, status = os.waitpid(in_child(partial(save_dying, step)), 0)
        try:
            print(check())
        except storage.ModelError:
            assert not old
            print("none")
        save(2)
        assert check() == 2
        assert len(os.listdir(DIRECTORY)) == 2
        if status == 0:
            return


def killed_at_any_time() -> None:
    random.seed(0)
    seen: set[int] = set()
    for attempt in itertools.count():
        if attempt >= 400 or (attempt >= 40 and len(seen) > 3):  # a busy machine saves rarely
            return
        child = in_child(partial(save_for_ever, 1000 * attempt))
        time.sleep(random.uniform(0.001, 0.04) * PATIENCE)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        number = check()
        seen.add(number)
        print(number)


if sys.argv[2] == "every_step":
    every_step(old=sys.argv[3] == "1")
else:
    killed_at_any_time()
