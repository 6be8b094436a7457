"""Turn raw data into rows: labels, scaling, text, columns of tables.

`TextFeatures` and `TableFeatures` are transformers for scikit-learn.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # `as` makes them public to type checkers
    from sparsenet.features.columns.history import HistorySpec as HistorySpec
    from sparsenet.features.columns.table_features import TableFeatures as TableFeatures
    from sparsenet.features.text.text_features import TextFeatures as TextFeatures

#: The module of each public name, imported at first use, since every classifier imports this package.
_HOMES = {
    "HistorySpec": "columns.history",
    "TableFeatures": "columns.table_features",
    "TextFeatures": "text.text_features",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
