"""Arrays in files: they do not count as memory, and their pages can be freed."""

import numpy as np
import pytest

from sparsenet.core.memory import bytes_in_memory, release_pages
from sparsenet.core.scratch import FolderScratch

N = 1 << 22


@pytest.fixture(params=["memmap", "scratch"])
def mapped(request, tmp_path):
    if request.param == "memmap":
        np.arange(N, dtype=np.int32).tofile(tmp_path / "numbers")
        return np.asarray(np.memmap(tmp_path / "numbers", np.int32, "r"))[1:]
    scratch = FolderScratch(str(tmp_path))
    scratch.put("numbers", np.arange(N, dtype=np.int32))
    return scratch.get("numbers")[0][1:]


def resident_file_bytes():
    with open("/proc/self/status") as lines:
        return sum(1024 * int(line.split()[1]) for line in lines if line.startswith(("RssFile:", "RssShmem:")))


def test_arrays_in_files_take_no_memory(mapped):
    own = np.zeros(3)
    assert bytes_in_memory([mapped, own, own]) == own.nbytes


def test_frees_the_pages_of_a_mapped_array(mapped):
    total = mapped.sum(dtype=np.int64)
    before = resident_file_bytes()
    release_pages(mapped)
    assert before - resident_file_bytes() > 3 * N
    assert mapped.sum(dtype=np.int64) == total


def test_keeps_what_was_written_to_a_private_mapping(tmp_path):
    np.zeros(8).tofile(tmp_path / "numbers")
    private = np.memmap(tmp_path / "numbers", np.float64, "c")
    private[3] = 1
    own = private[:]
    own.flags.writeable = False
    release_pages(own)
    assert own[3] == 1
