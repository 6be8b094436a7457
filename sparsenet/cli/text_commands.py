"""Evaluation, prediction and compression of text models."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from sparsenet import metrics, storage
from sparsenet.cli import results
from sparsenet.cli.reporting import SkippedLines, before_saving, count, say
from sparsenet.cli.results import answer_line
from sparsenet.cli.runs import save
from sparsenet.cli.text_sources import TextSource, in_batches
from sparsenet.core.machine import default_threads
from sparsenet.data.errors import quoted
from sparsenet.engines.text.compression import Compression
from sparsenet.estimators.text import TextClassifier
from sparsenet.features.text import table_columns
from sparsenet.features.text.text_files import TextFile
from sparsenet.kernels.types import F32, I32, I64


class LabelledTexts(NamedTuple):
    """Texts, a row of true labels for each, and the names of the label columns."""

    texts: list[str]
    truth: Any
    names: list[str]


def labelled(model: TextClassifier, found: TextFile) -> LabelledTexts:
    """Return labelled texts with the labels as columns of the model, compared by their spelling in files.

    Labels that training has never seen get columns of their own at the end.
    """
    found.check()
    if not model.multilabel_:
        found.check_each()
    position = {str(label): number for number, label in enumerate(model.classes_.tolist())}
    flat = np.array([position.setdefault(label, len(position)) for own in found.labels for label in own], np.int64)
    indptr = np.concatenate(([0], np.cumsum([len(own) for own in found.labels])))
    truth = sparse.csr_array((np.ones(len(flat), np.float32), flat, indptr), shape=(len(found.texts), len(position)))
    truth.sort_indices()
    return LabelledTexts(found.texts, truth, list(position))


def top_labels(model: TextClassifier, texts: list[str], k: int, width: int, batch_rows: int) -> tuple[I32, F32]:
    """Return the best labels of texts and their probabilities, scored in batches.

    Rankings are padded with -1 for labels that the model does not know, so that they are as wide as all `width` labels.
    """
    k = min(k, len(model.classes_))
    best = [model.predict_topk(batch, k) for batch in in_batches(texts, batch_rows)]
    ranked = np.concatenate([own.indices for own in best]).reshape(-1, k).astype(np.int32)
    probabilities = np.concatenate([own.data for own in best]).reshape(-1, k)
    return np.pad(ranked, ((0, 0), (0, width - len(model.classes_))), constant_values=-1), probabilities


def evaluate(source: TextSource, given: SimpleNamespace) -> dict[str, Any]:
    """Measure a model on a file of labelled texts."""
    model = TextClassifier.load(given.model).set_params(n_jobs=given.threads)
    started, ks = time.perf_counter(), given.k
    texts, truth, names = labelled(model, source.read())
    ranked, probabilities = top_labels(model, texts, max(*ks, results.RECALL_AT), len(names), source.batch_rows)
    if given.plot is not None:
        results.draw(given.plot, truth, ranked, probabilities, names)
    scores = results.score_rankings(truth, ranked, ks, model, given.propensity)
    if model.threshold_ is not None:
        threads = given.threads or default_threads()
        likely = [model.fitted_.answers.likely(batch, None, threads) for batch in in_batches(texts, source.batch_rows)]
        chosen = np.concatenate([labels for labels, _ in likely])
        counts = np.concatenate([np.diff(indptr) for _, indptr in likely])
        scores |= f1_scores(truth, chosen, np.append(0, np.cumsum(counts)), names)
    else:
        scores |= f1_scores(truth, ranked[:, 0], np.arange(len(texts) + 1), names)
        scores["accuracy"] = scores["P@1"] if 1 in ks else metrics.precision_at_k(truth, ranked, 1)
        scores |= {f"in_best@{k}": k * scores[f"P@{k}"] for k in ks}
    n_without = int(np.count_nonzero(np.diff(truth.indptr) == 0))
    if n_without:
        bound = f"P@1 over all texts is at most {100 * (1 - n_without / len(texts)):.2f}"
        say(f"{n_without} of {count(len(texts), 'text')} have no label: {bound}")
    about = {"known_labels": len(model.classes_), "points": len(texts), "without_label": n_without}
    return {**scores, **about, "seconds": time.perf_counter() - started}


def describe(scores: Mapping[str, Any], max_shown: int = 20) -> str:
    """Lay out scores; if each text has one label, show how often it is first or among the best.

    The `max_shown` labels with the most texts get a line each.
    """
    lines = [results.describe(scores, "text")]
    if "accuracy" in scores:
        shown = {"accuracy": scores["accuracy"], "macro F1": scores["macro_f1"]}
        ranks = {int(name.removeprefix("in_best@")): name for name in scores if name.startswith("in_best@")}
        shown |= {f"in best {k}": scores[name] for k, name in ranks.items() if 1 < k < scores["known_labels"]}
        lines = [f"{words:<11}{100 * value:6.2f}" for words, value in shown.items()]
        lines.append(f"{count(scores['points'], 'text')} in {scores['seconds']:.2f} s")
    if "by_label" not in scores:
        lines.append(f"{count(scores['labels'], 'label')}, too many for a table of each")
        return "\n".join(lines)
    by_label = sorted(scores["by_label"], key=lambda own: (-own["texts"], own["f1"]))
    lines.append("\nprecision  recall      F1    texts  label")
    for own in by_label[:max_shown]:
        precision, recall, f1 = (f"{100 * own[name]:.2f}" for name in ("precision", "recall", "f1"))
        label = own["label"].translate(results.ESCAPES)
        lines.append(f"{precision:>9}  {recall:>6}  {f1:>6}  {own['texts']:7,}  {label}")
    if len(by_label) > max_shown:
        lines.append(f"and {count(len(by_label) - max_shown, 'label')} more with no more texts: see --json")
    return "\n".join(lines)


def f1_scores(truth: Any, chosen: I32, indptr: I64, names: Sequence[str], max_labels: int = 1000) -> dict[str, Any]:
    """Return F1 scores of the labels chosen for each text, and of each label if there are at most `max_labels`.

    Macro F1 averages over labels that are true or chosen.
    """
    found = sparse.csr_array((np.ones(len(chosen), np.float32), chosen, indptr), shape=truth.shape)
    seen = np.union1d(truth.indices, found.indices)
    scores: dict[str, Any] = {
        "micro_f1": metrics.micro_f1(truth, found),
        "macro_f1": metrics.macro_f1(truth[:, seen], found[:, seen]),
        "labels": len(seen),
    }
    if len(seen) <= max_labels:
        tables = (truth.multiply(found), truth, found)
        right, there, named = (np.bincount(some.tocsr().indices, minlength=len(names)) for some in tables)
        scores["by_label"] = [
            {
                "label": names[i],
                "precision": float(right[i] / max(named[i], 1)),
                "recall": float(right[i] / max(there[i], 1)),
                "f1": float(2 * right[i] / (there[i] + named[i])),
                "texts": int(there[i]),
            }
            for i in seen.tolist()
        ]
    return scores


def predict(source: TextSource, given: SimpleNamespace) -> Iterator[str]:
    """Yield the answers of one batch of texts after another."""
    model = TextClassifier.load(given.model).set_params(n_jobs=given.threads)
    if given.threshold == "learnt" and model.threshold_ is None:
        problem = "has learnt no threshold for --threshold learnt, since its texts have one label each"
        raise ValueError(f"{given.model} {problem}")
    threshold = model.threshold_ if given.threshold == "learnt" else float(given.threshold)
    skipped = SkippedLines()
    for number, texts in enumerate(source.batches(skipped.add)):
        known = model.columns_ if number == 0 and source.format == "lines" else None
        if texts and known is not None and table_columns.is_row_of(texts[0], known):
            say(
                f"warning: line 1 of the texts, {quoted(texts[0])}, names a column that the model learnt from: if "
                "this is a table, add --input-format csv, tsv or jsonl"
            )
        names, probabilities = model.topk(texts, given.k)
        counts = (probabilities >= threshold).sum(axis=1)  # best first, so these are the first ones
        rows = zip(names.tolist(), probabilities.tolist(), counts.tolist(), strict=True)
        yield "".join(answer_line(given.format, own[:n], p[:n]) for own, p, n in rows)
    skipped.report(source.path, "blank lines of a table are not rows")


def compress(given: SimpleNamespace, source: TextSource | None, output: Path) -> Compression:
    """Save a smaller model, and return its size and the loss of accuracy."""
    storage.prepare(output)
    with before_saving(output, f"compressing {given.model}"):
        model: TextClassifier = TextClassifier.load(given.model).set_params(n_jobs=given.threads)
        texts, labels = None, None
        if source is not None:
            texts, truth, _ = labelled(model, source.read())
            results.count_unknown(truth, model.label_counts_)
            labels = _as_learnt(model, truth)
        report = model.compress(given.max_bytes, texts, labels)
    save(model, output)
    return report


def _as_learnt(model: TextClassifier, truth: Any) -> Any:
    """Return labels in a form that the model takes, without unknown labels."""
    target, known = model.fitted_.target, truth[:, : len(model.classes_)]
    kind = {"single": "lists", "dense": "sparse"}.get(target.kind, target.kind)
    return replace(target, kind=kind).decode(known.indices, known.indptr)
