"""One model of `bench.embeddings`, in a process of its own: ``python -m bench.embedding_run JOB RESULT``.

Only NumPy, SciPy and the package of the model are imported, so that PECOS runs in its own environment.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bench.embedding_sets import Embeddings
from bench.peers.measure import forget_peak, measured, peak_mb, ranked_csr

Array = NDArray[Any]
#: Points that are compared with all training points at once.
AT_A_TIME = 500
TOP = 5
#: Neighbors that vote in a blend.
VOTERS = 50


class Model(Protocol):
    def fit(self, X: Array, Y: sparse.csr_array) -> Any: ...

    def best(self, X: Array) -> Array:
        """Return the best labels of each point, (n, TOP)."""


class Knn:
    """A vote of the nearest points by cosine; their number is chosen on a tenth of the training points."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.choices: dict[str, str] = {}

    def fit(self, X: Array, Y: sparse.csr_array) -> None:
        held = np.arange(len(X)) % 10 == 0
        self.X, self.Y = X[~held], Y[np.flatnonzero(~held)]
        scores = {}
        for self.k in (1, 5, 10, 20, 50):
            found = self.best(X[held][:1000])[:, :1]
            scores[self.k] = precision(found, Y[np.flatnonzero(held)[:1000]])
        self.k = max(scores, key=lambda k: scores[k])
        self.X, self.Y, self.choices = X, Y, {"k": str(self.k)}

    def best(self, X: Array) -> Array:
        found = []
        for begin in range(0, len(X), AT_A_TIME):
            cosines = X[begin : begin + AT_A_TIME] @ self.X.T
            k = min(self.k, len(self.X))
            near = np.argpartition(-cosines, k - 1, axis=1)[:, :k]
            weights = np.maximum(np.take_along_axis(cosines, near, axis=1), 1e-9)
            indptr = np.arange(len(near) + 1) * k
            votes = sparse.csr_array((weights.ravel(), near.ravel(), indptr), shape=(len(near), len(self.X))) @ self.Y
            found.append(_top(votes))
        return np.concatenate(found)


class Centroid:
    """The label whose mean point has the largest cosine."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.choices: dict[str, str] = {}

    def fit(self, X: Array, Y: sparse.csr_array) -> None:
        sums = np.asarray(Y.T.tocsr() @ X, np.float32)
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        self.means = sums / np.where(lengths > 0, lengths, 1)

    def best(self, X: Array) -> Array:
        return _in_blocks(X, lambda part: part @ self.means.T)


class Logistic:
    """scikit-learn's LogisticRegression of standardised columns; the cost is chosen on a tenth of the points."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.threads = job["threads"]
        self.choices: dict[str, str] = {}

    def fit(self, X: Array, Y: sparse.csr_array) -> None:
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import GridSearchCV, ShuffleSplit
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        one = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300, tol=1e-3))
        tenth = ShuffleSplit(1, test_size=0.1, random_state=0)
        search = GridSearchCV(one, {"logisticregression__C": [0.01, 0.1, 1.0]}, cv=tenth)
        self.model = search.fit(X, Y.indices)
        self.choices = {"C": str(search.best_params_["logisticregression__C"])}

    def best(self, X: Array) -> Array:
        return _in_blocks(X, self.model.predict_proba, self.model.classes_)


