"""Decompress gzip, xz, bzip2 and Zstandard in bounded steps, behind one interface.

The file objects of the standard library are not used. In a damaged file they take everything after the first member
for padding, and end early without an error.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sparsenet.core.machine import available_memory

#: Decoders use this word only in the error for a window beyond their limit.
_MEMORY = "memory"


class CorruptError(Exception):
    """Compressed data that is cut short or damaged, or that takes too much memory to decompress."""


class _GzipDecoder:
    """zlib with the interface of `lzma.LZMADecompressor`. zlib checks the length and the CRC."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(wbits=31)
        self._full = False

    @property
    def eof(self) -> bool:
        return self._inflate.eof

    @property
    def needs_input(self) -> bool:
        return not (self._full or self._inflate.unconsumed_tail)

    @property
    def unused_data(self) -> bytes:
        return self._inflate.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        out = self._inflate.decompress(self._inflate.unconsumed_tail + data, max_length)
        self._full = len(out) == max_length
        return out


class _ZstandardDecoder:
    """The zstandard package with the interface of `lzma.LZMADecompressor`.

    The package cannot limit its output, so it receives little input at a time: a step yields at most 128 MB.
    """

    STEP = 4096

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self._input = b""
        self._position = 0

    @property
    def eof(self) -> bool:
        return bool(self._frame.eof)

    @property
    def needs_input(self) -> bool:
        return self._position == len(self._input)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._frame.unused_data) + self._input[self._position :]

    def decompress(self, data: bytes, max_length: int) -> bytes:
        if data:
            self._input, self._position = self._input[self._position :] + data, 0
        out, size = [], 0
        while size < max_length and not self.needs_input and not self.eof:
            step = self._input[self._position : self._position + self.STEP]
            self._position += len(step)
            out.append(self._frame.decompress(step))
            size += len(out[-1])
        return b"".join(out)


def _xz_limit(min_bytes: int = 128 << 20, max_bytes: int = 2 << 30) -> int:
    """Return the free memory within bounds.

    The lower bound is enough for files of `xz -9`, and the `xz` program writes no files that need more than the upper.
    """
    return max(min_bytes, min(max_bytes, available_memory()))


