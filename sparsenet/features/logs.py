"""Logs of interactions with the names of their users and items, from frames, files and matrices."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sparsenet.core.matrices import canonical, check_structure, without_zeros
from sparsenet.core.progress import parts_done
from sparsenet.core.validation import boolean, first_repeated, first_unusable, optional, unusable
from sparsenet.data.columns import refuse_values
from sparsenet.data.dialect import DEFAULT, NO_FILE, Dialect, LearntFile
from sparsenet.data.formats import text_format
from sparsenet.data.frames import Frame, is_frame, read_frame
from sparsenet.data.sources import name_of
from sparsenet.features.interactions import Interactions
from sparsenet.features.log_values import encode_names, read_times, read_weights
from sparsenet.features.name_kinds import in_kind
from sparsenet.kernels.types import I32, I64

#: Names that the column of times may have, if the user names none.
TIMES = ("time", "timestamp")
AUTO = "auto"
#: The kinds of the names of users and items that a model knows: "O", "i", or None if it knows none.
Kinds = tuple[str | None, str | None]


@dataclass(frozen=True)
class LogColumns:
    """Names of the columns of a log; `time` and `weight` may be None, and `time` may be "auto".

    `features` are further columns. With `by_position`, the names are positions in a CSV or TSV file without a header.
    `file` is how the training log was read, for further files. `are_dates` is whether its times are dates, and not
    numbers; None before they are read, and of older models. `are_learnt` is whether a model learnt from these columns.
    """

    #: The arguments that name the columns, in the order of the fields.
    ARGUMENTS: ClassVar[tuple[str, ...]] = ("user", "item", "time", "weight")

    user: str = "user"
    item: str = "item"
    time: str | None = AUTO
    weight: str | None = None
    by_position: bool = False
    file: LearntFile = NO_FILE
    features: tuple[str, ...] = ()
    are_dates: bool | None = None
    are_learnt: bool = False

    @classmethod
    def of(cls, user: Any, item: Any, time: Any, weight: Any = None, event_features: Any = ()) -> Self:
        """Check the names of columns, or their positions, which all must be then."""
        if isinstance(event_features, str) or not isinstance(event_features, Sequence):
            raise ValueError(f"event_features must be a sequence of columns, got {event_features!r}")
        given = dict(zip(cls.ARGUMENTS, (user, item, time, weight), strict=False))
        names, by_position = _checked(given | _by_argument(event_features))
        own = dict(zip(("user", "item", "time", "weight"), (names[argument] for argument in given), strict=False))
        return cls(**own, by_position=by_position, features=tuple(map(str, event_features)))

    def like_training(self, log: Any, file: LogFile) -> LogFile:
        """Return how to read a file: as the training file was read, unless `file` has other options."""
        if not isinstance(log, str | os.PathLike):
            return file
        format, dialect = self.file.like(log, file.format, file.dialect)
        return replace(file, format=format, dialect=dialect)

    def read_from(self, log: Any, file: LogFile) -> LogColumns:
        """Return the columns with how the log was read, if it is a file."""
        if not isinstance(log, str | os.PathLike):
            return self
        return replace(self, file=LearntFile.of(log, file.format, file.dialect))

    def as_json(self) -> dict[str, Any]:
        """Return the fields in types of JSON."""
        return {**vars(self), "file": self.file.as_json(), "features": list(self.features)}

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> Self:
        """Check the result of `as_json`, also of older models, which have no file."""
        features = tuple(found.get("features", ()))
        further = {"file": LearntFile.of_json(found.get("file")), "features": features, "are_learnt": True}
        columns = cls(**{**found, **further})
        cls.of(columns.user, columns.item, columns.time, columns.weight, columns.features)
        boolean("by_position", columns.by_position)
        optional(boolean, "are_dates", columns.are_dates)
        return columns

    def names(self) -> dict[str, str | None]:
        """Return the columns by argument."""
        own = self.user, self.item, self.time, self.weight
        return dict(zip(self.ARGUMENTS, own, strict=False)) | _by_argument(self.features)

    def given(self) -> dict[str, str]:
        """Return the arguments by the name of their column, without a time that is yet to be found."""
        found = self.names() | ({"time": None} if self.time == AUTO else {})
        return {name: argument for argument, name in found.items() if name is not None}

    def wanted(self) -> list[str]:
        """Return the columns to read."""
        return [*self.given(), *(TIMES if self.time == AUTO else ())]

    def found_in(self, frame: Frame) -> LogColumns:
        """Return the columns of a frame; raise an error that names a missing one."""
        for name, argument in self.given().items():
            self.require(frame, name, argument)
        time = self.time
        if time == AUTO:
            time = next((name for name in TIMES if name in frame and name not in self.given()), None)
        return replace(self, time=time, are_learnt=True)

    def require(self, frame: Frame, name: str, argument: str) -> None:
        """Refuse a frame without a column; later logs have no argument that could name another one."""
        if self.are_learnt and name not in frame:
            problem = f"there is no column {name!r}, which the model learnt from: rename a column"
            raise frame.error(f"{problem}; there are {frame.there}")
        frame.require([name], argument)


def _by_argument(features: Sequence[Any]) -> dict[str, Any]:
    return {f"event_features[{i}]": name for i, name in enumerate(features)}


def _checked(columns: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Check the columns of arguments, names or positions; return them as strings, and whether they are positions."""
    columns, time = dict(columns), columns.get("time")
    for argument, name in columns.items():
        refuse_values(argument, name, "log")
    positions = [_is_position(name) for name in columns.values() if name not in (None, AUTO)]
    for argument, name in columns.items():
        may_be_none = name is None and argument in ("time", "weight")
        if not (isinstance(name, str) or _is_position(name) or may_be_none):
            raise ValueError(f"{argument} must be the name of a column, or its position in a file, got {name!r}")
    if any(positions):
        columns["time"] = None if time == AUTO else time
        if not all(positions):
            found = ", ".join(f"{argument}={name!r}" for argument, name in columns.items() if name is not None)
            raise ValueError(f"columns must all be names or all positions, got {found}")
    given = {argument: str(name) for argument, name in columns.items() if name is not None}
    repeated = first_repeated(list(given.values()))
    if repeated is not None:
        both = " and ".join([argument for argument, name in given.items() if name == repeated][:2])
        raise ValueError(f"{both} must be different columns, got {repeated!r} twice")
    return {argument: None if name is None else str(name) for argument, name in columns.items()}, any(positions)


