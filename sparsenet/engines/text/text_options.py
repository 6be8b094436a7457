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

METHODS = ("auto", "linear", "network")


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """The parameters of `TextClassifier`, checked and grouped by purpose.

    Attributes
    ----------
    features, holdout, linear : FeatureOptions, HoldoutOptions and LinearRules
    epochs : int or None
        None for ``"auto"``.
    max_products : float
        With ``method="auto"``, linear models are trained if an epoch takes at most this many products of a feature and
        a weight: two or three minutes on one core. Otherwise a network is trained, with thousands of labels per step.
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
        features = _feature_options(p)
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

    def is_network(self, n_features: int, n_labels: int) -> bool:
        """Return whether to train a network, by the number of features in all texts and the number of labels."""
        if self.method == "auto":
            return float(n_features) * n_labels > self.max_products
        return self.method == "network"


def _feature_options(p: Mapping[str, Any]) -> FeatureOptions:
    auto = isinstance(p["char_ngrams"], str) and p["char_ngrams"] == "auto"
    return FeatureOptions(
        word_ngrams=integer("word_ngrams", p["word_ngrams"], 1, 8),
        char_ngrams=None if auto else _lengths(p["char_ngrams"]),
        auto_characters=auto,
        bits=integer("bits", p["bits"], 8, 28),
    )


def _lengths(value: Any) -> tuple[int, int] | None:
    if value is None:
        return None
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise ValueError(f"char_ngrams must be 'auto', None or a pair of lengths such as (3, 5), got {value!r}")
    low = integer("char_ngrams[0]", value[0], 1, 64)
    return low, integer("char_ngrams[1]", value[1], low, 64)
