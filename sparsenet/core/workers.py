"""Run tasks on the workers of an executor: processes, or machines behind Dask, MPI or Ray."""

from __future__ import annotations

import os
import pickle
import queue
import shutil
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import sparsenet
from sparsenet import kernels
from sparsenet.core.machine import available_memory
from sparsenet.core.scratch import SHARED, FolderScratch, unmap_deleted
from sparsenet.core.tasks import HERE, Host, OnDone, Session, TaskRunner
from sparsenet.core.validation import integer, optional, real

#: A task whose worker was lost is sent again up to this many times.
MAX_RESENDS = 3
#: Seconds that running tasks get to end, after an error or Ctrl-C.
GRACE = 10.0
#: Maximum seconds for `Workers.timeout`.
MAX_TIMEOUT = 1e9
#: Maximum for `Workers.n_workers`, and the number of workers of an executor that does not tell it.
MAX_WORKERS, UNKNOWN_WORKERS = 1 << 20, 16


class Workers:
    """An executor with settings, for the argument `executor` of `fit`.

    Parameters
    ----------
    executor : concurrent.futures.Executor, or function or class that makes one
        Such as a ProcessPoolExecutor, or ``client.get_executor()`` of Dask. A function is called at the start, and
        again if the pool breaks; that executor is shut down at the end.
    scratch : directory, optional
        Where points are put for the workers; all of them must be able to read and write it. By default the directory
        for temporary files. Everything is deleted at the end.
    timeout : float
        TimeoutError if no task ends for this many seconds.
    n_workers : int, optional
        Number of workers. A network has as many tasks a step, up to 16. Pools of processes, threads and MPI tell it;
        for other executors, the default is 16.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> from sparsenet import TreeClassifier, Workers
    >>> X, y = [[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]], ["cat", "cat", "dog", "dog"]
    >>> with ThreadPoolExecutor(2) as pool:
    ...     model = TreeClassifier(random_state=0).fit(X, y, executor=Workers(pool, timeout=60))
    >>> model.predict([[1.0, 0.1]]).tolist()
    ['cat']
    """

    def __init__(
        self,
        executor: Executor | Callable[[], Executor],
        *,
        scratch: str | os.PathLike[str] | None = None,
        timeout: float = 3600.0,
        n_workers: int | None = None,
    ) -> None:
        if hasattr(executor, "get_executor"):
            raise ValueError("executor is a Dask client: pass client.get_executor()")
        if not (hasattr(executor, "submit") or callable(executor)):
            raise ValueError(
                f"executor must be a concurrent.futures.Executor or a function that makes one, got {executor!r}"
            )
        self.executor = executor
        scratch = tempfile.gettempdir() if scratch is None else scratch
        if not (isinstance(scratch, str | os.PathLike) and Path(scratch).is_dir()):
            raise ValueError(f"scratch must be a directory that all workers share, got {scratch!r}")
        self.scratch = os.fspath(scratch)
        self.timeout = real("timeout", timeout, 0, MAX_TIMEOUT, open_low=True)
        self.n_workers: int | None = optional(integer, "n_workers", n_workers, 1, MAX_WORKERS)


@contextmanager
def task_runner(executor: Any, threads: int | None = None) -> Iterator[TaskRunner]:
    """Return where tasks run: this process for None, else the workers of an executor or `Workers`.

    There, a task has `threads` threads, one by default.
    """
    if executor is None:
        yield HERE
        return
    pool = _Pool(executor if isinstance(executor, Workers) else Workers(executor), threads or 1)
    try:
        yield pool
    finally:
        pool.close()


