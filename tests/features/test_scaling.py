"""``normalize="auto"``: telling counts from tables, and columns of one unit from columns of several."""

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import make_classification

import sparsenet
from sparsenet import BlendClassifier, ExtremeClassifier, TreeClassifier
from sparsenet.cli.about_model import collect, describe
from sparsenet.features.kinds import warn_of_dominant_column
from sparsenet.features.scaling import Scaling
from sparsenet.features.targets import Target
from sparsenet.features.units import _choose_table_scaling, _neighbor_precision, scaled
from sparsenet.selection.choose import Rule
from tests.support.planted import X, Y, fast


def chosen(table):
    """Return the scaling chosen for a table whose labels do not matter, from within a call like `fit`."""
    labels = Target.learn(np.zeros(table.shape[0], int))[1]
    return scaled(table, labels, "auto", seed=0, threads=1)[0].kind


def zipf(n, n_words, length, exponent, seed):
    """Draw word counts of texts of about the given length; a tenth of the texts are four times as long."""
    rng = np.random.default_rng(seed)
    shares = np.arange(1, n_words + 1) ** -exponent
    lengths = np.where(rng.random(n) < 0.1, 4, 1) * length
    return rng.multinomial(lengths, shares / shares.sum()).astype(float)


def categories(n, widths, rng):
    return np.hstack([np.eye(width)[rng.integers(0, width, n)] for width in widths])


def amounts(n, amount, widths, seed, hours=True):
    rng = np.random.default_rng(seed)
    numbers = [rng.lognormal(np.log(amount), 1, n), *([rng.integers(0, 24, n)] if hours else [])]
    return np.hstack([np.array(numbers).T, categories(n, widths, rng)])


def clicks(n, heavy, seed):
    rng = np.random.default_rng(seed)
    pages = rng.dirichlet(np.full(100, 0.1), 8)[rng.integers(0, 8, n)]
    return np.hstack([rng.poisson(heavy, (n, 1)), rng.multinomial(9, pages)]).astype(float)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("exponent", [1.0, 1.2])
@pytest.mark.parametrize(
    ("n", "n_words", "length"), [(1, 500, 50), (400, 500, 30), (300, 3000, 1000), (60, 12000, 10000)]
)
def test_word_counts_are_counts_at_any_text_length(n, n_words, length, exponent, seed):
    counts = zipf(n, n_words, length, exponent, seed)
    assert np.count_nonzero(counts) < counts.size / 3
    assert chosen(counts) == "rows"
    with_idf = counts * np.log((n + 1) / (np.count_nonzero(counts, axis=0) + 1))
    assert chosen(with_idf) == "rows"
    assert chosen((counts > 0).astype(float)) == "rows"
    assert chosen(counts.astype(np.float32) * 1e-30) == "rows"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("heavy", [1, 3, 10])
def test_clicks_concentrated_on_one_page_are_counts(heavy, seed):
    assert chosen(clicks(500, heavy, seed)) == "rows"


@pytest.mark.parametrize(
    "table",
    [np.eye(30), np.zeros((4, 9)), [[5.0, 0, 0]], [[1.0, 0, 0], [0, 1.0, 0]], np.ones((9, 1)) * [9, 1, 0, 0, 0, 0]],
)
def test_rows_with_only_the_common_column_are_counts(table):
    assert chosen(np.asarray(table, float)) == "rows"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("hours", [True, False])
@pytest.mark.parametrize("amount", [30, 100, 3000])
@pytest.mark.parametrize("widths", [(30, 20), (5, 4, 12), (200,)], ids=str)
def test_amounts_beside_categories_are_mixed(widths, amount, hours, seed):
    table = amounts(600, amount, widths, seed, hours)
    assert np.count_nonzero(table) < table.size / 3
    assert chosen(table) == chosen(sparse.csr_array(table)) == "mixed"
    assert chosen(1e-30 * table.astype(np.float32)) == "mixed"
    # A column that one row in ten has, such as capital gains, changes nothing, whatever its size.
    rng = np.random.default_rng(seed)
    gains = np.where(rng.random(600) < 0.1, 1e6 * rng.random(600), 0)
    assert chosen(np.column_stack([table, gains])) == "mixed"


