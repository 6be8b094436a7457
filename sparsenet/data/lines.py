"""Read the lines of text files, and split CSV and TSV rows into fields."""

from __future__ import annotations

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterator
from typing import NamedTuple

from sparsenet.data.blocks import MAX_LINE_BYTES, line_blocks
from sparsenet.data.dialect import UTF_8
from sparsenet.data.errors import DataError, quoted
from sparsenet.data.sources import OnSkipped, Source

#: The first bytes of a Parquet file, and the error for one that is read as text.
PARQUET = b"PAR1"
NO_PARQUET = "this is Parquet, whose end is read first: name a file whose name ends in .parquet, not a pipe"
#: The advice for bytes that the encoding does not allow.
ICONV = "convert the file, for instance with iconv"
_QUOTED = re.compile(r'"([^"]*+(?:""[^"]*+)*+)"')


class Line(NamedTuple):
    """A line without its newline, and its number, counted from 1."""

    text: str
    number: int


def text_lines(source: Source, encoding: str = UTF_8, *, advice: str = ICONV) -> Iterator[Line]:
    """Yield the decoded lines of a file, without a UTF-8 byte-order mark.

    The error for a line in another encoding ends with `advice`.
    """
    for block in line_blocks(source):
        for number, line in enumerate(block.text.tobytes().split(b"\n")[:-1], block.first_line):
            yield Line(_decoded(line.removesuffix(b"\r"), encoding, source.name, number, advice), number)


def not_blank(
    lines: Iterator[Line], on_skipped: OnSkipped | None, is_blank: Callable[[str], bool] = lambda text: not text.strip()
) -> Iterator[Line]:
    """Skip blank lines, and call `on_skipped` for each."""
    for line in lines:
        if not is_blank(line.text):
            yield line
        elif on_skipped is not None:
            on_skipped(1)


def _decoded(line: bytes, encoding: str, path: str, number: int, advice: str) -> str:
    if number == 1 and line.startswith(PARQUET):
        raise DataError(path, None, NO_PARQUET)
    if number == 1 and line.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        advice = "it begins like UTF-16: convert the file, for instance with iconv -f utf-16"
    try:
        text = line.decode(encoding)
    except UnicodeDecodeError as error:
        name = encoding.upper() if encoding == UTF_8 else encoding
        found = f"byte 0x{line[error.start]:02x} at column {error.start + 1} is not {name}"
        raise DataError(path, number, f"{found}; {advice}") from None
    if "\0" in text:
        raise DataError(path, number, "there is a NUL byte; the file is not text, or it is damaged")
    return text


class Record(NamedTuple):
    """The fields of a row, and the number of its first line."""

    fields: list[str]
    number: int


def delimited_records(
    lines: Iterator[Line], path: str, delimiter: str, *, quotes: bool | None, on_skipped: OnSkipped | None = None
) -> Iterator[Record]:
    """Split rows into fields; skip blank lines.

    If `quotes` is True, quotes work as in RFC 4180: a field that starts with a double quote ends with one, may contain
    delimiters and newlines, and doubles the quotes inside it. If it is None, such a field must end on its line, and all
    other quotes are ordinary characters. Python's csv module is not used: its limit on the length of a field is one
    for the whole process, and it does not report where an unclosed quote opens.
    """
    for line in not_blank(lines, on_skipped, lambda text: not text):  # a line of spaces may be a field
        if quotes is None and '"' in line.text:
            yield Record(_fields_of_line(line.text, delimiter), line.number)
        elif quotes and '"' in line.text:
            yield Record(_QuotedRow(line, lines, path, delimiter).fields, line.number)
        else:
            yield Record(line.text.split(delimiter), line.number)


def _fields_of_line(text: str, delimiter: str) -> list[str]:
    """Split a line at delimiters, except inside fields that start and end with a quote."""
    fields, position = [], 0
    while True:
        if found := _QUOTED.match(text, position):
            end = found.end()
            if end == len(text) or text.startswith(delimiter, end):
                fields.append(found[1].replace('""', '"'))
            else:
                found = None
        if not found:
            end = text.find(delimiter, position)
            end = len(text) if end < 0 else end
            fields.append(text[position:end])
        if end == len(text):
            return fields
        position = end + len(delimiter)


class _QuotedRow:
    """Split one row that contains quotes. It takes further lines if a field continues on them."""

    def __init__(self, line: Line, more: Iterator[Line], path: str, delimiter: str) -> None:
        self._text, self._number = line
        self._more = more
        self._path = path
        self._delimiter = delimiter
        self._position = 0
        self.fields = [self._field()]
        while self._position < len(self._text):
            self._position += len(delimiter)
            self.fields.append(self._field())

    def _field(self) -> str:
        if self._text.startswith('"', self._position):
            return self._quoted_field()
        end = self._text.find(self._delimiter, self._position)
        start, self._position = self._position, len(self._text) if end < 0 else end
        return self._text[start : self._position]

    def _quoted_field(self) -> str:
        opened = self._number
        parts: list[str] = []
        room = MAX_LINE_BYTES
        self._position += 1
        while True:
            end = self._text.find('"', self._position)
            if end < 0:
                parts += [self._text[self._position :], "\n"]
                room -= len(parts[-2]) + 1
                self._next_line(opened, room)
                continue
            parts.append(self._text[self._position : end])
            self._position = end + 1
            if not self._text.startswith('"', self._position):
                break
            parts.append('"')
            self._position += 1
        self._check_end()
        return "".join(parts)

    def _next_line(self, opened: int, room: int) -> None:
        line = next(self._more, None) if room > 0 else None
        if line is None:
            problem = "a quote opens here and does not close; close it, or read the file with quotes=False"
            raise DataError(self._path, opened, problem)
        self._text, self._number = line
        self._position = 0

    def _check_end(self) -> None:
        # Do not copy the rest of the line: a copy for each field takes quadratic time.
        if self._position < len(self._text) and not self._text.startswith(self._delimiter, self._position):
            problem = (
                f"{quoted(self._text[self._position :])} follows a closing quote; double the quotes within a field"
            )
            raise DataError(self._path, self._number, problem)
