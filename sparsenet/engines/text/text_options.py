"""The parameters of `TextClassifier`, checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sparsenet.core.validation import choice, integer, n_jobs, number_of_bytes, optional, real, switch
from sparsenet.engines.linear.linear import LinearRules
from sparsenet.engines.linear.text_holdout import HoldoutOptions
from sparsenet.features.text.feature_options import FeatureOptions
from sparsenet.features.text.word_vectors import WordVectors, check_vectors
from sparsenet.selection.choose import Decision, Rule

METHODS = ("auto", "linear", "network", "blend")


def usual_method(kind: str, n_texts: int, n_labels: int) -> Decision:
    """Return the decision on a kind of model that is not saved with it, since most models have it."""
    size = f"{n_texts:,} texts of {n_labels:,} labels"
    return Decision(kind, f"{size}, few enough for a linear model" if kind == "linear" else f"for {size}")


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """The parameters of `TextClassifier`, checked and grouped by purpose.

    Attributes
    ----------
    features, holdout, linear : FeatureOptions, HoldoutOptions and LinearRules
    epochs : int or None
        None for ``"auto"``.
    max_products : float
        With ``method="auto"``, linear models are trained only if an epoch takes at most this many products of a feature
        and a weight: two or three minutes on one core. Otherwise a blend is trained.
    max_few_labels : int
        Up to this many labels, ``"auto"`` trains a linear model alone: a blend is no better, and takes longer.
    better : Rule
        The evidence that a blend needs to replace a linear model, if both are compared.
    """

    features: FeatureOptions = field(default_factory=FeatureOptions)
    holdout: HoldoutOptions = field(default_factory=HoldoutOptions)
    linear: LinearRules = field(default_factory=LinearRules)
    method: str = "auto"
    epochs: int | None = None
    class_weight: Any = None
    time_budget: float | None = None
    memory_limit: int | None = None
    n_jobs: int | None = None
    verbose: bool | None = None
    max_products: float = 5e10
    max_few_labels: int = 1000
    better: Rule = field(default_factory=lambda: Rule("mean of P@1, P@3 and P@5", standard_errors=1.0))

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> TextOptions:
        """Check the parameters as `get_params` returns them; an error names the first wrong one."""
        p = parameters
        auto_epochs, fraction, weight = isinstance(p["epochs"], str), p["validation_fraction"], p["class_weight"]
        if auto_epochs:
            choice("epochs", p["epochs"], ("auto",), " or a number of passes")
        epochs = None if auto_epochs else integer("epochs", p["epochs"], 1)
        if weight is not None and not isinstance(weight, Mapping):
            choice("class_weight", weight, ("balanced",), ", a dict or None")
        for label, factor in weight.items() if isinstance(weight, Mapping) else ():
            real(f"class_weight[{label!r}]", factor, 1e-30, 1e30)
        if isinstance(fraction, str):
            choice("validation_fraction", fraction, ("auto",), " or a share of the texts")
        features = FeatureOptions.of(p)
        check_vectors(p["vectors"])
        method = choice("method", p["method"], METHODS)
        cost = real("cost", p["cost"], 0, 1e6, open_low=True)
        fraction = None if isinstance(fraction, str) else real("validation_fraction", fraction, 0, 0.9)
        time_budget = optional(real, "time_budget", p["time_budget"], 0, 1e9)
        memory_limit = optional(number_of_bytes, "memory_limit", p["memory_limit"])
        return cls(
            features=features,
            holdout=HoldoutOptions(validation_fraction=fraction, memory_limit=memory_limit),
            linear=LinearRules(cost=cost, epochs=epochs or LinearRules.epochs),
            method=method,
            epochs=epochs,
            class_weight=weight,
            time_budget=time_budget,
            memory_limit=memory_limit,
            n_jobs=n_jobs(p["n_jobs"]),
            verbose=optional(switch, "verbose", p["verbose"]),
        )

    def with_vectors(self, vectors: WordVectors | None) -> TextOptions:
        """Set the word vectors, which `of` does not read."""
        return replace(self, features=replace(self.features, vectors=vectors))

    def by_size(self, n_texts: int, n_features: int, n_labels: int, *, grows: bool = False) -> Decision | None:
        """Decide the method by the number of texts, of features in all of them, and of labels; None: compare two.

        `grows` if further texts will follow, which a blend cannot learn.
        """
        if self.method != "auto":
            return Decision(self.method, "as requested")
        size = f"{n_labels:,} labels times {n_features:,} features of all texts"
        if float(n_features) * n_labels > self.max_products:
            why = f"{size}: a linear model would take minutes"
            return Decision("network", f"{why}, and a blend cannot learn on") if grows else Decision("blend", why)
        if n_labels <= self.max_few_labels:
            return usual_method("linear", n_texts, n_labels)
        if grows:
            return Decision("linear", f"{size}: a linear model learns further texts best")
        if self.class_weight is not None or self.linear.cost != LinearRules.cost:
            return Decision("linear", "cost and class_weight are for linear models")
        if self.features.vectors is not None:
            return Decision("linear", "word vectors are for linear models")
        if self.time_budget is not None:
            return Decision("linear", f"{size}: the time budget is for one model")
        return None
