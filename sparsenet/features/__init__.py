"""Turn raw data into rows: labels, scaling, text, columns of tables.

`TableFeatures` is a transformer for scikit-learn.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # `as` makes them public to type checkers
    from sparsenet.features.columns.history import HistorySpec as HistorySpec
    from sparsenet.features.columns.table_features import TableFeatures as TableFeatures

#: The module of each public name, imported at first use, since most users of this package need none of them.
_HOMES = {"HistorySpec": "columns.history", "TableFeatures": "columns.table_features"}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
