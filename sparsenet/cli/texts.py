"""What the commands do with raw texts: train, evaluate and predict, from files to files."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sparsenet import kernels, metrics, storage
from sparsenet.cli import commands, runs
from sparsenet.cli.reporting import SkippedLines, memory_for, say
from sparsenet.cli.text_sources import TextSource, in_batches, validation
from sparsenet.core.memory import in_words
from sparsenet.data.errors import quoted
from sparsenet.data.sources import name_of
from sparsenet.engines.text.compression import Compression
from sparsenet.estimators.text import TextClassifier
from sparsenet.features.text import table_columns
from sparsenet.features.text.text_files import TextFile

#: Where a label has a larger share of the texts, that of right answers is to be read beside it.
MUCH = 0.5
#: Of fewer texts, labels of their own say nothing about the columns.
FEW_TEXTS = 20
#: What may separate several labels of a text in a column.
DELIMITERS = ";|,"
#: So many labels are measured each by itself, and the most frequent of them shown to people.
MOST_BY_LABEL, MOST_SHOWN = 1000, 20


def train(source: TextSource, model_path: Path, valid: Path | None, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Train, save, and return a summary for people and programs."""
    storage.prepare(model_path)
    started, cpu_started = time.perf_counter(), time.process_time()
    held = validation(source, valid)
    model = TextClassifier(**parameters)
    try:
        with memory_for(f"training on the texts of {name_of(source.path)}"):
            source.fit(model)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(runs.nothing_saved(model_path)) from None
    runs.save(model, model_path)
    _warn_of_labels(model, source)
    summary: dict[str, Any] = {
        "points": model.n_texts_,
        "labels": len(model.classes_),
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - cpu_started,
        "multilabel": model.multilabel_,
        "most_frequent": _most_frequent(model),
        "validation": model.validation_score_,
        "threshold": model.threshold_,
        "search": model.search_,
        "model": str(model_path),
        "model_bytes": sum(file.stat().st_size for file in model_path.iterdir()),
        "backend": kernels.backend(),
        "interrupted": False,
    }
    if held is not None:
        try:
            summary["valid"] = evaluate(model_path, held, [1], threads=parameters.get("n_jobs"))["P@1"]
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"the model {model_path} is saved, and was not measured") from None
    return summary


def _most_frequent(model: TextClassifier) -> dict[str, Any]:
    """Return the label that most texts have, and their share, which is how often it alone would be right."""
    most = int(model.label_counts_.argmax())
    return {"label": str(model.classes_[most]), "share": float(model.label_counts_[most] / model.n_texts_)}


def _warn_of_labels(model: TextClassifier, source: TextSource) -> None:
    """Say what looks as if the labels were read in another way than was meant."""
    if source.is_of_lines:
        return
    alone, half = model.classes_[model.label_counts_ == 1].tolist(), model.n_texts_ // 2
    n_alone = len(alone)
    if model.multilabel_ and n_alone > half:  # there are no more such texts than such labels
        n_alone = source.n_texts_within(set(alone))
    if model.n_texts_ >= FEW_TEXTS and n_alone > half:
        what = "no label that another has" if model.multilabel_ else "a label of their own"
        say(f"warning: {n_alone} of {model.n_texts_} texts have {what}: is --target the right column?")
    if model.multilabel_ or source.label_delimiter is not None:
        return
    known = set(model.classes_.tolist())
    for delimiter in DELIMITERS:
        parts = {label: [part.strip() for part in label.split(delimiter)] for label in known if delimiter in label}
        several = [label for label, own in sorted(parts.items()) if known.issuperset(own) and not _is_decimal(own)]
        if several:
            say(
                f"warning: {commands.count(len(several), 'label')}, such as {quoted(several[0])}, made of others: if "
                f"these are several labels of a text, say --label-delimiter '{delimiter}'"
            )


def _is_decimal(parts: Sequence[str]) -> bool:
    """Tell whether these may be the two sides of a decimal comma, as in ratings."""
    return len(parts) == 2 and all(part.isdigit() for part in parts)