@pytest.mark.parametrize("share", [0.02, 0.04, 0.08, 0.2])
def test_amounts_beside_rare_flags_are_mixed(share):
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.lognormal(np.log(100), 1, 900), rng.random((900, 12)) < share])
    assert chosen(table) == "mixed"


def test_categories_beside_amounts_are_learnt():
    table = amounts(900, 100, (30, 20), 0)
    labels = table[:, 2:32].argmax(axis=1) // 5
    swamped = TreeClassifier(random_state=0, normalize="rows").fit(table[:600], labels[:600])
    model = TreeClassifier(random_state=0).fit(table[:600], labels[:600])
    assert model.score(table[600:], labels[600:]) > swamped.score(table[600:], labels[600:]) + 0.2


@pytest.mark.parametrize("classifier", [TreeClassifier, ExtremeClassifier, BlendClassifier])
def test_names_the_column_of_a_sparse_table(classifier):
    table = sparse.csr_array(amounts(60, 3000, (60, 50), 0))  # these may be the first of many counts
    labels = np.arange(60) % 3
    with pytest.warns(UserWarning, match="column 0 of X holds 99% or more of the squared length") as caught:
        classifier(random_state=0, n_jobs=1).fit(table, labels)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classifier(random_state=0, n_jobs=1, normalize="rows").fit(table, labels)


def test_names_the_column_by_its_name():
    table = amounts(60, 3000, (60, 50), 0)
    frame = pd.DataFrame.sparse.from_spmatrix(sparse.csr_array(table), columns=[f"c{i}" for i in range(table.shape[1])])
    with pytest.warns(UserWarning, match="column 'c0' of X holds"):
        TreeClassifier(random_state=0).fit(frame, np.arange(60) % 3)


@pytest.mark.parametrize(
    "usual",
    [
        1e-200 * np.eye(50),
        np.hstack([100 * np.ones((50, 1)), np.eye(50)]),  # one other feature has no information to lose
        np.zeros((5, 3)),
        X.toarray(),
        zipf(100, 500, 200, 1.2, 0),
        clicks(200, 10, 0),
    ],
    ids=["next to nothing", "one beside it", "empty", "planted", "words", "clicks"],
)
def test_does_not_warn_about_usual_columns(usual):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert chosen(sparse.csr_array(usual)) == "rows"


def test_counts_stay_counts():
    assert fast(epochs=1).fit(X.toarray(), Y)._fitted.scaling.kind == "rows"


