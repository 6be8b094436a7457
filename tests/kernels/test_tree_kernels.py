"""Kernels of trees of classifiers, against plain NumPy, across backends, thread counts and shapes."""

from __future__ import annotations

import importlib
from itertools import pairwise

import numpy as np
import pytest

from tests.support.backends import has_extension

CHILDREN = 16
N_FEATURES = 30
MASK = (1 << 64) - 1
THREADS = (1, 2, 4)


def sparse_rows(rng, n, n_features=N_FEATURES, most=10, shuffled=True):
    """Draw rows of 0 to `most` features, in any order."""
    lengths = rng.integers(0, most + 1, n)
    rows = [rng.choice(n_features, length, replace=False) for length in lengths]
    if not shuffled:
        rows = [np.sort(row) for row in rows]
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    indices = np.concatenate([np.empty(0, int), *rows]).astype(np.int32)
    return indptr, indices, rng.standard_normal(len(indices)).astype(np.float32)


def dense(indptr, indices, data, n_features=N_FEATURES):
    out = np.zeros((len(indptr) - 1, n_features))
    np.add.at(out, (np.repeat(np.arange(len(out)), np.diff(indptr)), indices), data)
    return out


def pointers(lengths):
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def mixed(seed):
    z = seed * 0x9E3779B97F4A7C15 & MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def both_backends():
    return [importlib.import_module(name) for name in ("sparsenet._core", "sparsenet.kernels.numba")]


needs_both = pytest.mark.skipif(not has_extension(), reason="needs both backends")


# --- split_sets ---

SIZES = [0, 1, 2, 3, 2, 40, 17, 100, 9]
LEFT = [0, 1, 1, 2, 0, 20, 5, 50, 9]


def sets(seed=0, sizes=SIZES, left=LEFT):
    rng = np.random.default_rng(seed)
    rows = sparse_rows(rng, sum(sizes))
    return rows, pointers(sizes), np.array(left, np.int64), rng.permutation(sum(sizes)).astype(np.int32)


def split(module, rows, starts, left, order, *, seed=3, rounds=10, threads=1):
    order = order.copy()
    module.split_sets(*rows, N_FEATURES, starts, left, seed, rounds, order, threads)
    return order


def split_by_hand(rows, starts, left, order, *, seed=3, rounds=10):
    """Return the order, and the smallest margin of any choice."""
    X, order, margin = dense(*rows), order.copy(), np.inf
    for b, n_left in enumerate(left):
        own = order[starts[b] : starts[b + 1]]
        n = len(own)
        if n_left in (0, n):
            continue
        random = mixed(seed + b)
        one = random % n
        centres = [X[own[one]], X[own[(one + 1 + (random >> 32) % (n - 1)) % n]]]
        for _ in range(rounds):
            lengths = [np.linalg.norm(centre) or 1 for centre in centres]
            nearer = X[own] @ centres[0] / lengths[0] - X[own] @ centres[1] / lengths[1]
            best = np.lexsort((own, -nearer))
            step = nearer[best[n_left - 1]] - nearer[best[n_left]]
            margin = min(margin, step if step else np.inf)  # of rows that are equal the smaller numbers go left
            if set(best[:n_left]) == set(range(n_left)):
                break
            own[:] = np.concatenate([np.sort(own[best[:n_left]]), np.sort(own[best[n_left:]])])
            centres = [X[own[:n_left]].sum(axis=0), X[own[n_left:]].sum(axis=0)]
    return order, margin


@pytest.mark.parametrize("seed", range(4))
def test_splits_match_plain_python(backend, seed):
    given = sets(seed)
    for rounds in (0, 1, 2, 50):
        expected, margin = split_by_hand(*given, rounds=rounds)
        assert margin > 1e-6, "the data must not be a matter of rounding"
        np.testing.assert_array_equal(split(backend, *given, rounds=rounds), expected)


def test_splits_keep_members_and_depend_on_the_seed(backend):
    rows, starts, left, order = sets()
    found = split(backend, rows, starts, left, order)
    for begin, end in pairwise(starts):
        assert sorted(found[begin:end]) == sorted(order[begin:end])
    assert (split(backend, rows, starts, left, order, seed=4) != found).any()