def _is_position(name: Any) -> bool:
    return isinstance(name, int | np.integer) and not isinstance(name, bool)


@dataclass(frozen=True, kw_only=True)
class LogFile:
    """How to read the file of a log: format and dialect as in `read_frame`, and whether to show progress."""

    format: str = "auto"
    dialect: Dialect = DEFAULT
    verbose: bool | None = False


@dataclass(frozen=True, eq=False)
class Log:
    """Interactions with the names of users and items.

    Attributes
    ----------
    interactions : Interactions
    users, items : ndarray
        Names by number, ascending: int64, or objects of str.
    columns : LogColumns or None
        The columns that they were read from; None for a matrix.
    """

    interactions: Interactions
    users: NDArray[Any]
    items: NDArray[Any]
    columns: LogColumns | None

    def __len__(self) -> int:
        return len(self.interactions)

    def joined(self, more: Log) -> Log:
        """Return the log with the events of another one behind its own."""
        first, second = self.interactions, more.interactions
        times = None
        if first.times is not None and second.times is not None:
            times = np.concatenate((first.times, second.times))
        elif first.times is not None or second.times is not None:
            missing, known = ("times", "none") if first.times is None else ("no times", "some")
            raise ValueError(f"the log has {missing}, and the log that the model learnt from has {known}")
        users, of_users = _union(self.users, more.users)
        items, of_items = _union(self.items, more.items)
        events = Interactions.of(
            np.concatenate((of_users[0][first.users], of_users[1][second.users])),
            np.concatenate((of_items[0][first.items], of_items[1][second.items])),
            times,
            np.concatenate((first.weights, second.weights)),
            len(users),
            len(items),
        )
        return Log(events, users, items, self.columns or more.columns)

    def over(self, items: NDArray[Any]) -> Interactions:
        """Return the events with items numbered as in `items`; unknown items get the numbers after these."""
        places = positions(items, self.items)
        unknown = np.flatnonzero(places < 0)
        places[unknown] = len(items) + np.arange(len(unknown))
        own = self.interactions
        width = len(items) + len(unknown)
        return Interactions(own.users, places[own.items].astype(np.int32), own.times, own.weights, own.n_users, width)


