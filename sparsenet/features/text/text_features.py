"""`TextFeatures`: the features of `TextClassifier` as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from sparsenet import kernels
from sparsenet.core.machine import default_threads
from sparsenet.core.rows import Rows, as_matrix
from sparsenet.core.validation import integer, n_jobs, optional
from sparsenet.features.targets import Target
from sparsenet.features.text.feature_options import FeatureOptions
from sparsenet.features.text.featuriser import FeatureRules, TextRows, extract
from sparsenet.features.text.inputs import check_any, check_lengths, check_texts
from sparsenet.features.text.text_frames import joined_columns
from sparsenet.features.text.vocabulary import Vocabulary


class TextFeatures(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Turn raw texts into sparse rows of unit length, as `TextClassifier` does.

    Words and character n-grams within words are hashed and counted in one pass. Their weight is the log count times the
    inverse document frequency. With y, features that tell labels apart weigh more. Use it in a `Pipeline`,
    `ColumnTransformer` or `FeatureUnion`, before any classifier that takes sparse matrices.

    Parameters
    ----------
    word_ngrams : int
        Longest word n-gram; shorter ones are features too. 1 is best before a `BlendClassifier`, 2 before linear
        models of few labels.
    char_ngrams : "auto", (int, int) or None
        Shortest and longest character n-grams within words; None for none. ``"auto"`` decides by the amount of text,
        as `TextClassifier` does.
    max_features : int or None
        Keep this many features, the most frequent ones by texts; None: all.
    bits : int
        Features are hashed into ``2**bits`` slots.
    n_jobs : int or None
        Threads; None or -1: all that the process may use, or OMP_NUM_THREADS. Results do not depend on it.

    Attributes
    ----------
    word_ngrams_, char_ngrams_ : int, and (int, int) or None
        The lengths in use.
    n_features_out_ : int
        Number of columns. With a thousand texts or more, features of a single text are dropped.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sparsenet.features import TextFeatures
    >>> texts = ["what a lovely film", "lovely, just lovely", "a dull film", "dull and long"]
    >>> model = make_pipeline(TextFeatures(), LogisticRegression()).fit(texts, ["good", "good", "bad", "bad"])
    >>> model.predict(["a lovely evening"]).tolist()
    ['good']
    """

    _vocabulary: Vocabulary

    def __init__(
        self,
        *,
        word_ngrams: int = 1,
        char_ngrams: str | tuple[int, int] | None = "auto",
        max_features: int | None = None,
        bits: int = 22,
        n_jobs: int | None = None,
    ) -> None:
        self.word_ngrams = word_ngrams
        self.char_ngrams = char_ngrams
        self.max_features = max_features
        self.bits = bits
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose and weight the features of texts.

        Parameters
        ----------
        X : sequence of str, or data frame
            Texts. The columns of a data frame are joined by newlines, without empty and missing cells.
        y : labels, optional
            A label, or a list of labels, for each text, or an indicator (n, n_labels). None: weights do not depend on
            labels.
        """
        self._learn(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> csr_array:
        """Fit, and return the features of the same texts; each text is read once."""
        return self._points(self._learn(X, y))

    def transform(self, X: Any) -> csr_array:
        """Return a sparse matrix (n, n_features) of float32; a text without known features is an empty row."""
        check_is_fitted(self)
        texts = check_texts(joined_columns(X))
        return self._points(extract(*kernels.join_texts(texts), self._vocabulary.rules, self._threads()))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return names of the columns: features are hashed, so names are numbers."""
        check_is_fitted(self)
        return np.array([f"text{number}" for number in range(self.n_features_out_)], dtype=object)

    def _learn(self, X: Any, y: Any) -> TextRows:
        threads, options = self._threads(), self._options()
        texts = check_texts(joined_columns(X))
        check_any(texts)
        text, offsets = kernels.join_texts(texts)
        rules = options.rules(np.diff(offsets))
        rows = extract(text, offsets, rules, threads)
        labels = Target.learn(y)[1] if y is not None else _one_label(len(texts))
        check_lengths(texts, labels)
        n_max = optional(integer, "max_features", self.max_features, 1)
        self._vocabulary = Vocabulary.learn(rules, rows, labels, n_max=n_max)
        if len(self._vocabulary) == 0:
            raise ValueError("X holds no features, as if all texts were empty: check what was read")
        self.word_ngrams_, self.char_ngrams_ = rules.word_ngrams, rules.char_lengths
        self.n_features_out_ = len(self._vocabulary)
        return rows

    def _points(self, rows: TextRows) -> csr_array:
        return as_matrix(self._vocabulary.ascending(rows, self._threads()))

    def _options(self) -> FeatureOptions:
        return FeatureOptions.of({name: getattr(self, name) for name in ("word_ngrams", "char_ngrams", "bits")})

    def _threads(self) -> int:
        return n_jobs(self.n_jobs) or default_threads()

    @property
    def rules_(self) -> FeatureRules:
        """The rules that texts become features by."""
        check_is_fitted(self)
        return self._vocabulary.rules

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_vocabulary")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        tags.no_validation = True
        return tags


def _one_label(n: int) -> Rows:
    """Return one label for all texts, which tells features apart by nothing."""
    return Rows(np.arange(n + 1, dtype=np.int64), np.zeros(n, np.int32), np.ones(n, np.float32), 1)
