"""Attention over the last links of nodes and its gradient, in Numba."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from sparsenet.kernels.numba.numba_common import checked, jit, parallel_for
from sparsenet.kernels.numba.numba_graph import angle_of, require_rates
from sparsenet.kernels.types import F32, I32, I64

_ONE = np.float32(1)


class LastLinks(NamedTuple):
    """The inputs of attention, with rows as (N, 2, H, c)."""

    queries: F32
    edge_queries: F32
    rows: F32
    links: I32
    ages: F32
    features: F32
    times: F32
    keep: F32

    @classmethod
    def of(cls, *arrays: Any) -> LastLinks:
        """Check extents that are sums and products of others."""
        queries, edge_queries, rows, links, ages, features, times, keep = arrays
        heads, _, channels = queries.shape
        require_rates(times)
        if rows.shape[1] != 2 * heads * channels:
            raise ValueError(f"rows has shape[1] = {rows.shape[1]}, expected {2 * heads * channels}")
        if edge_queries.shape[2] != times.shape[1] + features.shape[2]:
            wanted = f"{times.shape[1] + features.shape[2]} (times and features)"
            raise ValueError(f"edge_queries has shape[2] = {edge_queries.shape[2]}, expected {wanted}")
        rows = rows.reshape(len(rows), 2, heads, channels)
        return cls(queries, edge_queries, rows, links, ages, features, times, keep)


_LINKS = {
    "queries": "f32 H S c",
    "edge_queries": "f32 H S e",
    "rows": "f32 N _",
    "links": "i32 S k",
    "ages": "f32 S k",
    "features": "f32 S k f",
    "times": "f32 two t",
    "keep": "f32 S k H",
}


@checked(**_LINKS, out="out f32 S d", out_edges="out f32 H S e", out_weights="out f32 S k H")
def attend_last(
    queries: F32,
    edge_queries: F32,
    rows: F32,
    links: I32,
    ages: F32,
    features: F32,
    times: F32,
    keep: F32,
    out: F32,
    out_edges: F32,
    out_weights: F32,
    threads: int,
) -> None:
    """See `sparsenet/_core.pyi`."""
    inputs = LastLinks.of(queries, edge_queries, rows, links, ages, features, times, keep)
    _require_values("out", out, inputs)
    by_head = out.reshape(len(out), len(queries), queries.shape[2])
    parallel_for(_attend_last, len(out), threads, inputs, by_head, out_edges, out_weights, grain=16)


def _require_values(name: str, values: F32, inputs: LastLinks) -> None:
    width = len(inputs.queries) * inputs.queries.shape[2]
    if values.shape[1] != width:
        raise ValueError(f"{name} has shape[1] = {values.shape[1]}, expected {width} (values of each head)")


@jit
def _encode(inputs: LastLinks, s: int, edges: F32, sines: F32) -> None:
    """Encode the links of a seed: time and features."""
    t = inputs.times.shape[1]
    for j in range(inputs.links.shape[1]):
        if inputs.links[s, j] < 0:
            continue
        for i in range(t):
            angle = angle_of(inputs.times[0, i], inputs.ages[s, j], inputs.times[1, i])
            edges[j, i] = math.cos(np.float64(angle))
            sines[j, i] = math.sin(np.float64(angle))
        edges[j, t:] = inputs.features[s, j]


@jit
def _dot(x: F32, y: F32) -> np.float32:
    total = np.float32(0)
    for i in range(x.size):
        total += x[i] * y[i]
    return total


@jit
def _add_scaled(factor: np.float32, x: F32, sums: F32) -> None:
    for i in range(x.size):
        sums[i] += factor * x[i]


@jit
def _attend_last(first: int, last: int, inputs: LastLinks, out: F32, out_edges: F32, weights: F32) -> None:
    n_links, e = inputs.links.shape[1], inputs.edge_queries.shape[2]
    scale = _ONE / np.float32(math.sqrt(inputs.queries.shape[2]))
    edges, sines = np.empty((n_links, e), np.float32), np.empty((n_links, inputs.times.shape[1]), np.float32)
    for s in range(first, last):
        _encode(inputs, s, edges, sines)
        weights[s] = 0
        out[s] = 0
        for h in range(len(inputs.queries)):
            out_edges[h, s] = 0
            highest, total = np.float32(-np.inf), np.float32(0)
            for j in range(n_links):
                row = inputs.links[s, j]
                if row >= 0:
                    score = _dot(inputs.queries[h, s], inputs.rows[row, 0, h])
                    score += _dot(inputs.edge_queries[h, s], edges[j])
                    weights[s, j, h] = scale * score
                    highest = max(highest, weights[s, j, h])
            for j in range(n_links):
                if inputs.links[s, j] >= 0:
                    weights[s, j, h] = math.exp(weights[s, j, h] - highest)
                    total += weights[s, j, h]
            for j in range(n_links):
                row = inputs.links[s, j]
                if row >= 0:
                    weights[s, j, h] /= total
                    weight = weights[s, j, h] * inputs.keep[s, j, h]
                    _add_scaled(weight, inputs.rows[row, 1, h], out[s, h])
                    _add_scaled(weight, edges[j], out_edges[h, s])


@checked(
    **_LINKS,
    weights="f32 S k H",
    slopes="f32 S d",
    edge_slopes="f32 H S e",
    out_queries="out f32 H S c",
    out_edge_queries="out f32 H S e",
    out_rows="out f32 N _",
    out_times="out f32 S two t",
)
def attend_gradient(
    queries: F32,
    edge_queries: F32,
    rows: F32,
    links: I32,
    ages: F32,
    features: F32,
    times: F32,
    keep: F32,
    weights: F32,
    slopes: F32,
    edge_slopes: F32,
    out_queries: F32,
    out_edge_queries: F32,
    out_rows: F32,
    out_times: F32,
    threads: int,
) -> None:
    """See `sparsenet/_core.pyi`."""
    inputs = LastLinks.of(queries, edge_queries, rows, links, ages, features, times, keep)
    _require_values("slopes", slopes, inputs)
    if out_rows.shape != rows.shape:
        raise ValueError(f"out_rows has shape {out_rows.shape}, expected {rows.shape}")
    by_head = slopes.reshape(len(slopes), len(queries), queries.shape[2])
    scores = np.zeros_like(weights)
    outputs = (out_queries, out_edge_queries, out_times, scores)
    parallel_for(_attend_gradient, len(slopes), threads, inputs, weights, by_head, edge_slopes, *outputs, grain=16)
    flat = links.reshape(-1)
    order = np.argsort(flat, kind="stable")
    starts = np.searchsorted(flat[order], np.arange(len(rows) + 1))
    arguments = (inputs, weights, by_head, scores, starts, order, out_rows.reshape(inputs.rows.shape))
    parallel_for(_attend_row_gradient, len(rows), threads, *arguments, grain=16)


@jit
def _attend_gradient(
    first: int,
    last: int,
    inputs: LastLinks,
    weights: F32,
    slopes: F32,
    edge_slopes: F32,
    out_queries: F32,
    out_edge_queries: F32,
    out_times: F32,
    scores: F32,
) -> None:
    n_links, e, t = inputs.links.shape[1], inputs.edge_queries.shape[2], inputs.times.shape[1]
    scale = _ONE / np.float32(math.sqrt(inputs.queries.shape[2]))
    edges, sines = np.empty((n_links, e), np.float32), np.empty((n_links, t), np.float32)
    slope = np.empty(t, np.float32)
    for s in range(first, last):
        _encode(inputs, s, edges, sines)
        for h in range(len(inputs.queries)):
            out_queries[h, s] = 0
            out_edge_queries[h, s] = 0
            mean = np.float32(0)
            for j in range(n_links):
                row = inputs.links[s, j]
                if row >= 0:
                    score = _dot(slopes[s, h], inputs.rows[row, 1, h]) + _dot(edge_slopes[h, s], edges[j])
                    scores[s, j, h] = inputs.keep[s, j, h] * score
                    mean += weights[s, j, h] * scores[s, j, h]
            for j in range(n_links):
                row = inputs.links[s, j]
                if row >= 0:
                    scores[s, j, h] = scale * weights[s, j, h] * (scores[s, j, h] - mean)
                    _add_scaled(scores[s, j, h], inputs.rows[row, 0, h], out_queries[h, s])
                    _add_scaled(scores[s, j, h], edges[j], out_edge_queries[h, s])
        out_times[s] = 0
        for j in range(n_links):
            if inputs.links[s, j] < 0:
                continue
            slope[:] = 0
            for h in range(len(inputs.queries)):
                _add_scaled(scores[s, j, h], inputs.edge_queries[h, s, :t], slope)
                _add_scaled(weights[s, j, h] * inputs.keep[s, j, h], edge_slopes[h, s, :t], slope)
            for i in range(t):
                change = -sines[j, i] * slope[i]
                out_times[s, 0, i] += inputs.ages[s, j] * change
                out_times[s, 1, i] += change


@jit
def _attend_row_gradient(
    first: int,
    last: int,
    inputs: LastLinks,
    weights: F32,
    slopes: F32,
    scores: F32,
    starts: I64,
    order: I64,
    out_rows: F32,
) -> None:
    n_links = inputs.links.shape[1]
    for row in range(first, last):
        out_rows[row] = 0
        for i in range(starts[row], starts[row + 1]):
            s, j = order[i] // n_links, order[i] % n_links
            for h in range(len(inputs.queries)):
                _add_scaled(scores[s, j, h], inputs.queries[h, s], out_rows[row, 0, h])
                _add_scaled(weights[s, j, h] * inputs.keep[s, j, h], slopes[s, h], out_rows[row, 1, h])
