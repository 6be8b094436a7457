"""Forgeries of saved models and checkpoints: their checksums are right, their content is not."""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet import storage

Arrays = dict[str, NDArray[Any]]
Forgery = tuple[str, Arrays, dict[str, Any]]
MISSING = object()
#: What JSON can put in place of any value.
VALUES: tuple[Any, ...] = (
    MISSING,
    None,
    True,
    False,
    -1,
    -(2**31),
    2**31 - 1,
    2**64 - 1,
    0.5,
    1e308,
    "",
    "text",
    [],
    [1, None],
    {},
    {"a": [{"b": None}]},
)


def paths(value: Any, place: tuple[Any, ...] = (), items: int = 2) -> Iterator[tuple[Any, ...]]:
    """Yield the place of every value within nested objects, and of the first `items` of each list."""
    if place:
        yield place
    if isinstance(value, dict):
        for key, item in value.items():
            yield from paths(item, (*place, key), items)
    elif isinstance(value, list):
        for number, item in enumerate(value[:items]):
            yield from paths(item, (*place, number), items)


def with_value(metadata: dict[str, Any], place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """Return a copy of metadata with another value in one place."""
    changed = copy.deepcopy(metadata)
    inner: Any = changed
    for key in place[:-1]:
        inner = inner[key]
    if value is MISSING:
        del inner[place[-1]]
    else:
        inner[place[-1]] = copy.deepcopy(value)
    return changed


def forged_metadata(*within: str, arrays: Arrays, metadata: dict[str, Any], items: int = 2) -> Iterator[Forgery]:
    """Yield a forgery for every value and every place of the metadata; with `within`, below one of these keys."""
    for place in paths(metadata, items=items):
        if within and not set(within) & set(place):
            continue
        for value in VALUES:
            changed = with_value(metadata, place, value)
            if repr(changed) != repr(metadata):
                shown = "missing" if value is MISSING else repr(value)
                yield f"{'.'.join(map(str, place))}: {shown}", arrays, changed


def forged_arrays(arrays: Arrays, metadata: dict[str, Any]) -> Iterator[Forgery]:
    """Yield forgeries of every array: missing, of another type or shape, or with impossible numbers; and extra ones."""
    for name, array in arrays.items():
        yield f"{name}: missing", {key: own for key, own in arrays.items() if key != name}, metadata
        for what, changed in changes(array):
            yield f"{name}: {what}", {**arrays, name: changed}, metadata
        yield f"{name}: twice", {**arrays, f"{name}-x": array, f"best-{name}": array, f"x.{name}": array}, metadata
    yield "extra", {**arrays, "extra": np.zeros(3)}, metadata


def changes(array: NDArray[Any]) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield an array with other types, shapes and numbers."""
    for dtype in ("?", "i4", "i8", "f2", "f8"):
        if array.dtype != np.dtype(dtype):
            with np.errstate(all="ignore"):
                yield f"of {dtype}", array.astype(dtype)
    yield "without dimensions", np.zeros((), array.dtype)
    yield "empty", np.zeros((0, *array.shape[1:]), array.dtype)
    yield "with a dimension more", array[..., None]
    yield "longer", np.concatenate((array, array[:1])) if array.ndim and len(array) else np.ones(9, array.dtype)
    if array.ndim and len(array):
        yield "shorter", array[:-1]
    if array.ndim == 2:
        yield "transposed", np.ascontiguousarray(array.T)
        yield "flat", array.reshape(-1)
    if array.size:
        for number in numbers(array.dtype):
            changed = array.copy()
            changed.reshape(-1)[0] = number
            yield f"first {number}", changed


def numbers(dtype: np.dtype[Any]) -> list[Any]:
    if dtype.kind == "f":
        return [math.nan, math.inf, -1.0]
    if dtype.kind in "iu":
        return [np.iinfo(dtype).min, np.iinfo(dtype).max]
    return [True]


def save(directory: Path, arrays: Arrays, metadata: dict[str, Any]) -> None:
    """Save a forgery with right checksums."""
    storage.save(directory, arrays, metadata)


def seal(directory: Path, text: str) -> None:
    """Write a manifest with a valid checksum; `text` lacks the last line and brace."""
    body = text.encode()
    digest = hashlib.sha256(body).hexdigest()
    (directory / storage.MANIFEST).write_bytes(body + f',\n  "sha256": "{digest}"\n}}\n'.encode())
