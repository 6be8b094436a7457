"""A fitted network, and how it grows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from sparsenet.core.centroids import support_bound
from sparsenet.core.progress import is_wanted
from sparsenet.core.rows import transpose
from sparsenet.engines.network import sizing
from sparsenet.engines.network.building import check_memory, memory_limit
from sparsenet.engines.network.model import Network
from sparsenet.engines.network.optim import Schedule
from sparsenet.engines.network.options import AFTER_FIT, Settings
from sparsenet.engines.network.training.progress_bar import ProgressBar
from sparsenet.engines.network.training.reports import Callback, check_callbacks
from sparsenet.engines.network.training.trainer import Trainer
from sparsenet.features.scaling import Scaling
from sparsenet.features.seen import Seen
from sparsenet.features.targets import Points, Target

#: That the wide path takes a weight, old or new, while new ones are merged in: keys, their order, owners, and both
#: generations of indices, weights and state.
GROWTH_BYTES = 56


@dataclass(frozen=True)
class Fitted:
    """All that a fitted classifier is, beside its parameters.

    Attributes
    ----------
    seen : what training had.
    steps : how many steps the optimizers' states have seen; 0 if those are gone.
    calls : how many times it was trained; each draws other numbers.
    finished : whether `fit` trained it, at rates that fell to next to nothing.
    choices : parameters that were left to the classifier, what they came to and why.
    """

    network: Network
    target: Target
    scaling: Scaling
    seen: Seen
    history: Sequence[dict[str, Any]] = ()
    steps: int = 0
    calls: int = 0
    finished: bool = False
    choices: Mapping[str, tuple[Any, str]] = field(default_factory=dict)

    @property
    def rates(self) -> Schedule:
        """Return the rates at which it is trained further."""
        return Schedule(decay="constant", peak=AFTER_FIT if self.finished else 1.0)

    def after(self, trainer: Trainer, keep_state: bool) -> Fitted:
        """Take note of a training; without its state, further training is the same before `save` and after `load`."""
        made = {**self.choices, **sizing.hashed(self.network), **sizing.tried(trainer)}
        if not self.network.output.n_inputs:
            made.pop("learning_rate", None)  # of weights that there are no more
        if not keep_state:
            self.network.drop_state()
        before = len(self.history)  # epochs are counted on
        later = [{**record, "epoch": before + record["epoch"]} for record in trainer.history]
        steps, history = trainer.steps if keep_state else 0, [*self.history, *later]
        return replace(self, history=history, steps=steps, calls=self.calls + 1, choices=made)


def grow(network: Network, settings: Settings, points: Points, threads: int) -> None:
    """Make a trained network ready to learn from new points: weights that may be written, room in the wide path."""
    for parameter in network.parameters():
        if not parameter.value.flags.writeable:  # as joblib maps a model that it has on disk
            parameter.value = parameter.value.copy()
            parameter.state = {name: array.copy() for name, array in parameter.state.items()}
    wide = network.output.wide
    if wide:
        features, label_points = points[0], transpose(points[1])
        room = len(wide.indices) + int(support_bound(features, label_points, settings.wide_budget).sum())
        needed = {"new features of labels": GROWTH_BYTES * room}
        if settings.memory_limit is not None:  # which is on what there is already, too
            needed["model"] = sum(array.nbytes for p in network.parameters() for array in (p.value, *p.state.values()))
        check_memory(needed, settings, memory_limit(settings))
        wide.configure(replace(wide.config, budget=settings.wide_budget))
        wide.grow(features, label_points, threads)


@contextmanager
def shown(settings: Settings, callbacks: Sequence[Callback]) -> Iterator[list[Callback]]:
    """Add a progress bar to the callbacks, if one is wanted, and put it away at the end."""
    if not is_wanted(settings.verbose):
        yield check_callbacks(callbacks)
        return
    with ProgressBar() as bar:
        yield [*check_callbacks(callbacks), bar]
