"""sparsenet: its public classifiers with default settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scipy import sparse

import sparsenet
from bench.peers.measure import TOP, Job, Labels, main
from sparsenet import BlendClassifier, ExtremeClassifier, TreeClassifier
from sparsenet.data import read_xmc
from sparsenet.engines.blend import fit_blend
from sparsenet.engines.tree import train_levels

ESTIMATORS = {kind.__name__: kind for kind in (ExtremeClassifier, TreeClassifier, BlendClassifier)}


class Sparsenet:
    distribution = "sparsenet"

    def __init__(self, job: Job) -> None:
        self.job = job
        self.settings = dict(job.settings)
        self.masks_seen = False
        self.estimator = ESTIMATORS[self.settings.pop("estimator", "ExtremeClassifier")]
        self.rounds = self.settings.pop("rounds", True)
        if not self.rounds:  # all that rounds a blend to 8 and 16 bits, but for the weights of trees
            unchanged = {fit_blend: ("rounded_neighbors", "round_network"), train_levels: ("to_bfloat16",)}
            for module, names in unchanged.items():
                for name in names:
                    setattr(module, name, lambda part, *rest: part)

    def read(self) -> None:
        text = self.job.data / "train.txt"
        if text.exists():
            points = read_xmc(text)
            self.given = points.X, points.Y
        else:  # planted data has no text files
            self.given = self.job.matrix("train.X"), self.job.matrix("train.Y")

    def train(self) -> None:
        model = self.estimator(n_jobs=self.job.threads, random_state=self.job.seed)
        self.model = model.set_params(**self.settings).fit(*self.given)

    def save(self, path: Path) -> None:
        if self.rounds:
            self.model.save(path)
            self.model = self.load(path)

    @staticmethod
    def load(path: Path) -> Any:
        return sparsenet.load(path)

    def use_threads(self, threads: int) -> None:
        self.model.set_params(n_jobs=threads)
        # A network's predictor is approximate: bench.inference measures it.
        self.one = None if isinstance(self.model, ExtremeClassifier) else self.model.predictor(TOP).one

    def mask_seen_items(self) -> None:
        self.masks_seen = True

    def points(self, X: sparse.csr_matrix) -> Any:
        return X

    def predict(self, points: Any, k: int) -> Any:
        if self.masks_seen:
            return self.model.topk(points, TOP, exclude=points)
        if self.one is not None and points.shape[0] == 1 and k == TOP:
            labels, p = self.one(points.indices, points.data)
            return labels[None], p[None]
        return self.model.topk(points, k)

    def ranked(self, output: Any) -> Labels:
        labels: Labels = output[0]  # for an indicator matrix the classes are column numbers
        return labels


if __name__ == "__main__":
    main(Sparsenet)
