"""Models of streams of events on the command line: training, updates, evaluation and prediction."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sparsenet import storage
from sparsenet.cli import log_commands
from sparsenet.cli.log_commands import (
    NOUNS,
    answer_line,
    column_of,
    file_of,
    grouped,
    is_by_position,
    name_lines,
    read_name,
)
from sparsenet.cli.reporting import SkippedLines, before_saving, count, memory_for, say
from sparsenet.cli.results import ESCAPES
from sparsenet.cli.runs import Clock, check_readable, measuring_saved, save
from sparsenet.cli.usage import check_names
from sparsenet.core.memory import in_words
from sparsenet.data.errors import quoted
from sparsenet.data.formats import text_format
from sparsenet.data.sources import name_of, open_source, refuse_stdin_twice
from sparsenet.estimators.loading import class_of, load
from sparsenet.features.log_names import find

#: The kinds of model in the option table, by class.
KINDS = {"NextItem": "stream", "TemporalLinkPredictor": "links"}
#: The classes, by kind.
_CLASSES = {kind: name for name, kind in KINDS.items()}
#: The options that name columns of a log, by kind.
_COLUMNS = {"stream": ("user", "item", "time"), "links": ("source", "target", "time")}


def train(kind: str, given: SimpleNamespace, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Train and save a model of a stream, and return a summary for people and programs."""
    refuse_stdin_twice({"TRAIN": given.data, "--valid": given.valid, "--item-features": given.item_features})
    check_readable(given.valid, given.item_features)
    storage.prepare(given.model)
    clock, model, path = Clock(), class_of(_CLASSES[kind])(**parameters), os.fspath(given.data)
    what = f"training on the stream {name_of(path)}"
    with before_saving(given.model, what), memory_for(what):
        model.fit(path, **_columns_of(kind, given), sort=given.sort, **_items_of(given), **file_of(given))
    save(model, given.model)
    summary = _sizes(model) | {"columns": model.columns_} | clock.summary(given.model)
    if kind == "links":
        summary["loss"] = model.loss_
    if given.valid is not None:
        with measuring_saved(given.model):
            summary["valid"] = model.score(os.fspath(given.valid), sort=given.sort)
    return summary


def _columns_of(kind: str, given: SimpleNamespace) -> dict[str, Any]:
    """Return the columns that are given as arguments of `fit`."""
    by_position = is_by_position(given)
    names = {name: getattr(given, name) for name in _COLUMNS[kind] if getattr(given, name) is not None}
    found: dict[str, Any] = {name: column_of(value, by_position=by_position) for name, value in names.items()}
    features = [column_of(name, by_position=by_position) for name in given.event_features or ()]
    return found | {"event_features": features}


def _items_of(given: SimpleNamespace) -> dict[str, str]:
    """Return the table of items as an argument of `fit` or `update`, if it is given."""
    return {} if given.item_features is None else {"item_features": os.fspath(given.item_features)}


def update(given: SimpleNamespace) -> dict[str, Any]:
    """Learn a later log, save the model, and return a summary for people and programs."""
    refuse_stdin_twice({"LOG": given.data, "--item-features": given.item_features})
    output = given.output or given.model
    clock, options = Clock(), _links_of(given, "train") | _items_of(given)
    loading, learning = f"loading {given.model}", f"learning the stream {name_of(given.data)}"
    with before_saving(output, loading), memory_for(loading):
        storage.prepare(output)
        model = load(given.model).set_params(n_jobs=given.threads)
    before = model.n_events_
    with before_saving(output, learning), memory_for(learning):
        model.update(os.fspath(given.data), sort=given.sort, **options, **file_of(given))
    save(model, output)
    return _sizes(model) | {"learnt": model.n_events_ - before} | clock.summary(output)


def _links_of(given: SimpleNamespace, *names: str) -> dict[str, bool]:
    """Return options of link predictors that are given, by argument."""
    return {name: getattr(given, name) for name in names if getattr(given, name) is not None}


def describe_training(summary: Mapping[str, Any]) -> str:
    """Put the summary of a training run or an update into words."""
    words = log_commands.describe_training(summary, describe_measures)
    return f"{count(summary['learnt'], 'further event')} learnt\n{words}" if "learnt" in summary else words


def _sizes(model: Any) -> dict[str, int]:
    return {f"{noun}s": getattr(model, f"n_{noun}s_") for noun in NOUNS if hasattr(model, f"n_{noun}s_")}


def evaluate(given: SimpleNamespace) -> dict[str, Any]:
    """Predict each event of a later log, then learn it; the saved model does not change."""
    model, started = _load(given), time.perf_counter()
    before = model.n_events_
    options = _links_of(given, "train", "ranking")
    found = model.score(os.fspath(given.data), sort=given.sort, **options, **file_of(given))
    return {**found, "events": model.n_events_ - before, "seconds": time.perf_counter() - started}


def describe_measures(scores: Mapping[str, Any]) -> str:
    """Lay out measures in percent, in one line, and their number of events."""
    named = {name: value for name, value in scores.items() if name not in ("events", "seconds")}
    measures = "  ".join(f"{name} {100 * value:.2f}" for name, value in named.items())
    if "events" not in scores:
        return measures
    return f"{measures}\n{count(scores['events'], 'event')} in {scores['seconds']:.2f} s"


