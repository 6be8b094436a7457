"""Tables as sparse rows and as matrices, in one encoder of typed columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparsenet.core.rows import as_matrix
from sparsenet.features.columns.encoder_arrays import pack, unpack
from sparsenet.features.columns.table_encoder import TableEncoder
from sparsenet.kernels.types import Arrays
from sparsenet.storage import load, save
from sparsenet.storage.format import ModelError
from tests.support.tables import mixed_table, table


def test_infers_a_type_for_each_column() -> None:
    encoder = TableEncoder.learn(mixed_table(), {})
    assert {column.name: column.type for column in encoder.columns} == {
        "price": "number",
        "stars": "number",
        "weight": "number",
        "carrier": "category",
        "is_new": "category",
        "when": "date",
        "day": "date",
        "genres": "categories",
        "viewed": "ids",
        "title": "text",
        "same": "ignore",
    }


def test_rows_have_distinct_finite_features_of_each_column() -> None:
    frame = mixed_table()
    encoder = TableEncoder.learn(frame, {})
    rows = encoder.rows(frame)
    rows.check("rows")
    assert len(rows) == len(frame)
    assert rows.width == encoder.n_features == len(encoder.feature_columns)
    assert np.isfinite(rows.data).all()
    assert (rows.data != 0).all()
    merged = as_matrix(rows)
    merged.sum_duplicates()
    assert merged.nnz == len(rows.indices)
    columns = {encoder.columns[c].name for c in np.unique(encoder.feature_columns[rows.indices])}
    assert columns == set(frame.names) - {"same"}


def test_rows_do_not_depend_on_the_other_rows() -> None:
    frame = mixed_table()
    encoder = TableEncoder.learn(frame, {})
    together = as_matrix(encoder.rows(frame)).toarray()
    for row in (0, 7, 199):
        alone = as_matrix(encoder.rows(frame.take(np.array([row])))).toarray()
        assert np.array_equal(alone[0], together[row])


def test_encodes_large_tables_block_by_block() -> None:
    frame = mixed_table(50)
    encoder = TableEncoder.learn(frame, {})
    whole = as_matrix(encoder.rows(frame)).toarray()
    for rows_at_a_time in (1, 7, 25, 50, 51):
        rows = encoder.rows(frame, rows_at_a_time=rows_at_a_time)
        assert np.array_equal(as_matrix(rows).toarray(), whole)


def test_the_number_of_threads_does_not_change_rows() -> None:
    frame = mixed_table()
    encoder = TableEncoder.learn(frame, {})
    one, two = encoder.rows(frame), encoder.rows(frame, threads=2)
    assert np.array_equal(one.indices, two.indices)
    assert np.array_equal(one.data, two.data)


def test_matrix_has_codes_below_256_and_nan_for_missing() -> None:
    frame = mixed_table()
    encoder = TableEncoder.learn(frame, {})
    matrix, are_codes = encoder.matrix(frame)
    assert matrix.shape == (len(frame), len(are_codes))
    codes = matrix[:, are_codes]
    assert np.nanmax(codes) < 255
    assert np.array_equal(np.isnan(matrix[:, 0]), np.isnan(frame["price"]))
    carrier = codes[:, 0]
    assert np.array_equal(np.isnan(carrier), [value is None for value in frame["carrier"]])


def test_matrix_bounds_the_codes_of_a_million_categories() -> None:
    values = [f"v{i // 2}" for i in range(2000)]
    frame = table(a=values)
    matrix, are_codes = TableEncoder.learn(frame, {"a": "category"}).matrix(frame)
    assert are_codes.tolist() == [True, False]
    assert matrix[:, 0].max() == 254


def test_extra_columns_are_ignored_and_the_order_does_not_matter() -> None:
    encoder = TableEncoder.learn(table(a=[1.0, 2.0, 3.0], b=["x", "y", "x"]), {})
    rows = encoder.rows(table(c=[object()], b=["x"], a=[2.0]))
    assert np.array_equal(rows.data, encoder.rows(table(a=[2.0], b=["x"])).data)


def test_refuses_a_frame_without_a_column() -> None:
    encoder = TableEncoder.learn(table(a=[1.0, 2.0, 3.0], b=["x", "y", "x"]), {})
    with pytest.raises(ValueError, match=r"X: the column 'b' is missing, which the model needs; there are 'a'"):
        encoder.rows(table(a=[1.0]))


def test_ignored_columns_may_be_missing() -> None:
    encoder = TableEncoder.learn(table(a=[1.0, 2.0, 3.0], b=["x", "x", "x"]), {})
    assert len(encoder.rows(table(a=[1.0]))) == 1


def test_refuses_types_of_columns_that_are_not_there() -> None:
    with pytest.raises(ValueError, match="types names the column 'z', and there are 'a'"):
        TableEncoder.learn(table(a=[1.0]), {"z": "number"})


@pytest.mark.parametrize("kind", ["numeric", "number:x", "", 3, None])
def test_refuses_types_that_do_not_exist(kind: object) -> None:
    with pytest.raises(ValueError, match=r"types=\{'a': .*\} is not a type: use one of 'number'"):
        TableEncoder.learn(table(a=[1.0]), {"a": kind})


def test_refuses_to_learn_from_no_rows() -> None:
    with pytest.raises(ValueError, match="X has no rows"):
        TableEncoder.learn(table(a=[]), {})


def test_encodes_no_rows_as_none() -> None:
    frame = mixed_table()
    encoder = TableEncoder.learn(frame, {})
    none = frame.take(np.empty(0, np.int64))
    assert len(encoder.rows(none)) == 0
    assert encoder.rows(none).width == encoder.n_features
    assert encoder.matrix(none)[0].shape[0] == 0


def test_learns_from_one_row() -> None:
    frame = mixed_table(1)
    types = {"price": "number", "carrier": "category", "when": "date", "title": "text", "viewed": "ids"}
    encoder = TableEncoder.learn(frame, types)
    assert np.isfinite(encoder.rows(mixed_table(30, seed=1)).data).all()


def test_learns_from_columns_without_any_value() -> None:
    frame = table(a=[None, None], b=["NA", ""], c=[np.nan, np.nan])
    assert {c.type for c in TableEncoder.learn(frame, {}).columns} == {"ignore"}
    for kind in ("number", "category", "categories", "date", "text", "ids"):
        encoder = TableEncoder.learn(frame, dict.fromkeys("abc", kind))
        assert len(encoder.rows(frame)) == 2


def test_describes_columns_in_a_table() -> None:
    text = TableEncoder.learn(table(price=[1.5, 2.5, None], kind=["a", "b", "a"]), {"kind": "category"}).describe()
    assert text.splitlines() == [
        "column  type      distinct  missing  example  why",
        "------  --------  --------  -------  -------  -------",
        "price   number           2        1  1.5      numbers",
        "kind    category         2        0  a        given",
    ]


def test_names_features() -> None:
    frame = mixed_table()
    encoder = TableEncoder.learn(frame, {})
    names = [encoder.feature_name(i) for i in range(encoder.n_features)]
    assert len(set(names)) == len(names)
    assert {"carrier = AA", "carrier = (rare or new)", "price missing", "when weekday = Monday"} <= set(names)


def test_saves_and_restores() -> None:
    frame = mixed_table()
    encoder = TableEncoder.learn(frame, {})
    arrays, about = pack(encoder)
    again = unpack(arrays, json.loads(json.dumps(about)))
    one, two = encoder.rows(frame), again.rows(frame)
    assert np.array_equal(one.indices, two.indices)
    assert np.array_equal(one.data, two.data)
    assert np.array_equal(encoder.matrix(frame)[0], again.matrix(frame)[0], equal_nan=True)
    assert encoder.describe() == again.describe()


def described(arrays: Arrays) -> list[dict[str, Any]]:
    """The JSON of the columns of a packed encoder."""
    return json.loads(arrays["columns"].tobytes())


def with_description(arrays: Arrays, columns: object) -> Arrays:
    return {**arrays, "columns": np.frombuffer(json.dumps(columns).encode(), np.uint8)}


@pytest.mark.slow
def test_saves_thousands_of_columns(tmp_path: Path) -> None:
    frame = table(**{f"x{i}": np.array([1.0, 2.0, 4.0]) for i in range(6000)})
    encoder = TableEncoder.learn(frame, {})
    save(tmp_path / "model", *pack(encoder))
    arrays, about = load(tmp_path / "model")
    assert np.array_equal(unpack(arrays, about).rows(frame).data, encoder.rows(frame).data)


def test_refuses_missing_arrays_and_fields() -> None:
    arrays, about = pack(TableEncoder.learn(mixed_table(), {}))
    for name in arrays:
        with pytest.raises(ModelError):
            unpack({key: array for key, array in arrays.items() if key != name}, about)
    for number, column in enumerate(described(arrays)):
        for field in column["state"]:
            state = {key: value for key, value in column["state"].items() if key != field}
            damaged = described(arrays)
            damaged[number] = {**column, "state": state}
            with pytest.raises(ModelError):
                unpack(with_description(arrays, damaged), about)


def test_refuses_arrays_of_another_type_or_shape() -> None:
    arrays, about = pack(TableEncoder.learn(mixed_table(), {}))
    for name, array in arrays.items():
        for damaged in (array.astype(np.complex128), np.array([array, array])):
            with pytest.raises(ModelError):
                unpack({**arrays, name: damaged}, about)


def test_refuses_arrays_that_are_cut_elsewhere() -> None:
    arrays, about = pack(TableEncoder.learn(mixed_table(), {}))
    for name in [name for name, array in arrays.items() if name.startswith("starts.") and array[-1]]:
        for damaged in (arrays[name][1:], arrays[name] + 1, -arrays[name], arrays[name][::-1].copy()):
            with pytest.raises(ModelError):
                unpack({**arrays, name: damaged}, about)


@pytest.mark.parametrize(
    "change", [{"type": "number"}, {"type": "x"}, {"type": ["x"]}, {"name": 3}, {"name": "stars"}, {"summary": {}}]
)
def test_refuses_edited_columns(change: dict[str, object]) -> None:
    arrays, about = pack(TableEncoder.learn(mixed_table(), {}))
    edited = described(arrays)
    edited[3] |= change
    with pytest.raises(ModelError):
        unpack(with_description(arrays, edited), about)


@pytest.mark.parametrize("columns", [None, {}, [], [3], "x", [[[]]] * 11])
def test_refuses_descriptions_of_another_form(columns: object) -> None:
    arrays, about = pack(TableEncoder.learn(mixed_table(), {}))
    with pytest.raises(ModelError):
        unpack(with_description(arrays, columns), about)


def test_refuses_descriptions_that_are_no_json() -> None:
    arrays, about = pack(TableEncoder.learn(mixed_table(), {}))
    for text in (b"", b"{", b"\xff", b"[" * 100_000):
        with pytest.raises(ModelError):
            unpack({**arrays, "columns": np.frombuffer(text, np.uint8)}, about)


def test_refuses_a_table_that_does_not_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = mixed_table(50)
    encoder = TableEncoder.learn(frame, {})
    monkeypatch.setattr("sparsenet.features.columns.table_encoder.available_memory", lambda: 10_000)
    with pytest.raises(MemoryError, match=r"encoding 50 rows of a table needs .* kB, but only 10.0 kB"):
        encoder.rows(frame, rows_at_a_time=20)
