"""Describe the machine and the versions; recorded with every result."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

from sparsenet import kernels

#: Core names by CPU implementer and CPU part, the only names that Linux knows on Arm.
ARM_CORES = {
    ("0x41", "0xd03"): "Cortex-A53",
    ("0x41", "0xd08"): "Cortex-A72",
    ("0x41", "0xd0b"): "Cortex-A76",
    ("0x41", "0xd0c"): "Neoverse N1",
    ("0x41", "0xd40"): "Neoverse V1",
    ("0x41", "0xd49"): "Neoverse N2",
    ("0x41", "0xd4f"): "Neoverse V2",
    ("0x41", "0xd84"): "Neoverse V3",
    ("0x41", "0xd8e"): "Neoverse N3",
    ("0x46", "0x001"): "A64FX",
    ("0x48", "0xd01"): "TaiShan v110",
    ("0x6d", "0xd49"): "Azure Cobalt 100",
    ("0xc0", "0xac3"): "Ampere-1",
    ("0xc0", "0xac4"): "Ampere-1a",
}


def describe() -> dict[str, Any]:
    """Return processor, instruction sets, memory, operating system, and the commit of the sources."""
    return {
        "cpu": cpu_model(),
        "cpus": os.cpu_count(),
        "isa_used": kernels.isa_used(),
        "isa_available": list(kernels.isa_available()),
        "backend": kernels.backend(),
        "auto_precision": "bfloat16" if kernels.has_bf16() else "float32",
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "gpu": gpu_model(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "commit": _git("rev-parse", "HEAD"),
        "uncommitted_changes": bool(_git("status", "--porcelain", "--", "sparsenet", "csrc", "setup.py", "bench")),
    }


def gpu_model() -> str | None:
    """Return the name of the first NVIDIA GPU, or None."""
    if not shutil.which("nvidia-smi"):
        return None
    query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True, check=False)
    return done.stdout.splitlines()[0].strip() if done.returncode == 0 and done.stdout else None


def cpu_model() -> str:
    """Return the name of the processor, with family and model numbers on Linux."""
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return platform.processor() or platform.machine()
    return cpu_name(path.read_text(), platform.machine())


def cpu_name(cpuinfo: str, machine: str) -> str:
    """Name the processor of a ``/proc/cpuinfo``: x86 has a name, Arm has numbers and may mix kinds of cores."""
    fields = [_fields(block) for block in cpuinfo.split("\n\n")]
    cores = [_arm_core(known) for known in fields if "CPU implementer" in known]
    if cores:
        return " + ".join(dict.fromkeys(cores))
    first = fields[0]
    details = [f"{key} {first[key]}" for key in ("cpu family", "model") if key in first]
    name = ", ".join([first.get("model name", machine), *details])
    # QEMU passes on the file of the host, whose architecture differs from the emulated one.
    emulated = "vendor_id" in first and machine not in ("x86_64", "amd64", "i686")
    return f"{machine} emulated on {name}" if emulated else name


def _fields(block: str) -> dict[str, str]:
    parts = [line.split(":", 1) for line in block.splitlines() if ":" in line]
    return {key.strip(): value.strip() for key, value in parts}


def _arm_core(known: dict[str, str]) -> str:
    implementer, part = known["CPU implementer"].lower(), known.get("CPU part", "unknown").lower()
    name = ARM_CORES.get((implementer, part), "unknown Arm core")
    variant, revision = int(known.get("CPU variant", "0"), 0), known.get("CPU revision", "0")
    return f"{name}, implementer {implementer}, part {part}, r{variant}p{revision}"


def load_average() -> float:
    """Return the load of the last minute; above zero before a run, something else was running."""
    return os.getloadavg()[0]


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else "unknown"