def _xz_window(head: bytes) -> int | None:
    """Return the dictionary size, in bytes, of the first block of a member that starts with `head`."""
    block = head[12 : 12 + 4 * (head[12] + 1)] if len(head) > 12 else b""
    try:
        position = 2  # after the size of the header and the flags
        for flag in (0x40, 0x80):  # sizes of the block, compressed and not
            if block[1] & flag:
                position = _after_number(block, position)
        for _ in range((block[1] & 3) + 1):
            kind, size = block[position], block[position + 1]
            if kind == 0x21:  # LZMA2, the last filter: one byte holds the size of the dictionary
                bits = block[position + 2]
                return 2**32 - 1 if bits >= 40 else (2 | bits & 1) << (bits // 2 + 11)
            position += 2 + size
    except IndexError:  # a header that is cut short
        pass
    return None


def _after_number(block: bytes, position: int) -> int:
    """Return the position after a number whose bytes all have their highest bit set, except the last one."""
    while block[position] & 0x80:
        position += 1
    return position + 1


def _zstandard_window(head: bytes) -> int | None:
    """Return the window size, in bytes, of a frame that starts with `head`."""
    if len(head) < 6 or head[0] != _ZSTD_MAGICS[0][0]:
        return None
    descriptor, window = head[4], head[5]
    if not descriptor & 0x20:
        return (8 + (window & 7)) << (7 + (window >> 3))
    start = 5 + (0, 1, 2, 4)[descriptor & 3]  # the window is the content, whose size follows the dictionary's id
    size = (1, 2, 4, 8)[descriptor >> 6]
    return int.from_bytes(head[start : start + size], "little") + (256 if size == 2 else 0)


def _zstandard() -> tuple[Callable[[], Any], type[Exception]]:
    try:
        from compression import zstd  # Python 3.14

        return zstd.ZstdDecompressor, zstd.ZstdError
    except ImportError:
        pass
    try:
        import zstandard
    except ImportError:
        raise ImportError(
            "reading Zstandard files needs a package that is not installed: pip install sparsenet[zstd]"
        ) from None
    return lambda: _ZstandardDecoder(zstandard.ZstdDecompressor().decompressobj()), zstandard.ZstdError


@dataclass(frozen=True, kw_only=True)
class Codec:
    """A compressed format.

    `magics` are the bytes that a member may start with. `load` returns a function that makes a decoder of one member,
    with the interface of `lzma.LZMADecompressor`, and the error that it raises. `window` returns the bytes of memory
    that a member asks for, given the start of the member; `limit` returns how many the decoder may take.
    """

    name: str
    magics: tuple[bytes, ...]
    load: Callable[[], tuple[Callable[[], Any], type[Exception]]]
    window: Callable[[bytes], int | None] = lambda head: None
    limit: Callable[[], int] = lambda: 0


# Zstandard files may contain skippable frames, also at the start.
_ZSTD_MAGICS = (b"\x28\xb5\x2f\xfd", *(bytes([0x50 + i]) + b"\x2a\x4d\x18" for i in range(16)))

CODECS = (
    Codec(name="gzip", magics=(b"\x1f\x8b",), load=lambda: (_GzipDecoder, zlib.error)),
    Codec(
        name="xz",
        magics=(b"\xfd7zXZ\0",),
        load=lambda: (lambda: lzma.LZMADecompressor(memlimit=_xz_limit()), lzma.LZMAError),
        window=_xz_window,
        limit=_xz_limit,
    ),
    # Text files can start with "BZh". In bzip2 files, a level and the magic of a block or of the end follow.
    Codec(
        name="bzip2",
        magics=tuple(b"BZh%d" % level + block for level in range(1, 10) for block in (b"1AY&SY", b"\x17rE8P\x90")),
        load=lambda: (bz2.BZ2Decompressor, OSError),
    ),
    Codec(
        name="Zstandard",
        magics=_ZSTD_MAGICS,
        load=_zstandard,
        window=_zstandard_window,
        limit=lambda: 128 << 20,  # the default of the decoder
    ),
)
MAGIC_BYTES = max(len(magic) for codec in CODECS for magic in codec.magics)
ZIP_MAGIC = b"PK\x03\x04"
_FIRST_BYTES = {magic[0] for codec in CODECS for magic in codec.magics}


def is_undecided(head: bytes) -> bool:
    """Return True if more bytes are needed to detect the compression of a file that starts with `head`."""
    return not head or (len(head) < MAGIC_BYTES and head[0] in _FIRST_BYTES)


def find_codec(head: bytes) -> Codec | None:
    """Return the compression of a file that starts with `head`; None if it is not compressed."""
    return next((codec for codec in CODECS if head.startswith(codec.magics)), None)


class Decompression:
    """Decompress a whole stream of one or more members, which may be padded with zeros.

    `head` is the start of the stream, already read. `read` returns the next bytes, or empty bytes at the end.
    """

    STEP = 1 << 20
    #: The headers of a member that hold the size of its window fit into this many bytes.
    HEADER_BYTES = 64

    def __init__(self, codec: Codec, head: bytes, read: Callable[[], bytes]) -> None:
        self._codec = codec
        self._read = read
        self._new_decoder, self._error = codec.load()
        self._decoder = self._new_decoder()
        self._input = head
        self._start = b""  # the first bytes of the member

    def next_bytes(self) -> bytes:
        """Return some bytes, or empty bytes at the end; raise CorruptError if the data is cut short or damaged."""
        out = b""
        while not out:
            if self._decoder.eof and not self._next_member():
                return b""
            if not self._input and self._decoder.needs_input:
                self._input = self._read()
                if not self._input:
                    raise CorruptError(f"the {self._codec.name} data ends early: the file was cut short")
            self._start += self._input[: self.HEADER_BYTES - len(self._start)]
            try:
                out = self._decoder.decompress(self._input, self.STEP)
            except self._error as error:
                if _MEMORY in str(error).lower():
                    raise self._too_large() from None
                raise CorruptError(f"the {self._codec.name} data is damaged ({error})") from None
            self._input = b""
        return out

    def _too_large(self) -> CorruptError:
        """Return the error for a window that is beyond the decoder's limit."""
        window = self._codec.window(self._start)
        dictionary = "a dictionary" if window is None else f"a dictionary of {window:,} bytes"
        limit = f"which is beyond the limit of {self._codec.limit():,} bytes of memory"
        return CorruptError(f"the {self._codec.name} data asks for {dictionary}, {limit}; a smaller one is enough")

    def _next_member(self) -> bool:
        rest = self._decoder.unused_data.lstrip(b"\0")
        while len(rest) < MAGIC_BYTES and (more := self._read()):
            rest = (rest + more).lstrip(b"\0")
        if rest and not rest.startswith(self._codec.magics):
            raise CorruptError(f"the {self._codec.name} data is followed by something else")
        self._decoder = self._new_decoder()
        self._input, self._start = rest, b""
        return bool(rest)
