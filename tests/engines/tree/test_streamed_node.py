"""A node that reads its points part by part is the node of `train_nodes`, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from sparsenet import kernels
from sparsenet.core.rows import Rows, squares
from sparsenet.engines.tree.machines import Rules
from sparsenet.engines.tree.streamed_node import train_streamed_node
from sparsenet.kernels.types import I32
from tests.support.data_cases import BACKENDS

SETTINGS = {
    "default": (Rules(), 16, 7),
    "short passes": (Rules(epochs=40, tolerance=0.02, cost=4.0), 5, 2**63),
    "rare children": (Rules(others=0.3, rarity=0.4, smallest=0.0), 3, 0),
    "one point": (Rules(), 2, 1),
    "no point": (Rules(), 2, 1),
}


@pytest.mark.parametrize("case", SETTINGS)
@pytest.mark.parametrize("kernel", BACKENDS)
def test_equals_the_kernel(case: str, kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = pytest.importorskip("sparsenet._core" if kernel == "native" else "sparsenet.kernels.numba")
    monkeypatch.setattr(kernels, "train_node_by_parts", module.train_node_by_parts, raising=False)
    rng = np.random.default_rng(3)
    points = Rows.of(sparse.random_array((500, 90), density=0.1, rng=rng, format="csr", dtype=np.float32))
    rules, n_children, seed = SETTINGS[case]
    n = {"one point": 1, "no point": 0}.get(case, 333)
    reached = np.sort(rng.permutation(500)[:n]).astype(np.int32)
    masks = (rng.integers(0, 1 << n_children, n) & rng.integers(0, 1 << n_children, n)).astype(np.uint16)
    squared = squares(points)
    wanted = module.train_nodes(
        *(points.indptr, points.indices, points.data, points.width, squared),
        *(np.array([0, n]), reached, masks, np.array([0, n_children])),
        *(rules.cost, rules.cost * rules.others, rules.rarity),
        *(rules.epochs, rules.tolerance, seed, rules.smallest, 1),
    )
    found = train_streamed_node(points, squared, reached, masks, n_children, rules, seed, 200)
    assert [own.dtype for own in wanted] == [own.dtype for own in found]
    for own, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(own, other)


@pytest.mark.parametrize("kernel", BACKENDS)
def test_errors_of_the_reader_end_training(kernel: str) -> None:
    module = pytest.importorskip("sparsenet._core" if kernel == "native" else "sparsenet.kernels.numba")
    asked: list[int] = []

    def read(numbers: I32) -> None:
        asked.append(len(numbers))
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        module.train_node_by_parts(
            read, 2, np.zeros(5, np.uint16), np.arange(3, dtype=np.int32), 1, 1.0, 1.0, 0.0, 5, 0.1, 0, 0.1
        )
    assert asked == [2]
