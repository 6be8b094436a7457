"""The dialect of a CSV or TSV file: its header, quotes, delimiter and encoding."""

from __future__ import annotations

from codecs import BOM_UTF8
from dataclasses import dataclass, fields
from typing import Any

from sparsenet.data.formats import TableFormat, TextFormat

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

    def __post_init__(self) -> None:
        delimiter = self.delimiter
        one_character = isinstance(delimiter, str) and len(delimiter) == 1
        if delimiter is not None and (not one_character or delimiter in _TAKEN):
            raise ValueError(f"delimiter must be one character, no quote and no line end, got {self.delimiter!r}")
        if self.encoding is not None:
            _check_encoding(self.encoding)

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
