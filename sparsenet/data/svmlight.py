"""Read the svmlight format: a line ``label,label qid:n id:value ... # comment`` for each point."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet import kernels
from sparsenet.core.validation import MAX_WIDTH
from sparsenet.data.arrays import RowArrays, RowCollector
from sparsenet.data.blocks import Block
from sparsenet.data.dataset import Dataset, csr, empty_labels, label_matrix
from sparsenet.data.errors import DataError
from sparsenet.data.explain import RowRules, explain
from sparsenet.data.reader_options import Options
from sparsenet.data.stray import LargestId

#: A point of three labels and no features. As a first line, it may be an XMC header with commas by mistake. It counts
#: as one if the first number is the number of points that follow.
_THREE_NUMBERS = re.compile(rb"[ \t]*(\d{1,18})[ \t]*,[ \t]*\d{1,18}[ \t]*,[ \t]*\d{1,18}\s*\n")


class SvmlightReader:
    """Reader of the blocks of an svmlight file. It skips blank lines, comments and query ids."""

    def __init__(self, path: str, options: Options) -> None:
        self.rows = RowCollector(np.float64)
        self._path = path
        self._options = options
        self._n_read = 0
        self._line = 1
        self._announced = -1  # the number of points, if the first line is a header
        first = int(options.zero_based is False)
        # Whether ids count from 0 or 1 is known only at the end of the file, so allow both.
        room = options.n_features if options.n_features is not None else MAX_WIDTH
        end = min(room + (options.zero_based is not True), MAX_WIDTH)
        self._features, self._labels = LargestId("feature"), LargestId("label")
        self._rules = RowRules(path=path, first_feature=first, end_feature=end, n_labels=options.n_labels)

    def feed(self, block: Block) -> None:
        """Parse a block."""
        rules, options = self._rules, self._options
        if self._line == 1 and (header := _THREE_NUMBERS.fullmatch(block.head())):
            self._announced = int(header[1])
        one_label = not options.multilabel
        n_labels = -1 if rules.n_labels is None else rules.n_labels
        limits = (rules.first_feature, rules.end_feature, n_labels, one_label)
        parsed = self.rows.parse(kernels.parse_svmlight, block, *limits, threads=options.n_threads)
        self._n_read += parsed.rows
        self._line += block.lines
        if parsed.error:
            raise explain(parsed, block.text, rules)
        if options.n_features is None or options.n_labels is None:
            rows = self.rows.last(parsed.rows)
            self._features.update(block, rows.indptr, rows.indices)
            self._labels.update(block, rows.label_indptr, rows.labels)
        if options.on_skipped is not None and block.lines > parsed.rows:
            options.on_skipped(block.lines - parsed.rows)

    def finish(self) -> None:
        """Check that the file has points, and warn if its first line looks like an XMC header."""
        if self._n_read == 0:
            raise DataError(self._path, self._line, "the file ends without a single point; is it the right one?")
        if self._announced == self._n_read - 1 >= 10:  # smaller numbers may match by chance
            warnings.warn(
                f"{self._path}, line 1: three numbers were read as a point with three labels, but {self._announced} "
                "points follow, as many as the first number: if they are a header of XMC, separate them by blanks",
                UserWarning,
                stacklevel=2,
            )

    def dataset(self, rows: RowArrays) -> Dataset:
        """Make a data set of some rows. Without `n_features` or `n_labels`, they determine its widths."""
        zero_based = self._options.zero_based
        if self._options.n_features is None:
            self._features.check(self._path, rows.indices)
        if zero_based == "auto":
            zero_based = not (len(rows.indices) and rows.indices.min() > 0)
        if not zero_based:
            rows.indices[:] -= 1
        X = csr(rows.indptr, rows.indices, rows.values, self._width(rows))
        if not self._options.with_labels:
            return Dataset(X=X, Y=empty_labels(rows.n_rows), zero_based=zero_based)
        known = self._options.classes
        if known is not None:
            Y = label_matrix(rows.label_indptr, look_up(rows.labels, known), len(known) + 1)
            return Dataset(X=X, Y=Y, classes=known, zero_based=zero_based)
        labels, n_labels, classes = self.columns(rows.labels)
        return Dataset(X=X, Y=label_matrix(rows.label_indptr, labels, n_labels), classes=classes, zero_based=zero_based)

    def width(self, ids: NDArray[np.int32]) -> int:
        """Return the number of features, given the first ids and the largest ones."""
        if self._options.n_features is not None:
            return self._options.n_features
        self._features.check(self._path, ids)
        return int(ids.max(initial=-1)) + 1

    def columns(self, labels: NDArray[np.float64]) -> tuple[NDArray[np.int32], int, NDArray[Any] | None]:
        """Return the columns of the labels, their number, and the label of each column; see `number_labels`."""
        columns, n_labels, classes = number_labels(labels, self._options.n_labels)
        if classes is None and self._options.n_labels is None:
            self._labels.check(self._path, columns)
        return columns, n_labels, classes

    def _width(self, rows: RowArrays) -> int:
        largest = int(rows.indices.max(initial=0))
        n_features = self._options.n_features
        if n_features is not None and len(rows.indices) and largest >= n_features:
            point = int(np.searchsorted(rows.indptr, np.argmax(rows.indices == largest), side="right"))
            ids = f"feature 0 occurs, so ids go from 0 to {n_features - 1}" if n_features else "there are no features"
            problem = f"feature {largest} of point {point} is out of range: {ids} (n_features={n_features})"
            raise DataError(self._path, None, problem)
        return largest + 1 if n_features is None else n_features


def look_up(labels: NDArray[np.float64], classes: NDArray[Any]) -> NDArray[np.int32]:
    """Return the positions of labels in the ascending `classes`; ``len(classes)`` for an unknown label."""
    positions = np.searchsorted(classes, labels)
    found = positions < len(classes)
    found[found] = classes[positions[found]] == labels[found]
    return np.where(found, positions, len(classes)).astype(np.int32)


def number_labels(
    labels: NDArray[np.float64], n_labels: int | None
) -> tuple[NDArray[np.int32], int, NDArray[np.int64] | NDArray[np.float64] | None]:
    """Return the columns of labels, the number of columns, and the label of each column.

    The last is None if the labels are column numbers.
    """
    whole = bool((labels == np.floor(labels)).all())
    if whole and labels.min(initial=0) >= 0 and labels.max(initial=0) < MAX_WIDTH:
        columns = labels.astype(np.int32)
        return columns, int(columns.max(initial=-1)) + 1 if n_labels is None else n_labels, None
    values, positions = np.unique(labels, return_inverse=True)
    classes = values.astype(np.int64) if whole and np.abs(values).max() < 2**53 else values
    return positions.astype(np.int32), len(classes), classes
