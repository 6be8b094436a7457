"""Save and load a model directory. The docstring of `sparsenet.storage` describes the layout and the guarantees."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import warnings
from collections.abc import Callable, Iterator, Mapping
from io import FileIO
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparsenet.core import aligned
from sparsenet.core.machine import release_memory
from sparsenet.storage.folder import Folder, made_folder, missing_folders, remove_empty
from sparsenet.storage.format import (
    DAMAGED,
    FORMAT,
    MANIFEST,
    MAX_MANIFEST_BYTES,
    Manifest,
    ModelError,
    array_spec,
    header_bytes,
    in_file_order,
    manifest_bytes,
    parse_manifest,
)
from sparsenet.storage.parts import model_errors

T = TypeVar("T")
_CHUNK = 1 << 20
_DATA_FILE = r"arrays-[0-9a-f]{16}\.safetensors"
_OURS = re.compile(rf"{_DATA_FILE}|\.sparsenet-[0-9a-f]{{16}}\.tmp")


def save(directory: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any]) -> None:
    """Save a model in place of an earlier one; after any failure either the old or the new one is complete.

    Parameters
    ----------
    directory : path
        Created if it does not exist. It must be empty or hold a model. Files of others next to a model stay.
    arrays : mapping of str to array
        Booleans, integers and floats of any shape and memory layout. They are written in pieces, without a copy.
    metadata : mapping of str to JSON
        ``dict``, ``list``, ``str``, ``int``, ``float``, ``bool``, ``None``; no NaN. Equal models give equal
        files.

    Raises
    ------
    ValueError
        If an array or an item of the metadata cannot be saved. Nothing is written.
    FileExistsError, NotADirectoryError
        If the directory holds other files and no model, or is a file. Nothing is written.
    OSError
        If the disk is full, or permission is missing. The old model is unchanged.

    Examples
    --------
    >>> import tempfile
    >>> directory = tempfile.mkdtemp()
    >>> save(directory, {"bias": np.zeros(3, np.float32)}, {"epochs": 5})
    >>> load(directory)
    ({'bias': array([0., 0., 0.], dtype=float32)}, {'epochs': 5})
    """
    specs = {name: array_spec(name, array) for name, array in arrays.items()}
    draft = Manifest(sha256="0" * 64, arrays=specs, metadata=dict(metadata))
    manifest_bytes(draft)  # raises for metadata that cannot be saved, before any file changes
    with made_folder(Path(directory)) as folder, folder.locked():
        _refuse_foreign(folder)
        try:
            _commit(folder, draft, arrays)
        except BaseException as error:
            if problem := _failed_sweep(folder):
                error.add_note(
                    f"files of this attempt are left in {folder.path}: {problem}; the next save removes them"
                )
            raise
        if problem := _failed_sweep(folder):
            left = f"{folder.path}: the model was saved, but old files are left: {problem}; the next save removes them"
            warnings.warn(left, RuntimeWarning, stacklevel=2)


def prepare(directory: str | os.PathLike[str]) -> None:
    """Raise now what `save` would raise after hours of training; change nothing on disk.

    Raises
    ------
    FileExistsError, NotADirectoryError, PermissionError
        If a model could not be saved there.
    """
    path = Path(directory)
    missing = missing_folders(path)
    with made_folder(path) as folder:
        _refuse_foreign(folder)
        if not os.access(folder.path, os.W_OK | os.X_OK):
            raise PermissionError(f"{folder.path}: no permission to write; name another directory")
    remove_empty(missing)


def remove(directory: str | os.PathLike[str]) -> None:
    """Remove a model, and its directory if that is then empty."""
    with _model_folder(Path(directory)) as folder, folder.locked():
        _refuse_foreign(folder)
        if MANIFEST in folder.names():
            folder.remove(MANIFEST)  # first, so that a killed removal leaves no model with missing parts
        _sweep(folder)
        empty = not folder.names()
    if empty:
        try:
            os.rmdir(directory)
        except OSError as error:  # without the lock, another process may have saved there, or removed it
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                raise


def load(directory: str | os.PathLike[str]) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Load the arrays and the metadata of a model.

    Raises
    ------
    ModelError
        If there is no model, if any byte of it has changed, or if the format is too new. The message names the
        file, the problem and the remedy.
    """
    return _opened(directory, _read_arrays)


