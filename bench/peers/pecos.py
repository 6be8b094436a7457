"""PECOS XR-Linear as its command-line tool trains it: PIFA label features, hierarchical k-means, linear rankers.

Inputs are L2-normalised, as its documentation requires. Its input format is .npz, so "parsing" is loading that. For
prediction the model is loaded as predict-only, as its documentation recommends for serving.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pecos.utils.smat_util import load_matrix
from pecos.xmc import Indexer, LabelEmbeddingFactory
from pecos.xmc.base import HierarchicalKMeans
from pecos.xmc.xlinear.model import XLinearModel
from scipy import sparse

from bench.peers.measure import WIDER_BEAM, Job, Labels, main, ranked_csr, unit_rows

BEAM = 10


class Pecos:
    distribution = "libpecos"

    def __init__(self, job: Job) -> None:
        self.job = job
        self.beam = BEAM

    def read(self) -> None:
        self.X = load_matrix(str(self.job.data / "train.X.npz"))
        self.Y = load_matrix(str(self.job.data / "train.Y.npz"))

    def train(self) -> None:
        X, threads = unit_rows(self.X), self.job.threads
        embedding = LabelEmbeddingFactory.create(self.Y.tocsr(), X, method="pifa", threads=threads)
        tree = Indexer.gen(embedding, train_params=HierarchicalKMeans.TrainParams(seed=self.job.seed, threads=threads))
        self.model = XLinearModel.train(X, self.Y.tocsc(), C=tree, threads=threads, **self.job.settings)

    def save(self, path: Path) -> None:
        self.model.save(str(path))
        self.model = self.load(path)

    @staticmethod
    def load(path: Path) -> XLinearModel:
        return XLinearModel.load(str(path), is_predict_only=True)

    def use_threads(self, threads: int) -> None:
        self.threads = threads

    def mask_seen_items(self) -> None:
        self.beam = BEAM + WIDER_BEAM

    def points(self, X: sparse.csr_matrix) -> Any:
        return unit_rows(X)

    def predict(self, points: Any, k: int) -> Any:
        return self.model.predict(points, only_topk=k, beam_size=self.beam, threads=self.threads)

    def ranked(self, output: Any) -> Labels:
        return ranked_csr(output)


if __name__ == "__main__":
    main(Pecos)
