"""Combine tree, network and neighbors by three weights, and turn the sum into probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, softmax

from sparsenet.core.ranked import best_first
from sparsenet.engines.blend.blend_holdout import mean_precision
from sparsenet.engines.blend.candidates import Candidates
from sparsenet.features.label_stats import log_counts
from sparsenet.kernels.types import F32, F64, I32, I64, Bools
from sparsenet.metrics.ranking import RANKS
from sparsenet.selection.newton import logistic_loss, newton, softmax_loss

#: The weights of tree, network and neighbors for all data (bench/notes/blends.md).
WEIGHTS = (0.5, 0.5, 2.2)
#: Weights without a network: the tree's probability replaces the network's in `Candidates.shares`.
WITHOUT_NETWORK = (1.0, 0.0, 2.0)
#: Slope, shift, fall and count weight of probabilities without a hold-out, and the prior mean with one.
DEFAULT_CURVE = (1.0, 0.0, 0.3, 0.0)
#: Slope and temperature are at least this: negative ones would reverse the order, and columns without a candidate would
#: have a probability.
FLATTEST = 1e-3
#: The score of a column without a candidate.
LOWEST = np.float32(-1e6)


@dataclass(frozen=True)
class Combination:
    """Weights of the features, and the curve from scores to probabilities.

    Attributes
    ----------
    weights : of tree, network and neighbors; a score is the weighted sum of `Candidates.features`.
    slope, shift, fall, count_weight : the logit of a label's probability is ``slope * score + shift - fall * log(rank)
        + count_weight * log(count)``, and never above the logit of the label before it. At equal scores, a first label
        is more probable than a second one.
    temperature : factor of the scores in a softmax over the candidates of a point with one label.
    """

    weights: tuple[float, float, float] = WEIGHTS
    slope: float = DEFAULT_CURVE[0]
    shift: float = DEFAULT_CURVE[1]
    fall: float = DEFAULT_CURVE[2]
    count_weight: float = DEFAULT_CURVE[3]
    temperature: float = 1.0

    def rank(self, candidates: Candidates, n: int, label_counts: I64) -> tuple[I32, F32]:
        """Return the n best candidates of each point and their scores, best first."""
        scores = self.scores(candidates)
        labels, scores = best_first(scores, n, candidates.labels, scores)
        return labels, scores

    def without_neighbors(self) -> Combination:
        """Return the fixed weights: nothing was fitted to candidates without neighbors."""
        return Combination()

    def scores(self, candidates: Candidates) -> F32:
        """Return the score of each candidate, (n, c)."""
        tree, network, neighbors = (np.float32(weight) for weight in self.weights)
        scores = neighbors * candidates.shares + network * candidates.log_probabilities - tree * candidates.penalties
        return np.where(candidates.valid, np.maximum(scores, LOWEST), LOWEST)

    def probabilities(self, scores: F32, counts: I64) -> F32:
        """Return the probability of each label by itself.

        Parameters
        ----------
        scores, counts : (n, k)
            The best scores of each point, in order, and the number of training points of these labels.
        """
        logits = np.float32(self.slope) * scores + np.float32(self.shift)
        logits += np.float32(self.count_weight) * log_counts(counts).astype(np.float32)
        logits -= np.float32(self.fall) * np.log(np.arange(1, scores.shape[1] + 1, dtype=np.float32))
        return np.asarray(expit(np.minimum.accumulate(logits, axis=1)))

    def exclusive_probabilities(self, scores: F32) -> F32:
        """Return probabilities that sum to one, for points with exactly one label."""
        return np.asarray(softmax(np.float32(self.temperature) * scores, axis=1))

    def calibrated(
        self, candidates: Candidates, hits: Bools, label_counts: I64, *, n_ranks: int = 5, precision: float = 1.0
    ) -> Combination:
        """Fit the curve and the temperature to the `n_ranks` best candidates of held-out points.

        The prior mean is `DEFAULT_CURVE`, with this `precision`.
        """
        all_scores = self.scores(candidates)
        scores, right, labels = best_first(all_scores, n_ranks, all_scores, hits, candidates.labels)
        ranks = np.broadcast_to(-np.log(np.arange(1, scores.shape[1] + 1)), scores.shape)
        logs, is_candidate = log_counts(label_counts[labels]), scores > LOWEST
        x = np.stack((scores, np.ones_like(scores), ranks, logs), axis=-1)[is_candidate].astype(np.float64)
        prior_mean, found = np.array(DEFAULT_CURVE), right[is_candidate]
        slope, *others = newton(logistic_loss(x, found), prior_mean, precision)
        if slope < FLATTEST:
            flat = logistic_loss(x[:, 1:], found, offset=FLATTEST * x[:, 0])
            slope, others = FLATTEST, [*newton(flat, prior_mean[1:], precision)]
        has_one = hits.sum(axis=1) == 1
        exact = all_scores[has_one].astype(np.float64)[..., None]
        temperature = newton(softmax_loss(exact, hits[has_one]), np.ones(1), precision)[0] if has_one.any() else 1.0
        curve = (round(float(number), 4) for number in (slope, *others, max(temperature, FLATTEST)))
        return Combination(self.weights, *curve)


def fit_weights(candidates: Candidates, hits: Bools, prior: Combination, *, precision: float = 100.0) -> Combination:
    """Fit the weights by a softmax over each held-out point's candidates, with a Gaussian prior at `prior.weights`.

    The precision is in the scale of a log-likelihood summed over points.
    """
    some = hits.any(axis=1)
    x = candidates.features[some].astype(np.float64)
    x[~candidates.valid[some]] = (float(LOWEST), 0.0, 0.0)
    weights = newton(softmax_loss(x, hits[some]), np.array(prior.weights), precision)
    tree, network, neighbors = (round(max(float(weight), 0.0), 4) for weight in weights)
    return replace(prior, weights=(tree, network, neighbors))


def cross_fitted(found: Candidates, hits: Bools, prior: Combination, halves: Bools) -> F64:
    """Return each point's precision by weights that are fitted to the other half of the points."""
    out = np.empty(len(hits))
    for own in (halves, ~halves):
        fit_on, rest = found.take(~own), found.take(own)
        out[own] = precision_of(fit_weights(fit_on, hits[~own], prior), rest, hits[own])
    return out


def precision_of(combination: Combination, found: Candidates, hits: Bools, ranks: Sequence[int] = RANKS) -> F64:
    """Return the mean of P@k over the ranks k, for each point."""
    scores = combination.scores(found)
    order = np.argsort(-scores, axis=1, kind="stable")[:, : max(ranks)]
    return mean_precision(np.take_along_axis(hits, order, axis=1), ranks)
