"""Restrict predictions to some labels, for each row or for all rows: `exclude` and `only`, as masks or names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from sparsenet.core.rows import POINTS_AT_A_TIME
from sparsenet.data.errors import cut
from sparsenet.features.targets import Target
from sparsenet.kernels.types import F32, I32, I64, Bools

_ROWS = (list, tuple, set, frozenset, np.ndarray)
_NUMBERS = (int, float, np.integer, np.floating)
#: What may be a name, or an entry or a row of a mask.
_NAMES = (str, complex, np.generic, *_NUMBERS, *_ROWS)


@dataclass(frozen=True, eq=False)
class LabelMask:
    """Marked labels: a matrix, (n, n_labels), or one mask for all rows, (n_labels,)."""

    own: csr_array | None
    common: Bools | None

    @classmethod
    def of(cls, argument: str, value: Any, n: int, target: Target) -> LabelMask:
        """Read a mask, which is nonzero for marked labels, or names of labels, against n rows."""
        names = _names(argument, value, n, target)
        return _of_matrix(argument, value, n, len(target.classes)) if names is None else names

    def counts(self, n: int) -> I64:
        """Count the marked labels of each of n rows, (n,)."""
        if self.common is not None:
            return np.full(n, np.count_nonzero(self.common), np.int64)
        assert self.own is not None
        return np.diff(self.own.indptr).astype(np.int64)

    def among(self, labels: I32, points: I64) -> Bools:
        """Return a mask of the marked labels among `labels`, (n_points, any), of the given rows."""
        if self.common is not None:
            return self.common[labels]
        found: Any = self.own[points[:, None], labels]  # type: ignore[index]  # set unless `common` is
        return np.asarray(found.toarray(), np.bool_)

    def take(self, points: I64) -> LabelMask:
        """Return the marks of the given rows."""
        return self if self.own is None else LabelMask(self.own[points], None)

    def groups(self, n: int) -> list[tuple[I64, I32]]:
        """Return the distinct sets of marked labels, ascending, each with the numbers of its rows."""
        if self.common is not None:
            return [(np.arange(n), np.flatnonzero(self.common).astype(np.int32))]
        assert self.own is not None
        own, rows = self.own.sorted_indices(), dict[bytes, list[int]]()
        ids = own.indices.astype(np.int32)
        for row in range(n):
            rows.setdefault(ids[own.indptr[row] : own.indptr[row + 1]].tobytes(), []).append(row)
        return [(np.array(own), np.frombuffer(labels, np.int32)) for labels, own in rows.items()]


@dataclass(frozen=True, eq=False)
class Allowed:
    """The labels that predictions may contain: `only`, or all labels, without `exclude`."""

    only: LabelMask | None
    exclude: LabelMask | None
    n_labels: int

    @classmethod
    def of(cls, exclude: Any, only: Any, n: int, target: Target) -> Allowed:
        """Validate both arguments against n rows."""
        given = {"exclude": exclude, "only": only}
        masks = {name: None if one is None else LabelMask.of(name, one, n, target) for name, one in given.items()}
        allowed = cls(masks["only"], masks["exclude"], len(target.classes))
        if allowed.only is not None and allowed.only.common is not None and not allowed.only.common.any():
            raise ValueError("only allows no label: give at least one, or None for all labels")
        return allowed

    @property
    def arguments(self) -> str:
        """The names of the arguments given, for messages."""
        return " and ".join(name for name in ("exclude", "only") if getattr(self, name) is not None)

    @property
    def most(self) -> int:
        """An upper bound of the labels allowed for any row, by masks for all rows."""
        mask = np.ones(self.n_labels, bool) if self.only is None or self.only.common is None else self.only.common
        return int(np.count_nonzero(mask))

    def n_dropped(self, n: int) -> I64:
        """Return an upper bound of the labels that are not allowed for each of n rows."""
        dropped = np.zeros(n, np.int64) if self.exclude is None else self.exclude.counts(n)
        if self.only is not None:
            dropped += self.n_labels - self.only.counts(n)
        return np.minimum(dropped, self.n_labels)

    def among(self, labels: I32, points: I64) -> Bools:
        """Return a mask of the allowed labels among `labels`, (n_points, any), of the given rows."""
        allowed = np.ones(labels.shape, np.bool_) if self.only is None else self.only.among(labels, points)
        return allowed if self.exclude is None else allowed & ~self.exclude.among(labels, points)

    def take(self, points: I64) -> Allowed:
        """Return the restrictions of the given rows."""
        only, exclude = (None if mask is None else mask.take(points) for mask in (self.only, self.exclude))
        return Allowed(only, exclude, self.n_labels)

    def error(self, labels: I32, advice: str) -> ValueError | None:
        """Return an error for the first row with fewer labels than asked for, padded with -1; None if all are full."""
        short = np.flatnonzero((labels < 0).any(axis=1))
        if not len(short):
            return None
        left, verb = int((labels[short[0]] >= 0).sum()), "leave" if " and " in self.arguments else "leaves"
        return ValueError(
            f"{self.arguments} {verb} row {short[0]} {left} labels, fewer than k={labels.shape[1]}: {advice}"
        )


def without(labels: I32, p: F32, allowed: Bools, k: int) -> tuple[I32, F32]:
    """Return the first k labels of each row that are allowed, and their p, padded with -1 and 0."""
    order = np.argsort(~allowed, axis=1, kind="stable")[:, :k]
    kept = np.take_along_axis(allowed, order, axis=1)
    best, values = np.full((len(labels), k), -1, np.int32), np.zeros((len(labels), k), np.float32)
    best[:, : order.shape[1]] = np.where(kept, np.take_along_axis(labels, order, axis=1), np.int32(-1))
    values[:, : order.shape[1]] = np.where(kept, np.take_along_axis(p, order, axis=1), np.float32(0))
    return best, values


#: Rank labels of the given rows: (rows, number of labels, labels that are dropped afterwards) to labels and p.
Ranking = Callable[[I64, int, int], tuple[I32, F32]]


def best_allowed(
    rank: Ranking,
    n: int,
    k: int,
    allowed: Allowed,
    *,
    spare: int = 16,
    max_dropped: int = 0,
    max_ranked: int = 1 << 24,
) -> tuple[I32, F32]:
    """Rank labels without regard to `allowed`, and return each row's k best allowed ones, padded with -1 and 0.

    Parameters
    ----------
    spare : int
        Labels to rank at first beyond k, in case some of the best k are not allowed.
    max_dropped : int
        Maximum number of dropped labels passed to `rank`, which then searches further.
    max_ranked : int
        Maximum number of labels that a block of rows ranks.
    """
    n_labels, n_dropped = allowed.n_labels, allowed.n_dropped(n)
    # k plus the dropped labels are always enough, rounded to powers of two so that rows share calls. Few of the best
    # labels are usually dropped, so start with fewer, and rank more only for the rows that need it. The answer for a
    # row must not depend on other rows.
    more = np.where(n_dropped > 0, 2 ** np.ceil(np.log2(np.maximum(n_dropped, 1))).astype(np.int64), 0)
    enough, passed = np.minimum(k + more, n_labels), np.minimum(more, max_dropped)
    n_ranked, waiting = np.minimum(k + spare, enough), np.arange(n)
    best, p = np.full((n, k), -1, np.int32), np.zeros((n, k), np.float32)
    while len(waiting):
        for size, own in sorted(set(zip(n_ranked[waiting].tolist(), passed[waiting].tolist(), strict=True))):
            group = waiting[(n_ranked[waiting] == size) & (passed[waiting] == own)]
            for points in in_blocks(group, size, max_ranked):
                labels, block_p = rank(points, size, own)
                best[points], p[points] = without(labels, block_p, allowed.among(labels, points), k)
        waiting = waiting[(best[waiting, -1] < 0) & (n_ranked[waiting] < enough[waiting])]
        n_ranked[waiting] = np.minimum(4 * n_ranked[waiting], enough[waiting])
    return best, p


#: Rank some labels, ascending, for the given rows: (rows, labels, number of labels to return) to labels and p.
RankingAmong = Callable[[I64, I32, int], tuple[I32, F32]]


def best_only(rank: RankingAmong, n: int, k: int, allowed: Allowed) -> tuple[I32, F32]:
    """Rank the labels of `allowed.only`: return each row's k best allowed ones, padded with -1 and 0."""
    assert allowed.only is not None
    best, p = np.full((n, k), -1, np.int32), np.zeros((n, k), np.float32)
    dropped = np.zeros(n, np.int64) if allowed.exclude is None else allowed.exclude.counts(n)
    for points, labels in allowed.only.groups(n):  # rows with the same labels are ranked together
        if len(labels):
            size = min(k + int(dropped[points].max(initial=0)), len(labels))
            for rows in in_blocks(points, size):
                found, found_p = rank(rows, labels, size)
                best[rows], p[rows] = without(found, found_p, allowed.among(found, rows), k)
    return best, p


