"""Time steps of a dense network in PyTorch for `bench.scale`: ``python -m bench.dense_steps JOB RESULT``.

Each step computes every label for every point, and Adam updates every weight. All steps thus cost the same, and the
time of an epoch is the time of a step times their number. It runs in the environment of the dense peer. A job may name
a ``"device"``.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse

from bench.peers.dense import Network, adam, device_of, step
from bench.peers.measure import peak_mb, unit_rows


def main(job: dict[str, Any]) -> dict[str, Any]:
    """Take one step to warm up, then time `batches` steps; return medians."""
    torch.manual_seed(job["seed"])
    torch.set_num_threads(job["threads"])
    X = unit_rows(sparse.csr_matrix(sparse.load_npz(Path(job["data"]) / "train.X.npz")))
    Y = sparse.csr_matrix(sparse.load_npz(Path(job["data"]) / "train.Y.npz"))
    frequencies = (np.bincount(Y.indices, minlength=Y.shape[1]) + 1) / (Y.shape[0] + 2)
    device = device_of(job)
    model = Network(X.shape[1], job["hidden"], frequencies.astype(np.float32), dropout=0.25).to(device)
    optimizer = adam(model, 1e-3)
    order = np.random.default_rng(job["seed"]).permutation(X.shape[0])
    wall, cpu = [], []
    for batch in range(1 + job["batches"]):
        chosen = order[batch * job["batch_size"] : (batch + 1) * job["batch_size"]]
        start = time.perf_counter(), time.process_time()
        step(model, optimizer, X[chosen], Y[chosen])
        if device.type == "cuda":
            torch.cuda.synchronize()
        wall.append(time.perf_counter() - start[0])
        cpu.append(time.process_time() - start[1])
    n_batches = -(-X.shape[0] // job["batch_size"])
    medians = {"wall": float(np.median(wall[1:])), "cpu": float(np.median(cpu[1:]))}
    return {
        "torch": torch.__version__,
        "epoch_batches": n_batches,
        "peak_mb": peak_mb(),
        **{f"step_{name}_seconds": seconds for name, seconds in medians.items()},
        **{f"epoch_{name}_seconds": seconds * n_batches for name, seconds in medians.items()},
    }


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(main(json.loads(Path(sys.argv[1]).read_text()))))
