"""Decompression in bounded steps: gzip, xz, bzip2 and Zstandard behind one interface.

The standard library's file objects are not used: they take what follows the first member of a damaged file for
padding and end early, without a word.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol


class CorruptError(Exception):
    """Compressed data that is cut short or damaged."""


class Decoder(Protocol):
    """Decompresses one member; the interface of the standard library's lzma and bz2 decompressors."""

    @property
    def eof(self) -> bool:
        """The member is complete."""

    @property
    def needs_input(self) -> bool:
        """Nothing more comes out before something goes in."""

    @property
    def unused_data(self) -> bytes:
        """What follows the member."""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Return about `max_length` bytes at most."""


class GzipDecoder:
    """zlib behind the interface of `Decoder`; zlib itself checks length and CRC."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(wbits=31)
        self._full = False

    @property
    def eof(self) -> bool:
        """The member is complete."""
        return self._inflate.eof

    @property
    def needs_input(self) -> bool:
        """Nothing more comes out before something goes in."""
        return not (self._full or self._inflate.unconsumed_tail)

    @property
    def unused_data(self) -> bytes:
        """What follows the member."""
        return self._inflate.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Return about `max_length` bytes at most."""
        out = self._inflate.decompress(self._inflate.unconsumed_tail + data, max_length)
        self._full = len(out) == max_length
        return out


class ZstandardDecoder:
    """The zstandard package behind the interface of `Decoder`.

    It cannot limit its output, so input goes in by small steps: no step can yield more than 128 MB.
    """

    STEP = 4096

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self._input = b""
        self._position = 0

    @property
    def eof(self) -> bool:
        """The member is complete."""
        return bool(self._frame.eof)

    @property
    def needs_input(self) -> bool:
        """Nothing more comes out before something goes in."""
        return self._position == len(self._input)

    @property
    def unused_data(self) -> bytes:
        """What follows the member."""
        return bytes(self._frame.unused_data) + self._input[self._position :]

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Return about `max_length` bytes at most."""
        if data:
            self._input, self._position = self._input[self._position :] + data, 0
        out, size = [], 0
        while size < max_length and not self.needs_input and not self.eof:
            step = self._input[self._position : self._position + self.STEP]
            self._position += len(step)
            out.append(self._frame.decompress(step))
            size += len(out[-1])
        return b"".join(out)


def _zstandard() -> tuple[Callable[[], Decoder], type[Exception]]:
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
    return lambda: ZstandardDecoder(zstandard.ZstdDecompressor().decompressobj()), zstandard.ZstdError


@dataclass(frozen=True, kw_only=True)
class Codec:
    """A compressed format: how it starts, and how to load its decoder and the error that this one raises."""

    name: str
    magics: tuple[bytes, ...]
    load: Callable[[], tuple[Callable[[], Decoder], type[Exception]]]


# Zstandard files may start with, or hold, skippable frames.
_ZSTD_MAGICS = (b"\x28\xb5\x2f\xfd", *(bytes([0x50 + i]) + b"\x2a\x4d\x18" for i in range(16)))

CODECS = (
    Codec(name="gzip", magics=(b"\x1f\x8b",), load=lambda: (GzipDecoder, zlib.error)),
    Codec(name="xz", magics=(b"\xfd7zXZ\0",), load=lambda: (lzma.LZMADecompressor, lzma.LZMAError)),
    # A text may well start with "BZh": the magic of the first block, or of the end, must follow the level.
    Codec(
        name="bzip2",
        magics=tuple(b"BZh%d" % level + block for level in range(1, 10) for block in (b"1AY&SY", b"\x17rE8P\x90")),
        load=lambda: (bz2.BZ2Decompressor, OSError),
    ),
    Codec(name="Zstandard", magics=_ZSTD_MAGICS, load=_zstandard),
)
MAGIC_BYTES = max(len(magic) for codec in CODECS for magic in codec.magics)
ZIP_MAGIC = b"PK\x03\x04"
_FIRST_BYTES = {magic[0] for codec in CODECS for magic in codec.magics}


def is_undecided(head: bytes) -> bool:
    """Say whether more bytes are needed to know what a file that starts like this is compressed with."""
    return not head or (len(head) < MAGIC_BYTES and head[0] in _FIRST_BYTES)


def find_codec(head: bytes) -> Codec | None:
    """Return the format that a file starting like this is compressed with; None for plain text."""
    return next((codec for codec in CODECS if head.startswith(codec.magics)), None)


class Decompression:
    """Decompresses a stream of one or more members, possibly padded with zeros, to its very end.

    Parameters
    ----------
    codec : Codec
    head : bytes
        What has been read of the stream.
    read : callable
        Returns the next bytes of the stream, none at its end.
    """

    STEP = 1 << 20

    def __init__(self, codec: Codec, head: bytes, read: Callable[[], bytes]) -> None:
        self._codec = codec
        self._read = read
        self._new_decoder, self._error = codec.load()
        self._decoder = self._new_decoder()
        self._input = head

    def next_bytes(self) -> bytes:
        """Return some bytes, or none at the end; raise CorruptError where the data is cut short or damaged."""
        out = b""
        while not out:
            if self._decoder.eof and not self._next_member():
                return b""
            if not self._input and self._decoder.needs_input:
                self._input = self._read()
                if not self._input:
                    raise CorruptError(f"the {self._codec.name} data ends early: the file was cut short")
            try:
                out = self._decoder.decompress(self._input, self.STEP)
            except self._error as error:
                raise CorruptError(f"the {self._codec.name} data is damaged ({error})") from None
            self._input = b""
        return out

    def _next_member(self) -> bool:
        rest = self._decoder.unused_data.lstrip(b"\0")
        while len(rest) < MAGIC_BYTES and (more := self._read()):
            rest = (rest + more).lstrip(b"\0")
        if rest and not rest.startswith(self._codec.magics):
            raise CorruptError(f"the {self._codec.name} data is followed by something else")
        self._decoder = self._new_decoder()
        self._input = rest
        return bool(rest)
