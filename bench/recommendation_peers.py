"""Run one recommender in a separate process: ``python -m bench.recommendation_peers JOB RESULT``.

It needs only NumPy, SciPy and the library of its system. The job names a log as arrays in a file. CPU seconds of
fitting include everything from events to a model; imports do not count.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from scipy import sparse

#: Users answered at a time by peers that score every item.
BLOCK = 500
#: EASE inverts a dense matrix of items: larger catalogues do not fit.
MAX_EASE = 15_000
K = 20


class Recommends(Protocol):
    """A system: it learns from a log and recommends K unseen items to its users."""

    def fit(self, log: dict[str, Any]) -> None: ...

    def recommend(self, users: np.ndarray) -> np.ndarray: ...


def matrix(log: dict[str, Any]) -> sparse.csr_array:
    """Return which user has which item."""
    shape = int(log["n_users"]), int(log["n_items"])
    ones = np.ones(len(log["users"]), np.float32)
    X = sparse.coo_array((ones, (log["users"], log["items"])), shape=shape).tocsr()
    X.data[:] = 1
    return X


def power(counts: np.ndarray, exponent: float) -> sparse.dia_array:
    """Return a diagonal matrix of powers of counts."""
    return sparse.diags_array(np.maximum(counts, 1).astype(np.float32) ** np.float32(exponent))


class Scored:
    """A peer that scores all items of a block of users."""

    def fit(self, log: dict[str, Any]) -> None:
        self.X = matrix(log)
        self.learn()

    def learn(self) -> None:
        raise NotImplementedError

    def score(self, users: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def recommend(self, users: np.ndarray) -> np.ndarray:
        found = []
        for begin in range(0, len(users), BLOCK):
            own = users[begin : begin + BLOCK]
            scores = np.array(self.score(own), np.float32)
            scores[self.X[own].nonzero()] = -np.inf
            k = min(K, scores.shape[1])
            best = np.argpartition(-scores, k - 1, axis=1)[:, :k]
            order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1, kind="stable")
            found.append(np.take_along_axis(best, order, axis=1))
        return np.concatenate(found)


class Popularity(Scored):
    def learn(self) -> None:
        self.counts = np.asarray(self.X.sum(axis=0)).ravel()

    def score(self, users: np.ndarray) -> np.ndarray:
        return np.tile(self.counts, (len(users), 1))


class UserNeighbors(Scored):
    """The 100 nearest users by idf-weighted cosine vote with its square."""

    def learn(self) -> None:
        idf = np.log1p(self.X.shape[0] / np.maximum(np.asarray(self.X.sum(axis=0)).ravel(), 1))
        Z = self.X @ sparse.diags_array(idf.astype(np.float32))
        lengths = np.sqrt(np.asarray(Z.multiply(Z).sum(axis=1)).ravel())
        self.Z = (sparse.diags_array(1 / np.maximum(lengths, 1e-9)) @ Z).tocsr().astype(np.float32)
        self.by_item = self.Z.T.tocsr()

    def score(self, users: np.ndarray) -> np.ndarray:
        near = (self.Z[users] @ self.by_item).toarray()
        near[np.arange(len(users)), users] = 0
        k = min(100, near.shape[1])
        best = np.argpartition(-near, k - 1, axis=1)[:, :k]
        weights = np.take_along_axis(near, best, axis=1) ** 2
        votes = sparse.csr_array((weights.ravel(), best.ravel(), np.arange(len(users) + 1) * k), shape=near.shape)
        return np.asarray((votes @ self.X).toarray())


class ItemLists(Scored):
    """A sparse matrix of items by items, cut to the strongest entries of each item."""

    n_lists = 200

    def related(self) -> sparse.csr_array:
        raise NotImplementedError

    def learn(self) -> None:
        W = self.related().tocsr()
        W.setdiag(0)
        rows = []
        for i in range(W.shape[0]):
            row = slice(W.indptr[i], W.indptr[i + 1])
            keep = np.argsort(-W.data[row], kind="stable")[: self.n_lists]
            rows.append((W.indices[row][keep], W.data[row][keep]))
        indptr = np.cumsum([0, *(len(ids) for ids, _ in rows)])
        ids, data = (np.concatenate([row[j] for row in rows]) for j in (0, 1))
        self.W = sparse.csr_array((data, ids, indptr), shape=W.shape)

    def score(self, users: np.ndarray) -> np.ndarray:
        return (self.X[users] @ self.W).toarray()


class ItemCosine(ItemLists):
    def related(self) -> sparse.csr_array:
        counts = np.asarray(self.X.sum(axis=0)).ravel()
        Z = (self.X @ power(counts, -0.5)).tocsr()
        return sparse.csr_array(Z.T.tocsr() @ Z)


class RP3Beta(ItemLists):
    """A random walk of three steps, with the settings of the library Elliot for gowalla."""

    n_lists = 350
    alpha, beta = 0.768, 0.418

    def related(self) -> sparse.csr_array:
        per_user, per_item = np.diff(self.X.indptr), np.asarray(self.X.sum(axis=0)).ravel()
        forward = (power(per_user, -1) @ self.X).tocsr()
        back = (power(per_item, -1) @ self.X.T.tocsr()).tocsr()
        forward.data **= self.alpha
        back.data **= self.alpha
        return sparse.csr_array(back @ forward @ power(per_item, -self.beta))


class Ease(Scored):
    def learn(self) -> None:
        if self.X.shape[1] > MAX_EASE:
            raise MemoryError(f"EASE inverts a dense matrix of {self.X.shape[1]} items")
        gram = (self.X.T @ self.X).toarray().astype(np.float64)
        gram[np.diag_indices_from(gram)] += 250
        inverse = np.linalg.inv(gram)
        self.B = (-inverse / np.diag(inverse)).astype(np.float32)
        np.fill_diagonal(self.B, 0)

    def score(self, users: np.ndarray) -> np.ndarray:
        return np.asarray(self.X[users] @ self.B)


class Implicit:
    """A model of the library implicit with its default settings."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        import implicit

        self.model = make(implicit)

    def fit(self, log: dict[str, Any]) -> None:
        self.X = sparse.csr_matrix(matrix(log))
        self.model.fit(self.X, show_progress=False)

    def recommend(self, users: np.ndarray) -> np.ndarray:
        ids, _ = self.model.recommend(users, self.X[users], N=K, filter_already_liked_items=True)
        return np.asarray(ids)


