"""The temporal graph network of PyTorch Geometric, with the modules and settings of its example, for `bench.tgn`.

    python -m bench.peers.pyg JOB

The job is a JSON file: the file of the log, the settings of the network, and for each run its seed, batch size, epochs,
and numbers of training and of all events; then the folder of the results. `exact` mends two faults of the package. It
prints a line when a run is done, and waits for one before each, so that runs of two systems can take turns.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.nn import TGNMemory, TransformerConv
from torch_geometric.nn.models.tgn import IdentityMessage, LastAggregator, LastNeighborLoader

NEIGHBORS, HEADS, RATE = 10, 2, 1e-4


class LastMessage(LastAggregator):
    """The last message of each node, and zeros for a node without one.

    In torch-geometric 2.8.1, `LastAggregator` gives a node without a message that of another node if there are more
    messages than nodes.
    """

    def forward(self, msg: Any, index: Any, t: Any, dim_size: int) -> Any:
        has_one = torch.zeros(dim_size, 1, dtype=torch.bool)
        has_one[index] = True
        return torch.where(has_one, super().forward(msg, index, t, dim_size), torch.zeros(()))


class LastNeighbors(LastNeighborLoader):
    """The last neighbors of each node.

    In torch-geometric 2.8.1, `LastNeighborLoader` keeps any of a node's events if it has more in a batch than there is
    room for, because it sorts them in an unstable way.
    """

    def insert(self, src: Any, dst: Any) -> None:
        for first in range(0, len(src), self.size):
            super().insert(src[first : first + self.size], dst[first : first + self.size])


class Network(torch.nn.Module):
    """Memory, attention over the last neighbors, and the link predictor."""

    def __init__(self, n_nodes: int, n_features: int, width: int, dropout: float, aggregator: Any) -> None:
        super().__init__()
        message = IdentityMessage(n_features, width, width)
        self.memory = TGNMemory(n_nodes, n_features, width, width, message, aggregator())
        self.attention = TransformerConv(
            width, width // HEADS, heads=HEADS, dropout=dropout, edge_dim=width + n_features
        )
        self.source, self.target = torch.nn.Linear(width, width), torch.nn.Linear(width, width)
        self.output = torch.nn.Linear(width, 1)

    def embed(self, nodes: Any, edges: Any, times: Any, features: Any) -> Any:
        memory, updated = self.memory(nodes)
        ages = updated[edges[0]] - times
        encoded = torch.cat([self.memory.time_enc(ages.to(memory.dtype)), features], dim=1)
        return self.attention(memory, edges, encoded)

    def score(self, sources: Any, targets: Any) -> Any:
        return self.output((self.source(sources) + self.target(targets)).relu())[:, 0]

    def set_weights(self, given: Any) -> None:
        """Take the weights of `sparsenet.temporal.graph.link_weights`: inputs by outputs, then biases."""
        encoder, gru, attention = self.memory.time_enc.lin, self.memory.gru, self.attention
        put(encoder.weight, given["time_weights"][0][:, None])
        put(encoder.bias, given["time_weights"][1])
        for name, own in (("message_gates", "ih"), ("memory_gates", "hh")):
            put(getattr(gru, f"weight_{own}"), given[name][:-1].T)
            put(getattr(gru, f"bias_{own}"), given[name][-1])
        query, edge = (np.concatenate(list(given[name]), axis=1) for name in ("query", "edge"))
        key, value = np.split(given["key_value"], 2, axis=1)
        put(attention.lin_edge.weight, edge.T)
        layers = {attention.lin_query: query, attention.lin_key: key, attention.lin_value: value}
        layers |= {attention.lin_skip: given["skip"], self.source: given["link_source"]}
        layers |= {self.target: given["link_target"], self.output: given["link_output"]}
        for layer, weights in layers.items():
            put(layer.weight, weights[:-1].T)
            put(layer.bias, weights[-1])


def put(parameter: Any, values: np.ndarray) -> None:
    with torch.no_grad():
        parameter.copy_(torch.from_numpy(np.ascontiguousarray(values)))


class Run:
    """A network in training, on a stream of batches."""

    def __init__(self, log: Any, width: int, dropout: float, exact: bool, at_reading: bool = False) -> None:
        self.at_reading = at_reading
        self.log = {name: torch.from_numpy(log[name]) for name in ("sources", "targets", "times", "features")}
        self.n_nodes = int(log["n_nodes"])
        self.network = Network(
            self.n_nodes, log["features"].shape[1], width, dropout, LastMessage if exact else LastAggregator
        )
        if "message_gates" in log:
            self.network.set_weights(log)
        self.neighbors = (LastNeighbors if exact else LastNeighborLoader)(self.n_nodes, NEIGHBORS)
        self.place = torch.empty(self.n_nodes, dtype=torch.long)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=RATE)
        self.loss = torch.nn.BCEWithLogitsLoss()

    def start(self) -> None:
        self.network.train()
        self.network.memory.reset_state()
        self.neighbors.reset_state()

    def embeddings(self, seeds: Any) -> Any:
        """Return the embeddings of nodes, at the places that `place` holds."""
        nodes, edges, events = self.neighbors(seeds.unique())
        self.place[nodes] = torch.arange(len(nodes))
        return self.network.embed(nodes, edges, self.log["times"][events], self.log["features"][events])

    def learn(self, rows: slice) -> None:
        events = [self.log[name][rows] for name in ("sources", "targets", "times", "features")]
        self.network.memory.update_state(*events)
        self.neighbors.insert(events[0], events[1])

    def step(self, rows: slice, negatives: Any) -> float:
        self.optimizer.zero_grad()
        sources, targets = self.log["sources"][rows], self.log["targets"][rows]
        found = self.embeddings(torch.cat([sources, targets, negatives]))
        own = found[self.place[sources]]
        right, wrong = (self.network.score(own, found[self.place[other]]) for other in (targets, negatives))
        loss = self.loss(right, torch.ones_like(right)) + self.loss(wrong, torch.zeros_like(wrong))
        self.learn(rows)
        loss.backward()
        self.optimizer.step()
        self.network.memory.detach()
        return float(loss.detach())

    @torch.no_grad()
    def test(self, first: int, ranked_from: int, batch: int, others: Any, candidates: Any) -> Any:
        """Return the logits of links and of their negatives, and ranks among candidates, from event `ranked_from` on.

        Each batch from `first` on is learnt after it is scored. Ties count as the mean rank. In its mode for training,
        the memory computes messages when it is read, otherwise when an event comes.
        """
        for part in self.network.children():
            part.train(self.at_reading and part is self.network.memory)
        logits, ranks = [], []
        for begin in range(first, len(self.log["sources"]), batch):
            rows = slice(begin, begin + batch)
            sources, targets = self.log["sources"][rows], self.log["targets"][rows]
            if begin + batch > ranked_from:
                pairs = [targets, *(other[rows] for other in others)]
                found = self.embeddings(torch.cat([sources, *pairs, candidates]))
                own, wanted = found[self.place[sources]], found[self.place[candidates]]
                logits.append(torch.stack([self.network.score(own, found[self.place[each]]) for each in pairs]))
                every = torch.stack([self.network.score(row, wanted) for row in own])
                right = every.gather(1, (targets - candidates[0])[:, None])
                ranks.append(1 + (every > right).sum(1) + ((every == right).sum(1) - 1) / 2)
            self.learn(rows)
        n = len(self.log["sources"]) - ranked_from
        return torch.cat(logits, dim=1)[:, -n:].numpy(), torch.cat(ranks)[-n:].numpy()


def train(job: dict[str, Any], log: dict[str, np.ndarray], settings: dict[str, Any], out: Path) -> None:
    """Do one run, and write its losses, CPU seconds and test scores."""
    torch.manual_seed(settings["seed"])
    run = Run(log, job["width"], job["dropout"], job["exact"], job["at_reading"])
    n, batch, losses, seconds = settings["n_train"], settings["batch"], [], []
    scores: dict[str, Any] = {}
    for epoch in range(settings["epochs"]):
        run.start()
        generator = torch.Generator().manual_seed(epoch)
        for begin in range(0, n, batch):
            rows = slice(begin, min(begin + batch, n))
            if "negatives" in log:
                negatives = torch.from_numpy(log["negatives"][rows])
            else:
                negatives = torch.randint(job["first_target"], run.n_nodes, (rows.stop - begin,), generator=generator)
            began = time.process_time()
            losses.append(run.step(rows, negatives))
            seconds.append(time.process_time() - began)
        if epoch + 1 in settings.get("tested", ()):
            others = [torch.from_numpy(log[name]) for name in ("random", "historical")]
            candidates = torch.arange(job["first_target"], run.n_nodes)
            found = run.test(n, settings["ranked_from"], batch, others, candidates)
            scores |= {f"scores{epoch + 1}": found[0], f"ranks{epoch + 1}": found[1]}
    np.savez(out, losses=np.array(losses), seconds=np.array(seconds), **scores)


def main() -> None:
    torch.set_num_threads(1)
    job = json.loads(Path(sys.argv[1]).read_text())
    with np.load(job["log"]) as found:
        log = {name: found[name] for name in found.files}
    for number, settings in enumerate(job["runs"]):
        sys.stdin.readline()
        train(job, log, settings, Path(job["folder"]) / f"run{number}.npz")
        print(number, flush=True)


if __name__ == "__main__":
    main()
