"""Functions of the scripts that write real data sets: words, frequent labels, options and files."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import MultiLabelBinarizer

from bench.planted import write_xmc

#: The features of each point, and the labels of each point.
Points: TypeAlias = tuple[list[list[str]], list[list[str]]]
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


def with_frequent(features: list[list[str]], labels: Iterable[Iterable[str]], fewest: int) -> Points:
    """Drop labels with fewer than `fewest` points, then points without labels.

    >>> with_frequent([["a"], ["b"], ["c"]], [["x", "y"], ["y"], ["x", "z"]], 2)
    ([['a'], ['b'], ['c']], [['x', 'y'], ['y'], ['x']])
    """
    labels = [list(own) for own in labels]
    counts = Counter(label for own in labels for label in own)
    kept = [sorted(label for label in own if counts[label] >= fewest) for own in labels]
    return [text for text, own in zip(features, kept, strict=True) if own], [own for own in kept if own]


def set_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options that all of the scripts share."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="the seed of the split into training and test points")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    return parser


def write_sets(sets: Iterable[tuple[str, Points]], options: argparse.Namespace) -> None:
    """Write each named set to a folder of its name below ``--out``."""
    for name, (features, labels) in sets:
        print(f"{name}: {len(features):,} points")
        write_set(options.out / name, features, labels, options.seed)


def write_set(folder: Path, features: list[list[str]], labels: list[list[str]], seed: int) -> None:
    """Write a train.txt and a test.txt in the format of the extreme classification repository.

    A sixth of the points becomes the test set. Values are tf-idf; vocabulary and idf come from the training points.
    Points without a word of the vocabulary are left out.
    """
    order = np.random.default_rng(seed).permutation(len(features))
    cut = round(TEST_SHARE * len(features))
    parts = {"test": np.sort(order[:cut]), "train": np.sort(order[cut:])}
    vectorizer = TfidfVectorizer(analyzer=lambda text: text, sublinear_tf=True, min_df=FEWEST_POINTS)
    vectorizer.fit([features[i] for i in parts["train"]])
    indicator: Any = MultiLabelBinarizer(sparse_output=True).fit(labels)
    folder.mkdir(parents=True, exist_ok=True)
    for part, rows in parts.items():
        X = vectorizer.transform([features[i] for i in rows]).tocsr()
        Y = indicator.transform([labels[i] for i in rows]).tocsr()
        has_words = np.diff(X.indptr) > 0
        write_xmc(folder / f"{part}.txt", X[has_words], Y[has_words])
