"""Choose between options by their scores on held-out points."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sparsenet.kernels.types import F64


class Option(NamedTuple):
    """A value that may be chosen, and its name for people."""

    name: str
    value: Any


@dataclass(frozen=True)
class Rule:
    """When an option replaces the one before it.

    Attributes
    ----------
    metric : str
        The name of the score, higher is better.
    standard_errors : float
        The mean gain must exceed this many standard errors of itself.
    min_gain : float
        And this.
    """

    metric: str
    standard_errors: float = 2.0
    min_gain: float = 0.0


class Decision(NamedTuple):
    """What was chosen, and why; one form for every decision.

    Attributes
    ----------
    value : the chosen value.
    why : one line for people.
    options : names of the options that were compared, the default first; empty if there was nothing to compare.
    gain : mean gain of the best other option over the default, in the metric.
    standard_error : of that gain.
    n : number of held-out points.
    """

    value: Any
    why: str
    options: tuple[str, ...] = ()
    gain: float | None = None
    standard_error: float | None = None
    n: int = 0


def choose(options: Sequence[Option], score: Callable[[Any], F64], rule: Rule) -> Decision:
    """Return the first option, or a later one that scores higher beyond chance.

    `score` returns one number a held-out point for the value of an option.

    Examples
    --------
    >>> scores = {"usual": np.zeros(100), "dearer": np.tile([0.0, 1.0], 50)}
    >>> found = choose([Option("usual", 1), Option("dearer", 2)], lambda v: list(scores.values())[v - 1], Rule("P@1"))
    >>> found.value, found.gain, found.why
    (2, 0.5, 'dearer: P@1 50.00 points above usual (standard error 5.03), 100 held-out points')
    """
    default = options[0]
    usual = score(default.value)
    chosen, gain, error, found = default, -math.inf, math.nan, default
    for option in options[1:]:
        gains = score(option.value) - usual
        own, own_error = float(gains.mean()), float(gains.std(ddof=1) / math.sqrt(len(gains)))
        if own > gain:
            gain, error, found = own, own_error, option
            if own > max(rule.min_gain, rule.standard_errors * own_error):
                chosen = option
    verdict = "" if chosen is found else f", not beyond chance: {default.name} stays"
    direction = "above" if gain >= 0 else "below"
    why = (
        f"{found.name}: {rule.metric} {100 * abs(gain):.2f} points {direction} {default.name} "
        f"(standard error {100 * error:.2f}), {len(usual)} held-out points{verdict}"
    )
    return Decision(chosen.value, why, tuple(option.name for option in options), gain, error, len(usual))
