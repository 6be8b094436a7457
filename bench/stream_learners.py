"""Learners of sets that predict a stream, for `bench.streams`: `implicit`, and our classifiers. Run in a child process.

``implicit`` is trained again every `PERIOD` events; it scores the user's whole history up to the refreshed state.
Classifiers learn the training events once, from features of the user's last items, and see refreshed ones later.
"""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

#: Events after which implicit is trained again.
PERIOD = 10_000
#: Items of a user's history that a classifier sees, and how much less an item counts than the one after it.
N_LAST, DECAY = 20, 0.8
#: Items that a classifier ranks; others count as ranked last.
K = 100

Model = Callable[[Any], Any]


def blocks(log: dict[str, Any], refresh: int, first: int = 0) -> Iterator[range]:
    """Yield the events of each block, from event `first` on."""
    n = len(log["user"])
    for begin in range(0, n, refresh):
        if begin + refresh > first:
            yield range(begin, min(begin + refresh, n))


def rank_of(scores: np.ndarray, item: int) -> float:
    """Return the rank of an item; ties count as the mean of the best and the worst rank."""
    mine = scores[item]
    return float(1 + np.count_nonzero(scores > mine) + (np.count_nonzero(scores == mine) - 1) / 2)


def counts_until(log: dict[str, Any], end: int, shape: tuple[int, int]) -> Any:
    """Return how often each user took each item before an event."""
    ones = np.ones(end, np.float32)
    return sparse.csr_matrix((ones, (log["user"][:end], log["item"][:end])), shape)


def implicit_ranks(make: Model, log: dict[str, Any], n_items: int, first: int, refresh: int) -> np.ndarray:
    """Return the rank of the item of each test event by a model of implicit."""
    import implicit

    shape = int(log["user"].max()) + 1, n_items
    counts = counts_until(log, first - first % refresh, shape).toarray()
    found: list[float] = []
    model, trained = None, -PERIOD
    for block in blocks(log, refresh, first):
        if block[0] >= trained + PERIOD:
            model, trained = make(implicit), block[0]
            model.fit(counts_until(log, trained, shape), show_progress=False)
        found += [rank_of(implicit_scores(model, log["user"][e], counts), log["item"][e]) for e in block if e >= first]
        for e in block:
            counts[log["user"][e], log["item"][e]] += 1
    return np.array(found)


def implicit_scores(model: Any, user: int, counts: np.ndarray) -> np.ndarray:
    """Return the score of each item for a user with these counts."""
    row = sparse.csr_matrix(counts[user][None])
    if hasattr(model, "similarity"):
        return np.asarray((row @ model.similarity).toarray()[0])
    return np.asarray(model.item_factors @ model.recalculate_user(0, row))


def histories(log: dict[str, Any], n_items: int, refresh: int, mutual: bool) -> sparse.csr_matrix:
    """Return features of each event: the user's last item, the one before, the last 20, and those received."""
    rows: list[dict[int, float]] = []
    taken: dict[int, deque[int]] = {}
    received: dict[int, deque[int]] = {}
    for block in blocks(log, refresh):
        for e in block:
            row = {4 * n_items: 1.0}
            mine = taken.get(log["user"][e], ())
            row |= {place * n_items + item: 1.0 for place, item in enumerate(list(mine)[:2])}
            for base, items in ((2, mine), (3, received.get(log["user"][e], ()))):
                for age, item in enumerate(items):
                    row[base * n_items + item] = row.get(base * n_items + item, 0) + DECAY**age
            rows.append(row)
        for e in block:
            user, item = int(log["user"][e]), int(log["item"][e])
            taken.setdefault(user, deque(maxlen=N_LAST)).appendleft(item)
            if mutual:
                received.setdefault(item, deque(maxlen=N_LAST)).appendleft(user)
    indptr = np.cumsum([0, *map(len, rows)])
    indices = np.fromiter((column for row in rows for column in row), np.int32, indptr[-1])
    data = np.fromiter((value for row in rows for value in row.values()), np.float32, indptr[-1])
    return sparse.csr_matrix((data, indices, indptr), (len(rows), 4 * n_items + 1))


def classifier_ranks(make: Model, log: dict[str, Any], n_items: int, first: int, refresh: int, mutual: bool) -> Any:
    """Return the rank of the item of each test event by a classifier that learnt the events before."""
    X = histories(log, n_items, refresh, mutual)
    model = make(None).fit(X[:first], log["item"][:first])
    labels = model.topk(X[first:], min(K, len(model.classes_)))[0]
    hits = labels == log["item"][first:, None]
    return np.where(hits.any(axis=1), hits.argmax(axis=1) + 1, n_items)


def _ours(name: str) -> Model:
    def make(_: Any) -> Any:
        import sparsenet

        return getattr(sparsenet, name)(n_jobs=1, random_state=0, verbose=False)

    return make


IMPLICIT: dict[str, Model] = {
    "implicit, ALS": lambda lib: lib.als.AlternatingLeastSquares(factors=128, random_state=0),
    "implicit, BM25": lambda lib: lib.nearest_neighbours.BM25Recommender(K=200),
}
CLASSIFIERS: dict[str, Model] = {name: _ours(name) for name in ("ExtremeClassifier", "BlendClassifier")}


def main(job_file: str, result_file: str) -> None:
    """Run a job, and write its ranks."""
    job = json.loads(Path(job_file).read_text())
    log, name = dict(np.load(job["data"])), job["system"]
    began = time.process_time()
    place = {"n_items": job["n_items"], "first": job["first"], "refresh": job["refresh"]}
    if name in IMPLICIT:
        found = implicit_ranks(IMPLICIT[name], log, **place)
    else:
        found = classifier_ranks(CLASSIFIERS[name], log, **place, mutual=job["mutual"])
    result = {"ranks": np.asarray(found, float).tolist(), "cpu_seconds": time.process_time() - began}
    Path(result_file).write_text(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
