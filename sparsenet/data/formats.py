"""Formats by name."""

from __future__ import annotations

import os
from typing import Literal, TypeAlias

from sparsenet.data.sources import PathOrStream

TableFormat: TypeAlias = Literal["csv", "tsv", "jsonl"]

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
