"""`TemporalLinkPredictor` predicts links between nodes by a temporal graph network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sparsenet.core.progress import is_wanted, parts_done
from sparsenet.core.seeds import check_seed, run_seed
from sparsenet.core.validation import MAX_WIDTH, boolean, choice, integer, optional, real, switch
from sparsenet.estimators.recommender_inputs import file_rules
from sparsenet.features.logs import AUTO
from sparsenet.kernels.types import F32
from sparsenet.temporal.event_log import query_names, query_times, read_links
from sparsenet.temporal.feature_columns import FeatureColumns
from sparsenet.temporal.graph.link_columns import LinkColumns
from sparsenet.temporal.graph.link_saving import SavedLinks, pack, unpack
from sparsenet.temporal.graph.link_scores import LinkScores
from sparsenet.temporal.graph.link_stream import LinkRules, LinkStream
from sparsenet.temporal.graph.link_weights import HEADS, LinkShape
from sparsenet.temporal.stream_model import StreamModel


class TemporalLinkPredictor(StreamModel):
    """Predict links between nodes by a temporal graph network (TGN-attn), from a stream of events.

    Each node has a memory, which a gated recurrent unit updates at each of its links. A node attends to its last links,
    and a small network scores two nodes. It is the model of the example of PyTorch Geometric, for CPUs. Nodes without
    any link have a score, too.

    Parameters
    ----------
    memory : int
        Units of the memory of a node, of the time encoding and of the embedding; an even number.
    neighbors : int
        Last links of a node that it attends to.
    batch_size : int
        Links that are predicted and learnt together. Small batches are more accurate, because the memory is fresh and
        there are more steps, and learn fewer events a second.
    epochs : int
        Passes of `fit` over the log.
    learning_rate : float
        Of Adam.
    dropout : float
        Fraction of attention that is left out in training, below 1.
    mutual : bool
        Sources and targets are the same things, such as people who write to each other. Otherwise a source and a target
        of the same name are two nodes.
    max_nodes : int
        Nodes that are remembered at once. When there are more, an eighth is forgotten: those without a link for the
        longest time. A node takes ``4 * memory + (12 + 4 * f) * neighbors + 24`` bytes and its name, with f features of
        a link.
    n_jobs : int or None
        Threads; None or -1: all available to this process. The result does not depend on it.
    random_state : int, RandomState or None
        Seed of the weights, negatives and dropout.
    verbose : bool or None
        Show the memory that training takes, and a progress bar; None: on a terminal.

    Attributes
    ----------
    n_events_, n_nodes_ : int
        Events learnt, and nodes that are remembered.
    loss_ : float
        Mean loss of the last pass of `fit`: binary cross-entropy of the links plus that of one negative each.
    columns_ : dict
        The columns of the log: source, target and time.
    features_ : dict
        The columns of features, of events.

    Examples
    --------
    >>> from sparsenet.temporal import TemporalLinkPredictor
    >>> log = {"source": ["ann", "bob", "ann"], "target": ["tea", "pot", "cup"], "time": [1, 2, 3]}
    >>> model = TemporalLinkPredictor(memory=8, random_state=0).fit(log)
    >>> model.update({"source": "cas", "target": "tea", "time": 4}).n_nodes_
    6
    >>> model.predict_proba(["ann", "dan"], ["tea", "tea"]).shape
    (2,)
    """

    _saved: SavedLinks
    _pack, _unpacked = staticmethod(pack), staticmethod(unpack)

    def __init__(
        self,
        *,
        memory: int = 100,
        neighbors: int = 10,
        batch_size: int = 10,
        epochs: int = 1,
        learning_rate: float = 1e-4,
        dropout: float = 0.1,
        mutual: bool = False,
        max_nodes: int = 1_000_000,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | None = None,
    ) -> None:
        self.memory = memory
        self.neighbors = neighbors
        self.batch_size = batch_size
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.dropout = dropout
        self.mutual = mutual
        self.max_nodes = max_nodes
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # --- learning ---

    def fit(
        self,
        log: Any,
        source: str | int = "source",
        target: str | int = "target",
        time: str | int | None = AUTO,
        event_features: Sequence[str] | Sequence[int] = (),
        *,
        sort: bool = False,
        **file: Any,
    ) -> Self:
        """Learn from a log, which has a row for each event.

        Each pass draws a negative for each link among all targets of the log.

        Parameters
        ----------
        log : data frame, mapping of columns, list of dicts, or path
            As in `NextItem.fit`. An event that occurs twice counts twice. A link of a node to itself counts as two
            links of this node.
        source, target : str or int
            Columns of the names: strings or whole numbers. Pass positions from 0 for a file without a header.
        time : str or int, optional
            Column of the times: dates, strings of dates, or numbers. ``"auto"``: the column "time" or "timestamp".
            None: the rows are in order, and the time of an event is its number.
        event_features : sequence of str or int
            Further columns that describe an event: numbers, which are scaled, or else categories. Later logs need these
            columns, too.
        sort : bool
            Sort the rows by time. By default a row before the one above it is an error that names the row.
        **file : `format`, `quotes`, `delimiter`, `encoding` and `decimal`, as in `Recommender.fit`.
        """
        self._check()
        columns = LinkColumns.of(source, target, time, event_features=event_features)
        events = self._read(log, columns, sort, file)
        if not len(events):
            raise events.frame.error("holds no rows: a log has a row for each event")
        event_columns = FeatureColumns.learn(events.frame, events.columns.features)
        shape, seed = LinkShape(self.memory, event_columns.n_features), run_seed(self.random_state)
        stream = LinkStream.blank(shape, self.neighbors, seed, event_columns, mutual=self.mutual)
        rules = self._rules(announces=is_wanted(self.verbose))
        with parts_done(len(events) * self.epochs, "learning links", self.verbose) as on_events:
            for _ in range(self.epochs):
                stream.restart(events, rules)
                loss = stream.learn(events, rules, on_events=on_events)
                rules = replace(rules, announces=False)
        self.loss_ = loss
        learnt: Any = events.columns
        return self._adopt(SavedLinks(stream, learnt))

    def update(self, log: Any, *, train: bool = True, sort: bool = False, **file: Any) -> Self:
        """Learn further events, one or many, which must not be older than the last one learnt.

        The end of a call also ends a batch.

        Parameters
        ----------
        log, sort, **file : as in `fit`
            With the columns that the model learnt from. A dict of cells is one event. An error in the log leaves the
            model unchanged.
        train : bool
            Whether the weights learn, too. Memory and neighbors always do.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(log, sort=sort, **file)
        self._learn(log, train, sort, file)
        return self

    def score(
        self, log: Any, *, train: bool = True, ranking: bool = True, sort: bool = False, **file: Any
    ) -> dict[str, float]:
        """Predict each batch of a later log, then learn it, and measure the predictions.

        The model has learnt the log afterwards, as by `update`.

        Parameters
        ----------
        log, train, sort, **file : as in `update`
        ranking : bool
            Rank the right target of each event among all known ones. Each batch then embeds all targets, which takes
            long if there are many.

        Returns
        -------
        dict
            ``AP`` and ``AUC``: average precision and area under the ROC curve of each link against one of the same
            source to another target, drawn at random. ``AP historical`` and ``AUC historical``: to another of the last
            targets of the source, or a random one if the source has no other. With `ranking`, ``MRR``, ``recall@1`` and
            ``recall@10`` among all targets; a target without earlier events is a miss.
        """
        check_is_fitted(self)
        scores = LinkScores()
        self._learn(log, train, sort, file, scores=scores, ranking=boolean("ranking", ranking))
        return scores.measures()

    # --- answers ---

    def predict_proba(self, source: Any, target: Any, time: Any = None) -> F32:
        """Return the probability of each link, against a link to a random target.

        Parameters
        ----------
        source, target : name, or sequence of names
            Equally many, or one of either. Unknown names are nodes without a link.
        time : optional
            When: one time, or one for each link, not before the last event learnt. As in the example of PyTorch
            Geometric, probabilities depend on the events before, and not on the time since.
        """
        stream = self._stream
        sources, targets = query_names(source, "source"), query_names(target, "target")
        n = max(len(sources), len(targets)) if len(sources) and len(targets) else 0
        if {len(sources), len(targets)} - {1, n}:
            raise ValueError(f"source and target must have one length, got {len(sources)} and {len(targets)}")
        with stream.lock:
            query_times(time, n, stream.clock[3], self._saved.columns.are_dates)
            return stream.probabilities(np.resize(sources, n), np.resize(targets, n), self._threads())

    def predict_log(self, log: Any, **file: Any) -> dict[str, Any]:
        """Return the links of a log with their probabilities, as `predict_proba` does.

        Parameters
        ----------
        log, **file : as in `fit`
            With the columns of the sources and the targets; others are not read.

        Returns
        -------
        dict of ndarray
            ``source``, ``target`` and ``probability`` of each row.
        """
        check_is_fitted(self)
        links = read_links(log, self._saved.columns, file_rules(False, **file))
        return links | {"probability": self.predict_proba(links["source"], links["target"])}

    def embeddings(self, nodes: Any, time: Any = None, *, of: str = "source") -> F32:
        """Return the embeddings of nodes, a row each.

        Parameters
        ----------
        nodes : name, or sequence of names
            Unknown names are nodes without a link.
        time : optional
            As in `predict_proba`.
        of : {"source", "target"}
            The kind of the names.
        """
        stream, names = self._stream, query_names(nodes, "nodes")
        is_target = choice("of", of, ("source", "target")) == "target"
        with stream.lock:
            query_times(time, len(names), stream.clock[3], self._saved.columns.are_dates)
            return stream.embeddings(stream.names.find(names, targets=is_target), self._threads())

    # --- state ---

    @property
    def n_nodes_(self) -> int:
        """The number of nodes."""
        return self._stream.names.end

    @property
    def columns_(self) -> dict[str, str | None]:
        """The columns of the log."""
        check_is_fitted(self)
        names = self._saved.columns.names()
        return {argument: names[argument] for argument in ("source", "target", "time")}

    @property
    def features_(self) -> dict[str, list[str]]:
        """The columns that describe events."""
        return {"events": [column.name for column in self._stream.event_columns.columns]}

    @property
    def _stream(self) -> LinkStream:
        check_is_fitted(self)
        return self._saved.stream

    def _learn(self, log: Any, train: Any, sort: Any, file: dict[str, Any], **measuring: Any) -> None:
        self._check()
        stream, train = self._stream, boolean("train", train)
        with stream.writing:
            events = self._read(log, self._saved.columns, sort, file, stream)
            if measuring and not len(events):
                raise events.frame.error("holds no rows, so there is nothing to measure")
            with parts_done(len(events), "learning links", self.verbose) as on_events:
                stream.learn(events, self._rules(), train=train, on_events=on_events, **measuring)

    def _rules(self, *, announces: bool = False) -> LinkRules:
        sizes = (self.batch_size, self.dropout, self.learning_rate, self.max_nodes)
        return LinkRules(*sizes, self._threads(), announces)

    def _facts(self) -> Iterator[str]:
        """Yield the size of the state."""
        yield f"{self.n_events_:,} events of {self.n_nodes_:,} nodes"

    def _check(self) -> None:
        """Check all parameters."""
        if integer("memory", self.memory, HEADS, MAX_WIDTH) % HEADS:
            raise ValueError(f"memory must be a multiple of {HEADS}, the heads of attention, got {self.memory}")
        integer("neighbors", self.neighbors, 1, MAX_WIDTH)
        integer("batch_size", self.batch_size, 1, MAX_WIDTH)
        integer("epochs", self.epochs, 1)
        integer("max_nodes", self.max_nodes, 2, MAX_WIDTH)
        real("learning_rate", self.learning_rate, 0, np.inf, open_low=True, open_high=True)
        real("dropout", self.dropout, 0, 1, open_high=True)
        boolean("mutual", self.mutual)
        optional(switch, "verbose", self.verbose)
        check_seed(self.random_state)
        self._threads()
