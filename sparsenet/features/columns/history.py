"""Histories: the last events of the same key before the time of each row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.machine import available_memory
from sparsenet.core.memory import in_words
from sparsenet.core.validation import first_repeated, integer
from sparsenet.data.frames import Frame
from sparsenet.features.columns.category_column import Categories, checked_texts
from sparsenet.features.columns.cell_dates import MICROSECONDS_A_DAY, ORDERS, Moments, moments_in, time_order
from sparsenet.features.columns.cell_numbers import numbers_in
from sparsenet.features.columns.cells import Cells
from sparsenet.features.columns.tracks import Track
from sparsenet.kernels.types import F64, I64, Arrays
from sparsenet.storage.format import ModelError
from sparsenet.storage.strings import pack_strings, unpack_strings

#: Most events that a row may look back on.
MAX_LENGTH = 1000


@dataclass(frozen=True, kw_only=True)
class HistorySpec:
    """Settings of a history: the earlier events that become features of a row.

    Attributes
    ----------
    key : str
        The column whose equal values share a history, such as the customer.
    time : str
        The column with the time of a row: dates, or numbers that increase with time. Rows may be in any order.
    columns : tuple of str
        The columns whose last values become features. The target may be one of them.
    n : int
        Number of events.

    Examples
    --------
    >>> from sparsenet.features import HistorySpec, TableFeatures
    >>> log = {"user": ["a", "a", "b"], "day": [1, 2, 3], "item": ["x", "y", "x"]}
    >>> history = HistorySpec(key="user", time="day", columns=("item",), n=5)
    >>> features = TableFeatures(history=history).fit(log)
    >>> print(features.columns_.splitlines()[-1])
    last item of user  history          1        2  x        the last 5 events of user
    """

    key: str
    time: str
    columns: tuple[str, ...]
    n: int = 10

    def __post_init__(self) -> None:
        columns: Any = self.columns
        object.__setattr__(self, "columns", (columns,) if isinstance(columns, str) else tuple(columns))
        integer("the n of a history", self.n, 1, MAX_LENGTH)
        if not self.columns or not all(isinstance(name, str) for name in (self.key, self.time, *self.columns)):
            raise ValueError(f"a history needs the names of columns, got {self}")
        repeated = first_repeated(self.columns)
        if repeated is not None:
            raise ValueError(f"a history names the column {repeated!r} twice, got {self.columns}: name it once")
        if self.time in (self.key, *self.columns) or self.key in self.columns:
            raise ValueError(f"the key, the time and the columns of a history must differ, got {self}")


@dataclass(frozen=True, eq=False)
class History:
    """The learnt events of each key.

    A row looks back on the last `n` events of its key whose time is earlier than its own, never on rows of the same
    time and never on itself. These are events of the training rows and of the rows that are encoded together. Rows
    without a key or a time look back on nothing, and are no events.

    Attributes
    ----------
    spec : HistorySpec
    order : str or None
        The order of the parts of a date in strings; None if times are numbers.
    keys : list of str
        The keys with events.
    values : tuple of Categories
        The values of each column that occur often enough.
    tracks : tuple of Track
        The last events: first of all rows, then of each column.
    """

    spec: HistorySpec
    order: str | None
    keys: list[str]
    values: tuple[Categories, ...]
    tracks: tuple[Track, ...]

    @classmethod
    def learn(cls, frame: Frame, spec: HistorySpec, *, max_events: int = 1 << 24) -> History:
        """Learn the values of the columns, and keep the last events of each key.

        At most `max_events` over all keys bound the model; keys whose last event is the oldest are dropped.
        """
        frame.require([spec.key, spec.time, *spec.columns], "history")
        values = tuple(Categories.learn(_one_value(Cells.of(frame, name)).texts()) for name in spec.columns)
        empty = tuple(Track.empty() for _ in range(1 + len(values)))
        fresh = cls(spec, time_order(Cells.of(frame, spec.time)), [], values, empty)
        keys, _, _, events = fresh._events(frame)
        kept = tuple(track.last(spec.n, len(keys), max_events) for track in events)
        return cls(spec, fresh.order, keys, values, kept)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each key."""
        return {key: number for number, key in enumerate(self.keys)}

    def times(self, frame: Frame) -> F64:
        """Return the time of each row as a number; NaN where it is missing."""
        return _times(Cells.of(frame, self.spec.time), self.order)

    def past(self, frame: Frame) -> dict[str, NDArray[Any]]:
        """Return the derived columns of a frame, by name.

        The number of events before, the time since the last one, and for each column an array (n, length) with the
        numbers of the last values, the latest first, and -1 where there is none.
        """
        key, time, events = self._events(frame)[1:]
        keys = np.unique(key[key >= 0])
        tracks = [own.of_keys(keys).joined(more) for own, more in zip(self.tracks, events, strict=True)]
        self._check_memory(len(frame), min(self.spec.n, tracks[0].longest()))
        looks = [track.before(key, time, self.spec.n) for track in tracks]
        there = looks[0].code >= 0
        since = (time - looks[0].time[:, 0]) / (MICROSECONDS_A_DAY if self.order else 1)
        numbers = np.count_nonzero(there, axis=1).astype(np.float64)
        columns = [numbers, np.where(there[:, 0], since, np.nan), *(look.code for look in looks[1:])]
        return dict(zip(self.derived, columns, strict=True))

    def _check_memory(self, n: int, length: int) -> None:
        """Refuse to look back if the events of all rows do not fit into memory."""
        needed, available = 8 * n * length * (4 + len(self.values)), available_memory()
        if needed > available:
            found = f"{in_words(needed)}, but only {in_words(available)} are available"
            raise MemoryError(f"looking back on {length} events of {n:,} rows needs {found}: lower the history's n")

    @cached_property
    def derived(self) -> list[str]:
        """The names of the derived columns."""
        key = self.spec.key
        unit = "days" if self.order else "time"
        return [f"events of {key}", f"{unit} since {key}", *(f"last {name} of {key}" for name in self.spec.columns)]

    def _events(self, frame: Frame) -> tuple[list[str], I64, F64, list[Track]]:
        """Return the new keys of a frame, the keys of its rows, their times, and their events.

        New keys are numbered after the known ones; rows without key or time have -1. A column that is not in the frame
        has no events.
        """
        texts, time = checked_texts(Cells.of(frame, self.spec.key)), _times(Cells.of(frame, self.spec.time), self.order)
        known, new = self.numbers, [text for text in texts.values if text is not None and text not in self.numbers]
        numbers = {text: len(known) + number for number, text in enumerate(new)}
        place = [-1 if text is None else known[text] if text in known else numbers[text] for text in texts.values]
        key = np.where(np.isnan(time), -1, np.array(place, np.int64)[texts.codes])
        codes = [self._codes(frame, name, values) for name, values in zip(self.spec.columns, self.values, strict=True)]
        any_code = np.where(np.max(codes, axis=0) >= 0, 0, -1)
        return new, key, time, [Track.of(key, time, code) for code in (any_code, *codes)]

    @staticmethod
    def _codes(frame: Frame, name: str, values: Categories) -> I64:
        """Return the number of the value in each row, and -1 where it is missing."""
        if name not in frame:
            return np.full(len(frame), -1)
        texts = _one_value(Cells.of(frame, name)).texts()
        number = values.of(texts.values)[texts.codes]
        return np.where(number == values.missing, -1, number)

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Return what was learnt as arrays and JSON."""
        arrays = pack_strings(self.keys, "keys")
        for number, track in enumerate(self.tracks):
            arrays |= {f"tracks.{number}.{name}": getattr(track, name) for name in ("key", "time", "code")}
        for number, values in enumerate(self.values):
            arrays |= {f"values.{number}.{name}": array for name, array in values.state().items()}
        spec = {"key": self.spec.key, "time": self.spec.time, "columns": list(self.spec.columns), "n": self.spec.n}
        return arrays, {**spec, "order": self.order}

    @classmethod
    def restore(cls, arrays: Arrays, about: Mapping[str, Any]) -> History:
        """Restore and check what `state` returned."""
        spec = HistorySpec(**{name: about[name] for name in ("key", "time", "columns", "n")})
        if about["order"] is not None and about["order"] not in ORDERS:
            raise ModelError(f"the order of the times of a history must be one of {ORDERS}, got {about['order']!r}")
        keys = unpack_strings(arrays, "keys")
        values = tuple(Categories.restore(under(arrays, f"values.{i}.")) for i in range(len(spec.columns)))
        n_codes = (1, *(len(own) + 1 for own in values))
        tracks = tuple(Track.restore(under(arrays, f"tracks.{i}."), len(keys), n) for i, n in enumerate(n_codes))
        return cls(spec, about["order"], keys, values, tracks)


def under(arrays: Arrays, prefix: str) -> Arrays:
    """Return the arrays whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _one_value(cells: Cells) -> Cells:
    """Refuse a column with lists: an event has one value."""
    for row, cell in enumerate(cells.values.tolist() if cells.values.dtype.kind == "O" else ()):
        if isinstance(cell, list | tuple | set | dict | np.ndarray):
            cells.refuse(row, "a history needs columns with one value in a cell: make a row of each value")
    checked_texts(cells)
    return cells


def _times(cells: Cells, order: str | None) -> F64:
    """Return times as numbers: microseconds since 1970 of dates. Refuse cells that hold neither a date nor nothing."""
    if order is None:
        numbers, strays = numbers_in(cells)
        found = np.where(np.isinf(numbers), np.nan, numbers)
    else:
        moments, strays = moments_in(cells, order)
        found = _ticks(moments)
    if len(strays):
        wanted = "a number" if order is None else f"a date ({order})"
        cells.refuse(int(strays[0]), f"the times of a history must each be {wanted}, or missing")
    return found


def _ticks(moments: Moments) -> F64:
    return np.where(np.isnat(moments), np.nan, moments.view(np.int64).astype(np.float64))
