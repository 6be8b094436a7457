"""Delay Ctrl-C to the end of a batch, when the state is consistent."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupt(threading.Event):
    """An event that is set by Ctrl-C, and by nothing else."""

    def __init__(self, patience: float | None) -> None:
        super().__init__()
        self._timer: threading.Timer | None = None
        if patience is not None:
            self._timer = threading.Timer(patience, signal.pthread_kill, (threading.get_ident(), signal.SIGINT))
            self._timer.daemon = True

    def set(self) -> None:
        """Set the event; from now on, the batch has limited time to end."""
        super().set()
        if self._timer is not None:
            self._timer.start()

    def end_batch(self) -> None:
        """Allow any time after the end of the batch."""
        if self._timer is not None:
            self._timer.cancel()


@contextmanager
def deferred_interrupt(patience: float | None = None) -> Iterator[Interrupt]:
    """Turn the first Ctrl-C into an event that the caller checks between batches; a second one acts at once.

    With `patience`, the first one also acts if the batch takes more than this number of seconds to end: Ctrl-C in a
    terminal may have killed the workers that the batch waits for.

    The event is never set outside of the main thread, where Python delivers no signals. It is never set, either, in a
    program that ignores Ctrl-C or has a handler of its own, such as a service: that handler stays.
    """
    event = Interrupt(patience)
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if threading.current_thread() is not threading.main_thread() or not is_default:
        yield event
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if event.is_set():
            raise KeyboardInterrupt
        event.set()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield event
    finally:
        event.end_batch()
        signal.signal(signal.SIGINT, before)
