"""The next item of a stream of events: `NextItem`, fresh and refreshed later, against simple predictors.

    python -m bench.streams [--data CSV ...] [--planted NAME ...] [--mutual NAME ...] [--refresh N,...] [--json FILE]
    python -m bench.streams --scale [--users N] [--items N] [--events N] [--json FILE]

A CSV file, plain or compressed, has columns of users, items and times, in this order and sorted by time. The last 15 %
of the events are predicted one by one. Each system ranks all items, then learns the event. With ``--refresh N`` it
learns N events at a time, and ranks all of them by the state before. Planted streams: ``no-repeats``,
where users follow links between items and never come back; ``drift``, where links change and users come back; and
``shop``, whose events have stars and whose items have kinds.
"decayed popularity" is what PopTrack predicts from alone. implicit needs an environment in .bench/envs (make peers).
``--mutual collegemsg`` says that users and items of that file are the same people. ``--systems "NextItem,
keep_counts=0.95"`` changes one rate of `StreamRates`.

``--scale`` measures learning, answers and memory with a million users and items. All on one thread; CPU seconds.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.machine import load_average
from bench.recommendation import read_columns
from bench.report import add, begin_result, setting
from bench.runner import in_child, names, python_of, use_cpus
from bench.stream_learners import CLASSIFIERS, IMPLICIT
from bench.stream_peers import PEERS, ranks
from sparsenet.temporal import NextItem
from sparsenet.temporal.ranking.stream_rules import RULES

TEST_SHARE = 0.15
#: Planted streams: items, links of an item, events, and events after which a tenth of the links changes.
N_ITEMS, N_LINKS, N_EVENTS, CHANGE = 1000, 5, 60_000, 2000


def of_table(path: Path, mutual: bool) -> dict[str, Any]:
    """Return a log with numbers as names, the same for users and items if mutual."""
    users, items, times = (np.asarray(column) for column in read_columns(path))
    if mutual:
        user, item = np.unique(np.concatenate((users, items)), return_inverse=True)[1].reshape(2, -1)
    else:
        (_, user), (_, item) = (np.unique(each, return_inverse=True) for each in (users, items))
    return {"user": user, "item": item, "time": times.astype(np.float64)}


def planted(repeats: bool, seed: int = 0) -> dict[str, Any]:
    """Return a stream of users who follow links; with repeats, half of the events return to an own item."""
    rng = np.random.default_rng(seed)
    links = rng.integers(0, N_ITEMS, (N_ITEMS, N_LINKS))
    user, item = np.zeros(N_EVENTS, int), np.zeros(N_EVENTS, int)
    own: dict[int, list[int]] = {}
    n_users = 500 if repeats else 3000
    for e in range(N_EVENTS):
        user[e] = rng.integers(n_users)
        mine = own.setdefault(user[e], [int(rng.integers(N_ITEMS))])
        if repeats and rng.random() < 0.5:
            item[e] = mine[-min(len(mine), int(rng.geometric(0.5)))]
        elif rng.random() < 0.8:
            item[e] = links[mine[-1], min(N_LINKS - 1, int(rng.geometric(0.5)) - 1)]
        else:
            item[e] = rng.integers(N_ITEMS)
        while not repeats and item[e] in mine:
            item[e] = rng.integers(N_ITEMS)
        mine.append(int(item[e]))
        if repeats and e % CHANGE == 0:
            links[rng.integers(0, N_ITEMS, N_ITEMS // 10)] = rng.integers(0, N_ITEMS, (N_ITEMS // 10, N_LINKS))
    return {"user": user, "item": item, "time": np.cumsum(rng.exponential(10, N_EVENTS))}


def shop(seed: int = 0) -> dict[str, Any]:
    """Return purchases, most of items on sale of the kind that a user loves; the stars of the last one bring some back.

    With five stars users come back to the item, with one star to the one before.
    """
    rng, n_kinds, n_users, n_on_sale = np.random.default_rng(seed), 4, 3000, 24
    n_items = N_EVENTS // 10
    user, stars, item = rng.integers(0, n_users, N_EVENTS), rng.choice([1, 5], N_EVENTS), np.zeros(N_EVENTS, int)
    own: dict[int, list[int]] = {}
    for e in range(N_EVENTS):
        mine = own.setdefault(int(user[e]), [e])
        on_sale = np.arange(n_on_sale) + e * (n_items - n_on_sale) // N_EVENTS
        item[e] = rng.choice(on_sale[on_sale % n_kinds == user[e] % n_kinds])
        if len(mine) > 2 and rng.random() < 0.4:
            item[e] = item[mine[-1 if stars[mine[-1]] == 5 else -2]]
        mine.append(e)
    return {"user": user, "item": item, "time": np.arange(N_EVENTS, dtype=np.float64), "stars": stars}


PLANTED: dict[str, Callable[[], dict[str, Any]]] = {
    "no-repeats": lambda: planted(False),
    "drift": lambda: planted(True),
    "shop": shop,
}


def measures(found: np.ndarray) -> dict[str, float]:
    """Return MRR and recalls of ranks."""
    return {"MRR": float(np.mean(1 / found)), **{f"recall@{k}": float(np.mean(found <= k)) for k in (1, 10)}}


def shares(log: dict[str, Any], first: int, refresh: int) -> dict[str, float]:
    """Return the fractions of test events with the user's last known item, an earlier one, or a new one."""
    kinds = {"last": 0, "earlier": 0, "new": 0}
    own: dict[int, dict[int, None]] = {}
    events = list(zip(log["user"].tolist(), log["item"].tolist(), strict=True))
    for begin in range(0, len(events), refresh):
        block = events[begin : begin + refresh]
        for e, (user, item) in enumerate(block, begin):
            mine = own.get(user, {})
            kind = "new" if item not in mine else "last" if next(reversed(mine)) == item else "earlier"
            kinds[kind] += e >= first
        for user, item in block:
            own.setdefault(user, {}).pop(item, None)
            own[user][item] = None
    return {kind: count / (len(events) - first) for kind, count in kinds.items()}


