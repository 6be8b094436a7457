"""Build a network from options and data: estimate its memory, lay out its layers, initialise its weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

import numpy as np

from sparsenet.core.centroids import SUM_BYTES, support_bound
from sparsenet.core.machine import available_memory
from sparsenet.core.memory import announce, check_width
from sparsenet.core.progress import is_wanted
from sparsenet.core.rows import Rows, RowSource, transpose
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

#: Bytes for each weight of a wide path that grows: keys, their order and owners, and both generations of indices,
#: weights and state.
GROWING_BYTES = 56
#: Advice if parameters no longer match the network.
SET_IT_BACK = "set it back to what it was, or fit the classifier again"


def build(
    options: NetworkOptions,
    features: RowSource,
    labels: Rows,
    *,
    held: Mapping[str, int] | None = None,
    seed: int,
    threads: int,
    scored: bool = False,
    keep_best: bool = False,
    sharded: bool = False,
    time_left: Callable[[], float | None] = lambda: None,
) -> tuple[Network, NetworkOptions]:
    """Build a network with initial weights, and return it with its options.

    A size that is "auto" shrinks until training fits into memory and into the seconds left. `held` are bytes in
    use already, by purpose. `sharded` if the optimizers' state of the output layer will be elsewhere. Raises
    TooLargeError if even the smallest size does not fit into memory.
    """
    label_points = transpose(labels)
    path: WidePath | None = None

    def make(options: NetworkOptions) -> Network:
        network = outline(options, features.width, np.diff(label_points.indptr), len(features), seed, threads)
        network.output.wide = path or network.output.wide
        return network

    needed: dict[str, int] = {}
    held = {} if held is None else {purpose: size for purpose, size in held.items() if size}
    limit = memory_limit(options, sum(held.values()))
    for candidate in sizing.smaller_options(options):
        options = candidate
        support = largest_support(options, features, label_points)
        needed = memory_needed(options, make(options), features, labels, support, scored, keep_best, threads)
        if sharded:
            needed["optimizer"] = sum(
                parameter.nbytes(training=True) - parameter.nbytes(training=False)
                for layer in make(options).below()
                for parameter in layer.parameters()
            )
        needed |= held
        if sum(needed.values()) <= limit:
            break
    check_memory(needed, options, limit)
    if options.wide:
        path = fitted_path(
            *(features, labels, label_points, wide_config(options)),
            own_rate=options.wide_rate is None,
            batch_size=min(options.batch_size, len(features)),
            seed=seed,
            threads=threads,
        )

    def initialised(options: NetworkOptions) -> Network:
        network = make(options)
        network.initialise(seed)
        return network

    if time_left() is not None:
        left = cast(Callable[[], float], time_left)
        options = sizing.fit_into_time(options, (features, labels), initialised, left, seed=seed, threads=threads)
    return initialised(options), options


def fits_further(
    network: Network,
    options: NetworkOptions,
    features: RowSource,
    labels: Rows,
    *,
    held: Mapping[str, int],
    scored: bool,
    threads: int,
    copied: int = 0,
    must_fit: bool = False,
) -> bool:
    """Return whether a network that was trained on some of the points fits into memory with all, and announce that.

    `copied` are the bytes of a copy of it that is still to be made. With `must_fit`, raises TooLargeError if it does
    not fit. The other arguments are as for `build`.
    """
    support, wide = largest_support(options, features, transpose(labels)), network.output.wide
    needed = memory_needed(options, network, features, labels, support, scored, False, threads)
    if wide:
        needed["new features of labels"] = GROWING_BYTES * (len(wide.indices) + support)
    needed |= {purpose: size for purpose, size in {**held, "pilot network": copied}.items() if size}
    limit = memory_limit(options, sum(held.values()) + network.nbytes)
    if sum(needed.values()) > limit and not must_fit:
        return False
    check_memory(needed, options, limit)
    return True


def outline(options: NetworkOptions, n_features: int, counts: Any, n_points: int, seed: int, threads: int) -> Network:
    """Lay out the layers without allocating weights; `initialise` or `set_weights` does that.

    `counts` is the number of points of each label, (n_labels,).
    """
    hidden = options.hidden
    common: dict[str, Any] = {
        "activation": options.activation,
        "dropout": options.dropout,
        "optimizer": options.optimizer,
    }
    wide = _no_support(options, n_features, len(counts)) if options.wide else None
    output = output_layer(options, counts, n_points, wide=wide, seed=seed, threads=threads)
    return Network(
        output=output,
        input=SparseInput(n_features, hidden[0], **common) if hidden else None,
        hidden=[
            Dense(below, width, name=f"dense{number}", **common)
            for number, (below, width) in enumerate(pairwise(hidden), 1)
        ],
    )


def output_layer(
    options: NetworkOptions, counts: Any, n_points: int, *, wide: WidePath | None, seed: int, threads: int
) -> SampledOutput:
    """Lay out the output layer without allocating weights; see `outline`."""
    n_labels = len(counts)
    return SampledOutput(
        options.hidden[-1] if options.hidden else 0,
        n_labels,
        sampler=_sampler(options, n_labels, seed, threads),
        loss=options.loss,
        n_negatives=options.negatives(n_labels),
        wide=wide,
        initial_bias=initial_bias(options, float(counts.sum()), n_points * n_labels),
        bf16=options.bf16,
        per_sample=options.per_sample,
        optimizer=options.optimizer,
        # A bias is the wide weight of a feature that every point has, but its initial value is not fitted. So biases
        # use the optimizer of the wide path before its rate is fitted.
        bias_optimizer=options.wide_optimizer if options.wide else None,
    )


def reconfigure(network: Network, template: Network, options: NetworkOptions) -> None:
    """Apply the activations, loss, sampler and optimizers of `template`, the outline of new options.

    An optimizer of another kind starts without state. The wide path keeps its fitted rate, unless a rate is given.
    """
    check_layout(template, network)
    for layer, new_layer in zip(network.below(), template.below(), strict=True):
        layer.activation = new_layer.activation
    output, new = network.output, template.output
    output.sampler, output.loss, output.n_negatives = new.sampler, new.loss, new.n_negatives
    output.bf16, output.per_sample = new.bf16, new.per_sample
    optimizers = {parameter.name: parameter.optimizer for parameter in template.parameters()}
    if output.wide:
        fitted, given = cast(Adagrad, output.wide.config.optimizer), options.wide_optimizer
        optimizer = given if options.wide_rate is not None else replace(fitted, decay=given.decay)
        output.wide.configure(replace(output.wide.config, optimizer=optimizer))
        optimizers[output.wide.weight.name] = optimizer
    for parameter in network.parameters():
        parameter.set_optimizer(optimizers[parameter.name])


def check_layout(template: Network, network: Network) -> None:
    """Refuse a network with other layers; the number of weights of the wide path may differ."""
    if _layout(template) != _layout(network):
        raise ValueError(f"hidden, wide or activation was changed since the classifier was fitted: {SET_IT_BACK}")


def _layout(network: Network) -> list[tuple[Any, ...]]:
    shapes = [(p.name, p.shape if p.name != "wide.weight" else None) for p in network.parameters()]
    return [*shapes, *((layer.activation.name,) for layer in network.below())]


def wide_config(options: NetworkOptions) -> WideConfig:
    """Return the configuration of the wide path."""
    return WideConfig(budget=options.wide_budget, optimizer=options.wide_optimizer)


def _no_support(options: NetworkOptions, n_features: int, n_labels: int) -> WidePath:
    empty = np.zeros(n_labels + 1, np.int64)
    return WidePath(n_features, empty, np.empty(0, np.int32), wide_config(options))


def _sampler(options: NetworkOptions, n_labels: int, seed: int, threads: int) -> Sampler:
    choice = options.sampler
    if not isinstance(choice, str | LSHConfig):
        return deepcopy(choice)  # training changes it, and the object belongs to the caller
    if choice == "none" or options.negatives(n_labels) == n_labels:
        return AllSampler()
    if isinstance(choice, LSHConfig):
        return LSHSampler(choice, threads=threads)
    if choice == "lsh":
        return LSHSampler(threads=threads, seed=seed)
    return FrequencySampler() if choice == "frequency" else RandomSampler()


def initial_bias(options: NetworkOptions, n_entries: float, n_cells: int, limit: float = 6.0) -> float:
    """Return the initial bias: the mean log-odds of a label within `limit`, or 0 if scores are not log-odds."""
    if not gives_log_odds(options.loss):
        return 0.0
    frequency = min(max(n_entries / n_cells, 1e-9), 1 - 1e-9)
    return float(np.clip(np.log(frequency / (1 - frequency)), -limit, limit))


# --- memory --------------------------------------------------------------------------------------------------------


def largest_support(options: NetworkOptions, features: RowSource, label_points: Rows) -> int:
    """Return an upper bound of the number of wide weights that some points need."""
    return int(support_bound(features, label_points, options.wide_budget).sum()) if options.wide else 0


def memory_needed(
    options: NetworkOptions,
    network: Network,
    features: RowSource,
    labels: Rows,
    support: int,
    scored: bool,
    keep_best: bool,
    threads: int = 1,
) -> dict[str, int]:
    """Return upper bounds of the bytes for building, training and predicting, by purpose.

    Parameters
    ----------
    support : int
        Bound of the number of wide weights.
    scored, keep_best : bool
        Whether labels are scored during training, and whether the weights of the best epoch are copied.
    """
    batch = min(options.batch_size, len(features))
    per_point = labels.indptr[-1] / max(len(labels), 1)
    all_labels = isinstance(network.output.sampler, AllSampler)
    negatives = network.output.n_labels if all_labels else network.output.n_negatives
    active = min(network.output.n_labels, negatives + int(batch * per_point))
    needed = network.memory(batch_size=batch, n_active=active)
    if options.per_sample:
        needed["batch"] = int(batch * (negatives + per_point)) * 40  # bytes per pair in all lists
    wide = Parameter("wide.weight", (support, 1), options.wide_optimizer)
    needed["weights"] += wide.nbytes(training=False)
    if options.wide:  # feature ids
        needed["weights"] += 4 * support + 8 * (network.output.n_labels + 1)
    needed["optimizer"] += wide.nbytes(training=True) - wide.nbytes(training=False)
    needed["batch"] += 4 * (features.width + network.output.n_labels)
    # A batch touches up to half of its labels' wide weights: position, slot and gradient, and the first two twice.
    needed["batch"] += int(0.5 * 28 * support * active / network.output.n_labels)
    # A copy of the wide path by feature, to score every label.
    index = 8 * (support + features.width) if options.wide else 0
    # The gradient of the first layer and that index never coexist: count the larger one.
    needed["batch"] += max(0, _input_gradient(options, features, batch) - (index if keep_best or scored else 0))
    if keep_best:
        needed |= {"wide index": index, "best epoch": needed["weights"]}
    elif scored:
        needed["wide index"] = index
    else:  # labels are scored after training, when only the weights are left
        needed["wide index"] = max(0, needed["weights"] + index - sum(needed.values()))
    # Each thread sums centroids of the points by label while only the weights exist.
    start = int(SUM_BYTES * features.width) * min(threads, labels.width) if options.wide else 0
    start += 8 * (labels.n_entries + labels.width)
    needed["start"] = max(0, start + needed["weights"] - sum(needed.values()))
    return {purpose: size for purpose, size in needed.items() if size}


def _input_gradient(options: NetworkOptions, features: RowSource, batch: int) -> int:
    """Return the bytes of the first layer's gradient, a row per feature present; Adam needs none."""
    if not options.hidden or type(options.optimizer) is Adam:
        return 0
    present = min(int(batch * features.n_entries / max(len(features), 1)), features.width)
    return 4 * present * options.hidden[0]


