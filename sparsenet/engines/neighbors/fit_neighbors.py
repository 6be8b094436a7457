"""Learn neighbors: weigh the features, choose how the neighbors vote, and index the points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from sparsenet.core.machine import release_memory
from sparsenet.core.progress import parts_done
from sparsenet.core.ranked import best_first
from sparsenet.core.rows import POINTS_AT_A_TIME, Rows, RowSource, as_matrix
from sparsenet.core.scratch import Scratch, get_rows, put_rows, take_rows
from sparsenet.core.spilling import Spill
from sparsenet.core.tasks import HERE, Host, TaskRunner
from sparsenet.engines.neighbors import posting_lists
from sparsenet.engines.neighbors.label_centroids import LabelCentroids
from sparsenet.engines.neighbors.neighbors import Neighbors
from sparsenet.engines.neighbors.unit_points import AT_A_TIME, UnitPoints, is_dense
from sparsenet.index.cells import CellsConfig, VectorCells
from sparsenet.kernels.types import F32, F64, I32, I64
from sparsenet.metrics.ranking import find_hits
from sparsenet.selection.choose import Decision, Option, Rule, choose

#: Bytes for each column: while the features are weighed (pointers, frequencies, rarities, weights), and afterwards
#: (pointers, weights).
BYTES_A_FEATURE, BYTES_HELD = 30, 13
#: The purpose of temporary files, for errors.
POSTINGS = "posting lists of the points"


@dataclass(frozen=True)
class NeighborRules:
    """Bounds of the search for neighbors, and the options that a sample of the points chooses from.

    Attributes
    ----------
    max_points : int
        Maximum length of a feature's posting list, cut to its largest values: features that nearly all points have are
        slow and discriminate least.
    recall : float
        Share of the nearest dense points that a search finds on the first points of the sample.
    rarities : tuple of float
        Options of `Neighbors.rarity`; data with tf-idf contain an inverse frequency already.
    powers, dense_powers, centroid_powers : tuples of float
        Options of `Neighbors.power`, and further ones for dense points, whose cosines may all be near one, and for
        centroids, which are nearer than points.
    sample, first : int
        Points of the sample. The `first` of them choose the rarity, which needs a search for each option.
    best : Rule
        The best option wins, since no option is dearer than another.
    better : Rule
        Centroids must be better beyond chance, since they take more memory and time.
    """

    max_points: int = 4096
    recall: float = 0.98
    rarities: tuple[float, ...] = (0.0, 0.5, 1.0)
    powers: tuple[float, ...] = (1.0, 2.0, 3.0, 4.0, 6.0)
    dense_powers: tuple[float, ...] = (10.0, 16.0, 25.0)
    centroid_powers: tuple[float, ...] = (40.0, 64.0)
    sample: int = 1024
    first: int = 512
    best: Rule = field(default_factory=lambda: Rule("nDCG@5 of the neighbors", standard_errors=0.0))
    better: Rule = field(default_factory=lambda: Rule("nDCG@5 of the neighbors", standard_errors=2.0, min_gain=0.002))


RULES = NeighborRules()


def fit(
    points: RowSource,
    labels: Rows,
    k: int,
    *,
    seed: int,
    threads: int,
    rules: NeighborRules = RULES,
    runner: TaskRunner = HERE,
    spill: Spill | None = None,
    verbose: bool | None = False,
) -> tuple[Neighbors, dict[str, Decision]]:
    """Index the points; choose `rarity` and `power` by the leave-one-out nDCG of k neighbors on a sample.

    Return the neighbors and the decisions. Tasks of `runner` compare the options. `spill` allocates the posting lists:
    by default `spill_of` the points. Workers use files of the scratch folder if `spill` has files or lists are long.
    `verbose` shows a progress bar.
    """
    spill = spill_of(points, spill)
    labels = Rows(labels.indptr, labels.indices, np.ones_like(labels.data), labels.width)
    order = np.random.default_rng(seed).permutation(len(points))[: rules.sample]
    start, rest = np.sort(order[: rules.first]), np.sort(order[rules.first :])
    n_steps = len(rules.rarities) + (4 if is_dense(points) else 1)
    what = f"neighbors among {len(points):,} points"
    with parts_done(n_steps, what, verbose) as on_progress:
        with runner.session() as session:
            for name, rows in (("points", points), ("labels", labels)):
                put_rows(session.scratch, name, rows)
            for name, sample in (("start", start), ("rest", rest)):
                session.scratch.put(name, sample)
                put_rows(session.scratch, f"{name}-points", points.take(sample))
            session.run(count_features, [(spill,)])
            tasks = [(rarity, k, runner.task_threads(threads), rules, spill) for rarity in rules.rarities]
            near, scores = zip(*session.run(measure_rarity, tasks, lambda at, found: on_progress(1)), strict=True)
            by_option = dict(zip(rules.rarities, scores, strict=True))
            by_rarity = _best(by_option, rules)
            at = rules.rarities.index(by_rarity.value)
            [by_option] = session.run(measure_powers, [(*tasks[at], near[at])])
            on_progress(1)
            (weights,) = session.scratch.take("weights")
            index = UnitPoints(points, weights) if is_dense(points) else take_rows(session.scratch, "index")
        by_power = _best(by_option, rules)
        found = Neighbors(index, labels, weights, by_rarity.value, by_power.value)
        decisions = {"rarity": by_rarity, "power": by_power}
        if not isinstance(index, UnitPoints):
            return found, decisions
        sample = np.concatenate((start, rest))
        found, more = _or_with_centroids(found, index, sample, k, threads, by_option[by_power.value], rules)
        on_progress(1)
        found = _in_cells(found, sample[: rules.first], k, seed, threads, rules, on_progress)
        return found, decisions | more


def spill_of(points: RowSource, given: Spill | None = None) -> Spill:
    """Return what allocates the posting lists of points, all in memory or all in files: by default as the points."""
    spill = Spill.beside(points, POSTINGS) if given is None else given
    return spill.for_size(4 * points.n_entries)


def _spill_of_task(scratch: Scratch, points: RowSource, spill: Spill) -> Spill:
    """Return what allocates posting lists in a task: on a worker, in files of the scratch folder if they are large."""
    if scratch.folder is None:
        return spill
    return spill_of(points, _within(Spill.within(None, scratch.folder, POSTINGS), spill))


def _within(spill: Spill, other: Spill) -> Spill:
    """Return `spill` with the lower limit of both."""
    return replace(spill, max_bytes=min(spill.max_bytes, other.max_bytes))


def peak_memory(points: RowSource, labels: Rows, spill: Spill | None = None) -> int:
    """Return the bytes that `fit` takes at most besides points and labels."""
    shared = 4 * len(labels.indices) + BYTES_A_FEATURE * points.width
    if not is_dense(points):
        return shared + posting_lists.peak_memory(points, RULES.max_points, spill_of(points, spill))
    n_centroids = min(labels.width, len(points))
    sums = 4 * points.width * n_centroids
    block = 12 * points.width * min(n_centroids, AT_A_TIME)  # ids, values and a dense copy
    making = sums + block + 16 * labels.n_entries + 48 * labels.width  # and the labels turned round
    cells = VectorCells.peak_memory(len(points) + n_centroids, points.width)
    return shared + 24 * points.width * min(len(points), AT_A_TIME) + max(making, sums + cells)


def task_memory(points: RowSource, labels: Rows, host: Host, spill: Spill | None = None) -> int:
    """Return the bytes that tasks of `fit` take at most on the workers of a host, which map points and labels."""
    each = 4 * len(labels.indices) + BYTES_A_FEATURE * points.width
    if is_dense(points):
        each += 24 * points.width * min(len(points), AT_A_TIME)
    else:
        spill = _within(Spill.within(host.available), spill_of(points, spill))
        each += posting_lists.peak_memory(points, RULES.max_points, spill_of(points, spill))
    return each * min(host.n_workers, len(RULES.rarities))


def _or_with_centroids(
    neighbors: Neighbors, index: UnitPoints, sample: I64, k: int, threads: int, before: F64, rules: NeighborRules
) -> tuple[Neighbors, dict[str, Decision]]:
    """Add the centroids of the labels to dense points, if the vote is better then; return the decisions too.

    `before` is the nDCG of each point of the `sample` without them.
    """
    own = LabelCentroids.of(index.points, neighbors.labels, threads)
    both, labels = replace(index, sums=own.sums), own.after(neighbors.labels)
    found = replace(neighbors, index=both, labels=labels, n_centroids=len(own.labels), centroids=own)
    by_option = _ndcg_by_power(
        found, sample, *found.nearest_others(index.points.take(sample), sample, k, threads), threads, rules
    )
    by_power = _best(by_option, rules)
    scores = {"points": before, "centroids": by_option[by_power.value]}
    decision = choose([Option(name, name) for name in scores], scores.__getitem__, rules.better)
    if decision.value == "points":
        return neighbors, {"centroids": decision}
    return replace(found, power=by_power.value), {"centroids": decision, "power": by_power}


def _in_cells(
    neighbors: Neighbors,
    sample: I64,
    k: int,
    seed: int,
    threads: int,
    rules: NeighborRules,
    on_progress: Callable[[float], object],
) -> Neighbors:
    """Put dense points into cells, and scan as few of these as reach the recall on a sample: two steps of progress."""
    index = neighbors.index
    assert isinstance(index, UnitPoints)
    cells = VectorCells.build(index, index.ids, CellsConfig(seed=seed), threads=threads)
    on_progress(1)
    queries = as_matrix(neighbors.queries(index.points.take(sample))).toarray()
    cells = cells.calibrated(queries, min(k + 1, len(cells.ids)), rules.recall, threads)
    on_progress(1)
    return replace(neighbors, index=cells)


def count_features(scratch: Scratch, spill: Spill) -> None:
    """Keep the number of points of each feature and, of sparse points, these points."""
    points = scratch.get_source("points")
    if is_dense(points):
        counts = np.zeros(points.width, np.int64)
        for part in points.blocks(POINTS_AT_A_TIME):
            counts += np.bincount(part.indices, minlength=points.width)
    else:
        by_feature = posting_lists.by_feature(points, _spill_of_task(scratch, points, spill))
        counts = by_feature.sizes
        put_rows(scratch, "by-feature", by_feature)
        release_memory()  # of the parts
    scratch.put("counts", counts)


def measure_rarity(
    scratch: Scratch, rarity: float, k: int, threads: int, rules: NeighborRules, spill: Spill
) -> tuple[tuple[I32, F32], F64]:
    """Return the neighbors of the first points of the sample, and the nDCG of their vote by its best power."""
    found, start = _with_rarity(scratch, rarity, rules, spill), scratch.get("start")[0]
    near = found.nearest_others(get_rows(scratch, "start-points"), start, k, threads)
    return near, max(_ndcg_by_power(found, start, *near, threads, rules).values(), key=np.mean)


def measure_powers(
    scratch: Scratch,
    rarity: float,
    k: int,
    threads: int,
    rules: NeighborRules,
    spill: Spill,
    near: tuple[I32, F32],
) -> dict[float, F64]:
    """Keep the weights and posting lists of a rarity; return the nDCG of the sample by power.

    `near` is what `measure_rarity` found.
    """
    found, rest = _with_rarity(scratch, rarity, rules, spill), scratch.get("rest")[0]
    scratch.put("weights", found.weights)
    if isinstance(found.index, Rows):
        put_rows(scratch, "index", found.index)
    other = found.nearest_others(get_rows(scratch, "rest-points"), rest, k, threads)
    ids, products = (np.concatenate(both) for both in zip(near, other, strict=True))
    sample = np.concatenate((scratch.get("start")[0], rest))
    return _ndcg_by_power(found, sample, ids, products, threads, rules)


def _with_rarity(scratch: Scratch, rarity: float, rules: NeighborRules, spill: Spill) -> Neighbors:
    points, labels = scratch.get_source("points"), get_rows(scratch, "labels")
    weights = feature_weights(scratch.get("counts")[0], int(np.count_nonzero(points.sizes)), rarity)
    index: Rows | UnitPoints = UnitPoints(points, weights)
    if not is_dense(points):
        by_feature, spill = get_rows(scratch, "by-feature"), _spill_of_task(scratch, points, spill)
        index = posting_lists.posting_lists(points, by_feature, weights, rules.max_points, spill)
        release_memory()  # of the parts
    return Neighbors(index, labels, weights, rarity, rules.powers[0])


def _ndcg_by_power(
    neighbors: Neighbors, sample: I64, near: I32, products: F32, threads: int, rules: NeighborRules, n_ranks: int = 5
) -> dict[float, F64]:
    """Return the nDCG of the neighbors' vote on each point of `sample` for each power."""
    truth, n_ranks = as_matrix(neighbors.labels.take(sample)), min(n_ranks, neighbors.labels.width)
    powers = rules.powers + (() if neighbors.postings is not None else rules.dense_powers)
    found = {}
    for power in powers + (rules.centroid_powers if neighbors.n_centroids else ()):
        labels, shares = neighbors.propose(neighbors.weigh_votes(near, products, power), n_ranks, threads)
        found[power] = find_hits(truth, best_first(shares, n_ranks, labels)[0], n_ranks).ndcg_of_points(n_ranks)
    return found


def _best(scores: Mapping[float, F64], rules: NeighborRules) -> Decision:
    return choose([Option(f"{each:g}", each) for each in scores], scores.__getitem__, rules.best)


def feature_weights(counts: I64, n_points: int, rarity: float) -> F32:
    """Return the weights of features that `counts` of the points have."""
    rarities = np.maximum(counts, 1.0)  # then in place, to save memory with millions of features
    np.divide(n_points, rarities, out=rarities)
    np.log1p(rarities, out=rarities)
    np.power(rarities, rarity, out=rarities)
    return rarities.astype(np.float32)
