"""Where the state of a run is kept, and how often; a place that nobody asked for is given up rather than the run."""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sparsenet.engines.network.model import Network
from sparsenet.engines.network.training import checkpoints
from sparsenet.engines.network.training.checkpoints import RunState

#: Seconds between two checkpoints, at least: where epochs take less, writing each to the disk would take longer.
CHECKPOINT_SECONDS = 5.0


class Keeping:
    """Keeps the state of a run in a directory, or nowhere.

    Parameters
    ----------
    place : path or None
        Of a checkpoint; a `Spare` one may turn out not to be writable.
    network : Network
        What is trained.
    """

    def __init__(self, place: str | os.PathLike[str] | None, network: Network) -> None:
        self._place = None if place is None else Path(place)
        self._spare = isinstance(place, checkpoints.Spare)
        self._network, self._saved_at = network, -math.inf
        if self._place is not None:
            checkpoints.check_resumable(network)
            with self._doing_without():
                checkpoints.prepare(self._place)  # rather than fail after the first epoch

    def is_due(self) -> bool:
        """Say whether the last checkpoint was some seconds ago."""
        return time.perf_counter() - self._saved_at >= CHECKPOINT_SECONDS

    def save(self, state: RunState, fingerprint: Callable[[], dict[str, Any]]) -> None:
        """Write a checkpoint of the run that has such a fingerprint, if there is a place for one."""
        if self._place is None:
            return
        with self._doing_without():
            checkpoints.save(self._place, self._network, state, fingerprint())
        self._saved_at = time.perf_counter()

    def load(self, fingerprint: Callable[[], dict[str, Any]], *, may_drop_hidden: bool) -> RunState | None:
        """Put the network back to where the checkpoint was written, and return the state of the run, if there is one.

        A run that `may_drop_hidden` units may have done so.
        """
        if self._place is None or not checkpoints.is_there(self._place):
            return None
        if may_drop_hidden and checkpoints.has_dropped_hidden(self._place):
            self._network.drop_hidden()
        return checkpoints.load(self._place, self._network, fingerprint())

    @contextmanager
    def _doing_without(self) -> Iterator[None]:
        """Give up a checkpoint that nobody asked for rather than the run."""
        try:
            yield
        except OSError as error:
            if not self._spare:
                raise
            place, self._place = self._place, None
            problem = error.strerror or str(error)
            warnings.warn(f"training goes on without a checkpoint: {place}: {problem}", RuntimeWarning, stacklevel=2)
