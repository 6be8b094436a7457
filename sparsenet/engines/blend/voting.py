"""How the parts of a blend decide together: tree and neighbours name labels, and each part votes on all of them."""

from __future__ import annotations

import math

import numpy as np

from sparsenet.core.ranked import best_first
from sparsenet.core.rows import Rows
from sparsenet.engines.neighbors.neighbors import Neighbors
from sparsenet.engines.network.inference import log_probabilities
from sparsenet.engines.tree.machines import COST
from sparsenet.estimators.extreme import ExtremeClassifier
from sparsenet.estimators.tree import TreeClassifier
from sparsenet.kernels.types import F32, I32

#: From a vote to the logit of a probability, slope and shift: of network and tree, all three, tree and neighbours.
#: They lie between the curves that fit held-out points of six unlike data sets best. Where points have a dozen labels
#: or more, they say too much (bench/notes/blends.md).
OF_TWO, OF_THREE, WITHOUT_NETWORK = (0.7, 1.45), (0.55, 2.1), (1.5, 2.9)
#: Where neighbours count twice as much, votes lie further apart: the slope is divided by so much, and the shift larger.
FLATTER, HIGHER = 2**0.25, 0.35
#: Where errors were found to cost the tree more than usual, votes say more than they do elsewhere: the slope is so many
#: times as large, and the shift larger; without a network the whole curve is another. Where the tree's vote counts
#: twice as much, the slope is divided by so much, and the shift larger (bench/notes/blends.md, Where labels are
#: consistent).
STEEPER_IF_CONSISTENT, HIGHER_IF_CONSISTENT, CONSISTENT_WITHOUT_NETWORK = 1.2, 0.75, (2.1, 4.4)
FLATTER_BY_TREE, HIGHER_BY_TREE = 1.3, 0.25
#: Down to where they count so little that it is the curve of the two others.
FEWEST_DOUBLINGS = -1.4
#: The beam in which labels are named is so many times that in which the tree was trained: the third to fifth label of a
#: point often hangs where the tree alone would not look.
WIDER = 2
#: The vote of neighbours is so many times the root of the share of them that have a label, beside a network (times how
#: much they are trusted) and beside the tree alone (times the root of that). They know little of labels that few points
#: have: who votes beside them is one of them, as if the last were the share of those of that opinion.
OF_NEIGHBORS, BESIDE_THE_TREE_ALONE, ONE_OF_THEM = np.float32(4), np.float32(2), np.float32(0.2)
#: For each label that neighbours name the tree names so many.
TREE_NAMES_MORE = 2
#: The vote for a label that nothing speaks against, which leaves room for error, and for one that no point had.
CERTAIN, UNHEARD_OF = np.float32(-1e-6), np.float32(-1e6)


