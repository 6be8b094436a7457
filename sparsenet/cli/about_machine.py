"""Reports on the machine: version, kernels, instruction set, threads, memory, and missing packages."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
import warnings
from typing import Any

import sparsenet
from sparsenet.core import machine

#: Optional packages, their purpose, and the extra that installs them.
OPTIONAL = {
    "matplotlib": ("the pictures of `sparsenet evaluate --plot` and `demo`", "sparsenet[plot]"),
    "pyarrow": ("reading Parquet", "sparsenet[parquet]"),
    "tokenizers": ("word vectors with a tokenizer.json, as of wordllama", "sparsenet[vectors]"),
    "zstandard": ("reading .zst files", "sparsenet[zstd]"),
}
COMPILERS = ("c++", "g++", "clang++")


def collect() -> dict[str, Any]:
    """Return all that `sparsenet info` shows, ready for JSON. A broken installation is described, not raised."""
    report: dict[str, Any] = {
        "version": sparsenet.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        **_kernels(),
        "threads": _threads(),
        "memory_available": machine.available_memory(),
        "optional": {name: _optional_version(name) for name in OPTIONAL},
    }
    report["advice"] = _advice(report)
    return report


def describe(report: dict[str, Any]) -> str:
    """Lay out a report for people."""
    threads = report["threads"]
    quota = f", {threads['quota']:g} by quota" if threads["quota"] is not None else ""
    lines = {
        "sparsenet": report["version"],
        "Python": f"{report['python']} on {report['machine']}",
        "kernels": report["backend"] or "none",
        "extension": report["extension"],
        "ISA": f"{report['isa_used'] or 'none'} (available: {', '.join(report['isa_available']) or 'none'})",
        "threads": f"{threads['usable']} ({threads['affinity']} by affinity{quota})",
        "memory": f"{report['memory_available'] / 1e9:.1f} GB available",
        **{name: version or "not installed" for name, version in report["optional"].items()},
    }
    rows = [f"{name:<11} {value}" for name, value in lines.items()]
    return "\n".join([*rows, *(f"\n{advice}" for advice in report["advice"])])


def _kernels() -> dict[str, Any]:
    """Load the kernels as a first use would, and report the outcome."""
    found: dict[str, Any] = {"backend": None, "isa_used": None, "isa_available": [], "error": None}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the report names the backend itself
            from sparsenet import kernels

            found["backend"] = kernels.backend()
            found["isa_used"], found["isa_available"] = kernels.isa_used(), list(kernels.isa_available())
    except (ImportError, ValueError, RuntimeError) as error:
        found["error"] = " ".join(str(error).split())
    return found | {"extension": _extension(found)}


def _extension(found: dict[str, Any]) -> str:
    if importlib.util.find_spec("sparsenet._core") is None:
        return "not installed"
    if found["backend"] == "numba":
        return "installed, not in use (SPARSENET_KERNELS=numba)"
    if found["error"] and found["error"].startswith("SPARSENET_"):  # the extension was not tried
        return f"installed, not in use ({found['error'].partition(' ')[0]} is not valid)"
    return "installed" if found["error"] is None else "installed, but it does not work"


def _threads() -> dict[str, Any]:
    quota = machine.cpu_quota()
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "usable": machine.usable_cpus(),
        "affinity": affinity,
        "quota": quota if quota != float("inf") else None,
    }


def _optional_version(name: str) -> str | None:
    if name == "zstandard" and sys.version_info >= (3, 14):
        return "part of Python"
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _advice(report: dict[str, Any]) -> list[str]:
    advice = []
    if report["error"]:
        advice.append(f"The kernels cannot be used: {report['error']}")
    if report["extension"] == "not installed":
        advice.append(_native_advice())
    for name, (purpose, extra) in OPTIONAL.items():
        if report["optional"][name] is None:
            advice.append(f"{name} is missing. It is needed for {purpose}: pip install '{extra}'")
    return advice


def _native_advice() -> str:
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    first = f"There is a compiler now ({compiler}):" if compiler else "Install a C++17 compiler (g++ or clang++), then"
    return (
        "The C++ kernels are not installed; Numba replaces them, more slowly. "
        f"{first} reinstall with `SPARSENET_REQUIRE_EXT=1 pip install --force-reinstall --no-deps .` in the clone."
    )
