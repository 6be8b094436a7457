"""Run one system: start its adapter in a separate process and environment, watch it, and score its predictions."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import machine
from bench.cache import DataSet
from bench.peers import SYSTEMS, System
from bench.scoring import Scorer

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENTS = Path(".bench") / "envs"
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")


@dataclass(frozen=True, kw_only=True)
class Runner:
    """Run systems with the same number of threads; `limit` is the time that a run may take, in seconds."""

    threads: int
    limit: float

    def run(
        self, system: System, data: DataSet, scorer: Scorer, seed: int, changes: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Train and predict once; return the measurements, or the reason for having none."""
        settings = {**system.settings, **changes}
        problem = self._obstacle(system, data)
        if problem:
            return {"settings": settings, "status": "not run", "reason": problem}
        start = {"settings": settings, "load_average_before": machine.load_average()}
        with tempfile.TemporaryDirectory(prefix="sparsenet-bench-") as folder:
            job: dict[str, Any] = {"data": str(data.folder), "folder": folder, "settings": settings}
            job |= {"threads": self.threads, "seed": seed, "depth": scorer.depth, "mask_seen": scorer.seen is not None}
            problem = self._call(system.adapter, job)
            if problem:
                return {**start, "status": "failed", "reason": problem}
            measured = json.loads((Path(folder) / "result.json").read_text())
            scores = scorer.score(Path(folder) / "predictions.npz")
        return {**start, "status": "measured", **measured, "scores": scores}

    def _obstacle(self, system: System, data: DataSet) -> str | None:
        if not python_of(system.adapter).exists():
            return f"no environment for {system.adapter}: run make peers"
        shape = data.facts["train"]
        needed = system.least_cpu_seconds(shape["points"], shape["labels"])
        if needed / self.threads > self.limit:
            return f"training would take about {needed / 3600:.1f} CPU hours (extrapolated)"
        return None

    def _call(self, adapter: str, job: dict[str, Any]) -> str | None:
        """Run an adapter, and return the problem, or None if there was none."""
        path = Path(job["folder"]) / "job.json"
        path.write_text(json.dumps(job))
        command: list[str | Path] = [python_of(adapter), "-m", f"bench.peers.{adapter}", path]
        return call(command, threads=self.threads, limit=self.limit)


def call(
    command: Sequence[str | Path],
    *,
    threads: int,
    limit: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> str | None:
    """Run a command for at most `limit` seconds, and return the problem, or None if there was none.

    By default it runs in the environment of this process, and finds the modules of this repository.
    """
    # PASSIVE: a thread that spins while it waits would be charged for that time.
    environment = {
        **(environment or modules_of(ROOT)),
        **dict.fromkeys(THREAD_VARIABLES, str(threads)),
        "OMP_WAIT_POLICY": "PASSIVE",
    }
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            return f"stopped after {limit:g} s"
        finally:
            if process.poll() is None:  # too slow, or interrupted by Ctrl-C
                process.kill()
                process.wait()
        log.seek(0)
        lines = log.read().strip().splitlines()
    return None if status == 0 else f"exit status {status}: {lines[-1] if lines else 'no message'}"


def modules_of(checkout: Path) -> dict[str, str]:
    """Return this process's environment, changed so that Python finds the modules of a checkout first."""
    paths = [str(checkout), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def in_child(
    module: str,
    job: dict[str, Any],
    *,
    python: Path | None = None,
    checkout: Path = ROOT,
    threads: int,
    limit: float | None = None,
) -> dict[str, Any]:
    """Run ``python -m module JOB RESULT`` in a process of its own, and return its result or the reason for none.

    The module and sparsenet come from `checkout`. The load average before the run is recorded in the result.
    """
    about = {**job, "data": Path(job["data"]).name, "load_average_before": machine.load_average()}
    python = python or Path(sys.executable)
    if not python.exists():
        return {**about, "status": "not run", "reason": f"no environment for {python.parts[-3]}: run make peers"}
    with tempfile.TemporaryDirectory(prefix="sparsenet-bench-") as folder:
        files = Path(folder) / "job.json", Path(folder) / "result.json"
        files[0].write_text(json.dumps({**job, "threads": threads}))
        command: list[str | Path] = [python, "-m", module, *files]
        problem = call(command, threads=threads, limit=limit, environment=modules_of(checkout))
        if problem:
            return {**about, "status": "failed", "reason": problem}
        return {**about, "status": "measured", **json.loads(files[1].read_text())}


def python_of(adapter: str) -> Path:
    """Return the interpreter of an adapter's environment; sparsenet uses the current one."""
    return Path(sys.executable) if adapter == "sparsenet" else ENVIRONMENTS.resolve() / adapter / "bin" / "python"


def parser(description: str | None, systems: list[str], *, needs_data: bool = True) -> argparse.ArgumentParser:
    """Return a parser with the options that all comparisons share."""
    found = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--data", type=Path, nargs="+", required=needs_data, metavar="DIR")
    found.add_argument("--systems", type=system_names, default=systems, help=f"default: {', '.join(systems)}")
    found.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    found.add_argument("--mask-seen", type=names, default=[], help="data sets whose feature i is label i")
    found.add_argument("--limit", type=float, default=3600, help="seconds that a run may take")
    return found


def names(text: str) -> list[str]:
    """Parse a list of names separated by commas."""
    return text.split(",")


def system_names(text: str) -> list[str]:
    """Parse a list of systems separated by commas."""
    unknown = [name for name in names(text) if name not in SYSTEMS]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; choose from {', '.join(SYSTEMS)}")
    return names(text)


def use_cpus(threads: int) -> None:
    """Pin this process and its children to `threads` CPUs, because some systems use every CPU that they find."""
    usable = sorted(os.sched_getaffinity(0))
    if not 1 <= threads <= len(usable):
        sys.exit(f"--threads {threads}: this process may use {len(usable)} CPUs")
    os.sched_setaffinity(0, usable[:threads])


def scorers(data_sets: list[DataSet], mask_seen: list[str]) -> dict[str, Scorer]:
    """Return a scorer for each data set."""
    unknown = set(mask_seen) - {data.name for data in data_sets}
    if unknown:
        sys.exit(f"--mask-seen names {', '.join(sorted(unknown))}, which --data does not")
    return {data.name: Scorer(data, mask_seen=data.name in mask_seen) for data in data_sets}
