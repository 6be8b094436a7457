"""The dialect of a CSV or TSV file: its header, quotes, delimiter, encoding and decimal mark."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self, get_args

from sparsenet.core.validation import boolean, choice
from sparsenet.data.formats import TableFormat, TextFormat, text_format
from sparsenet.data.sources import PathOrStream

UTF_8 = "utf-8"
#: Characters that cannot be delimiters, because they end rows or enclose fields.
_TAKEN = '"\r\n\0'


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """Options of CSV and TSV files, as in `read_table`; None for the default."""

    header: bool | None = None
    quotes: bool | None = None
    delimiter: str | None = None
    encoding: str | None = None
    decimal: str | None = None

    def __post_init__(self) -> None:
        delimiter = self.delimiter
        one_character = isinstance(delimiter, str) and len(delimiter) == 1
        if delimiter is not None and (not one_character or delimiter in _TAKEN):
            raise ValueError(f"delimiter must be one character, no quote and no line end, got {self.delimiter!r}")
        if self.encoding is not None:
            _check_encoding(self.encoding)
        if self.decimal is not None:
            choice("decimal", self.decimal, (".", ","))

    @property
    def given(self) -> dict[str, Any]:
        """Return the options that are not None, by name."""
        values = {own.name: getattr(self, own.name) for own in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def check_for(self, format: TextFormat) -> None:
        """Raise a ValueError if an option is given for a file that is neither CSV nor TSV."""
        if self.given and format not in ("csv", "tsv"):
            name, value = next(iter(self.given.items()))
            what = f"{name}={value!r} is for CSV and TSV"
            raise ValueError(f"{what}, and this file is read as {format}: leave it out")

    def separator(self, table: TableFormat) -> str:
        """Return the delimiter of fields in a table of this format."""
        return self.delimiter or ("," if table == "csv" else "\t")

    def has_quotes(self, table: TableFormat) -> bool | None:
        """Return whether fields may be quoted; None: only if the quotes close on the same line."""
        return True if self.quotes is None and table == "csv" else self.quotes


#: All defaults.
DEFAULT = Dialect()


@dataclass(frozen=True, kw_only=True)
class LearntFile:
    """The format and dialect of the file that a model learnt from, to read further files; no format if there was none.

    Examples
    --------
    >>> learnt = LearntFile(format="csv", dialect=Dialect(delimiter=";"))
    >>> learnt.like("new.csv")[1].given, learnt.like("new.tsv")[1].given, learnt.like("new.jsonl")[1].given
    ({'delimiter': ';'}, {}, {})
    """

    format: str | None = None
    dialect: Dialect = DEFAULT

    @classmethod
    def of(cls, path: Any, format: str, dialect: Dialect) -> Self:
        """Return the format of a file by its name, unless it is given, and its dialect."""
        return cls(format=text_format(path) if format == "auto" else format, dialect=dialect)

    def like(self, path: PathOrStream, format: str = "auto", dialect: Dialect = DEFAULT) -> tuple[str, Dialect]:
        """Return the format and dialect of another file: given options override the options of the training file.

        JSONL and Parquet have no dialect. The delimiter of CSV is not the delimiter of TSV.
        """
        named = text_format(path) if format == "auto" else format
        if named is None and not (path == "-" and self.format == "parquet"):  # a pipe is never Parquet
            format = named = self.format or "auto"
        known = self.dialect if named in ("csv", "tsv") else DEFAULT
        if named != self.format:
            known = replace(known, delimiter=None)
        return format, replace(known, **dialect.given)

    def as_json(self) -> dict[str, Any]:
        """Return the options that are given, by name."""
        return {} if self.format is None else {"format": self.format, **self.dialect.given}

    @classmethod
    def of_json(cls, found: Mapping[str, Any] | None) -> Self:
        """Check the result of `as_json`; None of older models."""
        given = dict(found or {})
        format = given.pop("format", None)
        if format is not None:
            choice("format", format, (*get_args(TableFormat), "parquet", "lines"))
        for name in given:
            choice("option of a file", name, tuple(each.name for each in fields(Dialect)))
        for name in given.keys() & {"header", "quotes"}:
            boolean(name, given[name])
        return cls(format=format, dialect=Dialect(**given))


#: A model that learnt from no file.
NO_FILE = LearntFile()


def _check_encoding(encoding: str) -> None:
    """Refuse an encoding that Python does not know, or that does not encode line ends as ASCII does."""
    try:
        plain = "\r\n".encode(encoding).removeprefix(BOM_UTF8) == b"\r\n"
    except (LookupError, ValueError, TypeError):
        raise ValueError(
            f"encoding must be one that Python knows, such as 'utf-8', 'latin-1' or 'cp1252', got {encoding!r}"
        ) from None
    if not plain:
        raise ValueError(f"encoding={encoding!r} has other line ends than those of ASCII: convert the file with iconv")