def check_n_features(options: NetworkOptions, n_features: int, n_labels: int, threads: int) -> None:
    """Raise MemoryError if arrays of `n_features` alone exceed memory, before any is allocated."""
    counting = 18.125  # bytes per feature in `are_dense`
    start = SUM_BYTES * min(threads, n_labels) if options.wide else 0.0
    by_thread = start > 2 * counting
    check_width(n_features, max(counting, start), limit=options.memory_limit, of_threads=by_thread)


class TooLargeError(MemoryError):
    """Raised if training does not fit into memory; `needs` is the message without the advice."""

    def __init__(self, needs: str, advice: str) -> None:
        super().__init__(f"{needs}: {advice}")
        self.needs = needs


def memory_limit(options: NetworkOptions, held: int = 0) -> int:
    """Return the bytes available to training, including the `held` bytes already in use."""
    return available_memory() + held if options.memory_limit is None else options.memory_limit


def check_memory(needed: dict[str, int], options: NetworkOptions, limit: int) -> None:
    """Print the bytes needed if progress is wanted, and raise TooLargeError beyond the limit."""
    smallest = {"hidden": sum(options.hidden), "wide_budget": options.wide_budget}
    even = " and ".join(f"{name}={smallest[name]}" for name in options.short_of)
    given, shown = options.memory_limit is not None, is_wanted(options.verbose)
    problem = announce(needed, limit, is_given=given, shown=shown, even=even and f" even with {even}")
    if problem is not None:
        ways = {"hidden": "hidden (the deep weights), ", "wide_budget": "wide_budget (the wide weights), "}
        further = "".join(way for name, way in ways.items() if name not in options.short_of)
        raise TooLargeError(
            problem,
            f"lower {further}n_negatives or batch_size (the batch), or use optimizer='sgd', which keeps no state",
        )
