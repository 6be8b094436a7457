"""Infer the type of each column of a table."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.data.frames import Frame
from sparsenet.features.columns.cell_dates import INFERRED_ORDERS, find_order, find_unit, moments_in
from sparsenet.features.columns.cell_numbers import is_code, numbers_in
from sparsenet.features.columns.cells import Cells, DistinctCells, is_missing_cell, shown
from sparsenet.features.columns.column_encoder import ColumnSummary
from sparsenet.features.columns.several_column import split_cell
from sparsenet.kernels.types import I64

TYPES = ("number", "category", "categories", "date", "text", "ids", "ignore")
#: Separators that are looked for in strings, in this order.
SEPARATORS = ("|", ";", ",")


@dataclass(frozen=True, kw_only=True)
class InferenceRules:
    """The thresholds of the inference.

    Attributes
    ----------
    min_share : float
        At least this share of the cells that are not missing must be numbers, or dates, for the column to be so: real
        columns have a few typing errors.
    max_unique_share : float
        Strings of one word with a larger share of distinct cells are ids of the rows.
    min_unique_rows : int
        Fewer rows than this cannot show that a column holds ids, or the numbers of the rows.
    min_words : float
        Strings with at least this many words on average are texts if most of them are distinct.
    max_text_repetition : float
        With at most this many rows for each distinct string, strings of several words are texts.
    min_split_share, min_part_repetition : float
        Strings hold several categories if a separator occurs in at least this share of the cells, and each part occurs
        this many times as often as each whole cell.
    max_part_words : float
        Parts with more words on average are phrases of a text.
    sample : int
        Cells that are parsed, evenly spaced.
    """

    min_share: float = 0.95
    max_unique_share: float = 0.98
    min_unique_rows: int = 20
    min_words: float = 2.0
    max_text_repetition: float = 4.0
    min_split_share: float = 0.1
    min_part_repetition: float = 2.0
    max_part_words: float = 2.5
    sample: int = 10_000


RULES = InferenceRules()
#: Numbers with decimal commas, and thousands that points separate.
_DECIMAL_COMMA = re.compile(r"[-+]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?", re.ASCII)
_LISTS = {list, tuple, set, np.ndarray}


@dataclass(frozen=True, kw_only=True)
class InferredType:
    """The type of a column.

    Attributes
    ----------
    type : str
        One of `TYPES`.
    why : str
        The reason, for the table of types.
    detail : str or None
        The separator of categories, or the order of the parts of a date.
    is_strict : bool
        Whether a cell of another type is an error.
    """

    type: str
    why: str
    detail: str | None = None
    is_strict: bool = True


@dataclass(frozen=True, eq=False)
class ColumnProfile:
    """The distinct values of a column and how often they occur."""

    cells: Cells
    distinct: DistinctCells

    @classmethod
    def of(cls, cells: Cells) -> ColumnProfile:
        """Count the distinct values of cells; cells with lists are not counted."""
        if cells.values.dtype.kind == "O" and not _LISTS.isdisjoint(map(type, cells.values.tolist())):
            shows = [repr(cell) if not is_missing_cell(cell) else None for cell in cells.values.tolist()]
            flat = np.empty(len(shows), object)
            flat[:] = shows
            return cls(cells, Cells(cells.name, flat, cells.error).distinct())
        return cls(cells, cells.distinct())

    @cached_property
    def are_missing(self) -> NDArray[np.bool_]:
        """The mask of distinct values that mark a missing cell."""
        values, kind = self.distinct.values, self.cells.values.dtype.kind
        if kind in "biuf":  # in a tenth of the time
            return np.isnan(np.array(values, np.float64))
        return np.fromiter((is_missing_cell(value) for value in values), bool, len(values))

    @cached_property
    def there(self) -> I64:
        """The rows whose cell is not missing."""
        return np.flatnonzero(~self.are_missing[self.distinct.codes]) if len(self.cells) else np.empty(0, np.int64)

    @property
    def n_distinct(self) -> int:
        """Number of distinct values that are not missing."""
        return int(np.count_nonzero(~self.are_missing))

    @property
    def n_missing(self) -> int:
        """Number of missing cells."""
        return len(self.cells) - len(self.there)

    def sample(self, n: int) -> Cells:
        """Take at most `n` cells that are not missing, evenly spaced."""
        step = -(-len(self.there) // n) or 1
        return self.cells.take(self.there[::step])

    def summary(self, why: str) -> ColumnSummary:
        """Return the summary for the table of types."""
        example = shown(self.cells.values[self.there[0]]) if len(self.there) else ""
        return ColumnSummary(why=why, n_distinct=self.n_distinct, n_missing=self.n_missing, example=example)


def infer_types(frame: Frame, given: Mapping[str, str], rules: InferenceRules = RULES) -> dict[str, InferredType]:
    """Return the type of each column of a frame: the `given` one, or else the one that its cells show.

    A given type may have a separator: ``"categories:;"``.
    """
    check_given(frame.names, given)
    found = {}
    for name in frame.names:
        profile = ColumnProfile.of(Cells.of(frame, name))
        found[name] = given_type(profile, given[name]) if name in given else infer_type(profile, rules)
    return found


def check_given(names: list[str], given: Mapping[str, str | InferredType]) -> None:
    """Refuse types of columns that are not there, and names of types that do not exist."""
    for name, found in given.items():
        kind = found.type if isinstance(found, InferredType) else found
        if name not in names:
            raise ValueError(f"types names the column {name!r}, and there are {', '.join(map(repr, names))}")
        base = kind.partition(":")[0] if isinstance(kind, str) else kind
        if not isinstance(base, str) or base not in TYPES or (base != kind and base not in ("categories", "ids")):
            wanted = ", ".join(map(repr, TYPES))
            raise ValueError(
                f"types={{{name!r}: {kind!r}}} is not a type: use one of {wanted}; 'categories:;' names a separator"
            )


def given_type(profile: ColumnProfile, given: str) -> InferredType:
    """Complete a type that the user gave: find the separator, or the order of the parts of dates."""
    kind, _, separator = given.partition(":")
    if kind == "date":
        return InferredType(type=kind, why="given", detail=_given_order(profile))
    if kind in ("categories", "ids"):
        found = separator or _most_frequent_separator(profile) or (None if kind == "ids" else ",")
        return InferredType(type=kind, why="given", detail=found)
    return InferredType(type=kind, why="given")


def _given_order(profile: ColumnProfile) -> str:
    """Return how the cells of a column of dates hold them."""
    numbers, strays = numbers_in(profile.cells)
    is_compact = _order(profile, RULES, 0.0) == "compact"
    if len(strays) < len(profile.there) / 2 and not is_compact and profile.cells.values.dtype.kind != "M":
        return find_unit(numbers)
    return _order(profile, RULES, 0.0) or "year first"


def infer_type(profile: ColumnProfile, rules: InferenceRules = RULES) -> InferredType:
    """Return the type that the cells of a column show."""
    if not len(profile.there):
        return InferredType(type="ignore", why="all cells are missing")
    if profile.n_distinct == 1 and not profile.n_missing:
        return InferredType(type="ignore", why="all cells are the same")
    kind = profile.cells.values.dtype.kind
    if kind == "b":
        return InferredType(type="category", why="true or false")
    if kind == "M":
        return InferredType(type="date", why="dates", detail="year first")
    if kind in "iuf":
        return _of_numbers(profile, rules)
    return _of_objects(profile, rules)


def _of_numbers(profile: ColumnProfile, rules: InferenceRules, why: str = "numbers") -> InferredType:
    numbers, _ = numbers_in(profile.cells)
    is_long = len(numbers) >= rules.min_unique_rows
    if is_long and np.array_equal(numbers, np.arange(len(numbers)) + numbers[0]) and numbers[0] in (0, 1):
        return InferredType(type="ignore", why="the numbers of the rows")
    return InferredType(type="number", why=why)


def _of_objects(profile: ColumnProfile, rules: InferenceRules) -> InferredType:
    """Infer the type of strings, lists and mixed values."""
    sample = profile.sample(rules.sample)
    values = sample.values.tolist()
    if any(isinstance(value, list | tuple | set | np.ndarray) for value in values):
        items = [item for value in values if isinstance(value, list | np.ndarray) for item in value]
        if any(isinstance(item, float) and not float(item).is_integer() for item in items):
            name = profile.cells.name
            raise profile.cells.error(
                f"column {name!r} holds lists of fractions, such as embeddings, which no type of column fits: give "
                f"them to BlendClassifier, or leave the column out with types={{{name!r}: 'ignore'}}",
                int(profile.there[0]),
            )
        texts = all(isinstance(item, str) for item in items)
        return InferredType(
            type="categories" if texts else "ids", why="lists", detail=_most_frequent_separator(profile)
        )
    if all(isinstance(value, bool) for value in values):
        return InferredType(type="category", why="true or false")
    _, strays = numbers_in(sample)
    if len(values) - len(strays) >= rules.min_share * len(values):
        if any(isinstance(value, str) and is_code(value) for value in values):
            return InferredType(type="category", why="codes: some digits start with 0")
        return _of_parsed_numbers(profile, rules)
    order = _order(profile, rules, rules.min_share)
    if order is not None:
        return _of_dates(profile, order)
    if all(isinstance(value, str) and _DECIMAL_COMMA.fullmatch(value.strip()) for value in values):
        why = "numbers with decimal commas? Read the file with decimal=',' (--decimal), or write 1234.5 for 1.234,5"
        return _doubtful(profile, InferredType(type="category", why=why))
    found = _of_strings(profile, rules)
    if all(isinstance(value, str) and find_order([value], INFERRED_ORDERS) for value in values):
        why = f"{found.why}: dates, but days first in some and months first in others; write them as 2024-12-31"
        return _doubtful(profile, replace(found, why=why))
    return found


def _doubtful(profile: ColumnProfile, found: InferredType) -> InferredType:
    """Warn of a type that is probably not meant."""
    name = profile.cells.name
    advice = f"pass types={{{name!r}: {found.type!r}}} if this is meant"
    warnings.warn(f"column {name!r} has the type {found.type!r}: {found.why}; {advice}", UserWarning, stacklevel=2)
    return found


def _of_parsed_numbers(profile: ColumnProfile, rules: InferenceRules) -> InferredType:
    """Return the type of a column of numbers in strings, with a few other cells."""
    _, strays = numbers_in(profile.cells)
    if not len(strays):
        return _of_numbers(profile, rules, "strings of numbers")
    why = f"strings of numbers; {len(strays)} others, such as {shown(profile.cells.values[strays[0]])!r}, are missing"
    return InferredType(type="number", why=why, is_strict=False)


def _of_dates(profile: ColumnProfile, order: str) -> InferredType:
    """Return the type of a column of dates in strings, with a few other cells."""
    _, strays = moments_in(profile.cells, order)
    if not len(strays):
        return InferredType(type="date", why=f"dates, {order}", detail=order)
    others = f"{len(strays)} others, such as {shown(profile.cells.values[strays[0]])!r}, are missing"
    return InferredType(type="date", why=f"dates, {order}; {others}", detail=order, is_strict=False)


def _order(profile: ColumnProfile, rules: InferenceRules, min_share: float) -> str | None:
    """Return the order of the parts of dates, if at least `min_share` of the strings are dates."""
    texts = [value for value in profile.sample(rules.sample).values.tolist() if isinstance(value, str)]
    head = texts[:: -(-len(texts) // 100) or 1]
    if min_share and find_order(head, INFERRED_ORDERS, min_share / 2) is None:
        return None  # spare columns of texts all patterns
    return find_order(texts, INFERRED_ORDERS if min_share else (*INFERRED_ORDERS, "compact"), min_share)


def _of_strings(profile: ColumnProfile, rules: InferenceRules) -> InferredType:
    """Choose between categories, several categories, text and ids of the rows."""
    n, n_distinct = len(profile.there), profile.n_distinct
    texts = [str(value) for value in profile.sample(rules.sample).values.tolist()]
    separator = _separator(texts, rules)
    if separator is not None:
        return InferredType(type="categories", why=f"several values between {separator!r}", detail=separator)
    words = float(np.mean([len(text.split()) for text in texts]))
    if words >= rules.min_words and n < rules.max_text_repetition * n_distinct and n >= rules.min_unique_rows:
        return InferredType(type="text", why=f"{words:.1f} words a cell, {n_distinct:,} distinct")
    if n_distinct > rules.max_unique_share * n and n >= rules.min_unique_rows:
        return _of_unique(texts, f"{n_distinct:,} distinct values in {n:,} cells")
    return InferredType(type="category", why=f"{n_distinct:,} distinct strings")


def _of_unique(texts: list[str], why: str) -> InferredType:
    """Return ids for strings of one length or with digits, else text: the parts of names may help."""
    with_digits = np.mean([any(character.isdigit() for character in text) for text in texts])
    if with_digits >= 0.5 or len({len(text) for text in texts}) == 1:
        return InferredType(type="ignore", why=f"ids: {why}")
    return InferredType(type="text", why=f"names: {why}")


def _separator(texts: list[str], rules: InferenceRules) -> str | None:
    """Return the first separator that divides strings into parts which repeat more often than the strings."""
    whole = len(texts) / len(set(texts))
    for separator in SEPARATORS:
        if np.mean([separator in text for text in texts]) < rules.min_split_share:
            continue
        parts = [part for text in texts for part in split_cell(text, separator)]
        if not parts or len(parts) / len(set(parts)) < rules.min_part_repetition * whole:
            continue
        if np.mean([len(part.split()) for part in parts]) <= rules.max_part_words:
            return separator
    return None


def _most_frequent_separator(profile: ColumnProfile) -> str | None:
    """Return the separator that the most strings hold; None if none does."""
    texts: list[Any] = [value for value in profile.sample(RULES.sample).values.tolist() if isinstance(value, str)]
    counts = {separator: sum(separator in text for text in texts) for separator in SEPARATORS}
    best = max(SEPARATORS, key=counts.__getitem__)
    return best if counts[best] else None
