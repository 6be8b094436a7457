"""Read bytes from a path, standard input or a binary stream, compressed or not."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeAlias

from sparsenet.data.codecs import ZIP_MAGIC, Decompression, find_codec, is_undecided
from sparsenet.data.errors import DataError

PathOrStream: TypeAlias = "str | os.PathLike[str] | BinaryIO | Source"
OnBytes: TypeAlias = Callable[[int], object]
#: Called with a number of further lines that were skipped because they are blank or comments.
OnSkipped: TypeAlias = Callable[[int], object]

#: The name of standard input in error messages.
STDIN = "<stdin>"
#: The advice for a zip archive, which may hold a matrix of SciPy.
BY_ITS_NAME = "a matrix of SciPy is read by its path, with a name that ends in .npz"


@dataclass(frozen=True, kw_only=True)
class ReadSizes:
    """The bytes that are read and parsed at a time, and the limit on a line, which must fit into memory."""

    read: int = 256 << 10
    block: int = 2 << 20
    line: int = 256 << 20


class Source:
    """The decompressed bytes of a file or binary stream, which errors call `name`.

    `size` is the size of the file in bytes, 0 if unknown. `on_bytes` is called after each read with the number of bytes
    read, before decompression.
    """

    def __init__(
        self, file: Any, name: str, size: int = 0, on_bytes: OnBytes | None = None, sizes: ReadSizes = ReadSizes()
    ) -> None:
        self.name = name
        self.size = size
        self.sizes = sizes
        self.n_bytes = 0  # read so far, before decompression
        self._file = file
        # read1 returns the bytes that a pipe holds now; read would wait until the buffer is full.
        self._read_some = getattr(file, "read1", file.read)
        self._readinto = getattr(file, "readinto1", None) or getattr(file, "readinto", None)
        self._on_bytes = on_bytes
        self._ready = memoryview(b"")
        self._decompression: Decompression | None = None
        self._sniff()

    def readinto(self, buffer: memoryview) -> int:
        """Read some bytes into the start of `buffer`, and return their number; 0 at the end."""
        if not self._ready:
            if self._decompression is not None:
                self._ready = memoryview(self._decompression.next_bytes())
            elif self._readinto is not None:
                return self._read_directly(self._readinto, buffer)
            else:
                self._ready = memoryview(self._read())
        n = min(len(buffer), len(self._ready))
        buffer[:n] = self._ready[:n]
        self._ready = self._ready[n:]
        return n

    def _sniff(self) -> None:
        head = b""
        while is_undecided(head) and (more := self._read()):
            head += more
        if head.startswith(ZIP_MAGIC):
            problem = f"this is a zip archive; unpack it and give one of its files; {BY_ITS_NAME}"
            raise DataError(self.name, None, problem)
        if codec := find_codec(head):
            self._decompression = Decompression(codec, head, self._read)
        else:
            self._ready = memoryview(head)

    def _read(self) -> bytes:
        with self._naming_errors():
            data = self._read_some(self.sizes.read)
        if data is None:
            raise self._would_block()
        if isinstance(data, str):
            raise TypeError(f"{self.name} is open in text mode; open it in binary mode ('rb')")
        self._report(len(data))
        return bytes(data)

    def _read_directly(self, readinto: Callable[[memoryview], int | None], buffer: memoryview) -> int:
        with self._naming_errors():
            n = readinto(buffer)
        if n is None:
            raise self._would_block()
        self._report(n)
        return n

    def _would_block(self) -> BlockingIOError:
        problem = "nothing to read yet, but the stream does not wait for more; give one that blocks"
        return BlockingIOError(errno.EAGAIN, problem, self.name)

    def _report(self, n: int) -> None:
        self.n_bytes += n
        if n and self._on_bytes is not None:
            self._on_bytes(n)

    @contextmanager
    def _naming_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.filename is None:
                error.filename = self.name
            raise


def name_of(source: PathOrStream) -> str:
    """Return the name of a file, standard input or a stream, for messages."""
    if isinstance(source, str | os.PathLike):
        return STDIN if os.fspath(source) == "-" else os.fspath(source)
    return str(getattr(source, "name", "<stream>"))


def refuse_stdin_twice(files: Mapping[str, PathOrStream | None]) -> None:
    """Raise a ValueError if two of the files are standard input. The keys of `files` are their names in the message."""
    piped = [role for role, file in files.items() if file is not None and name_of(file) == STDIN]
    if len(piped) > 1:
        both = " and ".join(piped[:2])
        raise ValueError(f"{both} are both standard input, which can be read once: name a file for one")


@contextmanager
def open_source(source: PathOrStream, on_bytes: OnBytes | None = None) -> Iterator[Source]:
    """Open a path, ``"-"`` for standard input, or a binary stream. A stream stays open afterwards."""
    if isinstance(source, Source):
        yield source
    elif not isinstance(source, str | os.PathLike):
        if not hasattr(source, "read"):
            raise TypeError(f"expected a path, '-' or a binary stream, got {type(source).__name__}")
        yield Source(source, name_of(source), on_bytes=on_bytes)
    elif source == "-":
        yield Source(sys.stdin.buffer, STDIN, on_bytes=on_bytes)
    else:
        with open(source, "rb", buffering=0) as file:
            yield Source(file, os.fspath(source), os.fstat(file.fileno()).st_size, on_bytes)
