"""Read the lines of text files, and split CSV and TSV rows into fields."""

from __future__ import annotations

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterator
from typing import NamedTuple

from sparsenet.data.blocks import Block, line_blocks
from sparsenet.data.dialect import UTF_8
from sparsenet.data.errors import DataError, quoted
from sparsenet.data.sources import OnSkipped, Source

#: The first bytes of a Parquet file, and the error for one that is read as text.
PARQUET = b"PAR1"
NO_PARQUET = "this is Parquet, whose end is read first: name a file whose name ends in .parquet, not a pipe"
#: The advice for bytes that the encoding does not allow.
ICONV = "convert the file, for instance with iconv"
#: The rest of a quoted field, whose quotes are doubled, and the quote that closes it.
_CLOSED = re.compile(r'([^"]*+(?:""[^"]*+)*+)"')


class Line(NamedTuple):
    """A line without its newline, and its number, counted from 1."""

    text: str
    number: int


def text_lines(
    source: Source, encoding: str = UTF_8, *, advice: str = ICONV, blocks: Iterator[Block] | None = None
) -> Iterator[Line]:
    """Yield the decoded lines of a file, or of its remaining `blocks`, without a UTF-8 byte-order mark.

    The error for a line in another encoding ends with `advice`.
    """
    for block in line_blocks(source) if blocks is None else blocks:
        for number, line in enumerate(block.text.tobytes().split(b"\n")[:-1], block.first_line):
            yield Line(_decoded(line.removesuffix(b"\r"), encoding, source.name, number, advice), number)


def skip_blank(
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
    lines: Iterator[Line], source: Source, delimiter: str, *, quotes: bool | None, on_skipped: OnSkipped | None = None
) -> Iterator[Record]:
    """Split rows into fields; skip blank lines.

    If `quotes` is True, quotes work as in RFC 4180: a field that starts with a double quote ends with one, may contain
    delimiters and newlines, and doubles the quotes inside it. If it is None, such a field must end on its line, and all
    other quotes are ordinary characters. Python's csv module is not used: its limit on the length of a field is one
    for the whole process, and it does not report where an unclosed quote opens.
    """
    for line in skip_blank(lines, on_skipped, lambda text: not text):  # a line of spaces may be a field
        if quotes is None and '"' in line.text:
            yield Record(_fields_of_line(line.text, delimiter), line.number)
        elif quotes and '"' in line.text:
            yield Record(_fields_of_lines(line, lines, source, delimiter), line.number)
        else:
            yield Record(line.text.split(delimiter), line.number)


def _fields_of_line(text: str, delimiter: str) -> list[str]:
    """Split a line at delimiters, except inside fields that start and end with a quote."""
    fields, position = [], 0
    while True:
        closed = _CLOSED.match(text, position + 1) if text.startswith('"', position) else None
        if closed and (closed.end() == len(text) or text.startswith(delimiter, closed.end())):
            end = closed.end()
            fields.append(closed[1].replace('""', '"'))
        else:
            end = _end_of_field(text, position, delimiter)
            fields.append(text[position:end])
        if end == len(text):
            return fields
        position = end + len(delimiter)


def _fields_of_lines(line: Line, more: Iterator[Line], source: Source, delimiter: str) -> list[str]:
    """Split a row that contains quotes. Take further lines if a quoted field continues on them."""
    fields, position = [], 0
    while True:
        if line.text.startswith('"', position):
            field, line, end = _quoted_field(line, position + 1, more, source)
            # Do not copy the rest of the line: a copy for each field takes quadratic time.
            if end < len(line.text) and not line.text.startswith(delimiter, end):
                found = quoted(line.text[end : end + 100])
                problem = f"{found} follows a closing quote; double the quotes within a field"
                raise DataError(source.name, line.number, problem)
        else:
            end = _end_of_field(line.text, position, delimiter)
            field = line.text[position:end]
        fields.append(field)
        if end == len(line.text):
            return fields
        position = end + len(delimiter)


def _quoted_field(line: Line, start: int, more: Iterator[Line], source: Source) -> tuple[str, Line, int]:
    """Return a field whose text begins at `start`, the line that it ends on, and the position after its last quote."""
    opened, parts, room = line.number, [], source.sizes.line
    while not (closed := _CLOSED.match(line.text, start)):
        parts.append(line.text[start:])
        room -= len(parts[-1]) + 1
        following = next(more, None) if room > 0 else None
        if following is None:
            problem = "a quote opens here and does not close; close it, or read the file with quotes=False"
            raise DataError(source.name, opened, problem)
        line, start = following, 0
    return "\n".join([*parts, closed[1]]).replace('""', '"'), line, closed.end()


def _end_of_field(text: str, position: int, delimiter: str) -> int:
    end = text.find(delimiter, position)
    return len(text) if end < 0 else end
