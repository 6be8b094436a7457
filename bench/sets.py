"""Functions of the scripts that write real data sets: words, frequent labels, options and files."""

from __future__ import annotations

import argparse
import gzip
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import MultiLabelBinarizer

from bench.planted import I64, write_xmc

TEST_SHARE = 1 / 6
#: A feature of fewer training points is dropped.
FEWEST_POINTS = 2
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")


def words(text: str) -> list[str]:
    """Split identifiers and prose into lower-case words.

    >>> words("read_csvFile of HTTPServer2")
    ['read', 'csv', 'file', 'of', 'http', 'server', '2']
    """
    return [word.lower() for word in _WORD.findall(text)]


@dataclass(frozen=True)
class Points:
    """The raw text and the labels of each point, and what turns a text into features."""

    texts: list[str]
    labels: list[list[str]]
    features: Callable[[str], list[str]] = words


def with_frequent(texts: Iterable[str], labels: Iterable[Iterable[str]], fewest: int) -> Points:
    """Drop labels with fewer than `fewest` points, then points without labels.

    >>> points = with_frequent(["a", "b", "c"], [["x", "y"], ["y"], ["x", "z"]], 2)
    >>> points.texts, points.labels
    (['a', 'b', 'c'], [['x', 'y'], ['y'], ['x']])
    """
    labels = [list(own) for own in labels]
    counts = Counter(label for own in labels for label in own)
    kept = [sorted(label for label in own if counts[label] >= fewest) for own in labels]
    return Points([text for text, own in zip(texts, kept, strict=True) if own], [own for own in kept if own])


def set_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options that all of the scripts share."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="the seed of the split into training and test points")
    parser.add_argument("--texts", action="store_true", help="write the raw texts, too, for bench.many_texts")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    return parser


def write_sets(sets: Iterable[tuple[str, Points]], options: argparse.Namespace) -> None:
    """Write each named set to a folder of its name below ``--out``, and with ``--texts`` its texts next to that."""
    for name, points in sets:
        print(f"{name}: {len(points.texts):,} points")
        parts = split(len(points.texts), options.seed)
        write_set(options.out / name, points, parts)
        for part, rows in parts.items() if options.texts else ():
            write_texts(options.out / f"{name}.{part}.jsonl.gz", points, rows)


def split(n: int, seed: int) -> dict[str, I64]:
    """Draw a sixth of the points for the test set."""
    order = np.random.default_rng(seed).permutation(n)
    cut = round(TEST_SHARE * n)
    return {"test": np.sort(order[:cut]), "train": np.sort(order[cut:])}


def write_set(folder: Path, points: Points, parts: dict[str, I64]) -> None:
    """Write a train.txt and a test.txt in the format of the extreme classification repository.

    Values are tf-idf; vocabulary and idf come from the training points. Points without a word of the vocabulary are
    left out.
    """
    vectorizer = TfidfVectorizer(analyzer=points.features, sublinear_tf=True, min_df=FEWEST_POINTS)
    vectorizer.fit([points.texts[i] for i in parts["train"]])
    indicator: Any = MultiLabelBinarizer(sparse_output=True).fit(points.labels)
    folder.mkdir(parents=True, exist_ok=True)
    for part, rows in parts.items():
        X = vectorizer.transform([points.texts[i] for i in rows]).tocsr()
        Y = indicator.transform([points.labels[i] for i in rows]).tocsr()
        has_words = np.diff(X.indptr) > 0
        write_xmc(folder / f"{part}.txt", X[has_words], Y[has_words])


def write_texts(file: Path, points: Points, rows: I64) -> None:
    """Write texts and their labels as compressed JSON lines."""
    with gzip.open(file, "wt", encoding="utf-8") as lines:
        for row in rows.tolist():
            lines.write(json.dumps({"text": points.texts[row], "labels": points.labels[row]}) + "\n")
