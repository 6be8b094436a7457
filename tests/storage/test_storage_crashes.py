"""Saved models survive kills, full disks, failing disks and concurrent processes."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sparsenet import storage
from sparsenet.storage import ModelError, directory
from tests.support.patience import PATIENCE
from tests.support.storage_models import ARRAYS, METADATA, assert_equal, data_file, model


@pytest.fixture
def saved(tmp_path):
    directory = tmp_path / "model"
    storage.save(directory, ARRAYS, METADATA)
    return directory


# --- crashes ----------------------------------------------------------------------------------------------

# The children import the library under test, whatever else is installed.
TESTS = Path(__file__).parents[1]
PLACES = os.pathsep.join([str(Path(storage.__file__).parents[2]), str(TESTS.parent)])
ENVIRONMENT = os.environ | {"PYTHONPATH": PLACES, "OPENBLAS_NUM_THREADS": "1"}
CRASHER = str(TESTS / "support" / "storage_crasher.py")


def crash(directory: Path, *arguments: str) -> list[str]:
    command = [sys.executable, CRASHER, str(directory), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=120 * PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_kill_before_any_step_leaves_a_complete_model(tmp_path):
    outcomes = crash(tmp_path / "model", "every_step", "1")
    switch = outcomes.index("1")
    assert switch > 10
    assert outcomes == ["0"] * switch + ["1"] * (len(outcomes) - switch)


def test_a_kill_during_the_first_save_leaves_a_model_or_none(tmp_path):
    outcomes = crash(tmp_path / "model", "every_step", "0")
    switch = outcomes.index("1")
    assert outcomes == ["none"] * switch + ["1"] * (len(outcomes) - switch)


def test_a_kill_at_any_time_leaves_a_complete_model(tmp_path):
    storage.save(tmp_path / "model", *model(-1, 20_000))
    assert len(set(crash(tmp_path / "model", "killed_at_any_time"))) > 3  # else nothing was killed in a save


def test_syncs_data_before_the_manifest(saved, monkeypatch):
    """Sync the data before its name, its name before the manifest's, and remove old data last."""
    calls = []

    def recorded(name):
        function = getattr(os, name)

        def call(target, *arguments, **options):
            what = os.path.basename(os.readlink(f"/proc/self/fd/{target}")) if name == "fsync" else target
            calls.append((name, what))
            return function(target, *arguments, **options)

        return call

    old = data_file(saved).name
    for name in ("fsync", "replace", "unlink"):
        monkeypatch.setattr(os, name, recorded(name))
    storage.save(saved, *model(1))
    data, manifest = calls[0][1], calls[1][1]
    assert calls == [
        ("fsync", data),
        ("fsync", manifest),
        ("replace", data),
        ("fsync", "model"),
        ("replace", manifest),
        ("fsync", "model"),
        ("unlink", old),
    ]


def failing(monkeypatch, step: int, number: int) -> None:
    """Make the n-th of the next writes, syncs and renames fail."""
    steps = itertools.count()

    def wrap(function):
        def call(*arguments, **options):
            if next(steps) == step:
                raise OSError(number, os.strerror(number))
            return function(*arguments, **options)

        return call

    for name in ("write", "fsync", "replace"):
        monkeypatch.setattr(os, name, wrap(getattr(os, name)))


def caught(action: Callable[[], None]) -> OSError | None:
    try:
        action()
    except OSError as error:
        return error
    return None


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EIO])
def test_a_failure_at_any_step_keeps_a_complete_model_and_leaves_nothing_behind(tmp_path, number):
    outcomes = []
    for step in itertools.count():
        storage.save(tmp_path / "model", *model(0))
        with pytest.MonkeyPatch.context() as patch:
            failing(patch, step, number)
            error = caught(lambda: storage.save(tmp_path / "model", *model(1)))
        if error is None:
            break
        assert error.errno == number
        assert error.filename == str(tmp_path / "model")
        metadata = storage.load(tmp_path / "model")[1]
        outcomes.append(metadata["number"])
        assert ("unchanged" in str(error)) == (metadata["number"] == 0)
        assert len(os.listdir(tmp_path / "model")) == 2
    assert outcomes == [0] * (len(outcomes) - 1) + [1]
    assert len(outcomes) >= 8


def raising(error: OSError) -> Callable[..., None]:
    def fail(*arguments, **options):
        raise error

    return fail


GONE = raising(OSError(errno.EIO, "the disk went away"))


def fail_to_unlock(fd, how):
    if how == fcntl.LOCK_UN:
        GONE()


