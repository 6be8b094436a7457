"""The shift and scale that reduce maximum inner product search to nearest directions.

``hidden @ weight[l] + bias[l]`` is the inner product of ``[hidden, 1]`` with ``[weight[l], bias[l]]``. Subtracting one
`center` from all label vectors shifts all scores of a point equally, so rankings stay the same. But the vectors become
shorter and less alike.

A family completes each vector to the length `radius` (Neyshabur and Srebro 2015), so that the nearest direction has the
largest inner product. Their radius is the maximum length. A few very long vectors would then make all others look
alike, so here a given fraction of vectors may exceed the radius; they are hashed as if scaled down to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sparsenet.kernels.types import F32, F64

BLOCK = 1024  # rows prepared and hashed at once, so that they stay in the L2 cache
LENGTH = 8192  # the length `radius` in integer units
CLIP = np.float32(2**20)  # keeps sums of squares below 2**53, so that they are exact
TINY = np.float32(1e-30)  # smaller vectors count as zero, since their reciprocal might overflow


@dataclass(frozen=True, kw_only=True)
class LabelSphere:
    """Center and radius of the label vectors.

    Attributes
    ----------
    center
        (h + 1,), the mean of ``[weight, bias]`` when the index was last rebuilt.
    radius
        The common length: shorter vectors are completed, longer ones scaled down.
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
        """Round vectors to integers, with `LENGTH` units to the radius, and return them and their squared lengths."""
        # One IEEE multiplication and one rounding per element, which no compiler can fuse or reorder.
        integers = np.clip(np.rint(centered * np.float32(LENGTH / self.radius)), -CLIP, CLIP)
        exact = integers.astype(np.float64)
        return integers, np.einsum("ij,ij->i", exact, exact)

    def lengths(self, weight: F32, bias: F32) -> F32:
        """Return the length of each centred vector, (n,)."""
        squares = [self.quantized(self.centered(w, b))[1] for w, b in blocks(weight, bias)]
        lengths: F64 = np.sqrt(np.concatenate([np.empty(0), *squares])) * (self.radius / LENGTH)
        return lengths.astype(np.float32)


def measure(weight: F32, bias: F32, covered: float, headroom: float) -> tuple[LabelSphere, F32]:
    """Measure the sphere of all label vectors, weight (L, h) and bias (L,), and their centred lengths.

    The radius is `headroom` times the `covered` quantile of the lengths.
    """
    peak = np.float32(0)
    for w, b in blocks(weight, bias):
        peak = np.maximum(peak, np.maximum(np.abs(w).max(initial=0), np.abs(b).max(initial=0)))
    if not np.isfinite(peak):
        raise ValueError("weight or bias holds NaN or infinity: training has diverged, lower the learning rate")
    if peak < TINY:
        return LabelSphere(center=np.zeros(weight.shape[1] + 1, np.float32), radius=1.0), np.zeros_like(bias)
    center = _center(weight, bias, peak)
    lengths = LabelSphere(center=center, radius=float(peak)).lengths(weight, bias)
    reached = float(lengths[np.argsort(lengths, kind="stable")[n_covered(covered, lengths.size) - 1]])
    return LabelSphere(center=center, radius=headroom * max(reached, float(peak) / LENGTH)), lengths


def n_covered(covered: float, n_labels: int) -> int:
    """Return the number of label vectors that the radius must cover."""
    return int(np.ceil(covered * n_labels))


def blocks(weight: F32, bias: F32) -> Iterator[tuple[F32, F32]]:
    """Yield label vectors in blocks of rows."""
    for start in range(0, len(weight), BLOCK):
        yield weight[start : start + BLOCK], bias[start : start + BLOCK]


def _center(weight: F32, bias: F32, peak: np.float32) -> F32:
    # Sums of integers below 2**53 are exact in float64 in any order, so the sphere is the same on every machine.
    unit = np.float32(2**20) / peak
    total = np.zeros(weight.shape[1] + 1)
    for w, b in blocks(weight, bias):
        total[:-1] += np.rint(w * unit).sum(axis=0, dtype=np.float64)
        total[-1] += np.rint(b * unit).sum(dtype=np.float64)
    return (total / (float(unit) * len(weight))).astype(np.float32)
