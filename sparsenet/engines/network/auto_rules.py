"""How parameters of a network that are left to "auto" are chosen."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparsenet.engines.network.training.trial import TrialRules
from sparsenet.selection.choose import Rule


@dataclass(frozen=True)
class AutoRules:
    """Bounds and rates for parameters left to "auto" (bench/notes/networks.md has the measurements).

    Attributes
    ----------
    min_epochs, max_epochs, min_steps, enough_steps : int
        Epochs: `max_epochs`; fewer on data that reach `enough_steps` earlier, more on data that need them for
        `min_steps`. At least `min_epochs`.
    trial_after : int
        The trial of hidden units runs after one `trial_after`-th of the epochs.
    all_labels, negatives : int
        With up to `all_labels` labels, all are negatives. Otherwise `negatives` random ones are enough, since the
        labels of the other points of the batch are negatives, too.
    batch_sizes, steps_per_epoch : tuple of int, int
        The largest of these batch sizes that leaves `steps_per_epoch` steps is used.
    rate, dense_factor : float
        Learning rate for the smallest batch; it grows with the root of the batch size. It is `dense_factor` times as
        high for dense points, since their gradients average over the whole batch.
    wide_rate : float
        Learning rate of the biases if the rate of the wide path is fitted.
    widths, budgets : tuple of int
        Hidden units, and wide weights per label, to try in this order until memory and time suffice.
    rate_after_fit : float
        Factor of the learning rates in `partial_fit` after `fit`: full rates cost up to 2.7 points of P@1.
    trial_from, held_one_in, min_held, max_held : int
        With `trial_from` points or more, one in `held_one_in` is held out for the trial, between `min_held` and
        `max_held` of them.
    scouting_one_in, scouting_min_held, scouting_max_scores : int
        A pilot run, which chooses the number of epochs, holds out one point in `scouting_one_in`, at least
        `scouting_min_held`. It computes at most `scouting_max_scores` scores after each epoch.
    trial : TrialRules
        The evidence that decisions of the trial need.
    scouting : Rule
        The evidence that a pilot run needs for fewer epochs or no hidden units.
    """

    min_epochs: int = 5
    max_epochs: int = 8
    min_steps: int = 400
    enough_steps: int = 2500
    trial_after: int = 3
    all_labels: int = 1024
    negatives: int = 256
    batch_sizes: tuple[int, ...] = (256, 512, 1024)
    steps_per_epoch: int = 128
    rate: float = 4e-3
    dense_factor: float = 3
    wide_rate: float = 0.6
    widths: tuple[int, ...] = (256, 128, 64)
    budgets: tuple[int, ...] = (1024, 512, 256, 128)
    rate_after_fit: float = 0.25
    trial_from: int = 16384
    held_one_in: int = 64
    min_held: int = 512
    max_held: int = 2048
    scouting_one_in: int = 10
    scouting_min_held: int = 400
    scouting_max_scores: int = 1 << 27
    trial: TrialRules = field(default_factory=TrialRules)
    scouting: Rule = field(default_factory=lambda: Rule("share of right labels"))

    def n_held(self, n_points: int) -> int:
        """Return the size of the hold-out for the trial."""
        return min(max(n_points // self.held_one_in, self.min_held), self.max_held)


AUTO = AutoRules()
