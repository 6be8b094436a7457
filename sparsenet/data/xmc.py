"""The XMC-repository format: a line ``points features labels``, then ``label,label id:value ...`` for each point.

Where labels are in a file of their own, the first line is ``points features``, and no point has any.
"""

from __future__ import annotations

import re

import numpy as np

from sparsenet import kernels
from sparsenet.data.arrays import RowArrays, RowCollector
from sparsenet.data.blocks import Block
from sparsenet.data.dataset import Dataset, csr, no_labels, ones
from sparsenet.data.errors import DataError, quoted
from sparsenet.data.explain import MAX_IDS, RowRules, explain
from sparsenet.data.options import Options

#: With the newline: of a line whose end `head` did not see, nobody knows what else it holds.
_HEADER = re.compile(rb"[ \t]*(-?\d+)[ \t]+(-?\d+)(?:[ \t]+(-?\d+))?\s*\n")
_EXPECTED = "expected the header `points features labels`"
_MOST_POINTS = 2**62  # far beyond every file, and lines can be counted in 64 bits


def is_xmc(line: bytes) -> bool:
    """Say whether a file's first line is an XMC header: no svmlight file starts with one."""
    return _HEADER.fullmatch(line) is not None


def _announced(
    n_features: int, n_labels: int, matrix_of: str | None, without_labels: bool
) -> tuple[int | None, int | None]:
    """Return how many features and labels a header announces: None of what is in another file."""
    if matrix_of == "labels":
        return None, n_features
    return n_features, None if without_labels else n_labels


def _why_no_labels(matrix_of: str | None) -> str:
    if matrix_of is not None:
        return "an entry of a matrix is written as its column and its value, such as 2:1"
    return "line 1 has two counts, as where labels are in a file of their own; else it is `points features labels`"


class XmcReader:
    """Reads a file whose first line is `line`, and checks it against this header.

    An indented row, or one that starts with a feature, has no labels; a row may have no features; a blank line
    among the announced points is a point without either.
    """

    def __init__(self, path: str, options: Options, line: bytes) -> None:
        self.rows = RowCollector(np.int32)
        self._path = path
        self._options = options
        self._threads = options.n_threads
        self._n_read = 0
        self._line = 1
        header = _HEADER.fullmatch(line)
        expected = _EXPECTED if options.matrix_of is None else f"expected the header `rows {options.matrix_of}`"
        if header is None and not line.endswith(b"\n"):
            raise DataError(path, 1, f"{expected}, found {len(line)} bytes and no end")
        if header is None:
            found = quoted(line.decode("utf-8", "replace").rstrip("\r\n"))
            raise DataError(path, 1, f"{expected}, found {found}")
        without_labels = header[3] is None
        columns = options.matrix_of or "features"
        if options.matrix_of is not None and not without_labels:
            problem = f"the header has three counts, where a matrix by itself, under `rows {columns}`, is expected"
            raise DataError(path, 1, f"{problem}: points and labels are in one file, or each has its own")
        if options.format == "xmc" and options.with_labels and without_labels and options.matrix_of is None:
            found = quoted(line.decode().strip())
            apart = "two counts are those of a file whose points have their labels elsewhere: read_pair reads both"
            raise DataError(path, 1, f"{_EXPECTED}, found {found}: {apart}")
        self.n_points, n_features, n_labels = (int(count) for count in header.groups("0"))
        if min(self.n_points, n_features, n_labels) < 0:
            found = quoted(line.decode().strip())
            raise DataError(path, 1, f"the header {found} announces a negative count; correct it")
        if self.n_points > _MOST_POINTS:
            raise DataError(path, 1, f"the header announces {self.n_points} points, but 2^62 at most are possible")
        if options.on_header is not None:
            options.on_header(path, *_announced(n_features, n_labels, options.matrix_of, without_labels))
        self.n_features = self._width(columns, n_features, options.n_features)
        self.n_labels = self._width("labels", n_labels, options.n_labels if options.with_labels else MAX_IDS)
        self._rules = RowRules(
            path=path,
            end_feature=n_features,
            n_labels=n_labels,
            announced=self.n_points,
            column=columns.removesuffix("s"),
            no_labels=_why_no_labels(options.matrix_of) if without_labels else None,
        )

    def _width(self, kind: str, announced: int, asked: int | None) -> int:
        if announced > (MAX_IDS if asked is None else asked):
            limit = "2^31 - 1 at most are possible" if asked in (None, MAX_IDS) else f"at most {asked} are expected"
            raise DataError(self._path, 1, f"the header announces {announced} {kind}, but {limit}")
        return announced if asked is None else asked

    def feed(self, block: Block) -> None:
        """Parse a block."""
        if block.lines == 0:
            return
        rules = self._rules
        limits = (1 + self.n_points, rules.end_feature, rules.n_labels or 0)
        parsed = self.rows.parse(kernels.parse_xmc, block, *limits, threads=self._threads)
        self._n_read += parsed.rows
        self._line += block.lines
        if parsed.error:
            raise explain(parsed, block.text, rules)

    def finish(self) -> None:
        """Check that there were as many points as announced."""
        if self._n_read < self.n_points:
            problem = f"the header announces {self.n_points} points, but the file ends after {self._n_read}"
            raise DataError(self._path, self._line, f"{problem}; fetch it again or correct line 1")

    def dataset(self, rows: RowArrays) -> Dataset:
        """Make a dataset of some rows."""
        X = csr(rows.indptr, rows.indices, rows.values, self.n_features)
        if not self._options.with_labels:
            return Dataset(X=X, Y=no_labels(rows.n_rows))
        return Dataset(X=X, Y=ones(rows.label_indptr, rows.labels, self.n_labels))
