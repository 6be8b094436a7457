"""The scikit-learn face of text classification: `TextClassifier`."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from sparsenet import storage
from sparsenet.core.machine import default_threads
from sparsenet.core.rows import Rows
from sparsenet.core.seeds import run_seed
from sparsenet.core.validation import check_weights, choice, integer, n_jobs, number_of_bytes, optional, real
from sparsenet.data.columns import Column, TextColumns, text_columns
from sparsenet.data.dialect import Dialect
from sparsenet.data.formats import TableFormat
from sparsenet.engines.text.compression import Compression, compress
from sparsenet.engines.text.fit_text import FittedText, fit, refit
from sparsenet.engines.text.text_options import TextOptions
from sparsenet.engines.text.word_effects import Explanation, explain
from sparsenet.estimators import text_saving
from sparsenet.estimators.transaction import check_seed
from sparsenet.features.targets import listed
from sparsenet.features.text import table_columns
from sparsenet.features.text.corpus import Corpus
from sparsenet.features.text.inputs import check_any, check_lengths, check_texts
from sparsenet.features.text.text_files import FileRules, iter_texts
from sparsenet.features.text.text_frames import labelled_columns, texts_in
from sparsenet.kernels.types import F32


class TextClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A classifier of raw texts, for two to a hundred thousand labels, one or several a text.

    Words, pairs of words and pieces of words become features without a dictionary; each label is a linear function of
    them, trained as a support vector machine. Training takes seconds, an answer microseconds, a model megabytes. With
    so many labels and texts that this would take too long, a network of a wide and a deep path does the same work.

    Parameters
    ----------
    word_ngrams : int
        Features are runs of 1 to so many words.
    char_ngrams : "auto", (int, int) or None
        Lengths of the runs of characters inside words that are features too. ``"auto"``: 3 to 5 up to 1 MiB of text,
        and 4 of more. None where there is so much text that words alone are better: more than 32 MiB, or more
        texts than 2,000 and more bytes than 2 GiB divided by those of a text on average.
    cost : float
        Of an error in training, against simplicity: lower for noisy labels, higher for clean ones. A network has none:
        another one than 1 is an error where one is trained.
    epochs : int or "auto"
        Passes over the texts: of linear models the most, of a network those that `fit` takes; its `partial_fit` takes 5
        to 20 by how many texts there are, whatever this is. ``"auto"``: 10, and of a network what `ExtremeClassifier`
        takes of so many texts.
    class_weight : None, "balanced" or dict
        Multiplies `cost` for the texts of a label, ``"balanced"`` by how much rarer it is than labels are on average, a
        dict by what it has for the label, 1 where it has nothing: it is named more often. A dict may name labels that
        are not in y, as of a fold, beside others that are. Without it probabilities are right on average, and a label
        is named the less often than it is there, the rarer it is.
    validation_fraction : "auto" or float
        Share of texts that are held out at first, to measure `validation_score_` and to calibrate probabilities; the
        model that is kept has seen them all, unless it is a network. ``"auto"``: a tenth, 5,000 at most, of less than
        8,000 texts 800, by turns of a fifth where these are more than that: all five, where there are less than 800
        texts or four a label; none of less than 10. More, up to all five, where less than 200 of these texts would have
        another label than the most frequent one, and there are less than 40,000 texts.
        Where a second training would take minutes (of more than 1,000 labels, and 20 million pairs of a label and a
        text), and for a network, a twentieth, 2,000 at most, is not learnt at all, of a linear model whose labels all
        have four texts or fewer one text each of up to 200 labels. 0: probabilities are a guess by how many labels
        there are.
        Never more than there is memory for, 64 bytes for each pair of a label and a text held out.
    time_budget : float or None
        Seconds in which texts are read, `cost` and `word_ngrams` chosen on those held out, and the model is trained,
        which is done in any case; or a network is trained.
        Where texts come from a pipe, which can be read once, `word_ngrams` stays.
    bits : int
        Features are hashed into ``2**bits`` slots.
    method : {"auto", "linear", "network"}
        ``"linear"`` trains all labels against all texts; ``"network"`` an `ExtremeClassifier` over the same features,
        some thousands of labels a step. ``"auto"``: linear, unless labels times features of all texts exceed 5e10.
    memory_limit : int, str or None
        Bytes, or text such as ``"8GB"``, for features and what is trained from them; None: what the machine has to
        offer. Python, its libraries and buffers take some 250 MB beside that. Features that would take a large share of
        it lie in temporary files. A network needs its weights in memory.
    n_jobs : int or None
        Threads; None or -1: as many as this process may run, or OMP_NUM_THREADS; -2: all but one, and so on. The
        result does not depend on it.
    random_state : int, RandomState or None
        An integer gives equal models, bit for bit.
    verbose : bool, int or None
        Show progress of long training on stderr, 0 meaning no; None: if that is a terminal.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
    validation_score_ : float or None
        Share of held-out texts whose best label was right, before the model saw them; None if none were held out. Where
        a text may have no label, one that has none counts as a miss. Of `fit`, or the first `partial_fit`: later calls
        hold nothing out, and leave it as it is.
    search_ : list of dict
        What was tried under a time budget, and its score.
    label_counts_ : ndarray of shape (n_labels,)
        How many training texts had each label.
    n_texts_ : int
        How many training texts there were.
    multilabel_ : bool
        Whether a text may have several labels, or none.
    threshold_ : float or None
        Then, the probability above which labels are the answer of `predict`: where F1 of all pairs of a text and a
        label is expected to be best, by texts held out in `fit`; 0.5 if there were none.
    columns_ : dict or None
        What the columns of texts, a list, and of labels, None of y, were called, and their `label_delimiter`, where
        they were called by name: other data frames and, on the command line, other files are read alike.

    Examples
    --------
    >>> from sparsenet import TextClassifier
    >>> texts = ["what a lovely film", "lovely, just lovely", "a dull film", "dull and long"]
    >>> model = TextClassifier(random_state=0).fit(texts, ["good", "good", "bad", "bad"])
    >>> model.predict(["a lovely evening"]).tolist()
    ['good']
    >>> model.predict_one("so dull")
    'bad'
    """

    columns_: table_columns.KnownColumns | None

    def __init__(
        self,
        *,
        word_ngrams: int = 2,
        char_ngrams: str | tuple[int, int] | None = "auto",
        cost: float = 1.0,
        epochs: int | str = "auto",
        class_weight: str | dict[Any, float] | None = None,
        validation_fraction: str | float = "auto",
        time_budget: float | None = None,
        bits: int = 22,
        method: str = "auto",
        memory_limit: int | str | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | int | None = None,
    ) -> None:
        self.word_ngrams = word_ngrams
        self.char_ngrams = char_ngrams
        self.cost = cost
        self.epochs = epochs
        self.class_weight = class_weight
        self.validation_fraction = validation_fraction
        self.time_budget = time_budget
        self.bits = bits
        self.method = method
        self.memory_limit = memory_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # --- learning ---

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        text: TextColumns = "text",
        target: Column = "label",
        label_delimiter: str | None = None,
        format: str = "auto",
        header: bool | None = None,
        quotes: bool | None = None,
        delimiter: str | None = None,
        encoding: str | None = None,
    ) -> Self:
        """Learn from texts and their labels.

        Parameters
        ----------
        X : sequence of str, or a path
            Texts: a list, an array, a column of a data frame; or a frame of pandas, Polars or Arrow with the columns
            `text` and, without y, `target`. Or a CSV, TSV, JSONL or Parquet file with both, or a text file whose lines
            begin with ``__label__NAME``, as fastText has them. A file is read piece by piece: its text is never in
            memory as a whole. Such lines have no columns: what is said of these is then an error.
        y : labels
            One a text, a list of labels for each, either maybe from a generator, or an indicator of shape
            (n, n_labels); not with a file.
        text : str or int, or a list of these
            The column of texts: a name, or of a file a position from 0. Texts of several columns, in a list, are joined
            in its order, by newlines, which are blanks as others are: a pair of words may be the last of a title and
            the first of a body. Cells that are empty or missing are left out, unless all are missing. A tuple is not
            several: frames of pandas may have it for a name.
        target : str or int
            The column of labels.
        label_delimiter : str, optional
            What separates several labels of a text in the column `target`. Labels from files are strings, without
            blanks around them: 1 is ``"1"``, true is ``"true"``.
        format : {"auto", "csv", "tsv", "jsonl", "lines"}
            Of a file; ``"auto"`` goes by its name. What is called Parquet is Parquet.
        header : bool, optional
            Whether the first row of CSV or TSV holds names; by default, if columns are asked for by name.
        quotes : bool, optional
            Whether fields of CSV or TSV may be in double quotes; by default in TSV too, if they end in their line.
        delimiter, encoding : str, optional
            What separates the fields of CSV or TSV, if no comma or tab, and how they are encoded, if not in UTF-8.
        """
        started, options = time.monotonic(), self._options()
        seed, threads = run_seed(self.random_state), self._threads()
        dialect = Dialect(header=header, quotes=quotes, delimiter=delimiter, encoding=encoding)
        if isinstance(X, str | Path):
            if y is not None:
                raise ValueError("y must be None where X is a path: the labels are in the file, in the column `target`")
            choice("format", format, ("auto", *get_args(TableFormat), "lines"))
            texts = text_columns(text)
            rules = FileRules(
                text=texts, target=target, label_delimiter=label_delimiter, format=format, dialect=dialect
            )
            read, known = partial(iter_texts, X, rules), table_columns.learnt_from(X, rules)
            corpus = Corpus.of_file(os.fspath(X), read, options.features, threads, options.memory_limit)
        else:
            of_files = {"label_delimiter": label_delimiter, "format": None if format == "auto" else format}
            X, y, known = labelled_columns(X, y, text, target, {**of_files, **dialect.said})
            corpus = Corpus.of_texts(check_texts(X), y, options.features, threads)
        return self._adopt(fit(corpus, options, seed=seed, threads=threads, started=started), known)

    def partial_fit(self, X: Any, y: Any, classes: ArrayLike | None = None) -> Self:
        """Learn from further texts, from where the model stands; labels and words may be new.

        Each call moves the weights no further than the new texts ask for. `classes` may name labels that are to come;
        on later calls they are added to those that the model knows.
        """
        started, options, threads = time.monotonic(), self._options(), self._threads()
        texts, y = self._texts(X), listed(y)  # a generator can be read only once
        check_any(texts)
        if not self.__sklearn_is_fitted__():
            corpus = Corpus.of_texts(texts, y, options.features, threads, classes)
            seed = run_seed(self.random_state)
            return self._adopt(fit(corpus, options, seed=seed, threads=threads, started=started))
        fitted, seed = self._fitted, run_seed(self.random_state, call=self._fitted.calls + 1)
        corpus = Corpus.of_more(texts, y, fitted.target, fitted.vocabulary.rules, threads, classes)
        return self._adopt(refit(fitted, corpus, options, seed=seed, threads=threads), self.columns_)

    # --- answers ---

    def predict(self, X: Any, *, threshold: float | None = None) -> Any:
        """Return the best label of each text (n,), or, as y came, its labels of a probability above `threshold`.

        Where y came as lists, the best label stands first in its list. None: `threshold_`.
        """
        fitted, texts = self._checked(), self._texts(X)
        if not fitted.exclusive:
            threshold = optional(real, "threshold", threshold, 0, 1)
            return fitted.target.decode(*fitted.answers.above(texts, threshold, self._threads()))
        if threshold is not None:
            raise ValueError(
                "threshold must be None where each text has one label: see `topk` for probabilities, and of two "
                "classes scikit-learn's FixedThresholdClassifier and TunedThresholdClassifierCV"
            )
        return fitted.target.classes[fitted.answers.winners(texts, self._threads())]

    def predict_one(self, text: str | bytes) -> Any:
        """Return the best label of one text, of a linear model in microseconds."""
        fitted = self._fitted if hasattr(self, "_fitted") else self._checked()
        if not isinstance(text, str):
            [text] = check_texts([text])
        return fitted.target.classes[fitted.answers.best(text)]

    def predict_topk(self, X: Any, k: int = 5) -> csr_array:
        """Return the probabilities of the k best labels, sparse (n, n_labels); entries of a row stand best first."""
        labels, values = self._best(X, k)
        (n, k), n_labels = labels.shape, len(self.classes_)
        return csr_array((values.reshape(-1), labels.reshape(-1), np.arange(n + 1) * k), shape=(n, n_labels))

    def topk(self, X: Any, k: int = 5) -> tuple[NDArray[Any], F32]:
        """Return the k best of `classes_` and their probabilities, (n, k) each, best first; k is cut to n_labels."""
        labels, values = self._best(X, k)
        return self.classes_[labels], values

    def predict_proba(self, X: Any) -> F32:
        """Return calibrated probabilities, (n, n_labels); of exclusive labels, those of a text sum to one."""
        return self._checked().answers.probabilities(self._texts(X), self._threads())

    def predict_log_proba(self, X: Any) -> F32:
        """Return the logarithms of `predict_proba`; of what is too improbable for a number, minus infinity."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def decision_function(self, X: Any) -> F32:
        """Return the scores of all labels (n, n_labels); of two exclusive classes, that of the second (n,)."""
        return self._checked().answers.scores(self._texts(X), self._threads())

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of texts whose best label is right; a label never learnt is a miss, a warning if all are."""
        fitted, texts = self._checked(), self._texts(X)
        truth = self._truth(texts, y)
        weights = check_weights(sample_weight, len(texts))
        return float(np.average(fitted.hits(texts, truth, self._threads()), weights=weights))

    def explain(self, text: str, label: Any = None) -> Explanation:
        """Say what each word and piece of a word adds to the score of a label, by default of the best one."""
        return explain(self._checked(), check_texts([text])[0], label, self._threads())

    # --- models on disk ---

    def compress(self, max_bytes: int | str, texts: Any = None, labels: Any = None) -> Compression:
        """Make the model so small that `save` writes at most `max_bytes`, such as ``"5MB"``, and say what that cost.

        This model itself changes: the least weights are dropped, and the others rounded to fewer values, unless it is
        small enough as it is. `texts` and their `labels` say how accuracy changes: they should be none of those it was
        trained on.

        Examples
        --------
        >>> from sparsenet import TextClassifier
        >>> texts = ["what a lovely film", "lovely, just lovely", "a dull film", "dull and long"]
        >>> model = TextClassifier(random_state=0).fit(texts, ["good", "good", "bad", "bad"])
        >>> report = model.compress("3kB", ["how lovely", "how dull"], ["good", "bad"])
        >>> report.bytes_after <= 3000, report.accuracy_before, report.accuracy_after
        (True, 1.0, 1.0)
        """
        fitted, limit, labelled = self._checked(), number_of_bytes("max_bytes", max_bytes), None
        if (texts is None) != (labels is None):
            raise ValueError("texts and labels must be given together, or neither")
        if texts is not None:
            found = check_texts(texts_in(texts, self.columns_), "texts")
            labelled = found, self._truth(found, labels)
        size = partial(text_saving.saved_size, self)
        self._fitted, report = compress(fitted, limit, size, labelled, self._threads())
        return report

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save to a directory: safetensors and a manifest with checksums, replaced as a whole or not at all."""
        storage.save(path, *text_saving.pack(self, self._checked()))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load what `save` saved; predictions are equal bit for bit. A ModelError says what is wrong with a model."""
        return storage.load_as(path, partial(text_saving.unpack, cls))

    # --- within ---

    def _best(self, X: Any, k: int) -> tuple[NDArray[np.int32], F32]:
        fitted = self._checked()
        k = min(integer("k", k, 1), len(fitted.target.classes))
        return fitted.answers.topk(self._texts(X), k, self._threads())

    def _texts(self, X: Any) -> list[str]:
        """Return texts, of a data frame those in the columns that the model learnt from."""
        return check_texts(texts_in(X, getattr(self, "columns_", None)))

    def _truth(self, texts: list[str], y: Any) -> Rows:
        """Return the labels of texts as numbers; labels never learnt are misses."""
        check_any(texts)
        truth = self._checked().target.encode(y, drop_unknown=True)
        check_lengths(texts, truth)
        return truth

    def _options(self) -> TextOptions:
        return TextOptions.of(self.get_params(deep=False))

    def _check(self) -> None:
        """Check all parameters, as `fit` does."""
        self._options()
        check_seed(self.random_state)

    def _threads(self) -> int:
        return n_jobs(self.n_jobs) or default_threads()

    def _checked(self) -> FittedText:
        check_is_fitted(self)
        return self._fitted

    def _adopt(self, fitted: FittedText, known: table_columns.KnownColumns | None = None) -> Self:
        self._fitted, self.classes_, self.label_counts_ = fitted, fitted.target.classes, fitted.counts
        self.n_texts_, self.validation_score_, self.search_ = fitted.n_texts, fitted.score, list(fitted.search)
        self.multilabel_, self.columns_ = not fitted.exclusive, known
        self.threshold_ = None if fitted.exclusive else fitted.model.calibration.threshold
        return self

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_fitted" in state and "score" not in vars(self._fitted):  # a pickle of version 0.1
            self._fitted = replace(self._fitted, score=self.validation_score_, search=self.search_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        tags.classifier_tags.multi_label = True
        tags.no_validation = True
        return tags
