"""What can be asked of the readers of sparse points, and what such a reader is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from numpy.typing import NDArray

from sparsenet.core.machine import default_threads
from sparsenet.data.arrays import RowArrays, RowCollector
from sparsenet.data.blocks import Block
from sparsenet.data.dataset import Dataset
from sparsenet.data.explain import MAX_IDS
from sparsenet.data.sources import OnSkipped

SparseFormat: TypeAlias = Literal["auto", "xmc", "svmlight"]
ZeroBased: TypeAlias = bool | Literal["auto"]
#: Told the name of an XMC file, and how many features and labels its header announces; None where one of these is in a
#: file of its own.
OnHeader: TypeAlias = Callable[[str, "int | None", "int | None"], object]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What was asked for, checked."""

    format: SparseFormat = "auto"
    n_features: int | None = None
    n_labels: int | None = None
    classes: NDArray[Any] | None = None
    multilabel: bool = True
    with_labels: bool = True
    matrix_of: Literal["features", "labels"] | None = None  # what the columns are, if the file is a matrix by itself
    zero_based: ZeroBased = True
    threads: int | None = None
    on_header: OnHeader | None = None
    on_skipped: OnSkipped | None = None

    def __post_init__(self) -> None:
        if self.format not in ("auto", "xmc", "svmlight"):
            raise ValueError(f"format must be 'auto', 'xmc' or 'svmlight', got {self.format!r}")
        for name in ("n_features", "n_labels"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= MAX_IDS:
                raise ValueError(f"{name} must lie between 0 and 2^31 - 1, got {value}")
        if self.zero_based not in (True, False, "auto"):
            raise ValueError(f"zero_based must be True, False or 'auto', got {self.zero_based!r}")
        if self.threads is not None and self.threads < 1:
            raise ValueError(f"threads must be at least 1, got {self.threads}")

    @property
    def columns(self) -> str:
        """What columns of a file are, whose labels are not among them."""
        return self.matrix_of or "features"

    def tell_header(self, path: str, n_columns: int, n_labels: int | None = None) -> None:
        """Tell whoever asked how many features and labels a file announces: None of what is in another one."""
        if self.on_header is not None:
            self.on_header(path, *((None, n_columns) if self.matrix_of == "labels" else (n_columns, n_labels)))

    @property
    def n_threads(self) -> int:
        """The threads to parse with: as many as there are CPUs, unless said otherwise."""
        return self.threads or default_threads()


class Reader(Protocol):
    """Parses the blocks of one file into `rows`, and makes datasets of them."""

    rows: RowCollector

    def feed(self, block: Block) -> None:
        """Parse a block."""

    def finish(self) -> None:
        """Check what can only be known at the end of the file."""

    def dataset(self, rows: RowArrays) -> Dataset:
        """Make a dataset of some rows."""