@pytest.mark.parametrize("seed", range(3))
def test_amounts_beside_categories_are_mixed_in_any_form_and_unit(seed):
    table = amounts(400, 3000, (4, 20, 900), seed)
    rng = np.random.default_rng(seed)
    from_0_to_1 = np.hstack([rng.random((400, 6)), table[:, 2:]])
    around_0 = np.hstack([rng.normal(size=(400, 6)), table[:, 2:]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for given in (table, -table, from_0_to_1, around_0):
            assert chosen(sparse.csr_array(given)) == chosen(given) == "mixed"
            wide = sparse.csr_array((400, 300_000))
            assert chosen(sparse.csr_array(sparse.hstack([given, wide]))) == "mixed"


@pytest.mark.parametrize("longer", [1, 30])
def test_texts_of_any_length_and_vocabulary_are_not_mixed(longer):
    for n_words in (60, 200, 2000):
        counts = sparse.csr_array(zipf(300, n_words, 12 * longer, 1.0, 0))
        assert chosen(counts) == ("columns" if counts.nnz > 0.5 * np.prod(counts.shape) else "rows")


def test_flags_with_one_in_every_row_are_not_mixed():
    flags = sparse.csr_array(np.hstack([np.ones((300, 5)), categories(300, (200, 90), np.random.default_rng(0))]))
    assert chosen(flags) == "rows"


def test_signed_counts_are_a_table_only_if_dense():
    table = zipf(200, 100, 40, 1.0, 0) * np.random.default_rng(0).choice([-1, 1], 100)
    assert 0.1 < np.count_nonzero(table) / table.size < 0.3
    assert chosen(sparse.csr_array(table)) == "rows"
    assert chosen(table) == "columns"


def mostly_noise(n=2000, seed=0):
    """Draw points of ten classes that differ in eight of forty columns, which therefore vary more than the others."""
    return make_classification(
        n, 40, n_informative=8, n_redundant=0, n_classes=10, n_clusters_per_class=1, class_sep=2, random_state=seed
    )


def of_table(X, y, choice="auto", threads=1):
    scaling, points = scaled(X, Target.learn(y)[1], choice, seed=0, threads=threads)
    return scaling.kind, points


UNITS = 10.0 ** np.linspace(-4, 4, 40)


@pytest.mark.parametrize("seed", range(3))
def test_scales_columns_of_one_unit_together_if_that_is_better(seed):
    X, y = mostly_noise(seed=seed)
    assert of_table(X, y)[0] == "together"
    assert of_table(X + 100 * np.arange(40), y)[0] == "together"  # at any center
    assert of_table(X * 1e-9, y)[0] == "together"  # in any unit


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("n_far", "far"), [(5, 1e6), (50, 1e4), (50, 1e3), (500, -9999)])
def test_standardizes_columns_of_one_unit_with_outliers(seed, n_far, far):
    X, y = mostly_noise(seed=seed)
    X.flat[np.random.default_rng(seed).permutation(X.size)[:n_far]] = far
    assert of_table(X, y)[0] == "columns"


@pytest.mark.parametrize("seed", range(3))
def test_standardizes_columns_in_different_units(seed):
    X, y = mostly_noise(seed=seed)
    assert of_table(X * UNITS[np.random.default_rng(seed).permutation(40)], y)[0] == "columns"


def test_standardizes_if_the_difference_is_chance():
    X, y = mostly_noise()
    shuffled = [np.random.default_rng(seed).permutation(y) for seed in range(20)]
    assert [of_table(X, labels)[0] for labels in shuffled].count("columns") >= 18


def test_standardizes_with_too_few_points_to_compare():
    X, y = mostly_noise()
    for n in range(1, 10):
        assert of_table(X[:n], y[:n])[0] == "columns"


def compared(X, y, **rules):
    """Return the scaling that the labels choose, under other rules than the default ones."""
    return _choose_table_scaling(X, Target.learn(y)[1], *Scaling.of_table(X), 0, 1, **rules)


def test_standardizes_points_too_wide_to_compare():
    X, y = mostly_noise()
    assert compared(X, y).kind == "together"
    assert compared(X, y, max_numbers=39).kind == "columns"


def test_a_common_unit_needs_evidence():
    X, y = mostly_noise()
    chosen = compared(X, y)
    assert chosen.decision[:1] + chosen.decision[2:3] == ("together", ("columns", "together"))
    assert chosen.decision.gain > 2 * chosen.decision.standard_error > 0
    beyond = chosen.decision.gain / chosen.decision.standard_error
    assert compared(X, y, rule=Rule("precision", standard_errors=beyond + 1)).kind == "columns"
    assert "outliers" in compared(X, y, min_median=2.0).decision.why


@pytest.mark.parametrize("n", [1, 2])
def test_saves_the_scaling_of_a_table_without_evidence(n, tmp_path):
    X, y = mostly_noise()
    model = TreeClassifier(random_state=0).fit(X[:n], y[:n])
    assert model.choices_["normalize"].value == "columns"
    model.save(tmp_path / "model")
    assert sparsenet.load(tmp_path / "model").choices_["normalize"].value == "columns"


@pytest.mark.parametrize("classifier", [ExtremeClassifier(epochs=1), TreeClassifier(), BlendClassifier(network="drop")])
def test_records_saves_and_shows_the_evidence_for_the_scaling(classifier, tmp_path):
    X, y = mostly_noise()
    decision = classifier.set_params(random_state=0, normalize="auto").fit(X, y).choices_["normalize"]
    classifier.save(tmp_path / "model")
    assert sparsenet.load(tmp_path / "model").choices_["normalize"] == decision
    assert f"normalize: {decision.why}" in describe(collect(tmp_path / "model"))
    assert (decision.value, decision.options, decision.n) == ("together", ("columns", "together"), 1024)
    assert decision.gain > 2 * decision.standard_error > 0
    assert "normalize" not in classifier.set_params(normalize="columns").fit(X, y).choices_


def test_compares_all_labels_of_a_point():
    X, y = mostly_noise()
    both = [[f"class {label}", "any"] for label in y]  # the first label, which all share, says nothing
    assert of_table(X, both)[0] == "together"
    assert of_table(X, [["any"]] * len(X))[0] == "columns"
    assert of_table(X, [[], *both[1:]])[0] == "together"


def test_scaling_does_not_depend_on_threads():
    X, y = mostly_noise()
    for table in (X, X * UNITS):
        one, two = (of_table(table, y, threads=threads) for threads in (1, 2))
        assert one[0] == two[0]
        np.testing.assert_array_equal(one[1].data, two[1].data)


def test_together_keeps_the_relative_spread_of_columns():
    X = np.random.default_rng(0).normal(size=(500, 6)) * [1, 2, 3, 4, 5, 0] + 7
    points = Scaling.learn(X, "together").apply(X)
    found = points.data.reshape(500, 6)
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-6)
    assert np.square(found).sum(axis=1).mean() == pytest.approx(1, rel=1e-5)
    np.testing.assert_allclose(
        found[:, :5] / found[:, :1], (X - X.mean(axis=0))[:, :5] / (X - X.mean(axis=0))[:, :1], rtol=1e-3
    )
    assert not found[:, 5].any()


