"""Formats by name."""

from __future__ import annotations

import os
from typing import Literal, TypeAlias

from sparsenet.data.sources import PathOrStream

TableFormat: TypeAlias = Literal["csv", "tsv", "jsonl"]
#: Of files of texts: tables, Parquet, and lines with ``__label__`` words.
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
    """Tell a table by its name, whatever it is compressed with; None for all else."""
    name = path if isinstance(path, str | os.PathLike) else getattr(path, "name", None)
    if not isinstance(name, str | os.PathLike):
        return None
    stem, suffix = os.path.splitext(os.fspath(name).lower())
    if suffix in _COMPRESSED:
        suffix = os.path.splitext(stem)[1]
    return _TABLES.get(suffix)


def is_parquet(path: PathOrStream) -> bool:
    """Tell a Parquet file by its name."""
    return isinstance(path, str | os.PathLike) and os.fspath(path).lower().endswith((".parquet", ".pq"))


def is_npz(path: PathOrStream) -> bool:
    """Tell a matrix of SciPy or NumPy by its name."""
    return isinstance(path, str | os.PathLike) and os.fspath(path).lower().endswith(".npz")


def text_format(path: PathOrStream) -> TextFormat | None:
    """Tell a table or a Parquet file by its name; None for all else."""
    return "parquet" if is_parquet(path) else table_format(path)
