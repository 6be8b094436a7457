"""What the parameters of an estimator mean: checked once, at `fit`, and resolved into the objects of the library."""

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
from sparsenet.engines.network.layers import ACTIVATIONS
from sparsenet.engines.network.losses import BinaryCrossEntropy, Loss, SampledSoftmax
from sparsenet.engines.network.optim import SGD, Adagrad, Adam, Optimizer, Schedule
from sparsenet.engines.network.samplers import AllSampler, FrequencySampler, LSHSampler, RandomSampler, Sampler
from sparsenet.engines.network.training import TrainingConfig, Trial, Validation
from sparsenet.features import scaling
from sparsenet.index.hashing import LSHConfig

SAMPLERS = ("random", "frequency", "lsh", "none")
LOSSES = ("bce", "softmax")
OPTIMIZERS = ("adam", "adagrad", "sgd")
PRECISIONS = ("auto", "float32", "bfloat16")
DECAYS = ("constant", "linear", "cosine")
#: ``epochs="auto"`` takes MOST_EPOCHS passes; on large data, which has had ENOUGH_STEPS before, fewer, down to
#: FEWEST_EPOCHS; on small data as many as give it LEAST_STEPS.
FEWEST_EPOCHS, MOST_EPOCHS = 5, 8
LEAST_STEPS, ENOUGH_STEPS = 400, 2500
#: ``n_negatives="auto"``: all labels, if they are so few, else NEGATIVES. The labels of the others in the batch are
#: negatives, too, and worth more: with 256 instead of 1,024 or 2,048 drawn at random P@1 changed by -0.4 to +0.4 points
#: on eight sets (2 to 186 thousand labels), P@5 by -0.1 to +0.2, and training took 0.5 to 0.86 of the time.
ALL_LABELS, NEGATIVES = 1024, 256
#: How fast biases move where ``wide_learning_rate="auto"`` leaves it to the data how the weights do.
WIDE_RATE = 0.6
#: ``batch_size="auto"`` is the largest of these of which a pass has STEPS_OF_A_PASS. Held out, with ``epochs="auto"``,
#: 256, 512 and 1,024 points had P@1 of 40.7, 41.5 and 41.9 on 457 thousand points of reddit-l, 24.3, 25.4 and 26.1 on
#: 189 thousand with one label each; 512 for 256 had +0.3 on 67 thousand of wordnet, -0.6 on 19 thousand of citeulike-t.
BATCHES, STEPS_OF_A_PASS = (256, 512, 1024), 128
#: ``learning_rate="auto"`` for the smallest of these; it grows with the root of the batch. Where points are dense it is
#: so many times as much: what a feature is to do is then the mean of what a whole batch asks for, and not what the few
#: points want that have it, so that steps of Adam are short (bench/notes/networks.md).
RATE, OF_DENSE = 4e-3, 3
#: Where hidden units learn by heart what the wide path tells better, that shows after this share of the passes.
TRIAL_AFTER = 3
#: The share of its rates at which what `fit` has trained is trained further. At all of them a pass over a tenth of the
#: points, new ones, changed P@1 by -2.7 (bibtex), -2 (delicious), -1.2 (wordnet) and 1.2 (citeulike-t), and at this
#: share by -0.4 to 0.4; over fiftieths and hundredths that cost up to 1.1, and so 0.3. New labels take more passes.
AFTER_FIT = 0.25
MAX_UNITS = 1 << 16
#: What ``hidden="auto"`` and ``wide_budget="auto"`` may be: the first, unless that needs too much memory or time.
WIDTHS, BUDGETS = (256, 128, 64), (1024, 512, 256, 128)


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
    """The parameters of `ExtremeClassifier`, checked; names given as text have become objects.

    `auto` names those that are left to the classifier; `hidden` and `wide_budget` are then what it tries first, and
    `short_of` says, by their names, what they became less for want of, and `because` what was measured that decides
    them. A `resumed` run has the size that it had.
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
    because: Mapping[str, str] = field(default_factory=dict)
    resumed: bool = False
    parameters: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, parameters: Mapping[str, Any], *, most: int = BUDGETS[0]) -> NetworkOptions:
        """Check the parameters of an estimator, as `get_params` returns them; an error names the first wrong one.

        ``wide_budget="auto"`` is so many at `most`.
        """
        if unknown := parameters.keys() - DEFAULTS.keys():
            raise TypeError(f"unknown parameters of a network: {', '.join(sorted(unknown))}")
        p = {**DEFAULTS, **parameters}
        wide_decay = real("wide_weight_decay", p["wide_weight_decay"], 0, 1)
        wide_rate = None if is_auto(p["wide_learning_rate"]) else _rate("wide_learning_rate", p)
        settings = cls(
            hidden=WIDTHS[:1] if is_auto(p["hidden"]) else _widths(p["hidden"]),
            wide=boolean("wide", p["wide"]),
            activation=choice("activation", p["activation"], ACTIVATIONS),
            dropout=real("dropout", p["dropout"], 0, 1, open_high=True),
            loss=_loss(p["loss"], real("label_smoothing", p["label_smoothing"], 0, 0.5, open_high=True)),
            sampler=_sampler(p["sampler"]),
            n_negatives=None if is_auto(p["n_negatives"]) else integer("n_negatives", p["n_negatives"], 1, MAX_WIDTH),
            bf16=_bf16(p["precision"]),
            per_sample=boolean("per_sample", p["per_sample"]),
            epochs=None if is_auto(p["epochs"]) else integer("epochs", p["epochs"], 1, MAX_WIDTH),
            batch_size=BATCHES[0] if is_auto(p["batch_size"]) else integer("batch_size", p["batch_size"], 1, 1 << 20),
            optimizer=_optimizer(p),
            wide_rate=wide_rate,
            wide_optimizer=Adagrad(rate=WIDE_RATE if wide_rate is None else wide_rate, decay=wide_decay),
            wide_budget=most if is_auto(p["wide_budget"]) else integer("wide_budget", p["wide_budget"], 1, MAX_WIDTH),
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
            auto=_left_to_us(p),
            parameters=p,
        )
        settings._check_together()
        return settings

    def _check_together(self) -> None:
        if not self.hidden and not self.wide:
            raise ValueError("hidden=0 leaves the wide path alone, and wide=False takes that away: set one of them")
        if self.per_sample and self.wide:
            raise ValueError("per_sample=True works on the deep path alone: set wide=False")
        if not self.hidden and self.hashes:
            raise ValueError("sampler='lsh' hashes hidden units, and hidden=0 has none: choose another sampler")

    @property
    def hashes(self) -> bool:
        """Whether hidden units are hashed to find negatives."""
        return self.sampler == "lsh" or isinstance(self.sampler, LSHConfig | LSHSampler)

    @property
    def may_be_wide_alone(self) -> bool:
        """Whether nothing asks for hidden units; a sampler of the user's might."""
        own = (RandomSampler, FrequencySampler, AllSampler)
        return self.wide and not self.hashes and isinstance(self.sampler, (str, *own))

    def may_lose_hidden(self, n_labels: int) -> bool:
        """Whether it may turn out while a network of so many labels is trained that it is to have no hidden units."""
        return "hidden" in self.auto and self.may_be_wide_alone and self.epochs != 1 and n_labels > ALL_LABELS

    def trial(self, n_points: int, kept: Validation, calibrates: bool) -> Trial:
        """Return when it is measured, on points kept, whether hidden units earn their keep, and further passes too."""
        epochs = -(-self.n_epochs(n_points) // TRIAL_AFTER)
        return Trial(epochs, kept, calibrates, may_end="epochs" in self.auto and epochs > 1)

    def for_points(self, n_points: int, *, dense: bool = False) -> NetworkOptions:
        """Return the settings with the batch, and the rate that goes with it, for so many points, where left to us."""
        settings = self
        if "batch_size" in self.auto:
            fitting = [size for size in BATCHES if n_points >= size * STEPS_OF_A_PASS]
            settings = replace(settings, batch_size=max(fitting, default=BATCHES[0]))
        if "learning_rate" in self.auto:
            faster = dense and isinstance(self.optimizer, Adam)
            rate = RATE * (OF_DENSE if faster else 1) * math.sqrt(max(settings.batch_size / BATCHES[0], 1.0))
            settings = replace(settings, optimizer=replace(self.optimizer, rate=rate))  # type: ignore[type-var]
            why = f"for batches of {settings.batch_size:,}{', of dense points' if faster else ''}"
            settings = replace(settings, because={**settings.because, "learning_rate": why})
        return settings

    def training(self, n_points: int, *, seed: int, threads: int) -> TrainingConfig:
        """Say how `fit` trains on `n_points`."""
        return TrainingConfig(
            epochs=self.n_epochs(n_points),
            batch_size=self.batch_size,
            seed=seed,
            threads=threads,
            schedule=self.schedule,
            patience=self.patience,
        )

    def time_left(self, spent: float) -> float | None:
        """Return the seconds that training may take when `spent` have gone; one step is taken in any case."""
        return None if self.time_budget is None else max(self.time_budget - spent, 0.0)

    def one_pass(self, schedule: Schedule, *, seed: int, threads: int) -> TrainingConfig:
        """Say how `partial_fit` trains."""
        return TrainingConfig(epochs=1, batch_size=self.batch_size, seed=seed, threads=threads, schedule=schedule)

    def negatives(self, n_labels: int) -> int:
        """Return how many negatives a step computes, of so many labels; as many as these: all."""
        if self.n_negatives is not None:
            return min(self.n_negatives, n_labels)
        return n_labels if n_labels <= ALL_LABELS else NEGATIVES

    def n_epochs(self, n_points: int) -> int:
        """Return the number of passes over `n_points`."""
        if self.epochs is not None:
            return self.epochs
        steps_a_pass = -(-n_points // self.batch_size)
        enough, least = -(-ENOUGH_STEPS // steps_a_pass), -(-LEAST_STEPS // steps_a_pass)
        return max(FEWEST_EPOCHS, min(MOST_EPOCHS, enough), least)


def is_auto(value: Any) -> bool:
    """Tell whether it is left to the classifier what a parameter is."""
    return isinstance(value, str) and value == "auto"


def _left_to_us(p: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of what is to be chosen; an optimizer that is an object has a rate of its own."""
    own = set() if isinstance(p["optimizer"], str) else {"learning_rate"}
    return frozenset(name for name, value in p.items() if is_auto(value)) - own


def _widths(value: Any) -> tuple[int, ...]:
    if isinstance(value, tuple | list):
        if not value:
            raise ValueError("hidden must be a number of units or a tuple of them, got an empty one: for none give 0")
        return tuple(integer("each of hidden", width, 1, MAX_UNITS) for width in value)
    width = integer("hidden", value, 0, MAX_UNITS)
    return (width,) if width else ()


def _loss(value: Any, smoothing: float) -> Loss:
    if hasattr(instance("loss", value), "gradient"):
        loss: Loss = value
        _leave_to(loss, "loss", {"label_smoothing": smoothing} if smoothing else {})
        return loss
    name = choice("loss", value, LOSSES, " or a Loss object")
    return BinaryCrossEntropy(smoothing=smoothing) if name == "bce" else SampledSoftmax(smoothing=smoothing)


def _leave_to(part: Any, name: str, given: Mapping[str, float]) -> None:
    """Refuse what a part that is an object says itself, rather than go without it."""
    if given:
        what = " and ".join(f"{parameter}={value:g}" for parameter, value in given.items())
        raise ValueError(f"{what} would do nothing beside {name}={part!r}, which has its own: set it there")


def _sampler(value: Any) -> str | LSHConfig | Sampler:
    value = instance("sampler", value)
    if isinstance(value, LSHConfig):
        return value
    if hasattr(value, "sample") and hasattr(value, "expected"):
        lacking = [name for name in vars(Sampler) if name[0] != "_" and not hasattr(value, name)]
        if lacking:
            raise ValueError(f"sampler={value!r} has no {lacking[0]}: let it inherit from sparsenet.samplers.Sampler")
        sampler: Sampler = value
        return sampler
    return choice("sampler", value, SAMPLERS, ", an LSHConfig or a Sampler object")


def _bf16(value: Any) -> bool:
    name = choice("precision", value, PRECISIONS)
    return kernels.has_bf16() if name == "auto" else name == "bfloat16"


def _rate(name: str, p: Mapping[str, Any]) -> float:
    return real(name, p[name], 0, 1e3, open_low=True)


def seconds(name: str, value: Any) -> float:
    """Return a time that something may take."""
    return real(name, value, 0, 1e9, open_low=True)


def _optimizer(p: Mapping[str, Any]) -> Optimizer:
    value = p["optimizer"]
    rate = RATE if is_auto(p["learning_rate"]) else _rate("learning_rate", p)
    decay = real("weight_decay", p["weight_decay"], 0, 1)
    if hasattr(instance("optimizer", value), "state_shapes"):
        optimizer: Optimizer = value
        given = {} if is_auto(p["learning_rate"]) else {"learning_rate": rate}
        _leave_to(optimizer, "optimizer", given | ({"weight_decay": decay} if decay else {}))
        return optimizer
    match choice("optimizer", value, OPTIMIZERS, " or an Optimizer object"):
        case "adam":
            return Adam(rate=rate, decay=decay)
        case "adagrad":
            return Adagrad(rate=rate, decay=decay)
        case _:
            return SGD(rate=rate, decay=decay)
