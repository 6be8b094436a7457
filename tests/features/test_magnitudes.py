"""Very small and very large numbers are scaled exactly, or named in a warning or an error."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import make_classification

from sparsenet import BlendClassifier, ExtremeClassifier, TreeClassifier, load
from sparsenet.features.kinds import detect_kind
from sparsenet.features.scaling import Scaling
from tests.support.planted import X, Y, fast

#: About 1e-200. Multiplying by a power of two is exact.
TINY = 2.0**-664
TABLE, LABELS = make_classification(600, 8, n_informative=6, n_redundant=0, class_sep=2.0, random_state=0)
MODELS = {
    "network": ExtremeClassifier(hidden=16, epochs=10, n_jobs=1, random_state=0),
    "tree": TreeClassifier(n_jobs=1, random_state=0),
    "blend": BlendClassifier(network=ExtremeClassifier(hidden=16, epochs=10), n_neighbors=10, n_jobs=1, random_state=0),
}
FORMS = {
    "array": np.asarray,
    "frame": lambda table: pd.DataFrame(table, columns=[f"c{place}" for place in range(table.shape[1])]),
    "sparse": sparse.csr_array,
}


def mixed_table(seed=0):
    """Amounts in most rows, others in few, and categories."""
    rng = np.random.default_rng(seed)
    flags = np.eye(40)[rng.integers(0, 40, 400)]
    rare = rng.lognormal(0, 0.3, (400, 3)) * (rng.random((400, 3)) < 0.2)
    return np.hstack([rng.lognormal(3, 1, (400, 2)), rare, flags])


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_tables_in_tiny_units_give_the_same_bits(model, form):
    usual = model.fit(form(TABLE), LABELS)
    expected, kind = usual.predict_proba(form(TABLE)), usual.normalize_
    assert usual.score(form(TABLE), LABELS) > 0.9
    tiny = model.fit(form(TABLE * TINY), LABELS)
    assert tiny.normalize_ == kind
    np.testing.assert_array_equal(tiny.predict_proba(form(TABLE * TINY)), expected)


@pytest.mark.parametrize("normalize", ["rows", "columns", "together", "mixed"])
def test_every_scaling_gives_the_same_bits_in_tiny_units(normalize, tmp_path):
    expected = fast(normalize=normalize).fit(TABLE, LABELS).predict_proba(TABLE)
    tiny = fast(normalize=normalize).fit(TABLE * TINY, LABELS)
    np.testing.assert_array_equal(tiny.predict_proba(TABLE * TINY), expected)
    tiny.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(TABLE * TINY), expected)


def test_sparse_points_in_tiny_units_give_the_same_bits():
    expected = fast().fit(X, Y).predict_proba(X)
    tiny = fast().fit(X * TINY, Y)
    np.testing.assert_array_equal(tiny.predict_proba(X * TINY), expected)
    one = X[[3]]
    names, p = tiny.predictor().one(one.indices, one.data * TINY)
    expected_names, expected_p = fast().fit(X, Y).predictor().one(one.indices, one.data)
    np.testing.assert_array_equal(names, expected_names)
    np.testing.assert_array_equal(p, expected_p)


@pytest.mark.parametrize("unit", [1e-200, 1e-150, 1e-300, 1e-308])
@pytest.mark.parametrize("normalize", ["rows", "columns", "together", "mixed"])
def test_other_tiny_units_differ_by_rounding_alone(unit, normalize):
    expected = Scaling.learn(TABLE, normalize).apply(TABLE).data
    found = Scaling.learn(TABLE * unit, normalize).apply(TABLE * unit).data
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-6)


def test_scales_rows_of_subnormal_numbers():
    table = np.round(TABLE * 1000)
    found, expected = (Scaling("rows").apply(points).data for points in (table * 5e-324, table))
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("normalize", ["columns", "together", "mixed"])
def test_warns_of_columns_of_subnormal_numbers(normalize):
    table = np.round(TABLE * 1000)
    table[:, 3 if normalize != "together" else slice(None)] *= 5e-324
    names = "columns 0, 1, 2 and 5 more" if normalize == "together" else "column 3"
    with pytest.warns(UserWarning, match=f"^{names} of X holds? only numbers too small to be scaled: multiply"):
        model = fast(normalize=normalize).fit(table, LABELS)
    assert np.isfinite(model.predict_proba(table)).all()


@pytest.mark.parametrize("unit", [1e-200, 1e-300])
@pytest.mark.parametrize("normalize", ["columns", "mixed"])
def test_learns_from_a_column_in_a_tiny_unit_beside_others(unit, normalize):
    rng = np.random.default_rng(0)
    telling = rng.normal(size=500)
    table = np.column_stack([rng.normal(size=(500, 3)), unit * telling])
    assert fast(normalize=normalize).fit(table, telling > 0).score(table, telling > 0) > 0.95


def test_detects_and_scales_mixed_tables_in_tiny_units():
    table = mixed_table()
    assert detect_kind(table) == detect_kind(table * TINY) == "mixed"
    assert detect_kind(sparse.csr_array(table * TINY)) == "mixed"
    expected, tiny = Scaling.of_mixed(table), Scaling.of_mixed(table * TINY)
    np.testing.assert_array_equal(tiny.apply(table * TINY).data, expected.apply(table).data)


def test_rare_amounts_of_one_unit_share_a_factor_in_tiny_units():
    table = mixed_table()
    table[:, 2:5] *= 2.0**-257  # some of these columns are lifted, others are not
    rare = Scaling.of_mixed(table).factor[2:5]
    np.testing.assert_allclose(rare, rare[0], rtol=1e-12)
    np.testing.assert_allclose(rare[0] * 2.0**-257, Scaling.of_mixed(mixed_table()).factor[2], rtol=1e-12)


def test_constant_columns_stay_constant_in_tiny_units():
    table = np.column_stack([TABLE, np.full(len(TABLE), 0.1)])
    for ordinary, tiny in zip(Scaling.of_table(table), Scaling.of_table(table * TINY), strict=True):
        found, expected = tiny.apply(table * TINY).data.reshape(-1, 9), ordinary.apply(table).data.reshape(-1, 9)
        np.testing.assert_array_equal(found[:, :8], expected[:, :8])
        assert np.abs(found[:, 8]).max() < 1e-12


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_warns_of_columns_that_float32_rounds_to_zero(model, form):
    table = np.where(np.eye(8)[np.arange(64) % 8] > 0, 1.0, 0.0)
    table[:, 5] *= 1e-60
    names = "'c5'" if form is FORMS["frame"] else "5"
    with pytest.warns(
        UserWarning, match=f"^column {names} of X holds only numbers that float32 rounds to zero"
    ) as caught:
        model.__class__(n_jobs=1, random_state=0, normalize="none").fit(form(table), np.arange(64) % 4)
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_warning_names_at_most_three_columns():
    table = np.eye(8)[np.arange(64) % 8] * 1e-60
    table[:, 0] = 1
    with pytest.warns(UserWarning, match=r"^columns 1, 2, 3 and 4 more of X hold only numbers"):
        TreeClassifier(n_jobs=1, random_state=0, normalize="rows").fit(table, np.arange(64) % 4)


def test_does_not_warn_of_columns_that_keep_some_numbers():
    table = np.eye(8)[np.arange(64) % 8]
    table[8:, 5] *= 1e-60
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TreeClassifier(n_jobs=1, random_state=0, normalize="none").fit(table, np.arange(64) % 4)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_refuses_numbers_beyond_float32(model, form):
    names = "'c0'" if form is FORMS["frame"] else "0"
    with pytest.raises(ValueError, match=r"X holds .*e\+(199|200), beyond the range of float32 .*rescale this column"):
        model.fit(form(TABLE * 1e200), LABELS)
    with pytest.raises(ValueError, match=f"in row 0, column {names}: rescale"):
        model.fit(form(TABLE * 1e200), LABELS)
