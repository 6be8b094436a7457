"""The columns of a log of links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from sparsenet.core.validation import boolean
from sparsenet.data.dialect import LearntFile
from sparsenet.features.logs import LogColumns, check_columns


@dataclass(frozen=True)
class LinkColumns(LogColumns):
    """Names of the columns of a log: source (`user`), target (`item`), time, and features."""

    @classmethod
    def of_links(cls, source: Any, target: Any, time: Any, event_features: Any) -> Self:
        """Check the names of columns, or their positions, which all must be then."""
        if isinstance(event_features, str) or not isinstance(event_features, Sequence):
            raise ValueError(f"event_features must be a sequence of columns, got {event_features!r}")
        given = {f"event_features[{i}]": name for i, name in enumerate(event_features)}
        names, by_position = check_columns({"source": source, "target": target, "time": time} | given, ("time",))
        return cls(
            names["source"],
            names["target"],
            names["time"],
            by_position=by_position,
            features=tuple(names[argument] for argument in given),
        )

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> Self:
        """Check the result of `as_json`."""
        given = {**found, "features": tuple(found["features"]), "file": LearntFile.of_json(found["file"])}
        columns = cls(**given)
        cls.of_links(columns.user, columns.item, columns.time, columns.features)
        boolean("by_position", columns.by_position)
        return columns

    def names(self) -> dict[str, str | None]:
        """Return the columns by argument."""
        features = {f"event_features[{i}]": name for i, name in enumerate(self.features)}
        return {"source": self.user, "target": self.item, "time": self.time} | features