class Sparsenet:
    """The recommender of sparsenet with its default settings."""

    def __init__(self) -> None:
        from sparsenet import kernels
        from sparsenet.core.machine import default_threads

        kernels.backend()
        self.threads = default_threads()

    def fit(self, log: dict[str, Any]) -> None:
        from sparsenet.engines.recommender.fit_recommender import RecommenderOptions, fit
        from sparsenet.features.interactions import Interactions

        size = int(log["n_users"]), int(log["n_items"])
        self.log = Interactions.of(log["users"], log["items"], log.get("times"), None, *size)
        self.model = fit(self.log, RecommenderOptions(verbose=False), seed=0, threads=self.threads)

    def recommend(self, users: np.ndarray) -> np.ndarray:
        return self.model.topk(self.log.of_users(users.astype(np.int64)), K, threads=self.threads)[0]


SYSTEMS: dict[str, Callable[[], Recommends]] = {
    "sparsenet": Sparsenet,
    "popularity": Popularity,
    "user-knn": UserNeighbors,
    "item-knn": ItemCosine,
    "rp3beta": RP3Beta,
    "ease": Ease,
    "implicit-als": lambda: Implicit(lambda lib: lib.als.AlternatingLeastSquares(factors=128, random_state=0)),
    "implicit-bpr": lambda: Implicit(lambda lib: lib.bpr.BayesianPersonalizedRanking(factors=128, random_state=0)),
    "implicit-bm25": lambda: Implicit(lambda lib: lib.nearest_neighbours.BM25Recommender(K=200)),
}


def scores(found: np.ndarray, truth: sparse.csr_array) -> dict[str, float]:
    """Return P@1, recall@20 and nDCG@20, averaged over users with right items."""
    n_right = np.diff(truth.indptr)
    some = n_right > 0
    padded = np.pad(found, ((0, 0), (0, K - found.shape[1])), constant_values=-1)
    keys = np.repeat(np.arange(truth.shape[0]), n_right) * np.int64(truth.shape[1]) + truth.indices
    hits = np.isin(np.arange(len(found))[:, None] * np.int64(truth.shape[1]) + padded, keys) & (padded >= 0)
    discounts = 1 / np.log2(np.arange(2, K + 2))
    ideal = np.cumsum(discounts)[np.clip(n_right, 1, K) - 1]
    each = {
        "P@1": hits[:, 0],
        "recall@20": hits.sum(axis=1) / np.maximum(n_right, 1),
        "nDCG@20": (hits * discounts).sum(axis=1) / ideal,
    }
    return {name: float(values[some].mean()) for name, values in each.items()}


def main(job_path: str, result_path: str) -> None:
    """Fit the system of a job, answer its users and measure both."""
    job = json.loads(Path(job_path).read_text())
    log = dict(np.load(job["data"]))
    shape = len(log["asked"]), int(log["n_items"])
    truth = sparse.csr_array((np.ones(len(log["truth"])), log["truth"], log["truth_starts"]), shape=shape)
    system = SYSTEMS[job["system"]]()
    began = time.process_time()
    system.fit(log)
    system.recommend(log["asked"][:1])  # what is prepared once for a model counts as training
    fitted, fitted_wall = time.process_time(), time.perf_counter()
    found = system.recommend(log["asked"])
    answered, answered_wall = time.process_time(), time.perf_counter()
    result = {
        "scores": scores(found, truth),
        "fit_cpu": fitted - began,
        "answers_per_cpu_second": len(found) / max(answered - fitted, 1e-9),
        "answers_per_second": len(found) / max(answered_wall - fitted_wall, 1e-9),
    }
    Path(result_path).write_text(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
