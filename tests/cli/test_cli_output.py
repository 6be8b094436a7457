"""Standard output that is full, closed or abandoned, for every command, the help and the version."""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from typer.testing import CliRunner

import sparsenet
from sparsenet import cli

COMMANDS = {
    "help": ["--help"],
    "help of a command": ["train", "--help"],
    "version": ["--version"],
    "info": ["info"],
    "info in JSON": ["info", "--json"],
    "train": ["train", "train.txt", "--model", "other", "--hidden", "0", "--epochs", "1"],
    "evaluate": ["evaluate", "model", "train.txt"],
    "predict": ["predict", "model", "train.txt"],
}
#: `make test` runs three of them.
PARAMS = [
    pytest.param(arguments, id=name, marks=[] if name in ("version", "info", "predict") else pytest.mark.slow)
    for name, arguments in COMMANDS.items()
]
QUIET = os.environ | {"PYTHONWARNINGS": "ignore"}  # Numba may warn that it is in use
needs_full_device = pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("output")
    (path / "train.txt").write_text("3 5 2\n0 0:1 1:0.5\n0,1 1:1 2:0.5\n1 3:1 4:1\n")
    done = CliRunner().invoke(cli.app, ["train", str(path / "train.txt"), "--model", str(path / "model")])
    assert done.exit_code == 0
    return path


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "sparsenet", *arguments]


@needs_full_device
@pytest.mark.parametrize("arguments", PARAMS)
def test_full_disk_is_reported_in_one_line(folder: Path, arguments: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command(*arguments), stdout=full, stderr=subprocess.PIPE, text=True, cwd=folder, env=QUIET, check=False
        )
    assert done.returncode == 1
    assert done.stderr == "sparsenet: error: standard output: No space left on device\n"


@pytest.mark.parametrize("arguments", PARAMS)
def test_closed_pipe_exits_silently(folder: Path, arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        command(*arguments), stdout=writing, stderr=subprocess.PIPE, text=True, cwd=folder, env=QUIET, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_closed_stdout_is_reported() -> None:
    closed = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *command("info")], stderr=subprocess.PIPE, text=True, check=False
    )
    assert (closed.returncode, closed.stderr) == (1, "sparsenet: error: standard output is closed\n")


def test_working_output_is_complete(folder: Path) -> None:
    done = subprocess.run(
        command("predict", "model", "train.txt"), capture_output=True, text=True, cwd=folder, env=QUIET, check=True
    )
    assert len(done.stdout.splitlines()) == 3


def test_version() -> None:
    assert sparsenet.__version__ == metadata.version("sparsenet")
    assert "__version__" in dir(sparsenet)
    assert CliRunner().invoke(cli.app, ["--version"]).stdout == f"sparsenet {sparsenet.__version__}\n"
