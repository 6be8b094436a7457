"""Check the parameters of a network, and convert them to optimizers, losses and samplers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from sparsenet import kernels
from sparsenet.core.validation import (
    MAX_WIDTH,
    boolean,
    choice,
    instance,
    integer,
    n_jobs,
    number_of_bytes,
    optional,
    real,
    switch,
)
from sparsenet.engines.network.auto_rules import AUTO as AUTO  # tests and benchmarks replace it here
from sparsenet.engines.network.auto_rules import AutoRules
from sparsenet.engines.network.layers import ACTIVATIONS
from sparsenet.engines.network.losses import BinaryCrossEntropy, Loss, SampledSoftmax
from sparsenet.engines.network.optim import SGD, Adagrad, Adam, Optimizer, Schedule
from sparsenet.engines.network.samplers import AllSampler, FrequencySampler, LSHSampler, RandomSampler, Sampler
from sparsenet.engines.network.training import TrainingConfig, Trial, Validation
from sparsenet.features import scaling
from sparsenet.index.hashing import LSHConfig
from sparsenet.selection.choose import Decision

SAMPLERS = ("random", "frequency", "lsh", "none")
#: Samplers that ignore weights.
PLAIN_SAMPLERS = (RandomSampler, FrequencySampler, AllSampler)
LOSSES = ("bce", "softmax")
OPTIMIZERS = ("adam", "adagrad", "sgd")
PRECISIONS = ("auto", "float32", "bfloat16")
DECAYS = ("constant", "linear", "cosine")

#: The parameters of `ExtremeClassifier` and their defaults.
DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {
        "hidden": "auto",
        "wide": True,
        "activation": "relu",
        "dropout": 0.25,
        "loss": "bce",
        "sampler": "random",
        "n_negatives": "auto",
        "precision": "auto",
        "per_sample": False,
        "epochs": "auto",
        "batch_size": "auto",
        "optimizer": "adam",
        "learning_rate": "auto",
        "weight_decay": 0.0,
        "wide_learning_rate": "auto",
        "wide_weight_decay": 1e-5,
        "wide_budget": "auto",
        "warmup": 0.0,
        "decay": "linear",
        "label_smoothing": 0.0,
        "normalize": "auto",
        "validation_fraction": 0.0,
        "patience": None,
        "memory_limit": None,
        "time_budget": None,
        "n_jobs": None,
        "random_state": None,
        "verbose": None,
    }
)


@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """The checked parameters of `ExtremeClassifier`; strings such as "adam" have become objects.

    `auto` holds the names of parameters that are "auto"; `hidden` and `wide_budget` then hold the first size to try.
    `short_of` maps each reduced size to "memory" or "time". `because` maps parameters to decisions. A `resumed` run
    keeps its size.
    """

    hidden: tuple[int, ...]
    wide: bool
    activation: str
    dropout: float
    loss: Loss
    sampler: str | LSHConfig | Sampler
    n_negatives: int | None
    bf16: bool
    per_sample: bool
    epochs: int | None
    batch_size: int
    optimizer: Optimizer
    wide_rate: float | None
    wide_optimizer: Adagrad
    wide_budget: int
    schedule: Schedule
    normalize: str
    validation_fraction: float
    patience: int | None
    memory_limit: int | None
    time_budget: float | None
    n_jobs: int | None
    verbose: bool | None
    auto: frozenset[str]
    short_of: Mapping[str, str] = field(default_factory=dict)
    because: Mapping[str, Decision] = field(default_factory=dict)
    resumed: bool = False
    follows_pilot: bool = False  # a resumed run that went on from its pilot run
    rules: AutoRules = field(default_factory=lambda: AUTO)
    parameters: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @classmethod
    def of(
        cls, parameters: Mapping[str, Any], *, max_wide_budget: int = AUTO.budgets[0], rules: AutoRules | None = None
    ) -> NetworkOptions:
        """Check the parameters of an estimator, as `get_params` returns them; an error names the first wrong one.

        ``wide_budget="auto"`` means `max_wide_budget` at first. The other sizes that are "auto" follow `rules`, by
        default `AUTO`.
        """
        rules = AUTO if rules is None else rules
        if unknown := parameters.keys() - DEFAULTS.keys():
            raise TypeError(f"unknown parameters of a network: {', '.join(sorted(unknown))}")
        p = {**DEFAULTS, **parameters}
        wide_decay = real("wide_weight_decay", p["wide_weight_decay"], 0, 1)
        wide_rate = None if is_auto(p["wide_learning_rate"]) else _rate("wide_learning_rate", p)
        options = cls(
            hidden=rules.widths[:1] if is_auto(p["hidden"]) else _widths(p["hidden"]),
            wide=boolean("wide", p["wide"]),
            activation=choice("activation", p["activation"], ACTIVATIONS),
            dropout=real("dropout", p["dropout"], 0, 1, open_high=True),
            loss=_loss(p["loss"], real("label_smoothing", p["label_smoothing"], 0, 0.5, open_high=True)),
            sampler=_sampler(p["sampler"]),
            n_negatives=None if is_auto(p["n_negatives"]) else integer("n_negatives", p["n_negatives"], 1, MAX_WIDTH),
            bf16=_bf16(p["precision"]),
            per_sample=boolean("per_sample", p["per_sample"]),
            epochs=None if is_auto(p["epochs"]) else integer("epochs", p["epochs"], 1, MAX_WIDTH),
            batch_size=rules.batch_sizes[0]
            if is_auto(p["batch_size"])
            else integer("batch_size", p["batch_size"], 1, 1 << 20),
            optimizer=_optimizer(p, rules.rate),
            wide_rate=wide_rate,
            wide_optimizer=Adagrad(rate=rules.wide_rate if wide_rate is None else wide_rate, decay=wide_decay),
            wide_budget=max_wide_budget
            if is_auto(p["wide_budget"])
            else integer("wide_budget", p["wide_budget"], 1, MAX_WIDTH),
            schedule=Schedule(
                warmup=real("warmup", p["warmup"], 0, 1, open_high=True), decay=choice("decay", p["decay"], DECAYS)
            ),
            normalize=choice("normalize", p["normalize"], scaling.CHOICES),
            validation_fraction=real("validation_fraction", p["validation_fraction"], 0, 1, open_high=True),
            patience=optional(integer, "patience", p["patience"], 1, MAX_WIDTH),
            memory_limit=optional(number_of_bytes, "memory_limit", p["memory_limit"]),
            time_budget=optional(seconds, "time_budget", p["time_budget"]),
            n_jobs=n_jobs(p["n_jobs"]),
            verbose=optional(switch, "verbose", p["verbose"]),
            auto=_auto_names(p),
            rules=rules,
            parameters=p,
        )
        options._check_together()
        return options

    def _check_together(self) -> None:
        if not self.hidden and not self.wide:
            raise ValueError("hidden=0 and wide=False leave a network without weights: set one of them")
        if self.per_sample and self.wide:
            raise ValueError("per_sample=True supports the deep path only: set wide=False")
        if not self.hidden and self.hashes:
            raise ValueError("sampler='lsh' hashes hidden units, and hidden=0 has none: choose another sampler")

    def check_sharded(self) -> None:
        """Refuse options that cannot be trained in shards of labels, on the workers of an executor."""
        if type(self.loss) is not BinaryCrossEntropy:
            loss = self.parameters["loss"]
            raise ValueError(f"executor needs loss='bce', got {loss!r}: others may need all labels of a point")
        if type(self.optimizer) not in (SGD, Adagrad, Adam):
            raise ValueError(f"executor needs optimizer='adam', 'adagrad' or 'sgd', got {self.optimizer!r}")
        if self.sampler not in ("random", "frequency", "none") and type(self.sampler) not in PLAIN_SAMPLERS:
            named = "'random', 'frequency' or 'none', or a RandomSampler, FrequencySampler or AllSampler"
            raise ValueError(
                f"executor needs sampler={named}, got {self.sampler!r}: others may need the weights of all labels, "
                "which are with the workers"
            )
        for name, value in (("per_sample", self.per_sample or None), ("time_budget", self.time_budget)):
            if value is not None:
                raise ValueError(f"executor does not support {name}={value}: leave out one of them")

    @property
    def hashes(self) -> bool:
        """Return whether hidden units are hashed to find negatives."""
        return self.sampler == "lsh" or isinstance(self.sampler, LSHConfig | LSHSampler)

    @property
    def may_be_wide_alone(self) -> bool:
        """Return whether the network works without hidden units; a custom sampler might need them."""
        return self.wide and not self.hashes and isinstance(self.sampler, (str, *PLAIN_SAMPLERS))

    def may_lose_hidden(self, n_labels: int) -> bool:
        """Return whether a trial may drop the hidden units."""
        return (
            "hidden" in self.auto and self.may_be_wide_alone and self.epochs != 1 and n_labels > self.rules.all_labels
        )

    def trial(self, n_points: int, held_out: Validation, calibrates: bool) -> Trial:
        """Return the trial of hidden units and further epochs on held-out points."""
        epochs, rules = -(-self.n_epochs(n_points) // self.rules.trial_after), self.rules
        may_end = "epochs" in self.auto and epochs > 1
        return Trial(epochs, held_out, calibrates, may_end, rules.trial)

    def scouts(self, n_points: int) -> bool:
        """Return whether a pilot run chooses the number of epochs, because the default number may overfit."""
        is_free = self.epochs is None and self.time_budget is None
        return is_free and self.n_epochs(n_points) > self.rules.max_epochs

    def n_held_for_scouting(self, n_points: int, n_labels: int) -> int:
        """Return the number of points that a pilot run holds out; 0 without a pilot run."""
        n_held = min(n_points // self.rules.scouting_one_in, self.rules.scouting_max_scores // n_labels)
        return n_held if self.scouts(n_points) and n_held >= self.rules.scouting_min_held else 0

    def for_points(self, n_points: int, *, dense: bool = False) -> NetworkOptions:
        """Return the options with batch size and learning rate for `n_points`, where these are "auto"."""
        options = self
        if "batch_size" in self.auto:
            fitting = [size for size in self.rules.batch_sizes if n_points >= size * self.rules.steps_per_epoch]
            options = replace(options, batch_size=max(fitting, default=self.rules.batch_sizes[0]))
        if "learning_rate" in self.auto:
            faster = dense and isinstance(self.optimizer, Adam)
            growth = math.sqrt(max(options.batch_size / self.rules.batch_sizes[0], 1.0))
            rate = self.rules.rate * (self.rules.dense_factor if faster else 1) * growth
            options = replace(options, optimizer=replace(self.optimizer, rate=rate))  # type: ignore[type-var]
            why = f"for batches of {options.batch_size:,}{', of dense points' if faster else ''}"
            options = replace(options, because={**options.because, "learning_rate": Decision(rate, why)})
        return options

    def training(self, n_points: int, *, seed: int, threads: int) -> TrainingConfig:
        """Return the configuration of `fit` on `n_points`."""
        return TrainingConfig(
            epochs=self.n_epochs(n_points),
            batch_size=self.batch_size,
            seed=seed,
            threads=threads,
            schedule=self.schedule,
            patience=self.patience,
        )

    def time_left(self, spent: float) -> float | None:
        """Return the seconds left of the time budget after `spent` seconds; training takes one step even with 0."""
        return None if self.time_budget is None else max(self.time_budget - spent, 0.0)

    def one_pass(self, schedule: Schedule, *, seed: int, threads: int) -> TrainingConfig:
        """Return the configuration of `partial_fit`."""
        return TrainingConfig(epochs=1, batch_size=self.batch_size, seed=seed, threads=threads, schedule=schedule)

    def negatives(self, n_labels: int) -> int:
        """Return the number of negatives per step; `n_labels` means all labels."""
        if self.n_negatives is not None:
            return min(self.n_negatives, n_labels)
        return n_labels if n_labels <= self.rules.all_labels else self.rules.negatives

    def n_epochs(self, n_points: int) -> int:
        """Return the number of epochs for `n_points`."""
        if self.epochs is not None:
            return self.epochs
        steps_per_epoch = -(-n_points // self.batch_size)
        enough, fewest = -(-self.rules.enough_steps // steps_per_epoch), -(-self.rules.min_steps // steps_per_epoch)
        return max(self.rules.min_epochs, min(self.rules.max_epochs, enough), fewest)


def is_auto(value: Any) -> bool:
    """Return whether a parameter is "auto", so that the classifier chooses it."""
    return isinstance(value, str) and value == "auto"


def _auto_names(p: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of parameters that are "auto"; an optimizer object has its own learning rate."""
    fixed = set() if isinstance(p["optimizer"], str) else {"learning_rate"}
    return frozenset(name for name, value in p.items() if is_auto(value)) - fixed


