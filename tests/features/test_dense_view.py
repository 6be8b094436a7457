"""Dense features next to sparse ones."""

import numpy as np
import pytest
from scipy.sparse import csr_array, hstack, random

from sparsenet.core.rows import Rows, as_matrix
from sparsenet.core.spilling import Spill
from sparsenet.features.text import dense_view
from sparsenet.features.text.dense_view import DenseFeatures


@pytest.mark.parametrize("max_bytes", [1 << 30, 0])
@pytest.mark.parametrize("some", [False, True])
def test_appends_weighted_columns(monkeypatch, max_bytes, some):
    monkeypatch.setattr(dense_view, "POINTS_AT_A_TIME", 4)
    rng = np.random.default_rng(0)
    texts = np.array([1, 2, 5, 8, 9]) if some else np.arange(10)
    sparse = csr_array(random(10, 6, 0.3, random_state=1, dtype=np.float32))
    vectors = rng.normal(size=(10, 3)).astype(np.float32)
    vectors[2] = 0
    points = Rows.of(csr_array(sparse[texts]))
    found = DenseFeatures(vectors, 0.5).beside(points, Spill(max_bytes), texts if some else None)
    assert found.width == 9
    wanted = hstack([sparse[texts], csr_array(vectors[texts] * np.float32(0.5))]).toarray()
    assert (as_matrix(found).toarray() == wanted).all()


def test_zero_vectors_are_empty():
    assert DenseFeatures(np.array([[0, 0], [0, 1]], np.float32), 1.0).are_empty().tolist() == [True, False]
