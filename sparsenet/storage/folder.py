"""A directory held open: all operations use its descriptor, so that renaming the path cannot redirect them."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
import warnings
from collections.abc import Iterable, Iterator
from io import FileIO
from pathlib import Path

# The errors of file systems without locks, such as some network file systems.
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EBADF, errno.EOPNOTSUPP, errno.EINVAL}


class NotRegularError(OSError):
    """The path exists, but is not a regular file."""


class Folder:
    """An open directory, and durable ways to change it.

    Parameters
    ----------
    path : Path
        An existing directory, or a symbolic link to one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        with _minor(error, f"{self.path}: the directory could not be closed"):
            os.close(self._fd)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold an exclusive lock; other processes wait for it, and the death of a process releases it."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            yield  # the user must then see to it that only one process writes
            return
        try:
            yield
        except BaseException as error:
            self._unlock(error)
            raise
        self._unlock(None)

    def _unlock(self, error: BaseException | None) -> None:
        # Closing is not enough: a child process forked in the meantime holds the same lock.
        with _minor(error, f"{self.path}: the lock could not be released"):
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def names(self) -> list[str]:
        """Return the names in the directory."""
        return os.listdir(self._fd)

    def open(self, name: str) -> FileIO:
        """Open a regular file for reading; raise for anything else, and never block on a pipe."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            fd = os.open(name, flags, dir_fd=self._fd)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise NotRegularError(errno.ELOOP, "is a symbolic link", name) from error
            raise
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise NotRegularError(errno.EINVAL, "is not a regular file", name)
        return FileIO(fd, "rb")

    def write(self, name: str, pieces: Iterable[bytes | memoryview]) -> str:
        """Write a new file in pieces, sync it to the disk, and return its SHA-256."""
        digest = hashlib.sha256()
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=self._fd)
        try:
            for piece in pieces:
                digest.update(piece)
                left = memoryview(piece).cast("B")
                while left:
                    left = left[os.write(fd, left) :]
            os.fsync(fd)
        except BaseException as error:
            with _minor(error, f"{name} could not be closed"):
                os.close(fd)
            raise
        os.close(fd)
        return digest.hexdigest()

    def rename(self, name: str, to: str) -> None:
        """Rename a file, atomically replacing any file of the new name."""
        os.replace(name, to, src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def remove(self, name: str) -> None:
        """Remove a file."""
        os.unlink(name, dir_fd=self._fd)

    def sync(self) -> None:
        """Sync the directory, so that its names survive a power cut."""
        os.fsync(self._fd)


@contextlib.contextmanager
def _minor(error: BaseException | None, problem: str) -> Iterator[None]:
    """Report a failing clean-up as a note of `error`, or as a warning, so that it hides neither error nor success."""
    try:
        yield
    except OSError as failure:
        if error is None:
            warnings.warn(f"{problem}: {failure.strerror or failure}", RuntimeWarning, stacklevel=4)
        else:
            error.add_note(f"{problem}: {failure.strerror or failure}")


@contextlib.contextmanager
def made_folder(path: Path) -> Iterator[Folder]:
    """Open a directory, creating it if needed; remove it again if the body fails."""
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"{path}: is a file; a model is a directory: choose another name")
    missing = missing_folders(path)
    try:
        if missing:
            path.mkdir(parents=True, exist_ok=True)
            with Folder(path.parent) as parent:
                parent.sync()
        with Folder(path) as folder:
            yield folder
    except BaseException:
        remove_empty(missing)
        raise


def missing_folders(path: Path) -> list[Path]:
    """Return the directories that must be created for `path`, the innermost first."""
    return [place for place in (path, *path.parents) if not place.exists()]


def remove_empty(folders: list[Path]) -> None:
    """Remove directories that this process created, the innermost first, and stop at the first that is not empty."""
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            return
