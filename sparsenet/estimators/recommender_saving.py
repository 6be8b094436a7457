"""A recommender as arrays and JSON, and back; unpacking checks everything."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from sparsenet import storage
from sparsenet.core.validation import boolean, choice, integer
from sparsenet.engines.network.parameters import pack_parameters, unpack_parameters
from sparsenet.engines.recommender import recommender_arrays
from sparsenet.engines.recommender.fit_recommender import FittedRecommender
from sparsenet.estimators.recommender_frames import LIBRARIES
from sparsenet.features.interactions import Interactions
from sparsenet.features.logs import Log, LogColumns
from sparsenet.kernels.types import I64, Arrays
from sparsenet.storage.format import ModelError
from sparsenet.storage.parts import check_kind, pack_part, unpack_part
from sparsenet.storage.strings import pack_strings, unpack_strings

#: The kind of model, as manifests name it.
KIND = "Recommender"


@dataclass(frozen=True, eq=False)
class Saved:
    """All that a trained `Recommender` consists of, apart from its parameters.

    Attributes
    ----------
    fitted : FittedRecommender
    items : ndarray
        Names by number.
    item_counts : ndarray of shape (n_items,), int64
        Users of each item.
    log : Log or None
        The training log with the names of users; None if it is not kept.
    columns : LogColumns or None
        The columns of the log; None for a matrix.
    library : str
        The library of the answers.
    n_users, n_events : int
    """

    fitted: FittedRecommender
    items: NDArray[Any]
    item_counts: I64
    log: Log | None
    columns: LogColumns | None
    library: str
    n_users: int
    n_events: int

    def kept_log(self, advice: str) -> Log:
        """Return the training log, or raise an error with advice if it is not kept."""
        if self.log is None:
            raise ValueError(f"the model keeps no users (keep_users=False): {advice}")
        return self.log


def pack(parameters: Mapping[str, Any], saved: Saved) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays and JSON of an equal model."""
    arrays, about = recommender_arrays.pack(saved.fitted)
    items, items_are_strings = _pack_names(saved.items, "items")
    found = pack_part("engine", arrays) | items | {"item_counts": saved.item_counts}
    metadata = {
        "model": KIND,
        "parameters": pack_parameters(parameters),
        "engine": about,
        "columns": None if saved.columns is None else saved.columns.as_json(),
        "library": saved.library,
        "n_users": saved.n_users,
        "n_events": saved.n_events,
        "string_items": items_are_strings,
        "log": None,
    }
    if saved.log is not None:
        users, users_are_strings = _pack_names(saved.log.users, "users")
        events = saved.log.interactions
        times = {} if events.times is None else {"log.times": events.times}
        found |= users | times | {"log.users": events.users, "log.items": events.items, "log.weights": events.weights}
        metadata["log"] = {"string_users": users_are_strings, "times": events.times is not None}
    return found, metadata


def unpack(arrays: Arrays, metadata: Mapping[str, Any]) -> tuple[dict[str, Any], Saved]:
    """Return the parameters and the model; raises ModelError if its parts contradict each other."""
    check_kind(metadata, KIND)
    fitted = recommender_arrays.unpack(unpack_part("engine", arrays), metadata["engine"])
    items = _unpack_names(arrays, "items", metadata["string_items"], fitted.n_items)
    columns = None if metadata["columns"] is None else LogColumns.of_json(metadata["columns"])
    n_users, n_events = integer("n_users", metadata["n_users"], 0), integer("n_events", metadata["n_events"], 0)
    library = choice("library", metadata["library"], LIBRARIES)
    counts = arrays["item_counts"]
    if counts.dtype != np.int64 or counts.shape != items.shape or counts.min(initial=0) < 0:
        raise ModelError(f"item_counts must hold a whole number for each of {len(items)} items")
    log = None
    if metadata["log"] is not None:
        users = _unpack_names(arrays, "users", metadata["log"]["string_users"], n_users)
        events = _unpack_events(arrays, n_users, fitted.n_items, has_times=metadata["log"]["times"])
        if len(events) != n_events:
            raise ModelError(f"the model has {len(events)} events, and {n_events} in its manifest")
        log = Log(events, users, items, columns)
    saved = Saved(fitted, items, counts, log, columns, library, n_users, n_events)
    return unpack_parameters(metadata["parameters"]), saved


