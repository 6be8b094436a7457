"""Progress bars on stderr."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:  # at run time imported on demand: every classifier imports this module, few draw a bar
    from tqdm import tqdm

#: Seconds before a bar appears: shorter steps need none.
A_MOMENT = 1.0
#: Seconds between two lines of progress when stderr is not a terminal.
BETWEEN_LINES = 10.0
_by_default: bool | None = None


@contextmanager
def shown_by_default(shown: bool | None) -> Iterator[None]:
    """Set whether ``verbose=None`` shows progress; None means only on a terminal."""
    global _by_default
    _by_default, before = shown, _by_default
    try:
        yield
    finally:
        _by_default = before


def is_wanted(verbose: bool | None) -> bool:
    """Return whether to show progress: `verbose`, or the default if it is None."""
    default = (sys.stderr.isatty() or in_notebook()) if _by_default is None else _by_default
    return default if verbose is None else verbose


def in_notebook() -> bool:
    """Return whether this is the kernel of a notebook, which is no terminal, but can redraw a bar."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and "IPKernelApp" in getattr(shell, "config", {})


class _Lines:
    """A file that prints each state of a bar on a new line, for output that cannot redraw it."""

    def __init__(self, file: TextIO) -> None:
        self._file, self._last = file, ""

    def write(self, text: str) -> None:
        """Write each new line once, and skip text that only moves the cursor."""
        if (line := text.strip()) and line != self._last:
            self._file.write(f"{line}\n")
            self._last = line

    def flush(self) -> None:
        """Flush the underlying file."""
        self._file.flush()


def bar(file: TextIO | None = None, **shape: Any) -> tqdm:
    """Create a tqdm bar with the options `shape` on a file, stderr by default.

    A notebook gets a widget, or a bar as text if ipywidgets is missing. Without a terminal or notebook, lines need an
    explicit request.
    """
    out = file or sys.stderr
    if in_notebook() and out is sys.stderr:
        return _notebook_bar(**shape)
    from tqdm import tqdm

    if _by_default and not out.isatty():
        return tqdm(file=_Lines(out), mininterval=BETWEEN_LINES, **shape)
    return tqdm(file=out, dynamic_ncols=True, **shape)


def _notebook_bar(**shape: Any) -> tqdm:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tqdm's advice to install ipywidgets
        from tqdm.auto import tqdm

        try:
            return tqdm(**shape)
        except ImportError:  # no ipywidgets
            from tqdm import tqdm as text_bar

            return text_bar(file=sys.stderr, **shape)


@contextmanager
def parts_done(total: float, what: str, verbose: bool | None) -> Iterator[Callable[[float], object]]:
    """Yield a function that adds to the amount of `total` done; show a bar if `verbose` allows."""
    if not is_wanted(verbose):
        yield lambda n: None
        return
    shape = "{desc} {percentage:3.0f}%|{bar}| {remaining} left"
    with bar(total=total, desc=what, delay=A_MOMENT, bar_format=shape) as drawn:
        yield lambda n: drawn.update(min(n, total - drawn.n))  # sums of shares may round above the total
