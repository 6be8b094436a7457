"""Choose the weight of word vectors next to the words of a text."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sparsenet.engines.linear.linear import LinearRules
from sparsenet.engines.linear.measuring import MeasuredText, measure
from sparsenet.engines.linear.problem import Problem
from sparsenet.engines.linear.text_holdout import TextHoldout
from sparsenet.features.text.dense_view import DenseFeatures
from sparsenet.features.text.featuriser import FeatureRules
from sparsenet.kernels.types import F32
from sparsenet.selection.choose import Decision, Option, Rule, choose


@dataclass(frozen=True, kw_only=True)
class WeightRules:
    """How the weight of word vectors is chosen.

    Attributes
    ----------
    weights : tuple of float
        Lengths of a text's vector, where its sparse features have length 1. Few texts of many labels want 2, many texts
        of few labels a quarter. The first one is used if none can be measured.
    rule : Rule
        No weight is a default: the best one wins, however small its gain. The likelihood of the right labels differs
        between weights where the answers do not, so it needs fewer texts.
    max_products : float
        All weights are tried if an epoch has at most this many products of a feature and a weight, which takes some ten
        seconds for each.
    """

    weights: tuple[float, ...] = (1.0, 0.5, 0.25, 2.0)
    rule: Rule = field(default_factory=lambda: Rule("log-likelihood of the labels of a text", standard_errors=0.0))
    max_products: float = 5e9


#: The rules of all models.
WEIGHTS = WeightRules()


def choose_weight(
    problem: Problem,
    vectors: F32,
    features: FeatureRules,
    rules: LinearRules,
    holdout: TextHoldout | None,
    deadline: float | None = None,
    choosing: WeightRules = WEIGHTS,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[Decision, MeasuredText | None]:
    """Return the decision on the weight of `vectors` (n, dim), and the measurement of a model with it.

    With a `deadline`, a further weight is tried only if it, and a final training of twice its time, end before.
    """
    first = choosing.weights[0]
    products = float(len(problem.rows.slots) + vectors.size) * problem.labels.width
    if holdout is None or holdout.for_good:
        return Decision(first, f"{first:g}: no texts were held out to compare weights on"), None
    if products > choosing.max_products:
        return Decision(first, f"{first:g}: to compare weights on {len(problem.labels):,} texts takes too long"), None
    options: list[Option] = []
    slowest = 0.0
    for weight in choosing.weights:
        started = clock()
        if options and deadline is not None and started + 3 * slowest > deadline:
            break
        own = replace(problem, dense=DenseFeatures(vectors, weight))
        measured = measure(own, features, rules, holdout)[0]
        options.append(Option(f"{weight:g}", (weight, measured)))
        slowest = max(slowest, clock() - started)
    decision = choose(options, lambda one: one[1].likelihood, choosing.rule)
    weight, measured = decision.value
    return decision._replace(value=weight, why=_in_words(decision, f"{weight:g}", choosing.rule)), measured


def _in_words(decision: Decision, name: str, rule: Rule) -> str:
    """Describe a decision on log-likelihoods, which are no percentages."""
    if decision.gain is None:
        return decision.why
    first, gain = decision.options[0], max(decision.gain, 0.0)
    best = f"the highest {rule.metric}" if name == first else f"{rule.metric} {gain:.3f} above {first}"
    return f"{name}: {best} (standard error {decision.standard_error:.3f}), {decision.n} held-out texts"