def load_mapped(directory: str | os.PathLike[str]) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Map the arrays into memory, read-only, after their checksum was compared, and load the metadata; see `load`."""
    return _opened(directory, _map_arrays)


def _opened(
    directory: str | os.PathLike[str], read: Callable[[FileIO, Manifest, Path], dict[str, NDArray[Any]]]
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    with _model_folder(Path(directory)) as folder:
        raw = _read_manifest(folder)
        while True:
            manifest = parse_manifest(raw, folder.path / MANIFEST)
            path = folder.path / manifest.data_file
            try:
                with _explained_model(path), folder.open(manifest.data_file) as file:
                    return read(file, manifest, path), dict(manifest.metadata)
            except FileNotFoundError as error:
                # Another process may have saved in between. Then there is a newer manifest.
                raw, previous = _read_manifest(folder), raw
                if raw == previous:
                    raise ModelError(f"{path}: is missing; {DAMAGED}") from error


def load_as(directory: str | os.PathLike[str], make: Callable[[dict[str, NDArray[Any]], dict[str, Any]], T]) -> T:
    """Load a model and apply `make` to its arrays and metadata; its errors become ModelError and name the path."""
    parts = load(directory)
    try:
        with model_errors():
            made = make(*parts)
    except ModelError as error:
        raise ModelError(f"{os.fspath(directory)}: {error}") from error
    del parts
    release_memory()  # unpacking takes several times the memory of the model
    return made


def metadata(directory: str | os.PathLike[str]) -> dict[str, Any]:
    """Load the metadata without reading the arrays; raises ModelError as `load` does."""
    with _model_folder(Path(directory)) as folder:
        return dict(parse_manifest(_read_manifest(folder), folder.path / MANIFEST).metadata)


def _commit(folder: Folder, draft: Manifest, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write both files under temporary names, then rename them, the manifest last."""
    data, manifest = (f".sparsenet-{secrets.token_hex(8)}.tmp" for _ in range(2))
    with _explained(folder.path, "nothing was saved, what was there before is unchanged"):
        digest = folder.write(data, _content(draft, arrays))
        final = Manifest(sha256=digest, arrays=draft.arrays, metadata=draft.metadata)
        folder.write(manifest, [manifest_bytes(final)])
        folder.rename(data, final.data_file)
        folder.sync()  # otherwise a power cut might keep the next rename and lose this one
        folder.rename(manifest, MANIFEST)
    with _explained(folder.path, "the model was saved, but might not survive a power cut"):
        folder.sync()


def _content(draft: Manifest, arrays: Mapping[str, NDArray[Any]]) -> Iterator[bytes | memoryview]:
    """Yield the data file in pieces: little-endian and in C order, whatever the layout in memory."""
    yield header_bytes(draft.arrays)
    for name in in_file_order(draft.arrays):
        dtype = draft.arrays[name].dtype
        chunks = np.nditer(
            arrays[name],
            flags=["external_loop", "buffered", "zerosize_ok"],
            op_flags=["readonly"],
            op_dtypes=dtype,
            casting="equiv",
            order="C",
            buffersize=_CHUNK // dtype.itemsize,
        )
        for chunk in chunks:
            yield np.ascontiguousarray(chunk).data


def _check_header(file: FileIO, manifest: Manifest, path: Path) -> tuple[int, hashlib._Hash]:
    """Compare the size and the header; return the size, and the digest of the header."""
    size, header = os.fstat(file.fileno()).st_size, header_bytes(manifest.arrays)
    if size != manifest.data_bytes:
        raise ModelError(f"{path}: has {size} bytes, should have {manifest.data_bytes}; {DAMAGED}")
    digest = hashlib.sha256()
    found = np.empty(len(header), np.uint8)
    _fill(file, found, digest, path)
    if found.tobytes() != header:
        raise ModelError(f"{path}: its header does not describe the arrays that {MANIFEST} lists; {DAMAGED}")
    return size, digest


def _map_arrays(file: FileIO, manifest: Manifest, path: Path) -> dict[str, NDArray[Any]]:
    size, digest = _check_header(file, manifest, path)
    buffer, left = np.empty(_CHUNK, np.uint8), size - file.tell()
    offset = file.tell()
    while left:
        piece = buffer[: min(left, _CHUNK)]
        _fill(file, piece, digest, path)
        left -= len(piece)
    _check_digest(digest, manifest, path)
    arrays: dict[str, NDArray[Any]] = {}
    for name in in_file_order(manifest.arrays):
        spec = manifest.arrays[name]
        arrays[name] = np.empty(spec.shape, spec.dtype)
        if spec.n_bytes:
            arrays[name] = np.asarray(np.memmap(file, spec.dtype, "r", offset, spec.shape))
        offset += spec.n_bytes
    return arrays


