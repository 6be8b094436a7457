"""Choose the model of a table on held-out rows, and train it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from sparsenet.core.progress import parts_done
from sparsenet.core.rows import Rows
from sparsenet.engines.table.held_answers import HeldAnswers
from sparsenet.engines.table.members import AverageMember, Member
from sparsenet.engines.table.number_flags import without
from sparsenet.engines.table.table_options import METHODS, ONE_CLASS_ONLY, Labelled, Setting, TableOptions
from sparsenet.engines.table.table_points import TablePoints
from sparsenet.engines.table.training_members import OF_BLEND, MemberTraining
from sparsenet.features.columns.table_encoder import TableEncoder
from sparsenet.features.label_stats import LabelStats
from sparsenet.features.targets import Target
from sparsenet.kernels.types import F64, Bools
from sparsenet.selection.choose import Decision, Option, choose
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

    def points(self, frame: Frame, threads: int, *, whole: bool = False) -> TablePoints:
        """Encode a frame: the parts that the model needs, or both."""
        rows, matrix = whole or self.member.needs_rows, whole or self.member.needs_matrix
        found = TablePoints.of(frame, self.encoder, threads, with_rows=rows, with_matrix=matrix)
        return found if self.dropped is None else replace(found, rows=without(found.rows, self.dropped))


@dataclass(frozen=True, eq=False)
class Measured:
    """A method on the hold-out: its answers, score of each point, settings, and the model of the last part."""

    member: Member
    answers: HeldAnswers
    score: F64
    setting: Setting


def fit(
    points: TablePoints,
    labels: Rows,
    options: TableOptions,
    *,
    exclusive: bool,
    seed: int,
    threads: int,
    times: F64 | None = None,
) -> tuple[Member, dict[str, Decision], dict[str, float] | None]:
    """Return the model, the decisions, and measures on held-out rows.

    Parameters
    ----------
    exclusive : bool
        Whether each row has exactly one label.
    times : ndarray of shape (n,), optional
        Times of rows that look back on earlier ones: the last rows are held out.
    """
    whole, n_labels = Labelled(points, labels), labels.width
    training = MemberTraining(options, n_labels, exclusive, seed, threads)
    left_out = options.left_out(points, labels, exclusive=exclusive)
    check_method(options.method, left_out, exclusive=exclusive)
    methods = [options.method] if options.method != "auto" else [each for each in METHODS if each not in left_out]
    parts = options.holdout.draw(len(points), seed, times)
    if not _can_decide(parts, labels):
        method = methods[0] if options.method != "auto" or len(points) >= options.holdout.min_rows else methods[-3]
        member, _ = training.train([method], whole)[0]
        why = f"{method}: too few rows to hold some out"
        return member, {} if options.method != "auto" else {"method": Decision(method, why, tuple(methods))}, None
    measured = _measure(training, methods, whole, parts)
    truth = labels.take(np.concatenate([part.held for part in parts]))
    chosen, choices = _chosen(measured, truth, options, left_out, exclusive=exclusive)
    choices |= _settings([measured[method].setting for method in chosen])
    member = _final(training, chosen, measured, whole, parts)
    answers = measured[chosen[0]].answers if len(chosen) == 1 else _mean(measured, chosen)
    return member, choices if options.method == "auto" else {}, _validation(answers, truth, exclusive=exclusive)


def check_method(method: str, left_out: Mapping[str, str], *, exclusive: bool) -> None:
    """Refuse a method that cannot learn these labels; the work alone is no reason."""
    if method in ONE_CLASS_ONLY and method in left_out and (not exclusive or " x " not in left_out[method]):
        raise ValueError(f"method={method!r} cannot learn this table: {left_out[method]}; use method='auto' or 'blend'")


def _can_decide(parts: list[Holdout], labels: Rows) -> bool:
    """Return whether some row on either side of each part has a label."""
    has_label = np.diff(labels.indptr) > 0
    return bool(parts) and all(has_label[part.kept].any() and has_label[part.held].any() for part in parts)


def _measure(
    training: MemberTraining, methods: list[str], whole: Labelled, parts: list[Holdout]
) -> dict[str, Measured]:
    """Train each method without each part of the hold-out, and let it answer that part."""
    found: dict[str, list[tuple[Member, Setting, HeldAnswers]]] = {method: [] for method in methods}
    groups = training.groups(methods)
    with parts_done(len(groups) * len(parts), f"{len(whole.points):,} rows", training.options.verbose) as on_progress:
        for part in parts:
            train, held = whole.take(part.kept), whole.take(part.held)
            for group in groups:
                for method, (member, setting) in zip(group, training.train(group, train, held), strict=True):
                    found[method].append((member, setting, HeldAnswers.of(member, held.points, training.threads)))
                on_progress(1)
    truth = whole.labels.take(np.concatenate([part.held for part in parts]))
    return {method: _joined(own, truth, exclusive=training.exclusive) for method, own in found.items()}


def _joined(own: list[tuple[Member, Setting, HeldAnswers]], truth: Rows, *, exclusive: bool) -> Measured:
    """Join the parts of one method: the settings are the medians."""
    answers = HeldAnswers.stacked([answers for _, _, answers in own])
    score = answers.exclusive_score(truth) if exclusive else answers.shared_score(truth)
    costs, rounds = ([getattr(setting, name) for _, setting, _ in own] for name in ("cost", "rounds"))
    middle = len(own) // 2
    setting = Setting(
        cost=None if None in costs else sorted(costs)[middle], rounds=None if None in rounds else sorted(rounds)[middle]
    )
    return Measured(own[-1][0], answers, score, setting)


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


def _settings(chosen: Iterable[Setting]) -> dict[str, Decision]:
    """Return the cost and the rounds of the chosen methods as decisions."""
    found = {name: value for each in chosen for name, value in each._asdict().items() if value is not None}
    why = "the least log loss on held-out rows"
    return {name: Decision(value, f"{value:g}: {why}") for name, value in found.items()}


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
    if len(parts) == 1 and len(parts[0].held) < training.options.holdout.retrain_share * len(whole.points):
        members = [measured[method].member for method in chosen]
    else:
        by_method: dict[str, Member] = {}
        for group in training.groups(list(chosen)):
            trained = training.train(group, whole, setting=measured[group[0]].setting)
            by_method |= {method: member for method, (member, _) in zip(group, trained, strict=True)}
        members = [by_method[method] for method in chosen]
    return members[0] if len(members) == 1 else AverageMember((members[0], members[1]))


def _validation(answers: HeldAnswers, truth: Rows, *, exclusive: bool) -> dict[str, float]:
    """Return the accuracy, or the precision of the first label, on the held-out rows."""
    return {"accuracy" if exclusive else "P@1": round(float(answers.hits(truth).mean()), 6)}
