"""Tree and neighbours of a blend, and what a tree that has not learnt some of the points says of each part.

Training points that a part has not learnt tell how far its votes are to be trusted. A tree without them that judges the
others is the tree of the blend itself where points are many, and else one that is trained for that.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import NamedTuple

from sparsenet.core.rows import Rows, as_matrix
from sparsenet.engines.blend import correction, costs, naming, trust
from sparsenet.engines.blend.fit_blend import Fitted
from sparsenet.engines.blend.unlearnt import Unlearnt
from sparsenet.engines.blend.voting import is_consistent, is_open
from sparsenet.engines.neighbors.neighbors import Neighbors
from sparsenet.estimators.tree import TreeClassifier

#: What a time budget must have room for, so many times tree and neighbours, for these to be judged on points kept
#: apart, and for the tree's cost to be chosen by them, which may take three more trees.
PASSES_TO_JUDGE, PASSES_TO_CHOOSE = 2, 8


class Learnt(NamedTuple):
    """A trained tree, one to judge by, if there is any, neighbours, if asked for, and how long a pass would take."""

    tree: TreeClassifier
    judge: TreeClassifier | None
    neighbors: Neighbors | None
    a_pass: float


def tree_and_neighbors(
    tree: TreeClassifier,
    points: Rows,
    labels: Rows,
    k: int,
    *,
    seed: int,
    threads: int,
    started: float,
    time_budget: float | None,
    alone: bool,
) -> Learnt:
    """Train the tree, look how its k neighbours answer, and judge both as far as the time allows that is left."""
    if k == 0:
        tree.fit(as_matrix(points), as_matrix(labels))
        return Learnt(tree, None, None, time.perf_counter() - started)
    about = points, labels
    kept = trust.kept_from_tree(labels, seed)
    # A tree that another judges waits for what that says of its cost, unless the time might not suffice for both.
    waits = time_budget is None and len(kept) == 0 and len(trust.kept_apart(labels, seed)) > 0
    if not waits:
        trust.fit_without(tree, *about, kept)
    neighbors = Neighbors.learn(*about, k, seed=seed, threads=threads)
    a_pass = time.perf_counter() - started
    passes = math.inf if time_budget is None else time_budget / max(a_pass, 1e-9)
    if passes <= PASSES_TO_JUDGE:
        return Learnt(tree, None, neighbors, a_pass)
    kept, judge = trust.judged_by(tree, *about, seed)
    is_judged = judge is tree
    # Of many points each tree takes as long as the one that is kept: too long where that is nearly all there is.
    if is_open(tree) and passes > PASSES_TO_CHOOSE and len(kept) > 0 and not (alone and is_judged):
        judge = costs.best(judge, *about, kept, threads)
    if is_judged:
        tree = judge
    elif waits or judge.cost_ != tree.cost_:
        tree = costs.costing(tree, judge.cost_).fit(as_matrix(points), as_matrix(labels))
    trusted = trust.measured(neighbors, judge, *about, kept, k=k, threads=threads)
    return Learnt(tree, judge, replace(neighbors, trust=trusted), a_pass)


def weighed(
    fitted: Fitted,
    judge: TreeClassifier,
    neighbors: Neighbors,
    points: Rows,
    labels: Rows,
    *,
    k: int,
    seed: int,
    threads: int,
    in_haste: bool,
    finds_candidates: bool,
) -> Fitted:
    """Return the blend with what its tree's vote counts beside the network's, and how sure the whole may be.

    And, if that is to be found, with how many labels are named for a point. k neighbours have a vote. `in_haste` no
    tree is trained for it.
    """
    network = fitted.network
    if network is not None and is_consistent(fitted.tree):
        if not in_haste:
            judge = trust.on_equal_terms(network, fitted.tree, judge, points, labels, seed)
        weight = trust.of_tree(network, judge, points, labels, seed=seed, threads=threads)
        fitted = replace(fitted, tree_weight=weight)
    kept = trust.kept_from_all(network, labels, seed)
    if len(kept) == 0:
        return fitted
    parts = network, judge, neighbors
    unlearnt = Unlearnt.of(*parts, points, labels, kept, k=k, weight=fitted.tree_weight, threads=threads)
    if finds_candidates:
        fitted = replace(fitted, candidates=naming.measured(unlearnt))
    n = min(fitted.candidates, labels.width)
    return replace(fitted, correction=correction.measured(unlearnt, n, fitted.seen.label_counts))
