"""From settings and data to a network: its layers, the memory that will take, and its start."""

from __future__ import annotations

import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

import numpy as np

from sparsenet.core.centroids import SUM_BYTES, support_bound
from sparsenet.core.machine import available_memory
from sparsenet.core.memory import check_width, in_words
from sparsenet.core.progress import is_wanted
from sparsenet.core.rows import Rows, transpose
from sparsenet.engines.network import sizing
from sparsenet.engines.network.layers import Dense, SparseInput
from sparsenet.engines.network.losses import gives_log_odds
from sparsenet.engines.network.model import Network
from sparsenet.engines.network.optim import Adagrad, Adam, Parameter
from sparsenet.engines.network.options import NetworkOptions
from sparsenet.engines.network.output import SampledOutput
from sparsenet.engines.network.samplers import AllSampler, FrequencySampler, LSHSampler, RandomSampler, Sampler
from sparsenet.engines.network.wide import WideConfig, WidePath
from sparsenet.engines.network.wide_init import fitted_path
from sparsenet.index.hashing import LSHConfig

#: With many labels nearly every answer is no, and a neuron starts from there; more would only delay it.
LOWEST_BIAS = -6.0
#: Bytes that `are_dense` takes for each feature, to count the points that have it.
BYTES_TO_COUNT = 18.125
#: What to do about parameters that are no longer those of the network that there is.
AS_IT_WAS = "set it back to what it was, or fit the classifier anew"


def build(
    settings: NetworkOptions,
    features: Rows,
    labels: Rows,
    *,
    held: int = 0,
    seed: int,
    threads: int,
    scored: bool = False,
    keep_best: bool = False,
    time_left: Callable[[], float | None] = lambda: None,
) -> tuple[Network, NetworkOptions]:
    """Make a network that is ready to be trained, and return the settings that it has.

    It is no larger than memory, of which the points hold `held` bytes, and the seconds left to train it, allow, if its
    size is left to the classifier; where it would not fit into memory at all, words say so.
    """
    label_points = transpose(labels)
    path: WidePath | None = None

    def make(settings: NetworkOptions) -> Network:
        network = outline(settings, features.width, np.diff(label_points.indptr), len(features), seed, threads)
        network.output.wide = path or network.output.wide
        return network

    needed: dict[str, int] = {}
    limit = memory_limit(settings, held)
    for candidate in sizing.narrower(settings):
        settings = candidate
        bound = int(support_bound(features, label_points, settings.wide_budget).sum()) if settings.wide else 0
        needed = memory_needed(settings, make(settings), features, labels, bound, scored, keep_best, threads)
        needed |= {"points": held} if held else {}
        if sum(needed.values()) <= limit:
            break
    check_memory(needed, settings, limit)
    if settings.wide:
        path = fitted_path(
            *(features, labels, label_points, wide_config(settings)),
            own_rate=settings.wide_rate is None,
            batch_size=min(settings.batch_size, len(features)),
            seed=seed,
            threads=threads,
        )

    def ready(settings: NetworkOptions) -> Network:
        network = make(settings)
        network.initialise(seed)
        return network

    if time_left() is not None:
        left = cast(Callable[[], float], time_left)
        settings = sizing.in_time(settings, (features, labels), ready, left, seed=seed, threads=threads)
    return ready(settings), settings


def outline(settings: NetworkOptions, n_features: int, counts: Any, n_points: int, seed: int, threads: int) -> Network:
    """Lay out the layers and allocate nothing: the weights are to come by `initialise` or `set_weights`.

    `counts` (n_labels,) says how many points each label has.
    """
    hidden, n_labels = settings.hidden, len(counts)
    common: dict[str, Any] = {
        "activation": settings.activation,
        "dropout": settings.dropout,
        "optimizer": settings.optimizer,
    }
    output = SampledOutput(
        hidden[-1] if hidden else 0,
        n_labels,
        sampler=_sampler(settings, n_labels, seed, threads),
        loss=settings.loss,
        n_negatives=settings.negatives(n_labels),
        wide=_no_support(settings, n_features, n_labels) if settings.wide else None,
        initial_bias=_initial_bias(settings, float(counts.sum()), n_points * n_labels),
        bf16=settings.bf16,
        per_sample=settings.per_sample,
        optimizer=settings.optimizer,
        # A bias is a weight of a feature that every point has, and learns as the wide weights do; at a rate of its own
        # where theirs is fitted to the size of their start, of which it has none.
        bias_optimizer=settings.wide_optimizer if settings.wide else None,
    )
    return Network(
        output=output,
        input=SparseInput(n_features, hidden[0], **common) if hidden else None,
        hidden=[
            Dense(below, width, name=f"dense{number}", **common)
            for number, (below, width) in enumerate(pairwise(hidden), 1)
        ],
    )


