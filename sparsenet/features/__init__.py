"""Turn raw data into rows: labels, scaling, text. Public: `TextFeatures`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparsenet.features.text.text_features import TextFeatures as TextFeatures

__all__ = ["TextFeatures"]
#: The module of each public name, imported at first use: every classifier imports this package.
_HOMES = {"TextFeatures": "text.text_features"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
