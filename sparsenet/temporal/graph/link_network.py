"""A temporal graph network: embeddings, scores of links, and the gradient of a batch.

It is TGN-attn as in the example of PyTorch Geometric. The message of a node's newest link updates its memory by a gated
recurrent unit whenever the memory is read. A node attends to its last links; a link predictor scores two embeddings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsenet import kernels
from sparsenet.engines.network.training import DivergenceError
from sparsenet.kernels.types import F32, I32, I64, Arrays
from sparsenet.temporal.graph.graph_arrays import GraphArrays, Neighborhood
from sparsenet.temporal.graph.link_weights import HEADS

#: What to do about numbers that are not finite.
DIVERGED = "lower learning_rate, or look for extreme times in the log"


def product(
    a: F32,
    b: F32,
    threads: int,
    *,
    rows: I32 | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    out: F32 | None = None,
) -> F32:
    """Return ``op(a[rows]) @ op(b)``."""
    if out is None:
        m = a.shape[1] if transpose_a else len(a) if rows is None else len(rows)
        out = np.empty((m, len(b) if transpose_b else b.shape[1]), np.float32)
    kernels.matmul(a, b, out, rows, None, None, transpose_a, transpose_b, False, threads)
    return out


@dataclass(frozen=True, eq=False)
class Embedded:
    """Embeddings of seeds, and what their gradient needs.

    Attributes
    ----------
    embeddings : ndarray of shape (S, m + 1)
        The last column is 1.
    after : ndarray of shape (N, m + 1)
        The updated memory of the nodes, and 1.
    attention : dict
        The inputs of `sparsenet.kernels.attend_last`.
    """

    at: Neighborhood
    embeddings: F32
    after: F32
    messages: F32
    before: F32
    sines: F32
    gates: F32
    states: F32
    attention: dict[str, Any]
    attended_edges: F32
    attention_weights: F32


def embed(graph: GraphArrays, weights: Arrays, seeds: I32, keep: F32 | None, threads: int) -> Embedded:
    """Embed distinct, ascending nodes; `keep` (S, k, heads) multiplies attention, None for 1.

    Raises DivergenceError if the embeddings are not finite.
    """
    at = Neighborhood.of(graph, seeds)
    n, m = len(at.nodes), graph.memory.shape[1]
    messages = np.empty((n, len(weights["message_gates"])), np.float32)
    before, sines, after = (np.empty((n, width), np.float32) for width in (m + 1, m, m + 1))
    newest = (at.partners, at.newest_features, at.elapsed, weights["times"])
    kernels.message_rows(graph.memory, at.nodes, *newest, messages, before, sines, threads)
    gates = product(messages, weights["message_gates"], threads)
    states = product(before, weights["memory_gates"], threads)
    kernels.gru_rows(gates, states, before, after, threads)
    if keep is None:
        keep = np.ones((*at.links.shape, HEADS), np.float32)
    queries = np.empty((HEADS, len(seeds), m // HEADS), np.float32)
    edge_queries = np.empty((HEADS, len(seeds), weights["edge"].shape[1]), np.float32)
    for h in range(HEADS):
        product(after, weights["query"][h], threads, rows=at.seeds, out=queries[h])
        product(queries[h], weights["edge"][h], threads, transpose_b=True, out=edge_queries[h])
    attention = {
        "queries": queries,
        "edge_queries": edge_queries,
        "rows": product(after, weights["key_value"], threads),
        "links": at.links,
        "ages": at.ages,
        "features": at.features,
        "times": weights["times"],
        "keep": keep,
    }
    out, attended_edges = np.empty((len(seeds), m), np.float32), np.empty_like(edge_queries)
    attention_weights = np.empty_like(keep)
    kernels.attend_last(**attention, out=out, out_edges=attended_edges, out_weights=attention_weights, threads=threads)
    embeddings = np.ones((len(seeds), m + 1), np.float32)
    np.add(out, product(after, weights["skip"], threads, rows=at.seeds), out=embeddings[:, :m])
    for h in range(HEADS):
        embeddings[:, _head(h, m)] += product(attended_edges[h], weights["edge"][h], threads)
    if not np.isfinite(embeddings).all():
        raise DivergenceError(f"embeddings are no longer finite numbers: {DIVERGED}")
    return Embedded(
        at,
        embeddings,
        after,
        messages,
        before,
        sines,
        gates,
        states,
        attention,
        attended_edges,
        attention_weights,
    )


def _head(h: int, m: int) -> slice:
    return slice(h * m // HEADS, (h + 1) * m // HEADS)


def embed_gradient(found: Embedded, slopes: F32, weights: Arrays, gradients: Arrays, threads: int) -> None:
    """Write the gradients of all weights but the link predictor's; `slopes` (S, m) are the gradients of the embeddings.

    `found` is used up. As in PyTorch Geometric, no gradient flows into stored memory.
    """
    seeds, m = found.at.seeds, slopes.shape[1]
    edge_slopes, head_slopes = np.empty_like(found.attended_edges), []
    for h in range(HEADS):
        head_slopes.append(np.ascontiguousarray(slopes[:, _head(h, m)]))
        product(head_slopes[h], weights["edge"][h], threads, transpose_b=True, out=edge_slopes[h])
    of_queries, of_edge_queries = (np.empty_like(found.attention[name]) for name in ("queries", "edge_queries"))
    of_rows, of_times = np.empty_like(found.attention["rows"]), np.empty((len(seeds), 2, m), np.float32)
    kernels.attend_gradient(
        **found.attention,
        weights=found.attention_weights,
        slopes=slopes,
        edge_slopes=edge_slopes,
        out_queries=of_queries,
        out_edge_queries=of_edge_queries,
        out_rows=of_rows,
        out_times=of_times,
        threads=threads,
    )
    of_after = product(of_rows, weights["key_value"], threads, transpose_b=True)
    of_seeds = product(slopes, weights["skip"], threads, transpose_b=True)
    for h in range(HEADS):
        edge = product(found.attended_edges[h], head_slopes[h], threads, transpose_a=True)
        edge += product(of_edge_queries[h], found.attention["queries"][h], threads, transpose_a=True)
        gradients["edge"][h] = edge
        of_queries[h] += product(of_edge_queries[h], weights["edge"][h], threads)
        own = gradients["query"][h]
        product(found.after, of_queries[h], threads, rows=seeds, transpose_a=True, out=own)
        of_seeds += product(of_queries[h], weights["query"][h], threads, transpose_b=True)
    of_after[seeds] += of_seeds
    product(found.after, of_rows, threads, transpose_a=True, out=gradients["key_value"])
    product(found.after, slopes, threads, rows=seeds, transpose_a=True, out=gradients["skip"])
    kernels.gru_gradient(found.gates, found.states, found.before, of_after, threads)
    product(found.messages, found.gates, threads, transpose_a=True, out=gradients["message_gates"])
    product(found.before, found.states, threads, transpose_a=True, out=gradients["memory_gates"])
    gradients["times"][...] = of_times.sum(axis=0) + _message_times(found, weights, threads)


def _message_times(found: Embedded, weights: Arrays, threads: int) -> F32:
    """Return the gradient of the time encoding in messages."""
    last, m = len(weights["message_gates"]) - 1, found.sines.shape[1]
    of_angles = product(found.gates, weights["message_gates"][last - m : last], threads, transpose_b=True)
    of_angles *= -found.sines
    inputs = np.stack((found.at.elapsed, np.ones_like(found.at.elapsed)))
    return product(inputs, of_angles, threads)


# --- the link predictor ------------------------------------------------------------------------------------


def link_logits(embeddings: F32, weights: Arrays, sources: I32, targets: I32, threads: int) -> F32:
    """Score pairs of rows of embeddings (S, m + 1)."""
    return _score(_hidden(embeddings, weights, sources, targets, threads), weights, threads)


def _hidden(embeddings: F32, weights: Arrays, sources: I32, targets: I32, threads: int) -> F32:
    """Return the hidden units of pairs, rectified, and 1."""
    hidden = np.ones((len(sources), embeddings.shape[1]), np.float32)
    total = product(embeddings, weights["link_source"], threads, rows=sources)
    total += product(embeddings, weights["link_target"], threads, rows=targets)
    np.maximum(total, 0, out=hidden[:, :-1])
    return hidden


def _score(hidden: F32, weights: Arrays, threads: int) -> F32:
    return product(hidden, weights["link_output"], threads)[:, 0]


def rank_logits(embeddings: F32, weights: Arrays, sources: I32, targets: I32, threads: int) -> F32:
    """Score each source with each target: (sources, targets)."""
    own = product(embeddings, weights["link_source"], threads, rows=sources)
    other = product(embeddings, weights["link_target"], threads, rows=targets)
    output, found = weights["link_output"], np.empty((len(sources), len(targets)), np.float32)
    for i, row in enumerate(own):
        found[i] = product(np.maximum(other + row, 0), output[:-1], threads)[:, 0]
    found += output[-1]
    return found


def link_gradient(
    embeddings: F32, weights: Arrays, gradients: Arrays, sources: I32, targets: I32, threads: int
) -> tuple[float, F32]:
    """Return the cross-entropy of links and its gradient by embeddings (S, m); write the gradient of the weights.

    The first half of `targets` are the right ones, the second half negatives: the loss is the sum of both means.
    """
    n = len(sources)
    twice = np.concatenate((sources, sources))
    hidden = _hidden(embeddings, weights, twice, targets, threads)
    logits = _score(hidden, weights, threads)
    signs = np.repeat(np.array([-1, 1], np.float32), n)  # the loss is softplus(sign * logit)
    loss = float(np.logaddexp(0, signs * logits).sum(dtype=np.float64)) / n
    errors = (signs * (1 + np.tanh(signs * logits / 2)) / np.float32(2 * n))[:, None]
    product(hidden, errors, threads, transpose_a=True, out=gradients["link_output"])
    of_hidden = errors * weights["link_output"][:-1, 0]
    of_hidden[hidden[:, :-1] <= 0] = 0
    of_source = of_hidden[:n] + of_hidden[n:]
    product(embeddings, of_source, threads, rows=sources, transpose_a=True, out=gradients["link_source"])
    product(embeddings, of_hidden, threads, rows=targets, transpose_a=True, out=gradients["link_target"])
    slopes = _sum_rows(of_source, weights["link_source"], sources, len(embeddings), threads)
    slopes += _sum_rows(of_hidden, weights["link_target"], targets, len(embeddings), threads)
    return loss, slopes


def _sum_rows(of_outputs: F32, weight: F32, rows: I32, n: int, threads: int) -> F32:
    """Return the gradient by the inputs of a layer, summed by row of the embeddings."""
    order: Any = np.argsort(rows, kind="stable").astype(np.int32)
    starts: I64 = np.searchsorted(rows[order], np.arange(n + 1))
    sums = np.empty((n, of_outputs.shape[1]), np.float32)
    kernels.csr_matmul(starts, order, np.ones(len(order), np.float32), of_outputs, sums, threads)
    return product(sums, weight[:-1], threads, transpose_b=True)
