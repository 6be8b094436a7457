"""The features of one column of each type."""

from __future__ import annotations

import numpy as np
import pytest

from sparsenet.core.rows import as_matrix
from sparsenet.features.columns.cell_numbers import parse_number
from sparsenet.features.columns.number_column import RULES, NumberBasis, NumberColumn, NumberRules
from sparsenet.features.columns.table_encoder import SCALE, TableEncoder
from sparsenet.features.columns.text_column import TextColumn
from sparsenet.features.targets import Target
from tests.support.tables import table


def learnt(values, kind: str) -> TableEncoder:
    return TableEncoder.learn(table(a=values), {"a": kind})


def named(encoder: TableEncoder, value: object) -> dict[str, float]:
    """The features of one cell, by name."""
    rows = encoder.rows(table(a=[value]))
    return {encoder.feature_name(i): float(x / SCALE) for i, x in zip(rows.indices, rows.data, strict=True)}


# --- numbers ---


def test_a_number_lies_between_two_knots() -> None:
    encoder = learnt(np.random.default_rng(0).normal(size=5000), "number")
    (column,) = encoder.columns
    assert isinstance(column, NumberColumn)
    knots = column.basis.knots
    assert len(knots) == RULES.max_knots
    found = named(encoder, (knots[4] + 3 * knots[5]) / 4)
    assert found[f"a near {knots[4]:.6g}"] == pytest.approx(0.25, abs=1e-5)
    assert found[f"a near {knots[5]:.6g}"] == pytest.approx(0.75, abs=1e-5)


def test_rules_bound_the_knots_of_numbers() -> None:
    numbers = np.random.default_rng(0).normal(size=200)
    assert len(NumberBasis.learn(numbers, NumberRules(max_knots=5)).knots) == 5
    assert len(NumberBasis.learn(numbers, NumberRules(rows_per_knot=50)).knots) == 4
    assert len(NumberBasis.learn(numbers, NumberRules(rows_per_knot=1, max_values=200)).knots) == 200


def test_scores_of_numbers_are_cut() -> None:
    _, values = NumberBasis.learn(np.arange(100.0)).block(np.array([0.0, 50.0, 99.0]), max_score=0.5)
    assert values[[0, 2], 0].tolist() == [-0.5, 0.5]
    assert abs(values[1, 0]) < 0.5


def test_each_of_few_values_has_a_knot() -> None:
    encoder = learnt([1, 2, 3, 4, 5] * 100, "number")
    assert {name for name in named(encoder, 4) if "near" in name} == {"a near 4"}


def test_frequent_whole_numbers_have_flags() -> None:
    rng = np.random.default_rng(0)
    encoder = learnt(rng.integers(0, 1000, 5000), "number")
    assert "a = 77" in named(encoder, 77)
    assert "a = 77" not in named(encoder, 77.5)
    assert not any(" = " in name for name in named(learnt(rng.normal(size=5000), "number"), 0.5))


def test_a_missing_number_has_one_flag() -> None:
    encoder = learnt([1.5, 2.5, 3.5, None] * 10, "number")
    assert named(encoder, None) == named(encoder, "NA") == {"a missing": 1.0}


def test_heavy_tails_and_infinity_are_bounded() -> None:
    encoder = learnt([*np.exp(5 * np.random.default_rng(0).normal(size=1000)), np.inf, -np.inf], "number")
    for value in (1e300, -1e300, np.inf, -np.inf, 5e-324):
        found = named(encoder, value)
        assert max(abs(x) for x in found.values()) <= 4
        assert np.isfinite(encoder.matrix(table(a=[value]))[0]).all()


@pytest.mark.parametrize("scale", [1e-100, 1e-30, 1.0, 1e30, 1e100])
def test_the_unit_of_a_number_does_not_matter(scale: float) -> None:
    numbers = np.random.default_rng(0).normal(size=300) + 1.0
    one, other = learnt(numbers, "number"), learnt(numbers * scale, "number")
    first, second = (as_matrix(e.rows(table(a=x))).toarray() for e, x in ((one, numbers), (other, numbers * scale)))
    assert np.allclose(first, second, atol=1e-3)


def test_a_constant_number_and_zero_spread_are_finite() -> None:
    for values in ([3.0] * 10, [0.0] * 99 + [1e-5], [1e308, -1e308, 0.0], [5e-324, 0.0, 0.0]):
        assert np.isfinite(learnt(values, "number").rows(table(a=values)).data).all()