def test_splits_two_clusters_apart(backend):
    rows = np.arange(21), np.repeat([1, 4], 10).astype(np.int32), np.ones(20, np.float32)
    order = np.random.default_rng(0).permutation(20).astype(np.int32)
    found = [split(backend, rows, np.array([0, 20]), np.array([10]), order, seed=seed) for seed in range(6)]
    assert any(set(order[:10]) in ({*range(10)}, {*range(10, 20)}) for order in found)


def test_equal_rows_are_split_by_id(backend):
    rows = pointers([1] * 9), np.full(9, 2, np.int32), np.ones(9, np.float32)
    order = np.arange(9, dtype=np.int32)[::-1].copy()
    found = split(backend, rows, np.array([0, 9]), np.array([4]), order)
    np.testing.assert_array_equal(found, np.arange(9))


def test_a_cancelled_feature_counts_once(backend):
    """If rows cancel a feature and others restore it, its square must not count twice."""
    rng, n = np.random.default_rng(1), 12
    indices = np.column_stack([np.zeros(n, int), rng.integers(1, 5, n)]).ravel().astype(np.int32)
    compared = 0
    for seed in range(20):
        data = np.column_stack([rng.integers(-1, 2, n) * 2, rng.random(n)]).ravel().astype(np.float32)
        given = (pointers([2] * n), indices, data), np.array([0, n]), np.array([6]), np.arange(n, dtype=np.int32)
        expected, margin = split_by_hand(*given, seed=seed)
        if 1e-5 < margin < np.inf:
            np.testing.assert_array_equal(split(backend, *given, seed=seed), expected)
            compared += 1
    assert compared > 5


def test_splits_empty_input(backend):
    rows = pointers([0] * 5), np.empty(0, np.int32), np.empty(0, np.float32)
    order = np.array([3, 1, 4, 0, 2], np.int32)
    found = split(backend, rows, np.array([0, 5]), np.array([2]), order)
    np.testing.assert_array_equal(found, np.arange(5))
    none = np.empty(0, np.int32)
    assert len(split(backend, rows, np.array([0]), np.empty(0, np.int64), none)) == 0


def test_splitting_does_not_depend_on_threads(backend):
    given = sets(7, SIZES * 5, LEFT * 5)
    one = split(backend, *given)
    for threads in (*THREADS, 20):  # 20 share each set
        np.testing.assert_array_equal(split(backend, *given, threads=threads), one)


# --- train_nodes ---

COUNTS = [3, 16, 1, 5, 2, 0]
#: Cost of errors on points of a child and on others, and the exponent that raises the cost of few points.
UNEVEN = (2.0, 1.0, 0.0)


def arrivals(seed=0, n=60, sizes=(30, 60, 5, 0, 1, 4), counts=COUNTS):
    """Draw points, and the points that reach each node: none for one node, one for another."""
    rng = np.random.default_rng(seed)
    points = sparse_rows(rng, n)
    reached = np.concatenate([np.sort(rng.choice(n, size, replace=False)) for size in sizes]).astype(np.int32)
    bits = np.repeat([(1 << count) - 1 for count in counts], sizes)
    belongs = (rng.integers(0, 1 << 16, len(reached)) & rng.integers(0, 1 << 16, len(reached)) & bits).astype(np.uint16)
    squares = (1 + np.square(dense(*points)).sum(axis=1)).astype(np.float32)
    return points, squares, pointers(sizes), reached, belongs, pointers(counts)


def strangers(n=1000):
    """Draw points of one feature each, most of them of no child: near the end they no longer move."""
    rng = np.random.default_rng(0)
    points = np.arange(n + 1), rng.integers(0, N_FEATURES, n).astype(np.int32), np.ones(n, np.float32)
    belongs = np.where(rng.random(n) < 0.02, 1 << rng.integers(0, CHILDREN, n), 0).astype(np.uint16)
    return points, np.full(n, 2, np.float32), pointers([n]), np.arange(n, dtype=np.int32), belongs, pointers([CHILDREN])


def train(
    module, points, squares, *nodes, costs=(0.5, 0.5, 0.0), epochs=10, tolerance=0.1, seed=5, smallest=0.0, threads=1
):
    about_points = (*points, N_FEATURES, squares)
    return module.train_nodes(*about_points, *nodes, *costs, epochs, tolerance, seed, smallest, threads)


