"""Encode y as label numbers, and decode predictions back into the form of y.

y has one of four kinds: one label per point (``"single"``), lists of labels (``"lists"``), or an indicator with one
column per label, dense (``"dense"``) or sparse (``"sparse"``). Predictions have the same kind.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, KeysView, Mapping, ValuesView
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets

from sparsenet.core.machine import available_memory
from sparsenet.core.memory import arrays_of, in_words, release_pages
from sparsenet.core.rows import Rows, RowSource
from sparsenet.core.validation import check_names, is_missing
from sparsenet.features.indicators import check_columns, column_names, indicator_of, is_bit, native

KINDS = ("single", "lists", "dense", "sparse")
_LISTS = (list, tuple, set, frozenset, np.ndarray)


def kind_of(y: Any) -> str:
    """Return which of the four kinds y is.

    As in scikit-learn, a list of rows is an indicator if all rows have the same length, at least 2, and only contain 0
    and 1. Otherwise it is a list of labels for each point.
    """
    if y is None:
        raise ValueError("A classifier requires y to be passed, but the target y is None")
    if sparse.issparse(y):
        return "sparse"
    _check_is_labels(y)
    if hasattr(y, "ndim"):
        if y.ndim == 2:
            return "dense" if y.shape[1] != 1 else "single"
        if y.ndim != 1:
            raise ValueError(f"y must have one or two dimensions, got {y.ndim}")
        if y.dtype != np.dtype(object):
            return "single"
    first = next(iter(y), None)
    if not isinstance(first, _LISTS):
        if is_missing(first) and any(isinstance(row, _LISTS) for row in y):
            raise ValueError(f"row 0 of y is {first!r}, others are lists of labels: give it an empty list or drop it")
        return "single"
    widths = {len(row) if isinstance(row, _LISTS) else -1 for row in y}
    if -1 in widths:
        row = next(row for row, own in enumerate(y) if not isinstance(own, _LISTS))
        problem = f"row {row} of y is not a list of labels, but row 0 is"
        raise ValueError(f"{problem}: give every row a list, an empty one if it has no label")
    if len(widths) == 1 and widths.pop() > 1 and all(is_bit(value) for value in chain.from_iterable(y)):
        return "dense"
    return "lists"


def _check_is_labels(y: Any) -> None:
    """Refuse values that cannot be labels; the error names an alternative."""
    if isinstance(y, str | bytes | os.PathLike):
        raise ValueError(f"y is the string {os.fspath(y)!r}: pass a list of labels, or a file as X alone")
    if isinstance(y, Mapping):
        raise ValueError(f"y is a mapping of {len(y)} entries: pass a list of labels, one for each row of X")
    method = next((name for name in ("collect", "compute") if callable(getattr(y, name, None))), None)
    if method is not None and not hasattr(y, "__array__"):
        raise ValueError(f"y is a {type(y).__name__}, whose rows are not there yet: pass what its {method}() returns")
    if isinstance(y, list | tuple) and y and isinstance(y[0], Mapping):
        raise ValueError("y holds dicts: pass a label, or a list of labels, for each row")


def kind_of_next(y: Any, before: str) -> str:
    """Return the kind of y, given the kind of an earlier y: if that was no indicator, lists are not one either."""
    kind = kind_of(y)
    if kind == "dense" and before in ("single", "lists") and getattr(y, "ndim", 1) != 2:
        return "lists"  # of labels that happen to be 0 and 1, the same number in each row
    return kind


def listed(y: Any) -> Any:
    """Convert iterators and dictionary views to a list; return anything else unchanged."""
    return list(y) if isinstance(y, Iterator | KeysView | ValuesView) else y


def joined_labels(parts: list[Any]) -> Any:
    """Join the y of batches, all of one form, into one y. A batch without rows has None."""
    forms = {number: _form(part) for number, part in enumerate(parts) if part is not None}
    first = min(forms)
    for number, form in forms.items():
        if column_names(parts[number]) is not None:
            problem = f"y of batch {number} is a data frame, whose names of columns would be lost"
            raise ValueError(f"{problem}: pass lists of labels, or an array of zeros and ones")
        if form != forms[first]:
            raise ValueError(f"y of batch {number} is {form}, but y of batch {first} is {forms[first]}: use one form")
    found = [part for part in parts if part is not None]
    if sparse.issparse(found[0]):
        return sparse.vstack(found, format="csr")
    if hasattr(found[0], "__array__"):
        return np.concatenate([np.asarray(_plain(part)) for part in found])
    return list(chain.from_iterable(found))


def _form(y: Any) -> str:
    """Return what y of a batch is, in words."""
    is_sparse = bool(sparse.issparse(y))  # a plain bool, so that mypy does not narrow y
    if is_sparse:
        return f"a sparse matrix of {y.shape[1]} columns"
    if not hasattr(y, "__array__"):
        return "a list"
    array = np.asarray(y)
    held = {"U": "strings", "S": "strings", "O": "objects"}.get(array.dtype.kind, "numbers")
    return f"an array of {held}" + (f" in {array.shape[1]} columns" if array.ndim == 2 else "")


def _plain(y: Any) -> Any:
    """Convert array-likes to arrays; lists stay, since their rows may differ in length.

    Masked labels are an error: a plain array would expose the values under the mask.
    """
    y = listed(y)
    if isinstance(y, np.ma.MaskedArray) and np.ma.is_masked(y):
        row = int(np.argwhere(np.ma.getmaskarray(y))[0, 0])
        raise ValueError(f"y is masked in row {row}: every row needs a label; drop the row")
    if not hasattr(y, "__array__") or hasattr(y, "tocsr"):
        return y
    array = np.asarray(y)
    if array.dtype == object and array.ndim == 2 and array.shape[1] == 1 and len(array):
        return array[:, 0] if isinstance(array[0, 0], _LISTS) else array  # a frame with one column of lists
    return array


@dataclass(frozen=True)
class Target:
    """The labels that a classifier knows, and the form of y.

    Attributes
    ----------
    kind : one of `KINDS`.
    classes : shape (n_labels,), ascending; for an indicator the column numbers, or the column names of a data frame in
        the order of the columns.
    dtype : type of an indicator's values, otherwise of `classes`.
    """

    kind: str
    classes: NDArray[Any]
    dtype: np.dtype[Any]

    @classmethod
    def learn(
        cls, y: Any, classes: Any = None, *, incremental: bool = False, before: str | None = None
    ) -> tuple[Target, Rows]:
        """Find the labels in y, or take them from `classes`, and encode y as rows of label numbers.

        If more y will follow (`incremental`), `classes` is required unless y is an indicator, which has a column for
        every label. `before` is the kind of an earlier y.
        """
        names, y = column_names(y), _plain(y)
        kind = kind_of(y) if before is None else kind_of_next(y, before)
        if kind in ("dense", "sparse"):
            indicator, dtype = indicator_of(y)
            _check_memory(indicator.shape[1])
            target = cls(kind, np.arange(indicator.shape[1]) if names is None else names, dtype)
            target._check_same(classes)
            rows = Rows.of(indicator.astype(np.float32))
            for array in arrays_of(y):
                release_pages(array)
            return target, rows
        if classes is None and incremental:
            raise ValueError("classes must be passed on the first call to partial_fit: all labels that will occur")
        labels, indptr = _flatten(y, kind)
        known = _distinct(labels if classes is None else _labels(classes, "classes"))
        check_names(known, labels, indptr)
        target = cls(kind, known, known.dtype)
        return target, target._rows(labels, indptr, drop_unknown=False)

    @classmethod
    def of_columns(cls, n_labels: int) -> Target:
        """Create the target of a sparse indicator, whose labels are column numbers."""
        return cls("sparse", np.arange(n_labels), np.dtype(np.float32))

    def encode(self, y: Any, *, classes: Any = None, drop_unknown: bool = False) -> Rows:
        """Encode y, of the kind learnt, as rows of label numbers.

        An unknown label is an error unless `drop_unknown`: in validation it can only be a miss.
        """
        self._check_same(classes)
        if self.kind == "dense":
            check_columns(y, self.classes)
        y = _plain(y)
        kind = kind_of_next(y, self.kind)
        if (kind in ("dense", "sparse")) != (self.kind in ("dense", "sparse")):
            raise ValueError(f"y must be of the kind {self.kind!r} as it was before, got the kind {kind!r}")
        if kind in ("dense", "sparse"):
            indicator, _ = indicator_of(y)
            if indicator.shape[1] != len(self.classes):
                raise ValueError(f"y has {indicator.shape[1]} columns, the classifier knows {len(self.classes)} labels")
            return Rows.of(indicator.astype(np.float32))
        labels, indptr = _flatten(y, kind)
        return self._rows(labels, indptr, drop_unknown)

    def find(self, names: list[Any]) -> NDArray[np.int64]:
        """Return the number of each named label, or -1 for an unknown one."""
        return _positions(_labels(names, "names of labels"), self.classes)

    def decode(self, labels: NDArray[np.int32], indptr: NDArray[np.int64]) -> Any:
        """Convert predicted label numbers, row i ``labels[indptr[i] : indptr[i + 1]]``, to the form of y."""
        if self.kind == "single":
            return self.classes[labels]
        if self.kind == "lists":
            names = self.classes[labels].tolist()
            return [names[begin:end] for begin, end in pairwise(indptr.tolist())]
        shape = (len(indptr) - 1, len(self.classes))
        matrix = sparse.csr_array((np.ones(len(labels), self.dtype), labels, indptr), shape=shape)
        matrix.sort_indices()
        return matrix if self.kind == "sparse" else matrix.toarray()

    def _check_same(self, classes: Any) -> None:
        if classes is None:
            return
        given = _distinct(_labels(classes, "classes"))
        if len(given) != len(self.classes) or np.any(_positions(given, self.classes) < 0):
            raise ValueError(
                f"classes must be the {len(self.classes)} that the classifier knows (for an indicator 0, 1, ... or "
                f"the names of its columns), or None; got {len(given)} others: fit again to change them"
            )

    def _rows(self, labels: NDArray[Any], indptr: NDArray[np.int64], drop_unknown: bool) -> Rows:
        numbers = _positions(labels, self.classes)
        unknown = numbers < 0
        if unknown.any():
            if not drop_unknown:
                (label,) = labels[unknown][:1].tolist()
                raise ValueError(
                    f"y holds the label {label!r}, not one of the {len(self.classes)} known ones: pass "
                    "all of them as classes in the first call of partial_fit, or fit again"
                )
            if unknown.all():
                found, known = labels[:1].tolist(), self.classes[:1].tolist()
                message = f"y holds no label that the classifier knows: it has labels like {found}, not like {known}"
                warnings.warn(f"{message}; each counts as a miss", UserWarning, stacklevel=4)
            indptr = np.concatenate(([0], np.cumsum(~unknown)))[indptr]
            numbers = numbers[~unknown]
        return self.rows(numbers, indptr)

    def rows(self, numbers: NDArray[Any], indptr: NDArray[np.int64]) -> Rows:
        """Build rows from label numbers, without duplicates."""
        shape = (len(indptr) - 1, len(self.classes))
        matrix = sparse.csr_array((np.ones(len(numbers), np.float32), numbers, indptr), shape=shape)
        matrix.sum_duplicates()
        matrix.data.fill(1.0)
        return Rows.of(matrix)


def _check_memory(n_labels: int, *, bytes_per_label: int = 64) -> None:
    """Reject more label columns than memory holds, before allocating arrays of that length.

    Ids mistaken for column numbers may give billions of columns. `fit` keeps about `bytes_per_label` for each label in
    any model.
    """
    needed, available = bytes_per_label * n_labels, available_memory()
    if needed > available:
        raise MemoryError(
            f"y has {n_labels} columns, one for each label, which need {in_words(needed)}, but only "
            f"{in_words(available)} are available: number the labels without gaps, or pass lists of labels"
        )


def _flatten(y: Any, kind: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return all labels of y in one array, and row pointers into it."""
    if kind == "single":
        labels = _labels(y, "y")
        return labels, np.arange(len(labels) + 1)
    lengths = np.fromiter((len(row) for row in y), np.int64)
    flat = list(chain.from_iterable(row.tolist() if isinstance(row, np.ndarray) else row for row in y))
    return _labels(flat, "y", np.repeat(np.arange(len(lengths)), lengths)), np.concatenate(([0], np.cumsum(lengths)))


