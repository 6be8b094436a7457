"""Take the texts of anything that `TextClassifier.fit` takes, and their labels, by the columns that a model learnt."""

from __future__ import annotations

import os
import warnings
from typing import Any

from sparsenet.core.rows import Rows
from sparsenet.data.columns import quoted_names
from sparsenet.data.formats import text_format
from sparsenet.features.spelling import encoded_by_spelling
from sparsenet.features.targets import Target
from sparsenet.features.text.inputs import check_any, check_lengths, check_texts
from sparsenet.features.text.table_columns import KnownColumns, file_of, lasting
from sparsenet.features.text.text_files import FileRules, TextFile, is_json, read_texts
from sparsenet.features.text.text_frames import frame_labels, framed, texts_in


def learnt_texts(X: Any, known: KnownColumns | None) -> list[str]:
    """Return texts from a sequence, a data frame, dicts or a file."""
    if is_text_path(X):
        return read_texts(X, _rules(X, known, with_labels=False)).texts
    return check_texts(texts_in(X, known))


def labelled_texts(X: Any, y: Any, known: KnownColumns | None, target: Target) -> tuple[list[str], Rows]:
    """Return texts and their label numbers; without y, labels are in the file or in a column of the data frame."""
    if is_text_path(X):
        if y is not None:
            raise ValueError("y must be None if X is a path: the file holds the labels")
        file = read_texts(X, _rules(X, known, with_labels=True))
        return file.texts, _spelled(file, target)
    y = frame_labels(X, known) if y is None else y
    return learnt_texts(X, known), target.encode(y, drop_unknown=True)


def given_texts(validation: Any, known: KnownColumns | None, target: Target) -> tuple[list[str], Rows] | None:
    """Check validation texts: a pair (X, y), a file or a data frame; errors begin with "validation"."""
    if validation is None:
        return None
    validation = framed(validation)
    is_pair = isinstance(validation, tuple | list) and len(validation) == 2
    if not (
        is_pair or is_text_path(validation) or hasattr(validation, "columns") or hasattr(validation, "column_names")
    ):
        raise ValueError(f"validation must be a pair (X, y), a data frame or a path, got {type(validation).__name__}")
    try:
        X, y = validation if is_pair else (validation, None)
        texts, truth = labelled_texts(X, y, known, target)
        check_any(texts)
        check_lengths(texts, truth)
    except ValueError as error:
        raise ValueError(f"validation: {error}") from error
    return texts, truth


def is_text_path(X: Any) -> bool:
    """Return whether X is the path of a file of texts, not a single text."""
    if isinstance(X, os.PathLike):
        return True
    return isinstance(X, str) and (text_format(X) is not None or is_json(X) or os.path.isfile(X))


def _rules(path: str | os.PathLike[str], known: KnownColumns | None, *, with_labels: bool) -> FileRules:
    """Return how to read a file by the columns that a model learnt from."""
    if text_format(path) is None:
        return FileRules()  # lines with __label__ words
    columns = lasting(known)
    if columns is None:
        raise ValueError(
            f"the model does not know which columns of {os.fspath(path)!r} to read, since it learnt from no columns "
            "with names: pass texts, as a list or as a column of a data frame"
        )
    if with_labels and columns["target"] is None:
        texts = quoted_names(columns["text"], "and")
        raise ValueError(f"the model learnt from texts in {texts} and from y, not from a column of labels: pass y too")
    delimiter = columns["label_delimiter"] if with_labels else None
    target = columns["target"] if with_labels else None
    _, dialect = file_of(columns).like(path)
    return FileRules(text=list(columns["text"]), target=target, label_delimiter=delimiter, dialect=dialect)


def _spelled(file: TextFile, target: Target) -> Rows:
    """Return the labels of a file as numbers; labels of other types are compared by their spelling, as 1 and "1"."""
    file.check()
    if target.kind == "single":
        file.check_each()
    rows = encoded_by_spelling(file.labels, target)
    if not len(rows.indices):
        found, known = next(filter(None, file.labels))[:1], target.classes[:1].tolist()
        unknown = f"{file.path}: no label that the classifier knows: it has labels like {found}, not like {known}"
        warnings.warn(f"{unknown}; each counts as a miss", UserWarning, stacklevel=4)
    return rows