def as_dense(starts, features, factors, weights, bias):
    """Return the weights of each node, (n_nodes, features + 1, 16), the last row the biases."""
    out = np.zeros((len(bias), N_FEATURES + 1, CHILDREN))
    node = np.repeat(np.arange(len(bias)), np.diff(starts))
    out[node, features] = weights * factors[:, None].astype(float)
    out[:, -1] = bias
    return out


def slacks_of(member, n_children, costs):
    """Return the slacks of points of each child, and of others."""
    own, others, rarity = costs
    rare = np.float32(max(len(member), 1)) / np.maximum(member.sum(axis=0), 1).astype(np.float32)
    positive, negative = np.full((2, CHILDREN), 1e30, np.float32)
    positive[:n_children] = (np.float32(0.5) / (np.float32(own) * rare ** np.float32(rarity)))[:n_children]
    negative[:n_children] = 0.5 / others
    return positive, negative


def trained_alone(module, points, squares, starts, reached, belongs, children, *, costs, epochs, seed):
    """Train each node with the kernel of linear models, with all features and without rounding."""
    X, weight = dense(*points).astype(np.float32), []
    for b in range(len(starts) - 1):
        own = slice(starts[b], starts[b + 1])
        here = X[reached[own]]
        features = np.flatnonzero((here != 0).any(axis=0))
        # Keep each point's order of features, so that sums round in the same way.
        rows = [points[1][points[0][i] : points[0][i + 1]] for i in reached[own]]
        indices = np.concatenate([np.empty(0, int), *(np.searchsorted(features, row) for row in rows)])
        data = np.concatenate([np.empty(0), *(X[i, row] for i, row in zip(reached[own], rows, strict=True))])
        member = belongs[own, None] >> np.arange(CHILDREN) & 1
        slacks = slacks_of(member, children[b + 1] - children[b], costs)
        out = np.zeros((1, len(features) + 1, CHILDREN), np.float32)
        module.dual_train(
            pointers([len(row) for row in rows]), indices.astype(np.int32), data.astype(np.float32),
            squares[reached[own]], pointers(member.sum(axis=1)), np.nonzero(member)[1].astype(np.int32), 0,
            *slacks, epochs, 0.1, mixed(seed + b), out, np.zeros(1, np.int32), 1,
        )  # fmt: skip
        whole = np.zeros((N_FEATURES + 1, CHILDREN))
        whole[[*features, N_FEATURES]] = out[0]
        weight.append(whole)
    return np.array(weight)


def optimum(X, y, slack):
    """Solve the dual of one machine by projected gradients, in float64."""
    signed = np.hstack([X, np.ones((len(X), 1))]) * y[:, None]
    gram, alpha = signed @ signed.T + np.diag(slack), np.zeros(len(X))
    stride = 1 / np.linalg.eigvalsh(gram).max(initial=1)
    for _ in range(2000):
        alpha = np.maximum(alpha - stride * (gram @ alpha - 1), 0)
    return signed.T @ alpha


@pytest.mark.parametrize("costs", [(1.0, 1.0, 0.0), (1.0, 0.5, 0.5)], ids=["even", "uneven"])
def test_trains_nodes_to_the_optimum(backend, costs):
    given = arrivals(sizes=(30, 20, 5, 0, 1, 4))
    points, _, starts, reached, belongs, children = given
    weight, X = as_dense(*train(backend, *given, costs=costs, epochs=3000, tolerance=1e-5)), dense(*points)
    for b in range(len(starts) - 1):
        own = slice(starts[b], starts[b + 1])
        member = belongs[own, None] >> np.arange(CHILDREN) & 1
        positive, negative = slacks_of(member, CHILDREN, costs)
        for c in range(children[b + 1] - children[b]):
            slack = np.where(member[:, c], positive[c], negative[c])
            expected = optimum(X[reached[own]], np.where(member[:, c], 1.0, -1.0), slack)
            rounding = np.abs(weight[b]).max() / 127
            np.testing.assert_allclose(weight[b, :, c], expected, atol=rounding + 2e-3)


