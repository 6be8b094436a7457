"""How the rows of CSV and TSV are written: in what encoding, what separates fields, and what encloses them."""

from __future__ import annotations

from codecs import BOM_UTF8
from dataclasses import dataclass, fields
from typing import Any

from sparsenet.data.formats import TableFormat, TextFormat

UTF_8 = "utf-8"
#: What no delimiter can be: what ends rows and what encloses fields.
_TAKEN = '"\r\n\0'


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """What is said of the rows of CSV and TSV; None for what is usual. See `read_table`."""

    header: bool | None = None
    quotes: bool | None = None
    delimiter: str | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        if self.delimiter is not None and not _separates(self.delimiter):
            raise ValueError(f"delimiter must be one character, no quote and no line end, got {self.delimiter!r}")
        if self.encoding is not None:
            _check_encoding(self.encoding)

    @property
    def said(self) -> dict[str, Any]:
        """Return what is said, by its name."""
        values = {own.name: getattr(self, own.name) for own in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def check_for(self, format: TextFormat) -> None:
        """Refuse what is said where a file has no such rows."""
        if self.said and format not in ("csv", "tsv"):
            name, value = next(iter(self.said.items()))
            what = f"{name}={value!r} is about CSV and TSV"
            raise ValueError(f"{what}, and this file is read as {format}: leave it out")

    def separator(self, table: TableFormat) -> str:
        """Return what separates the fields of such a table."""
        return self.delimiter or ("," if table == "csv" else "\t")

    def has_quotes(self, table: TableFormat) -> bool | None:
        """Return whether fields may be in quotes; None: where these end in their line."""
        return True if self.quotes is None and table == "csv" else self.quotes


#: Nothing said.
USUAL = Dialect()


def _separates(text: object) -> bool:
    """Tell what can separate fields."""
    return isinstance(text, str) and len(text) == 1 and text not in _TAKEN


def _check_encoding(encoding: str) -> None:
    """Refuse an encoding that there is not, or in whose lines no other program would find the ends."""
    try:
        plain = "\r\n".encode(encoding).removeprefix(BOM_UTF8) == b"\r\n"
    except (LookupError, ValueError, TypeError):
        raise ValueError(
            f"encoding must be one that Python knows, such as 'utf-8', 'latin-1' or 'cp1252', got {encoding!r}"
        ) from None
    if not plain:
        raise ValueError(f"encoding={encoding!r} has other line ends than those of ASCII: convert the file with iconv")
