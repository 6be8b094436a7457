"""Arrays that tasks read by name."""

import os
import resource

import numpy as np
import pytest

from sparsenet import Rows
from sparsenet.core.scratch import FolderScratch, MemoryScratch, get_rows, put_rows, take_rows
from tests.support.file_limits import files_up_to


@pytest.fixture(params=["memory", "folder"])
def scratch(request, tmp_path):
    return MemoryScratch() if request.param == "memory" else FolderScratch(str(tmp_path))


def test_returns_arrays_as_they_were(scratch):
    arrays = np.arange(7), np.empty((0, 16), np.int8), np.ones((3, 2), np.float32), np.array([5], np.uint16)
    scratch.put("some", *arrays)
    found = scratch.get("some")
    assert [array.dtype for array in found] == [array.dtype for array in arrays]
    for own, wanted in zip(found, arrays, strict=True):
        np.testing.assert_array_equal(own, wanted)


def test_returns_rows_as_they_were(scratch):
    rows = Rows(np.array([0, 2, 3]), np.array([4, 1, 0], np.int32), np.array([1, 2, 3], np.float32), 9)
    put_rows(scratch, "rows", rows)
    found = get_rows(scratch, "rows")
    assert found.width == 9
    np.testing.assert_array_equal(found.indices, rows.indices)


def test_drops_names_with_a_prefix(scratch):
    for name in ("a1", "a2", "b1"):
        scratch.put(name, np.arange(3))
    scratch.drop("a")
    assert len(scratch.get("b1")) == 1
    with pytest.raises((KeyError, FileNotFoundError)):
        scratch.get("a1")


def test_takes_one_name_alone(scratch):
    for name in ("a", "ab"):
        scratch.put(name, np.arange(3))
    assert len(scratch.take("a")[0]) == 3
    assert len(scratch.get("ab")[0]) == 3
    with pytest.raises((KeyError, FileNotFoundError)):
        scratch.get("a")


def test_takes_the_rows_of_one_name_alone(scratch):
    rows = Rows(np.array([0, 1]), np.array([4], np.int32), np.array([2], np.float32), 9)
    for name in ("index", "index.2"):
        put_rows(scratch, name, rows)
    np.testing.assert_array_equal(take_rows(scratch, "index").indices, rows.indices)
    np.testing.assert_array_equal(get_rows(scratch, "index.2").data, rows.data)
    with pytest.raises((KeyError, FileNotFoundError)):
        get_rows(scratch, "index")


def test_files_of_two_folders_do_not_mix(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        FolderScratch(str(tmp_path / name)).put("same", np.array([len(name), ord(name[0])]))
    for name in ("one", "two", "one"):
        assert FolderScratch(str(tmp_path / name)).get("same")[0][1] == ord(name[0])


def test_frees_deleted_files_with_the_next_files(tmp_path):
    scratch = FolderScratch(str(tmp_path))
    for name in ("some.0", "some.1", "other.0"):
        scratch.put(name, np.arange(3))
    for name in ("some.0", "some.1"):
        scratch.get(name)
        (tmp_path / name).unlink()  # as another process does
    assert len(scratch.get("some.0")[0]) == 3
    scratch.get("other.0")
    with pytest.raises(FileNotFoundError):
        scratch.get("some.1")


def test_mapped_arrays_are_read_only(tmp_path):
    scratch = FolderScratch(str(tmp_path))
    scratch.put("some", np.arange(3))
    with pytest.raises(ValueError, match="read-only"):
        scratch.get("some")[0][0] = 1


def test_a_full_disk_is_an_error_that_names_the_folder(tmp_path):
    message = f"File too large: some .* the scratch folder {tmp_path}; name another folder"
    with files_up_to(4096), pytest.raises(OSError, match=message):
        FolderScratch(str(tmp_path)).put("some", np.zeros(1000))


NAMES = [f"own.{number}" for number in range(40)]


@pytest.fixture
def many_files(tmp_path):
    """Put more files than this process may have open."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    scratch = FolderScratch(str(tmp_path))
    for number, name in enumerate(NAMES):
        scratch.put(name, np.array([number]))
    first_free = os.dup(0)
    os.close(first_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (first_free + 16, before[1]))
    yield scratch
    resource.setrlimit(resource.RLIMIT_NOFILE, before)
    scratch.drop("own.")


def test_maps_more_files_than_may_be_open_at_first(many_files):
    assert [many_files.get(name)[0][0] for name in NAMES] == list(range(len(NAMES)))


def test_names_a_limit_of_open_files_that_cannot_be_raised(many_files, monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (64, 64))
    with pytest.raises(OSError, match="too many open files, and their limit cannot exceed 64"):
        list(map(many_files.get, NAMES))
