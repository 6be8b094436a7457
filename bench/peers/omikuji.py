"""Omikuji: Parabel by default, Bonsai and AttentionXML-like trees by settings.

`Model.train_on_data` parses and trains; here the two steps are called separately, to measure each. For prediction the
weights are densified, as its command-line tool does by default. Its binding predicts one point per call and takes no
seed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import omikuji
from omikuji._libomikuji import ffi, lib
from scipy import sparse

from bench.peers.measure import WIDER_BEAM, Job, Labels, bags, main

BEAM = 10


class Omikuji:
    distribution = "omikuji"

    def __init__(self, job: Job) -> None:
        self.job = job
        self.beam = BEAM
        self.params = omikuji.Model.default_hyper_param()
        for name, value in job.settings.items():
            setattr(self.params, name, value)
        self.pool = ffi.gc(lib.init_omikuji_thread_pool(job.threads), lib.free_omikuji_thread_pool)

    def read(self) -> None:
        path = str(self.job.data / "train.txt").encode()
        self.data = ffi.gc(lib.load_omikuji_data_set(path, self.pool), lib.free_omikuji_data_set)
        if self.data == ffi.NULL:
            raise RuntimeError("Omikuji could not load train.txt")

    def train(self) -> None:
        model = lib.train_omikuji_model(self.data, self.params, self.pool)
        if model == ffi.NULL:
            raise RuntimeError("Omikuji could not train a model")
        self.model = omikuji.Model(model)

    def save(self, path: Path) -> None:
        path.mkdir()
        self.model.save(str(path))
        self.model.densify_weights(n_threads=self.job.threads)

    def use_threads(self, threads: int) -> None:
        self.model.init_prediction_thread_pool(threads)

    def mask_seen_items(self) -> None:
        self.beam = BEAM + WIDER_BEAM

    def points(self, X: sparse.csr_matrix) -> Any:
        X.sort_indices()
        return bags(X)

    def predict(self, points: Any, k: int) -> Any:
        return [self.model.predict(point, beam_size=self.beam, top_k=k) for point in points]

    def ranked(self, output: Any) -> Labels:
        return ([label for label, _ in row] for row in output)


if __name__ == "__main__":
    main(Omikuji)
