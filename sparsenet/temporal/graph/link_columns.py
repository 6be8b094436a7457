"""The columns of a log of links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sparsenet.features.logs import LogColumns


@dataclass(frozen=True)
class LinkColumns(LogColumns):
    """Names of the columns of a log: source (`user`), target (`item`), time, and features."""

    ARGUMENTS: ClassVar[tuple[str, ...]] = ("source", "target", "time")
