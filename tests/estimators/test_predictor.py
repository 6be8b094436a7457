"""Answers from a shortlist: exact scores, and a measured recall."""

import pickle

import numpy as np
import pytest
from scipy import sparse

from sparsenet import BlendClassifier, ExtremeClassifier
from sparsenet.engines.network.shortlist import Shortlist
from tests.support.planted import NAMES, X, Y, fast


@pytest.fixture(scope="module")
def model():
    return fast().fit(X, Y)


@pytest.mark.parametrize("parameters", [{}, {"hidden": 0}, {"hidden": (16, 16)}, {"loss": "softmax"}], ids=str)
def test_a_shortlist_of_all_labels_is_exact(parameters):
    model = fast(epochs=5, **parameters).fit(X, Y)
    predictor = model.predictor(k=5, candidates=Y.shape[1])
    classes, probabilities = predictor(X)
    exact_classes, exact = model.topk(X, k=5)
    assert (classes == exact_classes).mean() > 0.99  # sums in another order may swap near ties
    assert predictor.recall(X) > 0.99
    np.testing.assert_allclose(probabilities, exact, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("postings", [2, 1000])
def test_scores_are_exact_even_if_the_index_is_pruned(model, postings):
    predictor = model.predictor(k=3, candidates=12, postings=postings)
    classes, probabilities = predictor(X)
    every = model.predict_proba(X)
    np.testing.assert_allclose(probabilities, np.take_along_axis(every, classes, axis=1), rtol=1e-4, atol=1e-7)
    assert (np.diff(probabilities, axis=1) <= 0).all()


def test_recall_falls_with_a_pruned_index(model):
    assert model.predictor(k=2, candidates=8).recall(X) > 0.98
    few = model.predictor(k=2, candidates=2, postings=1)
    found = few(X)[0]
    exact = model.topk(X, k=2)[0]
    share = np.mean([len(set(a) & set(b)) / 2 for a, b in zip(found.tolist(), exact.tolist(), strict=True)])
    assert few.recall(X) == pytest.approx(share)
    assert share < 1


@pytest.mark.parametrize("network", ["drop", ExtremeClassifier(hidden=8, epochs=1)], ids=["tree", "network"])
def test_the_predictor_of_a_blend_can_be_pickled(network):
    predictor = BlendClassifier(network=network, random_state=0).fit(X, Y).predictor(k=3)
    again = pickle.loads(pickle.dumps(predictor))
    np.testing.assert_array_equal(again.one([1, 2], [1, 1]), predictor.one([1, 2], [1, 1]))


def test_one_point_is_answered_like_many(model):
    predictor = model.predictor(k=4)
    classes, probabilities = predictor(X[:20])
    for i in range(20):
        row = X[[i]].tocoo()
        order = np.random.default_rng(i).permutation(row.nnz)  # features in any order
        one, p = predictor.one(row.col[order], row.data[order])
        assert one.tolist() == classes[i].tolist()
        np.testing.assert_allclose(p, probabilities[i], rtol=1e-4)


SOME = sparse.random_array(Y.shape, density=0.2, rng=np.random.default_rng(0), format="csr")


@pytest.mark.parametrize("named", [False, True])
def test_excludes_labels_like_topk(named):
    y = [NAMES[row != 0].tolist() for row in Y] if named else Y
    model = fast(epochs=5).fit(X, y)
    predictor = model.predictor(k=4, candidates=Y.shape[1])
    classes, probabilities = predictor(X[:50], exclude=SOME[:50])
    exact_classes, exact = model.topk(X[:50], k=4, exclude=SOME[:50])
    assert (classes == exact_classes).mean() > 0.99  # sums in another order may swap near ties
    np.testing.assert_allclose(probabilities, exact, rtol=1e-3, atol=1e-6)
    for i in range(20):
        row, had = X[[i]].tocoo(), model.classes_[SOME[[i]].indices]
        for exclude in (had, [*had.tolist(), "of no model"]):
            one, p = predictor.one(row.col, row.data, exclude=exclude)
            assert one.tolist() == classes[i].tolist()
            np.testing.assert_allclose(p, probabilities[i], rtol=1e-4)


def test_an_exhausted_shortlist_falls_back_to_all_labels(model):
    predictor = model.predictor(k=3, candidates=5)
    numbers = np.argsort(-model.predict_proba(X[:20]), axis=1)[:, :4]
    excluded = np.zeros((20, Y.shape[1]), bool)
    np.put_along_axis(excluded, numbers, True, axis=1)
    best, probabilities = model.topk(X[:20], k=3, exclude=excluded)
    found, p = predictor(X[:20], exclude=excluded)
    np.testing.assert_array_equal(found, best)
    np.testing.assert_allclose(p, probabilities, rtol=1e-4)
    row = X[[0]].tocoo()
    one, p = predictor.one(row.col, row.data, exclude=numbers[0])
    assert one.tolist() == best[0].tolist()
    np.testing.assert_allclose(p, probabilities[0], rtol=1e-4)
    with pytest.raises(
        ValueError, match="exclude leaves row 0 2 labels, fewer than k=3: build a predictor with a smaller k"
    ):
        predictor.one(row.col, row.data, exclude=range(2, Y.shape[1]))


@pytest.mark.parametrize("exclude", ["ab", 5, None, [[1, 2]]])
def test_rejects_an_invalid_exclusion(model, exclude):
    with pytest.raises(ValueError, match="exclude must be a list of labels, got"):
        model.predictor().one([0], [1.0], exclude=exclude)


def test_an_empty_point_gets_the_most_frequent_labels(model):
    classes, _ = model.predictor(k=3, candidates=Y.shape[1]).one([], [])
    assert classes.tolist() == model.topk(np.zeros((1, X.shape[1])), k=3)[0][0].tolist()


@pytest.mark.parametrize(
    ("indices", "values", "message"),
    [
        ([1, 2], [1.0], "one length"),
        ([-1], [1.0], "from 0 to 59, got -1"),
        ([60], [1.0], "from 0 to 59, got 60"),
        ([3, 3], [1.0, 2.0], "distinct"),
        ([3], [np.nan], "values holds NaN for feature 3: fill in or drop missing values"),
        ([1, 3], [1.0, -np.inf], r"values holds infinity \(-inf\) for feature 3: replace or drop it"),
        ([1, 3], [1e39, 1.0], r"values holds 1e\+39, beyond the range of float32 .* for feature 1: rescale"),
    ],
)
def test_rejects_a_malformed_point(model, indices, values, message):
    with pytest.raises(ValueError, match=message):
        model.predictor().one(indices, values)


@pytest.mark.parametrize("name", ["k", "candidates", "postings"])
def test_rejects_numbers_below_one(model, name):
    with pytest.raises(ValueError, match=name):
        model.predictor(**{name: 0})


@pytest.fixture(scope="module")
def dense():
    """Return a network without a wide path for 3,000 labels, and its points."""
    rng = np.random.default_rng(0)
    places = rng.normal(size=(3000, 24)).astype(np.float32)
    y = np.concatenate((np.arange(3000), rng.integers(0, 3000, 3000)))
    points = places[y] + 0.1 * rng.normal(size=(6000, 24)).astype(np.float32)
    return fast(wide=False, hidden=24, epochs=3).fit(points, y), points, y


def test_scores_all_labels_without_a_wide_path_and_a_sample(dense):
    model, points, _ = dense
    labels, probabilities = model.topk(points[:30], k=3)
    found, p = model.predictor(k=3)(points[:30])
    np.testing.assert_array_equal(found, labels)
    np.testing.assert_allclose(p, probabilities, rtol=1e-4)


def test_finds_labels_in_cells_without_a_wide_path(dense):
    model, points, _ = dense
    predictor = model.predictor(k=3, candidates=20, recall=0.9, sample=points[:300])
    assert predictor._shortlist.index is not None
    assert predictor._shortlist.effort < predictor._shortlist.index.max_effort / 2
    assert predictor.recall(points[:300]) >= 0.9
    labels, probabilities = predictor(points[:30])
    ranked, every = model.topk(points[:30], k=3000)
    expected = [[p[names == label][0] for label in row] for names, p, row in zip(ranked, every, labels, strict=True)]
    np.testing.assert_allclose(probabilities, expected, rtol=1e-4)
    one, p = predictor.one(np.arange(24), points[0])
    assert one.tolist() == labels[0].tolist()
    np.testing.assert_allclose(p, probabilities[0], rtol=1e-4)


def test_examples_list_their_labels_in_cells(dense):
    model, points, y = dense
    settings = {"k": 1, "candidates": 10, "recall": 0.9, "sample": points[:300]}
    answers = model.topk(points, k=1)[0][:, 0]
    predictor = model.predictor(**settings, examples=(points, answers))
    plain, index = model.predictor(**settings)._shortlist, predictor._shortlist.index
    assert predictor.recall(points[:300]) >= 0.9
    units = model.network_.hidden_units(model._features(points[:300]), 1)
    weight, bias = model.network_.output.weight.value, model.network_.output.bias.value.reshape(-1)

    def reads(shortlist):
        return shortlist.index.search(units, weight, bias, 1, shortlist.effort)[2].mean()

    assert len(index._labels) > 3000  # cells with the labels of examples won
    assert reads(predictor._shortlist) < reads(plain)
    with pytest.raises(ValueError, match="X has 6000 rows, y has 2"):
        model.predictor(**settings, examples=(points, y[:2]))
    with pytest.raises(ValueError, match="examples need recall and sample"):
        model.predictor(examples=(points, y))


def test_examples_need_a_network_without_a_wide_path(model):
    with pytest.raises(ValueError, match="examples are for a network without a wide path"):
        model.predictor(recall=0.9, sample=X, examples=(X, Y))


def test_scores_all_labels_if_cells_would_read_more(dense):
    model, points, _ = dense
    predictor = model.predictor(k=3, candidates=3000, recall=0.9, sample=points[:50])
    assert predictor._shortlist.index is None
    assert predictor.recall(points[:50]) == 1


@pytest.mark.parametrize("normalize", ["columns", "together", "mixed"])
def test_missing_columns_of_a_table_are_zero(normalize):
    predictor = fast(epochs=1, normalize=normalize).fit(X.toarray() + 1, Y).predictor(k=2)
    point = X.toarray()[:1]
    for named in (np.flatnonzero(point[0]), np.arange(point.shape[1])[::-1]):
        for found, expected in zip(predictor.one(named, point[0, named]), predictor(point), strict=True):
            np.testing.assert_array_equal(found, expected[0])


def test_keeps_the_largest_weights_of_a_feature(model):
    whole = model.network_.output.wide.inverted()
    cut = Shortlist.of(model.network_.output, size=5, n_postings=3).index
    for feature in range(X.shape[1]):
        every = whole.data[whole.indptr[feature] : whole.indptr[feature + 1]]
        kept = cut.data[cut.indptr[feature] : cut.indptr[feature + 1]]
        assert sorted(kept) == sorted(every)[-3:]


@pytest.fixture(scope="module")
def muddled():
    """Return a model whose features each support many labels, and its points."""
    rng = np.random.default_rng(0)
    points = sparse.random(300, 20, 0.3, "csr", rng=rng)
    return fast(hidden=0, epochs=5).fit(points, rng.integers(0, 60, 300)), points


def test_chooses_the_smallest_index_of_the_given_recall(muddled):
    model, points = muddled
    rows, how = model._features(points), {"size": 10, "max_postings": 2048, "min_postings": 1, "threads": 1}

    def chosen(recall):
        return Shortlist.with_recall(model.network_, rows, 5, recall, **how)

    recalls = {n: model.predictor(k=5, candidates=10, postings=n).recall(points) for n in (1, 2, 4, 8)}
    assert recalls[1] < recalls[2] < recalls[4] < recalls[8]
    for n in (1, 2, 4):
        assert chosen(recalls[n]).n_postings == n
        assert chosen(recalls[n]).recall(model.network_, rows, 5, 1) == recalls[n]
        assert chosen(recalls[n] + 1e-9).n_postings == 2 * n
    found = model.predictor(k=5, candidates=10, recall=recalls[8], sample=points)
    assert found.recall(points) >= recalls[8]


def test_reports_an_unreachable_recall(muddled):
    model, points = muddled
    with pytest.warns(RuntimeWarning, match="of the best 5 labels of the sample are found, 1.0 were asked for: raise"):
        found = model.predictor(k=5, candidates=5, postings=1, recall=1.0, sample=points)
    assert found.postings == 1
    deep = fast(epochs=5, wide_budget=1).fit(points, np.arange(300) % 60)
    with pytest.warns(RuntimeWarning, match="raise candidates$"):
        assert deep.predictor(k=5, candidates=5, postings=999, recall=1.0, sample=points).recall(points) < 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"recall": 0.9}, "recall and sample go together"),
        ({"sample": X}, "recall and sample go together"),
        ({"sample": X, "recall": 2}, "recall must be"),
        ({"sample": X[:0], "recall": 0.9}, "sample has no rows|minimum of 1"),
    ],
    ids=lambda value: "given" if isinstance(value, dict) else value,
)
def test_tuning_recall_needs_points(model, given, message):
    with pytest.raises(ValueError, match=message):
        model.predictor(**given)


@pytest.mark.parametrize("ids", [np.array([2**32 + 1]), [1.7], [True], ["1"]], ids=str)
def test_rejects_invalid_ids(model, ids):
    with pytest.raises(ValueError, match="indices must be"):
        model.predictor(k=2, candidates=8).one(ids, [1.0])
