"""The kernels of a temporal graph network in NumPy and float64, and inputs for them."""

from __future__ import annotations

from typing import Any

import numpy as np

Arrays = dict[str, Any]


def messages(memory: Any, nodes: Any, partners: Any, features: Any, elapsed: Any, times: Any) -> Arrays:
    angles = elapsed[:, None] * times[0] + times[1]
    ones = np.ones((len(nodes), 1))
    known = (partners >= 0)[:, None]
    found = np.hstack((memory[nodes], memory[partners], features, np.cos(angles))) * known
    return {
        "out_messages": np.hstack((found, ones)),
        "out_states": np.hstack((memory[nodes], ones)),
        "out_sines": np.sin(angles) * known,
    }


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def gru(gates: Any, states: Any, before: Any) -> Any:
    (reset, update, proposal), (of_reset, of_update, of_proposal) = np.split(gates, 3, 1), np.split(states, 3, 1)
    update = sigmoid(update + of_update)
    proposal = np.tanh(proposal + sigmoid(reset + of_reset) * of_proposal)
    after = (1 - update) * proposal + update * before[:, :-1]
    return np.hstack((after, np.ones((len(after), 1))))


def attend(
    queries: Any, edge_queries: Any, rows: Any, links: Any, ages: Any, features: Any, times: Any, keep: Any
) -> Arrays:
    heads, seeds, channels = queries.shape
    keys, values = rows.reshape(len(rows), 2, heads, channels).transpose(1, 0, 2, 3)
    encoded = np.concatenate((np.cos(ages[:, :, None] * times[0] + times[1]), features), axis=2)
    scores = np.einsum("hsc,skhc->skh", queries, keys[links]) + np.einsum("hse,ske->skh", edge_queries, encoded)
    known = (links >= 0)[:, :, None]
    scores = np.where(known, scores / np.sqrt(channels), -np.inf)
    highest = scores.max(axis=1, keepdims=True)
    weights = np.where(known, np.exp(scores - np.where(np.isfinite(highest), highest, 0)), 0)
    weights = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
    kept = weights * keep
    return {
        "out": np.einsum("skh,skhc->shc", kept, values[links]).reshape(seeds, heads * channels),
        "out_edges": np.einsum("skh,ske->hse", kept, encoded),
        "out_weights": weights,
    }


def network_loss(
    weights: Arrays, graph: Any, keep: Any, seeds: Any, sources: Any, targets: Any, negatives: Any
) -> float:
    """Compute the loss of a batch from the state of a graph, link by link."""
    heads, n = keep.shape[2], len(graph)
    newest = (graph.counts - 1) % graph.neighbors.shape[1]
    every = np.arange(n)
    times = graph.neighbor_times[every, newest]
    given = messages(
        graph.memory,
        every,
        graph.neighbors[every, newest],
        graph.neighbor_features[every, newest],
        times - graph.updated,
        weights["times"],
    )
    gates, states = given["out_messages"] @ weights["message_gates"], given["out_states"] @ weights["memory_gates"]
    after = gru(gates, states, given["out_states"])
    queries = np.stack([after[seeds] @ weights["query"][h] for h in range(heads)])
    links = graph.neighbors[seeds]
    found = attend(
        queries,
        np.stack([queries[h] @ weights["edge"][h].T for h in range(heads)]),
        after @ weights["key_value"],
        links,
        np.where(links >= 0, times[links] - graph.neighbor_times[seeds], 0),
        graph.neighbor_features[seeds],
        weights["times"],
        keep,
    )
    edges = np.hstack([found["out_edges"][h] @ weights["edge"][h] for h in range(heads)])
    embeddings = np.zeros((n, after.shape[1]))
    embeddings[seeds] = np.hstack((found["out"] + edges + after[seeds] @ weights["skip"], np.ones((len(seeds), 1))))
    loss = 0.0
    for others, sign in ((targets, -1), (negatives, 1)):
        hidden = embeddings[sources] @ weights["link_source"] + embeddings[others] @ weights["link_target"]
        logits = np.hstack((np.maximum(hidden, 0), np.ones((len(sources), 1)))) @ weights["link_output"]
        loss += float(np.mean(np.logaddexp(0, sign * logits)))
    return loss


def normal(rng: np.random.Generator, *shape: int) -> Any:
    return rng.normal(size=shape).astype(np.float32)


def message_inputs(n: int = 37, m: int = 6, f: int = 2, t: int = 5, seed: int = 0) -> Arrays:
    rng = np.random.default_rng(seed)
    return {
        "memory": normal(rng, 9, m),
        "nodes": rng.integers(0, 9, n).astype(np.int32),
        "partners": rng.integers(-1, 9, n).astype(np.int32),
        "features": normal(rng, n, f),
        "elapsed": (rng.exponential(100, n)).astype(np.float32),
        "times": normal(rng, 2, t),
    }


def gru_inputs(n: int = 37, m: int = 6, seed: int = 0) -> Arrays:
    rng = np.random.default_rng(seed)
    return {"gates": normal(rng, n, 3 * m), "states": normal(rng, n, 3 * m), "before": normal(rng, n, m + 1)}


def attention_inputs(
    seeds: int = 21, rows: int = 13, heads: int = 2, channels: int = 5, k: int = 4, f: int = 3, t: int = 6
) -> Arrays:
    rng = np.random.default_rng(seeds)
    links = rng.integers(-1, rows, (seeds, k)) if rows else np.full((seeds, k), -1)
    links[:1] = -1  # a seed without links
    return {
        "queries": normal(rng, heads, seeds, channels),
        "edge_queries": normal(rng, heads, seeds, t + f),
        "rows": normal(rng, rows, 2 * heads * channels),
        "links": links.astype(np.int32),
        "ages": rng.exponential(10, (seeds, k)).astype(np.float32),
        "features": normal(rng, seeds, k, f),
        "times": normal(rng, 2, t),
        "keep": ((rng.random((seeds, k, heads)) < 0.8) / 0.8).astype(np.float32),
    }


def double(inputs: Arrays) -> Arrays:
    return {name: x.astype(np.float64) if x.dtype == np.float32 else x for name, x in inputs.items()}


def slope_of(function: Any, inputs: Arrays, name: str, step: float = 1e-6) -> Any:
    """Differentiate a scalar function of named arrays by central differences."""
    found = np.zeros(inputs[name].shape)
    for at in np.ndindex(found.shape):
        moved = []
        for change in (step, -step):
            array = inputs[name].copy()
            array[at] += change
            moved.append(function(**{**inputs, name: array}))
        found[at] = (moved[0] - moved[1]) / (2 * step)
    return found
