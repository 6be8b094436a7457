"""Two real data sets from the installed Python source; no default was chosen on them.

    python -m bench.source_sets [--source DIR ...] --out DIR [--seed 0]

A point is a function. In ``calls`` the labels are the names of the functions that it calls, and the features are the
words of its docstring and its name: many labels per point, with a long tail. In ``names`` the one label is its name,
and the features are its docstring, its variables and its calls. In about one of twelve a call has the same name, such
as a constructor. A nested function is part of the outer one, and a point of its own.

`bench.sets` writes the files. Installations differ, so compare only results of one installation.
"""

from __future__ import annotations

import ast
import hashlib
import sysconfig
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.sets import Points, set_parser, words, write_sets

#: The standard library and the installed packages.
INSTALLED = tuple(Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib"))


@dataclass(frozen=True)
class Function:
    """The parts of a function that become features and labels."""

    name: str
    docstring: str
    variables: tuple[str, ...]
    calls: frozenset[str]


def functions(sources: Iterable[Path]) -> Iterator[Function]:
    """Find the distinct functions below some folders; a copy in the test set would be too easy."""
    files = sorted({file.resolve() for source in sources for file in source.rglob("*.py")})
    seen_files, seen = set(), set()
    for file in files:
        source = file.read_bytes()
        if (digest := hashlib.sha256(source).digest()) in seen_files:
            continue
        seen_files.add(digest)
        for node in _parsed(source):
            found = _function(node)
            if found not in seen:
                seen.add(found)
                yield found


def _parsed(source: bytes) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the functions of a file; a file that Python cannot parse, such as a template, has none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in the source of others
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError, RecursionError):
            return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Function:
    variables, calls = [], set()
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute | ast.Name):
            calls.add(part.func.attr if isinstance(part.func, ast.Attribute) else part.func.id)
        elif isinstance(part, ast.Name):
            variables.append(part.id)
        elif isinstance(part, ast.arg):
            variables.append(part.arg)
    return Function(node.name, ast.get_docstring(node) or "", tuple(variables), frozenset(calls))


def calls_set(found: list[Function]) -> Points:
    """Return the texts and labels of ``calls``: docstrings and names, and the names of called functions."""
    calling = [function for function in found if function.calls]
    return Points([f"{f.docstring}\n{f.name}" for f in calling], [sorted(f.calls) for f in calling])


def names_set(found: list[Function]) -> Points:
    """Return the texts and labels of ``names``: docstrings, variables and, on the last line, calls; and the name."""
    texts = [f"{f.docstring}\n{' '.join(f.variables)}\n{' '.join(f'{name}()' for name in f.calls)}" for f in found]
    return Points(texts, [[f.name] for f in found], words_and_calls)


def words_and_calls(text: str) -> list[str]:
    """Return the words of a text of ``names``, and each call on its last line whole."""
    prose, _, calls = text.rpartition("\n")
    return words(prose) + calls.split()


def main(arguments: Sequence[str] | None = None) -> None:
    """Write both sets."""
    parser = set_parser(__doc__)
    parser.add_argument("--source", type=Path, nargs="+", default=INSTALLED, metavar="DIR")
    options = parser.parse_args(arguments)
    found = list(functions(options.source))
    write_sets({"calls": calls_set(found), "names": names_set(found)}.items(), options)


if __name__ == "__main__":
    main()
