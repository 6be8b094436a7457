"""Two real data sets from the installed Python source; no default was chosen on them.

    python -m bench.source_sets [--source DIR ...] --out DIR [--seed 0]

A point is a function. In ``calls`` the labels are the names of the functions that it calls, and the features are the
words of its docstring and its name: many labels per point, with a long tail. In ``names`` the one label is its name,
and the features are its docstring, its variables and its calls. In about one of twelve a call has the same name, such
as a constructor. A nested function is part of the outer one, and a point of its own.

Each set is a folder with a train.txt and a test.txt, which holds a sixth of the functions, in the format of the extreme
classification repository. Values are tf-idf; vocabulary and idf come from the training functions. Installations differ,
so compare only results of one installation.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import re
import sysconfig
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import MultiLabelBinarizer

from bench.planted import write_xmc

#: The standard library and the installed packages.
INSTALLED = tuple(Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib"))
TEST_SHARE = 1 / 6
#: A word in fewer functions is dropped.
FEWEST_FUNCTIONS = 2
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")


@dataclass(frozen=True)
class Function:
    """The parts of a function that become features and labels."""

    name: str
    docstring: str
    variables: tuple[str, ...]
    calls: frozenset[str]


def words(text: str) -> list[str]:
    """Split identifiers and prose into lower-case words.

    >>> words("read_csvFile of HTTPServer2")
    ['read', 'csv', 'file', 'of', 'http', 'server', '2']
    """
    return [word.lower() for word in _WORD.findall(text)]


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


def calls_set(found: list[Function]) -> tuple[list[list[str]], list[list[str]]]:
    """Return features and labels of ``calls``: words, and the names of called functions."""
    calling = [function for function in found if function.calls]
    return [words(f"{f.docstring} {f.name}") for f in calling], [sorted(f.calls) for f in calling]


def names_set(found: list[Function]) -> tuple[list[list[str]], list[list[str]]]:
    """Return features and labels of ``names``: words and calls, and the name of the function."""
    texts = [words(f.docstring) + words(" ".join(f.variables)) + [f"{name}()" for name in f.calls] for f in found]
    return texts, [[f.name] for f in found]


def with_frequent(
    texts: list[list[str]], labels: Iterable[Iterable[str]], fewest: int
) -> tuple[list[list[str]], list[list[str]]]:
    """Drop labels with fewer than `fewest` points, then points without labels.

    >>> with_frequent([["a"], ["b"], ["c"]], [["x", "y"], ["y"], ["x", "z"]], 2)
    ([['a'], ['b'], ['c']], [['x', 'y'], ['y'], ['x']])
    """
    labels = [list(own) for own in labels]
    counts = Counter(label for own in labels for label in own)
    kept = [sorted(label for label in own if counts[label] >= fewest) for own in labels]
    return [text for text, own in zip(texts, kept, strict=True) if own], [own for own in kept if own]


def write(folder: Path, texts: list[list[str]], labels: list[list[str]], seed: int) -> None:
    """Write one set; points without a word of the vocabulary are left out."""
    order = np.random.default_rng(seed).permutation(len(texts))
    cut = round(TEST_SHARE * len(texts))
    parts = {"test": np.sort(order[:cut]), "train": np.sort(order[cut:])}
    features = TfidfVectorizer(analyzer=lambda text: text, sublinear_tf=True, min_df=FEWEST_FUNCTIONS)
    features.fit([texts[i] for i in parts["train"]])
    indicator: Any = MultiLabelBinarizer(sparse_output=True).fit(labels)
    folder.mkdir(parents=True, exist_ok=True)
    for part, rows in parts.items():
        X, Y = (
            made.tocsr()
            for made in (features.transform([texts[i] for i in rows]), indicator.transform([labels[i] for i in rows]))
        )
        has_words = np.diff(X.indptr) > 0
        write_xmc(folder / f"{part}.txt", X[has_words], Y[has_words])


def main() -> None:
    """Write both sets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, nargs="+", default=INSTALLED, metavar="DIR")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    options = parser.parse_args()
    found = list(functions(options.source))
    print(f"{len(found):,} functions")
    for name, made in (("calls", calls_set), ("names", names_set)):
        write(options.out / name, *made(found), options.seed)


if __name__ == "__main__":
    main()
