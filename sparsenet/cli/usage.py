"""Usage checks across options: each raises a usage error before any work begins."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import typer

from sparsenet.cli.command_option import POINT_METHODS, STREAM_METHODS
from sparsenet.cli.data_options import TABLES
from sparsenet.cli.option_table import options_of

#: Options that describe how the rows of CSV and TSV are written.
ROWS = ("header", "quotes", "delimiter", "encoding")
#: The same for rows of tables with mixed columns, and of logs.
ROWS_OF_NUMBERS = (*ROWS, "decimal")


def refuse(name: str, problem: str) -> None:
    """Raise a usage error about an option."""
    raise typer.BadParameter(problem, param_hint=f"--{name.replace('_', '-')}")


def refuse_given(command: str, given: SimpleNamespace, name: str, problem: str) -> None:
    """Refuse an option of a command if the user set it."""
    [option] = [option for option in options_of(command) if option.name == name]
    if option.is_given(getattr(given, name)):
        refuse(name, problem)


def check_options(command: str, given: SimpleNamespace, kind: str) -> None:
    """Refuse options that have no effect on a kind of model."""
    for option in options_of(command):
        value = getattr(given, option.name)
        if option.is_given(value):
            if reason := option.why_not(kind, command):
                refuse(f"no_{option.name}" if value is False else option.name, reason)
            if option.needs_valid and given.valid is None:
                refuse(option.name, f"needs --valid, {option.needs_valid}")


def parameters(given: SimpleNamespace, kind: str) -> dict[str, Any]:
    """Return the parameters of a kind of model that the options of `train` set."""
    own = ((option.parameter_of(kind), getattr(given, option.name)) for option in options_of("train"))
    found = {name: value for name, value in own if name is not None and value is not None}
    if found.get("method") in ("table", *STREAM_METHODS):
        del found["method"]
    return found | ({"char_ngrams": None} if found.get("char_ngrams") == "none" else {})


def kind_of_point_model(given: SimpleNamespace) -> str:
    """Return the kind of model that `train` makes of sparse points."""
    method = given.method or POINT_METHODS[0]
    if method == "table":
        refuse("method", "a table has named columns, and this file holds sparse points")
    if method not in POINT_METHODS:
        known = f"{', '.join(POINT_METHODS[:-1])} or {POINT_METHODS[-1]}"
        refuse("method", f"{method} is for text, and this file holds sparse points: choose {known}")
    if method == "blend" and given.network is False:
        return "bare-blend"
    return str(method)


def check_train(given: SimpleNamespace, kind: str) -> None:
    """Refuse options of `train` that contradict each other or the kind of model."""
    if given.hidden == 0 and given.sampler == "lsh":
        refuse("sampler", "lsh hashes hidden units, and --hidden 0 has none")
    if kind == "text" and given.method == "tree":
        refuse("method", "a tree is for sparse points, and this file holds text")
    check_options("train", given, kind)
    if kind == "bare-blend" and given.neighbors == 0:
        refuse("neighbors", "0 and --no-network leave only the tree: use --method tree")


def check_compress(given: SimpleNamespace) -> None:
    """Refuse options of `compress` that describe the file of --valid, without that file."""
    if given.valid is None:
        described = [*table_options(given), *(["format"] if given.format != "auto" else [])]
        if described:
            refuse(described[0], "describes the file of --valid: name one, or leave it out")


def stream_kind(given: SimpleNamespace) -> str | None:
    """Return the kind of model that `train` makes of a stream of events, "stream" or "links"; None for other data."""
    return STREAM_METHODS.get(given.method)


def is_log(given: SimpleNamespace) -> bool:
    """Return whether `train` makes a recommender of a log of interactions."""
    return given.user is not None or given.item is not None


def check_names(given: SimpleNamespace, *used: str) -> None:
    """Refuse options of tables for a list of names, one on each line, apart from the options that are `used`."""
    for name in ("quotes", "delimiter", "decimal"):
        if getattr(given, name) is not None and name not in used:
            refuse(name, "is for tables, and this is a list with a name on each line: leave it out")


def check_table_format(format: str, hint: str, *more: str) -> None:
    """Refuse formats without columns."""
    if format in {"xmc", "svmlight", "lines"} - set(more):
        refuse(hint, f"{format} is not for tables and logs: they are csv, tsv, jsonl or parquet")


def check_point_format(format: str, hint: str, labels_file: Path | None = None) -> None:
    """Refuse formats for text, and any format for a matrix, whose name or first line determines it."""
    if labels_file is not None and format != "auto":
        refuse(hint, "with --labels-file the points are a matrix, whose format is detected: leave it out")
    if format not in ("auto", "xmc", "svmlight"):
        refuse(hint, f"{format} is for text models, and this is a model of sparse points")


def check_text_format(format: str, hint: str, data: Path, named: str | None, given: SimpleNamespace) -> None:
    """Refuse formats for points, and table options for other files.

    `named` is the format that the file name implies, or None.
    """
    if format in ("xmc", "svmlight"):
        refuse(hint, f"{format} is for models of sparse points, and this is a text model")
    option = next(iter(table_options(given)), None)
    if option is not None and format == "lines":
        refuse(option, "lines have no columns: leave it out")
    if option is not None and format == "auto" and named is None:
        source = "stdin has no file name" if str(data) == "-" else f"the name {data} does not end in its format"
        refuse(hint, f"--{option.replace('_', '-')} needs a table, and {source}: pass csv, tsv or jsonl")
    read_as = named if format == "auto" or named == "parquet" else format
    row_option = next((name for name in ROWS if getattr(given, name) is not None), None)
    if row_option is not None and read_as in ("jsonl", "parquet"):
        refuse(row_option, f"is for CSV and TSV, and this file is {read_as}: leave it out")


def table_options(given: SimpleNamespace) -> dict[str, Any]:
    """Return the options about tables that are given."""
    names = [option.name for option in options_of("train") if option.panel == TABLES]
    values = {name: getattr(given, name, None) for name in names}
    return {name: value for name, value in values.items() if value is not None}