def test_a_node_equals_a_linear_model_of_its_points(backend):
    given = arrivals()
    starts, features, factors, weights, bias = train(backend, *given, costs=UNEVEN, epochs=5, seed=MASK - 2)
    found = as_dense(starts, features, factors, weights, bias)
    expected = trained_alone(backend, *given, costs=UNEVEN, epochs=5, seed=MASK - 2)
    np.testing.assert_array_equal(bias, expected[:, -1])
    largest = np.abs(expected[:, :-1]).max(axis=2)
    assert (np.abs(found - expected)[:, :-1] <= largest[:, :, None] / 127 * 0.501).all()
    node = np.repeat(np.arange(len(bias)), np.diff(starts))
    np.testing.assert_allclose(factors, largest[node, features] / 127, rtol=1e-6)
    assert (np.abs(weights).max(axis=1, initial=0) == 127).all()


def test_points_of_rarer_children_score_higher(backend):
    points, _, _, reached, belongs, _ = given = arrivals(sizes=(60,), counts=[16])
    X = np.hstack([dense(*points)[reached], np.ones((60, 1))])
    even, uneven = (X @ as_dense(*train(backend, *given, costs=(0.5, 0.5, power)))[0] for power in (0.0, 0.5))
    gains = [(uneven - even)[belongs >> c & 1 == 1, c].mean() for c in range(CHILDREN)]
    counts = [(belongs >> c & 1).sum() for c in range(CHILDREN)]
    assert min(gains) > 0
    assert np.corrcoef(gains, counts)[0, 1] < -0.5


def test_drops_rows_of_small_weights(backend):
    given = arrivals()
    everything = as_dense(*train(backend, *given))
    starts, features, factors, weights, bias = train(backend, *given, smallest=0.2)
    for b, whole in enumerate(everything):
        own = slice(starts[b], starts[b + 1])
        np.testing.assert_array_equal(features[own], np.flatnonzero(np.abs(whole[:-1]).max(axis=1) >= 0.2))
    assert 0 < len(features) < (np.abs(everything[:, :-1]).max(axis=2) > 0).sum()
    np.testing.assert_array_equal(bias, everything[:, -1])
    found = as_dense(starts, features, factors, weights, bias)
    np.testing.assert_array_equal(found[found != 0], everything[found != 0])


def test_machines_have_the_expected_types_and_shapes(backend):
    given = arrivals()
    starts, features, factors, weights, bias = train(backend, *given)
    kinds = [(part.dtype, part.ndim) for part in (starts, features, factors, weights, bias)]
    assert kinds == [(np.int64, 1), (np.int32, 1), (np.float32, 1), (np.int8, 2), (np.float32, 2)]
    assert starts[0] == 0
    assert len(starts) == len(bias) + 1 == len(COUNTS) + 1
    assert len(features) == len(factors) == len(weights) == starts[-1]
    for b in range(len(bias)):
        assert (np.diff(features[starts[b] : starts[b + 1]]) > 0).all()


def test_children_without_points_learn_nothing(backend):
    starts, _, _, _, bias = train(backend, *arrivals())
    assert starts[3] == starts[4], "a node without points has no rows"
    assert (bias[3] == 0).all(), "and no bias"
    for b, count in enumerate(COUNTS):
        assert np.abs(bias[b, count:]).max(initial=0) < 1e-20


def test_trains_without_nodes_or_features(backend):
    points, squares, *_ = arrivals()
    nothing = np.empty(0, np.int32), np.empty(0, np.uint16)
    parts = train(backend, points, squares, np.zeros(1, np.int64), *nothing, np.zeros(1, np.int64))
    assert [part.shape for part in parts] == [(1,), (0,), (0,), (0, 16), (0, 16)]
    empty = pointers([0, 0, 0]), np.empty(0, np.int32), np.empty(0, np.float32)
    all_three = np.arange(3, dtype=np.int32), np.array([1, 1, 2], np.uint16)
    starts, _, _, weights, bias = train(
        backend, empty, np.ones(3, np.float32), np.array([0, 3]), *all_three, np.array([0, 2]), epochs=200
    )
    assert starts.tolist() == [0, 0]
    assert weights.shape == (0, 16)
    assert bias[0, 0] > 0 > bias[0, 1], "the bias alone tells the child of two from that of one"


