"""Row parsers in Numba, with the same results and errors as ``csrc/io/row_parser.h``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.kernels.numba.numba_common import checked
from sparsenet.kernels.numba.numba_decimal import exact_jit, is_digit, read_double, read_float
from sparsenet.kernels.types import F32, I32, I64, U8

# The values of RowError in csrc/io/reader.h.
_NONE, _LABEL, _FEATURE, _REPEATED_FEATURE, _REPEATED_LABEL, _LABEL_COUNT, _SURPLUS_ROW = range(7)
_NEWLINE, _TAB, _RETURN, _SPACE = ord("\n"), ord("\t"), ord("\r"), ord(" ")
_COLON, _COMMA, _HASH, _MINUS = ord(":"), ord(","), ord("#"), ord("-")
_DOT, _LOWER_E, _UPPER_E = ord("."), ord("e"), ord("E")
_Q, _I, _D = ord("q"), ord("i"), ord("d")
_HUGE = 1 << 40

Counts = tuple[int, int, int, int, int, int, int, float]


@checked(text="u8 _")
def count_marks(text: U8) -> tuple[int, int, int]:
    """Count the newlines, colons and commas of a block."""
    newlines, colons, commas = (int(np.count_nonzero(text == mark)) for mark in (_NEWLINE, _COLON, _COMMA))
    return newlines, colons, commas


@checked(
    text="u8 _", row_ends="out i64 _", indices="out i32 _", values="out f32 _", label_ends="out i64 _",
    labels="out i32 _",
)  # fmt: skip
def parse_xmc(
    text: U8,
    first_line: int,
    last_line: int,
    n_features: int,
    n_labels: int,
    row_ends: I64,
    indices: I32,
    values: F32,
    label_ends: I64,
    labels: I32,
    threads: int,
) -> Counts:
    """Parse the rows of a block of an XMC file."""
    _check_room(text, row_ends, indices, values, label_ends, labels)
    rules = (0, n_features, n_labels, last_line, False)
    out = (row_ends, indices, values, label_ends, labels)
    return _parse(text, first_line, True, rules, *out)


@checked(
    text="u8 _", row_ends="out i64 _", indices="out i32 _", values="out f32 _", label_ends="out i64 _",
    labels="out f64 _",
)  # fmt: skip
def parse_svmlight(
    text: U8,
    first_line: int,
    first_feature: int,
    end_feature: int,
    n_labels: int,
    one_label: bool,
    row_ends: I64,
    indices: I32,
    values: F32,
    label_ends: I64,
    labels: NDArray[np.float64],
    threads: int,
) -> Counts:
    """Parse the rows of a block of a svmlight file."""
    _check_room(text, row_ends, indices, values, label_ends, labels)
    rules = (first_feature, end_feature, n_labels, 0, bool(one_label))
    out = (row_ends, indices, values, label_ends, labels)
    return _parse(text, first_line, False, rules, *out)


def _check_room(text: U8, *arrays: NDArray[Any]) -> None:
    if len(text) == 0 or text[-1] != _NEWLINE:
        raise ValueError("text must end with a newline")
    lines, colons, commas = count_marks(text)
    needs = {"row_ends": lines, "indices": colons, "values": colons, "label_ends": lines, "labels": commas + lines}
    for (name, n), array in zip(needs.items(), arrays, strict=True):
        if len(array) < n:
            raise ValueError(f"{name} must have room for {n} entries")


# --- compiled: `p` is a position in the text, which ends in a newline --------------------------------------------


@exact_jit
def _is_blank(c: int) -> bool:
    return c in (_SPACE, _TAB, _RETURN)


@exact_jit
def _is_end(c: int, xmc: bool) -> bool:
    return c == _NEWLINE or (c == _HASH and not xmc)


@exact_jit
def _ends_token(c: int, xmc: bool) -> bool:
    return _is_blank(c) or _is_end(c, xmc)


@exact_jit
def _skip_blanks(text: U8, p: int) -> int:
    while _is_blank(text[p]):
        p += 1
    return p


@exact_jit
def _read_id(text: U8, p: int) -> tuple[int, int]:
    """Return the end of the id at `p` (-1 for none) and the id; one that would overflow becomes `_HUGE`."""
    start, value = p, 0
    while is_digit(text[p]):
        value = value * 10 + (text[p] - 48) if value < _HUGE else _HUGE
        p += 1
    return (p if p != start else -1), value


@exact_jit
def _starts_with_feature(text: U8, p: int, xmc: bool) -> bool:
    while text[p] != _COLON and text[p] != _COMMA and not _ends_token(text[p], xmc):
        p += 1
    return bool(text[p] == _COLON)


@exact_jit
def _read_label(text: U8, p: int, xmc: bool, n_labels: int) -> tuple[int, float]:
    if xmc:
        end, label = _read_id(text, p)
        return (end if label < n_labels else -1), np.float64(label)
    end, value = read_double(text, p)
    if n_labels < 0:
        is_exact = end < 0 or abs(value) < 9007199254740992.0 or _is_float(text, p, end)
        return (end if is_exact else -1), value
    if not (0 <= value < n_labels and value == np.floor(value)):
        end = -1
    return end, value


@exact_jit
def _is_float(text: U8, p: int, end: int) -> bool:
    """Return whether a number has a point or exponent; large integers without one may collide as floats."""
    marks = 0
    for i in range(p, end):
        marks += text[i] == _DOT or text[i] == _LOWER_E or text[i] == _UPPER_E
    return marks > 0


@exact_jit
def _parse_labels(text: U8, p: int, xmc: bool, n_labels: int, out: Any, n: int) -> tuple[int, int, int]:
    """Return the position after the labels, the number of labels in `out`, and an invalid position (or -1)."""
    while True:
        token = p
        p, label = _read_label(text, p, xmc, n_labels)
        if p < 0:
            return p, n, token
        out[n] = label
        n += 1
        if text[p] != _COMMA:
            return p, n, -1 if _ends_token(text[p], xmc) else token
        p += 1


@exact_jit
def _skip_query(text: U8, p: int, xmc: bool) -> int:
    """Return the position after an optional query id, or -1 if it is not a number."""
    # Compare byte by byte, to stop at the newline that ends the text.
    if not (text[p] == _Q and text[p + 1] == _I and text[p + 2] == _D and text[p + 3] == _COLON):
        return p
    p += 4
    if text[p] == _MINUS:
        p += 1
    p, _ = _read_id(text, p)
    return p if p >= 0 and _ends_token(text[p], xmc) else -1


@exact_jit
def _parse_features(
    text: U8, p: int, xmc: bool, first: int, end: int, indices: I32, values: F32, n: int
) -> tuple[int, int, int]:
    """Return the position after the features, their number, and the position of an invalid one (or -1)."""
    p = _skip_blanks(text, p)
    while not _is_end(text[p], xmc):
        token = p
        p, feature = _read_id(text, p)
        if p < 0 or text[p] != _COLON or feature < first or feature >= end:
            return p, n, token
        p, value = read_float(text, p + 1)
        if p < 0 or not _ends_token(text[p], xmc):
            return p, n, token
        indices[n] = feature
        values[n] = value
        n += 1
        p = _skip_blanks(text, p)
    return p, n, -1


@exact_jit
def _sort(keys: Any) -> None:
    """Sort by heapsort: Numba would take seconds to compile NumPy's sort, and rows are rarely unsorted."""
    n = len(keys)
    for step in range(n // 2 + n):
        root, end = n // 2 - 1 - step, n
        if root < 0:
            root, end = 0, n + n // 2 - 1 - step
            keys[0], keys[end] = keys[end], keys[0]
        child = 2 * root + 1
        while child < end:
            if child + 1 < end and keys[child] < keys[child + 1]:
                child += 1
            if keys[root] >= keys[child]:
                break
            keys[root], keys[child] = keys[child], keys[root]
            root, child = child, 2 * child + 1


@exact_jit
def _is_ascending(ids: Any) -> bool:
    for i in range(1, len(ids)):  # noqa: SIM110, Numba has no generators in all()
        if ids[i - 1] >= ids[i]:
            return False
    return True


@exact_jit
def _find_repeated(ids: Any) -> int:
    """Return the position of an id that equals its predecessor, or -1."""
    for i in range(1, len(ids)):
        if ids[i - 1] == ids[i]:
            return i
    return -1


@exact_jit
def _order_features(indices: I32, values: F32) -> int:
    """Sort the features of a row; return the position of a repeated one, or -1."""
    if _is_ascending(indices):
        return -1
    # (id, value) pairs as single integers, the id in the upper half
    bits = values.view(np.uint32)
    keys = np.empty(len(indices), np.uint64)
    for i in range(len(indices)):
        keys[i] = np.uint64(indices[i]) << np.uint64(32) | np.uint64(bits[i])
    _sort(keys)
    for i in range(len(indices)):
        indices[i] = np.int32(keys[i] >> np.uint64(32))
        bits[i] = np.uint32(keys[i] & np.uint64(0xFFFFFFFF))
    return _find_repeated(indices)


@exact_jit
def _order_labels(labels: Any) -> int:
    """Sort the labels of a row; return the position of a repeated one, or -1."""
    if _is_ascending(labels):
        return -1
    _sort(labels)
    return _find_repeated(labels)


@exact_jit
def _token_end(text: U8, p: int, xmc: bool, error: int) -> int:
    while not _ends_token(text[p], xmc) and not (error == _LABEL and text[p] == _COMMA):
        p += 1
    return p


@exact_jit
def _parse(
    text: U8,
    line: int,
    xmc: bool,
    rules: tuple[int, int, int, int, bool],
    row_ends: I64,
    indices: I32,
    values: F32,
    label_ends: I64,
    labels: Any,
) -> Counts:
    first_feature, end_feature, n_labels, last_line, one_label = rules
    rows, features, row_label, p = 0, 0, 0, 0
    error, token = _NONE, 0
    repeated = 0.0
    while p < len(text):
        start, row_features, label = p, features, row_label
        p = _skip_blanks(text, p)
        blank = _is_end(text[p], xmc)
        if not blank:
            if xmc and line > last_line:
                error, token = _SURPLUS_ROW, p
                break
            # XMC: an indented row has no labels.
            if (p == start or not xmc) and not _starts_with_feature(text, p, xmc):
                p, label, token = _parse_labels(text, p, xmc, n_labels, labels, label)
                if token >= 0:
                    error = _LABEL
                    break
            if one_label and label != row_label + 1:
                error, token = _LABEL_COUNT, start
                break
            if not xmc:
                token = _skip_blanks(text, p)
                p = _skip_query(text, token, xmc)
                if p < 0:
                    error = _FEATURE
                    break
            p, row_features, token = _parse_features(
                text, p, xmc, first_feature, end_feature, indices, values, features
            )
            if token >= 0:
                error = _FEATURE
                break
            at = _order_features(indices[features:row_features], values[features:row_features])
            if at >= 0:
                error, repeated = _REPEATED_FEATURE, np.float64(indices[features + at])
                break
            at = _order_labels(labels[row_label:label])
            if at >= 0:
                error, repeated = _REPEATED_LABEL, np.float64(labels[row_label + at])
                break
        if not blank or (xmc and line <= last_line):
            features, row_label = row_features, label
            row_ends[rows] = features
            label_ends[rows] = row_label
            rows += 1
        while text[p] != _NEWLINE:
            p += 1
        p += 1
        line += 1
    if error in (_NONE, _REPEATED_FEATURE, _REPEATED_LABEL):
        return rows, features, row_label, error, line, 0, 0, repeated
    return rows, features, row_label, error, line, token, _token_end(text, token, xmc, error), repeated
