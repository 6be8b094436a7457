"""CPUs and memory available to this process, within CPU affinity and control groups."""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Iterator
from pathlib import Path

CGROUP_ROOT = Path("/sys/fs/cgroup")
PROC = Path("/proc")


def usable_cpus() -> int:
    """Return the number of threads that can run at once, given CPU affinity and the control group's quota."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(cpus, cpu_quota())))


def default_threads() -> int:
    """Return the default number of threads: all usable CPUs, or OMP_NUM_THREADS if that is smaller.

    joblib sets OMP_NUM_THREADS in its worker processes. If the variable lists a number for each nesting level, the
    first one counts.
    """
    limit = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return min(usable_cpus(), int(limit)) if limit.isdigit() and int(limit) else usable_cpus()


def cpu_quota() -> float:
    """Return the control group's CPU quota as a number of CPUs; infinity without a limit."""
    quotas = [math.inf]
    for group in _groups("cpu"):
        words = [*_words(group / "cpu.max"), *_words(group / "cpu.cfs_quota_us"), *_words(group / "cpu.cfs_period_us")]
        if len(words) == 2 and words[0].isdigit() and int(words[1]):
            quotas.append(int(words[0]) / int(words[1]))
    return min(quotas)


def available_memory() -> int:
    """Return the bytes that can be allocated without swapping: the least of system, group and process limits."""
    limits = [_system_memory(), *_address_space()]
    for group in _groups("memory"):
        limit = [*_words(group / "memory.max"), *_words(group / "memory.limit_in_bytes")]
        used = [*_words(group / "memory.current"), *_words(group / "memory.usage_in_bytes")]
        if limit and used and limit[0].isdigit():
            limits.append(int(limit[0]) - int(used[0]) + _reclaimable(group))
    return max(0, min(limits))


def release_memory() -> None:
    """Return freed memory to the system; the GNU C library otherwise keeps what lies between blocks in use."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _system_memory() -> int:
    for line in _lines(PROC / "meminfo"):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _address_space() -> Iterator[int]:
    """Yield the address space left under `ulimit -v`, in bytes; nothing without such a limit."""
    limits = [line.split() for line in _lines(PROC / "self" / "limits") if line.startswith("Max address space")]
    sizes = [line.split() for line in _lines(PROC / "self" / "status") if line.startswith("VmSize:")]
    if limits and sizes and limits[0][3].isdigit():
        yield int(limits[0][3]) - int(sizes[0][1]) * 1024


def _reclaimable(group: Path) -> int:
    """Return the bytes of page cache that the kernel can reclaim from the group."""
    names = ("inactive_file", "total_inactive_file")
    fields = (line.split() for line in _lines(group / "memory.stat"))
    return max((int(field[1]) for field in fields if len(field) == 2 and field[0] in names), default=0)


def _groups(controller: str) -> Iterator[Path]:
    """Yield the directories of this process's control group and its ancestors, for cgroup v1 and v2."""
    for line in _lines(PROC / "self" / "cgroup"):
        _, controllers, name = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        root = CGROUP_ROOT / controller if controllers else CGROUP_ROOT
        # Inside a container the path may belong to the host: then only the root exists.
        relative = Path(name.lstrip("/"))
        yield from {root, root / relative, *(root / parent for parent in relative.parents)}


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:  # no such limit on this system
        return []


def _words(path: Path) -> list[str]:
    return [word for line in _lines(path) for word in line.split()]
