"""Split a stream of bytes into blocks of whole lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsenet import kernels
from sparsenet.data.codecs import CorruptError
from sparsenet.data.errors import DataError, EmptyFileError
from sparsenet.data.sources import Source

HEAD_BYTES = 4096
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # some editors write it at the start of UTF-8 files


class Block(NamedTuple):
    """Whole lines that all end with a newline.

    `first_line` is the number of the first line, counted from 1. `lines`, `colons` and `commas` are counts in the text;
    they are upper bounds of its rows, features and labels.
    """

    text: NDArray[np.uint8]
    first_line: int
    lines: int
    colons: int
    commas: int

    def head(self) -> bytes:
        """Return the first line with its newline, or the start of a long one."""
        start = self.text[:HEAD_BYTES].tobytes()
        return start[: start.find(b"\n") + 1] or start

    def without_line(self, line: bytes) -> Block:
        """Return the block after its first line, which is `line`."""
        return Block(self.text[len(line) :], self.first_line + 1, self.lines - 1, self.colons, self.commas)


def line_blocks(source: Source, *, may_be_empty: bool = False) -> Iterator[Block]:
    """Yield the bytes of `source` as blocks of whole lines. A block is valid until the next one is taken."""
    buffer = bytearray(source.sizes.block + 1)  # the last byte is for a newline after the last line, if it lacks one
    filled, line = 0, 1
    while n := _fill(source, buffer, filled, line):
        end = buffer.rfind(b"\n", filled, filled + n) + 1
        filled += n
        if end:
            yield (block := _block(buffer, end, line))
            line += block.lines
            buffer[: filled - end] = buffer[end:filled]
            filled -= end
        elif filled == len(buffer) - 1:
            buffer = _larger(buffer, source, line)
    if filled == 0 and line == 1 and not may_be_empty:
        raise EmptyFileError(source.name)
    if filled:
        if line == 1 and b"\r" in buffer[:filled].rstrip(b"\r"):
            problem = "lines seem to end in carriage returns alone, as on old systems: there is no line feed"
            raise DataError(source.name, 1, f"{problem}; convert them, for instance with tr '\\r' '\\n'")
        buffer[filled] = ord("\n")
        yield _block(buffer, filled + 1, line)


def _fill(source: Source, buffer: bytearray, filled: int, line: int) -> int:
    try:
        return source.readinto(memoryview(buffer)[filled:-1])
    except CorruptError as error:
        raise DataError(source.name, line, f"{error}; fetch or compress the file again") from None


def _block(buffer: bytearray, size: int, line: int) -> Block:
    start = len(BYTE_ORDER_MARK) if line == 1 and buffer.startswith(BYTE_ORDER_MARK) else 0
    text = np.frombuffer(buffer, np.uint8, size - start, start)
    return Block(text, line, *kernels.count_marks(text))


def _larger(buffer: bytearray, source: Source, line: int) -> bytearray:
    filled, limit = len(buffer) - 1, source.sizes.line
    if filled >= limit:
        problem = f"the line is longer than {limit >> 20} MB; check that its rows are separated by newlines"
        raise DataError(source.name, line, problem)
    larger = bytearray(min(2 * filled, limit) + 1)
    larger[:filled] = memoryview(buffer)[:filled]
    return larger
