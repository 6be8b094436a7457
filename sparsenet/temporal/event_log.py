"""Read events in the order of time, from frames and files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.validation import first_unusable, unusable
from sparsenet.data.frame_columns import as_column
from sparsenet.data.frames import Frame, is_frame
from sparsenet.estimators.table_input import as_table
from sparsenet.features.log_names import is_one
from sparsenet.features.log_values import encode_names, read_times, time_in_words
from sparsenet.features.logs import AUTO, TIMES, Kinds, LogColumns, LogFile, log_frame
from sparsenet.kernels.types import F64, I32, I64


@dataclass(frozen=True, eq=False)
class EventLog:
    """Events in the order of time.

    Attributes
    ----------
    users, items : ndarray of shape (n,), int32
        Positions in the names.
    times : ndarray of shape (n,), float64
    user_names, item_names : ndarray
        Distinct: int64, or objects of str.
    columns : LogColumns
        The columns that were read.
    frame : Frame
        The log as read, with all columns.
    rows : ndarray of shape (n,), int64
        The row of each event in the frame.
    """

    users: I32
    items: I32
    times: F64
    user_names: NDArray[Any]
    item_names: NDArray[Any]
    columns: LogColumns
    frame: Frame
    rows: I64

    def __len__(self) -> int:
        return len(self.users)

    def part(self, first: int, end: int) -> EventLog:
        """Return some of the events, with all names."""
        parts: Any = {name: getattr(self, name)[first:end] for name in ("users", "items", "times", "rows")}
        return replace(self, **parts)

    def mutual(self) -> EventLog:
        """Return the log with one set of names for users and items."""
        if len(self) and self.user_names.dtype != self.item_names.dtype:
            raise ValueError("users and items must both be named by strings, or both by whole numbers, if mutual=True")
        both = np.concatenate((self.user_names, self.item_names))
        names, found = np.unique(both, return_inverse=True)
        codes: I32 = found.astype(np.int32)
        users, items = codes[: len(self.user_names)], codes[len(self.user_names) :]
        return replace(self, users=users[self.users], items=items[self.items], user_names=names, item_names=names)


def read_events(
    log: Any,
    columns: LogColumns,
    file: LogFile,
    *,
    sort: bool,
    newest: float | None,
    n_events: int,
    kinds: Kinds,
) -> EventLog:
    """Read a log; raise an error that names the first row whose time is before the row before it, or before `newest`.

    Names get the `kinds` that the model knows.

    A dict of cells is one event. With `sort`, rows may be in any order, and rows of one time keep theirs. Without a
    column of times, the time of an event is its number, counted from `n_events`.
    """
    log = as_table(log)
    if not is_frame(log):
        wanted = "a data frame, a mapping of columns, a list of dicts or a path"
        raise ValueError(f'log must be {wanted}, got {type(log).__name__}: pass {{"user": [...], "item": [...], ...}}')
    file = columns.like_training(log, file)
    frame = log_frame(log, columns, file, "log")
    found = columns.found_in(frame)
    if columns.time == AUTO and found.time is None:
        problem = f"there is no column {' or '.join(map(repr, TIMES))}"
        raise frame.error(f"{problem}: name the column of the times by time=, or pass time=None if rows are in order")
    columns = found.read_from(log, file)
    users, user_names = encode_names(frame, columns.user, kinds[0])
    items, item_names = encode_names(frame, columns.item, kinds[1])
    times = n_events + np.arange(len(frame), dtype=np.float64)
    order: I64 = np.arange(len(frame))
    if columns.time is not None:
        column = columns.time
        times, are_dates = _read_times(frame, column, columns.are_dates)
        columns = replace(columns, are_dates=are_dates)
        order = np.argsort(times, kind="stable") if sort else order
        _check_order(frame, column, times, order, newest, sort=sort)
    return EventLog(users[order], items[order], times[order], user_names, item_names, columns, frame, order)


def read_links(log: Any, columns: LogColumns, file: LogFile) -> dict[str, NDArray[Any]]:
    """Read the names of the two ends of links, by argument; the log needs no other columns."""
    columns = replace(columns, time=None, weight=None, features=())
    frame = log_frame(as_table(log), columns, columns.like_training(log, file), "log")
    found = {}
    for argument, column in columns.found_in(frame).names().items():
        if column is not None:
            codes, names = encode_names(frame, column)
            found[argument] = names[codes]
    return found


def read_questions(log: Any, columns: LogColumns, file: LogFile, newest: float | None) -> dict[str, NDArray[Any]]:
    """Read the users of a log, and its times if it has such a column; refuse times before `newest`."""
    frame = log_frame(as_table(log), replace(columns, features=()), columns.like_training(log, file), "log")
    columns.require(frame, columns.user, "user")
    codes, names = encode_names(frame, columns.user)
    found = {"users": names[codes]}
    if columns.time is not None and columns.time in frame:
        found["time"] = times = _read_times(frame, columns.time, columns.are_dates)[0]
        if newest is not None and times.min(initial=newest) < newest:
            _refuse_older(frame, columns.time, times, int(np.argmin(times)), newest, "ask for a later time")
    return found


def _read_times(frame: Frame, column: str, are_dates: bool | None) -> tuple[F64, bool | None]:
    """Return what `read_times` does; refuse times whose differences would overflow."""
    times, are_dates = read_times(frame, column, are_dates)
    row = first_unusable(times)
    if row is not None:
        raise frame.error(unusable(times[row], f"in column {column!r}"), row)
    return times, are_dates


def _refuse_older(frame: Frame, column: str, times: F64, row: int, newest: float, advice: str) -> NoReturn:
    time, last = (time_in_words(frame, column, seconds) for seconds in (times[row], newest))
    problem = f"the time {time} in column {column!r} is before {last}, the last event learnt"
    raise frame.error(f"{problem}: {advice}", row)


def _check_order(frame: Frame, column: str, times: F64, order: I64, newest: float | None, *, sort: bool) -> None:
    """Raise an error about the first event that is older than the one before it, or than the state."""
    if newest is not None and len(times):
        row = int(np.argmax(times < newest)) if not sort else int(np.argmin(times))
        if times[row] < newest:
            advice = "a stream goes forwards, so leave older events out, or fit on all"
            _refuse_older(frame, column, times, row, newest, advice)
    back = np.flatnonzero(np.diff(times[order]) < 0)
    if len(back):
        row = int(back[0]) + 1
        before, after = (time_in_words(frame, column, seconds) for seconds in times[row - 1 : row + 1])
        problem = f"the time in column {column!r} goes back from {before} to {after}"
        raise frame.error(f"{problem}: pass sort=True", row)


def query_names(names: Any, argument: str) -> NDArray[Any]:
    """Return one name or several as an array; refuse what is no name."""
    if isinstance(names, Mapping) or not (is_one(names) or isinstance(names, Iterable)):
        raise ValueError(f"{argument} must be a name, or a sequence of names, got {names!r}")
    values = as_column([names] if is_one(names) else names, argument)
    if not len(values):
        return values
    codes, distinct = encode_names(Frame({argument: values}, argument, len(values)), argument)
    return distinct[codes]


def query_times(time: Any, n: int, newest: float, are_dates: bool | None) -> F64:
    """Return the time of each query: one for all, or one each; None is the time of the last event.

    `are_dates` is whether the times of the model are dates.
    """
    if time is None:
        return np.full(n, newest)
    several = isinstance(time, list | tuple) or getattr(time, "ndim", 0) > 0
    values = as_column(time if several else [time], "time")
    frame = Frame({"time": values}, "time", len(values))
    found, _ = _read_times(frame, "time", are_dates)
    if several and len(found) != n:
        raise ValueError(f"time must be one time, or one for each of {n} queries, got {len(found)}")
    if (found < newest).any():
        time, last = (time_in_words(frame, "time", seconds) for seconds in (found.min(), newest))
        raise ValueError(f"time {time} is before {last}, the last event learnt: ask for a later time")
    return np.broadcast_to(found, n).copy()
