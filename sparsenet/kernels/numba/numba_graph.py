"""A temporal graph network in Numba: messages, gated memory, and the last links."""

from __future__ import annotations

import math

import numpy as np

from sparsenet.kernels.numba.numba_common import checked, jit, parallel_for
from sparsenet.kernels.types import F32, F64, I32, I64

_ONE = np.float32(1)
_FARTHEST = np.float32(3e9)  # larger angles count as this one


@jit
def angle_of(rate: np.float32, elapsed: np.float32, shift: np.float32) -> np.float32:
    """Return the angle of an encoded time; those far away all count as one."""
    return min(max(rate * elapsed + shift, -_FARTHEST), _FARTHEST)


@jit
def _sigmoid(x: np.float32) -> np.float32:
    e = math.exp(-abs(x))
    larger = _ONE / (_ONE + e)
    return larger if x >= 0 else e * larger


# --- memory ------------------------------------------------------------------------------------------------


@checked(
    memory="f32 R m",
    nodes="i32 n",
    partners="i32 n",
    features="f32 n f",
    elapsed="f32 n",
    times="f32 two t",
    out_messages="out f32 n w",
    out_states="out f32 n m+1",
    out_sines="out f32 n t",
)
def message_rows(
    memory: F32,
    nodes: I32,
    partners: I32,
    features: F32,
    elapsed: F32,
    times: F32,
    out_messages: F32,
    out_states: F32,
    out_sines: F32,
    threads: int,
) -> None:
    """See `sparsenet/_core.pyi`."""
    require_rates(times)
    width = 2 * memory.shape[1] + features.shape[1] + times.shape[1] + 1
    if out_messages.shape[1] != width:
        raise ValueError(f"out_messages has shape[1] = {out_messages.shape[1]}, expected {width}")
    arguments = (memory, nodes, partners, features, elapsed, times, out_messages, out_states, out_sines)
    parallel_for(_message_rows, len(nodes), threads, *arguments, grain=16)


def require_rates(times: F32) -> None:
    """Raise an error unless there are rates and shifts."""
    if len(times) != 2:
        raise ValueError(f"times has shape[0] = {len(times)}, expected 2 (rates and shifts)")


@jit
def _message_rows(
    first: int,
    last: int,
    memory: F32,
    nodes: I32,
    partners: I32,
    features: F32,
    elapsed: F32,
    times: F32,
    messages: F32,
    states: F32,
    sines: F32,
) -> None:
    m, f = memory.shape[1], features.shape[1]
    for i in range(first, last):
        states[i, :m] = memory[nodes[i]]
        states[i, m] = 1
        messages[i] = 0
        messages[i, -1] = 1
        sines[i] = 0
        if partners[i] < 0:
            continue
        messages[i, :m] = memory[nodes[i]]
        messages[i, m : 2 * m] = memory[partners[i]]
        messages[i, 2 * m : 2 * m + f] = features[i]
        for t in range(times.shape[1]):
            angle = angle_of(times[0, t], elapsed[i], times[1, t])
            messages[i, 2 * m + f + t] = math.cos(np.float64(angle))
            sines[i, t] = math.sin(np.float64(angle))


@checked(gates="out f32 n g", states="f32 n g", before="f32 n w", out="out f32 n w")
def gru_rows(gates: F32, states: F32, before: F32, out: F32, threads: int) -> None:
    """See `sparsenet/_core.pyi`."""
    _require_gates(gates, before)
    parallel_for(_gru_rows, len(gates), threads, gates, states, before, out, grain=16)


def _require_gates(gates: F32, before: F32) -> None:
    width = before.shape[1] - 1
    if width < 1 or gates.shape[1] != 3 * width:
        raise ValueError(f"gates has shape[1] = {gates.shape[1]}, expected {3 * width} (three gates of each unit)")


@jit
def _gru_rows(first: int, last: int, gates: F32, states: F32, before: F32, out: F32) -> None:
    width = before.shape[1] - 1
    for i in range(first, last):
        for c in range(width):
            reset = _sigmoid(gates[i, c] + states[i, c])
            update = _sigmoid(gates[i, width + c] + states[i, width + c])
            proposal = math.tanh(gates[i, 2 * width + c] + reset * states[i, 2 * width + c])
            gates[i, c], gates[i, width + c], gates[i, 2 * width + c] = reset, update, proposal
            out[i, c] = proposal + update * (before[i, c] - proposal)
        out[i, width] = 1


@checked(gates="out f32 n g", states="out f32 n g", before="f32 n w", slopes="f32 n w")
def gru_gradient(gates: F32, states: F32, before: F32, slopes: F32, threads: int) -> None:
    """See `sparsenet/_core.pyi`."""
    _require_gates(gates, before)
    parallel_for(_gru_gradient, len(gates), threads, gates, states, before, slopes, grain=16)


@jit
def _gru_gradient(first: int, last: int, gates: F32, states: F32, before: F32, slopes: F32) -> None:
    width = before.shape[1] - 1
    for i in range(first, last):
        for c in range(width):
            reset, update, proposal = gates[i, c], gates[i, width + c], gates[i, 2 * width + c]
            of_proposal = slopes[i, c] * (_ONE - update) * (_ONE - proposal * proposal)
            of_update = slopes[i, c] * (before[i, c] - proposal) * update * (_ONE - update)
            of_reset = of_proposal * states[i, 2 * width + c] * reset * (_ONE - reset)
            gates[i, c], gates[i, width + c], gates[i, 2 * width + c] = of_reset, of_update, of_proposal
            states[i, c], states[i, width + c], states[i, 2 * width + c] = of_reset, of_update, of_proposal * reset


# --- state -------------------------------------------------------------------------------------------------


@checked(
    neighbors="out i32 R k",
    neighbor_times="out f64 R k",
    neighbor_features="out f32 R k f",
    counts="out i64 R",
    sources="i32 n",
    targets="i32 n",
    times="f64 n",
    features="f32 n f",
)
def remember_links(
    neighbors: I32,
    neighbor_times: F64,
    neighbor_features: F32,
    counts: I64,
    sources: I32,
    targets: I32,
    times: F64,
    features: F32,
) -> None:
    """See `sparsenet/_core.pyi`."""
    if neighbors.shape[1] < 1:
        raise ValueError("neighbors must have room for a link")
    _remember_links(neighbors, neighbor_times, neighbor_features, counts, sources, targets, times, features)


@jit
def _remember_links(
    neighbors: I32,
    neighbor_times: F64,
    neighbor_features: F32,
    counts: I64,
    sources: I32,
    targets: I32,
    times: F64,
    features: F32,
) -> None:
    for e in range(len(sources)):
        for node, neighbor in ((sources[e], targets[e]), (targets[e], sources[e])):
            place = counts[node] % neighbors.shape[1]
            counts[node] += 1
            neighbors[node, place] = neighbor
            neighbor_times[node, place] = times[e]
            neighbor_features[node, place] = features[e]