def describe_training(summary: Mapping[str, Any]) -> str:
    """Put a summary into words."""
    lines = [
        f"{commands.count(summary['points'], 'text')}, {commands.count(summary['labels'], 'label')}",
        f"{summary['seconds']:.1f} s ({summary['cpu_seconds']:.1f} CPU s, {summary['backend']} kernels)",
    ]
    measured = {"of the texts held out": summary["validation"], "of the --valid texts": summary.get("valid")}
    right = "have the best label" if summary["multilabel"] else "right"
    lines += [f"{100 * share:.2f} % {whose} {right}" for whose, share in measured.items() if share is not None]
    most = summary["most_frequent"]
    if most["share"] > MUCH and summary["labels"] > 1:
        lines.append(f"{100 * most['share']:.2f} % of all texts have the label {quoted(most['label'])}")
    return "\n".join([*lines, f"{summary['model']}: {in_words(summary['model_bytes'])}"])


class Labelled(NamedTuple):
    """Texts to measure a model on, their labels, a row each, and what the columns of these are called."""

    texts: list[str]
    truth: Any
    names: list[str]


def _labelled(model: TextClassifier, source: TextSource | TextFile) -> Labelled:
    """Read labelled texts. Labels of files are strings: those of the model are known by what they look like as such.

    A label that was never seen in training has a column of its own, behind the others.
    """
    found = source if isinstance(source, TextFile) else source.read()
    found.check()
    if not model.multilabel_:
        found.check_each()
    position = {str(label): number for number, label in enumerate(model.classes_.tolist())}
    flat = np.array([position.setdefault(label, len(position)) for own in found.labels for label in own], np.int64)
    indptr = np.concatenate(([0], np.cumsum([len(own) for own in found.labels])))
    truth = sparse.csr_array((np.ones(len(flat), np.float32), flat, indptr), shape=(len(found.texts), len(position)))
    truth.sort_indices()
    return Labelled(found.texts, truth, list(position))


def evaluate(
    model_path: Path,
    source: TextSource | TextFile,
    ks: Sequence[int],
    *,
    threads: int | None,
    plot: Path | None = None,
    propensity: tuple[float, float] = commands.PROPENSITY,
) -> dict[str, Any]:
    """Measure a model on a file, or on what was read of one."""
    model = TextClassifier.load(model_path).set_params(n_jobs=threads)
    started = time.perf_counter()
    texts, truth, names = _labelled(model, source)
    k = min(max(*ks, commands.RECALL_AT), len(model.classes_))
    batches = [*in_batches(texts, source.batch_rows if isinstance(source, TextSource) else TextSource.batch_rows)]
    best = [model.predict_topk(batch, k) for batch in batches]
    ranked = np.concatenate([own.indices for own in best]).reshape(-1, k).astype(np.int32)
    if plot is not None:
        commands.draw(plot, truth, ranked, np.concatenate([own.data for own in best]).reshape(-1, k), names)
    # Labels that no model of these classes can name take places too, or one would be told to predict more of them.
    ranked = np.pad(ranked, ((0, 0), (0, len(names) - len(model.classes_))), constant_values=-1)
    scores = commands.measured(truth, ranked, ks, model.label_counts_, model.n_texts_, propensity=propensity)
    if model.threshold_ is not None:
        above = [model._fitted.answers.above(batch, None, model._threads()) for batch in batches]
        chosen = np.concatenate([labels for labels, _ in above])
        counts = np.concatenate([np.diff(indptr) for _, indptr in above])
        scores |= decisions(truth, chosen, np.append(0, np.cumsum(counts)), names)
    else:
        scores |= decisions(truth, ranked[:, 0], np.arange(len(texts) + 1), names)
        scores["accuracy"] = scores["P@1"] if 1 in ks else metrics.precision_at_k(truth, ranked, 1)
        scores |= {f"in_best@{k}": k * scores[f"P@{k}"] for k in ks}
    n_without = int(np.count_nonzero(np.diff(truth.indptr) == 0))
    if n_without:
        said = f"{n_without} of {commands.count(len(texts), 'text')} have no label: P@1 of all is at most"
        say(f"{said} {100 * (1 - n_without / len(texts)):.2f}")
    about = {"known_labels": len(model.classes_), "points": len(texts), "without_label": n_without}
    return {**scores, **about, "seconds": time.perf_counter() - started}


