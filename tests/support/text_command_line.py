"""Run the command line on texts, within this process or in its own."""

from __future__ import annotations

import subprocess
import sys

from typer.testing import CliRunner

from sparsenet.cli import app
from tests.support.patience import PATIENCE


def run(*arguments, stdin: bytes = b"") -> tuple[int, str, str]:
    """Run a command within this process; return status, stdout, and stderr without frames."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
    return done.exit_code, done.stdout, " ".join(done.stderr.replace("│", " ").split())


def sparsenet(*arguments, stdin: bytes = b"", check: bool = True) -> subprocess.CompletedProcess:
    """Run a command in its own process with a pipe for stdin; `check` requires success."""
    command = [sys.executable, "-m", "sparsenet", *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=300 * PATIENCE, check=check)


def unchecked(*arguments, stdin: bytes | None = None) -> subprocess.CompletedProcess:
    """Run a command in its own process, whatever its exit status."""
    command = [sys.executable, "-m", "sparsenet", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, input=stdin, timeout=300 * PATIENCE)


def in_process(*arguments, stdin: bytes | None = None) -> subprocess.CompletedProcess:
    """Run a command within this process, and return the same as `unchecked`."""
    words = [str(argument) for argument in arguments]
    done = CliRunner().invoke(app, words, input=stdin or b"", prog_name="sparsenet")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return subprocess.CompletedProcess(words, done.exit_code, done.stdout_bytes, done.stderr_bytes)
