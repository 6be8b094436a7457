"""The frame: the shift and the scale that turn a search for large inner products into one for near directions.

``hidden @ weight[l] + bias[l]`` is the inner product of ``[hidden, 1]`` with ``[weight[l], bias[l]]``. Taking the
same `center` from every label's vector changes all scores of a point alike, so no ranking; but it makes vectors
shorter and less alike. A family completes each vector to the length `radius` (Neyshabur and Srebro 2015), after
which the nearest direction is the largest inner product. Their radius is the greatest length; where a few vectors
are much longer than the rest, that leaves all others alike and unfindable, so here a stated share of vectors may be
longer, and is then hashed as if scaled down to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sparsenet.kernels.types import F32, F64

BLOCK = 1024  # rows prepared and hashed at once: they stay in the second-level cache
LENGTH = 8192  # in integers, the length `radius`
CLIP = 2**20  # keeps sums of squares below 2**53, so that they are exact
TINY = np.float32(1e-30)  # smaller vectors count as zero: their reciprocal might overflow


@dataclass(frozen=True, kw_only=True)
class Frame:
    """What label vectors are seen relative to.

    Attributes
    ----------
    center
        (h + 1,), the mean of ``[weight, bias]`` when the index was last rebuilt.
    radius
        The length to which vectors are completed, or scaled down.
    """

    center: F32
    radius: float

    def centered(self, weight: F32, bias: F32) -> F32:
        """Return ``[weight, bias] - center``, (n, h + 1)."""
        out = np.empty((len(weight), self.center.size), np.float32)
        np.subtract(weight, self.center[:-1], out=out[:, :-1])
        np.subtract(bias, self.center[-1], out=out[:, -1])
        return out

    def quantized(self, centered: F32) -> tuple[F32, F64]:
        """Return vectors as integers, `LENGTH` of them to the radius, and the sum of squares of each."""
        # One IEEE multiplication and one rounding an element: nothing that a compiler might fuse or reorder.
        integers = np.clip(np.rint(centered * np.float32(LENGTH / self.radius)), -CLIP, CLIP)
        exact = integers.astype(np.float64)
        return integers, np.einsum("ij,ij->i", exact, exact)

    def lengths(self, weight: F32, bias: F32) -> F32:
        """Return the length of each centred vector, (n,)."""
        squares = [self.quantized(self.centered(w, b))[1] for w, b in blocks(weight, bias)]
        lengths: F64 = np.sqrt(np.concatenate([np.empty(0), *squares])) * (self.radius / LENGTH)
        return lengths.astype(np.float32)


def measure(weight: F32, bias: F32, covered: float, headroom: float) -> tuple[Frame, F32]:
    """Find the frame of all label vectors, weight (L, h) and bias (L,), and their lengths in it.

    The radius is `headroom` times the length that a share `covered` of the vectors does not exceed.
    """
    peak = np.float32(0)
    for w, b in blocks(weight, bias):
        peak = np.maximum(peak, np.maximum(np.abs(w).max(initial=0), np.abs(b).max(initial=0)))
    if not np.isfinite(peak):
        raise ValueError("weight or bias holds NaN or infinity: training has diverged, lower the learning rate")
    if peak < TINY:
        return Frame(center=np.zeros(weight.shape[1] + 1, np.float32), radius=1.0), np.zeros_like(bias)
    center = _center(weight, bias, peak)
    lengths = Frame(center=center, radius=float(peak)).lengths(weight, bias)
    reached = float(lengths[np.argsort(lengths, kind="stable")[n_covered(covered, lengths.size) - 1]])
    return Frame(center=center, radius=headroom * max(reached, float(peak) / LENGTH)), lengths


def n_covered(covered: float, n_labels: int) -> int:
    """Return how many labels' vectors the radius must reach."""
    return int(np.ceil(covered * n_labels))


def blocks(weight: F32, bias: F32) -> Iterator[tuple[F32, F32]]:
    """Cut label vectors into blocks of rows."""
    for start in range(0, len(weight), BLOCK):
        yield weight[start : start + BLOCK], bias[start : start + BLOCK]


def _center(weight: F32, bias: F32, peak: np.float32) -> F32:
    # Integers below 2**53 add up exactly in float64, in any order: the frame is the same on every machine.
    unit = np.float32(2**20) / peak
    total = np.zeros(weight.shape[1] + 1)
    for w, b in blocks(weight, bias):
        total[:-1] += np.rint(w * unit).sum(axis=0, dtype=np.float64)
        total[-1] += np.rint(b * unit).sum(dtype=np.float64)
    return (total / (float(unit) * len(weight))).astype(np.float32)
