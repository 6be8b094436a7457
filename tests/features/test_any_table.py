"""Any table of any cells is encoded to finite features, or refused by an error that names the column."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sparsenet.data.frames import read_frame
from sparsenet.features.columns.column_types import TYPES
from sparsenet.features.columns.encoder_arrays import pack, unpack
from sparsenet.features.columns.table_encoder import TableEncoder

NUMBERS = st.one_of(st.floats(), st.integers(-(2**62), 2**62), st.sampled_from([0, 1, 2, 0.5, None]))
STRINGS = st.one_of(st.text(max_size=8), st.sampled_from(["a", "b", "a|b", "1", "2.5", "NA", "2024-01-31", "10:30"]))
LISTS = st.lists(st.one_of(st.integers(0, 9), st.text(max_size=3)), max_size=4)
CELLS = st.one_of(STRINGS, NUMBERS, LISTS, st.booleans(), st.none(), st.dates(), st.binary(max_size=3))
COLUMNS = st.one_of(*(st.lists(cells, min_size=1, max_size=40) for cells in (NUMBERS, STRINGS, LISTS, CELLS)))
TYPED = st.one_of(st.none(), st.sampled_from(TYPES))


@settings(deadline=None, max_examples=60)
@given(COLUMNS, COLUMNS, TYPED)
def test_any_column_is_encoded_or_refused(values: list[Any], others: list[Any], kind: str | None) -> None:
    frame = read_frame({"a": values})
    try:
        encoder = TableEncoder.learn(frame, {} if kind is None else {"a": kind})
    except ValueError as error:
        assert "column 'a' holds" in str(error)  # noqa: PT017
        return
    check(encoder, values)
    try:
        encoder.rows(read_frame({"a": others}))
    except ValueError as error:
        assert "column 'a' holds" in str(error)  # noqa: PT017
        return
    check(encoder, others)


def check(encoder: TableEncoder, values: list[Any]) -> None:
    frame = read_frame({"a": values})
    rows = encoder.rows(frame)
    rows.check("rows")
    assert len(rows) == len(values)
    assert np.isfinite(rows.data).all()
    matrix, are_codes = encoder.matrix(frame)
    assert matrix.shape == (len(values), len(are_codes))
    assert not np.isinf(matrix).any()
    assert np.nanmax(matrix[:, are_codes], initial=0) < 255
    arrays, about = pack(encoder)
    again = unpack(arrays, json.loads(json.dumps(about))).rows(frame)
    assert np.array_equal(again.data, rows.data)
    assert np.array_equal(again.indices, rows.indices)
    assert all(encoder.feature_name(i).startswith("a") for i in range(encoder.n_features))