def _check_digest(digest: hashlib._Hash, manifest: Manifest, path: Path) -> None:
    if digest.hexdigest() != manifest.sha256:
        raise ModelError(f"{path}: its SHA-256 is not the one that {MANIFEST} states; {DAMAGED}")


def _read_arrays(file: FileIO, manifest: Manifest, path: Path) -> dict[str, NDArray[Any]]:
    size, digest = _check_header(file, manifest, path)
    try:
        arrays = {name: aligned.empty(spec.shape, spec.dtype) for name, spec in manifest.arrays.items()}
    except MemoryError as error:
        raise ModelError(f"{path}: its arrays take {size} bytes of memory, and there is not as much") from error
    for name in in_file_order(manifest.arrays):
        _fill(file, arrays[name].reshape(-1).view(np.uint8), digest, path)
    _check_digest(digest, manifest, path)
    for name, array in arrays.items():
        if array.dtype == bool and array.size and array.view(np.uint8).max() > 1:
            raise ModelError(f"{path}: array {name!r} holds booleans that are neither 0 nor 1; {DAMAGED}")
    return arrays


def _fill(file: FileIO, array: NDArray[np.uint8], digest: hashlib._Hash, path: Path) -> None:
    left = array.data
    while left:
        piece = left[: file.readinto(left[:_CHUNK])]
        if not piece:
            raise ModelError(f"{path}: became shorter while it was read; {DAMAGED}")
        digest.update(piece)
        left = left[len(piece) :]


def _read_manifest(folder: Folder) -> bytes:
    path = folder.path / MANIFEST
    try:
        with _explained_model(path), folder.open(MANIFEST) as file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_MANIFEST_BYTES:
                raise ModelError(f"{path}: has {size} bytes, at most {MAX_MANIFEST_BYTES} are possible; {DAMAGED}")
            return file.readall()
    except FileNotFoundError as error:
        raise ModelError(
            f"{folder.path}: is not a sparsenet model: that is a directory with {MANIFEST}, and there is none"
        ) from error


def _refuse_foreign(folder: Folder) -> None:
    """Refuse a directory with files of other programs: it was probably named by mistake."""
    names = folder.names()
    foreign = sorted(name for name in names if name != MANIFEST and not _OURS.fullmatch(name))
    if MANIFEST in names:
        # A damaged manifest of ours may be replaced, but not the manifest of another program.
        if f'"format": "{FORMAT}"'.encode() in _read_manifest(folder):
            return
        foreign = [MANIFEST]
    if foreign:
        raise FileExistsError(
            f"{folder.path}: holds {foreign[0]!r} and no sparsenet model, so nothing was saved there; "
            "name a directory that is new, empty or a model"
        )


def _sweep(folder: Folder) -> None:
    """Remove our files that the manifest does not name: leftovers of failed, killed and replaced saves."""
    names = folder.names()
    manifest = _read_manifest(folder).decode(errors="replace") if MANIFEST in names else ""
    used = set(re.findall(_DATA_FILE, manifest))
    for name in names:
        if _OURS.fullmatch(name) and name not in used:
            folder.remove(name)


def _failed_sweep(folder: Folder) -> Exception | None:
    """Sweep, and return the error if that fails: leftover files waste room, but the model is intact."""
    try:
        _sweep(folder)
    except (OSError, ModelError) as error:
        return error
    return None


def _model_folder(path: Path) -> Folder:
    try:
        with _explained_model(path):
            return Folder(path)
    except FileNotFoundError as error:
        raise ModelError(f"{path}: does not exist; a sparsenet model is a directory with {MANIFEST}") from error


@contextlib.contextmanager
def _explained(path: Path, state: str) -> Iterator[None]:
    """Add to an error of the system which model was being saved, and the state of the directory now."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror or error}; {state}", str(path)) from error


@contextlib.contextmanager
def _explained_model(path: Path) -> Iterator[None]:
    """Turn an error of the system about a model's file into a ModelError; let FileNotFoundError pass to the caller."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ModelError(
            f"{path}: cannot be read: {error.strerror}; a model is a directory of two regular files"
        ) from error
