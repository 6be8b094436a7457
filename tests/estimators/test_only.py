"""Labels to choose from, `only=`, and names of labels in `exclude=` and `only=`."""

import re

import numpy as np
import pytest
from scipy import sparse

from sparsenet import BlendClassifier, ExtremeClassifier, TreeClassifier
from sparsenet.core.rows import Rows
from sparsenet.engines.tree import fit_tree
from tests.support.planted import X, Y, fast

N, N_LABELS = Y.shape
NAMES = [f"label {i:02d}" for i in range(N_LABELS)]
NUMBERS = [np.flatnonzero(row).tolist() for row in Y]
LISTS = [[NAMES[label] for label in row] for row in NUMBERS]
MODELS = {
    "network": lambda: fast(epochs=2),
    "softmax": lambda: fast(epochs=2, loss="softmax"),
    "tree": lambda: TreeClassifier(beam=2, random_state=0),
    "blend": lambda: BlendClassifier(network=ExtremeClassifier(hidden=32, epochs=2), random_state=0),
    "no network": lambda: BlendClassifier(network="drop", random_state=0),
}
RARE = np.arange(N_LABELS) % 5 == 3


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return MODELS[request.param]().fit(X, LISTS)


@pytest.fixture(scope="module")
def numbered():
    """A model whose labels are numbers in lists: 0 to 39."""
    return TreeClassifier(random_state=0).fit(X, NUMBERS)


def test_only_ranks_all_allowed_labels(model):
    labels, p = model.topk_numbers(X[:50], N_LABELS, only=RARE)
    assert labels.shape == (50, RARE.sum())
    assert (np.sort(labels, axis=1) == np.flatnonzero(RARE)).all()
    assert (np.diff(p, axis=1) <= 1e-7).all()


def test_only_gives_the_order_and_probabilities_of_all_labels(model):
    if isinstance(model, TreeClassifier):
        model.set_params(beam=N_LABELS)
    elif isinstance(model, BlendClassifier):
        model.set_params(candidates=N_LABELS)
    ranked, ranked_p = model.topk_numbers(X[:50], N_LABELS)
    kept = RARE[ranked]
    labels, p = model.topk_numbers(X[:50], N_LABELS, only=RARE)
    np.testing.assert_allclose(p, ranked_p[kept].reshape(p.shape), rtol=1e-3, atol=1e-6)
    assert (labels == ranked[kept].reshape(labels.shape)).mean() > 0.98  # sums in another order may swap near ties


