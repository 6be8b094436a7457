import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sparsenet
from sparsenet import _machine, info

PACKAGE = Path(sparsenet.__file__).parent


def run_info(*arguments: str, path: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith("SPARSENET_")} | environment
    env["PYTHONPATH"] = str(path or PACKAGE.parent)
    command = [sys.executable, "-m", "sparsenet", "info", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=env, check=True, cwd=path)


def copy_without_extension(folder: Path) -> Path:
    shutil.copytree(PACKAGE, folder / "sparsenet", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    return folder


def test_report_is_json_and_complete() -> None:
    report = json.loads(run_info("--json").stdout)
    assert report["backend"] in ("native", "numba")
    assert report["isa_used"] in report["isa_available"]
    assert report["python"].count(".") == 2
    assert report["threads"]["usable"] >= 1
    assert report["memory_available"] > 2**20
    assert set(report["optional"]) == {"matplotlib", "zstandard"}


def test_text_has_a_line_for_each_fact() -> None:
    lines = run_info().stdout.splitlines()
    assert [line.split()[0] for line in lines[:7]] == [
        "sparsenet", "Python", "kernels", "extension", "ISA", "threads", "memory"
    ]  # fmt: skip


def test_numba_by_choice() -> None:
    report = json.loads(run_info("--json", SPARSENET_KERNELS="numba").stdout)
    assert report["backend"] == "numba"
    assert report["error"] is None


def test_missing_extension_is_said_with_the_cure(tmp_path: Path) -> None:
    done = run_info("--json", path=copy_without_extension(tmp_path))
    report = json.loads(done.stdout)
    assert (report["backend"], report["extension"]) == ("numba", "not installed")
    assert any("compiler" in advice and "pip install" in advice for advice in report["advice"])
    assert done.stderr == ""


def test_broken_extension_is_said_and_does_not_break_the_report(tmp_path: Path) -> None:
    copy_without_extension(tmp_path)
    (tmp_path / "sparsenet" / "_core.so").write_bytes(b"not a library")
    report = json.loads(run_info("--json", path=tmp_path).stdout)
    assert report["backend"] is None
    assert report["extension"] == "installed, but it does not work"
    assert "_core.so" in report["error"]


def test_instruction_set_that_this_cpu_lacks_is_said() -> None:
    if info.collect()["backend"] != "native":
        pytest.skip("there is no extension")
    report = json.loads(run_info("--json", SPARSENET_ISA="avx1024").stdout)
    assert "avx1024" in report["error"]


def test_missing_optional_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(info.OPTIONAL, "no-such-package", ("flying", "sparsenet[wings]"))
    report = info.collect()
    assert report["optional"]["no-such-package"] is None
    assert any("flying" in advice and "sparsenet[wings]" in advice for advice in report["advice"])
    assert "not installed" in info.describe(report)


class FakeSystem:
    """Files as the kernel shows them to a process in a control group."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        monkeypatch.setattr(_machine, "CGROUP_ROOT", root / "cgroup")
        monkeypatch.setattr(_machine, "PROC", root / "proc")
        self.write("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable: 8000 kB\n")

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSystem:
    return FakeSystem(tmp_path, monkeypatch)


def test_limits_of_a_control_group(system: FakeSystem) -> None:
    system.write("proc/self/cgroup", "0::/job/step\n")
    system.write("cgroup/job/step/cpu.max", "max 100000\n")
    system.write("cgroup/job/cpu.max", "150000 100000\n")
    system.write("cgroup/job/memory.max", "3000000\n")
    system.write("cgroup/job/memory.current", "2000000\n")
    system.write("cgroup/job/memory.stat", "anon 5\ninactive_file 250000\n")
    assert _machine.cpu_quota() == 1.5
    assert _machine.usable_cpus() == min(2, len(os.sched_getaffinity(0)))
    assert _machine.available_memory() == 1_250_000


def test_limits_of_the_first_version_and_of_a_container(system: FakeSystem) -> None:
    system.write("proc/self/cgroup", "4:memory:/host/name\n3:cpu,cpuacct:/host/name\n")
    system.write("cgroup/cpu/cpu.cfs_quota_us", "50000\n")
    system.write("cgroup/cpu/cpu.cfs_period_us", "100000\n")
    system.write("cgroup/memory/memory.limit_in_bytes", "1000\n")
    system.write("cgroup/memory/memory.usage_in_bytes", "2000\n")
    assert _machine.cpu_quota() == 0.5
    assert _machine.usable_cpus() == 1
    assert _machine.available_memory() == 0


def test_without_limits(system: FakeSystem) -> None:
    system.write("proc/self/cgroup", "0::/\n")
    system.write("cgroup/cpu.max", "max 100000\n")
    assert _machine.cpu_quota() == float("inf")
    assert _machine.usable_cpus() == len(os.sched_getaffinity(0))
    assert _machine.available_memory() == 8000 * 1024


@pytest.mark.parametrize(("value", "expected"), [("3", 3), ("0", 7), ("many", 7), ("", 7)])
def test_default_threads(monkeypatch: pytest.MonkeyPatch, value: str, expected: int) -> None:
    monkeypatch.setattr(_machine, "usable_cpus", lambda: 7)
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert _machine.default_threads() == expected
