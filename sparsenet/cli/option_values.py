"""Checks of single option values: each returns the value that the program uses, or raises a usage error."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

#: The largest id or count: they are 32-bit integers.
MAX_INT = 2**31 - 1
#: File types that matplotlib writes.
PICTURES = (".png", ".svg", ".pdf")


def within(low: float, high: float) -> Callable[[Any], Any]:
    """Make a check that a number lies between two bounds."""

    def check(value: Any) -> Any:
        if value is not None and not low <= value <= high:
            raise typer.BadParameter(f"expected a number from {low} to {high}, got {value}")
        return value

    return check


def one_of(*choices: str, advice: str = "") -> Callable[[Any], Any]:
    """Make a check that a value is one of a few words."""

    def check(value: Any) -> Any:
        if value not in (None, *choices):
            raise typer.BadParameter(f"expected {', '.join(choices[:-1])} or {choices[-1]}, got {value!r}{advice}")
        return value

    return check


def picture(path: Path | None) -> Path | None:
    """Check that a picture can be written to a path."""
    if path is not None and path.suffix.lower() not in PICTURES:
        raise typer.BadParameter(f"{path} must end in one of {', '.join(PICTURES)}")
    if path is not None and not path.absolute().parent.is_dir():
        raise typer.BadParameter(f"there is no directory {path.parent} to write {path.name} into")
    return path


def learning_rate(value: float | None) -> float | None:
    """Check that a learning rate is positive; NaN is not."""
    if value is not None and not 0 < value <= 1000:
        raise typer.BadParameter(f"expected a number above 0, at most 1000, got {value:g}")
    return value


def size(text: str | None) -> str | None:
    """Check a number of bytes, with or without a unit."""
    if text is not None and not re.fullmatch(r"\s*\d{1,15}(\.\d+)?\s*([KMGT]I?)?B?\s*", text.upper()):
        raise typer.BadParameter(f"expected a number of bytes such as 8000000000, 8GB or 8GiB, got {text!r}")
    return text


def columns(names: list[str] | None) -> list[str]:
    """Check that no text column is named twice."""
    for name, times in Counter(names).items():
        if times > 1:
            raise typer.BadParameter(f"names the column {name!r} twice: name it once")
    return names or []


def label_delimiter(text: str | None) -> str | None:
    """Check that the separator of labels is not empty."""
    if text == "":
        raise typer.BadParameter("must not be empty: leave it out where a text has one label")
    return text


def delimiter(text: str | None) -> str | None:
    r"""Check that a character can separate fields; a tab may be written as \t."""
    return _of_dialect(delimiter="\t" if text == "\\t" else text)


def encoding(text: str | None) -> str | None:
    """Check that Python knows an encoding and can read it line by line."""
    return _of_dialect(encoding=text)


def _of_dialect(**given: str | None) -> str | None:
    [value] = given.values()
    if value is not None:
        from sparsenet.data.dialect import Dialect  # imported here to keep --help fast

        try:
            Dialect(**given)  # type: ignore[arg-type]  # mypy takes them for the two booleans
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    return value


def ranks(text: str) -> list[int]:
    """Parse the ranks at which a model is measured."""
    words = text.split(",")
    if not all(re.fullmatch(r"\s*\d{1,10}\s*", word) and 1 <= int(word) <= MAX_INT for word in words):
        raise typer.BadParameter(f"expected whole numbers from 1 on, separated by commas, got {text!r}")
    return [int(word) for word in words]


def propensity(text: str) -> tuple[float, float]:
    """Parse the two constants of propensities.

    >>> propensity("0.6,2.6")
    (0.6, 2.6)
    """
    try:
        a, b = map(float, text.split(","))
    except ValueError:
        a = b = math.nan
    if not (math.isfinite(a) and math.isfinite(b) and b > 0):
        raise typer.BadParameter(f"expected two numbers such as 0.55,1.5, the second above 0, got {text!r}")
    return a, b


def threshold(value: str) -> str:
    """Check a probability, or the word for the threshold that a model has learnt."""
    try:
        fits = value == "learnt" or 0 <= float(value) <= 1
    except ValueError:
        fits = False
    if not fits:
        raise typer.BadParameter(f"expected a number from 0 to 1, or learnt, got {value!r}")
    return value


def class_weight(text: str | None) -> str | dict[str, float] | None:
    """Parse the weights of labels.

    >>> class_weight("balanced"), class_weight('{"spam": 5}')
    ('balanced', {'spam': 5})
    """
    if text is None or text == "balanced":
        return text
    try:
        found = json.loads(text, object_pairs_hook=_distinct)
    except (ValueError, RecursionError):
        found = None
    if not (found and isinstance(found, dict) and all(isinstance(w, int | float) and w > 0 for w in found.values())):
        raise typer.BadParameter(f'expected balanced, or factors of labels such as {{"spam": 5}}, got {text!r}')
    return found


def types(text: str | None) -> dict[str, str] | None:
    """Parse the types of columns.

    >>> types("price=number,when=date"), types('{"a,b": "text"}')
    ({'price': 'number', 'when': 'date'}, {'a,b': 'text'})
    """
    if text is None:
        return None
    try:
        if text.lstrip().startswith("{"):
            found = json.loads(text, object_pairs_hook=_distinct)
        else:
            found = _distinct([_pair(part) for part in text.split(",")])
    except (ValueError, RecursionError):
        found = {}
    if not (found and isinstance(found, dict) and all(isinstance(kind, str) for kind in found.values())):
        raise typer.BadParameter(f"expected types of columns such as price=number,when=date, got {text!r}")
    return found


def _pair(text: str) -> tuple[str, str]:
    """Split a name and a type at the last equals sign."""
    name, kind = text.rsplit("=", 1)
    return name.strip(), kind.strip()


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dict from the pairs of a JSON object, and refuse a repeated key."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key is repeated")
    return dict(pairs)


def char_ngrams(text: str | None) -> str | tuple[int, int] | None:
    """Parse the lengths of character n-grams.

    >>> char_ngrams("3-5"), char_ngrams("4"), char_ngrams("none")
    ((3, 5), (4, 4), 'none')
    """
    if text in (None, "auto", "none"):
        return text
    match = re.fullmatch(r"(\d{1,2})(?:-(\d{1,2}))?", str(text))
    low, high = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= low <= high <= 64:
        raise typer.BadParameter(f"expected lengths from 1 to 64 such as 3-5, auto or none, got {text!r}")
    return low, high
