"""Tasks on executors: results in order, lost workers, deadlines, Ctrl-C, errors and differing workers."""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from sparsenet import Workers
from sparsenet.core import scratch as scratch_files
from sparsenet.core import workers
from sparsenet.core.workers import task_runner
from tests.support import pool_tasks
from tests.support.pool_tasks import add, die, end_or_fail, fail, fail_unpicklably, meet, process, processes, run, sleep

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@pytest.fixture
def scratch(tmp_path):
    """Return a folder that must be empty in the end."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    yield folder
    assert list(folder.iterdir()) == []


@pytest.fixture(scope="module")
def pool():
    with processes() as pool:
        yield pool


def test_returns_results_in_order(pool, scratch):
    assert run(pool, add, [(number,) for number in range(50)], scratch=scratch) == [45 + n for n in range(50)]


@pytest.mark.parametrize("make", [processes, ThreadPoolExecutor], ids=["forked processes", "threads"])
def test_counts_the_workers_of_a_host(make, tmp_path):
    workers._about()  # which forked processes inherit
    with make(2) as pool, task_runner(pool) as runner, runner.session() as session:
        session.run(meet, [(str(tmp_path), number, 2) for number in range(2)])
        hosts = runner.hosts()
    assert hosts is not None
    [host] = hosts
    assert host.is_own
    assert host.n_workers == 2


def test_threads_are_workers_too(scratch):
    with ThreadPoolExecutor(3) as pool:
        assert run(pool, add, [(number,) for number in range(20)], scratch=scratch) == [45 + n for n in range(20)]
    assert not [folder for folder, _ in scratch_files._mapped if folder.startswith(str(scratch))]


def test_the_error_of_a_task_has_its_traceback(pool, scratch):
    with pytest.raises(ValueError, match="number 3 is bad") as caught:
        run(pool, fail, [(3,)], scratch=scratch)
    assert any("in fail\n" in note for note in caught.value.__notes__)


def test_an_error_that_cannot_be_sent_has_its_traceback(pool, scratch):
    with pytest.raises(RuntimeError, match="cannot be sent"):
        run(pool, fail_unpicklably, [()], scratch=scratch)


def test_arguments_that_cannot_be_sent_are_no_lost_worker(pool, scratch):
    message = r"the arguments of .*pool_tasks\.add\(\) cannot be sent to a worker: .*(pickle|local object)"
    with pytest.raises(TypeError, match=message):
        run(pool, add, [(lambda: 1,)], scratch=scratch)
    assert run(pool, add, [(1,)], scratch=scratch) == [46], "the pool goes on"


def test_sends_the_tasks_of_a_lost_worker_again(scratch, tmp_path):
    tasks = [(str(tmp_path / "died"), number) for number in range(6)]
    assert run(processes, die, tasks, scratch=scratch) == list(range(6))


def test_the_function_must_make_an_executor(scratch):
    with pytest.raises(ValueError, match=r"executor must be a function that returns an executor, and .* gave None"):
        run(lambda: None, add, [(1,)], scratch=scratch)


class PlainPool:
    """A pool whose `shutdown` has no `cancel_futures`, as in loky."""

    def __init__(self):
        self._pool = ThreadPoolExecutor(1)
        self.submit = self._pool.submit

    def shutdown(self, wait=True):
        self._pool.shutdown(wait)


def test_a_class_of_executors_makes_one_with_any_shutdown(scratch):
    assert run(PlainPool, add, [(1,), (2,)], scratch=scratch) == [46, 47]


@pytest.mark.parametrize("place", ["missing", 5])
def test_the_scratch_must_be_a_directory(place, pool):
    with pytest.raises(ValueError, match="scratch must be a directory that all workers share"):
        Workers(pool, scratch=place)


def test_gives_up_on_a_task_that_kills_its_workers(scratch):
    made = []

    def counted():
        made.append(processes(1))
        return made[-1]

    with pytest.raises(RuntimeError, match=r"pool_tasks\.die\(7\) was lost 4 times"):
        run(counted, die, [(None, 7)], scratch=scratch)
    assert len(made) == 4


def test_waiting_tasks_do_not_count_as_lost(scratch, tmp_path):
    deaths = [(str(tmp_path / f"died {number}"), number) for number in range(5)]
    assert run(lambda: processes(1), die, [*deaths, (str(tmp_path), 5)], scratch=scratch) == list(range(6))


def test_names_all_tasks_that_may_have_killed_their_workers(scratch):
    with pytest.raises(RuntimeError, match=r"die\(0\) or of a task that ran .* was lost 4 times"):
        run(processes, die, [(None, number) for number in range(9)], scratch=scratch)


def test_a_broken_pool_that_was_given_names_the_fix(scratch):
    with processes(1) as pool, pytest.raises(RuntimeError, match=r"pass a function that makes .*lack `if __name__ =="):
        run(pool, die, [(None, 1)], scratch=scratch)


def test_a_pool_that_has_run_tasks_needs_no_guard_around_the_program(scratch, tmp_path):
    with (
        processes(1) as pool,
        pytest.raises(RuntimeError, match=r"pass a function that makes .*ProcessPoolExecutor\(4\)$"),
    ):
        run(pool, die, [(str(tmp_path), 1), (None, 2)], scratch=scratch)


def test_names_an_executor_that_was_shut_down(scratch):
    with ThreadPoolExecutor(1) as pool:
        pass
    with pytest.raises(RuntimeError, match=r"the executor takes no tasks: .* after shutdown"):
        run(pool, add, [(1,)], scratch=scratch)


def test_deadline_names_the_task_and_leaves_no_process(scratch, monkeypatch):
    monkeypatch.setattr(workers, "GRACE", 0.1)
    own = processes(1)
    with pytest.raises(TimeoutError, match=r"no task ended within 0\.3 s, and 2 of 3 .*pool_tasks\.sleep\(60\)"):
        run(lambda: own, sleep, [(0,), (60,), (61,)], scratch=scratch, timeout=0.3)
    with pytest.raises(RuntimeError):
        own.submit(sleep, None, 0)


def test_running_tasks_share_the_time_that_they_get_to_end(scratch, monkeypatch, tmp_path):
    monkeypatch.setattr(workers, "GRACE", 1.0)
    tasks = [(str(tmp_path), seconds, 6) for seconds in (0, 0.9, 1.8, 2.7, 3.6, 4.5)]
    with pytest.raises(ValueError, match="all have begun"):
        run(lambda: processes(6), end_or_fail, tasks, scratch=scratch)
    assert not (tmp_path / "ended 4.5").exists()


def test_ctrl_c_cancels_tasks(scratch, monkeypatch):
    monkeypatch.setattr(workers, "GRACE", 5.0)
    with processes(1) as pool:
        [worker] = run(pool, process, [()], scratch=scratch)
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            run(pool, sleep, [(1,), *[(30,)] * 5], scratch=scratch)
        begun = time.perf_counter()
        assert run(pool, process, [()], scratch=scratch) == [worker], "it goes on with other work"
        assert time.perf_counter() - begun < 5


def test_refuses_workers_of_another_version(pool, scratch, monkeypatch):
    run(pool, add, [(1,), (2,)], scratch=scratch)  # workers fork before the change
    other = workers._about()._replace(isa="other")
    monkeypatch.setattr(workers, "_about", lambda: other)
    with pytest.raises(RuntimeError, match="results could differ in the last bits"):
        run(pool, add, [(1,)], scratch=scratch)


def test_names_a_scratch_folder_that_workers_lack(pool, scratch):
    with pytest.raises(FileNotFoundError, match="must be a directory that all workers share"):
        run(pool, pool_tasks.read_missing, [()], scratch=scratch)


class DaskClient:
    def get_executor(self):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("executor", "settings", "message"),
    [
        (4, {}, "executor must be a concurrent.futures.Executor or a function"),
        (DaskClient(), {}, r"pass client.get_executor\(\)"),
        (processes, {"scratch": "/nowhere"}, "scratch must be a directory"),
        (processes, {"timeout": 0}, "timeout must be a number in"),
        (processes, {"n_workers": 0}, "n_workers must be"),
    ],
)
def test_rejects_bad_settings(executor, settings, message):
    with pytest.raises(ValueError, match=message):
        Workers(executor, **settings)
