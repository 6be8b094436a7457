"""A stream of links: names, state and network, which learn batch by batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.machine import available_memory
from sparsenet.core.memory import announce
from sparsenet.features.logs import Kinds
from sparsenet.kernels.types import F32, F64, I32
from sparsenet.temporal.event_log import EventLog
from sparsenet.temporal.event_stream import EventStream
from sparsenet.temporal.feature_columns import FeatureColumns
from sparsenet.temporal.graph.graph_arrays import GraphArrays
from sparsenet.temporal.graph.link_network import embed, link_logits, rank_logits
from sparsenet.temporal.graph.link_scores import LinkScores, historical_negatives, random_negatives
from sparsenet.temporal.graph.link_training import LinkBatch, learn_links, train_batch
from sparsenet.temporal.graph.link_weights import LinkShape, LinkWeights
from sparsenet.temporal.graph.node_names import NodeNames, NodeRows
from sparsenet.temporal.name_slots import n_removed

#: Nodes that a query embeds at a time.
_QUERIES = 1024


@dataclass(frozen=True)
class LinkRules:
    """How a stream learns: links of a batch, fraction of attention dropped, learning rate, nodes, threads.

    With `announces`, the memory of the nodes is printed before it is taken.
    """

    batch_size: int
    dropout: float
    rate: float
    max_nodes: int
    threads: int
    announces: bool = False


class LinkStream(EventStream):
    """Learn links in the order of time, and score links.

    `clock` holds the number of events and batches, and the first and the last time.
    """

    def __init__(
        self,
        graph: GraphArrays,
        weights: LinkWeights,
        names: NodeNames,
        clock: F64,
        seed: int,
        event_columns: FeatureColumns,
    ) -> None:
        super().__init__()
        self.graph, self.weights, self.names, self.clock, self.seed = graph, weights, names, clock, seed
        self.event_columns = event_columns
        graph.make_room(names.end + 1)

    @classmethod
    def blank(
        cls, shape: LinkShape, neighbors: int, seed: int, event_columns: FeatureColumns, *, mutual: bool
    ) -> LinkStream:
        """Return a stream without links, and a network with random weights."""
        graph = GraphArrays.blank(0, shape.memory, neighbors, shape.features)
        names = NodeNames.blank(mutual=mutual)
        return cls(graph, LinkWeights.random(shape, seed), names, np.zeros(4), seed, event_columns)

    @property
    def kinds(self) -> Kinds:
        """The kinds of the names of sources and targets."""
        return self.names.sources.kind, self.names.targets.kind

    def _position(self) -> tuple[float, float]:
        return self.clock[0], self.clock[3]

    # --- learning ---

    def restart(self, log: EventLog, rules: LinkRules) -> None:
        """Forget all links, keep the weights, and give rows to the names of a log, as far as there is room.

        So each pass over the log draws negatives among all its targets, as training in the literature does.
        """
        with self.whole():
            self.graph.clear()
            self.clock[[0, 2, 3]] = 0
            self.names = NodeNames.blank(mutual=self.names.mutual)
            self._meet(log, rules)

    def learn(
        self,
        log: EventLog,
        rules: LinkRules,
        *,
        train: bool = True,
        scores: LinkScores | None = None,
        ranking: bool = False,
        on_events: Callable[[int], object] = lambda n: None,
    ) -> float:
        """Learn a log in batches, and return the mean loss; with `train` the weights, too.

        With `scores`, predict each batch before that. An error leaves the batches before it learnt, Ctrl-C also the
        running one. If there is no room for a node, the batch ends before it.
        """
        features = self.event_columns.encode(log.frame)[log.rows]
        total, first = 0.0, 0
        while first < len(log):
            before = self.names.end
            try:
                with self.whole():
                    rows = self._meet(log.part(first, len(log)), rules)
                part = slice(first, first + len(rows.sources))
                on_batch = (rows, log.times[part], features[part], rules)
                total += self._learn_known(*on_batch, train, scores, ranking, on_events)
            except BaseException:
                with self.lock:  # nodes of events that were not learnt
                    self.names.keep(np.arange(self.names.end) < max(before, self.graph.end))
                raise
            first = part.stop
            if first < len(log):
                with self.whole():
                    self._make_way()
        return total / max(len(log), 1)

    def _meet(self, log: EventLog, rules: LinkRules) -> NodeRows:
        """Give rows to new names, as far as there is room, and return the rows of their events.

        Raises MemoryError, before that, if the memory that is available does not suffice.
        """
        before = self.names.end
        rows = self.names.assign(log, rules.max_nodes)
        n = self.names.end + 1  # unknown nodes are read from the row behind the last one
        if n > len(self.graph):
            n = max(n, min(2 * len(self.graph), rules.max_nodes + 1))  # so that rows are seldom copied
            needed = {f"memory and last links of {n:,} nodes": self.graph.bytes_of(n)}
            problem = announce(needed, available_memory(), is_given=False, shown=rules.announces)
            if problem:
                self.names.keep(np.arange(self.names.end) < before)
                raise MemoryError(f"{problem}: lower max_nodes, memory or neighbors")
        self.graph.make_room(n)
        return rows

    def _make_way(self) -> None:
        """Forget an eighth of the nodes, those whose last link is the oldest, and the partner in the newest such link.

        So a node that stays keeps its last link, because the last link of its partner is as new. Links are compared by
        the order of events: their times may be equal.
        """
        last = self.graph.last_links(self.names.end)
        n = n_removed(len(last)) - 1
        kept = last > np.partition(last, n)[n]
        self.names.keep(kept)
        self.graph.keep(kept)

    def _learn_known(
        self,
        rows: NodeRows,
        times: F64,
        features: F32,
        rules: LinkRules,
        train: bool,
        scores: LinkScores | None,
        ranking: bool,
        on_events: Callable[[int], object],
    ) -> float:
        """Learn events whose nodes have rows, in batches, and return the sum of the losses."""
        total = 0.0
        for first in range(0, len(times), rules.batch_size):
            part = slice(first, min(first + rules.batch_size, len(times)))
            with self.whole():
                if not self.clock[0]:
                    self.clock[2] = times[0]
                since = times[part] - self.clock[2]
                batch = LinkBatch(rows.sources[part], rows.targets[part], since, features[part])
                total += len(batch) * self._learn(batch, rows, part, rules, train, scores, ranking)
                self.graph.touch(batch.sources, batch.targets, int(self.clock[0]))
                self.clock[0] += len(batch)
                self.clock[1] += 1
                self.clock[3] = times[part.stop - 1]
            on_events(len(batch))
        return total

    def _learn(
        self,
        batch: LinkBatch,
        rows: NodeRows,
        part: slice,
        rules: LinkRules,
        train: bool,
        scores: LinkScores | None,
        ranking: bool,
    ) -> float:
        rng = np.random.default_rng((self.seed, int(self.clock[1])))
        known = self.names.target_rows[: rows.known[part.stop]]
        negatives = known[rng.integers(0, len(known), len(batch))]
        if scores is not None:
            self._score(batch, known, int(rows.known[part.start]), rules.threads, scores, ranking)
        if train:
            given = (rng, rules.dropout, rules.rate, rules.threads)
            return train_batch(self.graph, self.weights, batch, negatives, *given)
        seeds = np.unique(np.concatenate((batch.sources, batch.targets)))
        learn_links(self.graph, batch, embed(self.graph, self.weights.views(), seeds, None, rules.threads))
        return 0.0

    def _score(
        self,
        batch: LinkBatch,
        known: I32,
        n_before: int,
        threads: int,
        scores: LinkScores,
        ranking: bool,
    ) -> None:
        """Predict the links of a batch from the state before, when there were `n_before` of the known targets."""
        candidates = known[:n_before]
        rng = np.random.default_rng((self.seed, int(self.clock[1]), 1))  # so that training draws what it draws alone
        negatives = random_negatives(batch.targets, known, rng)
        historical = historical_negatives(self.graph, batch.sources, batch.targets, negatives, rng)
        others = (batch.targets, negatives, historical)
        nodes = np.concatenate((batch.sources, *others, *((candidates,) if ranking else ())))
        seeds, rows = np.unique(nodes, return_inverse=True)
        views = self.weights.views()
        embeddings = embed(self.graph, views, seeds, None, threads).embeddings
        parts = np.split(rows.astype(np.int32), np.arange(1, 5) * len(batch))
        for found, targets in zip((scores.right, scores.random, scores.historical), parts[1:4], strict=True):
            found.append(link_logits(embeddings, views, parts[0], targets, threads))
        if ranking:
            logits = rank_logits(embeddings, views, parts[0], parts[4], threads)
            scores.add_ranks(logits, np.searchsorted(candidates, batch.targets))

    # --- answers ---

    def embeddings(self, rows: I32, threads: int) -> F32:
        """Return the embeddings of nodes."""
        found = np.empty((len(rows), self.graph.memory.shape[1]), np.float32)
        with self.lock:
            views = self.weights.views()
            for first in range(0, len(rows), _QUERIES):
                seeds, places = np.unique(rows[first : first + _QUERIES], return_inverse=True)
                found[first : first + _QUERIES] = embed(self.graph, views, seeds, None, threads).embeddings[places, :-1]
        return found

    def probabilities(self, sources: NDArray[Any], targets: NDArray[Any], threads: int) -> F32:
        """Return the probability of each link, given by the names of its nodes, against a random one."""
        found = np.empty(len(sources), np.float32)
        with self.lock:
            own, other = self.names.find(sources, targets=False), self.names.find(targets, targets=True)
            views = self.weights.views()
            for first in range(0, len(found), _QUERIES):
                part = slice(first, first + _QUERIES)
                seeds, rows = np.unique(np.concatenate((own[part], other[part])), return_inverse=True)
                embeddings = embed(self.graph, views, seeds, None, threads).embeddings
                first_rows, second_rows = np.split(rows.astype(np.int32), 2)
                logits = link_logits(embeddings, views, first_rows, second_rows, threads)
                found[part] = (1 + np.tanh(logits / 2)) / 2
        return found