def _union(first: NDArray[Any], second: NDArray[Any]) -> tuple[NDArray[Any], tuple[I32, I32]]:
    """Return all names, ascending, and the numbers in them of both sets of names, which are of one kind."""
    both = np.concatenate((first, second))
    names = np.unique(both) if both.dtype.kind == "i" else _objects(sorted(set(both.tolist())))
    return names, (np.searchsorted(names, first).astype(np.int32), np.searchsorted(names, second).astype(np.int32))


def positions(names: NDArray[Any], wanted: NDArray[Any]) -> I64:
    """Return the position of each wanted name in ascending `names`; -1 if it is not there."""
    if not len(names) or not len(wanted):
        return np.full(len(wanted), -1, np.int64)
    wanted, fits = in_kind(wanted, names.dtype.kind)
    places = np.minimum(np.searchsorted(names, wanted), len(names) - 1)
    return np.where(fits & (names[places] == wanted), places, -1)


def _objects(values: list[str]) -> NDArray[Any]:
    found = np.empty(len(values), object)
    found[:] = values
    return found


def read_log(
    log: Any,
    columns: LogColumns,
    file: LogFile = LogFile(),
    *,
    argument: str = "log",
    may_be_empty: bool = False,
    kinds: Kinds = (None, None),
) -> Log:
    """Read a log from a frame, a mapping, a file or a matrix of users by items.

    `kinds` are the kinds of the names of users and items that a model knows. Errors name the argument or the file, the
    row, the column and the value. Rows of weight 0 are left out.
    """
    if sparse.issparse(log):
        _refuse_columns(columns, file, argument)
        return _of_matrix(log, argument, may_be_empty)
    if isinstance(log, Log):
        return log
    if not is_frame(log):
        wanted = "a data frame, a mapping of columns, a path, or a SciPy sparse matrix of users by items"
        advice = 'pass {"user": [...], "item": [...]}, or csr_array(log) for a matrix'
        raise ValueError(f"{argument} must be {wanted}, got {type(log).__name__}: {advice}")
    file = columns.like_training(log, file)
    found = _of_frame(log_frame(log, columns, file, argument), columns, may_be_empty, kinds)
    return found if found.columns is None else replace(found, columns=found.columns.read_from(log, file))


def log_frame(log: Any, columns: LogColumns, file: LogFile, argument: str) -> Frame:
    """Read the columns of a log; all columns of the file if one is missing, since the error lists them."""
    if columns.by_position:
        _require_positions(log, columns, file, argument)
    dialect = replace(file.dialect, header=False) if columns.by_position else file.dialect
    how: dict[str, Any] = {"argument": argument, "format": file.format, "dialect": dialect}
    size = os.path.getsize(log) if isinstance(log, str | os.PathLike) and os.path.isfile(log) else 0
    with parts_done(size, f"reading {argument}", file.verbose if size else False) as on_bytes:
        frame = read_frame(log, columns=columns.wanted(), on_bytes=on_bytes, **how)
    is_complete = all(name in frame for name in columns.given())
    return frame if is_complete or (isinstance(log, str) and log == "-") else read_frame(log, **how)


