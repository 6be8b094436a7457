"""The base class of the models of a stream: reading of logs, state, saving."""

from __future__ import annotations

import os
from typing import Any, Self

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sparsenet import storage
from sparsenet.core.machine import default_threads
from sparsenet.core.validation import boolean, n_jobs
from sparsenet.estimators.fitted_html import FittedHtmlMixin
from sparsenet.estimators.recommender_inputs import file_rules
from sparsenet.features.logs import LogColumns
from sparsenet.kernels.types import Arrays
from sparsenet.temporal.event_log import EventLog, read_events


class StreamModel(FittedHtmlMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A model that learns from a stream of events.

    A subclass has `_check`, `_pack` and `_unpacked`. `_saved` is all that it consists of, apart from its parameters: it
    has a `stream`, with a lock for writing, and the `columns` of the log.
    """

    _saved: Any
    n_jobs: int | None

    @property
    def n_events_(self) -> int:
        """The number of events learnt."""
        check_is_fitted(self)
        count: int = self._saved.stream.n_events
        return count

    def _adopt(self, saved: Any) -> Self:
        self._saved = saved
        return self

    def _read(self, log: Any, columns: LogColumns, sort: Any, file: dict[str, Any], stream: Any = None) -> EventLog:
        """Read a log, which goes on from the stream that was learnt before."""
        return read_events(
            log,
            columns,
            file_rules(getattr(self, "verbose", False), **file),
            sort=boolean("sort", sort),
            newest=stream.newest if stream else None,
            n_events=stream.n_events if stream else 0,
            kinds=stream.kinds if stream else (None, None),
        )

    def _threads(self) -> int:
        return n_jobs(self.n_jobs) or default_threads()

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_saved")

    # --- saving ---

    def save(self: Any, path: str | os.PathLike[str]) -> None:
        """Save to a directory atomically: arrays as safetensors, and a manifest with checksums.

        The model holds the names in its log. A loaded model goes on bit for bit as this one.
        """
        check_is_fitted(self)
        self._check()  # invalid parameters could not be loaded
        with self._saved.stream.writing:
            packed = self._pack(self.get_params(deep=False), self._saved)
            storage.save(path, *packed)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load a saved model; raise ModelError with the reason if it is damaged or of another kind."""
        model: Self = storage.load_as(path, cls._unpack)
        return model

    @classmethod
    def _unpack(cls: Any, arrays: Arrays, metadata: dict[str, Any]) -> Any:
        parameters, saved = cls._unpacked(arrays, metadata)
        model = cls(**parameters)
        model._check()
        return model._adopt(saved)