def test_numbers_beyond_float64_are_read_as_infinite() -> None:
    encoder = learnt(["1", "2", "9" * 400], "number")
    assert np.isfinite(encoder.rows(table(a=["9" * 400, "-" + "9" * 400])).data).all()


@pytest.mark.parametrize("text", ["1_000", "1,00", "12,34,567", "0x10", "1 2", "--1", "+-1", "", "e5", "٣"])
def test_strings_that_are_no_numbers(text: str) -> None:
    assert parse_number(text) is None


# --- categories ---


def test_rare_and_new_categories_share_a_feature() -> None:
    encoder = learnt(["x", "x", "y", "y", "rare", "rarer", None], "category")
    assert set(named(encoder, "x")) == {"a = x"}
    assert set(named(encoder, "rare")) == {"a = rare", "a = (rare or new)"}
    assert set(named(encoder, "new")) == {"a = (rare or new)"}
    assert set(named(encoder, "n/a")) == set(named(encoder, None)) == {"a = (missing)"}


def test_rare_categories_weigh_more() -> None:
    encoder = learnt(["x"] * 1000 + ["y"] * 10, "category")
    assert named(encoder, "y")["a = y"] > 1.5 * named(encoder, "x")["a = x"]


def test_a_frame_and_strings_of_it_are_encoded_alike() -> None:
    encoder = learnt([1, 2, 3, 1, 2], "category")
    assert named(encoder, "2") == named(encoder, 2) == named(encoder, 2.0) == named(encoder, " 2 ")
    flags = learnt([True, False, True, False], "category")
    assert named(flags, "True") == named(flags, True)


@pytest.mark.slow
def test_takes_a_million_categories() -> None:
    values = [f"v{i}" for i in np.arange(2_000_000) % 1_000_000]
    encoder = learnt(values, "category")
    assert encoder.n_features == 1_000_002
    assert len(named(encoder, "v77")) == 1


# --- several in a cell ---


def test_splits_cells_at_the_separator() -> None:
    values = ["drama|crime", "crime", "drama", None]
    encoder = learnt(values, "categories")
    assert set(named(encoder, "crime|drama")) == {"a has drama", "a has crime"}
    assert set(named(encoder, ["drama"])) == {"a has drama"}
    assert set(named(encoder, "drama|drama")) == {"a has drama"}
    assert set(named(encoder, "new|newer")) == {"a has (rare or new)"}
    assert set(named(encoder, None)) == set(named(encoder, [])) == {"a has (missing)"}


def test_a_separator_may_be_given() -> None:
    values = ["a/b", "b/c", "a/c"]
    encoder = learnt(values, "categories:/")
    assert set(named(encoder, "c/a")) == {"a has a", "a has c"}


def test_ids_are_separated_by_spaces_or_are_lists() -> None:
    encoder = learnt(["12 7", "7 9", "9 12"], "ids")
    assert set(named(encoder, "9 7")) == set(named(encoder, [9, 7])) == {"a has 9", "a has 7"}


def test_lists_and_strings_of_lists_are_alike() -> None:
    encoder = learnt(["['x', 'y']", "['y', 'z']", "['z', 'x']"], "categories")
    assert set(named(encoder, ["x", "z"])) == {"a has x", "a has z"}


# --- dates ---


def test_a_date_has_its_parts() -> None:
    days = [f"2024-{m:02}-{d:02} {h:02}:00" for m in range(1, 13) for d in (1, 9, 17, 25) for h in (3, 15)]
    found = named(learnt(days, "date"), "2024-07-17 15:00")
    assert {"a month = 7", "a day = 17", "a weekday = Wednesday", "a hour = 15"} <= set(found)
    assert found["a time of day (cosine)"] == pytest.approx(np.cos(2 * np.pi * 15 / 24))


def test_parts_that_do_not_vary_have_no_features() -> None:
    encoder = learnt([f"2024-03-{d:02}" for d in range(1, 29)], "date")
    assert not any(
        "month" in encoder.feature_name(i) or "hour" in encoder.feature_name(i) for i in range(encoder.n_features)
    )