def _labels(values: Any, name: str, rows: NDArray[np.int64] | None = None) -> NDArray[Any]:
    """Return labels as a one-dimensional array of numbers or strings; errors name their `rows`."""
    if isinstance(values, list) and values and isinstance(values[0], str):
        labels = np.array(values, dtype=object)  # fixed-width strings would all take the length of the longest
    else:
        labels = np.asarray(values)
        if isinstance(values, list | tuple) and labels.dtype.kind == "U":  # NumPy turns numbers among strings into text
            labels = np.array(values, dtype=object)
        elif labels.dtype.kind == "f" and isinstance(values, list | tuple) and _are_whole(values):
            labels = np.array(values, dtype=object)  # NumPy turns integers beyond 64 bits into floats
    if labels.ndim == 2 and labels.shape[1] == 1:
        message = "A column-vector y was passed when a 1d array was expected; it is taken as one label for each row"
        warnings.warn(message, DataConversionWarning, stacklevel=2)
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(f"{name} should be a 1d array of labels, got an array of shape {labels.shape} instead.")
    if labels.dtype.kind == "f":
        _check_float_labels(labels, name, rows)
    elif labels.dtype.kind == "O":
        labels = _object_labels(labels, name, rows)
    elif labels.dtype.kind == "T":  # NumPy's variable-width strings
        labels = _object_labels(labels.astype(object), name, rows)
    elif labels.dtype.kind not in "biuU":
        raise ValueError(f"Unknown label type: {name} must hold strings or whole numbers, got {labels.dtype}")
    return native(labels)


