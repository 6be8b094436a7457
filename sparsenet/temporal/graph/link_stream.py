"""A stream of links: names, state and network, which learn batch by batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.engines.network.training.interrupts import deferred_interrupt
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

#: Nodes that a query embeds at a time.
_QUERIES = 1024


@dataclass(frozen=True)
class LinkRules:
    """How a stream learns: links of a batch, fraction of attention dropped, learning rate, threads."""

    batch_size: int
    dropout: float
    rate: float
    threads: int


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
        graph.make_room(names.end + 1)  # unknown nodes are read from the row behind the last one

    @classmethod
    def blank(
        cls, shape: LinkShape, neighbors: int, seed: int, event_columns: FeatureColumns, *, mutual: bool
    ) -> LinkStream:
        """Return a stream without links, and a network with random weights."""
        graph = GraphArrays.blank(0, shape.memory, neighbors, shape.features)
        names = NodeNames.blank(mutual=mutual)
        return cls(graph, LinkWeights.random(shape, seed), names, np.zeros(4), seed, event_columns)

    def _position(self) -> tuple[float, float]:
        return self.clock[0], self.clock[3]

    # --- learning ---

    def restart(self, log: EventLog) -> None:
        """Forget all links, keep names and weights, and give rows to the names of a log.

        So each pass over the log draws negatives among all its targets, as training in the literature does.
        """
        with self.lock:
            self.graph.clear()
            self.clock[[0, 2, 3]] = 0
            self.names.assign(log)

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
        running one.
        """
        features = self.event_columns.encode(log.frame)[log.rows]
        with self.lock:
            rows = self.names.assign(log)
            self.graph.make_room(self.names.end + 1)
            if len(log) and not self.clock[0]:
                self.clock[2] = log.times[0]
        total = 0.0
        for first in range(0, len(log), rules.batch_size):
            part = slice(first, min(first + rules.batch_size, len(log)))
            batch = LinkBatch(rows.sources[part], rows.targets[part], log.times[part] - self.clock[2], features[part])
            with self.lock, deferred_interrupt() as interrupted:
                total += len(batch) * self._learn(batch, rows, part, rules, train, scores, ranking)
                self.clock[0] += len(batch)
                self.clock[1] += 1
                self.clock[3] = log.times[part.stop - 1]
            if interrupted.is_set():
                raise KeyboardInterrupt
            on_events(len(batch))
        return total / max(len(log), 1)

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
