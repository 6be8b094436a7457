"""Explain the errors of the row parsers. A parser returns the place of the token; this module finds the problem."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.validation import MAX_WIDTH
from sparsenet.data.errors import DataError, quoted

_TOKEN_BYTES = 200


def checked_width(path: str, line: int | None, announces: str, kind: str, found: int, width: int | None) -> int:
    """Return `width`, or `found` if that is None. Raise a DataError if there are more columns than that or 2^31 - 1."""
    if found > (MAX_WIDTH if width is None else width):
        limit = "2^31 - 1 at most are possible" if width in (None, MAX_WIDTH) else f"at most {width} are expected"
        raise DataError(path, line, f"{announces} {found} {kind}, but {limit}")
    return found if width is None else width


class RowError(IntEnum):
    """Reason why a parser stopped, numbered as in ``csrc/io/reader.h``."""

    NONE = 0
    LABEL = 1
    FEATURE = 2
    REPEATED_FEATURE = 3
    REPEATED_LABEL = 4
    LABEL_COUNT = 5
    SURPLUS_ROW = 6


class Parsed(NamedTuple):
    """Result of a row parser; see `parse_xmc` in ``sparsenet/_core.pyi``."""

    rows: int
    features: int
    labels: int
    error: int
    line: int
    begin: int
    end: int
    repeated: float


@dataclass(frozen=True, kw_only=True)
class RowRules:
    """Limits on the ids in a row, and words for error messages.

    Feature ids lie in ``[first_feature, end_feature)``, and label ids in ``[0, n_labels)``. If `n_labels` is None,
    labels may be any numbers. `announced` is the number of points in the header of an XMC file, and None for svmlight.
    Error messages call a feature `column`. `no_labels` explains why rows have no labels, if the file cannot have any.
    """

    path: str
    first_feature: int = 0
    end_feature: int
    n_labels: int | None
    announced: int | None = None
    column: str = "feature"
    no_labels: str | None = None

    def limit(self, kind: str, count: int) -> str:
        """Return the source of the limit on ids of this kind, for an error message."""
        return f"n_{kind}s={count}" if self.announced is None else f"line 1 announces {count} {kind}s"


def explain(parsed: Parsed, text: NDArray[np.uint8], rules: RowRules) -> DataError:
    """Return the error for a parse that failed."""
    token = bytes(text[parsed.begin : min(parsed.end, parsed.begin + _TOKEN_BYTES)]).decode("utf-8", "replace")
    match RowError(parsed.error):
        case RowError.LABEL:
            problem = _label_problem(token, rules)
        case RowError.FEATURE:
            problem = _feature_problem(token, rules)
        case RowError.LABEL_COUNT:
            problem = "not exactly one label; read files with several or none with multilabel=True"
        case RowError.SURPLUS_ROW:
            problem = f"the header announces {rules.announced} points, and here is one more; correct line 1"
        case RowError.REPEATED_FEATURE:
            problem = f"feature {_plain(parsed.repeated)} occurs twice; keep one of them, or their sum"
        case _:
            problem = f"label {_plain(parsed.repeated)} occurs twice; keep one of them"
    return DataError(rules.path, parsed.line, problem)


def _plain(number: float) -> str:
    return str(int(number)) if number.is_integer() else str(number)


def _label_problem(token: str, rules: RowRules) -> str:
    if rules.no_labels is not None:
        return f"expected `id:value ...`, found {quoted(token)}: {rules.no_labels}"
    if rules.n_labels is None and re.fullmatch(r"[+-]?\d+", token):
        return f"label {quoted(token)[1:-1]} is beyond 2^53, where whole numbers are rounded; number the labels densely"
    if rules.n_labels is None:
        return f"label {quoted(token)} is not a finite number; labels come first, as `label,label id:value ...`"
    if not re.fullmatch(r"[+-]?\d+", token):
        return f"label {quoted(token)} is not an integer; labels come first, as `label,label id:value ...`"
    return _id_problem("label", int(token), 0, rules.n_labels, rules)


def _feature_problem(token: str, rules: RowRules) -> str:
    written, colon, value = token.partition(":")
    if not colon:
        return f"{quoted(token)} is not a feature; write features as id:value, separated by blanks"
    if not re.fullmatch(r"-?\d+", written):
        return f"feature id {quoted(written)} is not an integer; write features as id:value, separated by blanks"
    if not rules.first_feature <= int(written) < rules.end_feature:
        return _id_problem(rules.column, int(written), rules.first_feature, rules.end_feature, rules)
    return _value_problem(written, value)


def _id_problem(kind: str, found: int, first: int, end: int, rules: RowRules) -> str:
    if found < 0:
        return f"{kind} {found} is negative; ids are integers from {first} on"
    if found < first:
        return f"{kind} {found} where ids count from {first}; read the file with zero_based=True"
    if found >= MAX_WIDTH:
        return f"{kind} {quoted(str(found))[1:-1]} is beyond 2^31 - 2, the largest id; number the {kind}s densely"
    limit = rules.limit(kind, end - first)
    if first == end:
        return f"{kind} {found} is out of range: there are no {kind}s ({limit})"
    return f"{kind} {found} is out of range: ids go from {first} to {end - 1} ({limit})"


def _value_problem(feature: str, value: str) -> str:
    try:
        number = float(value.replace("_", "?"))  # only Python accepts 1_000
    except ValueError:
        return f"value {quoted(value)} of feature {feature} is not a number; write features as id:value"
    if math.isnan(number) or "i" in value.lower():
        return f"value {value} of feature {feature} is not finite; remove it or put a number in its place"
    return f"value {quoted(value)[1:-1]} of feature {feature} is beyond 3.4e38, the largest 32-bit float; rescale it"