def features_of(log: dict[str, Any]) -> dict[str, Any]:
    """Return the features of the shop: stars of events, and the kinds of items as strings."""
    items = np.unique(log["item"])
    return {"event_features": ["stars"], "item_features": {"item": items, "kind": [f"kind {i % 4}" for i in items]}}


def varied(rate: str, value: float) -> Any:
    """Return a `NextItem` with another rate."""
    rules = replace(RULES, rates=replace(RULES.rates, **{rate: value}))
    return type("Varied", (NextItem,), {"_rules": rules, "__init__": NextItem.__init__})


def next_item(log: dict[str, Any], first: int, refresh: int, system: str) -> dict[str, Any]:
    """Learn the first events, then predict and learn the others."""
    features = features_of(log) if "features" in system else {}
    name, _, value = system.removeprefix("NextItem").lstrip(", ").partition("=")
    kind: Any = varied(name, float(value)) if value else NextItem
    parts = [{name: values[rows] for name, values in log.items()} for rows in (slice(first), slice(first, None))]
    model = kind(refresh=refresh, mutual="mutual" in system, n_jobs=1)
    model.fit({name: values[:100] for name, values in log.items()}, **features)  # compiles the Numba kernels
    began = time.process_time()
    model.fit(parts[0], **features)
    scores = model.score(parts[1])
    return {"scores": scores, "events_per_cpu_second": len(log["user"]) / (time.process_time() - began)}


def measure(log: dict[str, Any], system: str, refresh: int, mutual: bool) -> dict[str, Any]:
    """Measure one system on a log."""
    first = int(len(log["user"]) * (1 - TEST_SHARE))
    if system == "shares":
        return {"shares": shares(log, first, refresh)}
    if system.startswith("NextItem"):
        return next_item(log, first, refresh, system)
    n_items = int(max(log["item"].max(), log["user"].max() if mutual else 0)) + 1
    if system in PEERS:
        peer = PEERS[system](n_items, log, first)
        return {"scores": measures(ranks(peer, log, first, refresh))}
    with tempfile.TemporaryDirectory(prefix="sparsenet-streams-") as folder:
        np.savez(Path(folder) / "log.npz", **log)
        job = {"system": system, "first": first, "refresh": refresh, "n_items": n_items, "mutual": mutual}
        python = python_of("implicit") if system in IMPLICIT else None
        run = in_child("bench.stream_learners", job | {"data": f"{folder}/log.npz"}, python=python, threads=1)
    if "ranks" in run:
        return {"scores": measures(np.array(run["ranks"])), "cpu_seconds": run["cpu_seconds"]}
    return {"reason": run["reason"]}