def in_blocks(points: I64, size: int, max_ranked: int = 1 << 24) -> list[I64]:
    """Split row numbers into blocks that rank at most `max_ranked` labels, `size` a row."""
    at_a_time = max(min(POINTS_AT_A_TIME, max_ranked // max(size, 1)), 1)
    return np.array_split(points, -(-len(points) // at_a_time)) if len(points) else []


# --- masks and names -----------------------------------------------------------------------------------------------


def _of_matrix(argument: str, value: Any, n: int, n_labels: int) -> LabelMask:
    """Return the nonzero entries of a matrix or of one row."""
    if callable(value):
        raise ValueError(f"{argument} must be {_WANTED}, got {type(value).__name__}")
    try:
        matrix = csr_array(value)
        matrix = csr_array(matrix.reshape((1, -1))) if matrix.ndim == 1 else matrix
    except (TypeError, ValueError) as error:
        raise ValueError(f"{argument} must be {_WANTED}: {error}") from None
    if matrix.shape not in ((n, n_labels), (1, n_labels)):
        wanted = f"(rows of X, labels), {(n, n_labels)}, or {(n_labels,)} for all rows"
        raise ValueError(f"{argument} has the shape {np.shape(value)}, must be {wanted}, or a list of names of labels")
    matrix = matrix.astype(bool)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return LabelMask(None, matrix.toarray().reshape(-1)) if matrix.shape[0] == 1 else LabelMask(matrix, None)


_WANTED = (
    "an array or sparse matrix with a row for each of X, or one for all, and a column for each label, or a list of "
    "names of labels, or a list of such lists with one for each row"
)


def _names(argument: str, value: Any, n: int, target: Target) -> LabelMask | None:
    """Return the labels that `value` names, or None if it is a mask."""
    if isinstance(value, str | bytes):
        raise ValueError(f"{argument} is the string {value!r}: pass a list, [{value!r}]")
    given = _as_lists(value)
    if given is None:
        return None
    is_by_row = bool(given) and all(isinstance(row, _ROWS) for row in given)
    rows = [list(row) for row in given] if is_by_row else [given]
    flat = [name for row in rows for name in row]
    if any(isinstance(name, str) for name in flat):
        if not all(isinstance(name, str) for name in flat):
            other = next(name for name in flat if not isinstance(name, str))
            raise ValueError(f"{argument} mixes names of labels with {other!r}: pass names alone, or a mask")
    elif others := [name for name in flat if not isinstance(name, _NAMES) and not hasattr(name, "__array__")]:
        raise ValueError(
            f"{argument} holds {cut(repr(others[0]))}, which is no label: pass names as in classes_, or a mask"
        )
    elif flat and not _are_number_names(argument, value, rows, n, target):
        return None
    if is_by_row and len(rows) != n:
        raise ValueError(f"{argument} holds names for {len(rows)} rows, X has {n}: pass a list for each row, or one")
    numbers = _numbers(argument, rows, target)
    if not is_by_row:
        mask = np.zeros(len(target.classes), np.bool_)
        mask[numbers[0]] = True
        return LabelMask(None, mask)
    indptr = np.cumsum([0, *(len(own) for own in numbers)])
    ids = np.concatenate([np.empty(0, np.int64), *numbers])
    return LabelMask(csr_array((np.ones(len(ids), np.bool_), ids, indptr), (n, len(target.classes))), None)


def _as_lists(value: Any) -> list[Any] | None:
    """Return a list of names, or of lists of names or numbers; None if `value` can only be a mask."""
    if issparse(value) or value is None:
        return None
    if isinstance(value, set | frozenset) or not hasattr(value, "__array__"):
        return list(value) if isinstance(value, Iterable) else None
    array = np.asarray(value)
    is_mask = array.dtype.kind in "bfc" or (array.dtype.kind in "iu" and array.ndim != 1)
    return None if is_mask or array.ndim == 0 else list(array.tolist())


def _are_number_names(argument: str, value: Any, rows: list[list[Any]], n: int, target: Target) -> bool:
    """Return whether numbers are labels, rather than a mask of the right shape or of a wrong one.

    Booleans are always a mask, and sets never are. Numbers of a mask's shape are a mask, unless they could also name
    all labels.
    """
    classes = target.classes
    if isinstance(value, set | frozenset) or any(isinstance(row, set | frozenset) for row in value):
        return True
    flat = [name for row in rows for name in row]
    if classes.dtype.kind not in "iuf" or any(isinstance(name, bool | np.bool_) for name in flat):
        return False
    if not all(isinstance(name, _NUMBERS) for name in flat):
        return False
    are_distinct = all(len(set(row)) == len(row) for row in rows)
    if any(len(row) != len(classes) for row in rows) or len(rows) not in (1, n):
        return are_distinct  # otherwise a mask of the wrong shape, which is refused
    is_binary = all(name in (0, 1) for name in flat)
    if are_distinct and not is_binary and 0 in flat and not (target.find(flat) < 0).any():
        raise ValueError(
            f"{argument} could be a mask or name all {len(classes)} labels: pass booleans for a mask, a set for names"
        )
    return False


def _numbers(argument: str, rows: list[list[Any]], target: Target, *, n_shown: int = 3) -> list[NDArray[np.int64]]:
    """Return the numbers of the named labels, ascending and distinct; refuse unknown ones, and show some."""
    numbers = [np.unique(target.find(row)) if row else np.empty(0, np.int64) for row in rows]
    if any(len(own) and own[0] < 0 for own in numbers):
        known = [target.find(row) >= 0 if row else np.empty(0, bool) for row in rows]
        unknown = dict.fromkeys(
            name
            for row, own in zip(rows, known, strict=True)
            for name, is_known in zip(row, own, strict=True)
            if not is_known
        )
        shown = ", ".join(repr(name) for name in list(unknown)[:n_shown])
        more = f" and {len(unknown) - n_shown} more" if len(unknown) > n_shown else ""
        raise ValueError(
            f"{argument} names {shown}{more}, not among the {len(target.classes)} labels in classes_: leave unknown "
            "labels out"
        )
    return numbers
