"""fastText: the feature numbers are its words. It has no place for feature values, so they are lost.

It trains with twelve threads, its default, on the same CPUs as the others. With fewer than ten threads a part of its
input matrix stays uninitialised, and some runs end in NaN.

It reads its text file in each epoch, which counts as training, because it cannot be measured separately. "Parsing" is
writing that file. fastText never shuffles, so the file is shuffled. Points without a label are left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fasttext
import numpy as np
from scipy import sparse

from bench.peers.measure import Job, Labels, main

PREFIX = "__label__"
THREADS = 12


class FastText:
    distribution = "fasttext-numpy2"

    def __init__(self, job: Job) -> None:
        self.job = job
        self.file = job.folder / "shuffled.txt"

    def read(self) -> None:
        texts = self.points(self.job.matrix("train.X"))
        Y = self.job.matrix("train.Y")
        with self.file.open("w") as file:
            for i in np.random.default_rng(self.job.seed).permutation(len(texts)):
                labels = Y.indices[Y.indptr[i] : Y.indptr[i + 1]]
                if len(labels):
                    file.write(" ".join(f"{PREFIX}{label}" for label in labels) + f" {texts[i]}\n")

    def train(self) -> None:
        settings = dict(self.job.settings)
        settings["epoch"] = settings.pop("epochs")
        self.model = fasttext.train_supervised(
            str(self.file), label=PREFIX, thread=THREADS, seed=self.job.seed, verbose=0, **settings
        )

    def save(self, path: Path) -> None:
        self.model.save_model(str(path))

    def use_threads(self, threads: int) -> None:
        """Do nothing: fastText predicts on one thread."""

    def mask_seen_items(self) -> None:
        """Do nothing: it ranks all labels anyway."""

    def points(self, X: sparse.csr_matrix) -> Any:
        words = [str(number) for number in X.indices.tolist()]
        bounds = zip(X.indptr[:-1], X.indptr[1:], strict=True)
        return [" ".join(words[begin:end]) for begin, end in bounds]

    def predict(self, points: Any, k: int) -> Any:
        return self.model.predict(points, k=k)

    def ranked(self, output: Any) -> Labels:
        return ([int(label.removeprefix(PREFIX)) for label in row] for row in output[0])


if __name__ == "__main__":
    main(FastText)
