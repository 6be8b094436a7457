"""Explain a score: the contribution of each word and character n-gram of a text."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet import kernels
from sparsenet.core.printing import printable
from sparsenet.engines.linear.linear_model import both_classes
from sparsenet.engines.text.fit_text import FittedText
from sparsenet.engines.text.text_blend import BlendModel
from sparsenet.features.text.featuriser import extract
from sparsenet.features.text.occurrences import FeatureOccurrence, occurrences


@dataclass(frozen=True)
class Part:
    """The contribution of a feature to a score, summed over its occurrences.

    Attributes
    ----------
    name : str
        A word n-gram, or ``~`` and a character n-gram. ``^`` and ``$`` mark the start and the end of the text or word.
    score : float
    spans : list of (int, int)
        Start and end of each occurrence in the text.
    """

    name: str
    score: float
    spans: list[tuple[int, int]]


@dataclass(frozen=True)
class Explanation:
    """The parts of the score of a text for a label.

    Attributes
    ----------
    text : str
    label : object
    score, probability : float
        The sum of `bias` and the scores of all `parts`, and the probability of that score.
    bias : float
        The same for every text. A blend is no sum over words: each part is the fall of the score without it, and `bias`
        is the rest of the score.
    parts : list of Part
        Ordered by absolute score, largest first.
    """

    text: str
    label: Any
    score: float
    probability: float
    bias: float
    parts: list[Part]
    bias_name: str = "(bias of every text)"

    def characters(self) -> NDArray[np.float64]:
        """Spread each part's score over the characters it covers, (len(text),); the sum is ``score - bias``."""
        scores = np.zeros(len(self.text))
        for part in self.parts:
            for begin, end in part.spans:
                scores[begin:end] += part.score / len(part.spans) / (end - begin)
        return scores

    def __str__(self) -> str:
        r"""Return a table of the largest parts, for a terminal; control characters are shown as ``\xNN``."""
        # Names of parts need no escapes: control characters end words.
        return "\n".join([self._head(), *(f"  {score:+.3f}  {name}" for name, score in self._table())])

    def terminal(self) -> str:
        r"""Return the text with ANSI colours: a green background for the label, a red one against it.

        Control characters other than newlines and tabs are shown as ``\xNN``, so that they cannot control the terminal.
        """
        runs = ((printable(piece, lines=True), weight, strong) for piece, weight, strong in self._runs())
        return "".join(
            f"\x1b[38;5;15;48;5;{22 if weight > 0 else 88}m{piece}\x1b[0m" if strong > 0.15 else piece
            for piece, weight, strong in runs
        )

    def to_html(self) -> str:
        """Return an HTML fragment: the text, each character coloured by its contribution, and a table.

        Control characters are shown as in `terminal`: HTML does not allow them.
        """
        spans = "".join(
            f'<span style="background:rgba({"0,160,60" if weight > 0 else "220,50,40"},{0.75 * strong:.2f})" '
            f'title="{weight:+.3f}">{html.escape(printable(piece, lines=True))}</span>'
            for piece, weight, strong in self._runs()
        )
        rows = "".join(f"<tr><td>{html.escape(name)}</td><td>{score:+.3f}</td></tr>" for name, score in self._table())
        head = html.escape(self._head())
        return f'<div class="sparsenet-explanation"><p><b>{head}</b></p><p>{spans}</p><table>{rows}</table></div>'

    def _head(self) -> str:
        return f"{printable(str(self.label))}: {self.score:+.3f} (probability {self.probability:.3f})"

    def _repr_html_(self) -> str:
        return self.to_html()

    def _table(self, max_parts: int = 20) -> Iterator[tuple[str, float]]:
        """Yield the summands of the score: the largest parts, the sum of all others, and the bias."""
        shown = [
            part for part in self.parts[:max_parts] if abs(part.score) >= 0.0005
        ]  # smaller ones would read as 0.000
        yield from ((part.name, part.score) for part in shown)
        others = self.parts[len(shown) :]
        if others:
            yield f"{len(others)} more", sum(part.score for part in others)
        yield self.bias_name, self.bias

    def _runs(self) -> Iterator[tuple[str, float, float]]:
        """Yield runs of characters of equal weight, the weight, and its size relative to the largest."""
        weights = self.characters()
        largest = np.abs(weights).max(initial=0) or 1.0
        edges = [0, *(np.flatnonzero(np.diff(weights)) + 1).tolist(), len(weights)]
        for begin, end in pairwise(edges):
            if begin < end:
                yield self.text[begin:end], float(weights[begin]), float(abs(weights[begin]) / largest)


def explain(fitted: FittedText, text: str, label: Any = None, threads: int = 1) -> Explanation:
    """Explain the score of a text for a label, by default the best one."""
    answers, text = fitted.answers, text.encode("utf-8", "replace").decode()
    words, n_labels = fitted.vocabulary, len(fitted.target.classes)
    point = words.points(extract(*kernels.join_texts([text]), words.rules, 1), 1)
    scores = both_classes(np.atleast_2d(answers.scores([text], threads)).reshape(1, -1), n_labels)[0]
    position = int(scores.argmax()) if label is None else _position_of(label, fitted.target.classes)
    contributions, bias = answers.contributions(point, position)
    by_slot: dict[int, list[FeatureOccurrence]] = {}
    for occurrence in occurrences(text, words.rules):
        by_slot.setdefault(occurrence.slot, []).append(occurrence)
    slots = words.slots[point.indices].tolist()
    parts = [_part(by_slot[slot], score) for slot, score in zip(slots, contributions.tolist(), strict=True)]
    parts.sort(key=lambda part: -abs(part.score))
    probability = float(answers.probabilities([text], threads)[0, position])
    (name,) = fitted.target.classes[[position]].tolist()
    rest = "(rest of the score)" if isinstance(fitted.model, BlendModel) else Explanation.bias_name
    return Explanation(text, name, float(scores[position]), probability, bias, parts, rest)


def _position_of(label: Any, classes: NDArray[Any]) -> int:
    found = np.flatnonzero(classes == label)
    if len(found) == 0:
        given = label.item() if isinstance(label, np.generic) else label
        raise ValueError(f"label must be one of the {len(classes)} in classes_, got {given!r}")
    return int(found[0])


def _part(same: list[FeatureOccurrence], score: float) -> Part:
    names = list(dict.fromkeys(one.name for one in same))  # several names if features share a slot
    return Part(" | ".join(names), score, [(one.begin, one.end) for one in same])
