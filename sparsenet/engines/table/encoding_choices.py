"""Decide on the hold-out how columns are encoded.

Repeated whole numbers may be names, such as flight numbers, or amounts, such as points scored. Linear models may learn
a curve for each amount, or a straight line. Boosting may divide categories into sets, or order them by frequency.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sparsenet.core.rows import Rows
from sparsenet.engines.table.measuring_members import can_decide, measure_steps
from sparsenet.engines.table.table_options import Labelled
from sparsenet.engines.table.table_points import n_features
from sparsenet.engines.table.training_members import MemberTraining
from sparsenet.features.columns.date_column import DateColumn
from sparsenet.features.columns.number_column import NumberColumn
from sparsenet.features.columns.table_encoder import TableEncoder
from sparsenet.kernels.types import F64, Bools
from sparsenet.selection.choose import Decision, Option, choose
from sparsenet.selection.holdout import Holdout


class NumberFeatures(NamedTuple):
    """Which features are flags of single numbers, and which are shares of knots, (n_features,) each."""

    flags: Bools
    knots: Bools

    @classmethod
    def of(cls, encoder: TableEncoder) -> NumberFeatures:
        """Mark the features of an encoder."""
        flags, knots = np.zeros((2, n_features(encoder)), bool)
        for start, column in zip(encoder.starts.tolist(), encoder.columns, strict=False):
            if isinstance(column, NumberColumn | DateColumn):
                knots[start + 2 : start + column.basis.n_features] = True
            if isinstance(column, NumberColumn):
                flags[start + column.basis.n_features : start + column.n_features] = True
        return cls(flags, knots)


def choose_numbers(
    training: MemberTraining, whole: Labelled, parts: list[Holdout], features: NumberFeatures
) -> tuple[Bools, Decision | None]:
    """Return the features to drop, and the decision by trees on the hold-out.

    Flags of numbers that are names decide; flags of amounts let neighbors and trees learn coincidences. Without the
    shares of knots, linear models are linear in each amount, and few rows suffice to learn them.
    """
    options, (flags, knots) = training.options, features
    nothing = np.zeros_like(flags)
    can_choose = (
        can_decide(parts, whole.labels) and options.method != "boosting" and len(np.unique(whole.labels.indices)) > 1
    )
    if not can_choose or not (flags.any() or knots.any()):
        return nothing, None

    def score(dropped: Bools) -> F64:
        points = replace(whole.points, rows=without(whole.points.rows, dropped))
        return next(measure_steps(training, ["tree"], whole._replace(points=points), parts))[0].score

    compared = [Option("names and amounts", nothing), Option("amounts alone", flags), Option("straight", flags | knots)]
    return _chosen(compared if flags.any() else compared[1:], score, training)


def choose_sets(training: MemberTraining, whole: Labelled, parts: list[Holdout]) -> tuple[Bools, Decision | None]:
    """Return the columns of the matrix that boosting divides into sets of categories, and the decision by boosting.

    Sets follow coincidences of rare categories. The codes as numbers order categories by their frequency.
    """
    options, points = training.options, whole.points
    left_out = options.left_out(points, whole.labels, exclusive=training.exclusive)
    if (
        not points.is_category.any()
        or not can_decide(parts, whole.labels)
        or "boosting" in left_out
        or options.method not in ("auto", "boosting")
    ):
        return points.is_category, None

    def score(is_category: Bools) -> F64:
        own = whole._replace(points=replace(points, is_category=is_category))
        return next(measure_steps(training, ["boosting"], own, parts))[0].score

    compared = [Option("sets", points.is_category), Option("by frequency", np.zeros_like(points.is_category))]
    return _chosen(compared, score, training)


def _chosen(compared: list[Option], score: Callable[[Bools], F64], training: MemberTraining) -> tuple[Bools, Decision]:
    """Return the chosen mask, and the decision, whose value is the name of the option."""
    decision = choose(compared, score, training.options.rule(exclusive=training.exclusive))
    name = next(option.name for option in compared if option.value is decision.value)
    return decision.value, decision._replace(value=name)


def without(rows: Rows, dropped: Bools) -> Rows:
    """Return rows without some features; the others keep their numbers."""
    if not dropped.any():
        return rows
    keep = ~dropped[rows.indices]
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(keep, dtype=np.int64)))
    return Rows(ends[rows.indptr], rows.indices[keep], rows.data[keep], rows.width)
