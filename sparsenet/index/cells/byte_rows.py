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
    def empty(cls, n: int, width: int) -> ByteRows:
        """Return n rows to write."""
        return cls(np.empty((n, width), np.int8), np.empty(n, np.float32))

    @classmethod
    def of(cls, rows: F32, at: I32 | I64) -> ByteRows:
        """Round the rows at positions `at`, a block at a time."""
        found = cls.empty(len(at), rows.shape[1])
        for start in range(0, len(at), BLOCK):
            own = slice(start, start + BLOCK)
            found.write(own, rows[at[own]])
        return found

    def write(self, own: slice, block: F32) -> None:
        """Round the rows of `block` into these places."""
        peaks = np.maximum(np.abs(block).max(axis=1, initial=0), np.finfo(np.float32).tiny * LARGEST)
        self.scales[own] = peaks / np.float32(LARGEST)
        self.codes[own] = np.rint(block / self.scales[own, None])

    def decoded(self) -> F32:
        """Return the rounded rows."""
        return self.codes * self.scales[:, None]

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.codes.nbytes + self.scales.nbytes
