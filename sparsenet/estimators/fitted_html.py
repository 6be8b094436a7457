"""Show a fitted classifier in notebooks: scikit-learn's diagram, and what was learnt and decided."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from typing import Any

from sklearn import get_config
from sklearn.utils import estimator_html_repr

from sparsenet.core.printing import printable
from sparsenet.selection.choose import Decision


class FittedHtmlMixin:
    """Representations for notebooks; `choices_` and scores are shown below the diagram."""

    def _facts(self: Any) -> Iterator[str]:
        """Yield the size of the training data and the scores on held-out or validation data."""
        n_points = getattr(self, "n_points_", None)
        yield f"{self.n_texts_ if n_points is None else n_points:,} {'texts' if n_points is None else 'points'}"
        if hasattr(self, "n_features_in_"):
            yield f"{self.n_features_in_:,} features"
        yield f"{len(self.classes_):,} labels"
        for name, score in (getattr(self, "validation_", None) or {}).items():
            yield f"{name} {100 * score:.1f} % on validation data"
        if getattr(self, "validation_score_", None) is not None:
            yield f"{100 * self.validation_score_:.1f} % right on held-out texts"

    def _repr_html_inner(self) -> str:
        return str(estimator_html_repr(self)) + fitted_html(self._described())

    def _described(self) -> Any:
        """Return the model whose facts and decisions are shown."""
        return self

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle = {"text/plain": repr(self)}
        if get_config()["display"] == "diagram":
            bundle["text/html"] = self._repr_html_inner()
        return bundle


def fitted_html(model: Any) -> str:
    """Return an HTML fragment about a fitted model; empty before `fit`."""
    if not (hasattr(model, "_fitted") or hasattr(model, "_saved")):
        return ""
    facts = ", ".join(model._facts())
    choices: Mapping[str, Decision] = getattr(model, "choices_", {})
    rows = "".join(_row(name, decision) for name, decision in choices.items())
    head = "".join(f"<th>{title}</th>" for title in ("decision", "value", "why", "gain on held-out points"))
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>" if rows else ""
    return f'<div class="sparsenet-fitted"><p>{_cell(facts)}</p>{table}</div>'


def _row(name: str, decision: Decision) -> str:
    gain = ""
    if decision.gain is not None:
        gain = f"{decision.gain:+.4f}"
        if decision.standard_error is not None:
            gain += f" ± {decision.standard_error:.4f}"
        gain += f" (n = {decision.n:,})"
    cells = (name, decision.value, decision.why, gain)
    return f"<tr>{''.join(f'<td>{_cell(cell)}</td>' for cell in cells)}</tr>"


def _cell(value: Any) -> str:
    return html.escape(printable(str(value)))
