"""Checks of what options may hold: usage errors, before any work."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import typer

#: Ids and counts are 32-bit integers.
MOST = 2**31 - 1
#: Settings of training that not all kinds of models have, as classifiers call them.
NETWORK = {
    *("epochs", "hidden", "batch_size", "learning_rate", "n_negatives", "time_budget", "wide_budget"),
    *("sampler", "loss", "patience", "memory_limit", "n_jobs", "normalize"),
}
SETTINGS = {
    "network": NETWORK,
    "blend": {*(NETWORK - {"patience"}), "cost", "beam", "candidates", "n_neighbors", "network"},
    "tree": {"epochs", "cost", "beam", "n_jobs", "normalize"},
    "texts": {
        *("epochs", "cost", "time_budget", "memory_limit", "n_jobs"),
        *("word_ngrams", "char_ngrams", "class_weight", "method", "validation_fraction"),
    },
}
#: What learns sparse points, by --method; the first if nothing is said.
POINT_METHODS = ("blend", "network", "tree")
#: Suffixes of pictures.
PICTURES = (".png", ".svg", ".pdf")


def picture(path: Path | None) -> Path | None:
    """Refuse what no picture can be written to, before there is one."""
    if path is not None and path.suffix.lower() not in PICTURES:
        raise typer.BadParameter(f"{path} must end in one of {', '.join(PICTURES)}")
    if path is not None and not path.absolute().parent.is_dir():
        raise typer.BadParameter(f"there is no directory {path.parent} to write {path.name} into")
    return path


def rate(value: float | None) -> float | None:
    """Refuse a learning rate that is none; NaN would pass for a number."""
    if value is not None and not 0 < value <= 1000:
        raise typer.BadParameter(f"expected a number above 0, at most 1000, got {value:g}")
    return value


def size(text: str | None) -> str | None:
    """Refuse what is not a number of bytes."""
    if text is not None and not re.fullmatch(r"\s*\d{1,15}(\.\d+)?\s*([KMGT]I?)?B?\s*", text.upper()):
        raise typer.BadParameter(f"expected a number of bytes such as 8000000000, 8GB or 8GiB, got {text!r}")
    return text


def delimiter(text: str | None) -> str | None:
    """Refuse nothing as what separates labels."""
    if text == "":
        raise typer.BadParameter("must not be empty: leave it out where a text has one label")
    return text


def separator(text: str | None) -> str | None:
    """Refuse what cannot separate fields; a tab may be written as in Python."""
    text = "\t" if text == "\\t" else text
    return _of_dialect(delimiter=text)


def encoding(text: str | None) -> str | None:
    """Refuse what is no encoding, or none that can be read by lines."""
    return _of_dialect(encoding=text)


def _of_dialect(**said: str | None) -> str | None:
    value = next(iter(said.values()))
    if value is not None:
        from sparsenet.data.dialect import Dialect  # which takes time, and --help should not

        try:
            Dialect(**said)  # type: ignore[arg-type]  # not of the two that are no texts
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    return value


def columns(texts: list[str] | None, **others: str | bool | None) -> dict[str, Any]:
    """Return all that is said of tables, by its names; a column of texts that is there twice is refused."""
    twins = [name for name, times in Counter(texts).items() if times > 1]
    if twins:
        raise typer.BadParameter(f"names the column {twins[0]!r} twice: name it once", param_hint="--text")
    return {"text": texts or None, **others}


def of_answers(format: str) -> str:
    """Refuse what answers are not written as; who says csv means what is read, which `train` calls --format too."""
    if format not in ("tsv", "jsonl"):
        raise typer.BadParameter(f"answers are tsv or jsonl, got {format!r}; --input-format says what is read")
    return format


def ranks(text: str) -> str:
    """Refuse what is not a list of ranks."""
    words = text.split(",")
    if not all(re.fullmatch(r"\s*\d{1,10}\s*", word) and 1 <= int(word) <= MOST for word in words):
        raise typer.BadParameter(f"expected whole numbers from 1 on, separated by commas, got {text!r}")
    return text


def propensity(text: str) -> str:
    """Refuse what are no constants of propensities."""
    try:
        a, b = constants(text)
        fits = math.isfinite(a) and math.isfinite(b) and b > 0
    except ValueError:
        fits = False
    if not fits:
        raise typer.BadParameter(f"expected two numbers such as 0.55,1.5, the second above 0, got {text!r}")
    return text


def constants(text: str) -> tuple[float, float]:
    """Return what `propensity` let pass as metrics take it.

    >>> constants("0.6,2.6")
    (0.6, 2.6)
    """
    a, b = map(float, text.split(","))
    return a, b


def threshold(value: str) -> str:
    """Refuse what is no probability, and not the word for the one that the model has learnt."""
    try:
        fits = value == "learnt" or 0 <= float(value) <= 1
    except ValueError:
        fits = False
    if not fits:
        raise typer.BadParameter(f"expected a number from 0 to 1, or learnt, got {value!r}")
    return value


def class_weight(text: str | None) -> str | None:
    """Refuse what does not say how much labels weigh."""
    if text is None or text == "balanced" or _factors(text):
        return text
    raise typer.BadParameter(f'expected balanced, or factors of labels such as {{"spam": 5}}, got {text!r}')


def class_weights(text: str) -> str | dict[str, float]:
    """Return what `class_weight` let pass as a classifier takes it.

    >>> class_weights("balanced"), class_weights('{"spam": 5}')
    ('balanced', {'spam': 5})
    """
    return _factors(text) or text


def _factors(text: str) -> dict[str, float]:
    try:
        found = json.loads(text, object_pairs_hook=_distinct)
    except (ValueError, RecursionError):
        return {}
    positive = isinstance(found, dict) and all(isinstance(own, int | float) and own > 0 for own in found.values())
    return found if positive else {}


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dict of the pairs of a JSON object; raises ValueError if a key is repeated."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key is repeated")
    return dict(pairs)


def lengths(text: str | None) -> str | None:
    """Refuse what does not say how long runs of characters are."""
    match = re.fullmatch(r"(\d{1,2})(?:-(\d{1,2}))?", text) if text not in (None, "auto", "none") else None
    if text in (None, "auto", "none") or (match and 1 <= int(match[1]) <= int(match[2] or match[1]) <= 64):
        return text
    raise typer.BadParameter(f"expected lengths from 1 to 64 such as 3-5, auto or none, got {text!r}")


def char_ngrams(text: str) -> str | tuple[int, int] | None:
    """Return what `lengths` let pass as a classifier takes it.

    >>> char_ngrams("3-5"), char_ngrams("4"), char_ngrams("none")
    ((3, 5), (4, 4), None)
    """
    if text in ("auto", "none"):
        return text if text == "auto" else None
    low, _, high = text.partition("-")
    return int(low), int(high or low)


def settings(kind: str, given: Mapping[str, object]) -> None:
    """Refuse settings that a model of texts, or one of those over sparse points, has not."""
    for name in given:
        if name not in SETTINGS[kind]:
            raise typer.BadParameter(_why_not(kind, name), param_hint=_option_of(name))


def without_network(given: Mapping[str, object], **of_run: int | None) -> None:
    """Refuse settings that only the network of a blend has, where it is to have none, and what is kept `of_run`."""
    if given.get("network", True):
        return
    _refuse(of_run, dict.fromkeys(of_run, "is for the network, and --no-network leaves it out"))
    for name in given:
        if name in SETTINGS["network"] - SETTINGS["tree"]:
            raise typer.BadParameter("is for the network, and --no-network leaves it out", param_hint=_option_of(name))
    if given.get("n_neighbors") == 0:
        raise typer.BadParameter("0 and --no-network leave a tree alone: say --method tree", param_hint="--neighbors")


def _why_not(kind: str, name: str) -> str:
    if kind == "texts":
        return "a model of texts has none: leave it out"
    if name == "network":
        return "--network and --no-network are for --method blend"
    others = [method for method in POINT_METHODS if name in SETTINGS[method]]
    if not others:
        return "is for texts, these are sparse points"
    return f"a {kind} has none: it is for --method {' or '.join(others)}"


def method_of_points(method: str | None) -> str:
    """Return what learns sparse points; other methods are for texts."""
    if method in (None, *POINT_METHODS):
        return method or POINT_METHODS[0]
    known = f"{', '.join(POINT_METHODS[:-1])} or {POINT_METHODS[-1]}"
    raise typer.BadParameter(f"is for texts, these are sparse points: {known}, not {method}", param_hint="--method")


def method_of_texts(method: str | None) -> None:
    """Refuse a method that only sparse points have."""
    if method in ("tree", "blend"):
        raise typer.BadParameter(f"a {method} is for sparse points, these are texts", param_hint="--method")


def of_points(format: str, hint: str, labels_file: Path | None = None) -> Literal["auto", "xmc", "svmlight"]:
    """Return a format that sparse points may have; others are for texts."""
    if labels_file is not None and format != "auto":
        problem = "points whose labels are in a --labels-file are a matrix, which is told by its name or first line"
        raise typer.BadParameter(f"{problem}: leave it out", param_hint=hint)
    match format:
        case "auto" | "xmc" | "svmlight":
            return format
    raise typer.BadParameter(f"{format} is for models of texts, this is one of sparse points", param_hint=hint)


def not_learnt_of_points(threshold: str) -> None:
    """Refuse a threshold that only models of texts have learnt."""
    if threshold == "learnt":
        raise typer.BadParameter("a model of sparse points has learnt none: say a number", param_hint="--threshold")


def not_of_texts(**given: int | Path | None) -> None:
    """Refuse options that only sparse points have."""
    reasons = {
        "labels_file": "the labels of texts are beside them, in a column or words of the same line",
        "valid_labels_file": "the labels of texts are beside them, in a column or words of the same line",
        "features": "the features of texts are not counted by hand",
        "labels": "the labels of texts are not counted by hand",
        "checkpoint": "a model of texts has no checkpoints",
        "resume": "a model of texts has no checkpoints to go on from",
        "compact": "a model of texts is made smaller by sparsenet compress",
        "exclude_seen": "the features of texts are no labels that could be left out",
    }
    _refuse(given, reasons)


def not_of_points(**given: list[str] | str | bool | None) -> None:
    """Refuse options about tables of texts, given in any way, where points are read."""
    why = "is about tables of texts, and sparse points have no columns: leave it out"
    _refuse({name: value is not None for name, value in given.items()}, dict.fromkeys(given, why))


def needs_validation(valid: Path | None, **given: int | Path | None) -> None:
    """Refuse options about points to measure on where there are none."""
    reasons = {
        "patience": "needs --valid, to measure each epoch on",
        "valid_labels_file": "needs --valid, whose labels these are",
    }
    _refuse({} if valid else given, reasons)


def not_of_trees(**given: int | None) -> None:
    """Refuse options that a tree has not."""
    reasons = {
        "checkpoint": "a tree has no checkpoints",
        "resume": "a tree has no checkpoints to go on from",
        "compact": "the weights of a tree have 8 bits as it is",
    }
    _refuse(given, reasons)


def _refuse(given: Mapping[str, int | Path | None], reasons: Mapping[str, str]) -> None:
    for name, value in given.items():
        if value:
            raise typer.BadParameter(reasons[name], param_hint=_option(name))


def _option_of(setting: str) -> str:
    """Return the option of what classifiers call by this name."""
    return _option(setting.removeprefix("n_"))


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def of_texts(format: str, hint: str, data: Path, *, named: str | None, **given: list[str] | str | bool | None) -> str:
    """Return a format that texts may have; what is `given` of columns asks for a table, which lines are not.

    `named`: the format that the name of the file tells, if it tells one.
    """
    if format in ("xmc", "svmlight"):
        raise typer.BadParameter(f"{format} is for models of sparse points, this is one of texts", param_hint=hint)
    option = next((name for name, value in given.items() if value is not None), None)
    if option is not None and format == "lines":
        raise typer.BadParameter("lines have no columns: leave it out", param_hint=f"--{option}")
    if option is not None and format == "auto" and named is None:
        name = "a pipe has no name" if str(data) == "-" else f"{data} has no name"
        asked = f"--{option} is about tables, and {name} to tell of what kind: say csv, tsv or jsonl"
        raise typer.BadParameter(asked, param_hint=hint)
    read_as = named if format == "auto" or named == "parquet" else format  # what is called Parquet is Parquet
    if read_as in ("jsonl", "parquet"):
        why = f"is about CSV and TSV, these are texts in {read_as}: leave it out"
        about_rows = {name: given.get(name) is not None for name in ("header", "quotes", "delimiter", "encoding")}
        _refuse(about_rows, dict.fromkeys(about_rows, why))
    return format
