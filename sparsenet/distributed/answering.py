"""Rank labels for many points on the workers of an executor."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsenet.core.rows import POINTS_AT_A_TIME
from sparsenet.core.scratch import Scratch, get_rows, put_rows
from sparsenet.core.validation import integer, n_jobs
from sparsenet.core.workers import task_runner
from sparsenet.estimators.blend import BlendClassifier
from sparsenet.estimators.extreme import ExtremeClassifier
from sparsenet.estimators.tree import TreeClassifier
from sparsenet.kernels.types import F32, I32

KINDS: dict[str, Any] = {kind.__name__: kind for kind in (BlendClassifier, ExtremeClassifier, TreeClassifier)}


def topk_numbers(
    model: Any, X: Any, k: int = 5, *, executor: Any, shard_points: int = POINTS_AT_A_TIME
) -> tuple[I32, F32]:
    """Return ``model.topk_numbers(X, k)``, computed by the workers of an executor.

    Parameters
    ----------
    model : BlendClassifier, ExtremeClassifier or TreeClassifier
        A fitted classifier. Its arrays go to a file that workers map into memory.
    X : as in `fit`
    k : int
        Number of labels, at most all of them.
    executor : concurrent.futures.Executor, function that returns one, or Workers
    shard_points : int
        Points of a task.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> from sparsenet import TreeClassifier
    >>> from sparsenet.distributed import topk_numbers
    >>> X, y = [[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]], ["cat", "cat", "dog", "dog"]
    >>> model = TreeClassifier(random_state=0).fit(X, y)
    >>> with ThreadPoolExecutor(2) as pool:
    ...     numbers, p = topk_numbers(model, X, k=1, executor=pool)
    >>> model.classes_[numbers[:, 0]].tolist()
    ['cat', 'cat', 'dog', 'dog']
    """
    kind = type(model).__name__
    if KINDS.get(kind) is not type(model):
        raise ValueError(f"model must be one of {', '.join(KINDS)}, got {kind}")
    features = model._features(X)
    k, shard_points = min(integer("k", k, 1), len(model.classes_)), integer("shard_points", shard_points, 1)
    with task_runner(executor, n_jobs(model.n_jobs)) as runner, runner.session() as session:
        arrays, about = model._pack(small=False)
        session.scratch.put("model", *arrays.values())
        put_rows(session.scratch, "queries", features)
        how = kind, list(arrays), about, k, runner.task_threads(1), shard_points
        parts = session.run(answer, [(shard, *how) for shard in range(-(-len(features) // shard_points))])
    labels = [np.empty((0, k), np.int32), *(part[0] for part in parts)]
    return np.concatenate(labels), np.concatenate([np.empty((0, k), np.float32), *(part[1] for part in parts)])


def answer(
    scratch: Scratch, shard: int, kind: str, names: list[str], about: Any, k: int, threads: int, shard_points: int
) -> tuple[I32, F32]:
    """Rank labels for a shard of the points."""

    def unpacked() -> Any:
        model = KINDS[kind]._unpack(dict(zip(names, scratch.get("model"), strict=True)), about)
        return model.set_params(n_jobs=threads)

    model = scratch.made("model", unpacked)
    queries, begin = get_rows(scratch, "queries"), shard * shard_points
    found: tuple[I32, F32] = model._best(queries.slice(begin, min(begin + shard_points, len(queries))), k)
    return found
