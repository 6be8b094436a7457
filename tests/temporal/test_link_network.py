"""The network of a temporal graph: losses and gradients against float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparsenet.temporal.graph.graph_arrays import GraphArrays
from sparsenet.temporal.graph.link_network import embed, embed_gradient, link_gradient, link_logits, rank_logits
from sparsenet.temporal.graph.link_training import LinkBatch, train_batch
from sparsenet.temporal.graph.link_weights import HEADS, LinkShape, LinkWeights
from tests.support.graph_reference import double, network_loss

N_NODES = 9


def batch_of(n: int, seed: int, features: int = 2, first: float = 0) -> LinkBatch:
    rng = np.random.default_rng(seed)
    sources, targets = rng.integers(0, N_NODES - 2, (2, n)).astype(np.int32)  # two nodes never have a link
    times = first + np.sort(rng.integers(0, 50, n)).astype(np.float64)
    return LinkBatch(sources, targets, times, rng.normal(size=(n, features)).astype(np.float32))


def trained(features: int = 2, memory: int = 6, steps: int = 6, threads: int = 1) -> tuple[GraphArrays, LinkWeights]:
    graph = GraphArrays.blank(N_NODES, memory, 3, features)
    weights = LinkWeights.random(LinkShape(memory, features), 0)
    rng = np.random.default_rng(0)
    for step in range(steps):
        batch = batch_of(8, step, features, 50.0 * step)
        negatives = rng.integers(0, N_NODES, 8).astype(np.int32)
        train_batch(graph, weights, batch, negatives, rng, 0.1, 0.01, threads)
    return graph, weights


@pytest.mark.parametrize("features", [0, 2])
def test_loss_and_gradient_equal_the_reference(features: int) -> None:
    graph, weights = trained(features)
    rng = np.random.default_rng(1)
    sources, targets, negatives = (np.int32(nodes) for nodes in ([0, 3, 3, 5], [1, 4, 3, 0], [8, 2, 7, 1]))
    seeds, rows = np.unique(np.concatenate((sources, targets, negatives)), return_inverse=True)
    rows = rows.astype(np.int32)
    keep = ((rng.random((len(seeds), 3, HEADS)) < 0.8) / 0.8).astype(np.float32)
    views = weights.views()
    found = embed(graph, views, seeds, keep, 1)
    flat = np.full_like(weights.flat, np.nan)
    gradients = weights.views(flat)
    loss, slopes = link_gradient(found.embeddings, views, gradients, rows[:4], rows[4:], 1)
    embed_gradient(found, slopes, views, gradients, 1)
    exact = double(views)
    arguments = (graph, keep.astype(np.float64), seeds, sources, targets, negatives)
    assert loss == pytest.approx(network_loss(exact, *arguments), abs=1e-5)
    for name, gradient in gradients.items():
        for _ in range(8):
            at = tuple(rng.integers(0, extent) for extent in gradient.shape)
            wanted = slope_at(exact, name, at, arguments)
            assert gradient[at] == pytest.approx(wanted, rel=2e-3, abs=2e-5), (name, at)
    used = sum(gradient.size for gradient in gradients.values())
    assert np.isfinite(flat.ravel()[:used]).all()


def slope_at(weights: dict[str, Any], name: str, at: tuple[int, ...], arguments: Any, step: float = 1e-6) -> float:
    """Differentiate the loss by one weight."""
    losses = []
    for change in (step, -step):
        moved = weights[name].copy()
        moved[at] += change
        losses.append(network_loss({**weights, name: moved}, *arguments))
    return (losses[0] - losses[1]) / (2 * step)


def test_ranking_scores_each_pair() -> None:
    graph, weights = trained()
    views = weights.views()
    embeddings = embed(graph, views, np.arange(N_NODES, dtype=np.int32), None, 1).embeddings
    sources, targets = np.int32([0, 3]), np.int32([1, 2, 8])
    found = rank_logits(embeddings, views, sources, targets, 1)
    for i, source in enumerate(sources):
        own = link_logits(embeddings, views, np.full(3, source), targets, 1)
        np.testing.assert_allclose(found[i], own, rtol=1e-5, atol=1e-6)


def test_training_does_not_depend_on_threads() -> None:
    alone, several = trained(threads=1), trained(threads=4)
    assert alone[1].flat.tobytes() == several[1].flat.tobytes()
    for name, array in vars(alone[0]).items():
        assert array.tobytes() == getattr(several[0], name).tobytes(), name


def test_learns_who_links_to_whom() -> None:
    graph = GraphArrays.blank(12, 16, 4, 0)
    weights, rng, losses = LinkWeights.random(LinkShape(16, 0), 0), np.random.default_rng(0), []
    for step in range(300):
        sources = rng.integers(0, 6, 5).astype(np.int32)
        times = np.full(5, float(step))
        batch = LinkBatch(sources, sources + np.int32(6), times, np.zeros((5, 0), np.float32))
        negatives = rng.integers(6, 12, 5).astype(np.int32)
        losses.append(train_batch(graph, weights, batch, negatives, rng, 0.0, 0.003, 1))
    assert np.mean(losses[:20]) > 1.3
    assert np.mean(losses[-100:]) < 0.75  # one negative in six is right
