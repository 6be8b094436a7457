"""`Recommender`: items for users, from a log of who took what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sparsenet.core.machine import default_threads
from sparsenet.core.seeds import check_seed, run_seed
from sparsenet.core.validation import boolean, choice, integer, n_jobs, optional, switch
from sparsenet.engines.recommender.fit_recommender import FittedRecommender, RecommenderOptions, fit
from sparsenet.estimators.fitted_html import FittedHtmlMixin
from sparsenet.estimators.point_sources import refuse_roads
from sparsenet.estimators.recommender_evaluation import (
    as_ks,
    events_of,
    item_counts,
    later,
    measure,
    parts_of,
    second_model,
)
from sparsenet.estimators.recommender_frames import LIBRARIES, as_frame, library_of, ranked_rows
from sparsenet.estimators.recommender_inputs import (
    allowed_items,
    basket_events,
    baskets_of,
    file_rules,
    history_events,
    popular_items,
    read_alike,
    refuse_arguments,
    user_numbers,
)
from sparsenet.estimators.recommender_saving import RecommenderSavingMixin, Saved
from sparsenet.estimators.transaction import all_or_nothing
from sparsenet.features.interactions import SPLITS, Interactions
from sparsenet.features.log_names import find_all
from sparsenet.features.logs import AUTO, Log, LogColumns, read_log
from sparsenet.kernels.types import F32, I32, I64
from sparsenet.selection.choose import Decision


class Recommender(RecommenderSavingMixin, FittedHtmlMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Recommend items to users, from a log of users and the items that they took.

    Train on a data frame, a file or a matrix. `recommend` takes users of the log, or the histories of new users, which
    need no training. `recommend_for` takes a basket of items. `similar` finds similar items. `fit` and `evaluate` split
    the log themselves.

    Parameters
    ----------
    keep_users : bool
        Keep the names and histories of the users. `recommend` by name, `partial_fit`, and `evaluate` without a log need
        them. A saved model then contains the whole log. With False it contains neither the names of users nor the log.
    output : {"auto", "pandas", "polars", "pyarrow", "arrays"}
        Library of the answers; ``"arrays"``: a dict of arrays. ``"auto"``: the library of the data frame passed to
        `fit`, and arrays for other logs.
    n_jobs : int or None
        Threads; None or -1: all available to this process, or OMP_NUM_THREADS; -2: all but one, and so on. The result
        does not depend on it.
    random_state : int, RandomState or None
        An integer makes models equal, bit for bit.
    verbose : bool, int or None
        Show the progress of reading and long training on stderr; 0: never; None: if stderr is a terminal.

    Attributes
    ----------
    users_ : ndarray of shape (n_users,), or None
        Names of the users, ascending; row numbers for a matrix. None with ``keep_users=False``.
    items_ : ndarray of shape (n_items,)
        Names of the items, ascending; column numbers for a matrix.
    item_counts_ : ndarray of shape (n_items,)
        Number of users who took each item.
    n_users_, n_items_, n_events_ : int
    columns_ : dict, or None
        The columns of the log: user, item, time and weight. None for a matrix.
    choices_ : dict
        The `Decision` on each choice that depends on the data.

    Examples
    --------
    >>> from sparsenet import Recommender
    >>> log = {
    ...     "user": ["ann", "ann", "bob", "bob", "bob", "cas", "cas", "dan"],
    ...     "item": ["tea", "pot", "tea", "pot", "cup", "pot", "cup", "tea"],
    ... }
    >>> model = Recommender(random_state=0).fit(log)
    >>> found = model.recommend(["ann", "dan"], k=1)
    >>> found["user"].tolist(), found["item"].tolist(), found["rank"].tolist()
    (['ann', 'dan'], ['cup', 'pot'], [1, 1])
    >>> model.recommend_for(["cup"], k=1)["item"].tolist()
    ['pot']
    """

    _fitted: FittedRecommender
    _saved: Saved
    _starts: I64

    def __init__(
        self,
        *,
        keep_users: bool = True,
        output: str = "auto",
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | int | None = None,
    ) -> None:
        self.keep_users = keep_users
        self.output = output
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # --- training ---

    def fit(
        self,
        log: Any,
        user: str | int = "user",
        item: str | int = "item",
        time: str | int | None = AUTO,
        weight: str | int | None = None,
        *,
        format: str = "auto",
        quotes: bool | None = None,
        delimiter: str | None = None,
        encoding: str | None = None,
        decimal: str | None = None,
        cache: None = None,
        executor: None = None,
        checkpoint: None = None,
        resume: bool = False,
    ) -> Self:
        """Train on a log, which has a row for each time that a user took an item.

        Parameters
        ----------
        log : data frame, mapping of columns, list of dicts, path, or sparse matrix
            A frame of pandas, Polars or Arrow; a CSV, TSV, JSONL or Parquet file; or a SciPy matrix of users by items,
            whose values are weights.
        user, item : str or int
            Columns of the names: strings or whole numbers. In later logs 17 and "17" are one name, too.
            Names from CSV and TSV are strings. Pass positions from 0 for a file without a header.
        time : str or int, optional
            Column of the times: dates, strings of dates such as 2024-12-31 or 31.12.2024 18:30, or numbers.
            Recommendations then depend on the order of events. Rows may be in any order.
            ``"auto"``: the column "time" or "timestamp" if the log has one. None: no times.
        weight : str or int, optional
            Column of amounts, such as plays, ratings or prices. Rows of 0 are left out. An item's amounts in a history
            add up, and without a column each row is 1. A held-out part of the log decides whether items with larger
            amounts count more, by the logarithm or in proportion: see ``choices_["amounts"]``.
        format, quotes, delimiter, encoding, decimal : optional
            How to read a file, as in `TableClassifier.fit`. The model reads further logs in the same way.
        cache, executor, checkpoint, resume : None
            Not supported: the log stays in memory. `sparsenet.temporal.NextItem` learns from a stream of events.
        """
        not_taken = {"cache": cache, "executor": executor, "checkpoint": checkpoint, "resume": resume}
        refuse_roads("a log", "use sparsenet.temporal.NextItem, which reads a stream", **not_taken)
        options, columns = self._check(), LogColumns.of(user, item, time, weight)
        rules = {"format": format, "quotes": quotes, "delimiter": delimiter, "encoding": encoding, "decimal": decimal}
        return self._train(read_log(log, columns, file_rules(self.verbose, **rules)), options, library_of(log))

    def partial_fit(self, log: Any, **file: Any) -> Self:
        """Learn further interactions, of known and new users and items.

        The model trains again on the whole log that it keeps, so the result equals `fit` on both logs.

        Parameters
        ----------
        log : as in `fit`
            With the columns that the model learnt from.
        **file : the arguments `format`, `quotes`, `delimiter`, `encoding` and `decimal` of `fit`.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(log, **file)
        kept, options = self._saved.kept_log("call fit on all interactions"), self._check()
        if sparse.issparse(log) and self._saved.columns is not None:
            raise ValueError("log must have the columns that the model learnt from, got a matrix")
        more = self._read(log, self._saved.columns, file)
        return self._train(kept.joined(more), options, self._saved.library)

    def _train(self, log: Log, options: RecommenderOptions, library: str) -> Self:
        seed = run_seed(self.random_state)
        with all_or_nothing(self):
            fitted = fit(log.interactions, options, seed=seed, threads=self._threads())
            kept = log if self.keep_users else None
            counts = item_counts(log.interactions)
            return self._adopt(Saved(fitted, log.items, counts, kept, log.columns, library, len(log.users), len(log)))

    # --- answers ---

    def recommend(
        self,
        users: Any = None,
        k: int = 10,
        exclude_seen: bool = True,
        only: Any = None,
        *,
        exclude: Any = None,
        history: Any = None,
        unknown: str = "error",
        **file: Any,
    ) -> Any:
        """Return the k best items for users, best first.

        Parameters
        ----------
        users : name, or sequence of names, optional
            None: all users of the log, or of `history`.
        k : int
            Items for each user; fewer where no more are left.
        exclude_seen : bool
            Leave out items of the user's history.
        only, exclude : sequence of names of items, or mask of shape (n_items,), optional
            Recommend only these items, or none of these. A mask has the order of `items_`.
        history : log, optional
            Events of users, in any form and with the columns that `fit` takes; a matrix has a column for each of
            `items_`. New users need no training. It replaces the stored histories, also for known users.
        unknown : {"error", "popular"}
            For users without a history: an error that names the first, or the most popular items.
        **file : arguments of `fit` for a `history` in a file.

        Returns
        -------
        frame
            The columns user, item, score and rank (from 1), in the library of `output`. Scores compare the items of one
            user; they are not probabilities.
        """
        fitted = self.fitted_
        may_be_new = choice("unknown", unknown, ("error", "popular")) == "popular"
        known, events, starts = self._histories(history, file)
        if users is None:
            numbers, names = np.arange(len(known)), known
        else:
            numbers, names = user_numbers(known, users, may_be_new=may_be_new)
        chosen = events_of(events, starts, numbers)
        best, scores = self._topk(fitted, chosen, k, exclude_seen, only, exclude)
        return self._frame({"user": names}, "item", best, scores)

    def recommend_for(
        self, items: Any, k: int = 10, exclude_seen: bool = True, only: Any = None, *, exclude: Any = None
    ) -> Any:
        """Return the k best items for an anonymous basket, or for each of several baskets.

        Parameters
        ----------
        items : sequence of names of items, or sequence of such
            A basket, the oldest item first, or several baskets. An empty one gets the most popular items. Unknown items
            are left out, with a warning.
        k, exclude_seen, only, exclude
            As in `recommend`.

        Returns
        -------
        frame
            As in `recommend`, without a user. For several baskets, the column basket has their number from 0.
        """
        fitted = self.fitted_
        baskets, several = baskets_of(items)
        events = basket_events(self.items_, baskets)
        best, scores = self._topk(fitted, events, k, exclude_seen, only, exclude)
        own: dict[str, NDArray[Any]] = {"basket": np.arange(len(baskets))} if several else {}
        return self._frame(own, "item", best, scores)

    def similar(self, items: Any, k: int = 10) -> Any:
        """Return the k items that are most similar to each of some items: the columns item, similar, score and rank."""
        fitted, k = self.fitted_, integer("k", k, 1)
        numbers = find_all(self.items_, items, "items", "it has no similar items")
        near, scores = fitted.similar(numbers.astype(np.int32), min(k, fitted.n_items), self._threads())
        return self._frame({"item": self.items_[numbers]}, "similar", near, scores)

    def evaluate(
        self,
        log: Any = None,
        split: str | None = None,
        k: int | Sequence[int] = 20,
        exclude_seen: bool = True,
        **file: Any,
    ) -> dict[str, float]:
        """Measure recommendations.

        Without a log, hold out a part of the log that the model keeps, train a second model on the other part, and
        measure that. With a later log of known users, measure this model on it. With a log and a split, predict a part
        of each user's history from the other part, without training: this is for new users.

        Parameters
        ----------
        log : as in `fit`, optional
        split : {"last", "time", "random"}, optional
            Hold out each user's last event, the last fifth of all events, or a random fifth of each user's items. The
            default without a log is "last", or "random" if there are no times.
        k : int, or sequence of int
            Measure at these ranks.
        exclude_seen : bool
            Never recommend items of the history. Such items then do not count as held out.
        **file : arguments of `fit` for a log in a file.

        Returns
        -------
        dict
            ``P@1``, and for each k ``recall@k``, ``nDCG@k``, ``MRR@k``, ``coverage@k`` (fraction of the items that are
            recommended to anyone) and ``popularity_bias@k`` (popularity of recommended items, relative to the items
            that users took; absent if the model knows none of these). Then ``users`` and ``events``: how many were
            measured; an item that a user took again counts once. ``unknown_items``: events among these with items that
            the model does not know, which count as missed. ``unknown_users``: users of a later log that the model does
            not know, who are left out. ``unknown_history``: the same for events of histories, with a split.
        """
        fitted, ks, exclude_seen = self.fitted_, as_ks(k), boolean("exclude_seen", exclude_seen)
        split = optional(choice, "split", split, SPLITS)
        how: dict[str, Any] = {"seed": run_seed(self.random_state), "threads": self._threads()}
        if log is None:
            refuse_arguments(file, "without a log there is no file to read")
            fitted, held = second_model(
                self._saved.kept_log("pass a log to evaluate on").interactions, split, self._check(), **how
            )
        elif split is not None:
            events = self._read(log, self._saved.columns, file).over(self.items_)
            held = parts_of(events, split, how["seed"], self.item_counts_)
        else:
            kept = self._saved.kept_log("pass split='random' to predict a part of each history from the other part")
            plain = replace(self._saved.columns or LogColumns(), time=None, weight=None)
            held = later(kept, self._read(log, plain, file), self.items_, self.item_counts_)
        return measure(fitted, held, ks, exclude_seen=exclude_seen, threads=self._threads())

    # --- reading ---

    def _read(self, log: Any, columns: LogColumns | None, file: dict[str, Any], argument: str = "log") -> Log:
        """Read a log with the given columns; answers name the users of a history as it does."""
        known, users = None if self._saved.columns is None else columns, None if argument == "history" else self.users_
        return read_alike(log, known, users, self.items_, file_rules(self.verbose, **file), argument)

    def _histories(self, history: Any, file: dict[str, Any]) -> tuple[NDArray[Any], Interactions, I64]:
        """Return the names of users, their events, and the position of the first event of each."""
        if history is None:
            refuse_arguments(file, "without a history there is no file to read")
            kept = self._saved.kept_log("pass what the users took as history=")
            return kept.users, kept.interactions, self._starts
        log = self._read(history, self._saved.columns, file, "history")
        events = history_events(self.items_, log)
        return log.users, events, events.starts

    def _topk(
        self, fitted: FittedRecommender, events: Interactions, k: Any, exclude_seen: Any, only: Any, exclude: Any
    ) -> tuple[I32, F32]:
        """Return the best items of each user of `events`, and their scores; without events, the most popular ones."""
        k, mask = min(integer("k", k, 1), fitted.n_items), allowed_items(self.items_, only, exclude)
        exclude_seen = boolean("exclude_seen", exclude_seen)
        best, scores = fitted.topk(events, k, exclude_seen=exclude_seen, only=mask, threads=self._threads())
        is_new = np.bincount(events.users, minlength=events.n_users) == 0
        if is_new.any():
            best[is_new], scores[is_new] = popular_items(self.item_counts_, self.n_users_, k, mask)
        return best, scores

    def _frame(self, owners: dict[str, NDArray[Any]], name: str, best: I32, scores: F32) -> Any:
        """Return answers as rows in the library of the output."""
        library = self._saved.library if self.output == AUTO else choice("output", self.output, LIBRARIES)
        return as_frame(ranked_rows(owners, name, self.items_, best, scores), library)

    # --- state ---

    @property
    def fitted_(self) -> FittedRecommender:
        """The engine's fitted model, a dataclass; its fields may change between versions."""
        check_is_fitted(self)
        return self._fitted

    def _adopt(self, saved: Saved) -> Self:
        self._fitted, self._saved = saved.fitted, saved
        self.items_, self.item_counts_ = saved.items, saved.item_counts
        self.users_ = None if saved.log is None else saved.log.users
        self.n_users_, self.n_items_, self.n_events_ = saved.n_users, len(saved.items), saved.n_events
        self.columns_ = None if saved.columns is None else saved.columns.names()
        self.choices_: dict[str, Decision] = dict(saved.fitted.choices)
        self._starts = np.zeros(1, np.int64) if saved.log is None else saved.log.interactions.starts
        return self

    def _check(self) -> RecommenderOptions:
        """Check all parameters; return the training options."""
        boolean("keep_users", self.keep_users)
        choice("output", self.output, (AUTO, *LIBRARIES))
        check_seed(self.random_state)
        self._threads()
        return RecommenderOptions(verbose=optional(switch, "verbose", self.verbose))

    def _threads(self) -> int:
        return n_jobs(self.n_jobs) or default_threads()

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")
