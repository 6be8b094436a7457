"""Files of sparse points: reading, and refusing a file that cannot be used."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sparsenet import data
from sparsenet.cli.models import PointClassifier, has_named_labels
from sparsenet.cli.reporting import count, memory_for, say
from sparsenet.core.progress import bar, is_wanted
from sparsenet.core.validation import MAX_WIDTH
from sparsenet.data.explain import checked_width
from sparsenet.data.formats import is_npz, table_format
from sparsenet.data.point_cache import stored_matrix, stored_text
from sparsenet.data.reader_options import Options
from sparsenet.data.sources import OnSkipped, name_of, refuse_stdin_twice

#: The problem with a file of labels if the labels of the model have names.
BY_COLUMN = "contains labels that are column numbers"


@dataclass(frozen=True)
class PointFile:
    """A file of points, and how to read it.

    Features of svmlight keep their numbers: in a file that counts from 1, feature 0 never occurs. `labels` is the
    separate file of labels, if any. `owner` names the owner of the expected numbers of features and labels,
    such as "the model has".
    """

    path: Path
    format: Literal["auto", "xmc", "svmlight"] = "auto"
    n_features: int | None = None
    n_labels: int | None = None
    batch_rows: int = 4096
    labels: Path | None = None
    owner: str | None = None

    def read(self, *, with_labels: bool = True) -> data.Dataset:
        """Read the whole file, with a progress bar on a terminal. `with_labels` is about a separate file of labels."""
        self._refuse_tables()
        format = "auto" if self.is_matrix() else self.format
        options: dict[str, Any] = {"n_features": self.n_features, "n_labels": self.n_labels}
        if format != "svmlight" and self.owner is not None:
            options["on_header"] = self._compare
        with self._progress() as on_bytes, memory_for(f"the points of {name_of(self.path)}"):
            options["on_bytes"] = on_bytes
            if self.labels is not None and with_labels:
                return data.read_pair(str(self.path), str(self.labels), **options)
            found = data.read(str(self.path), format, **options)
        assert isinstance(found, data.Dataset)
        return found

    def points(self, cache: Path | None = None) -> data.Dataset:
        """Read the whole file, or store its points in the folder `cache`; refuse one without points."""
        points = self.read() if cache is None else self._stored(cache)
        if points.n_points == 0:
            raise data.DataError(str(self.path), None, "contains no points")
        return points

    def _stored(self, cache: Path) -> data.Dataset:
        if self.is_matrix() or str(self.path) == "-" or self.path.is_fifo():
            points = self.read()
            return replace(points, X=stored_matrix(points.X, cache))
        self._refuse_tables()
        options = Options(format=self.format, n_features=self.n_features, n_labels=self.n_labels)
        return stored_text(str(self.path), cache, options=options)

    def batches(
        self, model: PointClassifier, *, with_labels: bool, on_skipped: OnSkipped | None = None, wider: bool = False
    ) -> Iterator[data.Dataset]:
        """Read the file in batches for a model. If `wider`, rows may contain features that the model does not know.

        A header that announces more features is refused in any case. A matrix cannot be read in parts.
        """
        self._refuse_tables()
        named = has_named_labels(model)
        n_labels = len(model.classes_) if with_labels and not named else None
        known = replace(self, n_features=model.n_features_in_, n_labels=n_labels, owner="the model has")
        if self.is_matrix():
            if with_labels:
                self.require_labels("--labels-file")
            if with_labels and named:
                raise data.DataError(
                    str(self.labels), None, f"{BY_COLUMN}, but the labels of the model have other names"
                )
            whole = known.read(with_labels=with_labels)
            slices = (slice(begin, begin + self.batch_rows) for begin in range(0, whole.n_points, self.batch_rows))
            return (data.Dataset(X=whole.X[own], Y=whole.Y[own]) for own in slices)
        return data.iter_batches(
            str(self.path),
            batch_rows=self.batch_rows,
            format=self.format,
            n_features=MAX_WIDTH if wider else known.n_features,
            n_labels=known.n_labels,
            classes=model.classes_ if with_labels and named else None,
            with_labels=with_labels,
            on_header=known._compare,
            on_skipped=on_skipped,
        )

    def peek(self) -> None:
        """Read the first point of a validation file, which raises an error if the file is wrong."""
        self._refuse_tables()
        if self.is_matrix():
            self.require_labels("--valid-labels-file")
            return
        if str(self.path) == "-" or self.path.is_fifo():
            return
        widths: dict[str, Any] = {"n_features": MAX_WIDTH, "with_labels": False}
        next(data.iter_batches(str(self.path), batch_rows=1, format=self.format, **widths), None)

    def is_matrix(self) -> bool:
        """Return whether the points are a matrix, whose labels are in a separate file."""
        return self.labels is not None or is_npz(self.path)

    def require_labels(self, option: str) -> None:
        """Refuse a matrix without a file of labels, and files that do not exist."""
        for path in (self.path, self.labels):
            if path is not None and str(path) != "-" and not path.is_fifo():
                path.open("rb").close()
        if self.labels is None:
            raise data.DataError(str(self.path), None, f"holds no labels: name their file with {option}")

    def _compare(self, name: str, n_features: int | None, n_labels: int | None) -> None:
        """Refuse a header with more features than expected, and warn of one with fewer features or labels.

        The writer of a small file may count only its own features, so fewer are not an error.
        """
        line, place, announces = (None, "", "has") if is_npz(name) else (1, ", line 1:", "the header announces")
        if n_features is not None:
            checked_width(name, line, announces, "features", n_features, self.n_features)
        for kind, announced, known in (("features", n_features, self.n_features), ("labels", n_labels, self.n_labels)):
            if known is not None and announced is not None and announced < known:
                found = f"{name}{place} {announces} {announced} {kind}"
                say(f"warning: {found}, {self.owner} {known}: is this the right file?")

    def _refuse_tables(self) -> None:
        if self.format == "auto" and table_format(str(self.path)):
            problem = "is a table of text; a model of sparse points reads XMC-repository or svmlight format"
            raise data.DataError(str(self.path), None, problem)

    @contextmanager
    def _progress(self) -> Iterator[Callable[[int], object]]:
        size = os.stat(self.path).st_size if self.path.is_file() else None
        shape: dict[str, Any] = {"desc": f"reading {self.path.name}", "unit": "B", "unit_scale": True}
        with bar(total=size, disable=not is_wanted(None), **shape) as drawn:
            yield drawn.update


class UnknownFeatures:
    """Features that training has not seen: they are dropped, so that a stream of answers does not end."""

    def __init__(self, n_known: int) -> None:
        self._n_known = n_known
        self._n = self._n_points = 0

    def drop(self, X: Any) -> None:
        """Drop unknown features from points, and count them."""
        before = np.diff(X.indptr)
        X.resize((len(before), self._n_known))
        dropped = before - np.diff(X.indptr)
        self._n += int(dropped.sum())
        self._n_points += int(np.count_nonzero(dropped))

    def report(self, path: os.PathLike[str]) -> None:
        """Report how many there were, if any."""
        if self._n:
            found = f"{count(self._n, 'feature')} in {count(self._n_points, 'point')} of {name_of(path)}"
            say(f"ignored {found}: the model knows features 0 to {self._n_known - 1}")


def check_validation(source: PointFile, valid: PointFile | None) -> None:
    """Refuse a wrong validation file before a large training file is read.

    The check reads the first point, but leaves a pipe alone, which can be read only once.
    """
    if valid is None:
        return
    refuse_stdin_twice(
        {
            "TRAIN": source.path,
            "--labels-file": source.labels,
            "--valid": valid.path,
            "--valid-labels-file": valid.labels,
        }
    )
    valid.peek()


def read_validation(valid: PointFile | None, points: data.Dataset) -> tuple[Any, Any] | None:
    """Return the validation points, with labels as the classifier receives them."""
    if valid is None:
        return None
    n_labels = points.n_labels if points.classes is None else None
    widths: dict[str, Any] = {"n_features": points.n_features, "n_labels": n_labels}
    if points.classes is not None and valid.is_matrix():
        raise data.DataError(str(valid.labels), None, f"{BY_COLUMN}, but the labels of the training points are not")
    held = replace(valid, **widths, owner="the training points have").points()
    if held.Y.nnz == 0:
        file, option = valid.labels or valid.path, "" if valid.labels else ": name their file with --valid-labels-file"
        raise data.DataError(str(file), None, f"holds no labels to measure by{option}")
    return held.X, held.Y if points.classes is None else _named_labels(held)


def labels_of(source: PointFile, points: data.Dataset) -> Any:
    """Return the labels as the classifier receives them: as columns, or by their names in the file."""
    if points.Y.nnz == 0:
        if source.is_matrix():
            source.require_labels("--labels-file")
        where = "labels come first in a row, as `label,label id:value ...`, or are in a separate --labels-file"
        problem = f"no point has a label: {where}" if source.labels is None else "no row has a label"
        raise data.DataError(str(source.labels or source.path), None, problem)
    if points.classes is None:
        return points.Y
    if points.classes.dtype.kind == "f":
        entry = int(np.argmax(points.classes[points.Y.indices] % 1 != 0))
        point = int(np.searchsorted(points.Y.indptr, entry, side="right"))
        found = f"label {points.classes[points.Y.indices[entry]]:g} of point {point} (counted from 1) is a fraction"
        problem = f"{found}: labels must be whole numbers"
        raise data.DataError(str(source.path), None, problem)
    return _named_labels(points)


def _named_labels(points: data.Dataset) -> list[list[int]]:
    """Return the labels of each point by their names in the file."""
    names = (points.Y.indices if points.classes is None else points.classes[points.Y.indices]).tolist()
    return [names[begin:end] for begin, end in zip(points.Y.indptr[:-1], points.Y.indptr[1:], strict=True)]
