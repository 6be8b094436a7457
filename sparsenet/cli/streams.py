"""Standard output as the command line needs it: what cannot be written is said in one line, whatever wrote it."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast


class OutputError(Exception):
    """Standard output does not take any more; no OSError, so that nobody takes it for trouble with another file."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"standard output: {error.strerror}")
        self.nobody_reads = error.errno == errno.EPIPE


class _StandardOutput(io.TextIOWrapper):
    """Raises OutputError where a write fails."""

    def write(self, text: str) -> int:
        with _failing_by_name():
            return super().write(text)

    def flush(self) -> None:
        with _failing_by_name():
            super().flush()


@contextmanager
def _failing_by_name() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(error) from error


@contextmanager
def watched_output() -> Iterator[None]:
    """Exit with 1 and a line on stderr where standard output is full, with 0 and no word where nobody reads on."""
    if sys.stdout is None:  # closed by whoever started this
        _fail("standard output is closed")
    before = sys.stdout
    descriptor = before.fileno()
    binary = cast(BinaryIO, open(descriptor, "wb", closefd=False))  # noqa: SIM115, closed with the process
    sys.stdout = _StandardOutput(binary, before.encoding, before.errors, line_buffering=bool(before.line_buffering))
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OutputError as error:
        # Python flushes once more at exit, and would complain once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
        if error.nobody_reads:
            sys.exit(0)
        _fail(str(error))


def _fail(problem: str) -> None:
    print(f"sparsenet: error: {problem}", file=sys.stderr)
    sys.exit(1)
