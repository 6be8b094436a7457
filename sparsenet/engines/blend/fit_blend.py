"""Train a blend: its parts, then the weights and probabilities of their combination on one hold-out."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.memory import bytes_in_memory, held_arrays, own_bytes
from sparsenet.core.progress import is_wanted
from sparsenet.core.ranked import is_hit
from sparsenet.core.rows import Rows
from sparsenet.core.seeds import run_seed
from sparsenet.core.spilling import Spill
from sparsenet.core.tasks import HERE, TaskRunner
from sparsenet.engines.blend import network_part
from sparsenet.engines.blend.blend_holdout import BlendHoldout, HoldoutAnswers, HoldoutSize
from sparsenet.engines.blend.blend_memory import bytes_of_parts, check_parts_fit
from sparsenet.engines.blend.candidates import Candidates, propose, search_beam
from sparsenet.engines.blend.combination import (
    LOWEST,
    WITHOUT_NETWORK,
    Combination,
    cross_fitted,
    fit_weights,
    precision_of,
)
from sparsenet.engines.blend.fitted_blend import FEW, FittedBlend
from sparsenet.engines.blend.holdout_search import HoldoutSearch
from sparsenet.engines.blend.rounding import round_network, rounded_neighbors
from sparsenet.engines.neighbors import fit_neighbors
from sparsenet.engines.network import fit_network, sizing
from sparsenet.engines.network.fit_network import FittedNetwork, InterruptedFit
from sparsenet.engines.network.model import Network
from sparsenet.engines.network.network_holdout import rows_of, selected
from sparsenet.engines.network.options import NetworkOptions
from sparsenet.engines.network.training.reports import Callback
from sparsenet.engines.network.training.trainer import DivergenceError
from sparsenet.engines.tree import fit_tree
from sparsenet.engines.tree.machines import Rules
from sparsenet.features.label_stats import LabelStats
from sparsenet.features.scaling import Scaling
from sparsenet.features.targets import Points, Target
from sparsenet.kernels.types import F32, F64, I32
from sparsenet.selection.choose import Decision, Option, Rule, choose, climb
from sparsenet.selection.holdout import Holdout
from sparsenet.storage.checkpoint_place import beside

#: The number of candidate labels by the tree that is compared with `FEW`.
MANY = 128
#: Maximum features per label in the wide path by default. With a tree, more features gain nothing
#: (bench/notes/networks.md).
WIDE_BUDGET = 256
#: Names of the checkpoints of the final tree, and of a tree that is trained without the hold-out.
TREES = ("tree", "second-tree")


@dataclass(frozen=True)
class BlendOptions:
    """How a blend is trained; `network` is None for a blend without one, `candidates` if they are to be chosen.

    `n_neighbors` training points vote. `memory_limit` is the lower limit of the blend and its tree; see `limit`.
    """

    rules: Rules
    network: NetworkOptions | None
    candidates: int | None
    time_budget: float | None
    verbose: bool | None
    memory_limit: int | None = None
    n_neighbors: int = 50
    holdout: HoldoutSize = field(default_factory=HoldoutSize)
    better: Rule = field(default_factory=lambda: Rule("mean of P@1, P@3 and P@5", standard_errors=2.0, min_gain=0.001))
    comparisons: tuple[int, ...] = (1 << 14, 1 << 16)
    not_worse: Rule = field(default_factory=lambda: Rule("mean of P@1, P@3 and P@5", standard_errors=1.0))

    @property
    def limit(self) -> int | None:
        """The bytes that training may take: the lower limit of tree and network; None without one."""
        limits = self.memory_limit, None if self.network is None else self.network.memory_limit
        return min((limit for limit in limits if limit is not None), default=None)


def fit(points: Points, options: BlendOptions, **how: Any) -> FittedBlend:
    """Train tree, neighbors and network, and combine them; `how` are the arguments of `fit_and_measure`."""
    return fit_and_measure(points, options, **how)[0]


def fit_and_measure(
    points: Points,
    options: BlendOptions,
    *,
    seed: int,
    threads: int,
    target: Target,
    scaling: Scaling,
    seen: LabelStats,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    resumes: bool = False,
    started: float | None = None,
    held_out: BlendHoldout | None = None,
    callbacks: Sequence[Callback] = (),
    shared: Sequence[NDArray[Any]] = (),
    held: Mapping[str, int] | None = None,
    runner: TaskRunner = HERE,
    spill: Spill | None = None,
) -> tuple[FittedBlend, HoldoutAnswers | None]:
    """Train tree, neighbors and network, and combine them; also return the answers on a hold-out.

    Ctrl-C raises `InterruptedBlend` once a usable blend exists.

    Parameters
    ----------
    seed : int
        Seed of the neighbors; tree, network and hold-out use `run_seed` of it.
    held_out : BlendHoldout, optional
        The hold-out; drawn by default.
    callbacks : sequence of Callback
        For the training of the final network.
    shared, held :
        Memory of the caller: arrays that are not counted, and bytes that are, as for `fit_network.fit`.
    resumes : bool
        Whether `checkpoint` holds a run to continue.
    runner : TaskRunner
        Where the tasks of trees and neighbors run; the network is trained in this process.
    spill : Spill, optional
        Allocates posting lists, by default `fit_neighbors.spill_of` the points.
    """
    started = time.perf_counter() if started is None else started
    k = min(options.n_neighbors, len(points[0]))
    part_seed = run_seed(seed)
    n_points, limited = len(points[0]), options.time_budget is not None
    network_options = options.network and replace(options.network, memory_limit=options.limit)
    # A time budget leaves no time for parts that only answer the hold-out.
    combines = k > 0 and (n_points >= options.holdout.enough or not limited)
    if not combines:
        held_out = BlendHoldout()
    elif held_out is None:
        held_out = options.holdout.draw(points[1], part_seed)
    if network_options is not None and resume and checkpoint is not None:
        known = network_part.check_resumed(network_options, points, held_out.without, checkpoint, part_seed)
        held_out = held_out if known is held_out.without else BlendHoldout()
    held = {**(held or {}), "points": own_bytes(points, shared)}
    limit = options.limit
    alone = network_options is None and is_wanted(options.verbose)  # a network announces all parts
    beam = options.rules.wrong_ways if runner.hosts() is None else 0  # else arrivals are files
    how_checked: dict[str, Any] = {"k": k, "memory_limit": limit, "shown": alone, "runner": runner}
    check_parts_fit(points, held=held, beam=beam, spill=spill, **how_checked)
    how: dict[str, Any] = {"seed": part_seed, "threads": threads}
    own_points, verbose = _without(held_out.without, points), options.verbose
    counted = [*held_arrays(points), *shared]
    how_trees: dict[str, Any] = {**how, "runner": runner, "shared": counted, "memory_limit": limit, "resume": resume}
    places = [None if checkpoint is None else beside(checkpoint, name) for name in TREES]
    of_trees = [{**how_trees, "checkpoint": place} for place in places]
    tree = fit_tree.fit(own_points, options.rules, verbose=verbose, held=held, **of_trees[0])
    neighbors, choices = None, dict[str, Decision]()
    if k > 0:
        spill = fit_neighbors.spill_of(points[0], spill)
        next_to_tree = held | bytes_of_parts(tree, None, points)
        check_parts_fit(points, held=next_to_tree, beam=0, spill=spill, **how_checked)
        how_neighbors: dict[str, Any] = {"seed": seed, "threads": threads, "runner": runner, "spill": spill}
        learnt, choices = fit_neighbors.fit(*points, k, verbose=verbose, **how_neighbors)
        neighbors = rounded_neighbors(learnt, spill)
        del learnt
    pass_seconds = time.perf_counter() - started
    enough = 0.0 if network_options is None or k == 0 else network_part.enough_epochs(network_options, n_points)
    if network_options is not None and options.time_budget is not None:
        left = options.time_budget - pass_seconds
        network_options = network_part.within(network_options, left, pass_seconds, 0.0 if resumes else enough)
    about = target, scaling, seen.with_points(*points), options.candidates or FEW
    fitted = FittedBlend(None, tree, neighbors, *about, Combination(WITHOUT_NETWORK), choices)
    held |= bytes_of_parts(tree, neighbors, points)
    pilots: list[Network] = []
    try:
        if network_options is not None:
            network = fit_network.fit(
                points,
                network_options,
                holdout=held_out.without,
                checkpoint=checkpoint,
                resume=resume,
                trained_for=network_part.TRAINED_FOR,
                calibrates=False,
                shared=counted,
                held=held,
                callbacks=callbacks,
                scouting_holdout=held_out.points,
                on_pilot=None if held_out.for_good else pilots.append,
                **how,
            )
            if not limited or resumes or network_part.is_kept(network, enough):
                fitted = fitted.with_network(round_network(network))
    except InterruptedFit as interrupt:
        if fitted.neighbors is None or network_part.is_trained_enough(interrupt.fitted, enough):
            fitted = fitted.with_network(round_network(interrupt.fitted))
        raise InterruptedBlend(fitted) from interrupt
    except KeyboardInterrupt as interrupt:
        if fitted.neighbors is None:
            raise
        raise InterruptedBlend(fitted) from interrupt
    answers = None
    if held_out.points is not None:
        try:
            measured = _unbiased(fitted, points, held_out, options, held, pilots, of_trees[1])
            if measured is not None:
                fitted, answers = _combined(fitted, measured, points, held_out.points, options, k, threads, runner)
        except KeyboardInterrupt as interrupt:
            raise InterruptedBlend(fitted) from interrupt
        except (MemoryError, DivergenceError) as error:
            warnings.warn(f"the blend keeps its default weights and probabilities: {error}", UserWarning, stacklevel=4)
    if fitted.network is not None:
        fitted.network.network.keep_narrow()
    if fitted.neighbors is not None:  # nothing is left out of a centroid any more
        fitted = replace(fitted, neighbors=replace(fitted.neighbors, centroids=None))
    return fitted, answers


class InterruptedBlend(KeyboardInterrupt):
    """Ctrl-C during training; `fitted` is the blend so far."""

    def __init__(self, fitted: FittedBlend) -> None:
        super().__init__()
        self.fitted = fitted

    @property
    def original(self) -> BaseException:
        """The exception that ended training."""
        cause = self.__cause__ or self
        return cause.original if isinstance(cause, InterruptedFit) else cause


def _unbiased(
    fitted: FittedBlend,
    points: Points,
    held_out: BlendHoldout,
    options: BlendOptions,
    held: Mapping[str, int],
    pilots: Sequence[Network],
    of_tree: Mapping[str, Any],
) -> FittedBlend | None:
    """Return a blend whose parts were trained without the hold-out; train second parts if the final ones were not.

    A pilot network is one. Return None if the network has a time budget of its own: there is no time for a second one.
    `held` are the bytes of the points and of the parts but the network. `of_tree` are the arguments of a second tree.
    """
    if held_out.for_good:
        return fitted
    rest, network_options, final = _without(held_out.points, points), options.network, fitted.network
    if fitted.network is not None and pilots:
        fitted = replace(fitted, network=round_network(replace(fitted.network, network=pilots[0])))
    elif fitted.network is not None and network_options is not None:
        if network_options.time_budget is not None:
            return None
        parameters = {**network_options.parameters, "epochs": len(fitted.network.history), "verbose": False}
        parameters["memory_limit"] = options.limit
        same = replace(sizing.fitted_options(parameters, fitted.network.choices), auto=frozenset())
        first = {"first network": _bytes_of(fitted.network)}
        how = {"seed": of_tree["seed"], "threads": of_tree["threads"], "held": {**held, **first}}
        network = fit_network.fit(rest, same, calibrates=False, **how)
        fitted = replace(fitted, network=round_network(network))
    held = {"first tree" if part == "tree" else part: size for part, size in held.items()}
    held |= {"networks": _bytes_of(final, fitted.network)}
    return replace(fitted, tree=fit_tree.fit(rest, options.rules, verbose=options.verbose, held=held, **of_tree))


def _bytes_of(*networks: FittedNetwork | None) -> int:
    """Return the bytes of the weights of distinct networks."""
    found = [fitted.network for fitted in networks if fitted is not None]
    arrays = (array for network in found for parameter in network.parameters() for array in parameter.arrays())
    return bytes_in_memory(arrays)


def _without(holdout: Holdout | None, points: Points) -> Points:
    """Return the points that are not held out."""
    return points if holdout is None else selected(points, holdout.kept)


def _combined(
    fitted: FittedBlend,
    measured: FittedBlend,
    points: Points,
    holdout: Holdout,
    options: BlendOptions,
    k: int,
    threads: int,
    runner: TaskRunner,
) -> tuple[FittedBlend, HoldoutAnswers]:
    """Choose the number of candidates and the weights on the hold-out, fit probabilities there, and rank it.

    `measured` has parts that were trained without the hold-out. Tasks of `runner` search its tree and the neighbors.
    """
    features, truth = rows_of(points, holdout.held)
    with runner.session() as session:
        search = HoldoutSearch(session, features, holdout.held, runner.task_threads(threads))
        fitted, found = _proposed(fitted, measured, search, truth, options, k, threads)
    hits, prior, choices = found.hits(truth), fitted.combination, dict(fitted.choices)
    assert isinstance(prior, Combination)
    if hits.any(axis=1).sum() >= 2:
        halves = np.arange(len(hits)) % 2 == 0
        cross = cross_fitted(found, hits, prior, halves)
        scores = {"fixed": precision_of(prior, found, hits), "fitted": cross}
        decision = choose([Option("fixed", "fixed"), Option("fitted", "fitted")], scores.__getitem__, options.better)
        combination = fit_weights(found, hits, prior) if decision.value == "fitted" else prior
        choices["weights"] = decision._replace(value=tuple(round(weight, 3) for weight in combination.weights))
        fitted = replace(fitted, combination=combination.calibrated(found, hits, fitted.seen.label_counts))
    counts = fitted.seen.label_counts
    labels, ranked = fitted.combination.rank(found, found.labels.shape[1], counts)
    p = fitted.combination.probabilities(ranked, counts[labels])
    answers = HoldoutAnswers(holdout.held, labels, p, is_hit(labels, truth) & (ranked > LOWEST))
    return replace(fitted, choices=choices), answers


def _proposed(
    fitted: FittedBlend,
    measured: FittedBlend,
    search: HoldoutSearch,
    truth: Rows,
    options: BlendOptions,
    k: int,
    threads: int,
) -> tuple[FittedBlend, Candidates]:
    """Choose the comparisons of a neighbor search and the number of candidates; also return these candidates."""
    neighbors, prior = fitted.neighbors, fitted.combination
    assert neighbors is not None
    assert isinstance(prior, Combination)
    n_labels, choices, beam = len(fitted.target.classes), dict(fitted.choices), options.rules.wrong_ways
    n = fitted.candidates
    usual = min(n, n_labels)
    by_tree, near = search.tree(measured.tree), search.neighbors(neighbors, k)
    ranked: dict[int, tuple[I32, F32]] = {}

    def proposed(n: int, weights: Rows) -> Candidates:
        ranked[n] = ranked.get(n) or by_tree(n, search_beam(beam))
        parts = replace(measured, neighbors=neighbors).parts()
        how: dict[str, Any] = {"ranked": ranked[n], "weights": weights}
        return propose(parts, search.points, n, k=k, beam=beam, threads=threads, **how)

    def precision(found: Candidates) -> F64:
        return precision_of(prior, found, found.hits(truth))

    if neighbors.postings is not None:
        tried: dict[int, tuple[Rows, Candidates]] = {}

        def precision_by(most: int) -> F64:
            weights = near(most)
            tried[most] = weights, proposed(usual, weights)
            return precision(tried[most][1])

        compared = [Option(f"{most:,}", most) for most in options.comparisons]
        choices["comparisons"] = climb(compared, precision_by, options.not_worse)
        most = choices["comparisons"].value
        fitted, (weights, first) = replace(fitted, neighbors=replace(neighbors, max_comparisons=most)), tried[most]
    else:
        weights = near(neighbors.max_comparisons)
        first = proposed(usual, weights)
    sets = {usual: first}
    if options.candidates is None and fitted.network is not None and n_labels > FEW:
        many = min(MANY, n_labels)
        sets[many] = proposed(many, weights)
        compared = [Option(str(each), each) for each in (FEW, many)]
        choices["candidates"] = choose(compared, lambda n: precision(sets[n]), options.better)
        n = choices["candidates"].value
    return replace(fitted, candidates=n, choices=choices), sets[min(n, n_labels)]