@pytest.mark.parametrize("form", [list, tuple, set, np.array, lambda names: np.array(names, object), dict.fromkeys])
def test_names_equal_the_mask(model, form):
    names = form([name for name, marked in zip(NAMES, RARE, strict=True) if marked])
    for argument in ("only", "exclude"):
        by_name = model.topk_numbers(X[:9], 4, **{argument: names})
        for ours, theirs in zip(by_name, model.topk_numbers(X[:9], 4, **{argument: RARE}), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_each_row_may_have_its_own_names(model):
    rows = [["label 03", "label 08"], ["label 01"], [], ["label 03", "label 08"]]
    labels, p = model.topk_numbers(X[:4], 3, only=rows)
    assert [sorted(own[own >= 0].tolist()) for own in labels] == [[3, 8], [1], [], [3, 8]]
    assert (p[labels < 0] == 0).all()
    alone = model.topk_numbers(X[[3]], 3, only=[rows[3]])
    np.testing.assert_array_equal(alone[0][0], labels[3])
    assert np.diff(model.predict_topk(X[:4], 3, only=rows).indptr).tolist() == [2, 1, 0, 2]
    with pytest.raises(ValueError, match="only leaves row 0 2 labels, fewer than k=3: use predict_topk"):
        model.topk(X[:4], 3, only=rows)


def test_exclude_is_taken_from_only(model):
    labels, _ = model.topk_numbers(X[:9], 3, only=RARE, exclude=["label 03"])
    assert not (labels == 3).any()
    assert set(labels.ravel()) <= set(np.flatnonzero(RARE))
    own = [["label 03"] if row % 2 else [] for row in range(9)]
    labels, _ = model.topk_numbers(X[:9], int(RARE.sum()), only=RARE, exclude=own)
    assert ((labels == 3).any(axis=1) == [row % 2 == 0 for row in range(9)]).all()
    with pytest.raises(ValueError, match="exclude and only leave row 0 0 labels, fewer than k=1"):
        model.topk(X[:1], 1, only=["label 03"], exclude=["label 03"])


def test_a_blank_point_gets_the_most_frequent_allowed_labels(model):
    labels, p = model.topk_numbers(np.zeros((1, X.shape[1])), 3, only=RARE)
    counts = np.where(RARE, model.label_counts_, -1)
    assert model.label_counts_[labels[0, 0]] == counts.max()
    assert (np.diff(p) <= 0).all()


def test_a_sparse_matrix_allows_labels_of_each_row(model):
    some = sparse.csr_array(sparse.random_array((20, N_LABELS), density=0.2, rng=np.random.default_rng(0)))
    labels, _ = model.topk_numbers(X[:20], 3, only=some)
    chosen = labels >= 0
    assert chosen.sum() == np.minimum(np.diff(some.indptr), 3).sum()
    assert (some.toarray()[np.nonzero(chosen)[0], labels[chosen]] != 0).all()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["label 03", "tea"], "only names 'tea', not among the 40 labels in classes_: leave unknown labels out"),
        ([f"x{i}" for i in range(5)], "only names 'x0', 'x1', 'x2' and 2 more, not among"),
        ([["label 03"], ["tea"], ["milk"]], "only names 'tea', 'milk', not among"),
        ([["label 03"], ["label 01"]], "only holds names for 2 rows, X has 3: pass a list for each row, or one"),
        ("label 03", re.escape("only is the string 'label 03': pass a list, ['label 03']")),
        (["label 03", 3], "only mixes names of labels with 3: pass names alone, or a mask"),
        ([1, 2, 3], r"only has the shape \(3,\), must be"),
        ([], "only allows no label: give at least one, or None for all labels"),
        (np.zeros(N_LABELS), "only allows no label"),
        ([None], "only holds None, which is no label: pass names as in classes_, or a mask"),
        ([[None], ["label 03"], []], "only mixes names of labels with None"),
        ([[None], [None], [None]], "only holds None, which is no label"),
        ([{"label 03": 1}], "only holds {'label 03': 1}, which is no label"),
        (np.array([None]), "only holds None, which is no label"),
        (5, "only must be an array or sparse matrix|only has the shape"),
        (len, "only must be an array or .*, got builtin_function_or_method"),
        ([["label 03"], "label 01", ["label 02"]], "only mixes names of labels with"),
    ],
)
def test_rejects_names_that_are_no_labels(model, names, message):
    with pytest.raises(ValueError, match=message):
        model.topk(X[:3], 1, only=names)


def test_numbers_are_names_where_labels_are_numbers(numbered):
    classes, _ = numbered.topk(X[:5], 3, only=[3, 8, 13])
    assert set(classes.ravel().tolist()) == {3, 8, 13}
    classes, _ = numbered.topk(X[:2], 1, only=[[7], [9]])
    assert classes.ravel().tolist() == [7, 9]
    assert set(numbered.topk(X[:5], 2, only=np.array([3, 8]))[0].ravel().tolist()) == {3, 8}
    with pytest.raises(ValueError, match="only names 40, not among the 40 labels"):
        numbered.topk(X[:2], 1, only=[1, 40])