class _Pool:
    """The executor of `Workers`, which is made again when it breaks, if it was made here."""

    def __init__(self, workers: Workers, threads: int) -> None:
        self.workers, self._threads = workers, threads
        given = workers.executor
        is_made = hasattr(given, "submit") and not isinstance(given, type)
        self._make: Callable[[], Executor] | None = None if is_made else given  # type: ignore[assignment]
        self._executor: Executor = given if self._make is None else _made(self._make)  # type: ignore[assignment]
        self._is_idle, self.has_run = True, False
        self._hosts: dict[str, Host] = {}

    def hosts(self) -> list[Host] | None:
        """Return the machines whose workers have run tasks."""
        return list(self._hosts.values())

    def count(self, workers: Collection[_About]) -> None:
        """Count the workers of a run by host; the run with the most workers counts, since pools replace them."""
        by_host = Counter(worker.host for worker in workers)
        for worker in workers:
            is_own, name = worker.host == _about().host, worker.host
            before = self._hosts.get(name, Host(name, is_own, 0, worker.available))
            self._hosts[name] = before._replace(n_workers=max(before.n_workers, by_host[name]))

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Open a session with a folder of its own."""
        folder = tempfile.mkdtemp(prefix="sparsenet-", dir=self.workers.scratch)
        try:
            yield _PoolSession(self, FolderScratch(folder))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            unmap_deleted()  # where the workers are threads of this process

    @property
    def n_workers(self) -> int:
        """Return the number of workers."""
        return self.workers.n_workers or int(getattr(self._executor, "_max_workers", UNKNOWN_WORKERS))

    def task_threads(self, threads: int) -> int:
        """Return the threads of each task."""
        return self._threads

    def submit(self, *call: Any) -> Future[Any]:
        """Send a call to a worker; a broken executor gives a failed future."""
        try:
            return self._executor.submit(*call)
        except BrokenExecutor as error:
            failed: Future[Any] = Future()
            failed.set_exception(error)
            return failed
        except RuntimeError as error:
            raise RuntimeError(f"the executor takes no tasks: {error}") from error

    def hint(self) -> str:
        """Return what to look at if workers die before any has run a task."""
        guard = 'the program may lack `if __name__ == "__main__":` around its training, which spawned processes need'
        return "" if self.has_run else f" (no worker has run a task yet: {guard})"

    def renew(self, error: BaseException) -> None:
        """Replace a broken executor."""
        if self._make is None:
            raise RuntimeError(
                "the executor broke because a worker died, and such a pool cannot go on: look for why it died, often "
                "memory, and pass a function that makes the executor, such as executor=lambda: ProcessPoolExecutor(4)"
                f"{self.hint()}"
            ) from error
        self._executor.shutdown(wait=False)
        self._executor = _made(self._make)

    def stop(self, unfinished: list[Future[Any]], folder: str) -> None:
        """Cancel tasks, and wait a little for running ones; tasks that start without `folder` end at once."""
        for future in unfinished:
            future.cancel()
        shutil.rmtree(folder, ignore_errors=True)
        ended: queue.SimpleQueue[object] = queue.SimpleQueue()
        running = [future for future in unfinished if not future.done()]
        for future in running:
            future.add_done_callback(ended.put)
        deadline = time.monotonic() + GRACE
        try:
            for _ in running:
                ended.get(timeout=max(deadline - time.monotonic(), 0.0))
        except queue.Empty:
            self._is_idle = False

    def close(self) -> None:
        """Shut down an executor that was made here."""
        if self._make is None:
            return
        processes = list((getattr(self._executor, "_processes", None) or {}).values())
        self._executor.shutdown(wait=self._is_idle)
        if not self._is_idle:
            for process in processes:
                process.kill()


def _made(make: Callable[[], Executor]) -> Executor:
    made = make()
    if not hasattr(made, "submit"):
        raise ValueError(f"executor must be a function that returns an executor, and {make!r} gave {made!r}")
    return made


class _PoolSession:
    """Tasks on the workers of a pool."""

    def __init__(self, pool: _Pool, scratch: FolderScratch) -> None:
        self._pool, self.scratch = pool, scratch

    def run(
        self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], on_done: OnDone | None = None
    ) -> list[Any]:
        """Run tasks; send the tasks of lost workers again."""
        tasks = _Tasks(self._pool, self.scratch, function, arguments)
        found: list[Any] = [None] * len(arguments)
        workers: dict[tuple[str, int, int], _About] = {}
        try:
            tasks.send(range(len(arguments)))
            while tasks.unfinished:
                at, future = tasks.wait()
                lost = _lost(future)
                if lost is not None:
                    tasks.send_again(at, lost)
                    workers.clear()
                    continue
                outcome, self._pool.has_run = future.result(), True
                found[at] = outcome.value_from(_about())
                about = outcome.about
                workers[about.host, about.process, about.thread] = about
                if on_done is not None:
                    on_done(at, found[at])
        except BaseException:
            self._pool.stop(list(tasks.unfinished), self.scratch.folder)
            raise
        self._pool.count(workers.values())
        return found


class _Tasks:
    """The tasks of one function that are under way: `unfinished` has the position of each future."""

    def __init__(
        self, pool: _Pool, scratch: FolderScratch, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]
    ) -> None:
        self.unfinished: dict[Future[Any], int] = {}
        self._pool, self._scratch, self._function, self._arguments = pool, scratch, function, arguments
        self._ended: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()
        self._losses: Counter[int] = Counter()

    def send(self, tasks: Iterable[int]) -> None:
        """Send tasks to the workers."""
        for at in tasks:
            future = self._pool.submit(_call, self._function, self._scratch, self._arguments[at])
            self.unfinished[future] = at
            future.add_done_callback(self._ended.put)

    def wait(self) -> tuple[int, Future[Any]]:
        """Return the position and the future of a task that has ended."""
        timeout = self._pool.workers.timeout
        try:
            future = self._ended.get(timeout=timeout)
        except queue.Empty:
            first = self._named(min(self.unfinished.values()))
            raise TimeoutError(
                f"no task ended within {timeout:g} s, and {len(self.unfinished)} of {len(self._arguments)} are "
                f"unfinished. The first is {first}: look at the workers, or raise timeout"
            ) from None
        return self.unfinished.pop(future), future

    def send_again(self, at: int, lost: BaseException) -> None:
        """Send a task again after its worker was lost; a broken executor loses all tasks."""
        self._check_sendable(at)
        again = [at]
        if isinstance(lost, BrokenExecutor):
            again = sorted([at, *self.unfinished.values()])
            self.unfinished.clear()
            self._ended = queue.SimpleQueue()
        ran = again[: self._pool.n_workers]  # the others waited
        self._losses.update(ran)
        losses = max(self._losses[task] for task in ran)
        if losses > MAX_RESENDS:
            first, *others = [task for task in ran if self._losses[task] == losses]
            among = " or of a task that ran at the same times" if others else ""
            raise RuntimeError(
                f"the worker of {self._named(first)}{among} was lost {losses} times, the last time by {lost!r}: "
                f"a worker may have too little memory for it{self._pool.hint()}"
            ) from lost
        if isinstance(lost, BrokenExecutor):
            self._pool.renew(lost)
        self.send(again)

    def _check_sendable(self, at: int) -> None:
        """Refuse arguments that cannot be pickled: some executors report these only later, as if a worker were lost."""
        try:
            pickle.dumps((self._function, self._arguments[at]))
        except Exception as error:
            raise TypeError(f"the arguments of {self._named(at)} cannot be sent to a worker: {error}") from error

    def _named(self, at: int) -> str:
        """Name a task by its function and its numbers."""
        numbers = ", ".join(str(each) for each in self._arguments[at] if isinstance(each, int))
        return f"{self._function.__module__}.{self._function.__qualname__}({numbers})"


class _Outcome(NamedTuple):
    """The value or the error of a task, and facts about its process."""

    value: Any
    error: Exception | None
    about: _About

    def value_from(self, own: _About) -> Any:
        """Return the value or raise the error; refuse workers whose results may differ from results of this process."""
        if self.about[:3] != own[:3]:
            raise RuntimeError(
                f"the worker on {self.about.host} has {self.about}, and this process has {own}: results could differ "
                "in the last bits. Install the same version everywhere, and set SPARSENET_ISA to a level that all have"
            )
        if self.error is not None:
            raise self.error
        return self.value


class _About(NamedTuple):
    """Facts about a worker; the bits of results depend on the first three.

    A `thread` of a `process` runs one task at a time. `available` is the memory before its first task.
    """

    version: str
    backend: str
    isa: str
    host: str
    process: int
    thread: int
    available: int

    def __str__(self) -> str:
        return f"sparsenet {self.version} ({self.backend} kernels, {self.isa or 'no'} instruction set)"


def _about() -> _About:
    return _about_worker(os.getpid(), threading.get_ident())


@cache
def _about_worker(process: int, thread: int) -> _About:
    """Return the facts, which a forked process must not take over from this one."""
    backend = kernels.backend()
    isa = kernels.isa_used() if backend == "native" else ""
    return _About(sparsenet.__version__, backend, isa, os.uname().nodename, process, thread, available_memory())


def _call(function: Callable[..., Any], scratch: FolderScratch, arguments: tuple[Any, ...]) -> _Outcome:
    """Run a task in a worker."""
    about = _about()
    if not Path(scratch.folder).is_dir():  # pools fetch tasks ahead of time, and those cannot be cancelled
        return _Outcome(None, FileNotFoundError(f"{scratch.folder} is missing on {about.host}: {SHARED}"), about)
    try:
        return _Outcome(function(scratch, *arguments), None, about)
    except Exception as error:
        text = f"In a worker on {about.host}, process {os.getpid()}:\n{traceback.format_exc()}"
        try:
            pickle.loads(pickle.dumps(error))  # as the executor will: some errors fail only when they are read
            error.add_note(text)
            return _Outcome(None, error, about)
        except Exception:  # an error that cannot be sent
            return _Outcome(None, RuntimeError(text), about)


def _lost(future: Future[Any]) -> BaseException | None:
    """Return why a task has no outcome; tasks return their own errors."""
    try:
        return future.exception()
    except CancelledError as error:
        return error
