"""Hash tables behind the interface of all indexes."""

import numpy as np

from bench.finding_tables import TableIndex
from sparsenet.index.exact import exact_topk
from sparsenet.index.hashing.lsh_config import LSHConfig
from sparsenet.index.vector_index import Examples, calibrate, share_found

RNG = np.random.default_rng(0)
WEIGHT = RNG.normal(size=(300, 16)).astype(np.float32)
BIAS = np.zeros(300, np.float32)
QUERIES = (WEIGHT[::3] + 0.3 * RNG.normal(size=WEIGHT[::3].shape)).astype(np.float32)
CONFIG = LSHConfig(n_tables=30, n_bits=4)


def test_more_effort_finds_more_of_the_best_labels():
    index, exact = TableIndex(CONFIG), exact_topk(QUERIES, WEIGHT, BIAS, 3, 1)[0]
    index.rebuild(WEIGHT, BIAS)
    shares = [share_found(exact, index.topk(QUERIES, WEIGHT, BIAS, 3, effort)[0]) for effort in (3, 30, 300)]
    assert shares == sorted(shares)
    assert shares[0] < 0.9
    assert shares[-1] > 0.98
    assert calibrate(index, QUERIES, WEIGHT, BIAS, exact, 0.9).recall >= 0.9


def test_buckets_list_the_labels_seen_there():
    index, inputs = TableIndex(LSHConfig(n_tables=3, n_bits=10)), QUERIES[:20]
    far = np.arange(100, 120, dtype=np.int32)
    bias = BIAS.copy()
    bias[far] = 100  # the best labels, whose rows hash elsewhere
    index.rebuild(WEIGHT, bias, Examples(inputs, np.arange(21), far))
    found = index.topk(inputs, WEIGHT, bias, 20, 300)[0]
    assert all(label in row for label, row in zip(far, found, strict=True))


def test_updated_rows_are_found():
    index, weight = TableIndex(CONFIG), WEIGHT.copy()
    index.rebuild(weight, BIAS)
    weight[[5, 80]] = -3 * weight[[80, 5]]  # the longest rows
    index.update(weight, BIAS, np.array([5, 80]))
    assert index.topk(weight[[5, 80]], weight, BIAS, 1, 20)[0][:, 0].tolist() == [5, 80]


def test_missing_labels_are_marked():
    index = TableIndex(LSHConfig(n_tables=1, n_bits=12))
    index.rebuild(WEIGHT, BIAS)
    labels, scores = index.topk(QUERIES, WEIGHT, BIAS, 50, 50)
    assert (labels[:, -1] == -1).all()
    assert np.isneginf(scores[labels == -1]).all()
