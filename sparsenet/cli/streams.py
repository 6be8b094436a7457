"""Standard output that reports a failed write in one line."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast


class OutputError(Exception):
    """A write to standard output failed. It is not an OSError, which would be taken for trouble with another file."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"standard output: {error.strerror}")
        self.reader_left = error.errno == errno.EPIPE


class _StandardOutput(io.TextIOWrapper):
    """Raises an OutputError if a write fails."""

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
    """Exit with 1 and a line on stderr if standard output is full, and silently with 0 if its reader has left."""
    if sys.stdout is None:  # closed by the parent process
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
        # Python flushes again at exit, and would print another error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
        if error.reader_left:
            sys.exit(0)
        _fail(str(error))


def _fail(problem: str) -> None:
    print(f"sparsenet: error: {problem}", file=sys.stderr)
    sys.exit(1)
