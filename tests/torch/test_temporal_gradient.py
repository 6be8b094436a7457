"""The gradient of a temporal graph network equals that of PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparsenet.temporal.graph.graph_arrays import GraphArrays
from sparsenet.temporal.graph.link_network import embed, embed_gradient, link_gradient
from sparsenet.temporal.graph.link_training import LinkBatch, train_batch
from sparsenet.temporal.graph.link_weights import HEADS, LinkShape, LinkWeights

torch = pytest.importorskip("torch")

N_NODES, MEMORY, K = 40, 20, 4


def trained_graph(features: int) -> tuple[GraphArrays, LinkWeights]:
    rng = np.random.default_rng(0)
    graph, weights = GraphArrays.blank(N_NODES, MEMORY, K, features), LinkWeights.random(LinkShape(MEMORY, features), 0)
    for step in range(10):
        sources, targets, negatives = rng.integers(0, N_NODES - 3, (3, 12)).astype(np.int32)
        times = 100.0 * step + np.sort(rng.integers(0, 100, 12))
        batch = LinkBatch(sources, targets, times, rng.normal(size=(12, features)).astype(np.float32))
        train_batch(graph, weights, batch, negatives, rng, 0.1, 0.001, 1)
    return graph, weights


def linear(x: Any, weight: Any) -> Any:
    return x @ weight[:-1] + weight[-1]


def loss_of(weights: dict[str, Any], graph: GraphArrays, nodes: Any, keep: Any, pairs: Any) -> Any:
    """Compute the loss with the cell of PyTorch; `nodes` are the seeds, and `pairs` rows of these."""
    every = np.arange(N_NODES)
    newest = (graph.counts - 1) % K
    times = torch.tensor(graph.neighbor_times[every, newest])
    memory, partners = torch.tensor(graph.memory).double(), torch.tensor(graph.neighbors[every, newest]).long()
    encode = lambda elapsed: torch.cos(elapsed[..., None] * weights["times"][0] + weights["times"][1])  # noqa: E731
    given = torch.tensor(graph.neighbor_features[every, newest]).double()
    encoded = encode(times - torch.tensor(graph.updated))
    messages = torch.cat([memory, memory[partners], given, encoded], dim=1) * (partners >= 0)[:, None]
    cell = torch.nn.GRUCell(messages.shape[1], MEMORY).double()
    named = {"weight_ih": "message_gates", "weight_hh": "memory_gates", "bias_ih": "message_gates"}
    named["bias_hh"] = "memory_gates"
    parts = {name: weights[own][:-1].T if "weight" in name else weights[own][-1] for name, own in named.items()}
    after = torch.func.functional_call(cell, parts, (messages, memory))
    links = torch.tensor(graph.neighbors[nodes]).long()
    ages = times[links] - torch.tensor(graph.neighbor_times[nodes])
    edges = torch.cat([encode(ages), torch.tensor(graph.neighbor_features[nodes]).double()], dim=2)
    own, found = after[nodes], []
    key, value = linear(after, weights["key_value"]).chunk(2, dim=1)
    for h, columns in enumerate(np.split(np.arange(MEMORY), HEADS)):
        of_edges = edges @ weights["edge"][h]
        query = linear(own, weights["query"][h])[:, None]
        scores = (query * (key[links][:, :, columns] + of_edges)).sum(dim=2) / np.sqrt(MEMORY // HEADS)
        shares = torch.nan_to_num(torch.softmax(scores.masked_fill(links < 0, -torch.inf), dim=1)) * keep[:, :, h]
        found.append((shares[:, :, None] * (value[links][:, :, columns] + of_edges)).sum(dim=1))
    embedded = torch.cat(found, dim=1) + linear(own, weights["skip"])
    sources, targets, negatives = pairs
    loss, criterion = 0, torch.nn.BCEWithLogitsLoss()
    for others, right in ((targets, 1.0), (negatives, 0.0)):
        hidden = linear(embedded[sources], weights["link_source"]) + linear(embedded[others], weights["link_target"])
        logits = linear(hidden.relu(), weights["link_output"])[:, 0]
        loss = loss + criterion(logits, torch.full_like(logits, right))
    return loss


@pytest.mark.parametrize("features", [0, 3])
def test_loss_and_gradient_equal_pytorch(features: int) -> None:
    graph, weights = trained_graph(features)
    rng = np.random.default_rng(1)
    pairs = rng.integers(0, N_NODES, (3, 15)).astype(np.int32)
    nodes, places = np.unique(pairs, return_inverse=True)
    rows = places.astype(np.int32).reshape(3, 15)
    keep = ((rng.random((len(nodes), K, HEADS)) < 0.9) / 0.9).astype(np.float32)
    views, flat = weights.views(), np.zeros_like(weights.flat)
    gradients = weights.views(flat)
    found = embed(graph, views, nodes, keep, 1)
    loss, slopes = link_gradient(found.embeddings, views, gradients, rows[0], np.concatenate(rows[1:]), 1)
    embed_gradient(found, slopes, views, gradients, 1)
    leaves = {name: torch.tensor(view).double().requires_grad_() for name, view in views.items()}
    wanted = loss_of(leaves, graph, nodes, torch.tensor(keep).double(), [torch.tensor(row).long() for row in rows])
    wanted.backward()
    assert loss == pytest.approx(wanted.item(), abs=1e-6)
    for name, leaf in leaves.items():
        scale = max(float(leaf.grad.abs().max()), 1e-3)
        np.testing.assert_allclose(gradients[name] / scale, leaf.grad.numpy() / scale, atol=2e-4, err_msg=name)
