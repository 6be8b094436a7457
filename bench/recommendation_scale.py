"""The recommender on a planted log of a million users and items: training, memory, and the time of an answer.

    python -m bench.recommendation_scale [--users N] [--items N] [--events N] [--threads N] [--json FILE]

Each user has two of many tastes. Nine of ten events are items of a taste, drawn by a popularity that falls with the
rank; the others are drawn from all items. The last event of every hundredth user is held out.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.report import head, keep, setting
from sparsenet import Recommender
from sparsenet.core.memory import in_words
from sparsenet.engines.recommender.fit_recommender import RecommenderOptions, memory_needed
from sparsenet.features.interactions import Interactions

#: Items of a taste, and users asked one by one.
TASTE, N_SINGLE = 250, 2000


def planted(n_users: int, n_items: int, n_events: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Return a log with times."""
    rng = np.random.default_rng(seed)
    n_tastes = max(1, n_items // TASTE)
    tastes = rng.integers(0, n_tastes, (n_users, 2))
    user = rng.integers(0, n_users, n_events)
    rank = (TASTE ** rng.random(n_events) - 1).astype(np.int64)  # the density falls as one over the rank
    item = tastes[user, rng.integers(0, 2, n_events)] * TASTE + rank
    item = np.where(rng.random(n_events) < 0.1, rng.integers(0, n_items, n_events), item)
    return {"user": user, "item": np.minimum(item, n_items - 1), "time": np.arange(n_events)}


def split(log: dict[str, np.ndarray], every: int = 100) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Hold out the last event of every hundredth user."""
    reverse = log["user"][::-1]
    users, first = np.unique(reverse, return_index=True)
    last = len(reverse) - 1 - first[users % every == 0]
    kept = np.ones(len(reverse), bool)
    kept[last] = False
    return {name: column[kept] for name, column in log.items()}, {name: column[last] for name, column in log.items()}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Train on a planted log and time the answers."""
    log, held = split(planted(options.users, options.items, options.events))
    size = int(log["user"].max()) + 1, int(log["item"].max()) + 1
    announced = memory_needed(Interactions.of(log["user"], log["item"], log["time"], None, *size), RecommenderOptions())
    before, began = peak_bytes(), time.process_time()
    model = Recommender(random_state=0, n_jobs=options.threads, verbose=False).fit(log)
    found = {
        "users": model.n_users_,
        "items": model.n_items_,
        "events": model.n_events_,
        "fit_cpu": time.process_time() - began,
        "announced_bytes": announced,
        "peak_bytes": peak_bytes(),
        "peak_bytes_before": before,
        "choices": {name: choice.why for name, choice in model.choices_.items()},
    }
    model.set_params(n_jobs=1)
    assert model.users_ is not None
    rng = np.random.default_rng(1)
    asked = rng.choice(model.users_, N_SINGLE, replace=False)
    model.recommend(int(asked[0]))
    seconds = []
    for user in asked.tolist():
        start = time.perf_counter()
        model.recommend(user)
        seconds.append(time.perf_counter() - start)
    many = model.users_[: 1 << 17]
    start = time.process_time()
    model.recommend(many)
    rate = len(many) / (time.process_time() - start)
    known = np.isin(held["user"], model.users_)
    user, item = held["user"][known], held["item"][known]
    ranked = model.recommend(user, k=20)
    right = dict(zip(user.tolist(), item.tolist(), strict=True))
    hits = sum(right[u] == i for u, i in zip(ranked["user"].tolist(), ranked["item"].tolist(), strict=True))
    quantiles = {f"single_p{q}_ms": 1e3 * float(np.percentile(seconds, q)) for q in (50, 99)}
    return found | quantiles | {"users_per_cpu_second": rate, "recall@20": hits / len(user)}


def peak_bytes() -> int:
    """Return the most memory that this process has had at once."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def shown(found: dict[str, Any]) -> str:
    """Return a result in words."""
    return "\n".join(
        [
            f"{found['events']:,} events of {found['users']:,} users and {found['items']:,} items",
            f"training: {found['fit_cpu']:.0f} CPU s",
            f"memory: {in_words(found['announced_bytes'])} announced; peak {in_words(found['peak_bytes'])}, of which "
            f"{in_words(found['peak_bytes_before'])} before training",
            f"one user: {found['single_p50_ms']:.2f} ms (p99 {found['single_p99_ms']:.2f})",
            f"many users: {found['users_per_cpu_second']:,.0f} a CPU second",
            f"recall@20 of the last item: {found['recall@20']:.3f}",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, default=Path(".bench") / "recommendation-scale.json", metavar="FILE")
    options = parser.parse_args(arguments)
    report = head(threads=options.threads)
    report["runs"] = [measure(options)]
    keep(report, options.json)
    print(shown(report["runs"][0]), setting(report), sep="\n")


if __name__ == "__main__":
    main()