def _check_float_labels(labels: NDArray[Any], name: str, rows: NDArray[np.int64] | None) -> None:
    finite = np.isfinite(labels)
    if not finite.all():
        at = int(np.argmin(finite))
        raise ValueError(f"{name} holds {labels[at]} {_in_row(at, rows, ' (NaN or inf)')}")
    check_classification_targets(labels)


def _object_labels(labels: NDArray[Any], name: str, rows: NDArray[np.int64] | None) -> NDArray[Any]:
    """Convert object labels of one type, strings or whole numbers; labels of mixed types have no order."""
    types = {type(label) for label in labels.tolist()}
    if all(issubclass(t, str) for t in types):
        return labels
    if all(issubclass(t, bool | np.bool_) for t in types):
        return labels.astype(bool)
    if all(issubclass(t, int | np.integer | np.bool_) for t in types):
        try:
            return labels.astype(np.int64)
        except OverflowError:
            raise ValueError(f"{name} holds whole numbers beyond 64 bits: convert them with str") from None
    if types <= {int, float}:
        numbers = labels.astype(np.float64)
        _check_float_labels(numbers, name, rows)
        return numbers
    for at, label in enumerate(labels.tolist()):
        if is_missing(label):
            raise ValueError(f"{name} holds {label!r} {_in_row(at, rows)}")
    found = ", ".join(sorted(t.__name__ for t in types))
    raise ValueError(
        f"Unknown label type: {name} must hold strings alone or whole numbers alone, got {found}: convert them with str"
    )