def test_drops_constant_columns():
    for constant in (7.0, 0.1, 1e12 / 3):
        X = np.full((5, 3), constant)
        assert np.abs(Scaling.learn(X, "together").apply(X).data).max() < 1e-3


def test_does_not_magnify_the_rounding_error_of_a_constant_column():
    X = 1e-6 * np.random.default_rng(0).normal(size=(3000, 6))
    X[:, 5] = 1e12 / 3
    points = Scaling.learn(X, "together").apply(X)
    lengths = np.linalg.norm(points.data.reshape(3000, 6), axis=1)
    assert 0.5 < lengths.mean() < 1.5


def test_memory_layout_does_not_matter():
    X, y = mostly_noise()
    found = [of_table(table, y)[1].data for table in (X, np.asfortranarray(X), X[::-1].copy()[::-1])]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_statistics_use_all_rows():
    X = np.random.default_rng(0).normal(5, 3, (5000, 4)).astype(np.float32)
    for stored in (X, sparse.csr_array(X)):
        columns, together = Scaling.of_table(stored)
        np.testing.assert_allclose(columns.centre, X.mean(axis=0, dtype=float), rtol=1e-12)
        np.testing.assert_allclose(1 / columns.factor, X.std(axis=0, dtype=float) * 2, rtol=1e-12)
        np.testing.assert_allclose(1 / together.factor, np.linalg.norm(X.std(axis=0, dtype=float)), rtol=1e-12)


def test_stays_sparse_if_dense_does_not_fit_into_memory(monkeypatch):
    X, y = mostly_noise()
    stored = sparse.csr_array(X)
    monkeypatch.setattr("sparsenet.features.scaling.available_memory", lambda: 8 * X.size - 1)
    assert of_table(stored, y)[0] == "rows"
    with pytest.raises(ValueError, match="would not fit into memory"):
        of_table(stored, y, "together")
    monkeypatch.setattr("sparsenet.features.scaling.available_memory", lambda: 8 * X.size)
    assert of_table(stored, y)[0] == "together"


def test_few_rows_of_a_count_stream_are_not_a_table():
    counts = np.random.default_rng(0).poisson(2, (100, 10)).astype(float)
    assert chosen(sparse.csr_array(counts[:63])) == "rows"
    assert chosen(sparse.csr_array(counts[:64])) == "columns"


def test_a_named_scaling_does_not_depend_on_a_few_zeros():
    stored = sparse.random_array((300, 20), density=0.4, format="csr", rng=np.random.default_rng(0))
    assert chosen(stored) == "rows"
    assert TreeClassifier(normalize="columns").fit(stored, np.arange(300) % 3)._fitted.scaling.kind == "columns"