def test_training_is_independent_of_threads_and_other_nodes(backend):
    points, squares, starts, reached, belongs, children = arrivals(1)
    one = train(backend, points, squares, starts, reached, belongs, children)
    for threads in THREADS:
        many = train(backend, points, squares, starts, reached, belongs, children, threads=threads)
        assert all(a.tobytes() == b.tobytes() for a, b in zip(many, one, strict=True))
    b = 1
    own, rows = slice(starts[b], starts[b + 1]), slice(one[0][b], one[0][b + 1])
    nodes = starts[b : b + 2] - starts[b], reached[own], belongs[own], children[b : b + 2] - children[b]
    alone = train(backend, points, squares, *nodes, seed=5 + b)
    for part, whole in zip(alone[1:4], one[1:4], strict=True):
        np.testing.assert_array_equal(part, whole[rows])
    np.testing.assert_array_equal(alone[4], one[4][[b]])
    assert (train(backend, points, squares, *nodes, seed=6 + b)[4] != alone[4]).any()


@pytest.mark.parametrize(("n_nodes", "threads"), [(1, 2), (1, 3), (2, 4), (1, 8)])
def test_threads_share_the_children_of_a_node(backend, n_nodes, threads):
    """With more threads than nodes, children are visited in groups; here passes skip points and end early, too."""
    for points, squares, starts, reached, belongs, children in (
        strangers(),
        arrivals(2, n=900, sizes=(900, 700), counts=(16, 5)),
    ):
        nodes = min(n_nodes, len(starts) - 1)
        own = slice(starts[nodes])
        few = points, squares, starts[: nodes + 1], reached[own], belongs[own], children[: nodes + 1]
        for tolerance in (0.5, 0.01):
            one = train(backend, *few, epochs=12, tolerance=tolerance)
            many = train(backend, *few, epochs=12, tolerance=tolerance, threads=threads)
            assert all(a.tobytes() == b.tobytes() for a, b in zip(many, one, strict=True))


# --- search_tree ---


def machines(rng, counts, sizes, n_features=N_FEATURES):
    """Draw a level with the given numbers of children and rows of each node."""
    features = [np.sort(rng.choice(n_features, size, replace=False)) for size in sizes]
    total = sum(sizes)
    return (
        pointers(sizes),
        np.concatenate([np.empty(0, int), *features]).astype(np.int32),
        (rng.random(total) / 100).astype(np.float32),
        rng.integers(-127, 128, (total, CHILDREN)).astype(np.int8),
        rng.standard_normal((len(counts), CHILDREN)).astype(np.float32),
        pointers(counts),
    )


def tree(seed=0, n_features=N_FEATURES):
    """Draw a tree of three roots and three levels; some nodes have no child, one child, or no rows."""
    rng = np.random.default_rng(seed)
    top = machines(rng, [3, 1, 4], [20, 5, 0], n_features)
    middle = machines(rng, [2, 16, 0, 1, 5, 3, 1, 2], [9, 30, 3, 1, 0, 30, 7, 12], n_features)
    return [top, middle, machines(rng, [1 + i % 16 for i in range(30)], list(range(30)), n_features)]


def search(module, levels, points, beam, k, *, threads=1, n_features=N_FEATURES, names=None):
    names = np.arange(levels[-1][5][-1], dtype=np.int32) if names is None else names
    leaves, scores = np.full((len(points[0]) - 1, k), 7, np.int32), np.full((len(points[0]) - 1, k), 7, np.float32)
    module.search_tree(levels, *points, n_features, beam, names, leaves, scores, threads)
    return leaves, scores


def search_by_hand(levels, points, beam, k, n_features=N_FEATURES):
    X = dense(points[0], points[1], points[2], n_features)
    leaves, scores = np.full((len(X), k), -1), np.full((len(X), k), -np.inf)
    margin = np.inf
    for i, x in enumerate(X):
        visits = [(0.0, node) for node in range(len(levels[0][0]) - 1)]
        for depth, (starts, features, factors, weights, bias, children) in enumerate(levels):
            found = []
            for so_far, node in visits:
                own = slice(starts[node], starts[node + 1])
                sums = bias[node] + (x[features[own]] * factors[own].astype(float)) @ weights[own]
                n_children = children[node + 1] - children[node]
                penalties = np.maximum(1 - sums[:n_children], 0) ** 3
                found += [(0.8 * so_far - penalty, children[node] + c) for c, penalty in enumerate(penalties)]
            found.sort(key=lambda visit: (-visit[0], visit[1]))
            steps = -np.diff([score for score, _ in found])
            margin = min(margin, steps[steps > 0].min(initial=np.inf))
            visits = found[: beam if depth + 1 < len(levels) else k]
        scores[i, : len(visits)] = [score for score, _ in visits]
        leaves[i, : len(visits)] = [leaf for _, leaf in visits]
    return leaves, scores, margin