def _are_whole(values: Iterable[Any]) -> bool:
    return all(isinstance(value, int | np.integer) for value in values)


def _in_row(at: int, rows: NDArray[np.int64] | None, note: str = "") -> str:
    """Return the place of a missing label, and advice; with `rows`, each row is a list of labels."""
    if rows is None:
        return f"in row {at}{note}: every row needs a label; drop the row"
    return f"in row {rows[at]}{note}: leave it out of the list"


def _distinct(labels: NDArray[Any]) -> NDArray[Any]:
    if labels.dtype.kind == "O":  # a set is several times faster than sorting all the Python strings
        return np.array(sorted(set(labels.tolist())), dtype=object)
    return np.unique(labels)


def _positions(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """Return the position of each label in `classes`, or -1."""
    if "O" in (labels.dtype.kind, classes.dtype.kind) or labels.dtype.kind != classes.dtype.kind:
        index = {label: position for position, label in enumerate(classes.tolist())}
        return np.fromiter((index.get(label, -1) for label in labels.tolist()), np.int64, len(labels))
    found = np.minimum(np.searchsorted(classes, labels), max(len(classes) - 1, 0))
    known = classes[found] == labels if len(classes) else np.zeros(len(labels), bool)
    return np.where(known, found, -1)


#: Features, which may be on disk, and labels.
Points = tuple[RowSource, Rows]
#: Features and labels in memory.
LoadedPoints = tuple[Rows, Rows]


def check_points(features: Rows, labels: Rows) -> LoadedPoints:
    """Return features and labels; reject different lengths."""
    check_lengths(len(features), labels)
    return features, labels


def check_lengths(n_points: int, labels: Rows, *, some_label: bool = False) -> None:
    """Raise ValueError unless `labels` has `n_points` rows and, if `some_label`, at least one label."""
    if n_points != len(labels):
        raise ValueError(f"X has {n_points} rows, y has {len(labels)}: y must have an entry for each row of X")
    if some_label and len(labels.indices) == 0:
        raise ValueError("y holds no label at all: at least one row must have one")