def _widths(value: Any, max_units: int = 1 << 16) -> tuple[int, ...]:
    if isinstance(value, tuple | list):
        if not value:
            raise ValueError("hidden must be a number of units or a tuple of them, got an empty one: for none give 0")
        return tuple(integer("each of hidden", width, 1, max_units) for width in value)
    width = integer("hidden", value, 0, max_units)
    return (width,) if width else ()


def _loss(value: Any, smoothing: float) -> Loss:
    if hasattr(instance("loss", value), "gradient"):
        loss: Loss = value
        _refuse_ignored(loss, "loss", {"label_smoothing": smoothing} if smoothing else {})
        return loss
    name = choice("loss", value, LOSSES, " or a Loss object")
    return BinaryCrossEntropy(smoothing=smoothing) if name == "bce" else SampledSoftmax(smoothing=smoothing)


def _refuse_ignored(part: Any, name: str, given: Mapping[str, float]) -> None:
    """Refuse parameters that an optimizer or loss object sets itself: they would be ignored."""
    if given:
        what = " and ".join(f"{parameter}={value:g}" for parameter, value in given.items())
        raise ValueError(f"{what} would be ignored, because {name}={part!r} has its own: set it there")


def _sampler(value: Any) -> str | LSHConfig | Sampler:
    value = instance("sampler", value)
    if isinstance(value, LSHConfig):
        return value
    if hasattr(value, "sample") and hasattr(value, "expected"):
        missing = [name for name in vars(Sampler) if name[0] != "_" and not hasattr(value, name)]
        if missing:
            raise ValueError(f"sampler={value!r} has no {missing[0]}: let it inherit from sparsenet.samplers.Sampler")
        sampler: Sampler = value
        return sampler
    return choice("sampler", value, SAMPLERS, ", an LSHConfig or a Sampler object")