@pytest.mark.parametrize(("beam", "k"), [(1, 1), (1, 20), (3, 5), (8, 40), (10**12, 300)])
def test_search_matches_plain_python(backend, beam, k):
    rng = np.random.default_rng(0)
    levels, points = tree(), sparse_rows(rng, 40, shuffled=True)
    leaves, scores = search(backend, levels, points, beam, k)
    expected, logs, margin = search_by_hand(levels, points, beam, k)
    np.testing.assert_allclose(scores, logs, rtol=2e-5, atol=2e-5)
    assert margin > 1e-7 or k > 1
    # Either of two leaves may come first if rounding alone separates their scores.
    for row, wanted, log in zip(leaves, expected, logs, strict=True):
        apart = np.abs(np.diff(np.maximum(log, -1e6), prepend=1, append=-1e9)) > 1e-3
        sure = apart[:-1] & apart[1:] | (wanted < 0)
        np.testing.assert_array_equal(row[sure], wanted[sure])


def test_missing_answers_are_minus_one(backend):
    levels, points = tree(), sparse_rows(np.random.default_rng(0), 5)
    n_leaves = int(levels[-1][5][-1])
    leaves, scores = search(backend, levels, points, 30, n_leaves + 10)
    assert (np.sort(leaves[:, :n_leaves], axis=1) == np.arange(n_leaves)).all(), "a beam as wide as the tree sees all"
    assert (leaves[:, n_leaves:] == -1).all()
    assert (scores[:, n_leaves:] == -np.inf).all()
    assert (np.diff(scores[:, :n_leaves], axis=1) <= 0).all()
    few, _ = search(backend, levels, points, 1, 20)
    assert ((few == -1).sum(axis=1) >= 20 - CHILDREN).all()


@pytest.mark.numba_smoke
def test_equal_scores_are_ordered_by_id(backend):
    levels, points = tree(), sparse_rows(np.random.default_rng(0), 3)
    sure = [(*level[:3], level[3] * 0, np.full_like(level[4], 2), level[5]) for level in levels]
    leaves, scores = search(backend, sure, points, 30, 9)
    assert (leaves == np.arange(9)).all()
    assert (scores == 0).all()
    # A narrow beam visits the first two nodes of each level.
    leaves, _ = search(backend, sure, points, 2, 4)
    assert (leaves == [0, 1, 2, -1]).all(), "nodes 0 and 1 have one leaf and two"


@pytest.mark.parametrize("k", [1, 4, 9])
def test_named_leaves_order_equal_scores(backend, k):
    levels, points = tree(), sparse_rows(np.random.default_rng(0), 30)
    n_leaves = int(levels[-1][5][-1])
    names = np.random.default_rng(1).permutation(n_leaves).astype(np.int32)
    leaves, scores = search(backend, levels, points, 30, n_leaves)
    order = np.lexsort((names[leaves], -scores))[:, :k]
    assert (order[:, 0] > 0).any(), "the data must have points whose best leaf is another by number"
    found, own = search(backend, levels, points, 30, k, names=names)
    np.testing.assert_array_equal(found, np.take_along_axis(names[leaves], order, 1))
    np.testing.assert_array_equal(own, np.take_along_axis(scores, order, 1))


def test_points_without_features_follow_the_biases(backend):
    levels = tree()
    points = pointers([0, 0]), np.empty(0, np.int32), np.empty(0, np.float32)
    leaves, scores = search(backend, levels, points, 4, 6)
    expected, logs, _ = search_by_hand(levels, points, 4, 6)
    np.testing.assert_array_equal(leaves, expected)
    np.testing.assert_allclose(scores, logs, rtol=2e-5)
    none = np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32)
    assert search(backend, levels, none, 4, 6)[0].shape == (0, 6)


