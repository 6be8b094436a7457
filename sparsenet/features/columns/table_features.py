"""The columns of a table as sparse features, in a transformer for scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sparsenet.core.machine import default_threads
from sparsenet.core.validation import n_jobs
from sparsenet.data.frames import read_frame
from sparsenet.features.columns.history import HistorySpec
from sparsenet.features.columns.table_encoder import TableEncoder


class TableFeatures(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encode the columns of a table as sparse features, each by its type.

    X may be a data frame of pandas, Polars or Arrow, a dict of columns, a list of dicts, or the path of a CSV, TSV,
    JSONL or Parquet file. The features suit linear models, trees of labels and networks. Numbers become standard scores
    and shares of quantiles, and categories become flags. Dates become parts and cycles, and texts hashed words.

    Parameters
    ----------
    types : dict, optional
        Types of columns that are inferred wrongly: ``"number"``, ``"category"``, ``"categories"``, ``"date"``,
        ``"text"``, ``"ids"`` or ``"ignore"``. ``"categories:;"`` names the separator in a cell.
    history : HistorySpec or dict, optional
        Adds earlier events of the same key to each row.
    n_jobs : int, optional
        Number of threads for texts; all CPUs by default.

    Attributes
    ----------
    columns_ : str
        A table of the columns: name, type, distinct and missing values, an example, and the reason for the type.
    encoder_ : TableEncoder
    feature_names_in_ : ndarray of str
        The columns of X.
    n_features_in_ : int

    Examples
    --------
    >>> from sparsenet.features import TableFeatures
    >>> table = {"size": [1.5, 2.5, None, 8.0], "colour": ["red", "red", "blue", "blue"]}
    >>> features = TableFeatures().fit(table)
    >>> print(features.columns_)
    column  type      distinct  missing  example  why
    ------  --------  --------  -------  -------  ------------------
    size    number           3        1  1.5      numbers
    colour  category         2        0  red      2 distinct strings
    >>> features.transform({"size": [2.0], "colour": ["green"]}).shape
    (1, 8)
    >>> features.get_feature_names_out()[-3:].tolist()
    ['colour = red', 'colour = (rare or new)', 'colour = (missing)']
    """

    def __init__(
        self,
        *,
        types: Mapping[str, str] | None = None,
        history: HistorySpec | Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.types = types
        self.history = history
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> Self:
        """Infer the types of columns, and learn their values; y is ignored."""
        n_jobs(self.n_jobs)
        frame = read_frame(X)
        history = HistorySpec(**self.history) if isinstance(self.history, Mapping) else self.history
        self.encoder_ = TableEncoder.learn(frame, {} if self.types is None else self.types, history=history)
        self.columns_ = self.encoder_.describe()
        self.n_features_in_, self.feature_names_in_ = len(frame.names), np.array(frame.names, dtype=object)
        return self

    def transform(self, X: Any) -> csr_array:
        """Encode rows as a sparse matrix (n, n_features) of float32; other columns of X are ignored."""
        check_is_fitted(self)
        threads = n_jobs(self.n_jobs) or default_threads()
        rows = self.encoder_.rows(read_frame(X), threads=threads)
        fits = rows.indptr[-1] <= np.iinfo(np.int32).max  # some estimators of scikit-learn take no other indices
        indptr = rows.indptr.astype(np.int32) if fits else rows.indptr
        return csr_array((rows.data, rows.indices, indptr), shape=(len(rows), rows.width))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the features; `input_features` is ignored."""
        check_is_fitted(self)
        encoder = self.encoder_
        return np.array([encoder.feature_name(i) for i in range(encoder.n_features)], dtype=object)

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: X may hold strings and missing values."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = tags.input_tags.allow_nan = True
        return tags
