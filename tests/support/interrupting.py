"""Ctrl-C, and failures, at a given moment of a network's training."""

import itertools
import os
import signal

from sparsenet import Network
from sparsenet.engines.network import fit_network


class StopAt:
    """Press Ctrl-C after the given number of batches."""

    def __init__(self, batch):
        self.left = batch

    def on_batch(self, progress):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)


def interrupted_in(monkeypatch, epoch):
    """Press Ctrl-C in the first step of an epoch of the network of any blend."""

    class Stop:
        def on_batch(self, progress):
            if progress.epoch == epoch:
                raise KeyboardInterrupt

    fit = fit_network.fit
    monkeypatch.setattr(fit_network, "fit", lambda *args, **how: fit(*args, **how | {"callbacks": [Stop()]}))


def interrupted_at(monkeypatch, at):
    """Press Ctrl-C once, in step `at` counted from 0; return the step counter."""
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
