"""Options of the readers of sparse points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from numpy.typing import NDArray

from sparsenet.core.machine import default_threads
from sparsenet.core.validation import MAX_WIDTH
from sparsenet.data.sources import OnSkipped

SparseFormat: TypeAlias = Literal["auto", "xmc", "svmlight"]
ZeroBased: TypeAlias = bool | Literal["auto"]
#: Called with the name of an XMC file and the numbers of features and labels in its header. A number is None if the
#: features or labels are in another file.
OnHeader: TypeAlias = Callable[[str, "int | None", "int | None"], object]


@dataclass(frozen=True, kw_only=True)
class Options:
    """Checked options."""

    format: SparseFormat = "auto"
    n_features: int | None = None
    n_labels: int | None = None
    classes: NDArray[Any] | None = None
    multilabel: bool = True
    with_labels: bool = True
    matrix_of: Literal["features", "labels"] | None = None  # the meaning of the columns, if the file is one matrix
    zero_based: ZeroBased = True
    threads: int | None = None
    on_header: OnHeader | None = None
    on_skipped: OnSkipped | None = None

    def __post_init__(self) -> None:
        if self.format not in ("auto", "xmc", "svmlight"):
            raise ValueError(f"format must be 'auto', 'xmc' or 'svmlight', got {self.format!r}")
        for name in ("n_features", "n_labels"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= MAX_WIDTH:
                raise ValueError(f"{name} must lie between 0 and 2^31 - 1, got {value}")
        if self.zero_based not in (True, False, "auto"):
            raise ValueError(f"zero_based must be True, False or 'auto', got {self.zero_based!r}")
        if self.threads is not None and self.threads < 1:
            raise ValueError(f"threads must be at least 1, got {self.threads}")

    @property
    def columns(self) -> str:
        """The meaning of the columns: "labels" if the file is a matrix of labels, else "features"."""
        return self.matrix_of or "features"

    def report_header(self, path: str, n_columns: int, n_labels: int | None = None) -> None:
        """Call `on_header` with the numbers of features and labels, None for those in another file."""
        if self.on_header is not None:
            self.on_header(path, *((None, n_columns) if self.matrix_of == "labels" else (n_columns, n_labels)))

    @property
    def n_threads(self) -> int:
        """Number of threads to parse with; by default one for each CPU."""
        return self.threads or default_threads()