def vote(
    network: ExtremeClassifier | None,
    tree: TreeClassifier,
    points: Rows,
    n: int,
    threads: int,
    *,
    neighbors: Neighbors | None = None,
    k: int = 0,
    voters: Rows | None = None,
    weight: float = 1.0,
    unwanted: int = 0,
) -> tuple[I32, F32]:
    """Return the n labels of each point that come into question, (n_points, n), in the order of their votes.

    The tree names as many, and neighbours, if there are any, half as many, of which most are the same; those of the
    least votes are left out.

    A tree's logarithms of probabilities are sums of cubes, which count what is unlikely as next to impossible. Their
    roots are on the scale of the network's: so added, neither drowns the other. `weight` is what the tree's vote counts
    beside the network's, and `k` how many `neighbors` have a vote: the nearest, unless `voters` says which. Without a
    network the tree's opinion stands for its. Up to `unwanted` labels are passed over later.
    """
    labels, from_tree = named_by(tree, points, n, threads, unwanted)
    penalties = np.where(np.isneginf(from_tree), -UNHEARD_OF, np.sqrt(-from_tree))
    if neighbors is not None and k > 0:
        voters = neighbors.voters(points, k, threads) if voters is None else voters
        if n < neighbors.labels.width:
            more = neighbors.name(voters, -(-n // TREE_NAMES_MORE), threads)
            labels, penalties = _named_by_both(labels, penalties, *more, neighbors.labels.width)
    if network is None:
        votes, opinion = np.zeros_like(penalties), -np.square(penalties)
        strength = BESIDE_THE_TREE_ALONE * np.sqrt(np.float32(1 if neighbors is None else neighbors.trust))
    else:
        votes = opinion = log_probabilities(network.network_, points, labels, threads)
        strength = OF_NEIGHBORS * np.float32(1 if neighbors is None else neighbors.trust)
    if neighbors is not None and voters is not None:
        shares = neighbors.shares(voters, labels, threads)
        # Where there are no neighbours at all that opinion has their vote.
        found = voters.data.reshape(len(points), -1).any(axis=1, keepdims=True)
        shares += np.where(found, ONE_OF_THEM, 1 + ONE_OF_THEM) * np.exp(opinion)
        votes += strength * (np.sqrt(shares) - np.sqrt(1 + ONE_OF_THEM))
    votes -= np.float32(weight) * penalties
    votes[penalties >= -UNHEARD_OF] = UNHEARD_OF
    np.clip(votes, UNHEARD_OF, CERTAIN, out=votes)
    labels, votes = best_first(votes, n, labels, votes)
    return labels, votes


def named_by(tree: TreeClassifier, points: Rows, n: int, threads: int, unwanted: int = 0) -> tuple[I32, F32]:
    """Return the n labels that a tree names for each point, best first, and the logarithms of their probabilities."""
    return tree._ranked(points, n, threads, times_beam=WIDER, unwanted=unwanted)


def _named_by_both(labels: I32, penalties: F32, more: I32, shares: F32, width: int) -> tuple[I32, F32]:
    """Add the labels that neighbours name to those of the tree; those that are named already get the highest penalty.

    What the tree has not named it finds at least as unlikely as all that it has.
    """
    rows = np.arange(len(labels), dtype=np.int64)[:, None] * width
    known, asked = (rows + np.sort(labels, axis=1)).reshape(-1), rows + more
    # By rows, which are ascending as they are: `is_hit` sorts all labels of all points, and takes ten times as long.
    at = np.minimum(np.searchsorted(known, asked), len(known) - 1)
    is_new = (shares > 0) & (known[at] != asked)
    return np.hstack([labels, more]), np.hstack([penalties, np.where(is_new, penalties[:, -1:], -UNHEARD_OF)])


def is_open(tree: TreeClassifier) -> bool:
    """Tell whether what an error costs is left to be found."""
    return isinstance(tree.cost, str)


def is_consistent(tree: TreeClassifier) -> bool:
    """Tell whether labels were found to be so consistent that errors cost the tree more than usual."""
    return is_open(tree) and tree.cost_ > COST


def curve_of(
    network: ExtremeClassifier | None, tree: TreeClassifier, neighbors: Neighbors | None, weight: float = 1.0
) -> tuple[float, float]:
    """Return the curve of those who vote, the tree with `weight`."""
    if network is None:
        return CONSISTENT_WITHOUT_NETWORK if is_consistent(tree) else WITHOUT_NETWORK
    if neighbors is None:
        slope, shift = OF_TWO
    else:
        doublings = max(math.log2(neighbors.trust), FEWEST_DOUBLINGS)
        slope, shift = OF_THREE[0] / FLATTER**doublings, OF_THREE[1] + HIGHER * doublings
    if is_consistent(tree):
        slope, shift = slope * STEEPER_IF_CONSISTENT, shift + HIGHER_IF_CONSISTENT
    return slope / FLATTER_BY_TREE ** math.log2(weight), shift + HIGHER_BY_TREE * math.log2(weight)


def logits(votes: F32, curve: tuple[float, float]) -> F32:
    """Return the logits of the probabilities of labels with such votes: a straight line, but up to certainty."""
    slope, shift = curve
    slopes = votes.dtype.type(slope) * votes
    return np.asarray(votes.dtype.type(shift) + slopes - np.log(-np.expm1(slopes)))
