"""Add to errors of the system what was being written, where, and what helps."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def disk_errors(what: str, place: str) -> Iterator[None]:
    """Add to an OSError that `what` was being written to `place`, and the remedy."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        problem = f"{os.strerror(error.errno)}: {what} was being written to {place}"
        raise OSError(error.errno, f"{problem}; {remedy(error)}") from error


def remedy(error: OSError) -> str:
    """Return what helps if a folder cannot be written, for the end of a message."""
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return "make room there, or name another folder" if is_full else "name another folder"
