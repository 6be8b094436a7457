"""Output of the commands: results, messages, and errors in one line."""

from __future__ import annotations

import json as json_format
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import typer

from sparsenet.cli.option_table import options_of

#: Arguments of Python in advice, and the options that replace them.
_OPTIONS = {
    r"\bquotes=False": "--no-quotes",
    r"\bquotes=True": "--quotes",
    r"\bheader=False": "--no-header",
    r"\bheader=True": "--header",
    r"\bdelimiter=('\\?.')": r"--delimiter \1",
    r"\bdecimal=','": "--decimal ,",
    r"\bwith exclude_seen=False": "with --include-seen",
    r"\bencoding='([\w-]+)'": r"--encoding \1",
    r"raise memory_limit": "raise --memory-limit",
    r"\btime_budget leaves": "--time-budget leaves",
    r"\btext and target are both": "--text and --target are both",
    r"^(text|types) names the column": r"--\1 names the column",
    r"\btext=('[^']*'|\[.*\]) is for tables": r"--text \1 is for tables",
    r"^class_weight names no label of y: (.*), y has": r"--class-weight names no label: \1, the texts have",
    r"\blower beam\b": "lower --beam",
    r"lower bits, for fewer features, or leave out rare labels": "leave out rare labels",
    r"\(n_(feature|label)s=(\d+)\)": r"(there are \2 \1s; train --\1s makes room for more)",
    r"\bn_(feature|label)s=(\d+)": r"--\1s \2",
    r"\bmax_bytes=": "--max-bytes ",
    r"\bfit\(checkpoint=\.\.\., resume=True\)": "train --resume",
    r"\bExtremeClassifier\.fit\b": "--method network",
    r"\bBlendClassifier\.fit\b": "--method blend",
    r"\bn_negatives=": "--negatives ",
    r"\b(cost|epochs|hidden|patience)=": r"--\1 ",
    r"\b(batch|wide)_(size|budget)=": r"--\1-\2 ",
    r"name the columns, or give positions if there is no header$": "name the columns with --text and --target, or give "
    "positions if there is no header. Without texts, --target NAME trains on a table of numbers, categories and dates",
    r"\bnormalize='(\w+)'": r"--normalize \1",
    r"\btypes=\{'([^']*)': '(\w+)'\}": r"--types \1=\2",
    r"\b(user|item|source|target|time|weight)=('[^']*' is not a column)": r"--\1 \2",
    r"\bevent_features\[\d+\]=('[^']*' is not a column)": r"--event-features \1",
    r"by time=, or pass time=None if rows are in order": "by --time",
    r"\bpass split='random'": "add --split random",
    r"\bpass sort=True": "pass --sort",
    r"lower max_nodes, memory or neighbors": "lower --max-nodes, --memory or --neighbors",
    r"lower learning_rate, or": "lower --learning-rate, or",
    r"\(keep_users=False\)": "(train --no-keep-users)",
    r"\bseed \(by random_state\)=": "seed (by --seed)=",
}

#: An option in a message, unless the command stands before it.
_NAMED = re.compile(r"(?<!train )(?<!evaluate )(?<![\w'-])--[a-z][a-z-]+")

#: Messages of failed allocations in C++, NumPy and Numba, which do not name the step.
_ALLOCATION_FAILED = re.compile(r"(std::bad_alloc|Unable to allocate .*|Allocation failed .*)?", re.DOTALL)


def show(result: dict[str, Any], as_json: bool, text: str) -> None:
    """Print a result as JSON or in words."""
    print(json_format.dumps(result) if as_json else text, flush=True)


def say(text: str) -> None:
    """Print a message on stderr."""
    print(f"sparsenet: {text}", file=sys.stderr)


