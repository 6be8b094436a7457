"""Ctrl-C waits for the end of a batch, but not for ever."""

import signal
import time

import pytest

from sparsenet.engines.network.training.interrupts import deferred_interrupt


def stuck() -> None:
    """Interrupt a batch that does not end."""
    with deferred_interrupt(patience=0.1) as interrupted:
        signal.raise_signal(signal.SIGINT)
        assert interrupted.is_set()
        time.sleep(30)


def test_acts_when_the_batch_does_not_end_in_time() -> None:
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        stuck()
    assert time.monotonic() - begun < 20


def test_allows_any_time_after_the_batch() -> None:
    with deferred_interrupt(patience=0.05) as interrupted:
        signal.raise_signal(signal.SIGINT)
        interrupted.end_batch()
        time.sleep(0.2)
    assert interrupted.is_set()