class UnknownUsers:
    """Counts users that a model does not know."""

    def __init__(self, model: Any) -> None:
        self._known = model.users_
        self.kind, self._n, self._first = self._known.dtype.kind, 0, ""

    def add(self, users: list[Any]) -> None:
        """Count the unknown ones among further users."""
        numbers, names = find(self._known, users, "users")
        unknown = names[numbers < 0]
        if len(unknown) and not self._n:
            self._first = quoted(str(unknown[0]))
        self._n += len(unknown)

    def report(self, advice: str = "") -> None:
        """Report how many there were, if any."""
        if self._n:
            what = f"{count(self._n, 'user')} unknown to the model, such as {self._first}"
            say(f"{what}: they get what users without a history take{advice}")


def predict(given: SimpleNamespace) -> Iterator[str]:
    """Yield the items that users take next: for users on lines after the last event, or for the rows of a table."""
    model, skipped = _load(given), SkippedLines()
    unknown = UnknownUsers(model)
    named = given.input_format if given.input_format != "auto" else text_format(given.data)
    if named not in (None, "lines"):
        yield from _answer_rows(model, given, unknown)
        return
    check_names(given)
    with open_source(os.fspath(given.data)) as source:
        lines = name_lines(source, given.encoding, skipped)
        while batch := list(islice(lines, given.batch_size)):
            users = [read_name(line.text, unknown.kind, source.name, line.number) for line in batch]
            unknown.add(users)
            answers = grouped(model.topk(list(dict.fromkeys(users)), k=given.k), "user")
            yield from (answer_line(given.format, answers.get(user, []), user) for user in users)
    unknown.report("; if the file is a table, pass --input-format csv, tsv or jsonl")
    skipped.report(given.data, "they are blank")


def _answer_rows(model: Any, given: SimpleNamespace, unknown: UnknownUsers) -> Iterator[str]:
    """Yield the items that the users of a table take next, at the times in it, if any."""
    asked = model.read_questions(os.fspath(given.data), **file_of(given, "input_format"))
    users, times, columns = asked["users"].tolist(), asked.get("time"), model.columns_
    when = "after the last event" if times is None else f"at the times in column {columns['time']!r}"
    read = f"{count(len(users), 'row')} of {name_of(given.data)}"
    say(f"{read} answered for the users in column {columns['user']!r} {when}")
    for first in range(0, len(users), given.batch_size):
        part = slice(first, first + given.batch_size)
        found = model.topk(users[part], time=None if times is None else times[part], k=given.k)
        answers: list[list[Any]] = []
        for item, score, rank in zip(*(found[name].tolist() for name in ("item", "score", "rank")), strict=True):
            if rank == 1:
                answers.append([])
            answers[-1].append((item, score))
        for user, own in zip(users[part], answers, strict=True):
            yield answer_line(given.format, own, user)
    unknown.add(users)
    unknown.report()


def predict_links(given: SimpleNamespace) -> Iterator[str]:
    """Yield the source, the target and the probability of each row of a table, after the last event learnt."""
    model = load(given.model).set_params(n_jobs=given.threads)
    links = model.predict_log(os.fspath(given.data), **file_of(given, "input_format"))
    for source, target, probability in zip(*(links[name].tolist() for name in links), strict=True):
        if given.format == "jsonl":
            found = {"source": source, "target": target, "probability": float(f"{probability:.6g}")}
            yield json.dumps(found) + "\n"
        else:
            names = (str(name).translate(ESCAPES) for name in (source, target))
            yield "\t".join(names) + f":{probability:.6g}\n"


def _load(given: SimpleNamespace) -> Any:
    model = load(given.model).set_params(n_jobs=given.threads)
    return model.set_params(output="arrays") if "output" in model.get_params() else model


def about(model: Any, path: Path) -> dict[str, Any]:
    """Return all that `sparsenet info MODEL` shows of a model of a stream, of any kind."""
    defaults = type(model)().get_params()
    settings = {name: value for name, value in model.get_params().items() if value != defaults[name]}
    return {
        "model": str(path),
        "kind": type(model).__name__,
        **_sizes(model),
        "columns": model.columns_,
        "features": model.features_,
        "bytes": sum(file.stat().st_size for file in path.iterdir()),
        "settings": settings,
    }


def describe_model(found: Mapping[str, Any]) -> str:
    """Lay out a report on a model of a stream for people."""
    columns = {name: column for name, column in found["columns"].items() if column is not None}
    rows = {
        "model": f"{found['model']}: {found['kind']}, {in_words(found['bytes'])}",
        "holds": ", ".join(count(found[f"{noun}s"], noun) for noun in NOUNS if f"{noun}s" in found),
        "columns": ", ".join(f"{name} in {column!r}" for name, column in columns.items()),
        "features": "; ".join(f"of {of}: {', '.join(names)}" for of, names in found["features"].items() if names),
        "settings": ", ".join(f"{name}={value}" for name, value in found["settings"].items()),
    }
    return "\n".join(f"{name:<11} {value}" for name, value in rows.items() if value)
