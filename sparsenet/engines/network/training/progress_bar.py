"""Show the progress of training as a bar on stderr."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TextIO

from tqdm import tqdm

from sparsenet.core.progress import bar
from sparsenet.engines.network.training.reports import Progress


class ProgressBar:
    """A callback that shows epoch, loss, points/s, recall of the hash index, validation P@1 and the time left.

    Parameters
    ----------
    file : text stream, optional
        Where to draw the bar; stderr by default.

    Examples
    --------
    >>> from sparsenet import ProgressBar
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
        """Advance the bar and redraw it if it is time to."""
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
        drawn.total = total  # under a time budget, the number of steps depends on the pace
        drawn.set_description_str(_epoch(progress), refresh=False)
        drawn.set_postfix_str(describe(progress), refresh=False)
        if not drawn.update(progress.done - drawn.n) and progress.done == total:
            drawn.refresh()

    def on_epoch(self, record: dict[str, float]) -> None:
        """Do nothing: the next batch shows the measurements of the epoch."""

    def close(self) -> None:
        """Close the bar and move to the next line."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _epoch(progress: Progress) -> str:
    return f"epoch {progress.epoch + 1}/{progress.epochs}"


def describe(progress: Progress) -> str:
    """Describe the state of a run in one line.

    >>> describe(Progress(0, 5, 10, 100, 0.25, 2560, 2.0, None, {"P@1": 0.613}))
    'loss 0.25, 1,280 points/s, P@1 61.3 %'
    """
    parts = [f"loss {progress.loss:.4g}", f"{progress.points_per_second:,.0f} points/s"]
    if progress.index_recall is not None:
        parts.append(f"index recall {100 * progress.index_recall:.0f} %")
    if progress.validation and "P@1" in progress.validation:
        parts.append(f"P@1 {100 * progress.validation['P@1']:.1f} %")
    return ", ".join(parts)