def test_numbers_of_the_shape_of_a_mask_are_a_mask(numbered):
    mask = [int(i in (3, 8)) for i in range(N_LABELS)]
    assert set(numbered.topk(X[:5], 2, only=mask)[0].ravel().tolist()) == {3, 8}
    assert set(numbered.topk(X[:2], 2, only=[mask, mask])[0].ravel().tolist()) == {3, 8}


def test_refuses_numbers_that_may_be_a_mask_or_names(numbered):
    with pytest.raises(ValueError, match="only could be a mask or name all 40 labels: pass booleans for a mask, a set"):
        numbered.topk(X[:5], 2, only=list(range(N_LABELS)))
    assert (numbered.topk_numbers(X[:5], 2, only=set(range(N_LABELS)))[0] >= 0).all()
    with pytest.raises(ValueError, match=r"only has the shape \(5,\), must be"):
        numbered.topk(X[:5], 2, only=[0, 0, 1, 1, 0])  # a mask that is too short names no label twice


def test_labels_without_training_points_come_last():
    y = np.pad(Y, ((0, 0), (0, 2)))
    for model in (TreeClassifier(random_state=0), BlendClassifier(network="drop", random_state=0)):
        labels, p = model.fit(X, y).topk_numbers(X[:5], 3, only=[2, N_LABELS, N_LABELS + 1])
        assert (labels[:, 0] == 2).all()
        assert (p[:, 1:] < 1e-3).all()
        labels, _ = model.topk_numbers(X[:5], 3, only=[N_LABELS, N_LABELS + 1])
        assert labels.tolist() == [[N_LABELS, N_LABELS + 1]] * 5


def test_a_restricted_tree_scores_labels_as_the_whole_tree_does():
    tree, points = TreeClassifier(random_state=0).fit(X, Y).fitted_, Rows.of(sparse.csr_array(X[:30], dtype=np.float32))
    whole, scores = tree.rank(points, N_LABELS, beam=N_LABELS, threads=1)
    some = np.flatnonzero(RARE).astype(np.int32)
    labels, own = tree.rank(points, len(some), beam=1, threads=1, among=some)
    kept = RARE[whole]
    np.testing.assert_array_equal(labels, whole[kept].reshape(labels.shape))
    np.testing.assert_array_equal(own, scores[kept].reshape(own.shape))


def test_many_allowed_labels_are_searched_by_beam(monkeypatch, model):
    monkeypatch.setattr(fit_tree, "EXACT", 2)
    monkeypatch.setattr("sparsenet.engines.blend.candidates.EXACT", 2)
    labels, p = model.topk_numbers(X[:9], 3, only=RARE)
    assert set(labels.ravel()) <= set(np.flatnonzero(RARE))
    assert (np.diff(p, axis=1) <= 0).all()


@pytest.mark.parametrize("loss", ["bce", "softmax"])
def test_a_predictor_scores_allowed_labels_exactly(loss):
    model = fast(epochs=2, loss=loss).fit(X, LISTS)
    predictor, names = model.predictor(k=3, candidates=4), ["label 03", "label 08", "label 13", "label 18"]
    for ours, theirs in zip(predictor(X[:9], only=names), model.topk(X[:9], 3, only=names), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    row = X[[4]].tocoo()
    one, p = predictor.one(row.col, row.data, only=names, exclude=["label 03", "of no model"])
    expected = model.topk(X[[4]], 3, only=names, exclude=["label 03"])
    assert one.tolist() == expected[0][0].tolist()
    np.testing.assert_allclose(p, expected[1][0], rtol=1e-4)
    with pytest.raises(ValueError, match="only names 'tea', not among"):
        predictor.one(row.col, row.data, only=["tea"])
    with pytest.raises(ValueError, match="only must be a list of labels, got 'tea'"):
        predictor.one(row.col, row.data, only="tea")
    with pytest.raises(
        ValueError, match="only leaves row 1 1 labels, fewer than k=3: build a predictor with a smaller"
    ):
        predictor(X[:2], only=[names, names[:1]])
