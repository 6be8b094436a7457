"""Training, evaluation and prediction of recommenders: logs of interactions on the command line."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sparsenet import storage
from sparsenet.cli.reporting import SkippedLines, before_saving, count, memory_for, say
from sparsenet.cli.results import ESCAPES
from sparsenet.cli.runs import Clock, check_readable, measuring_saved, save
from sparsenet.cli.usage import check_names, refuse, refuse_given
from sparsenet.core.memory import in_words
from sparsenet.data import DataError
from sparsenet.data.blocks import line_blocks
from sparsenet.data.dialect import UTF_8
from sparsenet.data.errors import quoted
from sparsenet.data.formats import text_format
from sparsenet.data.lines import ICONV, Line, skip_blank, text_lines
from sparsenet.data.sources import Source, name_of, open_source, refuse_stdin_twice
from sparsenet.estimators.recommender import Recommender
from sparsenet.estimators.recommender_inputs import UnknownItems
from sparsenet.features.log_names import find

#: What models of logs count.
NOUNS = ("user", "item", "node", "event")
#: Recommenders are always measured at this rank, in addition to the ranks of --k.
AT = 20


def train(given: SimpleNamespace, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Train and save a recommender, and return a summary for people and programs."""
    refuse_stdin_twice({"TRAIN": given.data, "--valid": given.valid})
    check_readable(given.valid)
    storage.prepare(given.model)
    clock, model, path = Clock(), Recommender(**parameters), os.fspath(given.data)
    what = f"training on the log {name_of(path)}"
    with before_saving(given.model, what), memory_for(what):
        model.fit(path, **columns_of(given, by_position=is_by_position(given)), **file_of(given))
    save(model, given.model)
    about = {"users": model.n_users_, "items": model.n_items_, "events": model.n_events_, "columns": model.columns_}
    summary = about | clock.summary(given.model)
    if given.valid is not None:
        with measuring_saved(given.model):
            summary["valid"] = model.evaluate(os.fspath(given.valid), k=AT)
    return summary


def is_by_position(given: SimpleNamespace) -> bool:
    """Return whether numbers may be positions: the file is CSV or TSV."""
    return text_format(os.fspath(given.data)) in (None, "csv", "tsv") and given.format != "jsonl"


def columns_of(given: SimpleNamespace, *, by_position: bool) -> dict[str, Any]:
    """Return the columns as arguments of `fit`; numbers are positions in CSV and TSV."""
    return {
        name: column_of(getattr(given, name), by_position=by_position)
        for name in ("user", "item", "time", "weight")
        if getattr(given, name) is not None
    }


def column_of(name: str, *, by_position: bool) -> str | int:
    """Return a column, as a position if it is a number and numbers are positions."""
    return int(name) if by_position and name.isdecimal() else name


def file_of(given: SimpleNamespace, format_option: str = "format") -> dict[str, Any]:
    """Return how to read the file as arguments of `fit`."""
    format = getattr(given, format_option)
    return {"format": format} | {name: getattr(given, name) for name in ("quotes", "delimiter", "encoding", "decimal")}


def describe_training(summary: Mapping[str, Any], measures: Callable[[Mapping[str, Any]], str] | None = None) -> str:
    """Put the summary of a training run into words."""
    lines = [
        ", ".join(count(summary[f"{noun}s"], noun) for noun in NOUNS if f"{noun}s" in summary),
        f"{summary['seconds']:.1f} s ({summary['cpu_seconds']:.1f} CPU s, {summary['backend']} kernels)",
    ]
    if "valid" in summary:
        lines.append((measures or describe_measures)(summary["valid"]))
    if "loss" in summary:
        lines[0] += f", loss {summary['loss']:.3f}"
    return "\n".join([*lines, f"{summary['model']}: {in_words(summary['model_bytes'])}"])


def evaluate(given: SimpleNamespace) -> dict[str, Any]:
    """Measure a recommender on a later log of its users, or with --split on any log."""
    model, started = _load(given), time.perf_counter()
    ks = sorted({*given.k, AT})
    found = model.evaluate(os.fspath(given.data), given.split, ks, not given.include_seen, **file_of(given))
    return {**found, "seconds": time.perf_counter() - started}


