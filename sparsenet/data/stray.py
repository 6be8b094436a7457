"""Detect ids that look mistyped, because they are far larger than all others, in files without a header.

Every number up to the largest id is a column, even if it does not occur, and a model holds weights for each column.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.machine import available_memory
from sparsenet.data.blocks import Block
from sparsenet.data.errors import DataError

Kind = Literal["feature", "label"]
#: Up to this many empty columns cause no warning: they take a few hundred megabytes at most.
MAX_EMPTY_COLUMNS = 1_000_000
#: Bytes of memory that training needs for a column. Measured on 10^8 columns, for each feature and each label: network
#: 18 and 62 bytes, tree 35 and 50, blend 35 and 95.
BYTES_PER_COLUMN = {"feature": 16, "label": 64}


class LargestId:
    """Track the largest id of a file, and the first line that contains it."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.id = -1
        self.line = 0

    def update(self, block: Block, indptr: NDArray[np.int64], ids: NDArray[Any]) -> None:
        """Update the largest id with the rows of a block; ids up to `MAX_EMPTY_COLUMNS` are ignored."""
        if len(ids) == 0 or ids.max() <= max(self.id, MAX_EMPTY_COLUMNS):
            return
        entry = int(ids.argmax())
        self.id = int(ids[entry])
        self.line = line_of(block, int(np.searchsorted(indptr, entry, side="right")) - 1, len(indptr) - 1)

    def check(self, path: str, ids: NDArray[Any]) -> None:
        """Warn if the largest id is out of proportion; raise a DataError if a model of that width exceeds memory."""
        if self.id <= MAX_EMPTY_COLUMNS:
            return
        second = int(ids.max(where=ids != self.id, initial=-1))
        n_others = len(np.unique(ids[: 1 << 16])) - 1  # a few different ids are enough for the test
        if not is_out_of_proportion(self.id, second, n_others):
            return
        empty = self.id - second - 1
        problem = (
            f"{self.kind} {self.id} is far beyond all others, the next is {second}: correct it, or number the "
            f"{self.kind}s densely, because a model holds all columns up to it, and {empty} of them are empty"
        )
        needed, available = (self.id + 1) * BYTES_PER_COLUMN[self.kind] >> 20, available_memory() >> 20
        if needed > available:
            raise DataError(path, self.line, f"{problem}; they take at least {needed} MB, and {available} MB are free")
        right = f"if it is right, confirm it with n_{self.kind}s={self.id + 1}"
        warnings.warn(f"{DataError(path, self.line, problem)}; {right}", UserWarning, stacklevel=2)


def is_out_of_proportion(
    largest: int, second: int, n_others: int, *, min_ratio: int = 10, chance: float = 1e-6
) -> bool:
    """Return True if the largest id looks mistyped.

    `second` is the second largest id, and `n_others` a lower bound of the number of other ids. Ids are
    usually dense, or spread at random, as by hashing. The largest id is out of proportion if it is more than
    `min_ratio` times the next one, and if ids spread at random leave such a gap with a probability below `chance`.
    Hashed features reach this only in a file with a handful of different features.

    >>> is_out_of_proportion(100_000_000, 4_999, 5_000)
    True
    >>> is_out_of_proportion(2**24, 2**23, 5_000)  # a gap as in hashed features
    False
    """
    share = (second + 1) / (largest + 1)
    return largest - second > MAX_EMPTY_COLUMNS and share * min_ratio < 1 and share**n_others < chance


def line_of(block: Block, row: int, n_rows: int) -> int:
    """Return the line number of a row of a block. Blank lines and comments are not rows."""
    if n_rows == block.lines:
        return block.first_line + row
    lines = block.text.tobytes().split(b"\n")
    points = (number for number, line in enumerate(lines) if line.strip(b" \t\r")[:1] not in (b"", b"#"))
    return block.first_line + next(number for place, number in enumerate(points) if place == row)
