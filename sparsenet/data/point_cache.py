"""Convert points to a `StoredPoints` in a cache folder, once for each source.

A file of text has one cache, named after its path. A matrix has one for its content. A stream of batches, which cannot
be recognised, is written again at each call, to a file without a name.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Callable, Iterable, Mapping, Sized
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sparsenet.core.matrices import check_pointers, check_structure
from sparsenet.core.memory import release_pages
from sparsenet.core.progress import parts_done
from sparsenet.core.validation import check_features
from sparsenet.data.arrays import RowArrays
from sparsenet.data.dataset import Dataset, csr, label_matrix
from sparsenet.data.errors import DataError, cut
from sparsenet.data.point_file import BLOCK_ROWS, PointWriter, StoredPoints
from sparsenet.data.reader_options import Options
from sparsenet.data.sources import open_source
from sparsenet.data.sparse import Reader, parsed_blocks

#: Bytes at each end of a text that its fingerprint covers, with its size and time.
END_BYTES = 1 << 16
#: How a text is read by default.
AS_FOUND = Options()
#: The key of the names of columns in the description of a stream of data frames.
FEATURE_NAMES = "feature_names"
#: Numbers of a dense matrix that are converted at a time.
NUMBERS_AT_A_TIME = 1 << 20


def stored_text(
    path: str, folder: str | os.PathLike[str], verbose: bool | None = None, options: Options = AS_FOUND
) -> Dataset:
    """Return the points of an XMC or svmlight file, read from the cache folder, and its labels.

    A source that changed after its conversion is an error.
    """
    source = os.path.realpath(path)
    read_as = repr((source, options.format, options.n_features, options.n_labels))
    name = hashlib.sha256(os.fsencode(read_as)).hexdigest()[:8]
    place = Path(folder) / f"{Path(path).name}-{name}.points"
    about = {"source": source, **fingerprint(source)}
    points = _stored_once(place, lambda writer: _convert_text(path, writer, about, verbose, options))
    if points.about != about:
        problem = f"was changed after its points were stored: remove {place} to store them again"
        raise DataError(path, None, problem)
    labels = points.labels
    Y = label_matrix(labels["label_indptr"], labels["label_ids"], int(labels["n_labels"][0]))
    return Dataset(X=points, Y=Y, classes=labels.get("classes"))


def _stored_once(place: Path, write: Callable[[PointWriter], StoredPoints]) -> StoredPoints:
    """Return the points of a file, which is written unless it exists. Other processes wait for the first one."""
    if not place.exists():
        with PointWriter(place) as writer:
            if not place.exists():  # no other process has written it while this one waited
                return write(writer)
    return StoredPoints(place)


def fingerprint(path: str) -> dict[str, Any]:
    """Return the size, time and ends of a file, to recognise that it has changed."""
    with open(path, "rb") as file:
        about = os.fstat(file.fileno())
        checksum = zlib.crc32(file.read(END_BYTES))
        file.seek(max(about.st_size - END_BYTES, 0))
        return {
            "size": about.st_size,
            "modified": about.st_mtime_ns,
            "ends": zlib.crc32(file.read(END_BYTES), checksum),
        }


def _convert_text(
    path: str, writer: PointWriter, about: dict[str, Any], verbose: bool | None, options: Options
) -> StoredPoints:
    with (
        parts_done(max(about["size"], 1), f"storing {Path(path).name}", verbose) as on_bytes,
        open_source(path, on_bytes) as source,
    ):
        found, reader = _Found(), None
        for reader in parsed_blocks(source, options):
            found.take(reader, writer)
        assert reader is not None  # an empty file has raised
        reader.finish()
        found.take(reader, writer)
        if writer.n_rows == 0:
            raise DataError(path, None, "holds no points")
        columns, n_labels, classes = reader.columns(np.concatenate(found.labels))
        pointers = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.concatenate(found.label_sizes))))
        labels: dict[str, NDArray[Any]] = {"label_indptr": pointers, "label_ids": columns}
        labels |= {"n_labels": np.array([n_labels])} | ({} if classes is None else {"classes": classes})
        width = reader.width(np.concatenate(found.ids))
        return writer.finish(width, is_dense=False, about=about, labels=labels)


class _Found:
    """Labels and ids of the rows written so far."""

    def __init__(self) -> None:
        self.labels: list[NDArray[Any]] = []
        self.label_sizes: list[NDArray[np.int64]] = []
        self.ids: list[NDArray[np.int32]] = [np.empty(0, np.int32)]
        self._n_ids = 0

    def take(self, reader: Reader, writer: PointWriter) -> None:
        """Write the rows of the reader."""
        rows = reader.rows.take()
        writer.append(csr(rows.indptr, rows.indices, rows.values, int(rows.indices.max(initial=-1)) + 1))
        self._note(rows)

    def _note(self, rows: RowArrays) -> None:
        """Keep the labels, the first ids, and the two largest ids, to find a mistyped one."""
        self.labels.append(rows.labels)
        self.label_sizes.append(np.diff(rows.label_indptr))
        if len(rows.indices):
            first = rows.indices[: max(END_BYTES - self._n_ids, 0)]
            largest = rows.indices.max()
            second = rows.indices.max(where=rows.indices != largest, initial=-1)
            self._n_ids += len(first)
            self.ids.append(np.concatenate((first, [largest, second][: 1 + (second >= 0)])).astype(np.int32))


def stored_matrix(X: Any, folder: str | os.PathLike[str], verbose: bool | None = None) -> StoredPoints:
    """Return the points of a CSR matrix or array, which may be mapped into memory, read from the cache folder."""
    is_sparse = bool(sparse.issparse(X))  # a plain bool, so that mypy does not narrow X
    if is_sparse and X.format != "csr":
        check_structure("X", X)
        X = X.tocsr()
    elif is_sparse:
        check_pointers("X", X, X.shape[0])  # ids are checked block by block: reading all would map all pages
    arrays = [X.indptr, X.indices, X.data] if is_sparse else [X]
    n_numbers = X.nnz if is_sparse else X.size
    digest = hashlib.sha256(repr([X.shape, *((array.dtype.str, array.shape) for array in arrays)]).encode())
    for array in arrays:
        for part in _parts(array):
            digest.update(np.ascontiguousarray(part).data)
            release_pages(array)
    about = {"sha256": digest.hexdigest()}
    place = Path(folder) / f"matrix-{about['sha256'][:16]}.points"

    def write(writer: PointWriter) -> StoredPoints:
        n_rows = max(min(NUMBERS_AT_A_TIME * max(X.shape[0], 1) // max(n_numbers, 1), BLOCK_ROWS), 1)
        with parts_done(X.shape[0], "storing X", verbose) as on_rows:
            for begin in range(0, X.shape[0], n_rows):
                append(writer, X[begin : begin + n_rows], first_row=begin)
                on_rows(min(n_rows, X.shape[0] - begin))
                for array in arrays:
                    release_pages(array)
        return writer.finish(X.shape[1], is_dense=not is_sparse, about=about)

    return _stored_once(place, write)


def stored_batches(
    batches: Iterable[Any], folder: str | os.PathLike[str], verbose: bool | None = None
) -> tuple[StoredPoints, list[Any]]:
    """Write a stream of pairs (X, y), or of data sets, to the cache folder; return the points, and y of each batch.

    A batch without rows has None in place of y.
    """
    place, known = Path(folder) / "stream", None
    labels: list[Any] = []
    first = 0
    with PointWriter(place, temporary=True) as writer, parts_done(0, "storing batches", verbose) as on_batch:
        for number, batch in enumerate(batches):
            X, y = (batch.X, batch.Y) if isinstance(batch, Dataset) else pair_of(batch, number)
            if length_of(X) == length_of(y) == 0:
                labels.append(None)
                continue
            columns = append(writer, X, f"batch {number}")
            if length_of(X) != length_of(y):
                raise ValueError(f"batch {number}: X has {length_of(X)} rows, y has {length_of(y)}: one y for each row")
            if known is None:
                known, first = columns, number
            if columns != known:
                raise ValueError(f"batch {number} has {columns}, but batch {first} has {known}")
            labels.append(y.copy() if hasattr(y, "copy") else y)  # a stream may fill one buffer again and again
            on_batch(1)
        if known is None:
            raise ValueError("there are no rows: pass an iterable of pairs (X, y)")
        return writer.finish(known.n, is_dense=known.is_dense, about={FEATURE_NAMES: known.names}), labels


class _Columns(NamedTuple):
    """The columns of X: their number, whether X is an array, and their names if X is a data frame."""

    n: int
    is_dense: bool
    names: list[str] | None

    def __str__(self) -> str:
        named = "" if self.names is None else f" named {cut(', '.join(map(repr, self.names)), 200)}"
        return f"{self.n} {'dense' if self.is_dense else 'sparse'} columns{named}"


def append(writer: PointWriter, X: Any, batch: str | None = None, *, first_row: int = 0) -> _Columns:
    """Check rows of X as `fit` does, append them, and return their columns; errors begin with the name of a batch."""
    from sklearn.base import BaseEstimator  # takes a second to import

    estimator = BaseEstimator()
    try:
        checked = check_features(estimator, X, fitting=True, first_row=first_row)
    except ValueError as error:
        if batch is None:
            raise
        raise ValueError(f"{batch}: {error}") from error
    is_dense = not sparse.issparse(checked)
    writer.append(sparse.csr_array(checked) if is_dense else checked)
    names = getattr(estimator, "feature_names_in_", None)
    return _Columns(checked.shape[1], is_dense, None if names is None else names.tolist())


def pair_of(batch: Any, number: int) -> tuple[Any, Any]:
    """Return X and y of a batch of a stream."""
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        raise ValueError(f"batch {number} must be a pair (X, y), got {type(batch).__name__}: yield (X, y)")
    X, y = batch
    if y is None:
        raise ValueError(f"batch {number} holds no labels: yield (X, y)")
    for name, each in (("X", X), ("y", y)):
        if isinstance(each, str | Mapping) or not (hasattr(each, "shape") or isinstance(each, Sized)):
            wanted = "a matrix" if name == "X" else "labels, one entry for each row"
            raise ValueError(f"batch {number}: {name} must be {wanted}, got {type(each).__name__}")
    return X, y


def length_of(each: Any) -> int:
    """Return the number of rows."""
    shape = getattr(each, "shape", None)
    return int(shape[0]) if shape else len(each)


def _parts(array: NDArray[Any]) -> Iterable[NDArray[Any]]:
    n = max(NUMBERS_AT_A_TIME * len(array) // max(array.size, 1), 1)
    return (array[begin : begin + n] for begin in range(0, len(array), n))