def reconfigure(network: Network, made: Network, settings: NetworkOptions) -> None:
    """Have a trained network go on as `made`, laid out by settings that may have changed since, would.

    An optimizer of another kind begins without a state. The wide path keeps the rate that was fitted to its start,
    unless one is given.
    """
    check_layout(made, network)
    for layer, like in zip(network.below(), made.below(), strict=True):
        layer.activation = like.activation
    output, new = network.output, made.output
    output.sampler, output.loss, output.n_negatives = new.sampler, new.loss, new.n_negatives
    output.bf16, output.per_sample = new.bf16, new.per_sample
    optimizers = {parameter.name: parameter.optimizer for parameter in made.parameters()}
    if output.wide:
        own, given = cast(Adagrad, output.wide.config.optimizer), settings.wide_optimizer
        optimizer = given if settings.wide_rate is not None else replace(own, decay=given.decay)
        output.wide.configure(replace(output.wide.config, optimizer=optimizer))
        optimizers[output.wide.weight.name] = optimizer
    for parameter in network.parameters():
        parameter.go_on_by(optimizers[parameter.name])


def check_layout(made: Network, network: Network) -> None:
    """Refuse another network than one of the same layers, however many weights the wide path holds."""
    if _layout(made) != _layout(network):
        raise ValueError(f"hidden, wide or activation was changed since the classifier was fitted: {AS_IT_WAS}")


def _layout(network: Network) -> list[tuple[Any, ...]]:
    shapes = [(p.name, p.shape if p.name != "wide.weight" else None) for p in network.parameters()]
    return [*shapes, *((layer.activation.name,) for layer in network.below())]


def wide_config(settings: NetworkOptions) -> WideConfig:
    """Say how the wide path starts and learns."""
    return WideConfig(budget=settings.wide_budget, optimizer=settings.wide_optimizer)


def _no_support(settings: NetworkOptions, n_features: int, n_labels: int) -> WidePath:
    empty = np.zeros(n_labels + 1, np.int64)
    return WidePath(n_features, empty, np.empty(0, np.int32), wide_config(settings))


def _sampler(settings: NetworkOptions, n_labels: int, seed: int, threads: int) -> Sampler:
    choice = settings.sampler
    if not isinstance(choice, str | LSHConfig):
        return deepcopy(choice)  # training changes it, and a parameter is the caller's
    if choice == "none" or settings.negatives(n_labels) == n_labels:
        return AllSampler()
    if isinstance(choice, LSHConfig):
        return LSHSampler(choice, threads=threads)
    if choice == "lsh":
        return LSHSampler(threads=threads, seed=seed)
    return FrequencySampler() if choice == "frequency" else RandomSampler()


def _initial_bias(settings: NetworkOptions, n_entries: float, n_cells: int) -> float:
    """Start a yes-or-no neuron from the odds of a yes, which with few labels are not small."""
    if not gives_log_odds(settings.loss):
        return 0.0
    share = min(max(n_entries / n_cells, 1e-9), 1 - 1e-9)
    return float(np.clip(np.log(share / (1 - share)), LOWEST_BIAS, -LOWEST_BIAS))


# --- memory --------------------------------------------------------------------------------------------------------


