"""The state of a temporal graph: memory and last links of each node, in flat arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsenet import kernels
from sparsenet.kernels.types import F32, F64, I32, I64, Arrays, Bools


@dataclass(eq=False)
class GraphArrays:
    """A row for each node, and blank rows behind them.

    Attributes
    ----------
    memory : ndarray of shape (R, m), float32
        Without the newest link of the node, which updates it when it is read.
    updated : ndarray of shape (R,), float64
        The time of the last link in memory.
    neighbors, neighbor_times, neighbor_features : ndarray of shape (R, k), (R, k) and (R, k, f)
        Rings of the last links, as `sparsenet.kernels.remember_links` writes them.
    counts : ndarray of shape (R,), int64
        Links of each node so far.
    last_events : ndarray of shape (R,), int64
        The number of the event with the last link of the node, as `touch` sets it.
    """

    memory: F32
    updated: F64
    neighbors: I32
    neighbor_times: F64
    neighbor_features: F32
    counts: I64
    last_events: I64

    @classmethod
    def blank(cls, n: int, memory: int, neighbors: int, features: int) -> GraphArrays:
        """Return `n` nodes without links."""
        return cls(
            np.zeros((n, memory), np.float32),
            np.zeros(n),
            np.full((n, neighbors), -1, np.int32),
            np.zeros((n, neighbors)),
            np.zeros((n, neighbors, features), np.float32),
            np.zeros(n, np.int64),
            np.zeros(n, np.int64),
        )

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def n_features(self) -> int:
        """The number of features of a link."""
        return int(self.neighbor_features.shape[2])

    @property
    def end(self) -> int:
        """The number of rows up to the last node with a link."""
        return int(np.max(np.flatnonzero(self.counts), initial=-1)) + 1

    def bytes_of(self, n: int) -> int:
        """Return the bytes of `n` rows."""
        blank = GraphArrays.blank(1, self.memory.shape[1], self.neighbors.shape[1], self.n_features)
        return n * sum(int(array.nbytes) for array in vars(blank).values())

    def make_room(self, n: int) -> None:
        """Add blank rows until there are at least `n`."""
        more = n - len(self)
        if more > 0:
            blank = GraphArrays.blank(more, self.memory.shape[1], self.neighbors.shape[1], self.n_features)
            for name, rows in vars(blank).items():
                setattr(self, name, np.concatenate((getattr(self, name), rows)))

    def touch(self, sources: I32, targets: I32, first: int) -> None:
        """Set the last events of the nodes of a batch, whose links are numbered from `first` on."""
        numbers = first + np.arange(len(sources))
        for nodes in (sources, targets):
            np.maximum.at(self.last_events, nodes, numbers)

    def last_links(self, n: int) -> I64:
        """Return the event of the last link of each of the first `n` nodes, -1 without a link."""
        return np.where(self.counts[:n] > 0, self.last_events[:n], -1)

    def keep(self, kept: Bools) -> None:
        """Forget the other nodes and the links to them, and close the gaps between the rows."""
        old, new = np.flatnonzero(kept), np.full(len(self) + 1, -1, np.int32)  # -1 finds the last one
        new[old] = np.arange(len(old))
        for name, array in vars(self).items():
            array[: len(old)] = array[old]
            array[len(old) :] = -1 if name == "neighbors" else 0
        has_gone = (self.neighbors >= 0) & (new[self.neighbors] < 0)
        self.neighbors[...] = new[self.neighbors]
        self._close_gaps(np.flatnonzero(has_gone.any(axis=1)))

    def _close_gaps(self, nodes: I64) -> None:
        """Put the links that some nodes still have at the begin of their rings, the oldest first."""
        k = self.neighbors.shape[1]
        order = (self.counts[nodes, None] + np.arange(k)) % k
        order = np.take_along_axis(order, np.argsort(self.neighbors[nodes[:, None], order] < 0, 1, kind="stable"), 1)
        for name in ("neighbors", "neighbor_times", "neighbor_features"):
            array = getattr(self, name)
            array[nodes] = array[nodes[:, None], order]
        self.counts[nodes] = (self.neighbors[nodes] >= 0).sum(axis=1)

    def clear(self) -> None:
        """Forget all links."""
        for name, array in vars(self).items():
            array[...] = -1 if name == "neighbors" else 0

    def cut(self, n: int) -> Arrays:
        """Return the first `n` rows of all arrays, by name."""
        return {name: array[:n] for name, array in vars(self).items()}

    def remember(self, sources: I32, targets: I32, times: F64, features: F32) -> None:
        """Add links to the rings of their nodes, in order."""
        kernels.remember_links(
            self.neighbors,
            self.neighbor_times,
            self.neighbor_features,
            self.counts,
            sources=sources,
            targets=targets,
            times=times,
            features=features,
        )


@dataclass(frozen=True, eq=False)
class Neighborhood:
    """The nodes of a batch: seeds, whose embeddings are wanted, and their neighbors.

    Attributes
    ----------
    nodes : ndarray of shape (N,), int32
        Distinct and ascending.
    seeds : ndarray of shape (S,), int32
        Positions in `nodes`.
    links : ndarray of shape (S, k), int32
        Positions in `nodes`, -1 for no link.
    ages : ndarray of shape (S, k), float32
        The time between a link and the newest link of the neighbor.
    features : ndarray of shape (S, k, f), float32
    partners, elapsed, newest_features : ndarray of shape (N,), (N,) and (N, f)
        The newest link of each node: the other end, -1 for none, and the time since the link before.
    newest : ndarray of shape (N,), float64
        The time of the newest link.
    """

    nodes: I32
    seeds: I32
    links: I32
    ages: F32
    features: F32
    partners: I32
    elapsed: F32
    newest_features: F32
    newest: F64

    @classmethod
    def of(cls, graph: GraphArrays, seeds: I32) -> Neighborhood:
        """Gather the neighborhood of distinct, ascending nodes."""
        neighbors = graph.neighbors[seeds]
        nodes = np.unique(np.concatenate((seeds, neighbors[neighbors >= 0])))
        links = np.searchsorted(nodes, neighbors).astype(np.int32)
        links[neighbors < 0] = -1
        place = (graph.counts[nodes] - 1) % graph.neighbors.shape[1]
        newest = graph.neighbor_times[nodes, place]
        ages = (newest[links] - graph.neighbor_times[seeds]).astype(np.float32)
        ages[neighbors < 0] = 0
        return cls(
            nodes,
            np.searchsorted(nodes, seeds).astype(np.int32),
            links,
            ages,
            graph.neighbor_features[seeds],
            graph.neighbors[nodes, place],
            (newest - graph.updated[nodes]).astype(np.float32),
            graph.neighbor_features[nodes, place],
            newest,
        )
