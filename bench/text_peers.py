"""Run one system on texts in a separate process: ``python -m bench.text_peers JOB RESULT``.

It needs only the library of its system. A JSON file contains the texts and labels. Files and vectorising count as
training or prediction of the system, imports do not.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

#: The test texts are repeated up to this length for bulk prediction. A small test set takes only milliseconds, which
#: would measure how fast a thread wakes up.
BULK_CHARACTERS = 4_000_000
#: Time limit for single texts, for systems that need a fraction of a second for each.
SINGLES_SECONDS = 60.0
PREFIX = "__label__"


class Sparsenet:
    def __init__(self, threads: int, seed: int, **settings: Any) -> None:
        from sparsenet import TextClassifier, kernels

        kernels.backend()
        self.model = TextClassifier(n_jobs=threads, random_state=seed, **settings)
        TextClassifier(n_jobs=1).fit(["warm up", "the process"], ["a", "b"])  # loads late imports

    def train(self, texts: list[str], labels: list[str]) -> None:
        self.model.fit(texts, labels)

    def predict(self, texts: list[str]) -> list[str]:
        return list(map(str, self.model.predict(texts)))

    def one(self, text: str) -> str:
        return str(self.model.predict_one(text))

    def save(self, folder: Path) -> None:
        self.model.save(folder / "model")


class ScikitLearn:
    def __init__(self, threads: int, seed: int, kind: str) -> None:
        from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
        from sklearn.linear_model import LogisticRegression, SGDClassifier
        from sklearn.pipeline import make_pipeline
        from sklearn.svm import LinearSVC

        parts = {
            "linearsvc": (TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), LinearSVC(random_state=seed)),
            "logistic": (TfidfVectorizer(sublinear_tf=True), LogisticRegression(max_iter=1000)),
            "sgd": (HashingVectorizer(ngram_range=(1, 2)), SGDClassifier(n_jobs=threads, random_state=seed)),
        }
        self.model = make_pipeline(*parts[kind])

    def train(self, texts: list[str], labels: list[str]) -> None:
        self.model.fit(texts, labels)

    def predict(self, texts: list[str]) -> list[str]:
        return list(map(str, self.model.predict(texts)))

    def one(self, text: str) -> str:
        return str(self.model.predict([text])[0])

    def save(self, folder: Path) -> None:
        import joblib

        joblib.dump(self.model, folder / "model")


class FastText:
    """fastText, which splits its training file at white space: labels are written as numbers, since names may hold any.

    It trains with twelve threads, its default, on the same CPUs as the others; bench/README.md says why.
    """

    def __init__(self, threads: int, seed: int, **settings: Any) -> None:
        import fasttext

        self.library, self.seed, self.settings = fasttext, seed, settings

    def train(self, texts: list[str], labels: list[str]) -> None:
        self.names = sorted(set(labels))
        number = {label: i for i, label in enumerate(self.names)}
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            for i in np.random.default_rng(self.seed).permutation(len(texts)):  # fastText never shuffles
                file.write(f"{PREFIX}{number[labels[i]]} {_plain(texts[i])}\n")
            file.flush()
            options = {"thread": 12, "seed": self.seed, "verbose": 0, "wordNgrams": 2}
            self.model = self.library.train_supervised(file.name, **options, **self.settings)

    def predict(self, texts: list[str]) -> list[str]:
        answers, _ = self.model.predict([_plain(text) for text in texts])
        return [self._name(own) for own in answers]

    def one(self, text: str) -> str:
        return self._name(self.model.predict(_plain(text))[0])

    def _name(self, answer: Sequence[str]) -> str:
        """Return the name of the first label; an empty text gets none."""
        return self.names[int(answer[0].removeprefix(PREFIX))] if len(answer) else ""

    def save(self, folder: Path) -> None:
        self.model.save_model(str(folder / "model"))


class VowpalWabbit:
    def __init__(self, threads: int, seed: int, passes: int) -> None:
        from vowpalwabbit import pyvw

        self.library, self.seed, self.passes = pyvw, seed, passes

    def train(self, texts: list[str], labels: list[str]) -> None:
        self.names = sorted(set(labels))
        number = {label: i + 1 for i, label in enumerate(self.names)}
        lines = [f"{number[label]} | {_tokens(text)}" for text, label in zip(texts, labels, strict=True)]
        options = f"--oaa {len(self.names)} --ngram 2 -b 22 --loss_function logistic --quiet --random_seed {self.seed}"
        self.model = self.library.Workspace(options)
        random = np.random.default_rng(self.seed)
        for _ in range(self.passes):
            for i in random.permutation(len(lines)):
                self.model.learn(lines[i])

    def predict(self, texts: list[str]) -> list[str]:
        return [self.one(text) for text in texts]

    def one(self, text: str) -> str:
        return self.names[int(self.model.predict(f"| {_tokens(text)}")) - 1]

    def save(self, folder: Path) -> None:
        self.model.save(str(folder / "model"))


def _plain(text: str) -> str:
    return text.replace("\n", " ").lower()


def _tokens(text: str) -> str:
    return " ".join("".join(c if c.isalnum() else " " for c in text.lower()).split())


SYSTEMS: dict[str, Callable[[int, int], Any]] = {
    "sparsenet": Sparsenet,
    "linearsvc": lambda threads, seed: ScikitLearn(threads, seed, "linearsvc"),
    "logistic": lambda threads, seed: ScikitLearn(threads, seed, "logistic"),
    "sgd": lambda threads, seed: ScikitLearn(threads, seed, "sgd"),
    "fasttext": lambda threads, seed: FastText(threads, seed, epoch=5),
    "fasttext-25": lambda threads, seed: FastText(threads, seed, epoch=25, bucket=200_000, lr=1.0),
    "vw": lambda threads, seed: VowpalWabbit(threads, seed, passes=5),
}


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """Train and predict; return accuracy, times and size."""
    (texts, labels), (test, truth) = (json.loads(Path(job["data"]).read_text())[part] for part in ("train", "test"))
    system = SYSTEMS[job["system"]](job["threads"], job["seed"])
    cpu, wall = time.process_time(), time.perf_counter()
    system.train(texts, labels)
    found: dict[str, Any] = {"train_cpu": time.process_time() - cpu, "train_wall": time.perf_counter() - wall}
    answers = system.predict(test)
    found["accuracy"] = float(np.mean([a == b for a, b in zip(answers, truth, strict=True)]))
    found["macro_f1"] = macro_f1(answers, truth)
    many = test * math.ceil(BULK_CHARACTERS / sum(map(len, test)))
    cpu, wall = time.process_time(), time.perf_counter()
    system.predict(many)
    found |= {"bulk_cpu": len(many) / (time.process_time() - cpu), "bulk": len(many) / (time.perf_counter() - wall)}
    found |= {f"single_us_p{p}": 1e6 * seconds for p, seconds in singles(system, test[:2000], warm_up=50).items()}
    return {**found, "model_mb": size_mb(system)}


def macro_f1(answers: list[str], truth: list[str]) -> float:
    """Return the mean F1 over the labels of the truth."""
    right = Counter(a for a, b in zip(answers, truth, strict=True) if a == b)
    given, there = Counter(answers), Counter(truth)
    return float(np.mean([2 * right[label] / (given[label] + there[label]) for label in there]))


def singles(system: Any, texts: list[str], *, warm_up: int, most_seconds: float = SINGLES_SECONDS) -> dict[int, float]:
    """Return percentiles of the seconds per single text."""
    times: list[float] = []
    end = time.perf_counter() + most_seconds
    for text in texts[:warm_up] + texts:  # the first ones warm up caches
        start = time.perf_counter()
        if start > end and len(times) > warm_up:
            break
        system.one(text)
        times.append(time.perf_counter() - start)
    return {p: float(np.percentile(times[warm_up:], p)) for p in (50, 99)}


def size_mb(system: Any) -> float:
    """Return the size of a saved model in 10^6 bytes."""
    with tempfile.TemporaryDirectory() as folder:
        system.save(Path(folder))
        return sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file()) / 1e6


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(measure(json.loads(Path(sys.argv[1]).read_text()))))
