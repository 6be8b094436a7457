"""Models of streams of events on the command line: training of `NextItem`, evaluation and prediction of all."""

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
from sparsenet.cli.log_commands import answer_line, columns_of, file_of, grouped, is_by_position, read_name
from sparsenet.cli.reporting import SkippedLines, count, memory_for
from sparsenet.cli.results import ESCAPES
from sparsenet.cli.runs import Clock, nothing_saved, save, saved_unmeasured
from sparsenet.core.memory import in_words
from sparsenet.data.blocks import line_blocks
from sparsenet.data.lines import skip_blank, text_lines
from sparsenet.data.sources import name_of, open_source, refuse_stdin_twice
from sparsenet.estimators.loading import class_of, load

KIND = "NextItem"
#: The kinds of model in the option table, by class.
KINDS = {KIND: "stream", "TemporalLinkPredictor": "links"}
#: What models of streams count: attributes such as `n_users_`.
SIZES = ("users", "items", "nodes", "events")


def train(given: SimpleNamespace, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Train and save a model of a stream, and return a summary for people and programs."""
    refuse_stdin_twice({"TRAIN": given.data, "--valid": given.valid})
    storage.prepare(given.model)
    clock, model, path = Clock(), class_of(KIND)(**parameters), os.fspath(given.data)
    columns = columns_of(given, by_position=is_by_position(given))
    try:
        with memory_for(f"training on the stream {name_of(path)}"):
            model.fit(path, **columns, sort=given.sort, **file_of(given))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(nothing_saved(given.model)) from None
    save(model, given.model)
    summary = _sizes(model) | {"columns": model.columns_} | clock.summary(given.model)
    if given.valid is not None:
        try:
            summary["valid"] = model.score(given.valid, sort=given.sort)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(saved_unmeasured(given.model)) from None
    return summary


def describe_training(summary: Mapping[str, Any]) -> str:
    """Put the summary of a training run into words."""
    return log_commands.describe_training(summary, describe_measures)


def _sizes(model: Any) -> dict[str, int]:
    return {name: getattr(model, f"n_{name}_") for name in SIZES if hasattr(model, f"n_{name}_")}


def evaluate(given: SimpleNamespace) -> dict[str, Any]:
    """Predict each event of a later log, then learn it; the saved model does not change."""
    model, started = _load(given), time.perf_counter()
    before = model.n_events_
    found = model.score(os.fspath(given.data), sort=given.sort, **file_of(given))
    return {**found, "events": model.n_events_ - before, "seconds": time.perf_counter() - started}


def describe_measures(scores: Mapping[str, Any]) -> str:
    """Lay out measures in percent, in one line, and their number of events."""
    named = {name: value for name, value in scores.items() if name not in ("events", "seconds")}
    measures = "  ".join(f"{name} {100 * value:.2f}" for name, value in named.items())
    if "events" not in scores:
        return measures
    return f"{measures}\n{count(scores['events'], 'event')} in {scores['seconds']:.2f} s"


def predict(given: SimpleNamespace) -> Iterator[str]:
    """Yield the items that the users on lines take next, at the time of the last event."""
    model, skipped = _load(given), SkippedLines()
    kind = "O" if storage.metadata(given.model)["string_users"] else "i"
    with open_source(os.fspath(given.data)) as source:
        lines = skip_blank(text_lines(source, blocks=line_blocks(source, may_be_empty=True)), skipped.add)
        while batch := list(islice(lines, given.batch_size)):
            users = [read_name(line.text, kind, source.name, line.number) for line in batch]
            answers = grouped(model.topk(list(dict.fromkeys(users)), k=given.k), "user")
            yield from (answer_line(given.format, answers.get(user, []), user) for user in users)
    skipped.report(given.data, "they are blank")


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
        "features": getattr(model, "features_", {}),
        "bytes": sum(file.stat().st_size for file in path.iterdir()),
        "settings": settings,
    }


def describe_model(found: Mapping[str, Any]) -> str:
    """Lay out a report on a model of a stream for people."""
    columns = {name: column for name, column in found["columns"].items() if column is not None}
    rows = {
        "model": f"{found['model']}: {found['kind']}, {in_words(found['bytes'])}",
        "holds": ", ".join(count(found[name], name[:-1]) for name in SIZES if name in found),
        "columns": ", ".join(f"{name} in {column!r}" for name, column in columns.items()),
        "features": "; ".join(f"of {of}: {', '.join(names)}" for of, names in found["features"].items() if names),
        "settings": ", ".join(f"{name}={value}" for name, value in found["settings"].items()),
    }
    return "\n".join(f"{name:<11} {value}" for name, value in rows.items() if value)