class Pecos:
    """PECOS XR-Linear with its defaults: PIFA, k-means, beam 10."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.threads, self.seed = job["threads"], job["seed"]
        self.choices: dict[str, str] = {}

    def fit(self, X: Array, Y: sparse.csr_array) -> None:
        from pecos.xmc import Indexer, LabelEmbeddingFactory
        from pecos.xmc.base import HierarchicalKMeans
        from pecos.xmc.xlinear.model import XLinearModel

        X, known = np.ascontiguousarray(X, np.float32), sparse.csr_matrix(Y, dtype=np.float32)
        embedding = LabelEmbeddingFactory.create(known, X, method="pifa", threads=self.threads)
        settings = HierarchicalKMeans.TrainParams(seed=self.seed, threads=self.threads)
        tree = Indexer.gen(embedding, train_params=settings)
        self.model = XLinearModel.train(X, known.tocsc(), C=tree, threads=self.threads)

    def best(self, X: Array) -> Array:
        X = np.ascontiguousarray(X, np.float32)
        found = self.model.predict(X, only_topk=TOP, beam_size=10, threads=self.threads)
        best = np.full((len(X), TOP), -1)
        for row, own in zip(best, ranked_csr(found), strict=True):
            row[: len(own)] = own
        return best


class Ours:
    """A classifier of this package with its defaults."""

    def __init__(self, job: dict[str, Any]) -> None:
        import sparsenet

        how: dict[str, Any] = {"random_state": job["seed"], "n_jobs": job["threads"]}
        if job["model"] in ("blend", "bare-blend"):
            how["network"] = "drop" if job["model"] == "bare-blend" else None
        kinds = {"network": sparsenet.ExtremeClassifier, "tree": sparsenet.TreeClassifier}
        self.model: Any = kinds.get(job["model"], sparsenet.BlendClassifier)(**how)

    def fit(self, X: Array, Y: sparse.csr_array) -> None:
        one = np.diff(Y.indptr).max() == 1 and Y.data.size == Y.shape[0]
        self.model.fit(X, Y.indices if one else Y)
        self.one = one

    def best(self, X: Array) -> Array:
        numbers = self.model.topk_numbers(X, TOP)[0]
        return np.asarray(np.asarray(self.model.classes_)[numbers] if self.one else numbers)

    @property
    def choices(self) -> dict[str, str]:
        return {name: str(decision.value) for name, decision in self.model.choices_.items()}


class Neighbors:
    """The neighbors of a blend alone, which vote for the labels of a point."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.job, self.choices = job, dict[str, str]()

    def fit(self, X: Array, Y: sparse.csr_array) -> None:
        from sparsenet.core.rows import Rows
        from sparsenet.engines.neighbors.fit_neighbors import fit

        labels = Rows.of(Y.astype(np.float32))
        self.model, found = fit(self._rows(X), labels, VOTERS, seed=self.job["seed"], threads=self.job["threads"])
        self.choices = {name: str(decision.value) for name, decision in found.items()}

    def best(self, X: Array) -> Array:
        threads = self.job["threads"]
        labels, shares = self.model.propose(self.model.vote_weights(self._rows(X), VOTERS, threads), TOP, threads)
        return np.take_along_axis(labels, np.argsort(-shares, axis=1, kind="stable"), axis=1)

    def _rows(self, X: Array) -> Any:
        from sparsenet.core.rows import Rows

        n, width = X.shape
        indices = np.tile(np.arange(width, dtype=np.int32), n)
        return Rows(np.arange(n + 1) * width, indices, np.asarray(X, np.float32).ravel(), width)


MODELS: dict[str, Callable[[dict[str, Any]], Any]] = {
    **dict.fromkeys(("blend", "bare-blend", "tree", "network"), Ours),
    "neighbors": Neighbors,
    "knn": Knn,
    "centroid": Centroid,
    "logistic": Logistic,
    "pecos": Pecos,
}


def precision(labels: Array, Y: sparse.csr_array) -> float:
    """Return the share of `labels`, (n, k), that are right; -1 is none."""
    rows = np.repeat(np.arange(len(labels)), labels.shape[1])
    return float(np.mean((Y[rows, labels.ravel()] != 0) & (labels.ravel() >= 0)))


def _top(votes: sparse.csr_array) -> Array:
    """Return the columns of the largest entries of each row, padded with -1."""
    best = np.full((votes.shape[0], TOP), -1)
    for row, own in zip(best, ranked_csr(sparse.csr_matrix(votes)), strict=True):
        row[: len(own[:TOP])] = own[:TOP]
    return best


def _in_blocks(X: Array, scores: Callable[[Array], Array], classes: Array | None = None) -> Array:
    found = []
    for begin in range(0, len(X), AT_A_TIME):
        part = scores(X[begin : begin + AT_A_TIME])
        k = min(TOP, part.shape[1])
        near = np.argpartition(-part, k - 1, axis=1)[:, :k]
        found.append(np.take_along_axis(near, np.argsort(-np.take_along_axis(part, near, axis=1), axis=1), axis=1))
    best = np.concatenate(found)
    return best if classes is None else classes[best]


def main(job: dict[str, Any]) -> dict[str, Any]:
    """Train and score one model; memory is the peak of the process, data included."""
    data, found = Embeddings.read(Path(job["data"])), dict[str, Any]()
    model = MODELS[job["model"]](job)
    forget_peak()
    with measured(found, "train"):
        model.fit(data.X, data.Y)
    found["peak_rss_mb"] = peak_mb()
    with measured(found, "answer"):
        best = model.best(data.X_test)
    scores = {f"P@{k}": 100 * precision(best[:, :k], data.Y_test) for k in (1, 3, 5) if k <= best.shape[1]}
    return {**found, **scores, "choices": model.choices}


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(main(json.loads(Path(sys.argv[1]).read_text()))))
