"""Classify the rows of tables with scikit-learn's interface: `TableClassifier`."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from sparsenet.core.memory import check_cells
from sparsenet.core.ranked import is_hit
from sparsenet.core.rows import Rows
from sparsenet.core.seeds import check_seed, run_seed
from sparsenet.core.validation import check_weights, choice, n_jobs, optional, switch
from sparsenet.data.dialect import NO_FILE, Dialect, LearntFile
from sparsenet.data.frames import Frame
from sparsenet.engines.network.parameters import pack_parameters, unpack_parameters
from sparsenet.engines.table import fit_table, table_arrays
from sparsenet.engines.table.column_effects import ColumnEffect, ColumnMap, TableExplanation, column_effects
from sparsenet.engines.table.encoding_choices import NumberFeatures, choose_numbers, choose_sets, without
from sparsenet.engines.table.fit_table import FittedTable
from sparsenet.engines.table.table_options import METHODS, Labelled, TableOptions
from sparsenet.engines.table.table_points import TablePoints
from sparsenet.engines.table.training_members import MemberTraining
from sparsenet.estimators.answers import AnswersMixin
from sparsenet.estimators.point_sources import refuse_roads
from sparsenet.estimators.row_predictor import RowPredictor
from sparsenet.estimators.saving import SavingMixin
from sparsenet.estimators.table_input import (
    as_table,
    cells_of_row,
    check_rows,
    check_types,
    framed,
    history_spec,
    one_row,
    row_labels,
    table_labels,
    validation_rows,
)
from sparsenet.estimators.transaction import all_or_nothing
from sparsenet.features.columns.history import HistorySpec
from sparsenet.features.columns.table_encoder import TableEncoder
from sparsenet.features.label_stats import LabelStats
from sparsenet.features.targets import Target, check_lengths, check_points
from sparsenet.kernels.types import F32, I32, Arrays
from sparsenet.selection.choose import Decision


class TableClassifier(SavingMixin, AnswersMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Classify the rows of a table with mixed columns, from two to a hundred thousand classes.

    Columns may hold numbers, categories, dates, texts, lists of ids, or several categories in a cell. Values may be
    missing. The types of columns are inferred; `columns_` shows them, and ``fit(types=...)`` changes them. Boosted
    trees, softmax regression, and a blend of a tree, a network and nearest neighbors are trained. The best one on
    held-out rows is kept. Boosting and regression are left out if there are many classes.

    Parameters
    ----------
    method : {"auto", "boosting", "linear", "blend", "network", "tree"}
        ``"auto"`` trains all affordable models on nine tenths of the rows and compares them on 800 to 5,000 held-out
        rows. On small tables, it holds out up to all rows, in five parts. Two models are averaged if that is better.
        The best model is trained again on all rows if a twentieth or more was held out. A name trains that model
        alone. ``"boosting"`` and ``"linear"`` need exactly one class for each row.
    n_jobs : int or None
        Threads; None or -1: all available to this process, or OMP_NUM_THREADS; -2: all but one, and so on. The result
        does not depend on it.
    random_state : int, RandomState or None
        An integer makes models equal, bit for bit.
    verbose : bool, int or None
        Show the columns and progress on stderr; 0: never; None: progress only, if stderr is a terminal.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        The classes, ascending.
    columns_ : str
        A table of the columns: name, type, number of distinct and missing values, an example, and the reason.
    choices_ : dict
        The decisions on held-out rows: ``"method"``; ``"average"`` if two models could be averaged; and ``"numbers"``
        if there are numbers: whole ones that repeat are names, such as flight numbers, and amounts, or amounts alone,
        and ``"straight"`` makes linear models linear in each amount. Each decision
        has its options, gain, standard error and number of rows. ``"cost"`` and ``"rounds"`` are settings of regression
        and boosting. ``"categories"`` is how boosting divides categories: into sets or by frequency.
    method_ : str
        The model in use; ``"average"`` for two.
    target_ : str or None
        The column of classes; None if y was passed.
    validation_ : dict or None
        The accuracy on held-out rows, by models trained without these rows. With several classes a row: the fraction of
        rows whose first class is right. With ``fit(validation=...)``, P@1, P@3 and P@5 on these rows instead.
    label_counts_ : ndarray of shape (n_labels,)
        Number of training rows with each class.
    n_points_ : int
        Number of training rows.
    n_features_in_, feature_names_in_ :
        Number and names of the columns.

    Examples
    --------
    >>> from sparsenet import TableClassifier
    >>> table = {"size": [1, 2, 8, 9] * 10, "colour": ["red", "red", "blue", None] * 10, "kind": list("aabb") * 10}
    >>> model = TableClassifier(random_state=0).fit(table, target="kind")
    >>> model.predict({"size": [2, 9], "colour": ["red", "blue"]}).tolist()
    ['a', 'b']
    """

    _fitted: FittedTable

    def __init__(
        self,
        *,
        method: str = "auto",
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | int | None = None,
    ) -> None:
        self.method = method
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # --- learning ---

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        target: str | int | None = None,
        types: Mapping[str, str] | None = None,
        history: HistorySpec | Mapping[str, Any] | None = None,
        label_delimiter: str | None = None,
        validation: Any = None,
        callbacks: Sequence[Any] = (),
        format: str = "auto",
        header: bool | None = None,
        quotes: bool | None = None,
        delimiter: str | None = None,
        encoding: str | None = None,
        decimal: str | None = None,
        cache: None = None,
        executor: None = None,
        checkpoint: None = None,
        resume: bool = False,
    ) -> Self:
        """Train on the rows of a table and their classes.

        Parameters
        ----------
        X : data frame, mapping, list of dicts, array or path
            A frame of pandas, Polars or Arrow; a dict of columns; a dict for each row; an array (n, d), whose columns
            are named "0", "1" and so on; or a CSV, TSV, JSONL or Parquet file.
        y : labels, optional
            A class for each row, a list of classes for each row, or an indicator (n, n_labels). None if a column of X
            holds them.
        target : str or int, optional
            The column of X with the classes, if y is None. A whole number names a column like its digits.
        types : dict, optional
            Types of columns that are inferred wrongly: ``"number"``, ``"category"``, ``"categories"`` (several in a
            cell), ``"date"``, ``"text"``, ``"ids"`` (a list of ids) or ``"ignore"``.
        history : dict, optional
            Adds earlier events of the same key to each row, such as
            ``{"key": "user", "time": "when", "columns": ["item"], "n": 10}``. Features are the number of events, the
            time since the last one, and the last n values of `columns`, which may include the target. Earlier events
            come from the training rows and from rows predicted in the same call. The last rows in time are held out.
        label_delimiter : str, optional
            Separates several classes in a cell of `target`. Lists in cells need none.
        validation : (X, y), or a table with the column `target`
            Rows to measure the model on after training: see `validation_`. Nothing is chosen by them.
        callbacks : sequence
            Must be empty: several kinds of model are trained, and most have no epochs.
        format, header, quotes, delimiter, encoding :
            How to read a file, as in `TextClassifier.fit`. The model reads further files in the same way.
        decimal : {".", ","}, optional
            Decimal mark of the numbers in CSV or TSV. With a comma, points may separate thousands: 1.234,5.
        cache, executor, checkpoint, resume : None
            Not supported: the table stays in memory. `BlendClassifier` trains on numbers from disk, and on workers.
        """
        not_taken = {"cache": cache, "executor": executor, "checkpoint": checkpoint, "resume": resume}
        refuse_roads("a table", "encode it as numbers for BlendClassifier", **not_taken)
        options, seed = self._options(), run_seed(self.random_state)
        check_types(types)
        if len(list(callbacks)):
            raise ValueError("callbacks are for networks of points: fit an ExtremeClassifier or BlendClassifier")
        dialect = Dialect(header=header, quotes=quotes, delimiter=delimiter, encoding=encoding, decimal=decimal)
        with all_or_nothing(self):
            target = str(target) if isinstance(target, int) else target
            whole = framed(X, format=format, dialect=dialect)
            file = LearntFile.of(X, format, dialect) if whole.is_file else NO_FILE
            check_rows(whole)
            frame, labels_of = table_labels(whole, y, target, label_delimiter)
            learnt, labels = Target.learn(labels_of)
            check_lengths(len(frame), labels, some_label=True)
            kinds, spec = {} if types is None else dict(types), history_spec(history)
            if spec is not None and target is not None and target in spec.columns:
                frame, kinds[target] = whole, "ignore"
            encoder = TableEncoder.learn(frame, kinds, history=spec)
            if options.verbose:
                print(encoder.describe(), file=sys.stderr, flush=True)
            held = validation_rows(validation, encoder, learnt, target, label_delimiter, file)
            fitted = self._trained(frame, encoder, learnt, labels, options, seed)
            of_file: dict[str, Any] = {"column": target, "label_delimiter": label_delimiter, "file": file}
            self._adopt(dataclasses.replace(fitted, **of_file))
            return self if held is None else self._validated((self._features(held[0]), held[1]))

    def _trained(
        self,
        frame: Frame,
        encoder: TableEncoder,
        target: Target,
        labels: Rows,
        options: TableOptions,
        seed: int,
        *,
        n_background: int = 32,
    ) -> FittedTable:
        """Encode the rows, and train the model that is best on held-out ones; keep some rows to explain answers by."""
        threads = self._threads()
        points = TablePoints.of(frame, encoder, threads)
        exclusive = bool((np.diff(labels.indptr) == 1).all()) and target.kind == "single"
        times = None if encoder.history is None else np.nan_to_num(encoder.history.times(frame), nan=-np.inf)
        whole = Labelled(points, labels, times)
        parts = options.draw(labels, seed, times)
        training = MemberTraining(options, labels.width, exclusive, seed, threads)
        dropped, names = choose_numbers(training, whole, parts, NumberFeatures.of(encoder))
        is_category, sets = choose_sets(training, whole, parts)
        points = dataclasses.replace(points, rows=without(points.rows, dropped), is_category=is_category)
        member, choices, validation = fit_table.fit(whole._replace(points=points), parts, training)
        choices |= {name: found for name, found in (("numbers", names), ("categories", sets)) if found is not None}
        counts = np.bincount(labels.indices, minlength=labels.width).astype(np.int64)
        seen = LabelStats(counts, len(points), None, np.zeros_like(counts), 0)
        sample = np.random.default_rng((seed, 3)).permutation(len(points))[:n_background]
        background = points.take(np.sort(sample))
        fitted = FittedTable(member, target, seen, encoder, background, choices, validation)
        return dataclasses.replace(fitted, dropped=dropped if dropped.any() else None)

    # --- answers ---

    def predict_proba(self, X: Any) -> F32:
        """Return the probability of every class, dense (n, n_labels).

        Rows sum to one with one class per row; otherwise each class has an independent probability. If the matrix
        would be too large, ValueError suggests `predict_topk`.
        """
        points = self._features(X)
        check_cells(len(points), len(self.classes_))
        return self._fitted.member.probabilities(points, self._threads())

    def predictor(self, k: int = 5) -> RowPredictor:  # type: ignore[override]  # of rows
        """Build a `RowPredictor`, which answers as `topk` does; build a new one after further training."""
        check_is_fitted(self)
        return RowPredictor(self, k=k)

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Compute the accuracy for one class per row, or P@1 for several; without y, by the column `target_` of X."""
        check_is_fitted(self)
        frame, fitted = self._framed(X), self._fitted
        truth = row_labels(frame, y, fitted.target, self.target_, fitted.label_delimiter)
        points, truth = check_points(self._features(frame), truth)
        if len(points) == 0:
            raise ValueError("X has no rows: there must be at least one")
        hits = is_hit(self._best_label(points), truth)
        return float(np.average(hits, weights=check_weights(sample_weight, len(points))))

    def explain(self, row: Any, label: Any = None) -> TableExplanation:  # type: ignore[override]  # of columns
        """Explain the log-odds of a class, by default the best one, by the contribution of each column of one row.

        The contributions are Shapley values: the change of the log-odds when a column of an average training row takes
        the cell of this row, averaged over 32 orders of the columns. This works for any model. The model keeps 32
        encoded training rows for it.

        Parameters
        ----------
        row : dict, or a table of one row
        label : class, optional
        """
        check_is_fitted(self)
        frame, fitted, threads = one_row(row, self._fitted.file), self._fitted, self._threads()
        point = fitted.points(frame, threads, whole=True)
        best, p = fitted.member.best(point, 1, threads)
        number = int(best[0, 0]) if label is None else self._number_of(label)
        effects = column_effects(fitted.member, point, fitted.background, self._column_map(), number, threads)
        base, added = effects
        probability = float(p[0, 0]) if label is None else float(fitted.member.dense(point, threads)[0, number])
        used = zip(fitted.encoder.columns, added.tolist(), strict=True)
        cells = cells_of_row(frame, fitted.encoder)
        columns = [ColumnEffect(each.name, cells[each.name], own) for each, own in used if each.type != "ignore"]
        columns.sort(key=lambda each: -abs(each.added))
        return TableExplanation(self.classes_[[number]].tolist()[0], probability, base, columns)

    def _number_of(self, label: Any) -> int:
        found = np.flatnonzero(self.classes_ == label)
        if not len(found):
            raise ValueError(f"label must be one of classes_, got {label!r}")
        return int(found[0])

    def _column_map(self) -> ColumnMap:
        columns = self._fitted.encoder.columns
        of_matrix = [place for place, column in enumerate(columns) if column.type != "ignore" for _ in column.codes]
        return ColumnMap(self._fitted.encoder.feature_columns, np.array(of_matrix, np.int64), len(columns))

    # --- within ---

    def _features(self, X: Any) -> Any:
        """Encode a table; it must have the columns that the model uses."""
        check_is_fitted(self)
        return self._fitted.points(self._framed(X), self._threads())

    def _framed(self, X: Any) -> Frame:
        """Return a table as a frame; a dict of cells is one row, and files are read like the training file."""
        return framed(as_table(X), learnt=self._fitted.file)

    @property
    def validation_(self) -> dict[str, float] | None:
        """Return the share of held-out rows whose first class is right; None if no rows were held out."""
        check_is_fitted(self)
        found = self._fitted.validation
        return None if found is None else dict(found)

    def _best_of_by_features(self, features: Any, labels: I32, k: int) -> tuple[I32, F32]:
        """Return the k best of some labels, ascending, for each point, and their probabilities, best first."""
        return self._fitted.member.best_of(features, labels, k, self._threads())

    def _best_by_features(self, features: Any, k: int, n_dropped: int = 0) -> tuple[I32, F32]:
        return self._fitted.member.best(features, k, self._threads(), n_dropped)

    def _options(self) -> TableOptions:
        """Check all parameters; return the training options."""
        check_seed(self.random_state)
        n_jobs(self.n_jobs)
        verbose = optional(switch, "verbose", self.verbose)
        return TableOptions(choice("method", self.method, ("auto", *METHODS)), verbose)

    def _choices(self) -> dict[str, Decision]:
        return dict(self._fitted.choices)

    def _adopt(self, fitted: FittedTable) -> Self:
        self._fitted = fitted
        derived = [] if fitted.encoder.history is None else fitted.encoder.history.derived
        names = [each.name for each in fitted.encoder.columns if each.name not in (fitted.column, *derived)]
        self.n_features_in_, self.feature_names_in_ = len(names), np.array(names, dtype=object)
        self.classes_, self.choices_, self.target_ = fitted.target.classes, self._choices(), fitted.column
        self.label_counts_, self.n_points_ = fitted.seen.label_counts, fitted.seen.n_points
        self.columns_, self.method_ = fitted.encoder.describe(), fitted.member.kind
        return self

    def _pack(self, *, small: bool) -> tuple[Arrays, dict[str, Any]]:
        self._options()  # invalid parameters could not be loaded
        return table_arrays.pack(self._fitted, pack_parameters(self.get_params(deep=False)), small=small)

    @classmethod
    def _unpack(cls, arrays: Arrays, metadata: dict[str, Any]) -> Self:
        parameters, fitted = table_arrays.unpack(arrays, metadata)
        model = cls(**unpack_parameters(parameters))
        model._options()
        return model._adopt(fitted)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = True
        tags.no_validation = True
        return tags
