"""Classify raw texts with scikit-learn's interface: `TextClassifier`."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags

from sparsenet import storage
from sparsenet.core.seeds import check_seed, run_seed
from sparsenet.core.validation import n_jobs, number_of_bytes
from sparsenet.core.workers import task_runner
from sparsenet.data.columns import Column, TextColumns
from sparsenet.data.dialect import Dialect
from sparsenet.engines.network.parameters import pack_parameters, unpack_parameters
from sparsenet.engines.text import text_arrays
from sparsenet.engines.text.compression import Compression, compress
from sparsenet.engines.text.fit_text import FittedText, fit
from sparsenet.engines.text.refit_text import check_grows, refit
from sparsenet.engines.text.text_options import TextOptions
from sparsenet.estimators.point_sources import refuse_roads
from sparsenet.estimators.text_answering import TextAnswersMixin
from sparsenet.features.targets import listed
from sparsenet.features.text import table_columns
from sparsenet.features.text.corpus import Corpus
from sparsenet.features.text.inputs import check_any, check_texts
from sparsenet.features.text.labelled_corpus import labelled_corpus
from sparsenet.features.text.learnt_texts import given_texts
from sparsenet.features.text.text_frames import texts_in
from sparsenet.features.text.word_vectors import WordVectors, as_vectors
from sparsenet.kernels.types import Arrays


class TextClassifier(TextAnswersMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Classify raw texts, with one label or several each, from two to a hundred thousand labels.

    Words, pairs of words and parts of words become features, without a dictionary. Each label is a linear function of
    these features, trained as a support vector machine. Training takes seconds, an answer microseconds, and a model
    megabytes. With thousands of labels, a blend of a tree, a network and nearest neighbors may be more accurate:
    held-out texts decide, or the size alone if a linear model would take minutes.

    Parameters
    ----------
    word_ngrams : int or "auto"
        Longest word n-gram; shorter ones are features too. ``"auto"``: 2, and 1 in a blend. If ``method="auto"`` trains
        a blend of texts from a pipe, which can be read only once, they keep pairs of words.
    char_ngrams : "auto", (int, int) or None
        Shortest and longest character n-grams within words; None for none. ``"auto"``: 3 to 5 up to 1 MiB of text, 4
        beyond. Large data get none, since words alone are better: more than 32 MiB; or more than 2,000 texts whose
        bytes exceed 2 GiB divided by the mean bytes of a text.
    cost : float
        Cost of an error in training: lower for noisy labels, higher for clean ones. Networks and blends have none, and
        refuse other values than 1.
    epochs : int or "auto"
        Passes over the texts: the most for a linear model, and the exact number for `fit` of a network, alone or in a
        blend. Its
        `partial_fit` always takes 5 to 20 passes, by the number of texts. ``"auto"``: 10 for a linear model, and the
        default of `ExtremeClassifier` for a network.
    class_weight : None, "balanced" or dict
        Factor on the `cost` of a label's texts; a higher one makes it the answer more often. ``"balanced"``: inverse to
        the label's frequency. A dict: its value for the label, else 1; it may name labels that y lacks, as long as y
        has some of its labels. None: probabilities are right on average, and rare labels are answers less often than
        they are true.
    validation_fraction : "auto" or float
        Fraction of texts held out to measure `validation_score_` and to calibrate probabilities. A linear model
        is then trained on all texts. ``"auto"``:

        - A tenth, but at least 800 and at most 5,000 texts. If 800 exceed a fifth, fifths are held out in turn, up to
          all five. None with fewer than 10 texts.
        - A twentieth, at most 2,000 texts, which the model never learns, if a second training would take minutes: for
          networks, and with more than 1,000 labels and 20 million pairs of a label and a text. The only text of a label
          is never held out for good.
        - A 64th, 512 to 2,048 texts, for a blend and where linear models and blends are compared, and a tenth of fewer
          than 8,192 texts. Tree and network of a blend do not learn the former. None with fewer than 1,280 texts.

        0: probabilities are a guess by the number of labels. Memory always limits the held-out texts: a pair of a label
        and a text takes 64 bytes.
    time_budget : float or None
        Seconds to read texts, to choose `cost` and `word_ngrams` on held-out texts, and to train. A linear model is
        trained to the end in any case; a network stops in time. `word_ngrams` is not searched for texts from a pipe,
        which can be read only once.
    bits : int
        Features are hashed into ``2**bits`` slots.
    vectors : str, path, WordVectors or None
        Static word vectors from local files: the mean vector of a text, as dense features next to the words. They know
        words that no training text has, so they help most with up to some thousand texts. A path as `WordVectors.read`
        takes it, or ``"wordllama"`` for the vectors of that package (``pip install 'sparsenet[vectors]'``). Held-out
        texts choose their weight against the words. A saved model holds the table. For linear models only.
    method : {"auto", "linear", "network", "blend"}
        ``"linear"`` trains each label against all texts. ``"network"`` trains a network like `ExtremeClassifier` on the
        same features, with some thousands of labels per step. ``"blend"`` trains a tree, a network and neighbors like
        `BlendClassifier`; the model contains the training texts as features, and `partial_fit` is refused.

        ``"auto"``: linear up to 1,000 labels. Beyond, a linear model and a blend are compared on held-out texts. If
        labels times features of all texts exceed 5e10, a blend is trained without a comparison. `partial_fit` starts
        with a linear model or, instead of a blend, a network.
    memory_limit : int, str or None
        Bytes, or text such as ``"8GB"``, for features and training; None: the available memory. Python, its libraries
        and buffers take another 250 MB. Large arrays of features go to temporary files. A network, alone or in a
        blend, needs memory for its weights.
    n_jobs : int or None
        Threads; None or -1: all that the process may use, or OMP_NUM_THREADS; -2: all but one, and so on. Results do
        not depend on it.
    random_state : int, RandomState or None
        An integer makes models reproducible, bit for bit.
    verbose : bool, int or None
        Whether to show progress of long training on stderr; None: if that is a terminal.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
    validation_score_ : float or None
        Fraction of held-out texts whose best label is right, by a model that has not seen them; None if none were held
        out. Texts without labels count as misses. `partial_fit` on a fitted model does not change it.
    validation_ : dict or None
        P@1, P@3 and P@5 on the validation data of `fit`, which are not saved; None without these.
    search_ : list of dict
        The parameters tried under a time budget, and their scores.
    label_counts_, n_texts_ : ndarray of shape (n_labels,), int
        Training texts of each label, and of all.
    choices_ : dict
        The `Decision` on `method` and `char_ngrams` where they are ``"auto"``, and with a time budget on `cost` and
        `word_ngrams`: the default stays unless another option is better by more than a standard error. With `vectors`,
        also on their weight: the length of a text's vector, where its other features have length 1. Blends add their
        own, as `BlendClassifier` does.
    multilabel_ : bool
        Whether a text may have several labels, or none.
    threshold_ : float or None
        If so, the lowest probability of a label that `predict` returns. It is fitted for the best F1 of all pairs of a
        text and a label on held-out texts; 0.5 without those.
    columns_ : dict or None
        Names of the columns of texts (``text``, a list) and labels (``target``, None if y was passed), and the
        ``label_delimiter``, to read further data frames and files by; None if columns were not given by name.
        ``file`` holds the format and the options of a CSV or TSV file, if some were given.

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

    def __init__(
        self,
        *,
        word_ngrams: int | str = "auto",
        char_ngrams: str | tuple[int, int] | None = "auto",
        cost: float = 1.0,
        epochs: int | str = "auto",
        class_weight: str | dict[Any, float] | None = None,
        validation_fraction: str | float = "auto",
        time_budget: float | None = None,
        bits: int = 22,
        vectors: str | os.PathLike[str] | WordVectors | None = None,
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
        self.vectors = vectors
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
        validation: tuple[Any, Any] | Any = None,
        callbacks: Sequence[Any] = (),
        executor: Any = None,
        cache: str | os.PathLike[str] | None = None,
        checkpoint: None = None,
        resume: bool = False,
    ) -> Self:
        """Train on texts and their labels.

        Parameters
        ----------
        X : sequence of str, data frame, list of dicts, or path
            Texts: a list, an array or a column of a data frame. Or a data frame of pandas, Polars or Arrow, or a list
            of dicts, with the columns `text` and, without y, `target`. Or a CSV, TSV, JSONL or Parquet file with both
            columns, or a file whose lines begin with ``__label__NAME``, as in fastText. Files are read batch by batch.
        y : labels
            A label, or a list of labels, for each text, or an indicator (n, n_labels). None with a file.
        text : str or int, or a list of these
            Column of texts: a name, or a position from 0 in a file. The texts of a list of columns are joined by
            newlines, without empty and missing cells. A tuple is one column: pandas may use it as a name.
        target : str or int
            Column of labels.
        label_delimiter : str, optional
            Separates several labels of a text in the column `target`. Labels from files are strings without blanks
            around them: 1 is ``"1"``, true is ``"true"``.
        format : {"auto", "csv", "tsv", "jsonl", "lines"}
            Format of a file; ``"auto"`` detects it by the name. Files named as Parquet are always read as Parquet.
        header : bool, optional
            Whether the first row of CSV or TSV holds names; by default, if columns are given by name.
        quotes : bool, optional
            Whether fields of CSV or TSV may be in double quotes; by default also in TSV, if the quotes close on the
            same line.
        delimiter, encoding : str, optional
            Separator of the fields of CSV or TSV, and its encoding; by default comma or tab, and UTF-8.
        validation : (X, y), data frame or path, optional
            Texts to measure the model on after training: see `validation_`. Nothing is chosen by them.
        callbacks : sequence
            Must be empty: a pipeline of `TextFeatures` and a `BlendClassifier` or `ExtremeClassifier` takes callbacks.
        executor : concurrent.futures.Executor, function that returns one, or Workers, optional
            Trains trees and neighbors of a blend on the workers of this executor, and everything else in this process.
            The model is the same, bit for bit. See `BlendClassifier.fit`.
        cache : directory, optional
            Keeps the features of a file there, in five bytes each. Further calls with the same file and settings of
            features do not read the texts again. The model is the same. X may then also be an iterable of batches
            ``(texts, labels)``, which are written to a file without a name.
        checkpoint, resume : None
            Not supported: training starts from the beginning. A `cache` spares it reading the texts again.
        """
        instead = "pass cache, which keeps the features of a file"
        refuse_roads("a text model", instead, checkpoint=checkpoint, resume=resume)
        if len(list(callbacks)):
            raise ValueError(
                "callbacks are for networks of points: fit make_pipeline(TextFeatures(), ExtremeClassifier()) with "
                "extremeclassifier__callbacks=[...]"
            )
        started, options = time.monotonic(), self._options()
        seed, threads = run_seed(self.random_state), self._threads()
        dialect = Dialect(header=header, quotes=quotes, delimiter=delimiter, encoding=encoding)
        how: dict[str, Any] = {"text": text, "target": target, "label_delimiter": label_delimiter, "format": format}
        how |= {"dialect": dialect, "threads": threads, "memory_limit": options.memory_limit}
        how |= {"cache": cache}
        options = options.with_vectors(as_vectors(self.vectors))
        with task_runner(executor, n_jobs(self.n_jobs)) as runner:
            corpus, known = labelled_corpus(X, y, options.features, **how)
            held = given_texts(validation, known, corpus.target)
            fitted = fit(corpus, options, seed=seed, threads=threads, started=started, runner=runner)
        return self._adopt(fitted, known)._validated(held)

    def partial_fit(self, X: Any, y: Any, classes: ArrayLike | None = None) -> Self:
        """Train further on more texts, whose labels and words may be new; `classes` may name labels of later calls.

        A blend cannot learn further texts.
        """
        started, options, threads = time.monotonic(), self._options(), self._threads()
        if self.__sklearn_is_fitted__():
            check_grows(self._fitted)
        elif options.method == "blend":
            raise ValueError("a blend cannot learn further texts: use fit, or method='linear', 'network' or 'auto'")
        texts, y = self._texts(X), listed(y)  # a generator can be read only once
        check_any(texts)
        if not self.__sklearn_is_fitted__():
            options = options.with_vectors(as_vectors(self.vectors))
            corpus = Corpus.of_texts(texts, y, options.features, threads, classes)
            seed = run_seed(self.random_state)
            return self._adopt(fit(corpus, options, seed=seed, threads=threads, started=started, grows=True))
        fitted, seed = self._fitted, run_seed(self.random_state, call=self._fitted.calls + 1)
        vectors = None if fitted.view is None else fitted.view.vectors
        corpus = Corpus.of_more(texts, y, fitted.target, fitted.vocabulary.rules, threads, classes, vectors)
        return self._adopt(refit(fitted, corpus, options, seed=seed, threads=threads), self.columns_)

    # --- models on disk ---

    def compress(self, max_bytes: int | str, texts: Any = None, labels: Any = None) -> Compression:
        """Shrink the model so that `save` writes at most `max_bytes`, such as ``"5MB"``; return a report.

        The model changes in place, unless it is small enough already: the least weights are dropped, and the others are
        rounded to fewer values. The report compares the accuracy on `texts` with `labels`, if given; they should not be
        training texts.

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
        self._fitted, report = compress(fitted, limit, self._saved_size, labelled, self._threads())
        return report

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save to a directory as safetensors and a manifest with checksums; an old model is replaced atomically."""
        storage.save(path, *self._pack(self._checked()))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load a saved model, with bit-equal predictions; raise ModelError if it is damaged or of another kind."""
        return storage.load_as(path, cls._unpack)

    def _saved_size(self, fitted: FittedText) -> int:
        return storage.size(*self._pack(fitted))

    def _pack(self, fitted: FittedText) -> tuple[Arrays, dict[str, Any]]:
        """Return the arrays and JSON of a model, which may be smaller than the classifier's."""
        parameters = pack_parameters(self.get_params(deep=False), but=("vectors",))  # the model holds them
        self._options()  # invalid parameters could not be loaded
        return text_arrays.pack(fitted, parameters, self.columns_)

    @classmethod
    def _unpack(cls, arrays: Arrays, metadata: dict[str, Any]) -> Self:
        fitted, parameters, columns = text_arrays.unpack(arrays, metadata)
        vectors = None if fitted.view is None else fitted.view.vectors
        model = cls(**unpack_parameters(parameters), vectors=vectors)
        model._options()
        return model._adopt(fitted, columns)

    # --- within ---

    def _options(self) -> TextOptions:
        """Check all parameters; return the training options."""
        check_seed(self.random_state)
        return TextOptions.of(self.get_params(deep=False))

    def _adopt(self, fitted: FittedText, known: table_columns.KnownColumns | None = None) -> Self:
        self._fitted, self.classes_, self.label_counts_ = fitted, fitted.target.classes, fitted.counts
        self.n_texts_, self.validation_score_, self.search_ = fitted.n_texts, fitted.score, list(fitted.search)
        self.multilabel_, self.columns_, self.validation_ = not fitted.exclusive, known, None
        by_size = {"method": fitted.method, "char_ngrams": fitted.char_ngrams}
        by_size = {name: one for name, one in by_size.items() if getattr(self, name) == "auto"}
        self.choices_ = {**by_size, **fitted.choices}
        self.threshold_ = None if fitted.exclusive else fitted.model.calibration.threshold
        return self

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({"vectors": None, **state})  # pickles of version 0.2 have none
        if "_fitted" in state and "score" not in vars(self._fitted):  # a pickle of version 0.1
            fitted = replace(self._fitted, score=self.validation_score_, search=self.search_)
            self._adopt(fitted, self.columns_)

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
