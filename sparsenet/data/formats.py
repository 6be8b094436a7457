"""Detect the format of a file by its name."""

from __future__ import annotations

import os
from typing import Literal, TypeAlias

from sparsenet.data.sources import PathOrStream

TableFormat: TypeAlias = Literal["csv", "tsv", "jsonl"]
#: Formats of texts: tables, Parquet, and lines with ``__label__`` words.
TextFormat: TypeAlias = Literal[TableFormat, "parquet", "lines"]

_COMPRESSED = (".gz", ".xz", ".bz2", ".zst", ".zstd")
_TABLES: dict[str, TableFormat] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}


def table_format(path: PathOrStream) -> TableFormat | None:
    """Return the format of a table by its name, with any compression; None for other files."""
    name = path if isinstance(path, str | os.PathLike) else getattr(path, "name", None)
    if not isinstance(name, str | os.PathLike):
        return None
    stem, suffix = os.path.splitext(os.fspath(name).lower())
    if suffix in _COMPRESSED:
        suffix = os.path.splitext(stem)[1]
    return _TABLES.get(suffix)


def is_parquet(path: PathOrStream) -> bool:
    """Return True if the path ends in a suffix of Parquet files."""
    return isinstance(path, str | os.PathLike) and os.fspath(path).lower().endswith((".parquet", ".pq"))


def is_npz(path: PathOrStream) -> bool:
    """Return True if the path ends in ``.npz``, the suffix of SciPy matrices."""
    return isinstance(path, str | os.PathLike) and os.fspath(path).lower().endswith(".npz")


def text_format(path: PathOrStream) -> TextFormat | None:
    """Return the format of a table or a Parquet file by its name; None for other files."""
    return "parquet" if is_parquet(path) else table_format(path)
