"""Turn a network's scores into probabilities, without an n x L matrix unless dense output is requested."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.memory import check_cells
from sparsenet.core.ranked import best_first
from sparsenet.core.rows import Rows
from sparsenet.engines.network.losses import SampledSoftmax, gives_log_odds
from sparsenet.engines.network.model import Network
from sparsenet.kernels.types import F32, I32


def topk(network: Network, features: Rows, k: int, threads: int) -> tuple[I32, F32]:
    """Return the k best labels of each point and their probabilities, (n, k) each, best first."""
    labels, scores = network.topk(features, k, threads)
    if isinstance(network.output.loss, SampledSoftmax):
        scores -= network.log_totals(features, threads)[:, None]
        return labels, np.exp(scores)
    return labels, network.output.loss.probabilities(scores)


def topk_among(
    network: Network, features: Rows, labels: I32, k: int, threads: int, *, cells: int = 1 << 22
) -> tuple[I32, F32]:
    """Score only the given labels; return the k best of them for each point and their probabilities, best first.

    A block of points has at most `cells` scores.
    """
    best, scores = np.empty((len(features), k), np.int32), np.empty((len(features), k), np.float32)
    done = 0
    for block in features.blocks(max(1, cells // len(labels))):
        own, candidates = slice(done, done + len(block)), np.tile(labels, (len(block), 1))
        found = network.scores_of(block, candidates, threads)
        best[own], scores[own] = best_first(found, k, candidates, found)
        done = own.stop
    if isinstance(network.output.loss, SampledSoftmax):
        return best, np.exp(scores - network.log_totals(features, threads)[:, None])
    return best, network.output.loss.probabilities(scores)


def log_probabilities(network: Network, features: Rows, labels: I32, threads: int) -> F32:
    """Return the log probabilities of the candidate `labels` of each point, (n, c)."""
    scores, loss = network.scores_of(features, labels, threads), network.output.loss
    if isinstance(loss, SampledSoftmax):
        return scores - network.log_totals(features, threads)[:, None]
    return np.log(np.maximum(loss.probabilities(scores), np.finfo(np.float32).tiny))


def dense_scores(network: Network, features: Rows, threads: int, *, few_points: int = 2) -> F32:
    """Return the score of every label, (n, n_labels); raise ValueError if that is too large.

    Up to `few_points`, scoring by feature and sorting is faster than scoring in blocks of labels.
    """
    n_labels = network.output.n_labels
    check_cells(len(features), n_labels)
    if len(features) > few_points:
        return network.all_scores(features, threads)
    labels, ordered = network.topk(features, n_labels, threads)
    scores = np.empty_like(ordered)
    np.put_along_axis(scores, labels.astype(np.int64), ordered, axis=1)
    return scores


def dense_probabilities(network: Network, scores: F32, *, exclusive: bool) -> F32:
    """Turn the scores of all labels into probabilities; with `exclusive`, each row sums to one."""
    loss = network.output.loss
    if not gives_log_odds(loss) or not exclusive:
        p = loss.probabilities(scores)
        return np.asarray(p / p.sum(axis=1, keepdims=True)) if exclusive else p
    # In logarithms: a row of improbable labels must not divide by zero or lose its order.
    logs = _log_sigmoid(scores)
    p64 = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(p64 / p64.sum(axis=1, keepdims=True), np.float32)


def scores_of(network: Network, p: F32) -> F32:
    """Return the scores that correspond to the probabilities `p`."""
    p64 = np.clip(p, np.finfo(np.float32).tiny, 1 - np.finfo(np.float32).epsneg).astype(np.float64)
    logs = np.log(p64)
    return np.asarray(logs - np.log1p(-p64) if gives_log_odds(network.output.loss) else logs, np.float32)


def log_odds(network: Network, scores: F32) -> F32:
    """Return the log-odds of the second of two classes against the first, (n,)."""
    logs = _log_sigmoid(scores) if gives_log_odds(network.output.loss) else scores
    return np.asarray(logs[:, 1] - logs[:, 0], np.float32)


def _log_sigmoid(scores: F32) -> NDArray[np.float64]:
    return np.asarray(-np.logaddexp(0.0, -scores.astype(np.float64)))
