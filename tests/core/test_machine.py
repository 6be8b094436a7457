"""CPU and memory limits of cgroups v1 and v2, on fake file systems."""

import numpy as np
import pytest

from sparsenet.core import machine as limits
from tests.support.freed_memory import needs_malloc_trim, resident

GIB = 2**30


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Write the files of a fake machine, by their path below /."""
    monkeypatch.setattr(limits, "CGROUP_ROOT", tmp_path / "sys/fs/cgroup")
    monkeypatch.setattr(limits, "PROC", tmp_path / "proc")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)

    def write(**files):
        for name, text in {"proc/meminfo": f"MemTotal: 1 kB\nMemAvailable: {8 * GIB // 1024} kB\n", **files}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return write


def version_2(**files):
    return {"proc/self/cgroup": "0::/a/b\n", **{f"sys/fs/cgroup/{name}": text for name, text in files.items()}}


def version_1(**files):
    hierarchies = "4:memory:/a/b\n1:cpu,cpuacct:/a/b\n"
    return {"proc/self/cgroup": hierarchies, **{f"sys/fs/cgroup/{name}": text for name, text in files.items()}}


def test_memory_without_cgroups_is_the_systems(machine):
    machine()
    assert limits.available_memory() == 8 * GIB


def test_cgroup_memory_includes_reclaimable_cache(machine):
    machine(
        **version_2(
            **{"a/b/memory.max": str(3 * GIB), "a/b/memory.current": str(GIB)},
            **{"a/b/memory.stat": "inactive_file 4096\n"},
        )
    )
    assert limits.available_memory() == 2 * GIB + 4096


def test_memory_is_bounded_by_every_parent_cgroup(machine):
    groups = {"a/b/memory.max": "max", "a/b/memory.current": "0", "a/memory.max": str(GIB), "a/memory.current": "0"}
    machine(**version_2(**groups))
    assert limits.available_memory() == GIB


def test_memory_of_cgroups_v1(machine):
    limit, used = {"memory/a/memory.limit_in_bytes": str(2 * GIB)}, {"memory/a/memory.usage_in_bytes": str(GIB)}
    machine(**version_1(**limit, **used, **{"memory/a/memory.stat": "total_inactive_file 8192\n"}))
    assert limits.available_memory() == GIB + 8192


@pytest.mark.parametrize(("limit", "available"), [("unlimited", 8 * GIB), (str(3 * GIB), 2 * GIB)])
def test_memory_is_bounded_by_the_address_space_limit(machine, limit, available):
    text = f"Limit           Soft Limit  Hard Limit  Units\nMax address space         {limit}  unlimited  bytes\n"
    status = f"Name:\tpython\nVmPeak:\t  1 kB\nVmSize:\t {GIB // 1024} kB\n"
    machine(**{"proc/self/limits": text, "proc/self/status": status})
    assert limits.available_memory() == available


def test_overdrawn_memory_counts_as_zero(machine):
    machine(**version_2(**{"a/b/memory.max": "100", "a/b/memory.current": "200"}))
    assert limits.available_memory() == 0


@pytest.mark.parametrize(
    ("files", "cpus"),
    [
        ({}, 6),
        (version_2(**{"a/b/cpu.max": "max 100000"}), 6),
        (version_2(**{"a/b/cpu.max": "250000 100000"}), 3),
        (version_2(**{"a/cpu.max": "50000 100000"}), 1),
        (version_1(**{"cpu/a/cpu.cfs_quota_us": "200000", "cpu/a/cpu.cfs_period_us": "100000"}), 2),
        (version_1(**{"cpu/a/cpu.cfs_quota_us": "-1", "cpu/a/cpu.cfs_period_us": "100000"}), 6),
    ],
)
def test_cpu_count_follows_affinity_and_quota(machine, monkeypatch, files, cpus):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(6)), raising=False)
    machine(**files)
    assert limits.usable_cpus() == cpus


@pytest.mark.parametrize(
    ("value", "threads"), [("2", 2), ("64", 6), ("0", 6), ("many", 6), ("1,4", 1), ("3 , 1", 3), (",2", 6)]
)
def test_default_threads_follow_joblib_settings(machine, monkeypatch, value, threads):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(6)), raising=False)
    machine()
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert limits.default_threads() == threads


def test_this_machine_reports_memory_and_cpus():
    assert limits.usable_cpus() >= 1
    assert limits.available_memory() > 0


@needs_malloc_trim
def test_freed_memory_below_a_block_in_use_goes_back_to_the_system():
    blocks = [np.ones(12_000, np.uint8) for _ in range(4_000)]  # too small for maps of their own
    kept, before = blocks.pop(), resident()
    blocks.clear()
    limits.release_memory()
    assert before - resident() > 24_000_000
    assert kept.all()