def memory_needed(
    settings: NetworkOptions,
    network: Network,
    features: Rows,
    labels: Rows,
    support: int,
    scored: bool,
    keep_best: bool,
    threads: int = 1,
) -> dict[str, int]:
    """Return the bytes that building, training and then predicting will take at most, by purpose.

    `support` bounds the number of wide weights. With `scored`, labels are scored while the network is trained, and with
    `keep_best` also, since the weights of the best epoch are kept.
    """
    batch = min(settings.batch_size, len(features))
    per_point = labels.indptr[-1] / max(len(labels), 1)
    every = isinstance(network.output.sampler, AllSampler)
    negatives = network.output.n_labels if every else network.output.n_negatives
    active = min(network.output.n_labels, negatives + int(batch * per_point))
    needed = network.memory(batch_size=batch, n_active=active)
    if settings.per_sample:
        needed["batch"] = int(batch * (negatives + per_point)) * 40  # a pair in its several lists
    wide = Parameter("wide.weight", (support, 1), settings.wide_optimizer)
    needed["weights"] += wide.nbytes(training=False)
    if settings.wide:  # which features they belong to
        needed["weights"] += 4 * support + 8 * (network.output.n_labels + 1)
    needed["optimizer"] += wide.nbytes(training=True) - wide.nbytes(training=False)
    needed["batch"] += 4 * (features.width + network.output.n_labels)
    # A batch touches up to half of its labels' wide weights: place, slot and gradient of each, and the first two once
    # more until all are counted.
    needed["batch"] += int(0.5 * 28 * support * active / network.output.n_labels)
    # The wide path once more by feature, to score every label. Making that takes 12 bytes a weight for a moment, in
    # which the best epoch is not yet copied.
    index = 8 * (support + features.width) if settings.wide else 0
    # The gradient of the first layer and that index are never there at once: the larger of them counts.
    needed["batch"] += max(0, _input_gradient(settings, features, batch) - (index if keep_best or scored else 0))
    if keep_best:
        needed |= {"wide index": index, "best epoch": max(needed["weights"], 12 * support)}
    elif scored:
        needed["wide index"] = index + 12 * support if settings.wide else 0
    else:  # labels are scored after training, when all but the weights is gone
        needed["wide index"] = max(0, needed["weights"] + index + 12 * support - sum(needed.values()))
    # Before there is anything but weights each thread adds up centroids.
    start = int(SUM_BYTES * features.width) * min(threads, labels.width) if settings.wide else 0
    needed["start"] = max(0, start + needed["weights"] - sum(needed.values()))
    return {purpose: size for purpose, size in needed.items() if size}


def _input_gradient(settings: NetworkOptions, features: Rows, batch: int) -> int:
    """Return the bytes of the first layer's gradient: a row for each feature present, which Adam makes as it goes."""
    if not settings.hidden or type(settings.optimizer) is Adam:
        return 0
    present = min(int(batch * features.indptr[-1] / max(len(features), 1)), features.width)
    return 4 * present * settings.hidden[0]


def check_n_features(options: NetworkOptions, n_features: int, n_labels: int, threads: int) -> None:
    """Raise MemoryError, before anything of that width is allocated, if the features alone do not fit."""
    start = SUM_BYTES * min(threads, n_labels) if options.wide else 0.0
    by_thread = start > 2 * BYTES_TO_COUNT
    check_width(n_features, max(BYTES_TO_COUNT, start), limit=options.memory_limit, of_threads=by_thread)


class TooLargeError(MemoryError):
    """Training does not fit into memory; `needs` says what it needs, without the advice."""

    def __init__(self, needs: str, advice: str) -> None:
        super().__init__(f"{needs}: {advice}")
        self.needs = needs


def memory_limit(settings: NetworkOptions, held: int = 0) -> int:
    """Return the bytes that training may take, with those that it holds already."""
    return available_memory() + held if settings.memory_limit is None else settings.memory_limit


def check_memory(needed: dict[str, int], settings: NetworkOptions, limit: int) -> None:
    """Say what is needed, and raise MemoryError where there is less."""
    total = sum(needed.values())
    parts = ", ".join(f"{purpose} {in_words(size)}" for purpose, size in needed.items())
    if is_wanted(settings.verbose):
        print(f"sparsenet: {in_words(total)} needed ({parts}), {in_words(limit)} available", file=sys.stderr)
    if total > limit:
        what = "the limit is" if settings.memory_limit is not None else "there are"
        least = {"hidden": sum(settings.hidden), "wide_budget": settings.wide_budget}
        even = " and ".join(f"{name}={least[name]}" for name in settings.short_of)
        ways = {"hidden": "hidden (the deep weights), ", "wide_budget": "wide_budget (the wide weights), "}
        further = "".join(way for name, way in ways.items() if name not in settings.short_of)
        raise TooLargeError(
            f"training needs {in_words(total)} ({parts}){even and f' even with {even}'}, {what} {in_words(limit)}",
            f"lower {further}n_negatives or batch_size (the batch), or use optimizer='sgd', which keeps no state",
        )
