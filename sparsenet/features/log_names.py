"""Find users and items by their names."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.data.errors import cut
from sparsenet.data.frame_columns import as_column
from sparsenet.data.frames import Frame
from sparsenet.features.log_values import encode_names
from sparsenet.features.logs import positions
from sparsenet.kernels.types import I64, Bools


def is_one(names: Any) -> bool:
    """Return whether this is a single name instead of a sequence of names."""
    return isinstance(names, str | int | np.integer) and not isinstance(names, bool)


def find(known: NDArray[Any], names: Any, argument: str) -> tuple[I64, NDArray[Any]]:
    """Return the number of each name, -1 if it is unknown, and the names as an array."""
    values = as_column([names] if is_one(names) else names, argument)
    if not len(values):
        return np.zeros(0, np.int64), values
    codes, distinct = encode_names(Frame({argument: values}, argument, len(values)), argument)
    return positions(known, distinct)[codes], distinct[codes]


def find_all(known: NDArray[Any], names: Any, argument: str, advice: str) -> I64:
    """Return the number of each name; raise an error that names the first unknown one, with advice."""
    numbers, values = find(known, names, argument)
    if (numbers < 0).any():
        raise unknown_name(known, values[np.argmax(numbers < 0)], argument, advice)
    return numbers


def unknown_name(known: NDArray[Any], name: Any, argument: str, advice: str) -> ValueError:
    """Return the error for an unknown name."""
    name = name.item() if isinstance(name, np.generic) else name
    if isinstance(name, str) != (known.dtype.kind == "O"):
        example = known[0] if known.dtype.kind == "O" else int(known[0])
        advice = f"the model knows names such as {example!r}"
    return ValueError(
        f"{argument} holds {cut(repr(name))}, which the log that the model learnt from does not: {advice}"
    )


def item_mask(items: NDArray[Any], given: Any, argument: str) -> Bools:
    """Return a mask of items, given as a mask or by names."""
    values = as_column([given] if is_one(given) else given, argument)
    if values.dtype == bool:
        if values.shape != items.shape:
            wanted = f"{len(items)} booleans in the order of items_, or names of items"
            raise ValueError(f"{argument} must hold {wanted}, got a mask of {len(values)}")
        return values
    mask = np.zeros(len(items), bool)
    mask[find_all(items, values, argument, "leave it out")] = True
    return mask