def test_indicator_values_do_not_weigh_labels():
    X, y = mostly_noise()
    ones = sparse.csr_array(np.eye(10)[y] + np.eye(10)[(y + 1) % 10])
    many = ones.copy()
    many.data = 1 + 9.0 * (np.arange(many.nnz) % 2)
    (_, one), (_, other) = (Target.learn(indicator) for indicator in (ones, many))
    points = Scaling.learn(X, "together").apply(X)
    np.testing.assert_array_equal(_neighbor_precision(points, one, 1), _neighbor_precision(points, other, 1))


@pytest.mark.parametrize("way", ["columns", "together"])
def test_sparse_points_of_mostly_zeros_are_not_a_table(way):
    with pytest.raises(ValueError, match=f"normalize='{way}' needs a dense X, got a sparse one"):
        TreeClassifier(normalize=way).fit(sparse.csr_array(np.eye(100)), np.arange(100) % 3)


@pytest.mark.parametrize("way", ["auto", "columns", "together"])
@pytest.mark.parametrize("units", [1, UNITS])
def test_a_table_is_recognized_in_any_form(way, units):
    X, y = mostly_noise()
    X = X * units
    dense, stored = (of_table(table, y, way) for table in (X, sparse.csr_array(X)))
    assert dense[0] == stored[0] != "rows"
    np.testing.assert_array_equal(dense[1].data, stored[1].data)
    model = TreeClassifier(normalize=way, random_state=0).fit(sparse.csr_array(X), y)
    for queries in (sparse.csr_matrix(X[:1500]), X[:1500]):
        np.testing.assert_array_equal(
            model.predict(queries), TreeClassifier(normalize=way, random_state=0).fit(X, y).predict(X[:1500])
        )


