"""Learn a batch of links: a step on the weights, then memory and neighbors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sparsenet.engines.network.training import DivergenceError
from sparsenet.kernels.types import F32, F64, I32
from sparsenet.temporal.graph.graph_arrays import GraphArrays
from sparsenet.temporal.graph.link_network import DIVERGED, Embedded, embed, embed_gradient, link_gradient
from sparsenet.temporal.graph.link_weights import HEADS, LinkWeights


@dataclass(frozen=True, eq=False)
class LinkBatch:
    """Links of a batch, by node."""

    sources: I32
    targets: I32
    times: F64
    features: F32

    def __len__(self) -> int:
        return len(self.sources)


def train_batch(
    graph: GraphArrays,
    weights: LinkWeights,
    batch: LinkBatch,
    negatives: I32,
    rng: np.random.Generator,
    dropout: float,
    rate: float,
    threads: int,
) -> float:
    """Take a step on the links of a batch with one negative target each, then learn the links; return the loss.

    Raises DivergenceError, and changes nothing, if the loss or the squares of the gradient are not finite.
    """
    seeds, rows = np.unique(np.concatenate((batch.sources, batch.targets, negatives)), return_inverse=True)
    row: I32 = rows.astype(np.int32)
    n, shape = len(batch), (len(seeds), graph.neighbors.shape[1], HEADS)
    keep: F32 = (rng.random(shape, np.float32) >= dropout).astype(np.float32) / np.float32(1 - dropout)
    views = weights.views()
    found = embed(graph, views, seeds, keep, threads)
    flat = np.zeros_like(weights.flat)
    gradients = weights.views(flat)
    loss, slopes = link_gradient(found.embeddings, views, gradients, row[:n], row[n:], threads)
    embed_gradient(found, slopes, views, gradients, threads)
    if not math.isfinite(loss + float(np.vdot(flat, flat))):
        raise DivergenceError(f"training diverged: the loss is {loss}: {DIVERGED}")
    learn_links(graph, batch, found)
    weights.step(flat, rate, threads)
    return loss


def learn_links(graph: GraphArrays, batch: LinkBatch, found: Embedded) -> None:
    """Keep the updated memory of the nodes of a batch, which `found` embeds, and add the links."""
    nodes = np.unique(np.concatenate((batch.sources, batch.targets)))
    rows = np.searchsorted(found.at.nodes, nodes)
    graph.memory[nodes] = found.after[rows, :-1]
    graph.updated[nodes] = found.at.newest[rows]
    graph.remember(batch.sources, batch.targets, batch.times, batch.features)
