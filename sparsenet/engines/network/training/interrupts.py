"""Delay Ctrl-C to the end of a batch, when the state is consistent."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def deferred_interrupt() -> Iterator[threading.Event]:
    """Turn the first Ctrl-C into an event that the caller checks between batches; a second one acts at once.

    The event is never set outside of the main thread, where Python delivers no signals. It is never set, either, in a
    program that ignores Ctrl-C or has a handler of its own, such as a service: that handler stays.
    """
    event = threading.Event()
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
        signal.signal(signal.SIGINT, before)
