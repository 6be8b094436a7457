"""Excluded labels, such as products that a customer has already bought."""

import copy
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import sparse

from sparsenet import BlendClassifier, ExtremeClassifier, TreeClassifier
from sparsenet.engines.blend.fast_ranking import FastRanking
from sparsenet.engines.tree import machines
from sparsenet.estimators.excluding import Allowed, LabelMask
from sparsenet.estimators.tree import MAX_EXTRA_BEAM
from tests.support.planted import X, Y, fast

N, N_LABELS = Y.shape
SOME: Any = sparse.random_array(Y.shape, density=0.2, rng=np.random.default_rng(0), format="csr")
MODELS = {
    "network": fast(epochs=2),
    "tree": TreeClassifier(random_state=0),
    "blend": BlendClassifier(network=ExtremeClassifier(hidden=32, epochs=2), random_state=0),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return MODELS[request.param].fit(X, Y)


def test_other_labels_move_up():
    model = fast(epochs=2).fit(X, Y)
    dense = model.predict_proba(X) - 2 * (SOME.toarray() != 0)
    numbers, probabilities = model.topk_numbers(X, 5, exclude=SOME)
    np.testing.assert_allclose(-np.sort(-dense, axis=1)[:, :5], probabilities, rtol=2e-5, atol=1e-7)
    np.testing.assert_allclose(np.take_along_axis(dense, numbers, axis=1), probabilities, rtol=2e-5, atol=1e-7)


@pytest.mark.parametrize(
    "form", [sparse.csc_array, sparse.csr_matrix, lambda A: A.toarray(), lambda A: A.toarray() > 0]
)
def test_excluded_labels_are_never_predicted(model, form):
    numbers, probabilities = model.topk_numbers(X, 6, exclude=form(SOME))
    assert (numbers >= 0).all()
    assert not SOME.toarray()[np.arange(N)[:, None], numbers].any()
    assert (np.diff(probabilities, axis=1) <= 0).all()
    np.testing.assert_array_equal(model.topk(X, 6, exclude=form(SOME))[0], model.classes_[numbers])


def test_exclusions_of_other_rows_do_not_matter(model):
    together, p = model.topk_numbers(X, 3, exclude=SOME)
    for i in (0, 17, N - 1):
        alone, own = model.topk_numbers(X[[i]], 3, exclude=SOME[[i]])
        np.testing.assert_array_equal(alone[0], together[i])
        np.testing.assert_allclose(own[0], p[i], rtol=1e-5)


def test_excluding_nothing_changes_nothing(model):
    zeros = sparse.csr_array((np.zeros(1), ([0], [0])), shape=Y.shape)  # a stored zero excludes nothing
    for ours, plain in zip(model.topk_numbers(X, 5, exclude=zeros), model.topk_numbers(X, 5), strict=True):
        np.testing.assert_array_equal(ours, plain)


def test_accepts_too_few_remaining_labels(model):
    most = np.ones(Y.shape, bool)
    most[:, :2] = False
    most[3] = True
    numbers, probabilities = model.topk_numbers(X, 4, exclude=most)
    assert set(numbers[0, :2]) == {0, 1}
    assert (numbers[:, 2:] == -1).all()
    assert (numbers[3] == -1).all()
    assert (probabilities[numbers < 0] == 0).all()
    top = model.predict_topk(X, 4, exclude=most)
    assert np.diff(top.indptr).tolist() == [0 if i == 3 else 2 for i in range(N)]
    with pytest.raises(ValueError, match="exclude leaves row 0 2 labels, fewer than k=4"):
        model.topk(X, 4, exclude=most)


def test_rejects_an_exclusion_of_another_shape(model):
    with pytest.raises(ValueError, match=rf"exclude has the shape \({N}, {N_LABELS - 1}\), must be"):
        model.topk(X, 2, exclude=SOME[:, :-1])
    with pytest.raises(ValueError, match="exclude has the shape"):
        model.predict_topk(X[:5], 2, exclude=SOME)


@pytest.mark.parametrize(
    "form", [np.asarray, list, lambda mask: mask[None], lambda mask: sparse.csr_array(mask[None]), sparse.coo_array]
)
def test_one_mask_applies_to_all_rows(model, form):
    mask = np.arange(N_LABELS) % 3 == 1
    stacked = model.topk_numbers(X, 6, exclude=np.tile(mask, (N, 1)))
    for ours, expected in zip(model.topk_numbers(X, 6, exclude=form(mask)), stacked, strict=True):
        np.testing.assert_array_equal(ours, expected)
    target = model.fitted_.target
    assert LabelMask.of("exclude", form(mask), 1 << 60, target).own is None  # one mask serves all rows without copies


def test_rejects_a_mask_of_another_length(model):
    with pytest.raises(ValueError, match=rf"exclude has the shape .*, or \({N_LABELS},\) for all rows"):
        model.topk(X, 2, exclude=np.ones(N_LABELS - 1))
    with pytest.raises(ValueError, match="exclude names 'a', not among the 40 labels in classes_"):
        model.topk(X, 2, exclude=["a"] * N_LABELS)


class WatchedTree(TreeClassifier):
    """A tree that records its searches: points, labels of each, and labels to pass over."""

    searches: ClassVar[list[tuple[int, int, int]]] = []

    def _best(self, features, k, n_dropped=0):
        self.searches.append((len(features), k, n_dropped))
        return super()._best(features, k, n_dropped)


@pytest.fixture
def watched():
    model = WatchedTree(random_state=0).fit(X, Y)
    yield model
    model.searches.clear()


def test_ranks_few_labels_first_and_more_if_needed(watched):
    model = watched
    ranked = model.topk_numbers(X, N_LABELS)[0]
    excluded = np.zeros(Y.shape, bool)
    np.put_along_axis(excluded, ranked[:, 10:], True, axis=1)  # thirty of forty labels, none of them needed
    np.put_along_axis(excluded[7:8], ranked[7:8], np.arange(N_LABELS) < 36, axis=1)  # most of the best
    excluded[9] = True
    model.searches.clear()
    numbers, _ = model.topk_numbers(X, 2, exclude=excluded)
    assert model.searches == [(N - 2, 18, 32), (2, 18, MAX_EXTRA_BEAM), (2, 40, MAX_EXTRA_BEAM)]
    expected = ranked[:, :2].copy()
    expected[7], expected[9] = ranked[7, 36:38], -1
    np.testing.assert_array_equal(numbers, expected)


def test_ranks_points_in_blocks_if_nearly_all_labels_are_excluded(watched):
    mask = np.arange(N_LABELS) < N_LABELS - 2
    expected = watched.topk_numbers(X, 2, exclude=mask)
    watched.searches.clear()
    allowed = Allowed.of(mask, None, N, watched.fitted_.target)
    found = watched._best_allowed(watched._features(X), 2, allowed, max_ranked=100)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert len(watched.searches) > 1
    assert max(n_points * k for n_points, k, _ in watched.searches) <= 100


#: Many nodes of labels with two points each, which have the label's feature and features of other labels.
WIDE, OTHERS = 400, 17
RELATED = np.random.default_rng(1).permuted(np.tile(np.arange(WIDE), (2 * WIDE, 1)), axis=1)[:, :OTHERS]
OWN = np.tile(np.arange(WIDE), 2)[:, None]
POINTS = np.repeat(np.arange(len(OWN)), 1 + OTHERS)
SPEAKING = sparse.csr_array((np.ones(len(POINTS), np.float32), (POINTS, np.hstack((OWN, RELATED)).ravel())))
#: The searches follow one node of each level, and two.
NARROW: dict[str, Any] = {
    "tree": TreeClassifier(beam=1, random_state=0),
    "blend": BlendClassifier(network="drop", tree=TreeClassifier(beam=1), candidates=1, random_state=0),
}


@pytest.fixture(scope="module", params=NARROW)
def narrow(request):
    return NARROW[request.param].fit(SPEAKING, OWN[:, 0])


def test_excluded_labels_do_not_fill_the_beam(narrow):
    """A point's features lead to nodes that may hold excluded labels only."""
    few = np.arange(40)
    rows = np.repeat(few, OTHERS)
    excluded = sparse.csr_array((np.ones(len(rows)), (rows, RELATED[few].ravel())), (len(few), WIDE))

    def share_found(model):
        found = model.topk_numbers(SPEAKING[few], 12, exclude=excluded)[0]
        return np.mean([len(np.intersect1d(*both)) / 12 for both in zip(found, everywhere, strict=True)])

    tree = narrow if isinstance(narrow, TreeClassifier) else narrow.tree_
    tree.set_params(beam=WIDE)
    everywhere = narrow.topk_numbers(SPEAKING[few], 12, exclude=excluded)[0]
    tree.set_params(beam=1)
    without_room = copy.copy(narrow)
    without_room._max_extra_beam = 0
    assert share_found(narrow) > 0.99 > share_found(without_room)


def test_the_beam_grows_up_to_a_limit(monkeypatch, narrow):
    beams, searched, prepared = [], machines.search, FastRanking.of

    def watched(levels, points, beam, *rest):
        beams.append(beam)
        return searched(levels, points, beam, *rest)

    def watched_blend(*candidates, beam, **how):
        beams.append(beam)
        return prepared(*candidates, beam=beam, **how)

    monkeypatch.setattr("sparsenet.engines.tree.fit_tree.search", watched)
    monkeypatch.setattr(FastRanking, "of", watched_blend)
    narrow.topk_numbers(SPEAKING[:5], 3, exclude=np.arange(WIDE) < 300)
    assert min(beams) == MAX_EXTRA_BEAM + (1 if isinstance(narrow, TreeClassifier) else 2)
