"""The explanation of a label's score for one point: what each feature and each near training point adds."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparsenet.core.printing import printable

#: Smaller scores would read as 0.000.
_SMALLEST = 0.0005


@dataclass(frozen=True)
class FeatureEffect:
    """The contribution of a feature to a score.

    Attributes
    ----------
    name : str
        The name of the column, or its number.
    column : int
    value : float
        The value of the point, as given.
    score : float
    """

    name: str
    column: int
    value: float
    score: float


@dataclass(frozen=True)
class Voter:
    """A near training point that has the label.

    Attributes
    ----------
    row : int
        The row of X in training.
    share : float
        Its share of the votes of all neighbors.
    """

    row: int
    share: float


@dataclass(frozen=True)
class PointExplanation:
    """The parts of the score of a point for a label: ``score`` is their sum.

    Attributes
    ----------
    label : object
    score, probability : float
        The score, in log-odds for networks and trees, and the label's probability by itself.
    bias : float
        The score of a point without features; of a table, a point of mean values.
    parts : list of FeatureEffect
        Ordered by absolute score, largest first.
    neighbors_score : float or None
        The contribution of the near training points of a blend.
    neighbors : list of Voter
        Those that have the label, nearest first.
    """

    label: Any
    score: float
    probability: float
    bias: float
    parts: list[FeatureEffect]
    neighbors_score: float | None = None
    neighbors: list[Voter] = field(default_factory=list)

    def __str__(self) -> str:
        r"""Return a table of the largest parts, for a terminal; control characters are shown as ``\xNN``."""
        lines = [f"  {score:+.3f}  {printable(name)}" for name, score in self._table()]
        return "\n".join([self._head(), *lines])

    def to_html(self) -> str:
        """Return an HTML fragment: a table of the largest parts, green for the label and red against it."""
        return effects_html(self._head(), list(self._table()))

    def _repr_html_(self) -> str:
        return self.to_html()

    def _head(self) -> str:
        return f"{printable(str(self.label))}: {self.score:+.3f} (probability {self.probability:.3f})"

    def _table(self, max_parts: int = 20, max_rows: int = 5) -> Iterator[tuple[str, float]]:
        """Yield the summands of the score: the largest parts, the sum of the others, neighbors and the bias."""
        shown = [part for part in self.parts[:max_parts] if abs(part.score) >= _SMALLEST]
        yield from ((f"{part.name} = {part.value:g}", part.score) for part in shown)
        others = self.parts[len(shown) :]
        if others:
            yield f"{len(others)} more", sum(part.score for part in others)
        if self.neighbors_score is not None:
            rows = ", ".join(f"{voter.row} ({voter.share:.0%})" for voter in self.neighbors[:max_rows])
            more = f" and {len(self.neighbors) - max_rows} more" if len(self.neighbors) > max_rows else ""
            yield (
                f"(near training points: rows {rows}{more})" if rows else "(no near training point has it)",
                (self.neighbors_score),
            )
        yield "(bias of every point)", self.bias


def effects_html(head: str, effects: Sequence[tuple[str, float]]) -> str:
    """Return an HTML table of names and scores, green for positive scores and red for negative ones."""
    largest = max((abs(score) for _, score in effects), default=0.0) or 1.0
    rows = []
    for name, score in effects:
        colour = f"rgba({'0,160,60' if score > 0 else '220,50,40'},{0.75 * abs(score) / largest:.2f})"
        cells = f"<td>{html.escape(printable(name))}</td><td style='background:{colour}'>{score:+.3f}</td>"
        rows.append(f"<tr>{cells}</tr>")
    title = f"<p><b>{html.escape(head)}</b></p>"
    return f'<div class="sparsenet-explanation">{title}<table>{"".join(rows)}</table></div>'
