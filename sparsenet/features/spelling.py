"""Compare labels of files and frames with the classes of a model by their spelling, as 1 and "1"."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from sparsenet.core.rows import Rows
from sparsenet.features.columns.cells import as_text
from sparsenet.features.targets import Target


def numbers_by_spelling(classes: list[Any]) -> dict[Any, int]:
    """Return the number of each class, by the class itself and by its spelling."""
    by_spelling: dict[Any, int] = {as_text(label): place for place, label in enumerate(classes)}
    by_spelling.pop(None, None)  # a class such as "NA" has no other spelling
    return by_spelling | {label: place for place, label in enumerate(classes)}


def number_of(label: Any, numbers: dict[Any, int]) -> int | None:
    """Return the number of a class, or of the class with its spelling, as 1 and "1"; None if there is none."""
    return numbers.get(label, numbers.get(as_text(label)))


def encoded_by_spelling(rows: Iterable[Iterable[Any]], target: Target) -> Rows:
    """Return lists of labels as numbers; unknown labels are left out.

    >>> target, _ = Target.learn([1, 2, 3])
    >>> encoded_by_spelling([["2"], [3.0, "x"], []], target).indices.tolist()
    [1, 2]
    """
    numbers = numbers_by_spelling(target.classes.tolist())
    places = [[number_of(label, numbers) for label in row] for row in rows]
    found = [[place for place in row if place is not None] for row in places]
    indptr = np.cumsum([0, *map(len, found)], dtype=np.int64)
    return target.rows(np.array([place for row in found for place in row], np.int64), indptr)