def _pack_names(names: NDArray[Any], what: str) -> tuple[Arrays, bool]:
    """Return the arrays of names, and whether they are strings."""
    is_strings = names.dtype.kind == "O"
    return (pack_strings(names.tolist(), what) if is_strings else {what: names}), is_strings


def _unpack_names(arrays: Arrays, what: str, is_strings: Any, n: int) -> NDArray[Any]:
    """Return names, ascending and distinct."""
    if boolean(f"string_{what}", is_strings):
        strings = unpack_strings(arrays, what)
        names = np.empty(len(strings), object)
        names[:] = strings
    else:
        names = arrays[what]
        if names.dtype != np.int64 or names.ndim != 1:
            raise ModelError(f"{what} must be one row of whole numbers, got {names.dtype} of shape {names.shape}")
    if len(names) != n:
        raise ModelError(f"the model names {len(names)} of {n} {what}")
    if not (names[1:] > names[:-1]).all():
        raise ModelError(f"{what} must be distinct and ascending")
    return names


def _unpack_events(arrays: Arrays, n_users: int, n_items: int, *, has_times: Any) -> Interactions:
    """Return the log after checking every number."""
    users, items, weights = (arrays[f"log.{part}"] for part in ("users", "items", "weights"))
    times = arrays["log.times"] if boolean("times", has_times) else None
    for name, part, dtype in (
        ("users", users, np.int32),
        ("items", items, np.int32),
        ("weights", weights, np.float32),
        ("times", times, np.float64),
    ):
        if part is not None and (part.dtype != dtype or part.shape != (len(users),)):
            raise ModelError(f"log.{name} must hold a {np.dtype(dtype)} for each event, got {part.dtype} {part.shape}")
    if (users[1:] < users[:-1]).any() or users.min(initial=0) < 0 or users.max(initial=-1) >= n_users:
        raise ModelError(f"log.users must ascend from 0 to less than {n_users}")
    if items.min(initial=0) < 0 or items.max(initial=-1) >= n_items:
        raise ModelError(f"log.items must be numbers of {n_items} items")
    if not (np.isfinite(weights) & (weights > 0)).all():
        raise ModelError("log.weights must be finite numbers above 0")
    if times is not None and not (np.isfinite(times).all() and _ascend_within(users, times)):
        raise ModelError("log.times must be finite, and ascend for each user")
    return Interactions(users, items, times, weights, n_users, n_items)


def _ascend_within(users: NDArray[Any], times: NDArray[Any]) -> bool:
    return bool(((times[1:] >= times[:-1]) | (users[1:] != users[:-1])).all())


class RecommenderSavingMixin:
    """The methods `save` and `load` of `Recommender`, and the facts of its display."""

    def save(self: Any, path: str | os.PathLike[str]) -> None:
        """Save to a directory atomically: arrays as safetensors, and a manifest with checksums.

        The model holds the log, with the names of its users, unless ``keep_users=False``. A RandomState becomes None.
        """
        check_is_fitted(self)
        self._check()  # invalid parameters could not be loaded
        storage.save(path, *pack(self.get_params(deep=False), self._saved))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load a saved model; raise ModelError with the reason if it is damaged or of another kind."""
        return storage.load_as(path, cls._unpack)

    @classmethod
    def _unpack(cls, arrays: Arrays, metadata: dict[str, Any]) -> Self:
        parameters, saved = unpack(arrays, metadata)
        model: Any = cls(**parameters)
        model._check()
        adopted: Self = model._adopt(saved)
        return adopted

    def _facts(self: Any) -> Iterator[str]:
        """Yield the size of the log."""
        yield f"{self.n_events_:,} events of {self.n_users_:,} users and {self.n_items_:,} items"
