"""Dense versions of data sets: labels stay, features become a few numbers."""

import numpy as np
import pytest
from scipy import sparse

from bench import cache, dense_sets
from sparsenet.data import read_xmc

RNG = np.random.default_rng(0)
KINDS = {"train": np.arange(90) % 3, "test": np.arange(30) % 3}


def write(folder, part):
    """Write points of three kinds, each with ten features of its own."""
    kinds = KINDS[part]
    features = np.array([kind * 10 + RNG.permutation(10)[:4] for kind in kinds])
    lines = [
        f"{kind} " + " ".join(f"{j}:{2 + kind}" for j in sorted(row)) for kind, row in zip(kinds, features, strict=True)
    ]
    (folder / f"{part}.txt").write_text(f"{len(kinds)} 30 3\n" + "\n".join(lines) + "\n")


def test_points_keep_their_labels_and_stay_separable(workplace, capsys):
    (workplace / "kinds").mkdir()
    for part in KINDS:
        write(workplace / "kinds", part)
    dense_sets.main(["--data", "kinds", "--features", "5", "--out", "out"])
    assert "dense-kinds: 5 features" in capsys.readouterr().out
    X, y = {}, {}
    for part in KINDS:
        found = read_xmc(workplace / "out" / "dense-kinds" / f"{part}.txt")
        X[part], y[part] = sparse.csr_array(found.X).toarray(), found.Y.indices
        assert X[part].shape == (len(KINDS[part]), 5)
        np.testing.assert_array_equal(y[part], KINDS[part])
        assert np.count_nonzero(X[part]) > 0.9 * X[part].size
        assert np.linalg.norm(X[part], axis=1).max() <= 1.0001
    nearest = (X["test"] @ X["train"].T).argmax(axis=1)
    assert (y["train"][nearest] == y["test"]).mean() > 0.95


@pytest.mark.parametrize(("requested", "expected"), [(200, 15), (4, 4)])
def test_keeps_at_most_half_as_many_features(workplace, requested, expected):
    for part in KINDS:
        write(workplace, part)
    found = dense_sets.dense(cache.prepare(workplace), requested)
    assert {X.shape[1] for X in found.values()} == {expected}