def _bf16(value: Any) -> bool:
    name = choice("precision", value, PRECISIONS)
    return kernels.has_bf16() if name == "auto" else name == "bfloat16"


def _rate(name: str, p: Mapping[str, Any]) -> float:
    return real(name, p[name], 0, 1e3, open_low=True)


def seconds(name: str, value: Any) -> float:
    """Check a duration in seconds."""
    return real(name, value, 0, 1e9, open_low=True)


def _optimizer(p: Mapping[str, Any], default_rate: float) -> Optimizer:
    value = p["optimizer"]
    rate = default_rate if is_auto(p["learning_rate"]) else _rate("learning_rate", p)
    decay = real("weight_decay", p["weight_decay"], 0, 1)
    if hasattr(instance("optimizer", value), "state_shapes"):
        optimizer: Optimizer = value
        given = {} if is_auto(p["learning_rate"]) else {"learning_rate": rate}
        _refuse_ignored(optimizer, "optimizer", given | ({"weight_decay": decay} if decay else {}))
        return optimizer
    match choice("optimizer", value, OPTIMIZERS, " or an Optimizer object"):
        case "adam":
            return Adam(rate=rate, decay=decay)
        case "adagrad":
            return Adagrad(rate=rate, decay=decay)
        case _:
            return SGD(rate=rate, decay=decay)
