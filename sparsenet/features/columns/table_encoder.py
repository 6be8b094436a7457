"""Learn the columns of a table, and encode its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sparsenet.core.machine import available_memory
from sparsenet.core.memory import in_words
from sparsenet.core.rows import Rows
from sparsenet.data.frames import Frame
from sparsenet.features.columns.category_column import CategoryColumn
from sparsenet.features.columns.cell_dates import ORDERS
from sparsenet.features.columns.cells import Cells
from sparsenet.features.columns.column_encoder import ColumnEncoder, ColumnSummary, encoded
from sparsenet.features.columns.column_types import (
    ColumnProfile,
    InferredType,
    check_given,
    given_type,
    infer_type,
)
from sparsenet.features.columns.date_column import DateColumn
from sparsenet.features.columns.history import History, HistorySpec
from sparsenet.features.columns.history_column import HistoryColumn
from sparsenet.features.columns.ignored_column import IgnoredColumn
from sparsenet.features.columns.number_column import NumberColumn
from sparsenet.features.columns.several_column import SeveralColumn
from sparsenet.features.columns.text_column import TextColumn
from sparsenet.kernels.types import F64, I32, Bools

#: Factor of all features: on thirteen tables trees with their usual cost were best at 1/4 to 1, and near it at 1/2.
SCALE = np.float32(0.5)


@dataclass(frozen=True, eq=False)
class TableEncoder:
    """The learnt columns of a table.

    Attributes
    ----------
    columns : tuple of ColumnEncoder
        In the order of the frame, followed by the columns that the history derives.
    history : History, optional
        Looks up the last events of each row's key.
    """

    columns: tuple[ColumnEncoder, ...]
    history: History | None = None

    @classmethod
    def learn(
        cls,
        frame: Frame,
        types: Mapping[str, str | InferredType],
        *,
        history: HistorySpec | None = None,
        labels: Rows | None = None,
    ) -> TableEncoder:
        """Learn the columns of a frame: of the given `types`, and of inferred ones where none is given.

        With the `labels` of the rows, words of texts are also weighted by what they tell about labels.

        A column of the type ``"ignore"`` may be part of a `history`, as the target is. It may be missing when rows are
        encoded, which then have no event in it.
        """
        if not len(frame):
            raise ValueError(f"{frame.source} has no rows: a table to learn from needs at least one")
        check_given(frame.names, types)
        columns = [_learnt(Cells.of(frame, name), types.get(name), labels) for name in frame.names]
        if history is None:
            return cls(tuple(columns))
        events = History.learn(frame, history)
        return cls((*columns, *_derived(events, frame)), events)

    @cached_property
    def starts(self) -> I32:
        """The first feature of each column, and the number of features at the end."""
        return np.cumsum([0, *(column.n_features for column in self.columns)]).astype(np.int32)

    @property
    def n_features(self) -> int:
        """Number of sparse features."""
        return int(self.starts[-1])

    @cached_property
    def feature_columns(self) -> I32:
        """The position in `columns` of each feature."""
        return np.repeat(np.arange(len(self.columns), dtype=np.int32), np.diff(self.starts))

    def feature_name(self, feature: int) -> str:
        """Return the name of a feature, for explanations."""
        column = int(self.feature_columns[feature])
        return self.columns[column].feature_name(feature - int(self.starts[column]))

    @cached_property
    def used(self) -> list[ColumnEncoder]:
        """The columns that are not ignored."""
        return [column for column in self.columns if column.type != "ignore"]

    def require(self, frame: Frame) -> None:
        """Refuse a frame without the columns that are used; others are ignored."""
        for name in self.required:
            if name not in frame:
                raise frame.error(f"the column {name!r} is missing, which the model needs; there are {frame.there}")

    @cached_property
    def required(self) -> tuple[str, ...]:
        """The columns that a frame needs."""
        if self.history is None:
            return tuple(column.name for column in self.used)
        spec, derived = self.history.spec, self.history.derived
        own = [column.name for column in self.used if column.name not in derived]
        return tuple(dict.fromkeys((*own, spec.key, spec.time)))

    def cells(self, frame: Frame) -> list[Cells]:
        """Return the cells of the columns that are used, derived ones included, for `rows` and `matrix`."""
        self.require(frame)
        past = {} if self.history is None else self.history.past(frame)
        return [
            Cells(column.name, past[column.name], frame.error) if column.name in past else Cells.of(frame, column.name)
            for column in self.used
        ]

    def rows(
        self,
        frame: Frame,
        cells: list[Cells] | None = None,
        *,
        threads: int = 1,
        rows_at_a_time: int = 1 << 15,
    ) -> Rows:
        """Return the sparse features of all columns; a frequent category and a standard score are about 1/2.

        Blocks of `rows_at_a_time` rows stay in the caches while they are encoded.
        Rows that share a history must be encoded together: each sees the events of the others before its time.
        """
        cells = self.cells(frame) if cells is None else cells
        blocks: list[Rows] = []
        for part in _slices(len(frame), rows_at_a_time):
            blocks.append(self._block(cells, part, threads))
            if part.start == 0 and part.stop < len(frame):
                _check_memory(len(frame), blocks[0])
        if len(blocks) == 1:
            return blocks[0]
        ends = np.cumsum([0, *(block.indptr[-1] for block in blocks)])
        indptr = [np.zeros(1, np.int64), *(b.indptr[1:] + end for b, end in zip(blocks, ends, strict=False))]
        indices, data = (np.concatenate([getattr(b, name) for b in blocks]) for name in ("indices", "data"))
        return Rows(np.concatenate(indptr), indices, data, self.n_features)

    def _block(self, cells: list[Cells], part: slice, threads: int) -> Rows:
        rows = encoded(self.used, [own.take(part) for own in cells], part.stop - part.start, threads)
        np.multiply(rows.data, SCALE, out=rows.data)
        return rows

    def matrix(self, frame: Frame, cells: list[Cells] | None = None) -> tuple[F64, Bools]:
        """Return numbers and category codes, (n, c) with NaN for missing, and the mask of columns with codes.

        Codes are below 255. Texts and ids are only counted: gradient boosting has no use for thousands of columns.
        """
        cells = self.cells(frame) if cells is None else cells
        found = [column.numbers(own) for column, own in zip(self.used, cells, strict=True)]
        codes = [code for column in self.used for code in column.codes]
        matrix = np.concatenate([np.empty((len(frame), 0)), *found], axis=1)
        return matrix, np.array(codes, bool)

    def describe(self) -> str:
        """Return a table of the columns: name, type, reason, distinct values, missing cells, an example."""
        header = ("column", "type", "distinct", "missing", "example", "why")
        table = [header, *(_described(column) for column in self.columns)]
        widths = [max(map(len, cells)) for cells in zip(*table, strict=True)]
        lines = [_line(cells, widths) for cells in table]
        return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _learnt(cells: Cells, kind: str | InferredType | None, labels: Rows | None) -> ColumnEncoder:
    """Learn one column."""
    profile = ColumnProfile.of(cells)
    found = kind if isinstance(kind, InferredType) else given_type(profile, kind) if kind else infer_type(profile)
    summary, is_strict = profile.summary(found.why), found.is_strict
    match found.type:
        case "number":
            return NumberColumn.learn(cells, summary, is_strict=is_strict)
        case "category":
            return CategoryColumn.learn(cells, summary)
        case "categories" | "ids":
            return SeveralColumn.learn(cells, summary, kind=found.type, separator=found.detail)
        case "date":
            return DateColumn.learn(cells, summary, order=found.detail or ORDERS[0], is_strict=is_strict)
        case "text":
            return TextColumn.learn(cells, summary, labels)
        case _:
            return IgnoredColumn(name=cells.name, summary=summary)


def _derived(history: History, frame: Frame) -> list[ColumnEncoder]:
    """Learn the columns that a history derives."""
    clash = next((name for name in history.derived if name in frame), None)
    if clash is not None:
        raise ValueError(f"the history derives a column named {clash!r}, which {frame.source} has too: rename it")
    past, why = history.past(frame), f"the last {history.spec.n} events of {history.spec.key}"
    found: list[ColumnEncoder] = []
    for name in history.derived[:2]:
        cells = Cells(name, past[name], frame.error)
        found.append(NumberColumn.learn(cells, ColumnProfile.of(cells).summary(why), is_strict=True))
    for name, values in zip(history.derived[2:], history.values, strict=True):
        n_missing = int(np.count_nonzero(past[name][:, 0] < 0))
        example = values.value_name(0) if len(values) else ""
        summary = ColumnSummary(why=why, n_distinct=len(values), n_missing=n_missing, example=example)
        found.append(HistoryColumn(name=name, summary=summary, categories=values))
    return found


def _check_memory(n: int, first: Rows) -> None:
    """Refuse to encode `n` rows like the first ones if they do not fit into memory, in blocks and then joined."""
    size = first.indices.nbytes + first.data.nbytes + first.indptr.nbytes
    needed, available = 2 * size * n // max(len(first), 1), available_memory()
    if needed > available:
        found = f"{in_words(needed)}, but only {in_words(available)} are available"
        raise MemoryError(
            f"encoding {n:,} rows of a table needs {found}: ignore columns, texts first, or use fewer rows"
        )


def _slices(n: int, at_a_time: int) -> Iterator[slice]:
    """Yield slices of rows to encode at a time; at least one."""
    for begin in range(0, max(n, 1), at_a_time):
        yield slice(begin, min(begin + at_a_time, n))


def _described(column: ColumnEncoder) -> tuple[str, ...]:
    summary = column.summary
    return (column.name, column.type, f"{summary.n_distinct:,}", f"{summary.n_missing:,}", summary.example, summary.why)


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    """Join the cells of a line: counts to the right, all else to the left."""
    aligned = (
        cell.rjust(width) if place in (2, 3) else cell.ljust(width)
        for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join(aligned).rstrip()
