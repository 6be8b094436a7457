"""Columns without features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparsenet.features.columns.column_encoder import ColumnEncoder, ColumnSummary
from sparsenet.kernels.types import Arrays


@dataclass(frozen=True, eq=False, kw_only=True)
class IgnoredColumn(ColumnEncoder):
    """A column that the model does not use; it may be missing when predicting."""

    type = "ignore"

    @property
    def n_features(self) -> int:
        """No features."""
        return 0

    def feature_name(self, feature: int) -> str:
        """Refuse: there are no features."""
        raise IndexError(f"column {self.name!r} is ignored and has no feature {feature}")

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Return nothing: nothing was learnt."""
        return {}, {}

    @classmethod
    def restore(cls, name: str, summary: ColumnSummary, arrays: Arrays, about: Mapping[str, Any]) -> IgnoredColumn:
        """Restore a column."""
        return cls(name=name, summary=summary)
