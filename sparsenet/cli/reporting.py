"""What a command leaves for people and programs: its result, or one line that says what went wrong."""

from __future__ import annotations

import json as json_format
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer


def show(result: dict[str, Any], as_json: bool, text: str) -> None:
    """Print a result, as JSON or in words."""
    print(json_format.dumps(result) if as_json else text, flush=True)


def say(text: str) -> None:
    """Tell people something beside the result."""
    print(f"sparsenet: {text}", file=sys.stderr)


@contextmanager
def errors_reported() -> Iterator[None]:
    """Turn what may go wrong into one line and an exit status."""
    warnings.showwarning = _show_warning
    try:
        yield
    except KeyboardInterrupt as interrupt:
        say("interrupted" + (f": {interrupt}" if str(interrupt) else ""))
        raise typer.Exit(130) from None
    except (ValueError, ArithmeticError, MemoryError, OSError, ImportError) as error:
        _fail(error)


def _fail(error: Exception) -> NoReturn:
    text = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.filename is not None:
        text = f"{os.fspath(error.filename)}: {error.strerror}"
    say(f"error: {' '.join(text.split())}")
    raise typer.Exit(1)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    say(f"warning: {message}")
