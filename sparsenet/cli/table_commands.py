"""Training, evaluation and prediction of tables with mixed columns on the command line."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from itertools import chain
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from scipy import sparse

from sparsenet import storage
from sparsenet.cli import results, text_commands, usage
from sparsenet.cli.reporting import before_saving, count, memory_for, say
from sparsenet.cli.runs import Clock, check_readable, measuring_saved, save
from sparsenet.core.memory import in_words
from sparsenet.data.dialect import Dialect
from sparsenet.data.errors import quoted
from sparsenet.data.formats import TableFormat, text_format
from sparsenet.data.frames import Frame
from sparsenet.data.sources import name_of, refuse_stdin_twice
from sparsenet.estimators.table import TableClassifier
from sparsenet.estimators.table_input import framed, table_labels
from sparsenet.features.spelling import Spellings
from sparsenet.features.text.table_columns import names_in

FORMATS = ("csv", "tsv", "jsonl", "parquet")


def is_table_file(given: SimpleNamespace) -> bool:
    """Return whether `train` reads a table with mixed columns: its classes are named, and there is no text column."""
    if given.method in ("table", "boosting"):
        return True
    named = text_format(given.data) if given.format == "auto" else given.format
    if named not in FORMATS or given.text or given.target is None or given.header is False:
        return False
    names = names_in(given.data, cast(TableFormat, named), _dialect(given))
    return bool(names) and "text" not in names and not (given.target.isdecimal() and given.target not in names)


def train(given: SimpleNamespace, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Train and save a model, and return a summary for people and programs."""
    refuse_stdin_twice({"TRAIN": given.data, "--valid": given.valid})
    check_readable(given.valid)
    storage.prepare(given.model)
    clock, model = Clock(), TableClassifier(**parameters)
    how = {"target": given.target or "label", "types": given.types, "label_delimiter": given.label_delimiter}
    what = f"training on the table {name_of(given.data)}"
    with before_saving(given.model, what), memory_for(what):
        model.fit(os.fspath(given.data), **how, **_file(given, "format"))
    say(f"columns:\n{model.columns_}")
    save(model, given.model)
    summary: dict[str, Any] = {"points": model.n_points_, "labels": len(model.classes_), "method": model.method_}
    summary |= {"validation": model.validation_, **clock.summary(given.model)}
    if given.valid is not None:
        with measuring_saved(given.model):
            summary["valid"] = float(model.score(_read_valid(given, model)))
    return summary


def describe_training(summary: Mapping[str, Any]) -> str:
    """Put a summary into words."""
    lines = [
        f"{count(summary['points'], 'row')}, {count(summary['labels'], 'label')}",
        f"{summary['seconds']:.1f} s ({summary['cpu_seconds']:.1f} CPU s, {summary['backend']} kernels)",
        f"the model that answers: {summary['method']}",
    ]
    scores = {"held-out rows": next(iter((summary["validation"] or {}).values()), None)}
    scores["--valid rows"] = summary.get("valid")
    lines += [f"{100 * share:.2f} % of the {whose} are right" for whose, share in scores.items() if share is not None]
    return "\n".join([*lines, f"{summary['model']}: {in_words(summary['model_bytes'])}"])


def evaluate(given: SimpleNamespace) -> dict[str, Any]:
    """Measure a model on a file of rows and their classes, compared by their spelling in files."""
    model, started = _load(given), time.perf_counter()
    column = given.target or model.target_
    delimiter = given.label_delimiter or model.fitted_.label_delimiter
    frame = _read(given, "format", model)  # with the classes: the histories of later rows may read them
    if not len(frame):
        raise frame.error("holds no rows, so there is nothing to measure")
    cells = table_labels(frame, None, column or "label", delimiter)[1]
    truth, names = _truth(model, cells)
    k = min(max(*given.k, results.RECALL_AT), len(model.classes_))
    ranked = [labels for labels, _ in _answers(model, frame, k, given.batch_size)]
    pad = ((0, 0), (0, truth.shape[1] - k))
    best = np.pad(np.concatenate([*ranked, np.empty((0, k), np.int32)]), pad, constant_values=-1)
    scores = results.score_rankings(truth, best, given.k, model, given.propensity)
    if (np.diff(truth.indptr) == 1).all():
        scores["accuracy"] = float(np.mean(best[:, 0] == truth.indices))
        scores |= text_commands.f1_scores(truth, best[:, 0], np.arange(len(frame) + 1), names)
    about = {"known_labels": len(model.classes_), "points": len(frame)}
    return {**scores, **about, "seconds": time.perf_counter() - started}


