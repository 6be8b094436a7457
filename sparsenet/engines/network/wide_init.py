"""Initialise the wide path: fit the norm of its initial weights and the learning rate to the data.

A label's centroid gives the direction of its initial weights, but not their norm. Rare features need a large norm;
with features that all points share, the same norm would dominate learning. So the centroids score a sample of points,
leave-one-out, and one factor and one bias are fitted to these scores by logistic regression.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from sparsenet.core.batches import Slots, Workspace
from sparsenet.core.centroids import centroids, lengths
from sparsenet.core.rows import Rows, RowSource, sum_of_squares
from sparsenet.engines.network.optim import Adagrad
from sparsenet.engines.network.wide import WideConfig, WidePath, initial_norms
from sparsenet.kernels.types import F32, F64, I64
from sparsenet.selection.newton import LossTerms, newton

#: Adagrad's first step relative to the root mean square of the initial weights. It is smaller if labels have fewer
#: points on average than the second number, since large steps overfit them.
FIRST_STEP, ENOUGH_POINTS = 1.0, 20
#: Adagrad halves its first step for a gradient as large as this number of completely wrong answers. Without damping,
#: labels that are scored well from the start overfit their few points (bench/notes/networks.md).
DAMPING = 2.0


@dataclass(frozen=True)
class _ScoredPairs:
    """Scores and weights of pairs of a point and a label: first the positives, then bins of negatives."""

    scores: F64
    weights: F64
    n_positives: int


def fitted_norm(
    features: RowSource,
    labels: Rows,
    label_points: Rows,
    config: WideConfig,
    seed: int,
    threads: int,
    *,
    n_points: int = 256,
    min_positives: int = 50,
    bounds: tuple[float, float] = (0.05, 32.0),
) -> float:
    """Fit the norm of the initial weights on a sample; return the norm of `config` with fewer than `min_positives`.

    `bounds` limit the norm for points of length 1.
    """
    rng = np.random.default_rng((seed, 4))
    points = np.sort(rng.choice(len(features), min(n_points, len(features)), replace=False))
    sample, true_labels = features.take(points), labels.take(points)
    pairs = _score_sample(sample, true_labels, features, label_points, replace(config, norm=1.0), rng, threads)
    size = float(np.sqrt(np.square(sample.data, dtype=np.float64).sum() / max(len(sample), 1)))
    if pairs is None or pairs.n_positives < min_positives or size == 0:
        return config.norm
    norm = float(np.clip(_fit_factor(pairs), bounds[0] / size, bounds[1] / size))
    return float(f"{norm:.3g}")  # rounded, since the last bits differ between processors


def first_rate(config: WideConfig, path: WidePath, label_counts: I64) -> float:
    """Choose the learning rate of Adagrad by the size of the initial weights of `path`."""
    counts = label_counts[np.diff(path.indptr) > 0]
    if not len(counts):
        return FIRST_STEP
    root_mean_square = np.sqrt(np.square(initial_norms(config, counts)).sum() / len(path.indices))
    caution = np.sqrt(min(1.0, counts.mean() / ENOUGH_POINTS))
    return float(f"{FIRST_STEP * caution * root_mean_square:.3g}")


def damping(features: RowSource, batch_size: int) -> float:
    """Choose the epsilon of Adagrad by the size of the gradient of a wrong answer in a batch."""
    answer = np.sqrt(sum_of_squares(features) / max(features.n_entries, 1))
    return float(f"{max(DAMPING * answer / batch_size, Adagrad.epsilon):.3g}")


def fitted_path(
    features: RowSource,
    labels: Rows,
    label_points: Rows,
    config: WideConfig,
    *,
    own_rate: bool,
    batch_size: int,
    seed: int,
    threads: int,
) -> WidePath:
    """Build a wide path with a fitted norm and, with `own_rate`, a fitted learning rate and epsilon."""
    config = replace(config, norm=fitted_norm(features, labels, label_points, config, seed, threads))
    path = WidePath.from_centroids(features, label_points, config, threads)
    if own_rate and isinstance(config.optimizer, Adagrad):
        rate, epsilon = first_rate(config, path, np.diff(label_points.indptr)), damping(features, batch_size)
        path.configure(replace(config, optimizer=replace(config.optimizer, rate=rate, epsilon=epsilon)))
    return path


def _score_sample(
    sample: Rows,
    true_labels: Rows,
    features: RowSource,
    label_points: Rows,
    config: WideConfig,
    rng: np.random.Generator,
    threads: int,
) -> _ScoredPairs | None:
    """Score the sample by unit centroids of some labels, leave-one-out for true labels.

    None without negatives, or if scores overflow float32.
    """
    active, counts = _sample_labels(true_labels, np.diff(label_points.indptr), rng)
    sums = centroids(features, label_points.take(active), config.budget, threads)
    dots = _dots(sums, sample, threads)
    if not np.isfinite([dots.min(initial=0), dots.max(initial=0)]).all():
        return None
    slots = np.full(true_labels.width, -1, np.int64)
    slots[active] = np.arange(len(active))
    point, row = np.repeat(np.arange(len(true_labels)), np.diff(true_labels.indptr)), slots[true_labels.indices]
    point, row = point[row >= 0], row[row >= 0]
    if len(row) == dots.size:
        return None

    # All labels have equal weight: training soon corrects the frequent labels, which most pairs have.
    share = 1 / np.maximum(np.bincount(row, minlength=len(active)), 1)
    length = lengths(sums)
    has_rest = counts[row] > 1
    # A point's contribution to its own score, on the features in the support of its label.
    support = replace(sums, data=np.ones_like(sums.data))
    added = _dots(support, replace(sample, data=np.square(sample.data)), threads)[row, point].astype(np.float64)
    own = dots[row, point].astype(np.float64)
    positives = _leave_one_out_scores(own, added, length[row], counts[row], config)[has_rest]
    dots *= (initial_norms(config, counts) / np.maximum(length, 1e-15)).astype(np.float32)[:, None]
    dots[row, point] = np.nan
    negatives, weights = _histogram(dots, share)
    scores, weights = np.concatenate((positives, negatives)), np.concatenate((share[row][has_rest], weights))
    return _ScoredPairs(scores, weights, len(positives))


def _histogram(scores: F32, share: F64, *, n_bins: int = 4096, block_size: int = 256) -> tuple[F64, F64]:
    """Build a weighted histogram of scores without NaN: the mean score and the summed row weights of each bin."""
    low, high = float(np.nanmin(scores)), float(np.nanmax(scores))
    weights, totals = np.zeros(n_bins), np.zeros(n_bins)
    for begin in range(0, len(scores), block_size):
        block = scores[begin : begin + block_size]
        is_number = ~np.isnan(block)
        weight = np.broadcast_to(share[begin : begin + block_size, None], block.shape)[is_number]
        values = block[is_number].astype(np.float64)
        bins = ((values - low) * ((n_bins - 1) / max(high - low, 1e-30))).astype(np.int64)
        weights += np.bincount(bins, weights=weight, minlength=n_bins)
        totals += np.bincount(bins, weights=weight * values, minlength=n_bins)
    filled = weights > 0
    return totals[filled] / weights[filled], weights[filled]


def _sample_labels(
    true_labels: Rows, counts: I64, rng: np.random.Generator, *, max_positives: int = 4096, n_negatives: int = 2048
) -> tuple[I64, I64]:
    """Sample true labels and negatives, as a batch does; return them, ascending, and their counts."""
    positives = np.unique(true_labels.indices)
    positives = rng.choice(positives, min(max_positives, len(positives)), replace=False)
    negatives = rng.choice(len(counts), min(n_negatives, len(counts)), replace=False)
    labels = np.union1d(positives, negatives[counts[negatives] > 0]).astype(np.int64)
    return labels, counts[labels]


def _dots(sums: Rows, sample: Rows, threads: int) -> F32:
    """Multiply the sums of labels with points; return (labels, points)."""
    path = WidePath(sums.width, sums.indptr, sums.indices)
    path.weight.allocate(sums.data[:, None])
    postings = Slots(sample.width).transpose(sample)
    tile = np.zeros((len(sums), len(sample)), np.float32)
    touched = path.touch(np.arange(len(sums), dtype=np.int32), postings, Workspace(), threads)
    path.add_scores(touched, postings, tile, threads)
    return tile


def _leave_one_out_scores(dots: F64, added: F64, length: F64, counts: I64, config: WideConfig) -> F64:
    """Compute the leave-one-out scores of points for their true labels."""
    rest = np.sqrt(np.maximum(length**2 - 2 * dots + added, 1e-12))
    return np.asarray((dots - added) / rest * initial_norms(config, counts - 1), np.float64)


def _fit_factor(pairs: _ScoredPairs) -> float:
    """Fit a logistic regression with one factor and one bias; return the factor, at least 0."""
    x, weight = pairs.scores, pairs.weights
    is_positive = np.arange(len(x)) < pairs.n_positives

    def loss(fit: F64) -> LossTerms:
        z = fit[0] * x + fit[1]
        p = expit(z)
        g, h = weight * (p - is_positive), weight * p * (1 - p)
        # Sums instead of matrix products, whose last bits depend on the library's threads.
        hessian = np.array([[(h * x * x).sum(), (h * x).sum()], [(h * x).sum(), h.sum()]])
        value = (weight * np.logaddexp(0, np.where(is_positive, -z, z))).sum()
        return LossTerms(float(value), np.array([(g * x).sum(), g.sum()]), hessian)

    log_odds = np.log(weight[is_positive].sum() / max(weight[~is_positive].sum(), 1e-9))
    return max(float(newton(loss, np.array([0.0, log_odds]), 1e-9, max_steps=30)[0]), 0.0)
