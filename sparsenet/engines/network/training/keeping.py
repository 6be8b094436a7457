"""Write the state of a run to disk every few seconds, and read it back."""

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
from sparsenet.engines.network.training.restoring import RunSize

#: The fewest seconds between two checkpoints: after each of many short epochs, writing would take longer than training.
CHECKPOINT_SECONDS = 5.0


class Keeping:
    """Keeps the state of a run in a directory, or nowhere.

    Parameters
    ----------
    place : path or None
        The directory of the checkpoint. If a `Spare` one is not writable, training continues without it.
    network : Network
        The network that is trained.
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
        """Return whether the last checkpoint is at least CHECKPOINT_SECONDS old."""
        return time.perf_counter() - self._saved_at >= CHECKPOINT_SECONDS

    def save(self, state: RunState, fingerprint: Callable[[], dict[str, Any]]) -> None:
        """Write a checkpoint, if there is a place for one."""
        if self._place is None:
            return
        with self._doing_without():
            checkpoints.save(self._place, self._network, state, fingerprint())
        self._saved_at = time.perf_counter()

    def load(
        self, fingerprint: Callable[[], dict[str, Any]], size: RunSize, *, may_drop_hidden: bool
    ) -> RunState | None:
        """Restore the network from the checkpoint, and return the state of the run; None if there is no checkpoint.

        With `may_drop_hidden`, the hidden units are dropped first if the interrupted run had dropped them.
        """
        if self._place is None or not checkpoints.is_there(self._place):
            return None
        if may_drop_hidden and checkpoints.has_dropped_hidden(self._place):
            self._network.drop_hidden()
        return checkpoints.load(self._place, self._network, fingerprint(), size)

    @contextmanager
    def _doing_without(self) -> Iterator[None]:
        """Continue without a checkpoint if a `Spare` place cannot be written, and warn."""
        try:
            yield
        except OSError as error:
            if not self._spare:
                raise
            place, self._place = self._place, None
            problem = error.strerror or str(error)
            warnings.warn(f"training goes on without a checkpoint: {place}: {problem}", RuntimeWarning, stacklevel=2)
