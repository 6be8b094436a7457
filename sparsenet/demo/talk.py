"""The demo: learn the symbol of scientific Python that a sentence describes, then answer questions with symbols."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import TfidfVectorizer
from tqdm import tqdm

from sparsenet import metrics, plots
from sparsenet.demo import docstrings
from sparsenet.demo.docstring_points import DocstringCorpus, build
from sparsenet.engines.network.training import Progress
from sparsenet.estimators.extreme import ExtremeClassifier

QUESTIONS = (
    "sort an array in place",
    "fit a polynomial to points",
    "compute the inverse of a matrix",
    "find the root of a function",
    "split a string into a list of words",
    "nearest neighbors of a point",
    "create a temporary directory",
    "compile a Python function to native code",
    "split arrays into random train and test sets",
    "smooth an image with a Gaussian filter",
)
#: Words that do not describe a function. Word pairs are better without them, too.
STOP_WORDS = "a an and are as be by can for from if in is it not of on or that the this to which with".split()  # noqa: SIM905
ANSWERS = 3


@dataclass(frozen=True)
class Answerer:
    """A trained classifier with its vocabulary and symbols."""

    vectorizer: TfidfVectorizer
    model: ExtremeClassifier
    symbols: Sequence[str]

    def answer(self, question: str, k: int = ANSWERS) -> list[tuple[str, float]]:
        """Return the k most likely symbols with their probabilities."""
        labels, probabilities = self.model.topk(self.vectorizer.transform([question]), k)
        return [(self.symbols[label], float(p)) for label, p in zip(labels[0], probabilities[0], strict=True)]


def run(output: Path, *, interactive: bool = False, threads: int | None = None, seed: int = 0) -> None:
    """Run the demo: collect, train, measure, draw, answer. Results go to stdout, messages to stderr."""
    started = time.perf_counter()
    with tqdm(unit=" packages", disable=None, leave=False) as bar:

        def follow(source: str) -> None:
            bar.set_description(f"reading the docstrings of {source}")
            bar.update()

        found = docstrings.collect(follow)
    teach(found, output, interactive=interactive, threads=threads, seed=seed)
    _say(f"{time.perf_counter() - started:.0f} seconds in all")


def teach(
    found: docstrings.Symbols,
    output: Path,
    *,
    interactive: bool = False,
    threads: int | None = None,
    seed: int = 0,
    held_out: int = 7000,
    questions: Sequence[str] = QUESTIONS,
) -> None:
    """Train on docstrings, measure, draw, and answer questions."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    for name, problem in found.problems.items():
        _say(f"left out {name}: {problem}")
    _say(f"{len(found.docstrings)} symbols with a docstring")
    corpus = build(found.docstrings, held_out=held_out, seed=seed)
    answerer, scores = learn(corpus, threads=threads, seed=seed)
    console.print(
        f"Held-out sentences ({scores['points']}): the right one of {len(corpus.symbols)} symbols comes first for "
        f"{scores['P@1']:.1%} of them, and is among the best five for {scores['recall@5']:.1%}  "
        f"(P@1 {scores['P@1']:.3f}, P@5 {scores['P@5']:.3f})",
        highlight=False,
    )
    _draw(answerer.model.history_, output)
    console.print(table_of_answers(answerer, questions))
    if interactive:
        _converse(answerer, console)


def learn(corpus: DocstringCorpus, *, threads: int | None = None, seed: int = 0) -> tuple[Answerer, dict[str, float]]:
    """Train on a corpus with the defaults, and measure on its held-out points.

    The first two sevenths of them choose the best epoch. The others are measured once, at the end.
    """
    vectorizer = TfidfVectorizer(
        stop_words=STOP_WORDS, ngram_range=(1, 2), sublinear_tf=True, min_df=2, dtype=np.float32
    )
    n_labels, held_out = len(corpus.symbols), corpus.held_out
    X, Y = vectorizer.fit_transform(corpus.train.texts), _indicator(corpus.train.labels, n_labels)
    held_X, held_Y = vectorizer.transform(held_out.texts), _indicator(held_out.labels, n_labels)
    n_validation = len(held_out.texts) * 2 // 7
    _say(f"{X.shape[0]} sentences, {X.shape[1]} features, {n_labels} symbols: training")
    model = ExtremeClassifier(n_jobs=threads, random_state=seed)
    callbacks = [] if sys.stderr.isatty() else [_EpochLines()]
    model.fit(X, Y, validation=(held_X[:n_validation], held_Y[:n_validation]), callbacks=callbacks)
    predicted = model.predict_topk(held_X[n_validation:], k=5)
    scores = metrics.evaluate(held_Y[n_validation:], predicted, ks=[1, 5])
    return Answerer(vectorizer, model, corpus.symbols), {**scores, "points": predicted.shape[0]}


def table_of_answers(answerer: Answerer, questions: Iterable[str]) -> Table:
    """Lay out questions with their answers."""
    table = Table("question", "symbol", "probability")
    table.columns[1].overflow = "fold"
    table.columns[2].justify = "right"
    for question in questions:
        for rank, (symbol, probability) in enumerate(answerer.answer(question)):
            table.add_row("" if rank else question, symbol, f"{probability:.1%}", end_section=rank == ANSWERS - 1)
    return table


class _EpochLines:
    """Prints a line per epoch where a progress bar cannot be drawn."""

    def on_batch(self, progress: Progress) -> None:
        self._epochs = progress.epochs

    def on_epoch(self, record: dict[str, float]) -> None:
        _say(
            f"epoch {record['epoch']:.0f}/{self._epochs}: loss {record['loss']:.4g}, "
            f"P@1 {record['P@1']:.1%}, {record['seconds']:.0f} s"
        )


def _indicator(labels: Sequence[Sequence[int]], width: int) -> csr_array:
    indptr = np.cumsum([0, *map(len, labels)])
    return csr_array((np.ones(indptr[-1], np.float32), np.concatenate(labels), indptr), shape=(len(labels), width))


def _draw(history: Sequence[dict[str, Any]], folder: Path) -> None:
    """Save the curves of loss and P@1 as a picture."""
    if importlib.util.find_spec("matplotlib") is None:
        _say("no picture: matplotlib is missing (pip install 'sparsenet[plot]')")
        return
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "training.png"
    plots.training_curve(history).savefig(path)
    print(f"The curves of loss and P@1: {path}")


def _converse(answerer: Answerer, console: Console) -> None:
    """Answer questions until an empty line or the end of input."""
    _say("ask for what you need; an empty line ends the demo")
    while True:
        if sys.stdin.isatty():
            print("> ", end="", file=sys.stderr, flush=True)  # input() would write it among the answers
        try:
            question = input().strip()
        except EOFError:
            return
        if not question:
            return
        console.print(table_of_answers(answerer, [question]))


def _say(text: str) -> None:
    print(f"sparsenet: {text}", file=sys.stderr, flush=True)
