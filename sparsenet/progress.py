"""A progress bar on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from sparsenet.training import Progress

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


class ProgressBar:
    """A callback that shows epoch, loss, points/s, the index's recall, validation P@1 and the time left.

    Parameters
    ----------
    file : where it is drawn, stderr by default.

    Examples
    --------
    >>> from sparsenet.progress import ProgressBar
    >>> with ProgressBar() as bar:
    ...     trainer = Trainer(network, features, labels, config, callbacks=[bar])  # doctest: +SKIP
    """

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file or sys.stderr
        self._bar: tqdm | None = None

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def on_batch(self, progress: Progress) -> None:
        """Move on, and draw if it is time to."""
        total = progress.steps or progress.epochs * progress.batches
        if self._bar is None:
            self._bar = bar(
                self._file,
                total=total,
                initial=progress.done - 1,
                unit="batch",
                desc=_epoch(progress),
                bar_format="{desc} {percentage:3.0f}%|{bar}| {remaining} left{postfix}",
            )
        drawn = self._bar
        drawn.total = total  # the pace may change, and with it what a time budget leaves room for
        drawn.set_description_str(_epoch(progress), refresh=False)
        drawn.set_postfix_str(describe(progress), refresh=False)
        if not drawn.update(progress.done - drawn.n) and progress.done == total:
            drawn.refresh()

    def on_epoch(self, record: dict[str, float]) -> None:
        """Nothing to add: what an epoch measured comes with the next batch."""

    def close(self) -> None:
        """Leave the bar as it is and go to the next line."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _epoch(progress: Progress) -> str:
    return f"epoch {progress.epoch + 1}/{progress.epochs}"


def describe(progress: Progress) -> str:
    """Return one line on where a run stands.

    >>> describe(Progress(0, 5, 10, 100, 0.25, 2560, 2.0, None, {"P@1": 0.613}))
    'loss 0.25, 1,280 points/s, P@1 61.3 %'
    """
    parts = [f"loss {progress.loss:.4g}", f"{progress.points_per_second:,.0f} points/s"]
    if progress.index_recall is not None:
        parts.append(f"index recall {100 * progress.index_recall:.0f} %")
    if progress.validation and "P@1" in progress.validation:
        parts.append(f"P@1 {100 * progress.validation['P@1']:.1f} %")
    return ", ".join(parts)