@pytest.mark.parametrize(("share", "expected"), [(0.45, "rows"), (0.55, "columns")])
def test_the_share_of_nonzero_values_decides(share, expected):
    stored = sparse.random_array((400, 50), density=share, format="csr", rng=np.random.default_rng(0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert chosen(stored) == expected


@pytest.mark.parametrize("classifier", [ExtremeClassifier(epochs=8), TreeClassifier(), BlendClassifier(network="drop")])
def test_the_choice_is_learnt_saved_and_reported(classifier, tmp_path):
    X, y = mostly_noise()
    known, queries = slice(0, 1500), slice(1500, None)
    scores = {}
    for way in ("auto", "columns", "together"):
        model = classifier.set_params(normalize=way, random_state=0).fit(X[known], y[known])
        scores[way] = model.score(X[queries], y[queries])
    assert scores["auto"] == scores["together"] > scores["columns"]
    model.save(tmp_path / "model")
    again = sparsenet.load(tmp_path / "model")
    for mine, theirs in zip(model.topk(X[queries], 3), again.topk(X[queries], 3), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert model.predict(X[queries][:1]) == model.predict(X[queries])[:1]


def test_a_network_reports_why():
    X, y = mostly_noise()
    value, because = ExtremeClassifier(epochs=1, random_state=0).fit(X, y).choices_["normalize"][:2]
    assert value == "together"
    assert because.startswith("together: precision of nearest neighbors")
    assert ExtremeClassifier(epochs=1, random_state=0).fit(X * UNITS, y).choices_["normalize"][0] == "columns"


def test_the_first_batch_chooses_for_the_others():
    X, y = mostly_noise()
    model = ExtremeClassifier(random_state=0).partial_fit(X[:1000], y[:1000], classes=np.unique(y))
    assert model.choices_["normalize"][0] == "together"
    model.partial_fit(X[1000:], y[1000:])
    assert model.score(X, y) > 0.5


def right(points, labels):
    """Return whether each point's nearest neighbors vote for its label."""
    points = np.asarray(points, float).reshape(len(labels), -1)
    return _neighbor_precision(Scaling.learn(points, "together").apply(points), Target.learn(labels)[1], 1).tolist()


def test_compares_by_distance_not_by_direction():
    assert right([1, 1.1, 1.2, 10, 10.1, 10.2, 100, 100.1, 100.2], [*"aaabbbccc"]) == [1] * 9


def test_nearer_points_have_larger_votes():
    others = [*"wxyz"]
    assert right([0, 1, 2, 3, 4, 5, 6, 7], ["a", "a", *others, "b", "b"])[0] == 1
    assert right([0, 1, 2, 3, 4, 5, 6, 7], ["a", "a", "b", "b", *others])[0] == 0


def test_stored_zeros_do_not_make_a_table():
    stored = sparse.csr_array(np.ones((50, 8)))
    stored.data[np.arange(stored.nnz) % 8 > 1] = 0
    assert chosen(stored) == "rows"


def test_negative_amounts_do_not_hide_a_table():
    table = amounts(400, 3000, (4, 20), 0)
    table[:, 0] *= -1
    assert chosen(sparse.csr_array(table)) == "mixed"


@pytest.mark.parametrize("way", ["columns", "together"])
def test_a_row_of_zeros_is_valid_in_a_table(way):
    X, y = mostly_noise()
    X = X - X[y == 3].mean(axis=0)  # where the fourth class is
    model = TreeClassifier(normalize=way, random_state=0).fit(X, y)
    assert model.predict(np.zeros((1, 40)))[0] == 3
    y[:300] = 0  # the most frequent label is not the answer either
    assert TreeClassifier(normalize=way, random_state=0).fit(X, y).predict(np.zeros((1, 40)))[0] == 3


def beside(n=900, seed=0):
    """Return an amount in thousands, one around zero that some rows lack, a rare amount, and categories."""
    rng = np.random.default_rng(seed)
    some = np.where(rng.random(n) < 0.55, rng.normal(2, 3, n), 0)
    rare = np.where(rng.random(n) < 0.4, rng.lognormal(8, 1, n), 0)
    return np.column_stack([rng.normal(5000, 300, n), some, rare, categories(n, (7, 400), rng)])


def test_mixed_standardizes_amounts_and_keeps_other_zeros():
    table = beside()
    _, points = of_table(table, np.zeros(900, int), "mixed")
    laid_out = sparse.csr_array((points.data, points.indices, points.indptr), (900, table.shape[1])).toarray()
    n_numbers = 2 + np.count_nonzero(table[:, 2:]) / 900
    amounts_only = (table[:, :2] - table[:, :2].mean(axis=0)) / table[:, :2].std(axis=0)
    np.testing.assert_allclose(laid_out[:, :2], amounts_only / np.sqrt(n_numbers), rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(laid_out[:, 2:] != 0, table[:, 2:] != 0)
    np.testing.assert_allclose(laid_out[:, 3:].max(axis=1), 1 / np.sqrt(n_numbers), rtol=1e-6)
    own = laid_out[:, 2][laid_out[:, 2] != 0]
    np.testing.assert_allclose(np.sqrt(np.square(own).mean()), 1 / np.sqrt(n_numbers), rtol=1e-6)
    np.testing.assert_allclose(np.square(laid_out).sum(axis=1).mean(), 1, rtol=1e-6)
    assert len(points.indices) == np.count_nonzero(table[:, 2:]) + 2 * 900
    assert (np.diff(points.indices)[np.diff(np.repeat(np.arange(900), np.diff(points.indptr))) == 0] > 0).all()


def test_mixed_ignores_stored_zeros_and_batches(monkeypatch):
    table = beside()
    _, whole = of_table(table, np.zeros(900, int), "mixed")
    monkeypatch.setattr("sparsenet.features.scaling.NUMBERS_AT_A_TIME", 400)
    with_zeros = sparse.csr_array(table + 1)
    with_zeros.data -= 1  # also where zeros are stored
    for stored in (table, sparse.csr_array(table), with_zeros):
        points = Scaling.of_mixed(stored)._mixed(stored)
        for ours, theirs in ((points.indptr, whole.indptr), (points.indices, whole.indices), (points.data, whole.data)):
            np.testing.assert_array_equal(ours, theirs)


def test_rows_are_scaled_in_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    counts = sparse.csr_array(sparse.random_array((4000, 500), density=0.1, dtype=np.float32, rng=rng))
    counts.data[: counts.indptr[2000]] *= 1e-30  # whose squares underflow
    whole = Scaling("rows").apply(counts)
    monkeypatch.setattr("sparsenet.features.scaling.NUMBERS_AT_A_TIME", 5000)
    tracemalloc.start()
    warn_of_dominant_column(counts, None)
    points = Scaling("rows").apply(counts)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(points.data, whole.data)
    assert peak < 8 * counts.nnz  # 4 bytes for each scaled value, 1 for its check, and blocks


def test_timestamps_keep_precision_beside_categories():
    rng = np.random.default_rng(0)
    table = np.column_stack([1.7e9 + rng.integers(0, 1000, 900), categories(900, (300,), rng)])
    _, points = of_table(sparse.csr_array(table), np.zeros(900, int))
    first = points.data[points.indices == 0]
    expected = (table[:, 0] - table[:, 0].mean()) / table[:, 0].std() / np.sqrt(2)
    np.testing.assert_allclose(first, expected, rtol=1e-5, atol=1e-6)


def test_a_constant_beside_categories_counts_as_a_category():
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.normal(500, 9, 900), np.full(900, 0.1), np.zeros(900), categories(900, (300,), rng)])
    scaling, points = of_table(sparse.csr_array(table), np.zeros(900, int))
    assert scaling == "mixed"
    np.testing.assert_allclose(points.data[points.indices == 1], 1 / np.sqrt(3), rtol=1e-6)
    assert 2 not in points.indices


@pytest.mark.parametrize("classifier", [ExtremeClassifier(epochs=8), TreeClassifier(), BlendClassifier(network="drop")])
def test_amounts_and_categories_are_learnt_and_saved(classifier, tmp_path):
    rng = np.random.default_rng(0)
    kinds, levels = rng.integers(0, 300, 3000), rng.integers(0, 2, 3000)
    telling = 4000 + 500 * levels + rng.normal(0, 100, 3000)
    table = np.column_stack([telling, rng.normal(3, 1, 3000), np.eye(300)[kinds]])
    X, y = sparse.csr_array(table), 2 * (kinds % 3) + levels
    model = classifier.set_params(random_state=0).fit(X[:2000], y[:2000])
    assert model.score(X[2000:], y[2000:]) > 0.9
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(sparsenet.load(tmp_path / "m").predict(X[2000:]), model.predict(table[2000:]))
    assert model.set_params(normalize="rows").fit(X[:2000], y[:2000]).score(X[2000:], y[2000:]) < 0.6


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("share", [0.35, 0.6, 1.0])
def test_one_hot_categories_make_a_table_mixed(share, unit):
    rng = np.random.default_rng(0)
    some = np.where(rng.random((800, 2)) < share, unit * rng.lognormal(0, 1, (800, 2)), 0)
    table = np.hstack([some, categories(800, (12, 12, 12, 12, 30), rng)])
    assert chosen(sparse.csr_array(table)) == chosen(table) == "mixed"


def test_a_category_does_not_turn_words_into_amounts():
    words = zipf(600, 800, 30, 1.0, 0)
    words = words[:, np.count_nonzero(words, axis=0) > 1]
    weighed = words * np.log(600 / np.count_nonzero(words, axis=0))
    table = np.hstack([weighed, categories(600, (9,), np.random.default_rng(0))])
    assert chosen(sparse.csr_array(table)) == "rows"


def test_a_constant_beside_numbers_is_not_a_category():
    rng = np.random.default_rng(0)
    table = np.hstack([np.ones((600, 1)), rng.random((600, 30)) * (rng.random((600, 30)) < 0.2)])
    assert chosen(sparse.csr_array(table)) == "rows"
    assert chosen(sparse.csr_array(np.hstack([table, categories(600, (20, 20), rng)]))) == "mixed"


def test_frequent_event_counts_are_not_amounts():
    rng = np.random.default_rng(0)
    table = np.hstack([rng.poisson(4, (600, 12)), rng.random((600, 200)) < 0.05]).astype(float)
    assert chosen(sparse.csr_array(table)) == "rows"
    assert chosen(sparse.csr_array(np.hstack([table[:, :12] / 7, table[:, 12:]]))) == "mixed"


def test_eighty_percent_is_not_nearly_all_rows():
    rng = np.random.default_rng(0)
    some = np.where(rng.random((600, 8)) < 0.8, rng.random((600, 8)), 0)
    assert chosen(sparse.csr_array(np.hstack([some, rng.random((600, 200)) < 0.04]))) == "rows"


def test_samples_rows_from_the_whole_matrix():
    """The first hundred points have a single flag only."""
    rng = np.random.default_rng(0)
    table = np.hstack([rng.lognormal(8, 1, (600, 1)), categories(600, (40, 40), rng)])
    table[:100, :41] = 0
    assert chosen(sparse.csr_array(table)) == "mixed"


def test_few_rows_are_mixed_only_if_few_columns_dominate():
    rng = np.random.default_rng(0)
    table = np.hstack([rng.random((20, 6)), categories(20, (8, 9, 9), rng)])
    assert chosen(table) == "rows"
    assert chosen(table * ([1000.0] * 6 + [1.0] * 26)) == "mixed"


def test_words_beside_amounts_keep_their_ratios():
    rng = np.random.default_rng(0)
    words = zipf(600, 300, 12, 1.0, 0)
    weighed = words * np.log1p(600 / np.maximum(np.count_nonzero(words, axis=0), 1))
    _, points = of_table(sparse.csr_array(np.hstack([rng.normal(900, 9, (600, 2)), weighed])), np.zeros(600, int))
    laid_out = sparse.csr_array((points.data, points.indices, points.indptr), (600, 302)).toarray()[:, 2:]
    rare = (np.count_nonzero(words, axis=0) < 300) & (words.max(axis=0) > 1)
    ratio = laid_out[:, rare][words[:, rare] > 0] / weighed[:, rare][words[:, rare] > 0]
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-5)


def test_rare_amounts_in_different_units_are_rescaled():
    rng = np.random.default_rng(0)
    rare = np.where(rng.random((600, 3)) < 0.2, rng.lognormal(0, 0.3, (600, 3)), 0) * [1, 1e3, 1e6]
    _, points = of_table(np.hstack([rare, categories(600, (30,), rng)]), np.zeros(600, int), "mixed")
    sizes = [np.median(points.data[points.indices == column]) for column in range(3)]
    np.testing.assert_allclose(sizes, sizes[0], rtol=0.2)


def test_does_not_magnify_rounding_beside_categories():
    rng = np.random.default_rng(0)
    third = np.where(rng.random(900) < 0.5, 0.3, 0.1 + 0.2)
    table = np.column_stack([third, rng.normal(500, 9, 900), categories(900, (300,), rng)])
    _, points = of_table(table, np.zeros(900, int), "mixed")
    np.testing.assert_allclose(points.data[points.indices == 0], 1 / np.sqrt(3), rtol=1e-6)


@pytest.mark.parametrize("way", ["rows", "columns", "together", "mixed", "none"])
def test_scales_empty_and_all_zero_input(way):
    X, y = mostly_noise()
    model = TreeClassifier(normalize=way, random_state=0).fit(X, y)
    assert model.predict(X[:0]).shape == (0,)
    assert model.predict(sparse.csr_array(X)[:0]).shape == (0,)
    assert TreeClassifier(normalize=way, random_state=0).fit(np.zeros((4, 3)), [1, 1, 1, 0]).predict([[0, 0, 0]]) == [1]


@pytest.mark.filterwarnings("error")
def test_values_far_outside_training_give_finite_answers():
    model = ExtremeClassifier(epochs=2, random_state=0).fit(beside(), np.arange(900) % 3)
    assert model.normalize_ == "mixed"
    assert np.isfinite(model.predict_proba(np.array([[1e38, -1e38, *[0] * 408]]))).all()


def test_does_not_change_the_callers_stored_zeros():
    stored = sparse.csr_array(beside())
    stored.data[::7] = 0
    before = stored.copy()
    for way in ("auto", "mixed"):
        TreeClassifier(normalize=way, random_state=0).fit(stored, np.arange(900) % 3)
    for ours, theirs in ((stored.data, before.data), (stored.indices, before.indices), (stored.indptr, before.indptr)):
        np.testing.assert_array_equal(ours, theirs)


def test_a_network_reports_amounts():
    model = ExtremeClassifier(epochs=1, random_state=0).fit(beside(), np.arange(900) % 3)
    assert model.choices_["normalize"][:2] == ("mixed", "X has numeric columns next to columns that are mostly zero")