def _require_positions(log: Any, columns: LogColumns, file: LogFile, argument: str) -> None:
    """Refuse a log whose columns have no positions."""
    found = f"{columns.ARGUMENTS[0]}={columns.user} is a position in a file"
    if not isinstance(log, str | os.PathLike):
        advice = "pass a file, or fit on columns with names" if columns.are_learnt else "name the column"
        raise ValueError(f"{found}, and {argument} is none: {advice}")
    format = text_format(log) if file.format == "auto" else file.format
    if format in ("jsonl", "parquet"):
        advice = "pass CSV or TSV, or fit on columns with names" if columns.are_learnt else "name the column"
        raise ValueError(f"{found} of CSV or TSV, and {name_of(log)} is {format}: {advice}")


def _of_frame(frame: Frame, columns: LogColumns, may_be_empty: bool, kinds: Kinds) -> Log:
    columns = columns.found_in(frame)
    if not len(frame) and not may_be_empty:
        raise frame.error("holds no rows: a log has a row for each time that a user took an item")
    users, user_names = encode_names(frame, columns.user, kinds[0])
    items, item_names = encode_names(frame, columns.item, kinds[1])
    times = None
    if columns.time is not None:
        times, are_dates = read_times(frame, columns.time, columns.are_dates)
        columns = replace(columns, are_dates=are_dates)
    weights = None if columns.weight is None else read_weights(frame, columns.weight)
    if weights is not None and not weights.all():
        kept = weights > 0
        if not kept.any() and not may_be_empty:
            raise frame.error(f"all weights in the column {columns.weight!r} are 0: nobody has taken anything")
        weights, times = weights[kept], None if times is None else times[kept]
        users, user_names = _used(users[kept], user_names)
        items, item_names = _used(items[kept], item_names)
    found = Interactions.of(users, items, times, weights, len(user_names), len(item_names))
    return Log(found, user_names, item_names, columns)


def _used(codes: I32, names: NDArray[Any]) -> tuple[I32, NDArray[Any]]:
    """Return the codes of names that occur, and these names."""
    used, numbers = np.unique(codes, return_inverse=True)
    return numbers.astype(np.int32), names[used]


def _of_matrix(matrix: Any, argument: str, may_be_empty: bool) -> Log:
    """Take a matrix of users by items; its numbers are the names."""
    check_structure(argument, matrix)
    if matrix.dtype.kind not in "biuf":
        raise ValueError(f"{argument} must hold numbers, not zero where a user took an item, got {matrix.dtype}")
    csr = without_zeros(canonical(matrix.tocsr().astype(np.float64)))
    wrong = first_unusable(csr.data)
    if wrong is None and csr.data.min(initial=0) < 0:
        wrong = int(np.argmax(csr.data < 0))
    if wrong is not None:
        row, column = int(np.searchsorted(csr.indptr, wrong, side="right")) - 1, int(csr.indices[wrong])
        place, value = f"in row {row}, column {column}", csr.data[wrong]
        found = f"{value:g} {place}: weights are at least 0" if value < 0 else unusable(value, place)
        raise ValueError(f"{argument} holds {found}")
    if not csr.nnz and not may_be_empty:
        raise ValueError(f"{argument} of shape {csr.shape} is empty: it is not zero where a user took an item")
    users, items = (np.arange(n) for n in csr.shape)
    return Log(Interactions.of_matrix(csr), users, items, None)


def _refuse_columns(columns: LogColumns, file: LogFile, argument: str) -> None:
    given = {argument: name for name, argument in columns.given().items() if name != argument}
    given |= ({} if file.format == "auto" else {"format": file.format}) | file.dialect.given
    for name, value in given.items():
        raise ValueError(f"{name}={value!r} is for logs with columns, and {argument} is a matrix: leave it out")
