import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sparsenet
from sparsenet.cli import about_machine as info

PACKAGE = Path(sparsenet.__file__).parent


#: An editable installation would find the extension even for a copy that has none.
PROGRAM = """
import runpy, sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "__editable__" not in getattr(finder, "__module__", "")]
runpy.run_module("sparsenet", run_name="__main__")
"""


def run_info(*arguments: str, path: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith("SPARSENET_")} | environment
    env["PYTHONPATH"] = str(path or PACKAGE.parent)
    command = [sys.executable, "-c", PROGRAM, "info", *arguments]
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
    assert set(report["optional"]) == {"matplotlib", "pyarrow", "tokenizers", "zstandard"}


def test_text_has_a_line_for_each_fact() -> None:
    lines = run_info().stdout.splitlines()
    assert [line.split()[0] for line in lines[:7]] == [
        "sparsenet", "Python", "kernels", "extension", "ISA", "threads", "memory"
    ]  # fmt: skip


def test_environment_selects_numba() -> None:
    report = json.loads(run_info("--json", SPARSENET_KERNELS="numba").stdout)
    assert report["backend"] == "numba"
    assert report["error"] is None


def test_missing_extension_is_reported_with_advice(tmp_path: Path) -> None:
    done = run_info("--json", path=copy_without_extension(tmp_path))
    report = json.loads(done.stdout)
    assert (report["backend"], report["extension"]) == ("numba", "not installed")
    assert any("compiler" in advice and "pip install" in advice for advice in report["advice"])
    assert done.stderr == ""


def test_broken_extension_is_reported(tmp_path: Path) -> None:
    copy_without_extension(tmp_path)
    (tmp_path / "sparsenet" / "_core.so").write_bytes(b"not a library")
    report = json.loads(run_info("--json", path=tmp_path).stdout)
    assert report["backend"] is None
    assert report["extension"] == "installed, but it does not work"
    assert "_core.so" in report["error"]


def test_missing_instruction_set_is_reported() -> None:
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


def test_wrong_kernel_choice_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sparsenet", "info"],
        env=os.environ | {"SPARSENET_KERNELS": "bogus"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "it does not work" not in done.stdout
    assert "SPARSENET_KERNELS must be one of auto, native, numba, got 'bogus'" in done.stdout
