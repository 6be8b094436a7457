"""`NextItem`: what a user takes next, from a stream of events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from sparsenet.core.validation import MAX_WIDTH, boolean, choice, integer
from sparsenet.data.frame_columns import as_column
from sparsenet.estimators.recommender_frames import LIBRARIES, as_frame, library_of
from sparsenet.estimators.recommender_inputs import file_rules
from sparsenet.features.logs import AUTO, LogColumns
from sparsenet.kernels.types import I64
from sparsenet.temporal.event_log import query_names, query_times, read_questions
from sparsenet.temporal.feature_columns import FeatureColumns, ItemTable
from sparsenet.temporal.rank_measures import rank_measures
from sparsenet.temporal.ranking.stream import Answers, Stream
from sparsenet.temporal.ranking.stream_arrays import MAX_HISTORY
from sparsenet.temporal.ranking.stream_rules import RULES, StreamRules
from sparsenet.temporal.ranking.stream_saving import SavedStream, pack, unpack
from sparsenet.temporal.stream_model import StreamModel


class NextItem(StreamModel):
    """Predict the next item of a user, from a stream of events: who took what, and when.

    The model learns from each event as it comes, and its answers use all events up to now. New users and items take
    part from their first event. The state has a bounded size.

    Parameters
    ----------
    history : int
        Distinct items that are remembered of each user, the latest ones, up to 48.
    refresh : int
        Learn to predict from a state that is up to this many events old. 1: the state is always up to date. If you
        call `update` every 200 events only, 200 makes better predictions.
    mutual : bool
        Users and items are the same things, such as people who write to each other. Then an event also enters the
        history of the one who receives it, who may answer.
    max_users, max_items : int
        Users and items that are remembered at once. When there are more, an eighth is forgotten: those without an event
        for the longest time. A user takes about 850 bytes and its name, an item 210 bytes and its name.
    output : {"auto", "pandas", "polars", "pyarrow", "arrays"}
        Library of the answers; ``"arrays"``: a dict of arrays. ``"auto"``: the library of the data frame passed to
        `fit`, and arrays for other logs.
    n_jobs : int or None
        Threads of `topk`; None or -1: all available to this process. Learning takes one event after the other, on one
        thread. The result does not depend on it.

    Attributes
    ----------
    n_events_, n_users_, n_items_ : int
        Events learnt, and users and items that are remembered.
    users_ : ndarray
        Names of the users that are remembered.
    columns_ : dict
        The columns of the log: user, item and time.
    features_ : dict
        The columns of features: of events and of items.

    Examples
    --------
    >>> from sparsenet.temporal import NextItem
    >>> log = {"user": ["ann", "bob", "ann", "bob", "ann"], "item": ["tea", "pot", "cup", "pot", "cup"]}
    >>> model = NextItem(history=20).fit(log | {"time": [1, 2, 3, 4, 5]})
    >>> model.update({"user": ["cas"], "item": ["pot"], "time": [6]}).n_users_
    3
    >>> model.topk("bob", k=1)["item"].tolist()
    ['pot']
    """

    _rules: StreamRules = RULES  # tests and benchmarks set others
    _saved: SavedStream
    _pack, _unpacked = staticmethod(pack), staticmethod(unpack)

    def __init__(
        self,
        *,
        history: int = 20,
        refresh: int = 1,
        mutual: bool = False,
        max_users: int = 1_000_000,
        max_items: int = 1_000_000,
        output: str = "auto",
        n_jobs: int | None = None,
    ) -> None:
        self.history = history
        self.refresh = refresh
        self.mutual = mutual
        self.max_users = max_users
        self.max_items = max_items
        self.output = output
        self.n_jobs = n_jobs

    # --- learning ---

    def fit(
        self,
        log: Any,
        user: str | int = "user",
        item: str | int = "item",
        time: str | int | None = AUTO,
        *,
        event_features: Sequence[str] | Sequence[int] = (),
        item_features: Any = None,
        sort: bool = False,
        **file: Any,
    ) -> Self:
        """Learn from a log, which has a row for each event.

        Parameters
        ----------
        log : data frame, mapping of columns, list of dicts, or path
            A frame of pandas, Polars or Arrow; columns as arrays; or a CSV, TSV, JSONL or Parquet file. Events that
            occur twice count twice.
        user, item : str or int
            Columns of the names: strings or whole numbers. A user and an item may have the same name. Pass positions
            from 0 for a file without a header.
        time : str or int, optional
            Column of the times: dates, strings of dates, or numbers. ``"auto"``: the column "time" or "timestamp".
            None: the rows are in order, and the time of an event is its number.
        event_features : sequence of str or int
            Further columns of the log that describe an event, such as an amount: numbers, or else categories. The
            model predicts from the user's earlier events only. Later logs need these columns, too.
        item_features : data frame, mapping of columns, list of dicts, or path, optional
            Descriptions of items, one row each: the column `item`, and columns of numbers or categories. Items without
            a row have no features.
        sort : bool
            Sort the rows by time. By default a row before the one above it is an error that names the row.
        **file : `format`, `quotes`, `delimiter`, `encoding` and `decimal`, as in `Recommender.fit`.
        """
        self._check()
        columns = LogColumns.of(user, item, time, event_features=event_features)
        events = self._read(log, columns, sort, file)
        if not len(events):
            raise events.frame.error("holds no rows: a log has a row for each event")
        table = (
            ItemTable.empty()
            if item_features is None
            else ItemTable.learn(item_features, columns.item, events.item_names.dtype.kind)
        )
        stream = Stream.blank(
            self.history,
            int(self.max_users),
            int(self.max_items),
            mutual=self.mutual,
            event_columns=FeatureColumns.learn(events.frame, events.columns.features),
            item_table=table,
            rules=self._rules,
        )
        stream.learn(events, self.refresh, ranking=False)
        return self._adopt(SavedStream(stream, events.columns, library_of(log)))

    def update(self, log: Any, *, item_features: Any = None, sort: bool = False, **file: Any) -> Self:
        """Learn further events, one or many, which must not be older than the last one learnt.

        The result is the same however the events are divided among calls, unless `refresh` is above 1: then the state
        is refreshed at the end of each call, too.

        Parameters
        ----------
        log, sort, **file : as in `fit`
            With the columns that the model learnt from. A dict of cells is one event. An error in the log leaves the
            model unchanged.
        item_features : as in `fit`, optional
            Further items, and new features of known ones, for models fitted with item features.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(log, item_features=item_features, sort=sort, **file)
        self._learn(log, sort, file, ranking=False, item_features=item_features)
        return self

    def score(self, log: Any, *, sort: bool = False, **file: Any) -> dict[str, float]:
        """Predict each event of a later log, then learn it, and measure the predictions.

        Every item that the model knows is ranked, and an item that it does not know yet counts as missed. The model has
        learnt the log afterwards, as by `update`.

        Parameters
        ----------
        log, sort, **file : as in `update`

        Returns
        -------
        dict
            ``MRR``, the mean of one over the rank of the right item, 0 for a missed one. ``recall@1`` and
            ``recall@10``, the part of the events whose item is at most at this rank.
        """
        check_is_fitted(self)
        return rank_measures(self._learn(log, sort, file, ranking=True))

    # --- answers ---

    def topk(self, users: Any, time: Any = None, k: int = 10) -> Any:
        """Return the k items that are most probably next, best first.

        Parameters
        ----------
        users : name, or sequence of names
            Unknown users get what users without a history take.
        time : optional
            When: one time, or one for each user. None: the time of the last event learnt.
        k : int
            Items for each user, up to 100; fewer if the model has fewer candidates: items of the user's history, items
            that follow these, and popular items.

        Returns
        -------
        frame
            The columns user, item, score and rank (from 1), in the library of `output`. Scores are probabilities among
            the candidates of a user.
        """
        stream, k = self._stream, integer("k", k, 1, 100)
        names = query_names(users, "users")
        with stream.lock:
            times = query_times(time, len(names), stream.arrays.clock[2], self._saved.columns.are_dates)
            answers = stream.rank(names, times, k, self._threads())
        return self._frame({"user": names[answers.rows], "item": answers.names}, answers)

    def read_questions(self, log: Any, **file: Any) -> dict[str, Any]:
        """Read the users of a log, and its times if it has any: the arguments `users` and `time` of `topk`.

        Parameters
        ----------
        log, **file : as in `fit`
            With the column of users that the model learnt from. Rows may be in any order, but not before the last event
            learnt. Items and features are not read.
        """
        stream, columns = self._stream, self._saved.columns
        return read_questions(log, columns, file_rules(False, **file), stream.newest)

    def similar(self, items: Any, k: int = 10) -> Any:
        """Return the items that most often follow each of some items: the columns item, similar, score and rank.

        A score is the fraction of recent moves from the item that led to the similar one.
        """
        stream, k = self._stream, integer("k", k, 1, 100)
        names = query_names(items, "items")
        answers = stream.successors(names, k)
        return self._frame({"item": names[answers.rows], "similar": answers.names}, answers)

    # --- state ---

    @property
    def n_users_(self) -> int:
        """The number of users that are remembered."""
        return len(self._stream.users)

    @property
    def users_(self) -> Any:
        """The names of the users that are remembered, ascending."""
        with self._stream.lock:
            return as_column(sorted(name for name in self._stream.users.names if name is not None), "users_")

    @property
    def n_items_(self) -> int:
        """The number of items that are remembered."""
        return len(self._stream.items)

    @property
    def columns_(self) -> dict[str, str | None]:
        """The columns of the log."""
        check_is_fitted(self)
        names = self._saved.columns.names()
        return {argument: names[argument] for argument in ("user", "item", "time")}

    @property
    def features_(self) -> dict[str, list[str]]:
        """The columns that describe events, and the columns that describe items."""
        stream = self._stream
        of = {"events": stream.event_columns, "items": stream.item_table.columns}
        return {name: [column.name for column in found.columns] for name, found in of.items()}

    @property
    def _stream(self) -> Stream:
        check_is_fitted(self)
        return self._saved.stream

    def _learn(self, log: Any, sort: Any, file: dict[str, Any], *, ranking: bool, item_features: Any = None) -> I64:
        self._check()
        stream = self._stream
        with stream.writing:
            columns = self._saved.columns
            events = self._read(log, columns, sort, file, stream)
            if ranking and not len(events):
                raise events.frame.error("holds no rows, so there is nothing to measure")
            table = None
            if item_features is not None:
                table = stream.item_table.with_more(item_features, columns.item, stream.items.kind)
            return stream.learn(events, self.refresh, ranking=ranking, item_table=table)

    def _frame(self, columns: dict[str, Any], answers: Answers) -> Any:
        library = self._saved.library if self.output == AUTO else choice("output", self.output, LIBRARIES)
        return as_frame({**columns, "score": answers.shares, "rank": answers.ranks}, library)

    def _facts(self) -> Iterator[str]:
        """Yield the size of the state."""
        yield f"{self.n_events_:,} events of {self.n_users_:,} users and {self.n_items_:,} items"

    def _check(self) -> None:
        """Check all parameters."""
        integer("history", self.history, 1, MAX_HISTORY)
        integer("refresh", self.refresh, 1, MAX_WIDTH)
        for name in ("max_users", "max_items"):
            integer(name, getattr(self, name), 1 + boolean("mutual", self.mutual), MAX_WIDTH)
        choice("output", self.output, (AUTO, *LIBRARIES))
        self._threads()
