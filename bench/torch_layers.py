"""Output layers of `bench.torch_head`: `ExtremeHead`, sampled rows with SparseAdam, and a dense layer with fused Adam.

Each has a loss, a step of its optimizer, and ranks labels by ``topk(hidden, k)``. Two encoders go below them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from sparsenet.torch import ExtremeHead

#: Sampled negatives of a batch, for both sampled layers; the default of `ExtremeHead`.
N_NEGATIVES = 256
RATE = 4e-3


class Layer(Protocol):
    """An output layer with its own optimizer."""

    def loss(self, hidden: Tensor, labels: sparse.csr_array) -> Tensor: ...

    def step(self) -> None: ...

    def topk(self, hidden: Tensor, k: int) -> Any: ...


class Head:
    """`ExtremeHead` with its defaults."""

    def __init__(self, n_inputs: int, n_labels: int) -> None:
        self.head = ExtremeHead(n_inputs, n_labels, learning_rate=RATE, n_negatives=N_NEGATIVES)

    def loss(self, hidden: Tensor, labels: sparse.csr_array) -> Tensor:
        return self.head(hidden, labels)

    def step(self) -> None:
        self.head.step()

    def topk(self, hidden: Tensor, k: int) -> Any:
        return self.head.topk(hidden, k).labels.numpy()


class Sampled:
    """PyTorch alone: the rows of active labels are gathered from a sparse embedding, which SparseAdam updates."""

    def __init__(self, n_inputs: int, n_labels: int) -> None:
        self.weight = nn.Embedding(n_labels, n_inputs, sparse=True)
        self.bias = nn.Embedding(n_labels, 1, sparse=True)
        nn.init.uniform_(self.weight.weight, -(n_inputs**-0.5), n_inputs**-0.5)
        nn.init.constant_(self.bias.weight, -5.0)
        parameters = [*self.weight.parameters(), *self.bias.parameters()]
        self.optimizer = torch.optim.SparseAdam(parameters, lr=RATE, betas=(0.5, 0.999))
        self.random = np.random.default_rng(0)

    def loss(self, hidden: Tensor, labels: sparse.csr_array) -> Tensor:
        n_labels = self.weight.num_embeddings
        drawn = self.random.integers(0, n_labels, N_NEGATIVES, dtype=np.int32)
        active = np.unique(np.concatenate((labels.indices, drawn)))
        target = torch.zeros(len(hidden), len(active))
        points = np.repeat(np.arange(len(hidden)), np.diff(labels.indptr))
        target[points, np.searchsorted(active, labels.indices)] = 1
        ids = torch.from_numpy(active.astype(np.int64))
        scores = torch.addmm(self.bias(ids).T, hidden, self.weight(ids).T)
        return nn.functional.binary_cross_entropy_with_logits(scores, target, reduction="sum") / len(hidden)

    def step(self) -> None:
        self.optimizer.step()
        self.optimizer.zero_grad()

    def topk(self, hidden: Tensor, k: int) -> Any:
        scores = torch.addmm(self.bias.weight.T, hidden, self.weight.weight.T)
        return scores.topk(k).indices.numpy()


class DenseLayer:
    """A linear layer over all labels, binary cross-entropy and fused Adam."""

    def __init__(self, n_inputs: int, n_labels: int) -> None:
        self.linear = nn.Linear(n_inputs, n_labels)
        nn.init.constant_(self.linear.bias, -5.0)
        self.optimizer = torch.optim.Adam(self.linear.parameters(), lr=RATE, fused=True)

    def loss(self, hidden: Tensor, labels: sparse.csr_array) -> Tensor:
        target = torch.zeros(len(hidden), self.linear.out_features)
        target[np.repeat(np.arange(len(hidden)), np.diff(labels.indptr)), labels.indices.astype(np.int64)] = 1
        scores = self.linear(hidden)
        return nn.functional.binary_cross_entropy_with_logits(scores, target, reduction="sum") / len(hidden)

    def step(self) -> None:
        self.optimizer.step()
        self.optimizer.zero_grad()

    def topk(self, hidden: Tensor, k: int) -> Any:
        return self.linear(hidden).topk(k).indices.numpy()


LAYERS: dict[str, Callable[[int, int], Any]] = {"head": Head, "sampled": Sampled, "dense": DenseLayer}


class BagEncoder(nn.Module):
    """A hidden layer over sparse points; SparseAdam updates the rows of features that occur."""

    def __init__(self, n_features: int, n_units: int) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(n_features, n_units, mode="sum", include_last_offset=True, sparse=True)
        nn.init.normal_(self.bag.weight, std=n_units**-0.5)
        self.bias = nn.Parameter(torch.zeros(n_units))
        self.optimizers = [
            torch.optim.SparseAdam(self.bag.parameters(), lr=RATE, betas=(0.5, 0.999)),
            torch.optim.Adam([self.bias], lr=RATE),
        ]

    def forward(self, X: sparse.csr_array) -> Tensor:
        ids, starts = (torch.from_numpy(array.astype(np.int64)) for array in (X.indices, X.indptr))
        return torch.relu(self.bag(ids, starts, per_sample_weights=torch.from_numpy(X.data)) + self.bias)

    def step(self) -> None:
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()


class VectorEncoder(nn.Module):
    """A hidden layer over vectors."""

    def __init__(self, n_features: int, n_units: int) -> None:
        super().__init__()
        self.linear = nn.Linear(n_features, n_units)
        self.optimizer = torch.optim.Adam(self.parameters(), lr=RATE, fused=True)

    def forward(self, X: NDArray[np.float32]) -> Tensor:
        return torch.relu(self.linear(torch.from_numpy(X)))

    def step(self) -> None:
        self.optimizer.step()
        self.optimizer.zero_grad()
