"""Decide whether repeated whole numbers are names, such as flight numbers, or amounts, such as points scored."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sparsenet.core.rows import Rows
from sparsenet.engines.table.held_answers import HeldAnswers
from sparsenet.engines.table.table_options import Labelled
from sparsenet.engines.table.table_points import TablePoints, n_features
from sparsenet.engines.table.training_members import MemberTraining
from sparsenet.features.columns.number_column import NumberColumn
from sparsenet.features.columns.table_encoder import TableEncoder
from sparsenet.kernels.types import F64, Bools
from sparsenet.selection.choose import Decision, Option, choose


def flags_of(encoder: TableEncoder) -> Bools:
    """Return which features are flags of single numbers, (n_features,)."""
    flags = np.zeros(n_features(encoder), bool)
    for start, column in zip(encoder.starts.tolist(), encoder.columns, strict=False):
        if isinstance(column, NumberColumn):
            flags[start + column.basis.n_features : start + column.n_features] = True
    return flags


def choose_flags(
    training: MemberTraining, points: TablePoints, labels: Rows, flags: Bools, times: F64 | None = None
) -> tuple[Bools, Decision | None]:
    """Return the features to drop, which are the flags or none, and the decision by trees on the hold-out.

    Flags of numbers that are names decide; flags of amounts let neighbors and trees learn coincidences.
    """
    options, whole = training.options, Labelled(points, labels)
    parts = options.holdout.draw(len(points), training.seed, times)
    nothing = np.zeros_like(flags)
    if not flags.any() or not parts or options.method == "boosting" or len(np.unique(labels.indices)) < 2:
        return nothing, None
    truth = labels.take(np.concatenate([part.held for part in parts]))

    def score(dropped: Bools) -> F64:
        found, rest = [], replace(whole.points, rows=without(points.rows, dropped))
        for part in parts:
            train, held = (Labelled(rest, labels).take(numbers) for numbers in (part.kept, part.held))
            ((tree, _),) = training.train(["tree"], train)
            found.append(HeldAnswers.of(tree, held.points, training.threads))
        answers = HeldAnswers.stacked(found)
        return answers.exclusive_score(truth) if training.exclusive else answers.shared_score(truth)

    compared = [Option("names and amounts", nothing), Option("amounts alone", flags)]
    decision = choose(compared, score, options.rule(exclusive=training.exclusive))
    dropped: Bools = decision.value
    return dropped, decision._replace(value=compared[int(dropped.any())].name)


def without(rows: Rows, dropped: Bools) -> Rows:
    """Return rows without some features; the others keep their numbers."""
    if not dropped.any():
        return rows
    keep = ~dropped[rows.indices]
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(keep, dtype=np.int64)))
    return Rows(ends[rows.indptr], rows.indices[keep], rows.data[keep], rows.width)
