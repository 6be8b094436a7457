"""`NextItem` as arrays and JSON, and back; unpacking checks everything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from sparsenet.core.validation import boolean, choice, integer
from sparsenet.engines.network.parameters import pack_parameters, unpack_parameters
from sparsenet.estimators.recommender_frames import LIBRARIES
from sparsenet.features.logs import LogColumns
from sparsenet.kernels.types import Arrays
from sparsenet.storage.format import ModelError
from sparsenet.storage.parts import check_kind, pack_part, unpack_part
from sparsenet.temporal.feature_columns import FeatureColumns, ItemTable
from sparsenet.temporal.name_saving import pack_list, pack_names, unpack_list, unpack_names
from sparsenet.temporal.name_slots import NameSlots
from sparsenet.temporal.ranking.stream import Stream
from sparsenet.temporal.ranking.stream_arrays import (
    ITEM_USER,
    MAX_HISTORY,
    OF_CONTEXTS,
    OF_ITEMS,
    OF_USERS,
    StreamArrays,
)

#: The kind of model, as manifests name it.
KIND = "NextItem"
_FINITE = ("weights", "squares", "moments", "clock", "rates", "item_counts", "pair_features", "item_features")


@dataclass(frozen=True, eq=False)
class SavedStream:
    """All that a trained `NextItem` consists of, apart from its parameters.

    Attributes
    ----------
    stream : Stream
    columns : LogColumns
        The columns of the log.
    library : str
        The library of the answers.
    """

    stream: Stream
    columns: LogColumns
    library: str


def pack(parameters: Mapping[str, Any], saved: SavedStream) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays and JSON of an equal model."""
    stream = saved.stream
    users, users_are_strings = pack_names(stream.users, "users")
    items, items_are_strings = pack_names(stream.items, "items")
    found = pack_part("stream", stream.arrays.cut(stream.users.end, stream.items.end)) | users | items
    event_columns, about_events = stream.event_columns.pack()
    item_columns, about_items = stream.item_table.columns.pack()
    table, table_is_strings = pack_list(stream.item_table.names, "table")
    found |= pack_part("event_columns", event_columns) | pack_part("item_columns", item_columns) | table
    return found | {"table.values": stream.item_table.values}, {
        "model": KIND,
        "parameters": pack_parameters(parameters),
        "columns": saved.columns.as_json(),
        "library": saved.library,
        "string_users": users_are_strings,
        "string_items": items_are_strings,
        "event_columns": about_events,
        "item_columns": about_items,
        "string_table": table_is_strings,
        "mutual": stream.mutual,
        "n_users": stream.users.end,
        "n_items": stream.items.end,
        "max_users": stream.max_users,
        "max_items": stream.max_items,
    }


def unpack(arrays: Arrays, metadata: Mapping[str, Any]) -> tuple[dict[str, Any], SavedStream]:
    """Return the parameters and the model; raises ModelError if its parts contradict each other."""
    check_kind(metadata, KIND)
    n_users, n_items = (integer(name, metadata[name], 0) for name in ("n_users", "n_items"))
    own = unpack_part("stream", arrays)
    event_columns = FeatureColumns.unpack(unpack_part("event_columns", arrays), metadata["event_columns"])
    table = _unpack_table(arrays, metadata)
    # Before anything of these sizes is made:
    _check_shapes(own, n_users, n_items, event_columns.n_features, table.columns.n_features)
    users = unpack_names(arrays, "user", metadata["string_users"], n_users)
    items = unpack_names(arrays, "item", metadata["string_items"], n_items)
    mutual = boolean("mutual", metadata["mutual"])
    if mutual:
        if users.names != items.names:
            raise ModelError("users and items of a mutual stream must have the same names")
        items = users
    columns = LogColumns.of_json(metadata["columns"])
    _check_numbers(own, n_users, items)
    max_users, max_items = (integer(name, metadata[name], 1 + mutual) for name in ("max_users", "max_items"))
    if len(users) > max_users or len(items) > max_items:
        most = f"{max_users} users and {max_items} items"
        raise ModelError(f"a stream of at most {most} has {len(users)} and {len(items)}")
    stream = Stream(StreamArrays(**own), users, items, max_users, max_items, event_columns, table)
    library = choice("library", metadata["library"], LIBRARIES)
    return unpack_parameters(metadata["parameters"]), SavedStream(stream, columns, library)


def _unpack_table(arrays: Arrays, metadata: Mapping[str, Any]) -> ItemTable:
    columns = FeatureColumns.unpack(unpack_part("item_columns", arrays), metadata["item_columns"])
    names, values = unpack_list(arrays, "table", metadata["string_table"]), arrays["table.values"]
    if values.dtype != np.float32 or values.shape != (len(names), columns.n_features) or not np.isfinite(values).all():
        raise ModelError(f"table.values must be finite float32 of shape {(len(names), columns.n_features)}")
    return ItemTable(columns, names, values)


def _check_shapes(own: Arrays, n_users: int, n_items: int, *widths: int) -> None:
    """Check types and shapes; `widths` are the numbers of features of an event and of an item."""
    expected = vars(StreamArrays.blank(integer("the history", own["pair_items"].shape[1], 1, MAX_HISTORY), *widths))
    more = dict.fromkeys(OF_USERS, n_users) | dict.fromkeys((*OF_ITEMS, *OF_CONTEXTS), n_items)
    if own.keys() != {field.name for field in fields(StreamArrays)}:
        raise ModelError(f"the arrays of a stream are {', '.join(sorted(expected))}, got {', '.join(sorted(own))}")
    for name, array in expected.items():
        shape = (len(array) + more.get(name, 0), *array.shape[1:])
        if own[name].dtype != array.dtype or own[name].shape != shape:
            raise ModelError(f"stream.{name} must be {array.dtype} {shape}, got {own[name].dtype} {own[name].shape}")


def _check_numbers(own: Arrays, n_users: int, items: NameSlots) -> None:
    """Check every number that is an index, and that the numbers of the ranker are finite."""
    n_items, is_named = items.end, np.array([name is not None for name in items.names] + [True])  # -1 finds True
    for name in ("pair_items", "context_items", "popular"):
        if own[name].min(initial=-1) < -1 or own[name].max(initial=-1) >= n_items:
            raise ModelError(f"stream.{name} must hold numbers of {n_items} items, or -1")
        if not is_named[own[name]].all():
            raise ModelError(f"stream.{name} holds the number of an item without a name")
    keys = own["context_keys"][own["context_keys"] >= 0]
    if max((keys >> 32).max(initial=-1), (keys & 0xFFFFFFFF).max(initial=-1)) >= n_items:
        raise ModelError(f"stream.context_keys must hold pairs of {n_items} items, or -1")
    if not all(np.isfinite(own[name]).all() for name in _FINITE):
        raise ModelError("stream holds numbers that are not finite")
    if not (own["half_lives"] > 0).all() or own["clock"][0] < 1:
        raise ModelError("stream.half_lives and the number of events must be above 0")
    users = own["item_values"][:, ITEM_USER]
    if not ((users >= -1) & (users < n_users)).all():
        raise ModelError(f"stream.item_values must hold numbers of {n_users} users, or -1")
