"""A progress bar on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:  # else imported where a bar is drawn: every classifier imports this module, and few draw
    from tqdm import tqdm

#: Seconds after which a count of parts is shown: what is done by then needs no bar.
A_MOMENT = 1.0
#: Seconds between two lines of what is no terminal.
BETWEEN_LINES = 10.0
_by_default: bool | None = None


@contextmanager
def shown_by_default(shown: bool | None) -> Iterator[None]:
    """Say whether ``verbose=None`` is to show progress, in lines if not on a terminal; None: if stderr is one."""
    global _by_default
    _by_default, before = shown, _by_default
    try:
        yield
    finally:
        _by_default = before


def is_wanted(verbose: bool | None) -> bool:
    """Tell whether progress is to be shown: as the parameter `verbose` says, or else as is usual."""
    usual = sys.stderr.isatty() if _by_default is None else _by_default
    return usual if verbose is None else verbose


class _Lines:
    """Has a bar drawn line by line, where there is no terminal that could draw it anew."""

    def __init__(self, file: TextIO) -> None:
        self._file, self._last = file, ""

    def write(self, text: str) -> None:
        """Write what is drawn, once, and nothing of what only moves the cursor."""
        if (line := text.strip()) and line != self._last:
            self._file.write(f"{line}\n")
            self._last = line

    def flush(self) -> None:
        """Have it seen."""
        self._file.flush()


def bar(file: TextIO | None = None, **shape: Any) -> tqdm:
    """Make a bar of this shape on a file, stderr by default.

    Notebooks are no terminal either, and draw a bar anew all the same: lines are for whoever asked for them.
    """
    from tqdm import tqdm

    out = file or sys.stderr
    if _by_default and not out.isatty():
        return tqdm(file=_Lines(out), mininterval=BETWEEN_LINES, **shape)
    return tqdm(file=out, dynamic_ncols=True, **shape)


@contextmanager
def parts_done(total: float, what: str, verbose: bool | None) -> Iterator[Callable[[float], object]]:
    """Yield what is to be told how much more of `total` is done, and show it, if that is wanted."""
    if not is_wanted(verbose):
        yield lambda n: None
        return
    shape = "{desc} {percentage:3.0f}%|{bar}| {remaining} left"
    with bar(total=total, desc=what, delay=A_MOMENT, bar_format=shape) as drawn:
        yield drawn.update
