"""Dates and times: parts of the calendar, cycles, and the time elapsed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsenet.core.validation import boolean, choice
from sparsenet.features.columns.cell_dates import MICROSECONDS_A_DAY, ORDERS, Moments, moments_in
from sparsenet.features.columns.cells import Cells
from sparsenet.features.columns.column_encoder import ColumnEncoder, ColumnSummary
from sparsenet.features.columns.number_column import NumberBasis
from sparsenet.kernels.types import F32, F64, I32, I64, Arrays
from sparsenet.storage.format import ModelError

#: Parts of a date, and how many values each has. The days of a month are counted from 0 here.
PARTS = {"month": 12, "day": 31, "weekday": 7, "hour": 24}
#: Cycles, and the part that must vary for them to be useful.
CYCLES = {"day of the year": "month", "time of day": "hour"}
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True, eq=False, kw_only=True)
class DateColumn(ColumnEncoder):
    """A column of dates, with or without times.

    Attributes
    ----------
    order : str
        The order of the parts in strings; see `cell_dates.ORDERS`.
    basis : NumberBasis
        The features of the days since 1970.
    parts : tuple of str
        The parts that vary among the training rows.
    is_strict : bool
        Whether a cell that holds no date is an error; otherwise it is missing.
    """

    type = "date"
    order: str
    basis: NumberBasis
    parts: tuple[str, ...]
    is_strict: bool

    @classmethod
    def learn(cls, cells: Cells, summary: ColumnSummary, *, order: str, is_strict: bool) -> DateColumn:
        """Learn which parts vary, and the distribution of the days."""
        moments = checked_moments(cells, order, is_strict=is_strict)
        there = moments[~np.isnat(moments)]
        parts = tuple(name for name, part in _parts(there).items() if len(part) and part.min() < part.max())
        basis = NumberBasis.learn(_days(moments))
        return cls(name=cells.name, summary=summary, order=order, basis=basis, parts=parts, is_strict=is_strict)

    @property
    def cycles(self) -> tuple[str, ...]:
        """The cycles with features: a sine and a cosine each."""
        return tuple(cycle for cycle, part in CYCLES.items() if part in self.parts)

    @property
    def n_features(self) -> int:
        """Number of sparse features."""
        return self.basis.n_features + sum(PARTS[part] for part in self.parts) + 2 * len(self.cycles)

    def block(self, cells: Cells) -> tuple[I32, F32]:
        """Return the features of the dates in cells."""
        moments = checked_moments(cells, self.order, is_strict=self.is_strict)
        there = (~np.isnat(moments)).astype(np.float32)
        blocks, first = [self.basis.block(_days(moments))], self.basis.n_features
        found = _parts(moments)
        for name in self.parts:
            blocks.append(((first + found[name])[:, None].astype(np.int32), there[:, None]))
            first += PARTS[name]
        for angle in _angles(moments, self.cycles):
            features = np.broadcast_to(np.arange(first, first + 2, dtype=np.int32), (len(cells), 2))
            blocks.append(
                (features, (np.column_stack((np.sin(angle), np.cos(angle))) * there[:, None]).astype(np.float32))
            )
            first += 2
        return np.concatenate([own for own, _ in blocks], axis=1), np.concatenate([own for _, own in blocks], axis=1)

    @property
    def codes(self) -> tuple[bool, ...]:
        """Days, and each part, as numbers."""
        return (False,) * (1 + len(self.parts))

    def numbers(self, cells: Cells) -> F64:
        """Return the days since 1970 and the parts that vary."""
        moments = checked_moments(cells, self.order, is_strict=self.is_strict)
        found = _parts(moments)
        columns = [_days(moments), *(np.where(np.isnat(moments), np.nan, found[name]) for name in self.parts)]
        return np.column_stack(columns)

    def feature_name(self, feature: int) -> str:
        """Return the name of a feature."""
        if feature < 2:
            return f"{self.name} {self.basis.feature_name(feature)}"
        if feature < self.basis.n_features:
            moment = np.datetime64(round(self.basis.knots[feature - 2] * MICROSECONDS_A_DAY), "us")
            return f"{self.name} near {np.datetime_as_string(moment, unit='auto')}"
        feature -= self.basis.n_features
        for part in self.parts:
            if feature < PARTS[part]:
                value = _WEEKDAYS[feature] if part == "weekday" else feature + (part in ("month", "day"))
                return f"{self.name} {part} = {value}"
            feature -= PARTS[part]
        return f"{self.name} {self.cycles[feature // 2]} ({('sine', 'cosine')[feature % 2]})"

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the basis, the order and the parts as arrays and JSON."""
        arrays, about = self.basis.state()
        return arrays, {**about, "order": self.order, "parts": list(self.parts), "is_strict": self.is_strict}

    @classmethod
    def restore(cls, name: str, summary: ColumnSummary, arrays: Arrays, about: Mapping[str, Any]) -> DateColumn:
        """Restore and check what `state` returned."""
        parts = tuple(about["parts"])
        if parts != tuple(part for part in PARTS if part in parts):
            raise ModelError(f"the parts of a date must be some of {', '.join(PARTS)}, in this order, got {parts}")
        return cls(
            name=name,
            summary=summary,
            order=choice("order", about["order"], ORDERS),
            basis=NumberBasis.restore(arrays, about),
            parts=parts,
            is_strict=boolean("is_strict", about["is_strict"]),
        )


def checked_moments(cells: Cells, order: str, *, is_strict: bool) -> Moments:
    """Return the moments in cells; refuse other cells, or count them as missing."""
    moments, strays = moments_in(cells, order)
    if len(strays) and is_strict:
        advice = f"write it as 2024-12-31 or 2024-12-31 17:05, or fit with types={{{cells.name!r}: 'category'}}"
        cells.refuse(int(strays[0]), f"the column's type is 'date' (strings with {order}): {advice}")
    return moments


def _whole_days(moments: Moments) -> I64:
    """Return the days since 1970; 0 for missing moments."""
    ticks = np.where(np.isnat(moments), np.datetime64(0, "us"), moments).view(np.int64)
    found: I64 = ticks // MICROSECONDS_A_DAY
    return found


def _days(moments: Moments) -> F64:
    """Return the days since 1970 with fractions; NaN for missing moments."""
    return np.where(np.isnat(moments), np.nan, moments.view(np.int64) / MICROSECONDS_A_DAY)


def _parts(moments: Moments) -> dict[str, I64]:
    """Return all parts of moments, 0 for missing ones."""
    there = np.where(np.isnat(moments), np.datetime64(0, "us"), moments)
    days, months = there.astype("datetime64[D]"), there.astype("datetime64[M]")
    return {
        "month": months.view(np.int64) % 12,
        "day": (days - months.astype("datetime64[D]")).view(np.int64),
        "weekday": (_whole_days(moments) + 3) % 7,  # the first day of 1970 was a Thursday
        "hour": there.view(np.int64) % MICROSECONDS_A_DAY // 3_600_000_000,
    }


def _angles(moments: Moments, cycles: tuple[str, ...]) -> list[F64]:
    """Return the angle of each moment in each cycle."""
    there = np.where(np.isnat(moments), np.datetime64(0, "us"), moments)
    ticks, year = there.view(np.int64), there.astype("datetime64[Y]").astype("datetime64[us]").view(np.int64)
    share = {
        "day of the year": (ticks - year) / (365.25 * MICROSECONDS_A_DAY),
        "time of day": ticks % MICROSECONDS_A_DAY / MICROSECONDS_A_DAY,
    }
    return [2 * np.pi * share[cycle] for cycle in cycles]
