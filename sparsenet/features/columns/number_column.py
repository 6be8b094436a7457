"""Numbers: a robust standard score, and a piecewise linear basis between quantiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.validation import boolean, real
from sparsenet.features.columns.category_column import rarity_weights
from sparsenet.features.columns.cell_numbers import numbers_in
from sparsenet.features.columns.cells import Cells
from sparsenet.features.columns.column_encoder import ColumnEncoder, ColumnSummary
from sparsenet.kernels.types import F32, F64, I32, I64, Arrays
from sparsenet.storage.format import ModelError


@dataclass(frozen=True, kw_only=True)
class NumberRules:
    """Thresholds for the knots and flags of numbers.

    Attributes
    ----------
    max_knots, rows_per_knot : int
        Most knots of a column, and the least rows for each: fewer rows would show noise between knots.
    max_values : int
        Up to this many distinct numbers each get a knot, so that a linear model can tell them apart.
    min_value_rows : int
        Numbers of fewer rows have no flag: a flag of one row cannot be learnt.
    min_value_share : float
        A column has flags if at least this share of its rows would have one; otherwise numbers are amounts.
    max_size : float
        Bound of numbers: differences and ratios of larger ones could overflow.
    """

    max_knots: int = 32
    rows_per_knot: int = 20
    max_values: int = 64
    min_value_rows: int = 2
    min_value_share: float = 0.5
    max_size: float = 1e150


RULES = NumberRules()


@dataclass(frozen=True, eq=False)
class NumberBasis:
    """The features of one number.

    A number x has a standard score, of ``arcsinh((x - centre) / spread)``, which is linear near the median and
    logarithmic in heavy tails. It also lies between two knots and has a share of each, so that a linear model can
    learn any piecewise linear function. The features are: the score, whether the number is missing, and the knots.

    Attributes
    ----------
    knots : ndarray of float64
        Ascending; the lowest and highest are the ends of the training rows.
    centre, spread, mean, deviation : float
        Median and quartile spread of the numbers; mean and deviation of the transformed numbers.
    """

    knots: F64
    centre: float
    spread: float
    mean: float
    deviation: float

    @classmethod
    def learn(cls, numbers: F64, rules: NumberRules = RULES) -> NumberBasis:
        """Fit a basis to numbers; NaN is missing."""
        there = _bounded(numbers[~np.isnan(numbers)], rules.max_size)
        if not len(there):
            return cls(np.empty(0), 0.0, 1.0, 0.0, 1.0)
        low, centre, high = np.quantile(there, (0.25, 0.5, 0.75))
        spreads = ((high - low) / 1.349, np.abs(there - centre).mean())
        spread = _usable(spreads[0], rules.max_size) or _usable(spreads[1], rules.max_size) or 1.0
        score = np.arcsinh((there - centre) / spread)
        deviation = _usable(score.std(), rules.max_size) or 1.0
        return cls(_knots(there, rules), float(centre), spread, float(score.mean()), deviation)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return 2 + len(self.knots)

    def block(self, numbers: F64, *, max_score: float = 4.0) -> tuple[I32, F32]:
        """Return the features of numbers and their values, (n, 4) each; a value of zero is no entry.

        Scores are cut to `max_score`: far outliers must not outweigh all other columns.
        """
        features, values = np.zeros((len(numbers), 4), np.int32), np.zeros((len(numbers), 4), np.float32)
        missing, knots = np.isnan(numbers), self.knots
        features[:, 1], values[:, 1] = 1, missing
        if len(knots) < 2:
            return features, values
        x = np.fmin(np.fmax(numbers, knots[0]), knots[-1])  # a missing number becomes the lowest
        score = (np.arcsinh((x - self.centre) / self.spread) - self.mean) / self.deviation
        left = np.searchsorted(knots[1:-1], x, side="right")
        share = (x - knots[left]) / self._gaps[left]
        features[:, 2], features[:, 3] = left + 2, left + 3
        values[:, 0] = np.minimum(np.maximum(score, -max_score), max_score)
        values[:, 2], values[:, 3] = 1 - share, share
        if missing.any():
            values[missing] = (0, 1, 0, 0)
        return features, values

    @cached_property
    def _gaps(self) -> F64:
        return np.diff(self.knots)

    def feature_name(self, feature: int) -> str:
        """Return the name of a feature, without the column's."""
        return ("score", "missing")[feature] if feature < 2 else f"near {self.knots[feature - 2]:.6g}"

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the basis as arrays and JSON."""
        numbers = {name: getattr(self, name) for name in ("centre", "spread", "mean", "deviation")}
        return {"knots": self.knots}, numbers

    @classmethod
    def restore(cls, arrays: Arrays, about: Mapping[str, Any]) -> NumberBasis:
        """Restore and check what `state` returned."""
        knots, largest = arrays["knots"], float(np.finfo(np.float64).max)
        check_ascending("knots", knots)
        centre, mean = (real(name, about[name], -largest, largest) for name in ("centre", "mean"))
        spread, deviation = (real(name, about[name], 0, largest, open_low=True) for name in ("spread", "deviation"))
        return cls(knots, centre, spread, mean, deviation)


def check_ascending(name: str, numbers: NDArray[Any]) -> None:
    """Refuse saved numbers that binary search cannot handle."""
    is_vector = numbers.dtype == np.float64 and numbers.ndim == 1
    if not is_vector or not np.isfinite(numbers).all() or (np.diff(numbers) <= 0).any():
        raise ModelError(f"the {name} of a number must be finite, ascending and of float64")


def _usable(spread: float, max_size: float) -> float:
    """Return a spread, or 0 if it is too small to divide by."""
    return float(spread) if spread > 1 / max_size else 0.0


def _bounded(numbers: F64, max_size: float) -> F64:
    """Cut numbers to the bound of sizes; infinite ones to the smallest and largest of the others."""
    finite = numbers[np.isfinite(numbers)]
    low, high = (finite.min(), finite.max()) if len(finite) else (-1.0, 1.0)
    return np.clip(numbers, max(low, -max_size), min(high, max_size))


def _knots(numbers: F64, rules: NumberRules) -> F64:
    """Return the knots: all distinct numbers if they are few, else quantiles."""
    ordered = np.sort(numbers)
    distinct = ordered[np.concatenate(([True], ordered[1:] > ordered[:-1]))]
    most = int(np.clip(len(numbers) // rules.rows_per_knot, 2, rules.max_values))
    if len(distinct) <= most:
        return distinct
    places = np.linspace(0, len(ordered) - 1, min(most, rules.max_knots)).round().astype(np.int64)
    knots: F64 = np.unique(ordered[places])
    return knots


@dataclass(frozen=True, eq=False, kw_only=True)
class NumberColumn(ColumnEncoder):
    """A column of numbers.

    Whole numbers that repeat may be names rather than amounts, such as the numbers of flights. If they are too many for
    a knot each, the frequent ones have flags besides.

    Attributes
    ----------
    basis : NumberBasis
    values : ndarray of float64
        The numbers with flags, ascending.
    weights : ndarray of float32
        The value of each flag.
    is_strict : bool
        Whether a cell that holds no number is an error; otherwise it is missing.
    """

    type = "number"
    basis: NumberBasis
    values: F64
    weights: F32
    is_strict: bool

    @classmethod
    def learn(
        cls, cells: Cells, summary: ColumnSummary, *, is_strict: bool, rules: NumberRules = RULES
    ) -> NumberColumn:
        """Learn the distribution of the numbers in cells."""
        numbers = checked_numbers(cells, is_strict=is_strict)
        basis = NumberBasis.learn(numbers, rules)
        values, counts = _repeated(numbers, len(basis.knots), rules)
        weights = rarity_weights(counts, len(numbers))
        return cls(name=cells.name, summary=summary, basis=basis, values=values, weights=weights, is_strict=is_strict)

    @property
    def n_features(self) -> int:
        """Number of sparse features."""
        return self.basis.n_features + len(self.values)

    def block(self, cells: Cells) -> tuple[I32, F32]:
        """Return the features of the numbers in cells."""
        numbers = checked_numbers(cells, is_strict=self.is_strict)
        features, values = self.basis.block(numbers)
        if len(self.values):
            place = np.minimum(np.searchsorted(self.values, numbers), len(self.values) - 1)
            features = np.column_stack((features, (place + self.basis.n_features).astype(np.int32)))
            values = np.column_stack((values, self.weights[place] * (self.values[place] == numbers)))
        return features, values

    @property
    def codes(self) -> tuple[bool, ...]:
        """One column of numbers."""
        return (False,)

    def numbers(self, cells: Cells) -> F64:
        """Return the numbers, infinite ones cut to the ends of the training rows."""
        numbers = checked_numbers(cells, is_strict=self.is_strict)
        ends = (self.basis.knots[0], self.basis.knots[-1]) if len(self.basis.knots) else (0.0, 0.0)
        low, high = (np.where(np.isinf(numbers), end, numbers) for end in ends)
        return np.where(numbers < 0, low, high)[:, None]

    def feature_name(self, feature: int) -> str:
        """Return the name of a feature."""
        if feature < self.basis.n_features:
            return f"{self.name} {self.basis.feature_name(feature)}"
        return f"{self.name} = {self.values[feature - self.basis.n_features]:.15g}"

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the basis as arrays and JSON."""
        arrays, about = self.basis.state()
        return {**arrays, "values": self.values, "weights": self.weights}, {**about, "is_strict": self.is_strict}

    @classmethod
    def restore(cls, name: str, summary: ColumnSummary, arrays: Arrays, about: Mapping[str, Any]) -> NumberColumn:
        """Restore and check what `state` returned."""
        values, is_strict = arrays["values"], boolean("is_strict", about["is_strict"])
        check_ascending("values", values)
        weights, basis = arrays["weights"], NumberBasis.restore(arrays, about)
        if weights.dtype != np.float32 or weights.shape != values.shape or not np.isfinite(weights).all():
            raise ModelError("the flags of a number must each have a weight: a finite float32")
        return cls(name=name, summary=summary, basis=basis, values=values, weights=weights, is_strict=is_strict)


def _repeated(numbers: F64, n_knots: int, rules: NumberRules) -> tuple[F64, I64]:
    """Return whole numbers of several rows, and their rows; none if these are few, or knots tell them apart."""
    distinct, counts = np.unique(numbers[np.isfinite(numbers)], return_counts=True)
    are_repeated = counts >= rules.min_value_rows
    few = counts[are_repeated].sum() < rules.min_value_share * counts.sum()
    if len(distinct) <= n_knots or few or (distinct != np.round(distinct)).any():
        return np.empty(0), np.empty(0, np.int64)
    return distinct[are_repeated], counts[are_repeated].astype(np.int64)


def checked_numbers(cells: Cells, *, is_strict: bool) -> F64:
    """Return the numbers in cells; refuse other cells, or count them as missing."""
    numbers, strays = numbers_in(cells)
    if len(strays) and is_strict:
        advice = f"correct or empty the cell, or fit with types={{{cells.name!r}: 'category'}}"
        cells.refuse(int(strays[0]), f"the column's type is 'number': {advice}")
    return numbers
