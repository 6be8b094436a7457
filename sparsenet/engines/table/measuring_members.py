"""Measure methods on the hold-out, by models trained without each of its parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sparsenet.core.rows import Rows
from sparsenet.engines.table.held_answers import HeldAnswers
from sparsenet.engines.table.members import Member
from sparsenet.engines.table.table_options import Labelled
from sparsenet.engines.table.training_members import MemberTraining
from sparsenet.kernels.types import F64
from sparsenet.selection.holdout import Holdout


@dataclass(frozen=True, eq=False)
class Measured:
    """A method on the hold-out: its setting, answers, score of each point, and the model of the last part."""

    setting: float | None
    member: Member
    answers: HeldAnswers
    score: F64


def can_decide(parts: list[Holdout], labels: Rows) -> bool:
    """Return whether some row on either side of each part has a label."""
    has_label = np.diff(labels.indptr) > 0
    return bool(parts) and all(has_label[part.kept].any() and has_label[part.held].any() for part in parts)


def measure_steps(
    training: MemberTraining, group: list[str], whole: Labelled, parts: list[Holdout]
) -> Iterator[list[Measured]]:
    """Train a group of methods without each part of the hold-out, and let it answer that part; once per setting."""
    truth = whole.labels.take(np.concatenate([part.held for part in parts]))
    settings, held = training.settings(group), [whole.points.take(part.held) for part in parts]
    paths = [training.path(group, whole.take(part.kept), settings) for part in parts]
    for setting, step in zip(settings, zip(*paths, strict=True), strict=True):
        found = []
        for members in zip(*step, strict=True):  # of one method: a model of each part
            pairs = zip(members, held, strict=True)
            answers = HeldAnswers.stacked([HeldAnswers.of(own, points, training.threads) for own, points in pairs])
            score = answers.exclusive_score(truth) if training.exclusive else answers.shared_score(truth)
            found.append(Measured(setting, members[-1], answers, score))
        yield found
