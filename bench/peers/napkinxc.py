"""napkinXC: a probabilistic label tree with default settings. It writes its model to disk during training."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from napkinxc.datasets import load_libsvm_file
from napkinxc.models import PLT
from scipy import sparse

from bench.peers.measure import Job, Labels, main


class NapkinXC:
    distribution = "napkinxc"

    def __init__(self, job: Job) -> None:
        self.job = job
        self.output = job.folder / "plt"
        self.output.mkdir()
        self.model = PLT(str(self.output), seed=job.seed, threads=job.threads, **job.settings)

    def read(self) -> None:
        self.X, self.Y = load_libsvm_file(str(self.job.data / "train.txt"), labels_format="csr_matrix")

    def train(self) -> None:
        self.model.fit(self.X, self.Y)

    def save(self, path: Path) -> None:
        shutil.copytree(self.output, path)
        self.model.load()

    def use_threads(self, threads: int) -> None:
        self.model.set_params(threads=threads)

    def mask_seen_items(self) -> None:
        """Do nothing: it ranks all labels anyway."""

    def points(self, X: sparse.csr_matrix) -> Any:
        return X

    def predict(self, points: Any, k: int) -> Any:
        return self.model.predict(points, top_k=k)

    def ranked(self, output: Any) -> Labels:
        labels: Labels = output
        return labels


if __name__ == "__main__":
    main(NapkinXC)