def test_answers_do_not_depend_on_the_batch_size(backend):
    """The search looks up a node's features in a table if many reach it, else by bisection."""
    n_features, rng = 3000, np.random.default_rng(2)
    levels = [machines(rng, [16, 16], [2500, 1500], n_features), machines(rng, [16] * 32, [1000] * 32, n_features)]
    points = sparse_rows(rng, 300, n_features)
    together = search(backend, levels, points, 5, 10, n_features=n_features)
    for i in range(0, 300, 7):
        row = slice(points[0][i], points[0][i + 1])
        alone = points[0][i : i + 2] - points[0][i], points[1][row], points[2][row]
        for one, many in zip(search(backend, levels, alone, 5, 10, n_features=n_features), together, strict=True):
            assert one[0].tobytes() == many[i].tobytes()
    logs = search_by_hand(levels, points, 5, 10, n_features)[1]
    np.testing.assert_allclose(together[1], logs, rtol=1e-4, atol=1e-4)


def test_searching_does_not_depend_on_threads(backend):
    levels, points = tree(), sparse_rows(np.random.default_rng(3), 2500)
    one = search(backend, levels, points, 4, 5)
    for threads in (*THREADS, 10**6):
        many = search(backend, levels, points, 4, 5, threads=threads)
        assert all(a.tobytes() == b.tobytes() for a, b in zip(many, one, strict=True))


def test_ranks_infinite_values(backend):
    """Sums of huge values become infinite or NaN: they rank last, and each leaf is still found once."""
    rng = np.random.default_rng(4)
    levels, (indptr, indices, data) = tree(), sparse_rows(rng, 200)
    huge = [(*level[:2], level[2] * np.float32(1e30), *level[3:]) for level in levels]
    points = indptr, indices, np.sign(data) * np.float32(1e38)
    n_leaves = int(levels[-1][5][-1])
    leaves, scores = search(backend, huge, points, 30, n_leaves)
    assert (np.sort(leaves, axis=1) == np.arange(n_leaves)).all()
    assert not np.isnan(scores).any()
    assert (scores[:, 1:] <= scores[:, :-1]).all()


def test_levels_may_be_empty_of_nodes(backend):
    rng = np.random.default_rng(0)
    points = sparse_rows(rng, 3)
    for levels in ([machines(rng, [], [])], [machines(rng, [0, 0], [3, 4]), machines(rng, [], [])]):
        leaves, scores = search(backend, levels, points, 2, 2)
        assert (leaves == -1).all()
        assert (scores == -np.inf).all()


# --- both backends ---


@pytest.mark.levels
@needs_both
def test_native_agrees_with_numba():
    native, numba = both_backends()
    given = sets(11, SIZES * 3, LEFT * 3)
    np.testing.assert_array_equal(split(native, *given), split(numba, *given))

    for given, epochs in ((arrivals(3), 4), (strangers(), 7), (strangers(), 20)):
        a, b = (train(module, *given, epochs=epochs) for module in (native, numba))
        step = np.abs(as_dense(*a)).max() / 127
        np.testing.assert_allclose(as_dense(*a), as_dense(*b), atol=step + 1e-3)
        np.testing.assert_allclose(a[4], b[4], atol=1e-4)

    levels, points = tree(5), sparse_rows(np.random.default_rng(5), 60)
    (leaves, scores), (others, logs) = (search(module, levels, points, 3, 8) for module in (native, numba))
    np.testing.assert_allclose(scores, logs, rtol=1e-4, atol=1e-4)
    assert (leaves == others).mean() > 0.99


# --- wrong arguments ---


def refused(function, arguments, what, **changed):
    arguments = arguments | changed
    written = {name: arguments[name].copy() for name in ("order", "leaves", "scores") if name in arguments}
    with pytest.raises(ValueError, match=what):
        function(**arguments)
    for name, before in written.items():
        np.testing.assert_array_equal(arguments[name], before)


def named(rows, **others):
    return dict(zip(("indptr", "indices", "data"), rows, strict=True)) | {"n_features": N_FEATURES} | others


def all_arguments():
    rows, starts, left, order = sets()
    yield "split_sets", named(rows, starts=starts, left=left, seed=0, most_rounds=3, order=order, threads=1)
    points, squares, starts, reached, belongs, children = arrivals()
    nodes = {"squares": squares, "starts": starts, "reached": reached, "belongs": belongs, "children": children}
    rules = {
        "cost": 1.0,
        "cost_of_others": 0.5,
        "rarity": 0.3,
        "most_epochs": 2,
        "tolerance": 0.1,
        "seed": 0,
        "smallest": 0.1,
    }
    yield "train_nodes", named(points, **nodes, **rules, threads=1)
    out = {"leaves": np.zeros((len(points[0]) - 1, 3), np.int32), "scores": np.zeros((len(points[0]) - 1, 3), "f4")}
    names = np.arange(tree()[-1][5][-1], dtype=np.int32)
    yield "search_tree", {"levels": tree(), **named(points, beam=3), "names": names, **out, "threads": 1}


