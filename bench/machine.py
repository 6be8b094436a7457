"""What a figure was measured on: recorded with every result."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from sparsenet import kernels


def describe() -> dict[str, Any]:
    """Return processor, instruction sets, memory, system, and the version of sparsenet and of its sources."""
    return {
        "cpu": cpu_model(),
        "cpus": os.cpu_count(),
        "isa_used": kernels.isa_used(),
        "isa_available": list(kernels.isa_available()),
        "backend": kernels.backend(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "commit": _git("rev-parse", "HEAD"),
        "uncommitted_changes": bool(_git("status", "--porcelain", "--", "sparsenet", "csrc", "setup.py", "bench")),
    }


def cpu_model() -> str:
    """Return the name that the processor gives itself, with family and model where Linux knows them."""
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return platform.processor()
    first = path.read_text().split("\n\n")[0]
    fields = dict(line.split(":", 1) for line in first.splitlines() if ":" in line)
    known = {key.strip(): value.strip() for key, value in fields.items()}
    details = [f"{key} {known[key]}" for key in ("cpu family", "model") if key in known]
    return ", ".join([known.get("model name", platform.machine()), *details])


def load_average() -> float:
    """Return the load of the last minute: above zero before a run means that something else was running."""
    return os.getloadavg()[0]


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else "unknown"