def test_a_failing_clean_up_does_not_hide_why_a_save_failed(saved):
    storage.save(saved, *model(0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", raising(PermissionError(errno.EPERM, "read-only")))
        patch.setattr(os, "unlink", GONE)
        patch.setattr(fcntl, "flock", fail_to_unlock)
        with pytest.raises(PermissionError, match="read-only; nothing was saved, what was there before") as caught:
            storage.save(saved, *model(1))
    notes = "\n".join(caught.value.__notes__)
    for words in ("files of this attempt are left in", "lock could not be released"):
        assert words in notes
    assert storage.load(saved)[1] == {"number": 0}
    storage.save(saved, *model(2))
    assert len(os.listdir(saved)) == 2


def test_an_error_while_writing_is_not_hidden_by_closing_the_file(saved, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", raising(OSError(errno.ENOSPC, "disk full")))
        patch.setattr(os, "close", GONE)
        with pytest.raises(OSError, match="disk full; nothing was saved") as caught:
            storage.save(saved, *model(1))
    assert caught.value.errno == errno.ENOSPC


@pytest.mark.parametrize(
    ("what", "words"),
    [("unlink", "model was saved, but old files are left"), ("flock", "lock could not be released")],
)
def test_a_failing_clean_up_after_a_save_is_a_warning(saved, monkeypatch, what, words):
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", GONE) if what == "unlink" else patch.setattr(fcntl, "flock", fail_to_unlock)
        with pytest.warns(RuntimeWarning, match=f"{words}.*the disk went away"):
            storage.save(saved, *model(1))
    assert storage.load(saved)[1] == {"number": 1}
    storage.save(saved, *model(2))
    assert len(os.listdir(saved)) == 2


def test_continues_short_writes(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:7]))
    storage.save(tmp_path, ARRAYS, METADATA)
    monkeypatch.undo()
    assert_equal(storage.load(tmp_path)[0], ARRAYS)


FULL_DISK = """
set -e
mount -t tmpfs -o size=256k none "$1"
"$2" - "$1" <<'END'
import errno, os, sys
import numpy as np
from sparsenet import storage
directory = os.path.join(sys.argv[1], "model")
storage.save(directory, {"a": np.ones(1000)}, {"number": 1})
try:
    storage.save(directory, {"a": np.ones(1_000_000)}, {})
except OSError as error:
    assert error.errno == errno.ENOSPC and directory in str(error), error
else:
    raise AssertionError("the disk was not full")
assert storage.load(directory)[1] == {"number": 1}
assert len(os.listdir(directory)) == 2
END
"""


def in_namespace(*command: str) -> list[str]:
    return ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"]), *command]


def can_mount(directory: Path) -> bool:
    if shutil.which("unshare") is None:
        return False
    command = in_namespace("mount", "-t", "tmpfs", "none", str(directory))
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_reports_a_full_disk(tmp_path):
    if not can_mount(tmp_path):
        pytest.skip("needs the right to mount a small file system")
    command = in_namespace("sh", "-c", FULL_DISK, "sh", str(tmp_path), sys.executable)
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_reports_missing_permission(saved):
    saved.chmod(0o500)
    with pytest.raises(PermissionError, match=r"unchanged.*model"):
        storage.save(saved, *model(1))
    saved.chmod(0o700)
    data_file(saved).chmod(0)
    with pytest.raises(ModelError, match=r"safetensors: cannot be read: Permission denied"):
        storage.load(saved)


# --- concurrency ------------------------------------------------------------------------------------------


def test_two_savers_and_a_loader_do_not_disturb_each_other(tmp_path):
    storage.save(tmp_path, *model(0, 1000))
    threads = [
        threading.Thread(
            target=lambda first=first: [
                storage.save(tmp_path, *model(number, 1000)) for number in range(first, first + 30)
            ]
        )
        for first in (0, 100)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        arrays, metadata = storage.load(tmp_path)
        assert (arrays["a"] == metadata["number"]).all()
    assert len(os.listdir(tmp_path)) == 2


def test_notices_a_save_between_manifest_and_data(saved, monkeypatch):
    parse, numbers = vars(directory)["parse_manifest"], iter([1, 2])

    def parse_then_save(*arguments):
        manifest = parse(*arguments)
        for number in itertools.islice(numbers, 1):
            storage.save(saved, *model(number))
        return manifest

    monkeypatch.setattr(directory, "parse_manifest", parse_then_save)
    assert storage.load(saved)[1] == {"number": 2}


def test_works_on_a_file_system_without_locks(tmp_path, monkeypatch):
    def flock(fd, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    storage.save(tmp_path, *model(1))
    assert storage.load(tmp_path)[1] == {"number": 1}


def test_reports_a_failing_lock(tmp_path, monkeypatch):
    def flock(fd, operation):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(OSError, match="Input/output error"):
        storage.save(tmp_path, *model(1))
