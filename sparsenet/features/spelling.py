"""Compare labels of files and frames with the classes of a model by their spelling, as 1 and "1"."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from sparsenet.core.rows import Rows
from sparsenet.features.columns.cells import as_text
from sparsenet.features.targets import Target


class Spellings:
    """The numbers of classes, by the class itself and by its spelling: 1, 1.0 and "1" are one class."""

    def __init__(self, classes: list[Any]) -> None:
        spelled = ((as_text(label), place) for place, label in enumerate(classes))
        # A class such as "NA" has no other spelling.
        self._numbers: dict[Any, int] = {text: place for text, place in spelled if text is not None}
        self._numbers |= {label: place for place, label in enumerate(classes)}

    def number(self, label: Any) -> int | None:
        """Return the number of a class, or of the class with its spelling; None if there is none."""
        try:
            return self._numbers.get(label, self._numbers.get(as_text(label)))
        except TypeError:
            raise ValueError(f"{label!r} is a {type(label).__name__}, and labels are strings or numbers") from None


def encoded_by_spelling(rows: Iterable[Iterable[Any]], target: Target) -> Rows:
    """Return lists of labels as numbers; unknown labels are left out.

    >>> target, _ = Target.learn([1, 2, 3])
    >>> encoded_by_spelling([["2"], [3.0, "x"], []], target).indices.tolist()
    [1, 2]
    """
    spellings = Spellings(target.classes.tolist())
    places: list[list[int | None]] = []
    for number, row in enumerate(rows):
        try:
            places.append([spellings.number(label) for label in row])
        except ValueError as error:
            raise ValueError(f"y, row {number}: {error}") from None
    found = [[place for place in row if place is not None] for row in places]
    indptr = np.cumsum([0, *map(len, found)], dtype=np.int64)
    return target.rows(np.array([place for row in found for place in row], np.int64), indptr)