def describe_scores(scores: Mapping[str, Any]) -> str:
    """Lay scores out for reading: of texts with one label each, how often that is first, or among the best."""
    lines = [commands.describe_scores(scores, "text")]
    if "accuracy" in scores:
        shown = {"accuracy": scores["accuracy"], "macro F1": scores["macro_f1"]}
        ranks = {int(name.removeprefix("in_best@")): name for name in scores if name.startswith("in_best@")}
        shown |= {f"in best {k}": scores[name] for k, name in ranks.items() if 1 < k < scores["known_labels"]}
        lines = [f"{words:<11}{100 * value:6.2f}" for words, value in shown.items()]
        lines.append(f"{commands.count(scores['points'], 'text')} in {scores['seconds']:.2f} s")
    if "by_label" not in scores:
        lines.append(f"{commands.count(scores['labels'], 'label')}, too many for a table of each")
    else:
        by_label = sorted(scores["by_label"], key=lambda own: (-own["texts"], own["f1"]))
        lines.append("\nprecision  recall      F1    texts  label")
        for own in by_label[:MOST_SHOWN]:
            precision, recall, f1 = (f"{100 * own[name]:.2f}" for name in ("precision", "recall", "f1"))
            label = own["label"].translate(commands.ESCAPES)
            lines.append(f"{precision:>9}  {recall:>6}  {f1:>6}  {own['texts']:7,}  {label}")
        if len(by_label) > MOST_SHOWN:
            lines.append(
                f"and {commands.count(len(by_label) - MOST_SHOWN, 'label')} more, of no more texts: see --json"
            )
    return "\n".join(lines)


def decisions(truth: Any, chosen: NDArray[np.int32], indptr: NDArray[np.int64], names: Sequence[str]) -> dict[str, Any]:
    """Return F1 scores of the labels chosen for each text; the macro F1 is of all that are true or chosen."""
    found = sparse.csr_array((np.ones(len(chosen), np.float32), chosen, indptr), shape=truth.shape)
    seen = np.union1d(truth.indices, found.indices)
    scores: dict[str, Any] = {
        "micro_f1": metrics.micro_f1(truth, found),
        "macro_f1": metrics.macro_f1(truth[:, seen], found[:, seen]),
        "labels": len(seen),
    }
    if len(seen) <= MOST_BY_LABEL:
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


def compress(
    model_path: Path, max_bytes: str, source: TextSource | None, output: Path, *, threads: int | None
) -> Compression:
    """Save a smaller model, and return what that took and cost."""
    storage.prepare(output)
    model = TextClassifier.load(model_path)
    jobs = model.n_jobs
    model.set_params(n_jobs=threads)
    texts, labels = None, None
    if source is not None:
        found = _labelled(model, source)
        commands.count_unknown(found.truth, model.label_counts_)
        texts, labels = found.texts, _as_learnt(model, found.truth)
    report = model.compress(max_bytes, texts, labels)
    model.set_params(n_jobs=jobs).save(output)
    return report


def _as_learnt(model: TextClassifier, truth: Any) -> Any:
    """Return labels in a form that the model takes, maybe none of a text: those unknown to it can only be missed."""
    target, known = model._fitted.target, truth[:, : len(model.classes_)]
    kind = {"single": "lists", "dense": "sparse"}.get(target.kind, target.kind)
    return replace(target, kind=kind).decode(known.indices, known.indptr)


def _learnt_threshold(model: TextClassifier, model_path: Path) -> float:
    if model.threshold_ is None:
        raise ValueError(
            f"{model_path} has learnt no threshold for --threshold learnt: of its texts each has one label, the best"
        )
    return model.threshold_


def predict(
    model_path: Path, source: TextSource, k: int, format: str, *, threads: int | None, threshold: str = "0"
) -> Iterator[str]:
    """Yield the lines of a batch of texts after the other, without labels less probable than a threshold."""
    model = TextClassifier.load(model_path).set_params(n_jobs=threads)
    least = _learnt_threshold(model, model_path) if threshold == "learnt" else float(threshold)
    line = commands.as_jsonl if format == "jsonl" else commands.as_tsv
    skipped = SkippedLines()
    for number, texts in enumerate(source.batches(skipped.add)):
        known = model.columns_ if number == 0 and source.is_of_lines else None
        if texts and known is not None and table_columns.is_row_of(texts[0], known):
            say(
                f"warning: line 1 of the texts, {quoted(texts[0])}, names a column that the model learnt from: if "
                "this is a table, say so by --input-format csv, tsv or jsonl"
            )
        names, probabilities = model.topk(texts, k)
        counts = (probabilities >= least).sum(axis=1)  # best first, so these are the first ones
        rows = zip(names.tolist(), probabilities.tolist(), counts.tolist(), strict=True)
        yield "".join(line(own[:n], p[:n]) for own, p, n in rows)
    skipped.tell(source.path, "blank lines of a table are no rows")
