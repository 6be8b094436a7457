"""Training on raw text: from a file of texts to a saved text model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sparsenet import storage
from sparsenet.cli.reporting import before_saving, count, memory_for, say
from sparsenet.cli.runs import Clock, check_readable, measuring_saved, save
from sparsenet.cli.text_commands import labelled, top_labels
from sparsenet.cli.text_sources import TextSource, read_validation
from sparsenet.core.memory import in_words
from sparsenet.data.errors import quoted
from sparsenet.data.sources import name_of
from sparsenet.estimators.text import TextClassifier
from sparsenet.metrics import precision_at_k

#: Characters that may separate several labels in one cell.
DELIMITERS = ";|,"


def train(
    source: TextSource,
    model_path: Path,
    valid: TextSource | None,
    parameters: Mapping[str, Any],
    cache: Path | None = None,
) -> dict[str, Any]:
    """Train and save a model, and return a summary for people and programs.

    Validation texts are read before training, so that a wrong file fails at once, and are measured after saving.
    """
    check_readable(None if valid is None else valid.path)
    storage.prepare(model_path)
    clock = Clock()
    what = f"training on the texts of {name_of(source.path)}"
    with before_saving(model_path, what):
        held = None if valid is None else read_validation(source, valid)
        model = TextClassifier(**parameters)
        with memory_for(what):
            source.fit(model, cache)
    save(model, model_path)
    _warn_of_labels(model, source)
    summary: dict[str, Any] = {
        "points": model.n_texts_,
        "labels": len(model.classes_),
        "multilabel": model.multilabel_,
        "most_frequent": _most_frequent(model),
        "validation": model.validation_score_,
        "threshold": model.threshold_,
        "search": model.search_,
        **clock.summary(model_path),
    }
    if held is not None:
        with measuring_saved(model_path):
            texts, truth, _ = labelled(model, held)
            ranked, _ = top_labels(model, texts, 1, truth.shape[1], source.batch_rows)
            summary["valid"] = precision_at_k(truth, ranked, 1)
    return summary


def _most_frequent(model: TextClassifier) -> dict[str, Any]:
    """Return the most frequent label and its share, the accuracy of always predicting it."""
    top = int(model.label_counts_.argmax())
    return {"label": str(model.classes_[top]), "share": float(model.label_counts_[top] / model.n_texts_)}


def _warn_of_labels(model: TextClassifier, source: TextSource) -> None:
    """Warn if the labels look like another column, or like several labels in one cell."""
    if source.format == "lines":
        return
    alone, half = model.classes_[model.label_counts_ == 1].tolist(), model.n_texts_ // 2
    n_alone = len(alone)
    if model.multilabel_ and n_alone > half:  # several of these labels may belong to one text
        n_alone = source.n_texts_within(set(alone))
    if model.n_texts_ >= 20 and n_alone > half:  # in fewer texts labels often occur once
        what = "no label that occurs twice" if model.multilabel_ else "a label of their own"
        say(f"warning: {n_alone} of {model.n_texts_} texts have {what}: is --target the right column?")
    if model.multilabel_ or source.label_delimiter is not None:
        return
    known = set(model.classes_.tolist())
    for delimiter in DELIMITERS:
        parts = {label: [part.strip() for part in label.split(delimiter)] for label in known if delimiter in label}
        several = [label for label, own in sorted(parts.items()) if known.issuperset(own) and not _is_decimal(own)]
        if several:
            found = f"found {count(len(several), 'label')} made of other labels, such as {quoted(several[0])}"
            say(f"warning: {found}: if a text may have several labels, add --label-delimiter '{delimiter}'")


def _is_decimal(parts: Sequence[str]) -> bool:
    """Return whether parts look like the two sides of a decimal comma, as in ratings."""
    return len(parts) == 2 and all(part.isdigit() for part in parts)


def describe(summary: Mapping[str, Any]) -> str:
    """Put a summary into words."""
    lines = [
        f"{count(summary['points'], 'text')}, {count(summary['labels'], 'label')}",
        f"{summary['seconds']:.1f} s ({summary['cpu_seconds']:.1f} CPU s, {summary['backend']} kernels)",
    ]
    scores = {"held-out texts": summary["validation"], "--valid texts": summary.get("valid")}
    right = "have a right best label" if summary["multilabel"] else "are right"
    lines += [f"{100 * share:.2f} % of the {whose} {right}" for whose, share in scores.items() if share is not None]
    top = summary["most_frequent"]
    # A large share is a baseline for the fraction of right answers.
    if top["share"] > 0.5 and summary["labels"] > 1:
        lines.append(f"{100 * top['share']:.2f} % of all texts have the label {quoted(top['label'])}")
    return "\n".join([*lines, f"{summary['model']}: {in_words(summary['model_bytes'])}"])
