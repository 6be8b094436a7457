"""Take points and their labels from files and data sets, as `fit` and the answers of the point classifiers do."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csr_array

from sparsenet.core.validation import check_features
from sparsenet.data.auto import read
from sparsenet.data.dataset import Dataset
from sparsenet.data.errors import DataError
from sparsenet.data.formats import is_npz, text_format
from sparsenet.data.numpy_files import mapped_array
from sparsenet.data.point_cache import FEATURE_NAMES, stored_batches, stored_matrix, stored_text
from sparsenet.data.point_file import StoredPoints, check_cache
from sparsenet.features.targets import Target, joined_labels

_IN_MEMORY, _NO_STATE = "stays in the memory of one process while a model learns", "has no checkpoints"
_REASONS = {"cache": _IN_MEMORY, "executor": _IN_MEMORY, "checkpoint": _NO_STATE, "resume": _NO_STATE}
#: The suffix of a NumPy array, which is mapped into memory.
NUMPY = ".npy"


def is_source(X: Any) -> bool:
    """Return whether X is a file or a data set, which may hold labels."""
    return isinstance(X, str | os.PathLike | Dataset)


def training_points(
    X: Any, y: Any, *, cache: str | os.PathLike[str] | None = None, verbose: bool | None = None
) -> tuple[Any, Any]:
    """Return X and y; read both from X if it is a file or data set.

    With `cache`, X may also be a stream of batches; X is then a `StoredPoints` in this folder, and points stay on disk.
    """
    if cache is not None:
        return _cached_points(X, y, cache, verbose)
    if isinstance(X, Iterator):
        raise ValueError("X is an iterator: if it yields batches (X, y), name a folder for the points with cache")
    if not is_source(X):
        return X, y
    return _with_labels(X, y, _points(X))


def refuse_roads(what: str, instead: str, **given: Any) -> None:
    """Refuse arguments of `fit` that a kind of data does not support, and name an alternative."""
    for name, value in given.items():
        if value is not None and value is not False:
            raise ValueError(f"{what} {_REASONS[name]}, so fit takes no {name}: leave it out, or {instead}")


def _cached_points(X: Any, y: Any, cache: str | os.PathLike[str], verbose: bool | None) -> tuple[Any, Any]:
    check_cache(cache)
    if is_source(X):
        if isinstance(X, str | os.PathLike) and _is_sparse_text(X):
            return _with_labels(X, y, stored_text(os.fspath(X), cache, verbose))
        points, y = _with_labels(X, y, _points(X))
        return stored_matrix(points, cache, verbose), y
    if sparse.issparse(X) or isinstance(X, np.ndarray):
        return stored_matrix(X, cache, verbose), y
    if isinstance(X, Iterable) and not isinstance(X, Mapping) and not hasattr(X, "columns"):
        if y is not None:
            raise ValueError(
                f"cache takes a file or a matrix next to y, got {type(X).__name__}: pass numpy.asarray(X) for a list "
                "of rows, or y=None for an iterable of batches (X, y), which hold the labels"
            )
        points, labels = stored_batches(X, cache, verbose)
        return points, joined_labels(labels)
    raise ValueError(
        f"cache takes a file, a matrix or an iterable of batches (X, y), got {type(X).__name__}: leave out cache"
    )


def _is_sparse_text(X: str | os.PathLike[str]) -> bool:
    path = os.fspath(X)
    return not (path == "-" or text_format(path) or path.lower().endswith(NUMPY) or is_npz(path))


def _with_labels(X: Any, y: Any, points: Any) -> tuple[Any, Any]:
    """Return the points and the labels of a source, or `y` if it holds none."""
    name = _name(X)
    if not isinstance(points, Dataset):
        return points, _given(y, name)
    if points.Y.nnz or y is None:
        _refuse_second(y, name)
        return points.X, _labels(points, name)
    return points.X, y


def checked_points(model: Any, X: Any) -> Any:
    """Return the X of `fit`, validated; a file of points was validated as it was written."""
    if not isinstance(X, StoredPoints):
        return check_features(model, X, fitting=True)
    model.parts_, model.n_features_in_ = None, X.shape[1]
    if hasattr(model, "feature_names_in_"):
        del model.feature_names_in_
    if (names := X.about.get(FEATURE_NAMES)) is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
    if X.shape[0] == 0:
        raise ValueError("X has no rows: there must be at least one")
    return X


def query_points(X: Any, n_features: int) -> Any:
    """Return X, or the points of a file or data set, at least `n_features` wide."""
    if not is_source(X):
        return X
    points = _points(X, n_features=n_features, with_labels=False)
    return _widened(points.X, n_features) if isinstance(points, Dataset) else points


def labelled_points(X: Any, y: Any, n_features: int, target: Target) -> tuple[Any, Any]:
    """Return X and y to compare a model's answers with; read both from X if it is a file or data set.

    Labels of a file are column numbers, or names if the model learnt names.
    """
    if not is_source(X):
        return X, y
    of_columns = target.kind in ("dense", "sparse")
    name = _name(X)
    widths = {"n_features": n_features} | ({"n_labels": len(target.classes)} if of_columns else {})
    points = _points(X, **widths)
    if not isinstance(points, Dataset):
        return points, _given(y, name)
    features = _widened(points.X, n_features)
    if not points.Y.nnz and y is not None:
        return features, y
    _refuse_second(y, name)
    if not of_columns:
        return features, _named(points)
    if points.classes is not None:
        raise ValueError(f"the labels of {name} have names, but the model learnt an indicator: pass X and y")
    return features, _widened(points.Y, len(target.classes))


def _name(X: Any) -> str:
    return "the Dataset" if isinstance(X, Dataset) else repr(os.fspath(X))


def _points(X: Any, **options: Any) -> Any:
    """Return the data set of a file, or the array of a .npy file."""
    if isinstance(X, Dataset):
        return X
    path = os.fspath(X)
    if text_format(path):
        problem = "is a table: TableClassifier trains on its columns, and TextClassifier on its texts"
        raise DataError(path, None, problem)
    if path.lower().endswith(NUMPY):
        return mapped_array(path)
    if is_npz(path):
        options.pop("n_labels", None)
        options.pop("with_labels", None)
    found = read(path, **options)
    assert isinstance(found, Dataset)
    return found


def _given(y: Any, name: str) -> Any:
    if y is None:
        raise ValueError(f"{name} holds no labels: pass y")
    return y


def _refuse_second(y: Any, name: str) -> None:
    if y is not None:
        raise ValueError(f"y must be None if X is {name}, which holds its labels")


def _labels(points: Dataset, name: str) -> Any:
    """Return labels as columns, or by their names in the file: one a point if every point has one."""
    if points.Y.nnz == 0:
        raise ValueError(f"{name} holds no labels: pass y, or read both files with sparsenet.data.read_pair")
    if points.classes is None:
        return points.Y
    return points.y if (np.diff(points.Y.indptr) == 1).all() else _named(points)


def _named(points: Dataset) -> list[list[Any]]:
    """Return the labels of each point by their names in the file."""
    ids = points.Y.indices
    names = (ids if points.classes is None else points.classes[ids]).tolist()
    return [names[begin:end] for begin, end in pairwise(points.Y.indptr.tolist())]


def _widened(matrix: Any, width: int) -> Any:
    """Add empty columns: a file may not have the last features or labels of the model."""
    if not hasattr(matrix, "tocsr") or matrix.shape[1] >= width:
        return matrix
    csr = csr_array(matrix)
    return csr_array((csr.data, csr.indices, csr.indptr), shape=(csr.shape[0], width))