def describe_measures(scores: Mapping[str, Any]) -> str:
    """Lay out measures, one a line: in percent, apart from the popularity bias."""
    rows: dict[str, list[str]] = {}
    for name, value in scores.items():
        metric, at, k = name.partition("@")
        if at:
            rows.setdefault(metric, []).append(f"@{k} {value if metric == 'popularity_bias' else 100 * value:6.2f}")
    lines = [f"{metric.replace('_', ' '):<16}" + "  ".join(values) for metric, values in rows.items()]
    seconds = f" in {scores['seconds']:.2f} s" if "seconds" in scores else ""
    lines.append(f"{count(scores['users'], 'user')}, {count(scores['events'], 'held-out item')}{seconds}")
    if scores["unknown_items"]:
        lines.append(f"{count(scores['unknown_items'], 'held-out item')} unknown to the model, counted as missed")
    if scores["unknown_users"]:
        lines.append(f"{count(scores['unknown_users'], 'user')} unknown to the model, left out")
    if scores["unknown_history"]:
        lines.append(f"{count(scores['unknown_history'], 'event')} of histories with unknown items, left out")
    return "\n".join(lines)


def predict(given: SimpleNamespace) -> Iterator[str]:
    """Yield lines of recommendations: for users by name, for baskets, or for the users of a log."""
    model = _load(given)
    named_items = {name: _items(model, getattr(given, name), given) for name in ("only", "exclude")}
    how: dict[str, Any] = {"k": given.k, "exclude_seen": not given.include_seen} | named_items
    named = given.input_format if given.input_format != "auto" else text_format(given.data)
    if given.baskets and given.input_format not in ("auto", "lines"):
        refuse("baskets", f"is for a list with a basket on each line, and --input-format is {given.input_format}")
    if named in (None, "lines") or given.baskets:
        ask = _for_baskets if given.baskets else _for_users
        skipped, unknown = SkippedLines(), UnknownItems()
        check_names(given, *(["delimiter"] if given.baskets or given.only or given.exclude else []))
        with open_source(os.fspath(given.data)) as source:
            lines = name_lines(source, given.encoding, skipped)
            while batch := list(islice(lines, given.batch_size)):
                yield from ask(model, [(line.text, line.number) for line in batch], source.name, how, given, unknown)
        if warning := unknown.message():
            say(f"warning: {warning}")
        skipped.report(given.data, "they are blank")
        return
    refuse_given(
        "predict", given, "batch_size", "is for a list of names, and a log is answered as a whole: leave it out"
    )
    found = model.recommend(history=os.fspath(given.data), **how, **file_of(given, "input_format"))
    answers = grouped(found, "user")
    yield from (answer_line(given.format, own, user) for user, own in answers.items())


def _items(model: Recommender, value: str | None, given: SimpleNamespace) -> list[Any] | None:
    """Return the items that an option names: in a file, one a line, or in a list."""
    if value is None:
        return None
    kind = model.items_.dtype.kind
    if not os.path.isfile(value):
        return [read_name(part, kind, "the list", 1) for part in value.split(given.delimiter or ",")]
    with open_source(value) as source:
        lines = name_lines(source, given.encoding, SkippedLines())
        return [read_name(line.text, kind, source.name, line.number) for line in lines]


def name_lines(source: Source, encoding: str | None, skipped: SkippedLines) -> Iterator[Line]:
    """Yield the lines of a list of names, and count blank ones."""
    blocks = line_blocks(source, may_be_empty=True)
    return skip_blank(
        text_lines(source, encoding or UTF_8, advice=f"{ICONV}, or pass --encoding", blocks=blocks), skipped.add
    )


def _for_users(
    model: Recommender,
    lines: list[tuple[str, int]],
    path: str,
    how: dict[str, Any],
    given: SimpleNamespace,
    _: UnknownItems,
) -> Iterator[str]:
    """Yield the items for the users whose names are on lines; unknown users get popular items."""
    if model.users_ is None:
        raise ValueError(f"{given.model} keeps no names of users: pass a log of what they took, or --baskets")
    users = [read_name(text, model.users_.dtype.kind, path, number) for text, number in lines]
    answers = grouped(model.recommend(sorted(set(users)), unknown="popular", **how), "user")
    if n_unknown := int((find(model.users_, users, "users")[0] < 0).sum()):
        say(f"{count(n_unknown, 'user')} not in the training log: they get the most popular items")
    yield from (answer_line(given.format, answers.get(user, []), user) for user in users)


