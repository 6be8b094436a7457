"""Ctrl-C at a moment of a network's training."""

import itertools

from sparsenet import ExtremeClassifier, Network


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
