"""Ids so far beyond all others that they look mistyped, in files that do not say how many there are.

Every id up to the largest is a column, whether it occurs or not, and models hold something for each column.
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
#: Fewer columns without an entry are not worth a word: they cost some hundred megabytes at most.
MANY = 1_000_000
#: Ids that occur are spread as if by chance, or number something without large gaps. A largest id is out of proportion
#: if it is more than ten times the next one and chance would leave such a gap less than once in a million files: of
#: hashed features that takes a file in which hardly any occur.
FAR = 10
CHANCE = 1e-6
#: Entries that are looked through for other ids; a handful of them is enough.
SAMPLE = 1 << 16
#: What a column takes while a model is trained: of a feature at least, of a label as much as all classifiers ask for.
#: Measured on 10^8 of them, a network took 18 and 62 bytes, a tree 35 and 50, a blend 35 and 95.
LEAST_BYTES = {"feature": 16, "label": 64}


class LargestId:
    """The largest id of a file so far, and the line on which it stands first."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.id = -1
        self.line = 0

    def note(self, block: Block, indptr: NDArray[np.int64], ids: NDArray[Any]) -> None:
        """Look at the rows of a block; where `MANY` are too many for these ids, the line is not looked for."""
        if len(ids) == 0 or ids.max() <= max(self.id, MANY):
            return
        entry = int(ids.argmax())
        self.id = int(ids[entry])
        self.line = line_of(block, int(np.searchsorted(indptr, entry, side="right")) - 1, len(indptr) - 1)

    def check(self, path: str, ids: NDArray[Any]) -> None:
        """Warn if it is out of all proportion to the others; refuse it if a model of so many columns cannot be."""
        if self.id <= MANY:
            return
        following = int(ids.max(where=ids != self.id, initial=-1))
        n_others = len(np.unique(ids[:SAMPLE])) - 1
        if not is_out_of_proportion(self.id, following, n_others):
            return
        empty = self.id - following - 1
        problem = (
            f"{self.kind} {self.id} is far beyond all others, of which the largest is {following}: correct it, or "
            f"number the {self.kind}s densely, since models hold all columns up to it, of which {empty} are empty"
        )
        needed, available = (self.id + 1) * LEAST_BYTES[self.kind] >> 20, available_memory() >> 20
        if needed > available:
            raise DataError(path, self.line, f"{problem}; they take {needed} MB or more, there are {available} MB")
        right = f"n_{self.kind}s={self.id + 1} says that it is right"
        warnings.warn(f"{DataError(path, self.line, problem)}; {right}", UserWarning, stacklevel=2)


def is_out_of_proportion(largest: int, following: int, n_others: int) -> bool:
    """Tell whether a largest id looks mistyped beside the `following` one and `n_others`, or some of them.

    >>> is_out_of_proportion(100_000_000, 4_999, 5_000)
    True
    >>> is_out_of_proportion(2**24, 2**23, 5_000)  # as hashing leaves them
    False
    """
    share = (following + 1) / (largest + 1)
    return largest - following > MANY and share * FAR < 1 and share**n_others < CHANCE


def line_of(block: Block, row: int, n_rows: int) -> int:
    """Return the line of a row of a block, from which blank lines and comments may be missing."""
    if n_rows == block.lines:
        return block.first_line + row
    lines = block.text.tobytes().split(b"\n")
    points = (number for number, line in enumerate(lines) if line.strip(b" \t\r")[:1] not in (b"", b"#"))
    return block.first_line + next(number for place, number in enumerate(points) if place == row)
