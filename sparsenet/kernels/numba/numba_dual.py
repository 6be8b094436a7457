"""Train one-vs-rest linear classifiers by dual coordinate descent in Numba: see ``csrc/engine/dual.cpp``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from sparsenet.kernels.numba.numba_common import checked, jit, parallel_for
from sparsenet.kernels.numba.numba_split_mix import GOLDEN, scrambled
from sparsenet.kernels.types import F32, I32, I64, Bools

#: Row pointers, ids, values, 1 + squared lengths, and row pointers and numbers of labels.
Points: TypeAlias = tuple[I64, I32, F32, F32, I64, I32]
#: The first label, the most passes, the tolerance and the seed.
Limits: TypeAlias = tuple[int, int, float, int]

_STILL, _USUAL_SQUARE = np.float32(1e-6), np.float32(1024)
_64_BITS = (1 << 64) - 1
_MAX_SHORT_PASSES = 4
_MAX_SHORT_STRIDES = 4
#: A label with at least this slack is padding: it starts at its optimum.
PADDING = np.float32(1e29)


@checked(
    indptr="ptr n+1 nnz", indices="i32 >=nnz", data="f32 >=nnz", squares="f32 n", label_indptr="ptr n+1 m",
    labels="i32 >=m", positive_slack="f32 l", negative_slack="f32 l", weight="out f32 b d+1 w", epochs="out i32 b",
)  # fmt: skip
def dual_train(
    indptr: I64,
    indices: I32,
    data: F32,
    squares: F32,
    label_indptr: I64,
    labels: I32,
    first_label: int,
    positive_slack: F32,
    negative_slack: F32,
    most_epochs: int,
    tolerance: float,
    seed: int,
    weight: F32,
    epochs: I32,
    threads: int,
) -> None:
    """See `sparsenet/_core.pyi`."""
    n_blocks, _, width = weight.shape
    if width not in (1, 4, 8, 16):
        raise ValueError(f"weight must have 1, 4, 8 or 16 columns, got {width}")
    if len(positive_slack) != n_blocks * width:
        raise ValueError(f"positive_slack must have {n_blocks * width} entries, got {len(positive_slack)}")
    points = (indptr, indices, data, squares, label_indptr, labels)
    slacks = (positive_slack.reshape(n_blocks, width), negative_slack.reshape(n_blocks, width))
    limits = (first_label, most_epochs, tolerance, seed)
    parallel_for(_train_blocks, n_blocks, threads, points, slacks, limits, weight, epochs)


def dual_passes(
    n: int, slack: F32, most_epochs: int, tolerance: float, seed: int, visit: Callable[..., tuple[int, np.float32]]
) -> int:
    """Make passes over n points until they are optimal; return their number.

    ``visit(order, rest, stride, alpha)`` visits the points of `order` once and moves points that violate optimality by
    more than `rest` to the front. It returns their number and the largest violation.
    """
    limit, order, state = np.float32(tolerance), np.arange(n, dtype=np.int32), np.array([seed & _64_BITS], np.uint64)
    alpha = _start(n, slack)  # type: ignore[no-untyped-call]
    active, epoch, in_a_row = n, 0, 0
    full = most_epochs - min(_MAX_SHORT_STRIDES, most_epochs // 2)
    while epoch < most_epochs and n > 0:
        everything = active == n
        in_a_row = 0 if everything else in_a_row + 1
        _shuffle(order[:active], state)  # type: ignore[no-untyped-call]
        stride = np.float32(1) if epoch < full else np.float32(1) / np.float32(2 + epoch - full)
        active, violation = visit(order[:active], limit / np.float32(2), stride, alpha)
        epoch += 1
        if violation > limit and active > 0 and in_a_row < _MAX_SHORT_PASSES:
            continue
        if everything and violation <= limit:
            break
        active = n  # a full pass checks the points that were skipped
    return epoch


def _train_blocks(
    first: int, last: int, points: Points, slacks: tuple[F32, F32], limits: Limits, weight: F32, epochs: I32
) -> None:
    first_label, most_epochs, tolerance, seed = limits
    n, width = len(points[3]), weight.shape[2]
    for block in range(first, last):
        label = first_label + block * width
        slack = slacks[0][block], slacks[1][block]

        def visit(order: I32, rest: np.float32, stride: np.float32, alpha: F32) -> tuple[int, np.float32]:
            return visit_points(points, slack, label, order, rest, stride, weight[block], alpha)  # noqa: B023

        epochs[block] = dual_passes(n, slack[1], most_epochs, tolerance, seed + label, visit)


def visit_points(
    points: Points, slack: tuple[F32, F32], label: int, order: I32, rest: Any, stride: Any, weight: F32, alpha: F32
) -> tuple[int, np.float32]:
    """Visit the points of `order` once; see `dual_passes`."""
    found: tuple[int, np.float32] = _visit(points, slack, label, order, rest, stride, weight, alpha)  # type: ignore[no-untyped-call]
    return found


def move_to_front(order: I32, first: int, kept: int, is_active: Bools) -> int:
    """Move the active points of ``order[first : ...]`` to ``order[kept : ...]``; return the end of these."""
    return int(_move_to_front(order, first, kept, is_active))  # type: ignore[no-untyped-call]


@jit
def _move_to_front(order, first, kept, is_active):  # type: ignore[no-untyped-def]
    for i in range(len(is_active)):
        order[first + i], order[kept] = order[kept], order[first + i]
        kept += is_active[i]
    return kept


@jit
def _start(n, slack):  # type: ignore[no-untyped-def]
    alpha = np.zeros((n, len(slack)), np.float32)
    for c in range(len(slack)):
        if slack[c] >= PADDING:
            alpha[:, c] = np.float32(1) / slack[c]
    return alpha


@jit
def _shuffle(order, state):  # type: ignore[no-untyped-def]
    for i in range(len(order) - 1, 0, -1):
        state[0] += GOLDEN
        j = np.int64(scrambled(state[0]) % np.uint64(i + 1))
        order[i], order[j] = order[j], order[i]


@jit
def _visit(points, slack, label, order, rest, stride, weight, alpha):  # type: ignore[no-untyped-def]
    indptr, indices, data, squares, label_indptr, labels = points
    width = weight.shape[1]
    bias = weight[-1]
    score, sign, move = np.empty(width, np.float32), np.empty(width, np.float32), np.empty(width, np.float32)
    after = np.empty(width, np.float32)
    most, kept = np.float32(0), 0
    for at in range(len(order)):
        i = order[at]
        score[:] = bias
        sign[:] = -1
        for j in range(label_indptr[i], label_indptr[i + 1]):
            if 0 <= labels[j] - label < width:
                sign[labels[j] - label] = 1
        for j in range(indptr[i], indptr[i + 1]):
            row, x = weight[indices[j]], data[j]
            for c in range(width):
                score[c] += x * row[c]
        still = _STILL * _USUAL_SQUARE / squares[i] if squares[i] > _USUAL_SQUARE else _STILL
        moves, busy = False, False
        for c in range(width):
            own = slack[0][c] if sign[c] > 0 else slack[1][c]
            before = alpha[i, c]
            gradient = sign[c] * score[c] - np.float32(1) + own * before
            after[c] = max(before - stride * gradient / (squares[i] + own), np.float32(0))
            if not abs(after[c] - before) > still:
                after[c] = before
            wrong = -gradient if gradient < 0 else gradient if before > 0 else np.float32(0)
            busy = busy or wrong > rest
            moves = moves or after[c] != before
            most = max(most, wrong)
            move[c] = (after[c] - before) * sign[c]
        if moves:
            for j in range(indptr[i], indptr[i + 1]):
                row, x = weight[indices[j]], data[j]
                for c in range(width):
                    row[c] += x * move[c]
            for c in range(width):
                bias[c] += move[c]
                alpha[i, c] = after[c]
        order[at] = order[kept]
        order[kept] = i
        kept += busy
    return kept, most