def _truth(model: TableClassifier, cells: Any) -> tuple[Any, list[str]]:
    """Return the true classes as columns of the model, and the names of all columns; new classes come last."""
    rows = [own if isinstance(own, list | tuple | np.ndarray) else [own] for own in list(cells)]
    classes = model.classes_.tolist()
    spellings, new, names = Spellings(classes), dict[Any, int](), [str(label) for label in classes]
    flat = np.empty(sum(map(len, rows)), np.int64)
    for place, label in enumerate(chain.from_iterable(rows)):
        number = spellings.number(label)
        if number is None:
            number = new.setdefault(label, len(names))
            names += [str(label)] * (number == len(names))
        flat[place] = number
    indptr = np.concatenate(([0], np.cumsum([len(own) for own in rows], dtype=np.int64)))
    truth = sparse.csr_array((np.ones(len(flat), np.float32), flat, indptr), shape=(len(rows), len(names)))
    truth.sum_duplicates()
    truth.data.fill(1)
    return truth, names


def predict(given: SimpleNamespace) -> Iterator[str]:
    """Yield the answers of one batch of rows after another."""
    model = _load(given)
    if given.threshold == "learnt":
        usage.refuse("threshold", "a model of a table has learnt no threshold: pass a number")
    frame, k = _read(given, "input_format", model), min(given.k, len(model.classes_))
    for labels, p in _answers(model, frame, k, given.batch_size):
        counts = (p >= float(given.threshold)).sum(axis=1)  # best first, so these are the first ones
        rows = zip(model.classes_[labels].tolist(), p.tolist(), counts.tolist(), strict=True)
        yield "".join(results.answer_line(given.format, own[:n], likely[:n]) for own, likely, n in rows)


def _answers(model: TableClassifier, frame: Frame, k: int, batch: int) -> Iterator[tuple[Any, Any]]:
    """Yield the best labels and their probabilities by batch; rows that look back on others are answered together."""
    step = batch if model.fitted_.encoder.history is None else max(len(frame), 1)
    for begin in range(0, len(frame), step):
        yield model.topk_numbers(frame.take(np.arange(begin, min(begin + step, len(frame)))), k)


def about(model: TableClassifier) -> dict[str, Any]:
    """Return what `sparsenet info` shows about a model."""
    encoder = model.fitted_.encoder
    return {
        "features": encoder.n_features,
        "points": model.n_points_,
        "target": model.target_,
        "table": model.columns_,
        "validation": model.validation_,
        "chosen": {"method": model.method_},
    }


def describe_model(found: Mapping[str, Any]) -> str:
    """Lay out a report of a model for people."""
    held_out = "  ".join(f"{name} {100 * value:.2f}" for name, value in (found["validation"] or {}).items())
    lines = {
        "model": f"{found['model']}: {found['kind']}, {in_words(found['bytes'])}",
        "classes": str(found["labels"]) + (f", in {quoted(found['target'])}" if found["target"] else ""),
        "trained on": count(found["points"], "row"),
        "held out": held_out,
        "answers by": found["chosen"]["method"],
    }
    rows = [(name, value) for name, value in lines.items() if value]
    rows += [("decided", f"{name}: {own['why']}") for name, own in found["choices"].items()]
    return "\n".join([*(f"{name:<11} {value}" for name, value in rows), "", found["table"]])


def _load(given: SimpleNamespace) -> TableClassifier:
    model: TableClassifier = TableClassifier.load(given.model).set_params(n_jobs=given.threads)
    return model


def _read(given: SimpleNamespace, format_option: str, model: TableClassifier) -> Frame:
    """Read a table like the training file, apart from given options."""
    how: dict[str, Any] = {"format": getattr(given, format_option), "dialect": _dialect(given)}
    return framed(os.fspath(given.data), **how, learnt=model.fitted_.file)


def _read_valid(given: SimpleNamespace, model: TableClassifier) -> Frame:
    """Read a validation table like the training file, unless its name says that it has another format."""
    format = "auto" if text_format(given.valid) else given.format
    return framed(os.fspath(given.valid), format=format, learnt=model.fitted_.file)


def _file(given: SimpleNamespace, format_option: str) -> dict[str, Any]:
    """Return how to read a file, as arguments of `fit`."""
    return {"format": getattr(given, format_option), **{name: getattr(given, name) for name in usage.ROWS_OF_NUMBERS}}


def _dialect(given: SimpleNamespace) -> Dialect:
    return Dialect(**{name: getattr(given, name) for name in usage.ROWS_OF_NUMBERS})