def _for_baskets(
    model: Recommender,
    lines: list[tuple[str, int]],
    path: str,
    how: dict[str, Any],
    given: SimpleNamespace,
    unknown: UnknownItems,
) -> Iterator[str]:
    """Yield the items for the baskets on lines, and count unknown items, so that one warning covers all batches."""
    kind, delimiter = model.items_.dtype.kind, given.delimiter or ","
    baskets = [[read_name(part, kind, path, number) for part in text.split(delimiter)] for text, number in lines]
    numbers, names = find(model.items_, [name for basket in baskets for name in basket], "items")
    unknown.add(names[numbers < 0], len(names))
    left = set(names[numbers < 0].tolist())
    known = [[name for name in basket if name not in left] for basket in baskets]
    answers = grouped(model.recommend_for(known, **how), "basket")
    yield from (answer_line(given.format, answers.get(i, [])) for i in range(len(baskets)))


def read_name(text: str, kind: str, path: str, number: int) -> Any:
    """Return the user or item named on a line, as a number if the names of the model are numbers."""
    text = text.strip()
    if kind == "O" and text:
        return text
    try:
        return int(text)
    except ValueError:
        wanted = "a name" if kind == "O" else "a whole number, as in the training log"
        raise DataError(path, number, f"expected {wanted}, found {quoted(text)}") from None


def grouped(found: Mapping[str, Any], by: str) -> dict[Any, list[tuple[Any, float]]]:
    """Return the items and scores of each user or basket, in their order."""
    answers: dict[Any, list[tuple[Any, float]]] = {}
    for owner, item, score in zip(*(found[name].tolist() for name in (by, "item", "score")), strict=True):
        answers.setdefault(owner, []).append((item, score))
    return answers


def answer_line(format: str, answers: list[tuple[Any, float]], user: Any = None) -> str:
    """Format the recommendations for a user or a basket as a JSON object, or as fields separated by tabs."""
    if format == "jsonl":
        own = {} if user is None else {"user": user}
        found = {"items": [item for item, _ in answers], "scores": [float(f"{score:.6g}") for _, score in answers]}
        return json.dumps(own | found) + "\n"
    fields = [] if user is None else [str(user).translate(ESCAPES)]
    return "\t".join([*fields, *(f"{str(item).translate(ESCAPES)}:{score:.6g}" for item, score in answers)]) + "\n"


def _load(given: SimpleNamespace) -> Recommender:
    model = Recommender.load(given.model)
    model.set_params(n_jobs=given.threads, output="arrays")
    return model


def about(model: Recommender, path: Path, choices: Mapping[str, Any]) -> dict[str, Any]:
    """Return all that `sparsenet info MODEL` shows of a recommender."""
    defaults = Recommender().get_params()
    settings = {name: value for name, value in model.get_params().items() if name not in ("n_jobs", "verbose")}
    return {
        "model": str(path),
        "kind": Recommender.__name__,
        "users": model.n_users_,
        "items": model.n_items_,
        "events": model.n_events_,
        "columns": model.columns_,
        "keeps_users": model.users_ is not None,
        "choices": dict(choices),
        "bytes": sum(file.stat().st_size for file in path.iterdir()),
        "settings": {name: value for name, value in settings.items() if value != defaults[name]},
    }


def describe_model(found: Mapping[str, Any]) -> str:
    """Lay out a report on a recommender for people."""
    columns = {name: column for name, column in (found["columns"] or {}).items() if column is not None}
    kept = "names and histories of all users" if found["keeps_users"] else "no names of users"
    rows = [
        ("model", f"{found['model']}: {found['kind']}, {in_words(found['bytes'])}"),
        ("trained on", ", ".join(count(found[f"{noun}s"], noun) for noun in ("user", "item", "event"))),
        ("columns", ", ".join(f"{name} in {column!r}" for name, column in columns.items()) or "a matrix"),
        ("holds", kept),
    ]
    rows += [("decided", f"{name}: {own['why']}") for name, own in found["choices"].items() if own["options"]]
    if found["settings"]:
        rows.append(("settings", ", ".join(f"{name}={value}" for name, value in found["settings"].items())))
    return "\n".join(f"{name:<11} {value}" for name, value in rows)
