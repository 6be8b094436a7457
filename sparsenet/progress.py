"""A progress bar on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from sparsenet.training import Progress

if TYPE_CHECKING:  # else imported where a bar is drawn: every classifier imports this module, and few draw
    from tqdm import tqdm

#: Seconds after which a count of parts is shown: what is done by then needs no bar.
A_MOMENT = 1.0


def is_wanted(verbose: bool | None) -> bool:
    """Tell whether progress is to be shown: as the parameter `verbose` says, or else if stderr is a terminal."""
    return sys.stderr.isatty() if verbose is None else verbose


@contextmanager
def parts_done(total: float, what: str, verbose: bool | None) -> Iterator[Callable[[float], object]]:
    """Yield what is to be told how much more of `total` is done, and show it, if that is wanted."""
    if not is_wanted(verbose):
        yield lambda n: None
        return
    from tqdm import tqdm

    shape = "{desc} {percentage:3.0f}%|{bar}| {remaining} left"
    with tqdm(total=total, desc=what, dynamic_ncols=True, delay=A_MOMENT, bar_format=shape, file=sys.stderr) as bar:
        yield bar.update


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
        """Move on; the text is made only when it is time to draw."""
        total = progress.steps or progress.epochs * progress.batches
        if self._bar is None:
            from tqdm import tqdm

            self._bar = tqdm(
                total=total,
                initial=progress.done - 1,
                file=self._file,
                unit="batch",
                dynamic_ncols=True,
                desc=_epoch(progress),
                bar_format="{desc} {percentage:3.0f}%|{bar}| {remaining} left{postfix}",
            )
        bar = self._bar
        bar.total = total  # the pace may change, and with it what a time budget leaves room for
        if bar.update(progress.done - bar.n) or progress.done == total:
            bar.set_description_str(_epoch(progress), refresh=False)
            bar.set_postfix_str(describe(progress), refresh=True)

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
