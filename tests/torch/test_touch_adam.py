"""`TouchAdam`, the default optimizer of `ExtremeHead`."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sparsenet.engines.network.optim import Parameter  # noqa: E402
from sparsenet.torch import ExtremeHead  # noqa: E402
from sparsenet.torch.touch_adam import TouchAdam  # noqa: E402


def test_steps_equal_those_of_sparse_adam() -> None:
    rng = np.random.default_rng(0)
    own = Parameter("weight", (50, 4), TouchAdam(rate=0.1))
    own.allocate(rng.normal(size=(50, 4)).astype(np.float32))
    weight = torch.nn.Parameter(torch.from_numpy(own.value.copy()))
    optimizer = torch.optim.SparseAdam([weight], lr=0.1, betas=(0.5, 0.999))
    for step in range(1, 9):
        rows = np.sort(rng.choice(50, 10, replace=False))  # each row skips most steps
        grads = rng.normal(size=(10, 4)).astype(np.float32)
        weight.grad = torch.sparse_coo_tensor(rows[None], grads, (50, 4), check_invariants=True)
        optimizer.step()
        own.record(rows, grads)
        own.apply(step=step, factor=1.0, threads=1)
    torch.testing.assert_close(torch.from_numpy(own.value), weight.detach(), rtol=1e-4, atol=1e-4)


def test_heads_use_it_unless_given_an_optimizer() -> None:
    head = ExtremeHead(4, 5, learning_rate=0.1, weight_decay=0.01)
    assert head._output.weight.optimizer == TouchAdam(rate=0.1, decay=0.01)