def count(n: float, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is 1."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


class SkippedLines:
    """Counts lines that are not rows, so that users can align answers with lines."""

    def __init__(self) -> None:
        self._n = 0

    def add(self, n: int) -> None:
        """Count further lines."""
        self._n += n

    def report(self, path: os.PathLike[str], why: str) -> None:
        """Report how many there were, if any."""
        from sparsenet.data.sources import name_of  # imported here to keep --help fast

        if self._n:
            say(f"{count(self._n, 'line')} of {name_of(path)} got no answer: {why}")


@contextmanager
def before_saving(model_path: Path, what: str) -> Iterator[None]:
    """On Ctrl-C report what was interrupted, and that the model directory has not changed."""
    try:
        yield
    except (KeyboardInterrupt, ImportError) as error:
        if not _is_interrupt(error):
            raise
        described = isinstance(error, KeyboardInterrupt) and str(error)
        raise KeyboardInterrupt(described or f"while {what}: {nothing_saved(model_path)}") from None


def nothing_saved(model_path: Path) -> str:
    """Describe the state of the model directory after a run that saved nothing."""
    return f"no model is saved, {model_path} stays as it was" if model_path.exists() else "no model is saved"


def _is_interrupt(error: BaseException) -> bool:
    """Return whether Ctrl-C caused an error: an extension module that it interrupts raises an ImportError."""
    return isinstance(error, KeyboardInterrupt) or isinstance(error.__cause__, KeyboardInterrupt)


@contextmanager
def errors_reported(command: str) -> Iterator[None]:
    """Turn the errors of a command into one line and an exit status."""

    def show_warning(message: Warning | str, *_: object, **__: object) -> None:
        say(f"warning: {in_options(str(message), command)}")

    warnings.showwarning = show_warning
    try:
        yield
    except KeyboardInterrupt as interrupt:
        say("interrupted" + (f": {interrupt}" if str(interrupt) else ""))
        raise typer.Exit(130) from None
    except (ValueError, ArithmeticError, MemoryError, OSError, ImportError) as error:
        if _is_interrupt(error):
            say("interrupted")
            raise typer.Exit(130) from None
        _fail(error, command)


@contextmanager
def memory_for(what: str) -> Iterator[None]:
    """Name the step that ran out of memory, if an allocation fails without an explanation."""
    try:
        yield
    except MemoryError as error:
        if not _ALLOCATION_FAILED.fullmatch(str(error)):
            raise
        raise MemoryError(f"memory ran out for {what}") from None


def in_options(text: str, command: str = "train") -> str:
    """Replace arguments of Python in advice by options of the command line, and mark options of other commands.

    >>> in_options("close it, or read the file with quotes=False")
    'close it, or read the file with --no-quotes'
    >>> in_options("lower max_nodes, memory or neighbors", "update")
    'lower --max-nodes, --memory or --neighbors (options of train: --max-nodes, --memory, --neighbors)'
    """
    for argument, option in _OPTIONS.items():
        text = re.sub(argument, option, text)
    format_option = "--input-format" if command == "predict" else "--format"
    text = re.sub(r"\bformat='(\w+)'", rf"{format_option} \1", text).replace("format= ", f"{format_option} ")
    own = {option.flag for option in options_of(command)}
    lacking = []
    for other in ("train", "evaluate"):
        flags = {option.flag for option in options_of(other)} - own
        named = [name for name in dict.fromkeys(_NAMED.findall(text)) if name.replace("--no-", "--") in flags]
        lacking += [f"options of {other}: {', '.join(named)}"] if named else []
        own |= flags
    return f"{text} ({'; '.join(lacking)})" if lacking else text


def _fail(error: Exception, command: str) -> NoReturn:
    text = str(error) or type(error).__name__
    if isinstance(error, MemoryError) and _ALLOCATION_FAILED.fullmatch(str(error)):
        text = f"memory ran out ({text})"
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror if error.filename is None else f"{os.fspath(error.filename)}: {error.strerror}"
    say(f"error: {' '.join(in_options(text, command).split())}")
    raise typer.Exit(1)