SYSTEMS = ["shares", "NextItem", "NextItem, mutual", "NextItem, features", *PEERS, *IMPLICIT, *CLASSIFIERS]


def scale(options: argparse.Namespace) -> dict[str, Any]:
    """Learn a planted stream of many users and items, and time single queries."""
    rng = np.random.default_rng(0)
    n = options.events
    user = np.concatenate((np.arange(options.users), rng.integers(0, options.users, max(n - options.users, 0))))[:n]
    popular = (options.items ** rng.random(n) - 1).astype(np.int64)  # the density falls as one over the rank
    item = np.where(np.arange(n) < options.items, np.arange(n), popular)
    log = {"user": user, "item": item, "time": np.arange(n, dtype=np.float64)}
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    model = NextItem(n_jobs=1, max_users=options.users, max_items=options.items).fit(log)
    seconds = time.process_time() - began
    asked = rng.integers(0, options.users, 2000).tolist()
    wall, cpu = [], []
    for name in asked:
        start, own = time.perf_counter(), time.thread_time()
        model.topk(name, k=10)
        cpu.append(time.thread_time() - own)
        wall.append(time.perf_counter() - start)
    start = time.process_time()
    model.topk(asked * 10, k=10)
    bulk = time.process_time() - start
    return {
        "users": model.n_users_,
        "items": model.n_items_,
        "events": n,
        "events_per_cpu_second": n / seconds,
        "query_ms": _milliseconds(wall),
        "query_cpu_ms": _milliseconds(cpu),
        "load_average": load_average(),
        "bulk_queries_per_cpu_second": 10 * len(asked) / bulk,
        "peak_bytes": 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before),
    }


def _milliseconds(seconds: list[float]) -> dict[str, float]:
    """Return the median, the 99th percentile and the maximum."""
    return {name: 1000 * float(np.quantile(seconds, q)) for name, q in (("median", 0.5), ("p99", 0.99), ("max", 1))}


def shown(report: dict[str, Any]) -> str:
    """Return a report as a table."""
    lines = ["| data | system | refreshed every | MRR | recall@1 | recall@10 | events a CPU s |"]
    lines.append("|---|---|---|---|---|---|---|")
    for run in report["runs"]:
        if "scores" in run:
            found = " | ".join(f"{run['scores'][name]:.4f}" for name in ("MRR", "recall@1", "recall@10"))
            speed = f"{run['events_per_cpu_second']:,.0f}" if "events_per_cpu_second" in run else ""
            lines.append(f"| {run['data']} | {run['system']} | {run['refresh']} | {found} | {speed} |")
        elif "shares" in run:
            found = ", ".join(f"{kind} {share:.4f}" for kind, share in run["shares"].items())
            lines.append(f"| {run['data']} | items of the user: {found} | {run['refresh']} | | | | |")
        else:
            lines.append(str(run))
    return "\n".join([*lines, "", setting(report)])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run every system on every stream."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="*", default=[], metavar="CSV")
    parser.add_argument(
        "--mutual", nargs="*", default=[], metavar="NAME", help="files whose users and items are the same"
    )
    parser.add_argument("--planted", nargs="*", choices=list(PLANTED), default=list(PLANTED))
    parser.add_argument("--systems", nargs="+", default=SYSTEMS)
    parser.add_argument("--refresh", type=names, default=["1", "10", "200"])
    parser.add_argument("--scale", action="store_true")
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--events", type=int, default=3_000_000)
    parser.add_argument("--json", type=Path, default=Path(".bench") / "streams.json", metavar="FILE")
    parser.add_argument("--append", action="store_true", help="add the runs to the file of --json")
    options = parser.parse_args(arguments)
    use_cpus(1)
    report = begin_result(options.json, append=options.append, threads=1)
    if options.scale:
        add(report, {"data": "planted at scale"} | scale(options), options.json)
    else:
        for source in [*options.data, *options.planted]:
            name = source if source in PLANTED else source.name.partition(".")[0]
            mutual = name in options.mutual
            log = PLANTED[source]() if source in PLANTED else of_table(source, mutual)
            for system in options.systems:
                if ("mutual" in system and not mutual) or ("features" in system and "stars" not in log):
                    continue
                for refresh in map(int, options.refresh):
                    run = {"data": name, "system": system, "refresh": refresh} | measure(log, system, refresh, mutual)
                    add(report, run, options.json)
                    print(run, flush=True)
    print(shown(report))


if __name__ == "__main__":
    main()
