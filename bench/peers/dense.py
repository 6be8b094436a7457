"""A dense network in PyTorch: sparse input, one hidden layer, every label computed for every point.

It uses binary cross-entropy, dropout, and Adam with state for all weights; the rate falls linearly to zero. Biases
start from the label frequencies; otherwise the first epochs learn little else. It runs on the CPU, or on a GPU with the
setting ``{"device": "cuda"}``, where products are in TF32 and Adam is fused.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import nn

from bench.peers.measure import Job, Labels, main, unit_rows

#: Points per batch of prediction.
BLOCK = 256


class Network(nn.Module):
    def __init__(self, n_features: int, hidden: int, frequencies: NDArray[np.float32], dropout: float) -> None:
        super().__init__()
        self.hidden = nn.EmbeddingBag(n_features, hidden, mode="sum", include_last_offset=True)
        self.bias = nn.Parameter(torch.zeros(hidden))
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(hidden, len(frequencies))
        nn.init.normal_(self.hidden.weight, std=hidden**-0.5)
        self.output.bias.data = torch.logit(torch.from_numpy(frequencies))

    def forward(self, X: sparse.csr_matrix) -> torch.Tensor:
        device = self.bias.device
        indices, offsets = (torch.from_numpy(a.astype(np.int64)).to(device) for a in (X.indices, X.indptr))
        hidden = self.hidden(indices, offsets, per_sample_weights=torch.from_numpy(X.data).to(device))
        return self.output(self.dropout(torch.relu(hidden + self.bias)))


def device_of(settings: Mapping[str, Any]) -> torch.device:
    """Return the device of the settings; for a GPU, also turn on TF32 products."""
    device = torch.device(settings.get("device", "cpu"))
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")
    return device


def adam(model: Network, rate: float) -> torch.optim.Optimizer:
    """Return Adam; on a GPU, PyTorch's fused version."""
    return torch.optim.Adam(model.parameters(), lr=rate, fused=model.bias.is_cuda or None)


def step(model: Network, optimizer: torch.optim.Optimizer, X: sparse.csr_matrix, Y: sparse.csr_matrix) -> None:
    """Train on one batch, with dense targets on the device of the network."""
    optimizer.zero_grad()
    targets = torch.zeros(Y.shape, device=model.bias.device)
    rows = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
    targets[torch.from_numpy(rows), torch.from_numpy(Y.indices.astype(np.int64))] = 1.0
    loss = nn.functional.binary_cross_entropy_with_logits(model(X), targets, reduction="sum") / X.shape[0]
    loss.backward()
    optimizer.step()


class Dense:
    distribution = "torch"

    def __init__(self, job: Job) -> None:
        self.job = job
        self.device = device_of(job.settings)
        torch.manual_seed(job.seed)
        torch.set_num_threads(job.threads)

    def read(self) -> None:
        self.X, self.Y = self.job.matrix("train.X"), self.job.matrix("train.Y")

    def train(self) -> None:
        settings, rng = self.job.settings, np.random.default_rng(self.job.seed)
        X, Y, batch = unit_rows(self.X), self.Y, settings["batch"]
        frequencies = (np.bincount(Y.indices, minlength=Y.shape[1]) + 1) / (Y.shape[0] + 2)
        model = Network(X.shape[1], settings["hidden"], frequencies.astype(np.float32), settings["dropout"])
        self.model = model.to(self.device)
        optimizer = adam(self.model, settings["lr"])
        n_steps = settings["epochs"] * -(-X.shape[0] // batch)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, n_steps)
        for _ in range(settings["epochs"]):
            order = rng.permutation(X.shape[0])
            for chosen in np.split(order, range(batch, len(order), batch)):
                step(self.model, optimizer, X[chosen], Y[chosen])
                schedule.step()
        self.model.eval()
        if self.device.type == "cuda":
            torch.cuda.synchronize()  # wait for the last steps

    def save(self, path: Path) -> None:
        torch.save(self.model.state_dict(), path)

    def use_threads(self, threads: int) -> None:
        torch.set_num_threads(threads)

    def mask_seen_items(self) -> None:
        """Do nothing: all labels are scored anyway."""

    def points(self, X: sparse.csr_matrix) -> Any:
        return unit_rows(X)

    @torch.inference_mode()
    def predict(self, points: Any, k: int) -> Any:
        blocks = [self.model(points[i : i + BLOCK]).topk(k).indices for i in range(0, points.shape[0], BLOCK)]
        return torch.cat(blocks).cpu()

    def ranked(self, output: Any) -> Labels:
        labels: Labels = output.numpy()
        return labels


if __name__ == "__main__":
    main(Dense)
