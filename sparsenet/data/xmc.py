"""Read the XMC-repository format: ``points features labels``, then ``label,label id:value ...`` for each point.

If the labels are in another file, the first line is ``points features``, and the points have no labels.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from sparsenet import kernels
from sparsenet.core.validation import MAX_WIDTH
from sparsenet.data.arrays import RowArrays, RowCollector
from sparsenet.data.blocks import Block
from sparsenet.data.dataset import Dataset, csr, empty_labels, label_matrix
from sparsenet.data.errors import DataError, quoted
from sparsenet.data.explain import RowRules, checked_width, explain
from sparsenet.data.reader_options import Options

#: The newline is part of the pattern: without it, the line may be longer than the bytes that were read.
_HEADER = re.compile(rb"[ \t]*(-?\d+)[ \t]+(-?\d+)(?:[ \t]+(-?\d+))?\s*\n")
_EXPECTED = "expected the header `points features labels`"


def is_xmc(line: bytes) -> bool:
    """Return True if the first line of a file is an XMC header, which no svmlight file starts with."""
    return _HEADER.fullmatch(line) is not None


def _counts(path: str, line: bytes, options: Options) -> tuple[int, int, int | None]:
    """Return the numbers of points, columns and labels in the header; None labels if they are in another file."""
    header = _HEADER.fullmatch(line)
    expected = _EXPECTED if options.matrix_of is None else f"expected the header `rows {options.matrix_of}`"
    if header is None and not line.endswith(b"\n"):
        raise DataError(path, 1, f"{expected}, found {len(line)} bytes and no end")
    text = line.decode("utf-8", "replace").rstrip("\r\n")
    if header is None:
        raise DataError(path, 1, f"{expected}, found {quoted(text)}")
    found = quoted(text.strip())
    if options.matrix_of is not None and header[3] is not None:
        problem = (
            f"the header has three counts, but a file of {options.matrix_of} alone has the header "
            f"`rows {options.matrix_of}`"
        )
        raise DataError(path, 1, f"{problem}: put points and labels into one file, or into a file each")
    if options.format == "xmc" and options.with_labels and header[3] is None and options.matrix_of is None:
        apart = "two counts mean that the labels are in another file: read_pair reads both"
        raise DataError(path, 1, f"{expected}, found {found}: {apart}")
    n_points, n_columns, n_labels = (int(count) for count in header.groups("0"))
    if min(n_points, n_columns, n_labels) < 0:
        raise DataError(path, 1, f"the header {found} announces a negative count; correct it")
    if n_points > 2**62:  # more than any file has, and 64 bits can still count the lines
        raise DataError(path, 1, f"the header announces {n_points} points, but 2^62 at most are possible")
    return n_points, n_columns, n_labels if header[3] is not None else None


def _why_no_labels(options: Options) -> str:
    if options.matrix_of is not None:
        return "an entry of a matrix is written as its column and its value, such as 2:1"
    return "line 1 has two counts, so labels are in another file; with labels, it is `points features labels`"


class XmcReader:
    """Reader of a file whose first line, the header, is `line`. It checks the rows against the header.

    A row that is indented or starts with a feature has no labels. A row may have no features. A blank line among the
    announced points is a point without labels and features.
    """

    def __init__(self, path: str, options: Options, line: bytes) -> None:
        self.rows = RowCollector(np.int32)
        self._path = path
        self._options = options
        self._n_read = 0
        self._line = 1
        self.n_points, n_columns, n_labels = _counts(path, line, options)
        options.report_header(path, n_columns, n_labels)
        label_width = options.n_labels if options.with_labels else MAX_WIDTH
        announces = path, 1, "the header announces"
        self.n_features = checked_width(*announces, options.columns, n_columns, options.n_features)
        self.n_labels = checked_width(*announces, "labels", n_labels or 0, label_width)
        self._rules = RowRules(
            path=path,
            end_feature=n_columns,
            n_labels=n_labels or 0,
            announced=self.n_points,
            column=options.columns.removesuffix("s"),
            no_labels=_why_no_labels(options) if n_labels is None else None,
        )

    def feed(self, block: Block) -> None:
        """Parse a block."""
        if block.lines == 0:
            return
        rules = self._rules
        limits = (1 + self.n_points, rules.end_feature, rules.n_labels or 0)
        parsed = self.rows.parse(kernels.parse_xmc, block, *limits, threads=self._options.n_threads)
        self._n_read += parsed.rows
        self._line += block.lines
        if parsed.error:
            raise explain(parsed, block.text, rules)

    def finish(self) -> None:
        """Check that the file has as many points as its header announces."""
        if self._n_read < self.n_points:
            problem = f"the header announces {self.n_points} points, but the file ends after {self._n_read}"
            raise DataError(self._path, self._line, f"{problem}; fetch it again or correct line 1")

    def width(self, ids: NDArray[np.int32]) -> int:  # as SvmlightReader.width
        """Return the number of features in the header."""
        return self.n_features

    def columns(self, labels: NDArray[np.int32]) -> tuple[NDArray[np.int32], int, None]:
        """Return the labels, which are columns, and their number in the header."""
        return labels, self.n_labels, None

    def dataset(self, rows: RowArrays) -> Dataset:
        """Make a data set of some rows."""
        X = csr(rows.indptr, rows.indices, rows.values, self.n_features)
        if not self._options.with_labels:
            return Dataset(X=X, Y=empty_labels(rows.n_rows))
        return Dataset(X=X, Y=label_matrix(rows.label_indptr, rows.labels, self.n_labels))
