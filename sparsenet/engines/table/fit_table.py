"""Choose the model of a table on held-out rows, and train it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from sparsenet.core.progress import parts_done
from sparsenet.core.rows import Rows
from sparsenet.data.dialect import NO_FILE, LearntFile
from sparsenet.engines.table.encoding_choices import without
from sparsenet.engines.table.held_answers import HeldAnswers
from sparsenet.engines.table.measuring_members import Measured, can_decide, measure_steps
from sparsenet.engines.table.members import AverageMember, Member
from sparsenet.engines.table.table_options import METHODS, ONE_CLASS_ONLY, SETTINGS, Labelled, TableOptions
from sparsenet.engines.table.table_points import TablePoints
from sparsenet.engines.table.training_members import OF_BLEND, MemberTraining
from sparsenet.features.columns.table_encoder import TableEncoder
from sparsenet.features.label_stats import LabelStats
from sparsenet.features.targets import Target
from sparsenet.kernels.types import F64, Bools
from sparsenet.selection.choose import Decision, Option, choose, climb
from sparsenet.selection.holdout import Holdout

if TYPE_CHECKING:
    from sparsenet.data.frames import Frame


@dataclass(frozen=True, eq=False)
class FittedTable:
    """The model of a table, and what turns a data frame into its points.

    Attributes
    ----------
    member : Member
    target : Target
    seen : LabelStats
        Statistics of the training rows.
    encoder : TableEncoder
        Encodes data frames.
    background : TablePoints
        Some training rows, to explain answers by.
    choices : mapping
        The decisions, by name.
    validation : mapping, optional
        Measures on held-out rows, by name.
    column, label_delimiter : str, optional
        The column of classes, and what separates several classes in its cells.
    dropped : ndarray of bool, optional
        Features that the model does without.
    file : LearntFile
        How the training file was read, for further files.
    """

    member: Member
    target: Target
    seen: LabelStats
    encoder: TableEncoder
    background: TablePoints
    choices: Mapping[str, Decision] = field(default_factory=dict)
    validation: Mapping[str, float] | None = None
    column: str | None = None
    label_delimiter: str | None = None
    dropped: Bools | None = None
    file: LearntFile = NO_FILE

    def points(self, frame: Frame, threads: int, *, whole: bool = False) -> TablePoints:
        """Encode a frame: the parts that the model needs, or both."""
        rows, matrix = whole or self.member.needs_rows, whole or self.member.needs_matrix
        found = TablePoints.of(frame, self.encoder, threads, with_rows=rows, with_matrix=matrix)
        return found if self.dropped is None else replace(found, rows=without(found.rows, self.dropped))


def fit(
    whole: Labelled, parts: list[Holdout], training: MemberTraining
) -> tuple[Member, dict[str, Decision], dict[str, float] | None]:
    """Return the model, the decisions, and measures on held-out rows.

    Parameters
    ----------
    parts : list of Holdout
        The parts of the hold-out; none for few rows.
    """
    options, labels, exclusive = training.options, whole.labels, training.exclusive
    left_out = options.left_out(whole.points, labels, exclusive=exclusive)
    check_method(options.method, left_out, exclusive=exclusive)
    methods = [options.method] if options.method != "auto" else [each for each in METHODS if each not in left_out]
    if not can_decide(parts, labels):
        method = methods[0] if options.method != "auto" or len(labels) >= options.turns.fewest else methods[-3]
        (member,) = training.train([method], whole)
        why = f"{method}: too few rows to hold some out"
        return member, {} if options.method != "auto" else {"method": Decision(method, why, tuple(methods))}, None
    truth = labels.take(np.concatenate([part.held for part in parts]))
    measured, settings = _measure(training, methods, whole, parts)
    chosen, choices = _chosen(measured, truth, options, left_out, exclusive=exclusive)
    choices |= {SETTINGS[method]: settings[method] for method in chosen if method in settings}
    member = _final(training, chosen, measured, whole, parts)
    answers = measured[chosen[0]].answers if len(chosen) == 1 else _mean(measured, chosen)
    return member, choices if options.method == "auto" else {}, _validation(answers, truth, exclusive=exclusive)


def check_method(method: str, left_out: Mapping[str, str], *, exclusive: bool) -> None:
    """Refuse a method that cannot learn these labels; the work alone is no reason."""
    if method in ONE_CLASS_ONLY and method in left_out and (not exclusive or " x " not in left_out[method]):
        raise ValueError(f"method={method!r} cannot learn this table: {left_out[method]}; use method='auto' or 'blend'")


def _measure(
    training: MemberTraining, methods: list[str], whole: Labelled, parts: list[Holdout]
) -> tuple[dict[str, Measured], dict[str, Decision]]:
    """Measure each method with its best setting on the hold-out; also return the decisions on settings."""
    measured: dict[str, Measured] = {}
    settings: dict[str, Decision] = {}
    groups = training.groups(methods)
    with parts_done(len(groups), f"{len(whole.points):,} rows", training.options.verbose) as on_progress:
        for group in groups:
            steps = measure_steps(training, group, whole, parts)
            if group[0] in SETTINGS:
                options = (Option(f"{step[0].setting:g}", step[0]) for step in steps)
                found = climb(options, lambda own: own.score, training.options.larger)
                measured[group[0]] = found.value
                settings[group[0]] = found._replace(value=found.value.setting)
            else:
                measured |= dict(zip(group, next(steps), strict=True))
            on_progress(1)
    return measured, settings


def _mean(measured: dict[str, Measured], chosen: tuple[str, ...]) -> HeldAnswers:
    first, second = chosen
    return measured[first].answers.mean(measured[second].answers)


def _chosen(
    measured: dict[str, Measured], truth: Rows, options: TableOptions, left_out: Mapping[str, str], *, exclusive: bool
) -> tuple[tuple[str, ...], dict[str, Decision]]:
    """Choose one method, or the average of the best two where each row has one label."""
    rule = options.rule(exclusive=exclusive)
    named = [Option(method, method) for method in measured]
    decision = choose(named, lambda method: measured[method].score, rule)
    reasons = "".join(f"; {method} left out: {why}" for method, why in left_out.items())
    choices = {"method": decision._replace(why=decision.why + reasons)}
    pairs = _pairs(measured) if exclusive else []
    if not pairs:
        return (decision.value,), choices
    scores: dict[tuple[str, ...], F64] = {(decision.value,): measured[decision.value].score}
    scores |= {pair: _mean(measured, pair).exclusive_score(truth) for pair in pairs}
    averages = [Option(f"average of {first} and {second}", (first, second)) for first, second in pairs]
    found = choose([Option(decision.value, (decision.value,)), *averages], scores.__getitem__, rule)
    choices["average"] = found._replace(value=" and ".join(found.value))
    return found.value, choices


def _pairs(measured: Iterable[str]) -> list[tuple[str, str]]:
    """Return the pairs of methods to average: a blend has combined its tree and its network already."""
    return [(a, b) for a, b in combinations(measured, 2) if not (a in OF_BLEND and b in OF_BLEND)]


def _final(
    training: MemberTraining,
    chosen: tuple[str, ...],
    measured: dict[str, Measured],
    whole: Labelled,
    parts: list[Holdout],
) -> Member:
    """Return the chosen models, trained on all rows if many were held out."""
    if len(parts) == 1 and len(parts[0].held) < training.options.retrain_share * len(whole.points):
        members = [measured[method].member for method in chosen]
    else:
        by_method: dict[str, Member] = {}
        for group in training.groups(list(chosen)):
            trained = training.train(group, whole, measured[group[0]].setting)
            by_method |= dict(zip(group, trained, strict=True))
        members = [by_method[method] for method in chosen]
    return members[0] if len(members) == 1 else AverageMember((members[0], members[1]))


def _validation(answers: HeldAnswers, truth: Rows, *, exclusive: bool) -> dict[str, float]:
    """Return the accuracy, or the precision of the first label, on the held-out rows."""
    return {"accuracy" if exclusive else "P@1": round(float(answers.hits(truth).mean()), 6)}
