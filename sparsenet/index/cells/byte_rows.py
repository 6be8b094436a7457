"""Rows in 8 bits, each with a scale of its own."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparsenet.kernels.types import F32, I8, I32, I64

#: Rows rounded at a time.
BLOCK = 1 << 14
LARGEST = 127


class ByteRows(NamedTuple):
    """Row j is about ``scales[j] * codes[j]``; codes (n, h), scales (n,)."""

    codes: I8
    scales: F32

    @classmethod
    def of(cls, rows: F32, at: I32 | I64) -> ByteRows:
        """Round the rows at positions `at`, a block at a time."""
        codes, scales = np.empty((len(at), rows.shape[1]), np.int8), np.empty(len(at), np.float32)
        for start in range(0, len(at), BLOCK):
            own = slice(start, start + BLOCK)
            block = rows[at[own]]
            peaks = np.maximum(np.abs(block).max(axis=1, initial=0), np.finfo(np.float32).tiny * LARGEST)
            scales[own] = peaks / np.float32(LARGEST)
            codes[own] = np.rint(block / scales[own, None])
        return cls(codes, scales)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.codes.nbytes + self.scales.nbytes