def damages(array):
    """Yield damaged copies of an array, each after its description."""
    yield "dtype", array.astype(np.float64)
    yield "dimensions", array[None]
    yield "contiguous", np.repeat(array, 2, axis=-1)[..., ::2]


@pytest.mark.parametrize("which", range(3), ids=["split_sets", "train_nodes", "search_tree"])
def test_rejects_arrays_of_the_wrong_kind_or_length_by_name(backend, which):
    name, arguments = [*all_arguments()][which]
    function = getattr(backend, name)
    function(**arguments)
    name, arguments = [*all_arguments()][which]
    for argument, array in arguments.items():
        if not isinstance(array, np.ndarray):
            continue
        for what, bad in damages(array):
            refused(function, arguments, f"^{argument} must .*{what}", **{argument: bad})
        if (name, argument) != ("split_sets", "indptr"):  # which may be of any number of rows
            refused(function, arguments, "|".join(arguments), **{argument: array[:-1].copy()})
        if argument in ("indptr", "starts", "children"):
            shifted = array.copy()
            shifted[0] = 1
            refused(function, arguments, f"^{argument} must start with 0", **{argument: shifted})
        if argument in ("order", "leaves", "scores"):
            locked = array.copy()
            locked.flags.writeable = False
            refused(function, arguments, f"^{argument} must be writeable", **{argument: locked})
    refused(function, arguments, "^threads must be at least 1, got 0", threads=0)


def test_accepts_read_only_arrays(backend):
    for name, arguments in all_arguments():
        for array in [*arguments.values(), *(part for level in arguments.get("levels", ()) for part in level)]:
            if isinstance(array, np.ndarray) and not any(
                array is arguments.get(x) for x in ("order", "leaves", "scores")
            ):
                array.flags.writeable = False
        getattr(backend, name)(**arguments)


def test_rejects_more_children_than_machines(backend):
    _, (name, arguments), _ = all_arguments()
    counts = [3, 17, 1, 5, 2, 0]
    refused(getattr(backend, name), arguments, "^children must .* 0 to 16 .* 17", children=pointers(counts))
    wrong = pointers([3, -1, 1, 5, 2, 0])
    refused(getattr(backend, name), arguments, "^children must .* 0 to 16 .* -1", children=wrong)


def test_rejects_wrong_levels(backend):
    *_, (name, arguments) = all_arguments()
    function, levels = getattr(backend, name), arguments["levels"]
    refused(function, arguments, "^levels must not be empty", levels=[])
    refused(function, arguments, "^levels must each be a tuple of 6 arrays", levels=[levels[0][:5]])
    refused(function, arguments, "^levels must each be a tuple of 6 arrays", levels=[list(levels[0])])
    refused(function, arguments, "^levels must each have as many nodes", levels=[levels[0], levels[2]])
    refused(function, arguments, "^beam must be at least 1, got 0", beam=0)
    rows = len(arguments["leaves"])
    none = {"leaves": np.zeros((rows, 0), np.int32), "scores": np.zeros((rows, 0), np.float32)}
    refused(function, arguments, "^leaves must have a column", **none)
    parts = ("starts", "features", "factors", "weights", "bias", "children")
    for at, part in enumerate(parts):
        array = levels[1][at]
        cut = [("length", array[:-1].copy())]
        for what, bad in (*damages(array), *cut):
            level = (*levels[1][:at], bad, *levels[1][at + 1 :])
            match = "|".join(parts) + "|levels" if what == "length" else f"^{part} must .*{what}"
            refused(function, arguments, match, levels=[levels[0], level, levels[2]])
    for at in (3, 4):
        narrow = np.ascontiguousarray(levels[1][at][:, :15])
        level = (*levels[1][:at], narrow, *levels[1][at + 1 :])
        refused(function, arguments, rf"^{parts[at]} has shape\[1\] = 15", levels=[levels[0], level, levels[2]])