def test_a_column_of_dates_reads_clear_dates_of_another_form():
    encoder = TableEncoder.learn(table(when=["31/12/2024", "1/2/2024", "2024-03-05", "6 March 2024"] * 5), {})
    assert "dates, day first" in encoder.columns[0].summary.why
    expected = encoder.matrix(table(when=["2/1/2024"]))[0]
    for text in ("2024-01-02", "2 Jan 2024", "January 2, 2024"):
        assert np.array_equal(encoder.matrix(table(when=[text]))[0], expected)


def test_dates_of_two_orders_are_named():
    with pytest.warns(UserWarning, match="column 'when' has .* days first in some and months first in others"):
        encoder = TableEncoder.learn(table(when=["31/12/2024", "12/31/2024"] * 10), {})
    assert encoder.columns[0].type == "category"


def test_dates_before_1970_and_far_away() -> None:
    encoder = learnt(["1815-06-18", "1969-12-31", "2024-02-29", "9999-12-31", "0001-01-01"], "date")
    assert "a weekday = Sunday" in named(encoder, "1815-06-18")
    assert np.isfinite(encoder.rows(table(a=["0001-01-01", "9999-12-31"])).data).all()


def test_days_come_before_months_unless_that_cannot_be() -> None:
    assert "a month = 4" in named(learnt(["3/4/2024", "5/6/2024", "7/8/2024"], "date"), "3/4/2024")
    assert "a month = 3" in named(learnt(["3/4/2024", "5/6/2024", "7/28/2024"], "date"), "3/4/2024")


def test_zones_become_utc() -> None:
    encoder = learnt([f"2024-01-01T{h:02}:00:00+02:00" for h in range(24)], "date")
    assert "a hour = 10" in named(encoder, "2024-01-01T12:00:00+02:00")
    assert "a hour = 12" in named(encoder, "2024-01-01T12:00:00Z")


def test_numbers_are_dates_if_the_type_is_given() -> None:
    seconds = np.datetime64("2024-01-01", "s").view(np.int64) + 86400 * np.arange(100)
    for factor in (1, 1000, 10**6, 10**9):
        encoder = learnt(seconds * factor, "date")
        assert "a weekday = Monday" in named(encoder, int(seconds[0]) * factor)
    assert "a weekday = Monday" in named(learnt([str(s) for s in seconds], "date"), str(seconds[0]))
    assert "a weekday = Monday" in named(learnt(["20240101", "20240102", "20240109"], "date"), "20240101")


def test_missing_dates_have_one_flag() -> None:
    encoder = learnt(["2024-01-01", None, "2024-02-03"], "date")
    assert named(encoder, None) == named(encoder, "") == {"a missing": 1.0}
    assert np.isnan(encoder.matrix(table(a=[None]))[0]).all()


@pytest.mark.parametrize("text", ["2024-02-30", "2024-13-01", "today", "now", "2024", "25:00", "2024-01-01T99:00"])
def test_refuses_dates_that_do_not_exist(text: str) -> None:
    encoder = learnt(["2024-01-01", "2024-02-03"], "date")
    with pytest.raises(ValueError, match="row 0 of X: column 'a' holds"):
        encoder.rows(table(a=[text]))


# --- texts ---


def test_a_text_has_words_and_is_a_category_if_it_repeats() -> None:
    encoder = learnt(["red car", "red car", "blue car", "green bus"], "text")
    words = encoder.rows(table(a=["blue bus"]))
    assert len(words.indices) > 2
    assert "a = red car" in named(encoder, "red car")
    assert set(named(encoder, None)) == {"a = (missing)"}


def test_labels_weigh_words() -> None:
    texts = ["red car"] * 20 + ["red bus"] * 20
    _, labels = Target.learn(["car"] * 20 + ["bus"] * 20)
    frame = table(a=texts)
    spreads = []
    for own in (None, labels):
        (column,) = TableEncoder.learn(frame, {"a": "text"}, labels=own).columns
        assert isinstance(column, TextColumn)
        spreads.append(np.ptp(column.vocabulary.weights))
    assert spreads[1] > spreads[0]


@pytest.mark.parametrize(("cell", "in_a_file"), [(3.0, "3.0"), (-12.0, "-12.0"), (True, "true"), (False, "FALSE")])
def test_a_category_is_spelled_alike_in_frames_and_files(cell: object, in_a_file: str) -> None:
    encoder = learnt([cell, 7, cell, 7], "category")
    assert named(encoder, in_a_file) == named(encoder, cell)
    assert named(encoder, in_a_file) != named(encoder, "new")
