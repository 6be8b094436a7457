"""Choose between options by their scores on held-out points."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sparsenet.kernels.types import F64


class Option(NamedTuple):
    """A value to choose from, and its name for people."""

    name: str
    value: Any


@dataclass(frozen=True)
class Rule:
    """The evidence that an option needs to replace the default.

    Attributes
    ----------
    metric : str
        The name of the score, higher is better.
    standard_errors : float
        The mean gain must exceed this many of its standard errors.
    min_gain : float
        The mean gain must exceed this, too.
    """

    metric: str
    standard_errors: float = 2.0
    min_gain: float = 0.0


class Decision(NamedTuple):
    """A chosen value and the evidence for it; `choices_` holds these for every classifier.

    Attributes
    ----------
    value : the chosen value.
    why : one line for people.
    options : names of the options that were compared, the default first; empty without a comparison.
    gain : mean gain of the chosen option over the default, in the metric; if the default stays, of the best other one.
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
    """Return the default, which is the first option, or the best option that beats it beyond chance.

    `score` returns one number per held-out point for the value of an option.

    Examples
    --------
    >>> import numpy as np
    >>> scores = {"usual": np.zeros(100), "dearer": np.tile([0.0, 1.0], 50)}
    >>> found = choose([Option("usual", 1), Option("dearer", 2)], lambda v: list(scores.values())[v - 1], Rule("P@1"))
    >>> found.value, found.gain, found.why
    (2, 0.5, 'dearer: P@1 50.00 percentage points above usual (standard error 5.03), 100 held-out points')
    """
    default, others = options[0], options[1:]
    baseline, names = score(default.value), tuple(option.name for option in options)
    gains = [_Gain.of(option, score(option.value) - baseline) for option in others]
    if not gains:
        return Decision(default.value, f"{default.name}: no other option was allowed", names, n=len(baseline))
    beyond_chance = [each for each in gains if each.mean > max(rule.min_gain, rule.standard_errors * each.error)]
    best = max(beyond_chance or gains, key=lambda each: each.mean)
    verdict = "" if beyond_chance else f", not beyond chance: {default.name} stays"
    side = "above" if best.mean >= 0 else "below"
    why = (
        f"{best.option.name}: {rule.metric} {100 * abs(best.mean):.2f} percentage points {side} {default.name} "
        f"(standard error {100 * best.error:.2f}), {len(baseline)} held-out points{verdict}"
    )
    chosen = best.option if beyond_chance else default
    return Decision(chosen.value, why, names, best.mean, best.error, len(baseline))


def climb(options: Iterable[Option], score: Callable[[Any], F64], rule: Rule) -> Decision:
    """Choose among options of growing size: keep the last one before an option that is not better.

    Each option is scored once. Options after the last one are not made, if `options` is a generator.

    Examples
    --------
    >>> import numpy as np
    >>> scores = {10: [0.0, 0.1], 20: [0.5, 0.5], 40: [0.4, 0.5], 80: [1.0, 1.0]}
    >>> found = climb((Option(str(n), n) for n in scores), lambda n: np.array(scores[n]), Rule("P@1", 0.0))
    >>> found.value, found.options
    (20, ('10', '20', '40'))
    """
    seen: list[Option] = []
    scores: list[F64] = []
    for at, option in enumerate(options):
        seen.append(option)
        scores.append(score(option.value))
        last = range(max(at - 1, 0), at + 1)
        found = choose([Option(seen[each].name, each) for each in last], scores.__getitem__, rule)
        if found.value != at:
            break
    return found._replace(value=seen[found.value].value, options=tuple(option.name for option in seen))


class _Gain(NamedTuple):
    """The mean gain of an option over the default, and its standard error."""

    option: Option
    mean: float
    error: float

    @classmethod
    def of(cls, option: Option, gains: F64) -> _Gain:
        n = len(gains)
        return cls(option, float(gains.mean()), float(gains.std(ddof=1) / math.sqrt(n)) if n > 1 else math.inf)
