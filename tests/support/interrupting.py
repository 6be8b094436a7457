"""Ctrl-C at a moment of a network's training."""

import itertools
import os
import signal

from sparsenet import ExtremeClassifier, Network


class StopAt:
    """Ctrl-C after some batches."""

    def __init__(self, batch):
        self.left = batch

    def on_batch(self, progress):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)


def interrupted_before(monkeypatch, owner, name):
    """Have Ctrl-C come whenever a method begins."""
    method = getattr(owner, name)

    def interrupted(*args):
        os.kill(os.getpid(), signal.SIGINT)
        return method(*args)

    monkeypatch.setattr(owner, name, interrupted)


def interrupted_in(monkeypatch, epoch):
    """Have Ctrl-C come in the first step of an epoch of whatever network is fitted."""

    class Stop:
        def on_batch(self, progress):
            if progress.epoch == epoch:
                raise KeyboardInterrupt

    fit = ExtremeClassifier.fit
    monkeypatch.setattr(ExtremeClassifier, "fit", lambda self, X, y, **how: fit(self, X, y, **how, callbacks=[Stop()]))


def interrupted_at(monkeypatch, at):
    """Have Ctrl-C come once, in one of the steps, counted from 0; return what the next step draws its number from."""
    step, steps = Network.train_step, itertools.count()

    def train_step(*args, **kwargs):
        if next(steps) == at:
            raise KeyboardInterrupt
        return step(*args, **kwargs)

    monkeypatch.setattr(Network, "train_step", train_step)
    return steps


class Failing:
    """A callback that ends the training."""

    def on_batch(self, progress):
        raise RuntimeError("enough")

    def on_epoch(self, record):
        pass
