"""Accuracy of temporal graph networks: random and historical negatives, and a ranking of all targets.

    python -m bench.tgn_accuracy --data CSV [--systems NAME,...] [--batches N,...] [--epochs N,...] [--seeds N,...]
        [--events N] [--plot FILE] [--json FILE] [--append]

The log is one for `bench.streams`. The first 70 % of the events train, 15 % more only go into memory, and the last 15 %
are the test. Each batch is predicted from the events before it. Systems: ``sparsenet`` (`TemporalLinkPredictor`),
``pyg`` (the example of PyTorch Geometric, in its environment of ``make peers``), ``NextItem``, ``recency`` and
``EdgeBank``. ``pyg-known`` trains against targets seen so far, instead of all; ``pyg-mended`` has the faults of PyG
mended that `bench.peers.pyg` describes; ``pyg-read`` is measured with messages that are computed when the memory is
read, as in training and by sparsenet. Rules and `NextItem` learn the middle
15 % too, and have neither epochs nor seeds. `NextItem` scores at most 100 candidates, all others have the score 0; its
ranks come from `NextItem.score`.

``--append`` adds runs to FILE, so that a long comparison can be made in parts. ``--plot`` draws average precision and
events a second of all runs of `sparsenet` by batch size. One thread, CPU seconds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np

from bench import machine
from bench.report import add, begin_result, numbers, setting
from bench.runner import names, use_cpus
from bench.stream_peers import EdgeBank, Recency
from bench.tgn import DROPOUT, NEIGHBORS, batches_of, graph_log, peer
from sparsenet.temporal import NextItem, TemporalLinkPredictor
from sparsenet.temporal.graph.graph_arrays import GraphArrays
from sparsenet.temporal.graph.link_scores import LinkScores, historical_negatives, random_negatives

TRAINED, TESTED = 0.7, 0.85
SYSTEMS = ["sparsenet", "pyg", "NextItem", "recency", "EdgeBank"]
#: A score for each target, of the source and the time of an event.
Scorer = Callable[[range], np.ndarray]


def bounds(n: int) -> list[int]:
    """Return the ends of the events that train, that only go into memory, and of all."""
    return [0, int(TRAINED * n), int(TESTED * n), n]


def negatives(log: dict[str, Any], size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a random and a historical negative for each event, from the state before its batch of `size`."""
    graph, rng = GraphArrays.blank(log["n_nodes"], 2, NEIGHBORS, 0), np.random.default_rng(3)
    first_events = np.unique(log["targets"], return_index=True)[1]
    found = []
    for batch, rows in batches_of({**log, "features": np.zeros((len(log["sources"]), 0), np.float32)}, size):
        known = np.sort(log["targets"][first_events[first_events < rows.start + len(batch)]]).astype(np.int32)
        others = random_negatives(batch.targets, known, rng)
        found.append((others, historical_negatives(graph, batch.sources, batch.targets, others, rng)))
        graph.remember(batch.sources, batch.targets, batch.times, batch.features)
    drawn, historical = (np.concatenate(parts).astype(np.int64) for parts in zip(*found, strict=True))
    return drawn, historical


def rule_scores(rule: Any, log: dict[str, Any], size: int) -> dict[str, float]:
    """Measure a rule of `bench.stream_peers` on the test events."""
    first_target, test = log["first_target"], bounds(len(log["sources"]))[2]

    def score(block: range) -> np.ndarray:
        return np.array([rule.scores(int(log["sources"][e])) for e in block], np.float32)

    def learn(block: range) -> None:
        for e in block:
            rule.learn(int(log["sources"][e]), int(log["targets"][e]) - first_target)

    return measure(score, learn, log, size, test)


def measure(
    score: Scorer, learn: Callable[[range], object], log: dict[str, Any], size: int, test: int
) -> dict[str, float]:
    """Score the test events in batches, each before it is learnt."""
    scores, others = LinkScores(), [each - log["first_target"] for each in negatives(log, size)]
    targets = log["targets"] - log["first_target"]
    for begin_of in range(0, len(targets), size):
        block = range(begin_of, min(begin_of + size, len(targets)))
        tested = range(max(test, block.start), max(test, block.stop))
        if tested:
            found, at = score(tested), slice(tested.start, tested.stop)
            for own, items in zip((scores.right, scores.random, scores.historical), (targets, *others), strict=True):
                own.append(found[np.arange(len(found)), items[at]])
            scores.add_ranks(found, targets[at])
        learn(block)
    return scores.measures()


def next_item_scores(log: dict[str, Any], size: int) -> dict[str, float]:
    """Measure `NextItem`: pairs by its probabilities, ranks by `score`."""
    columns = {"user": log["sources"], "item": log["targets"] - log["first_target"], "time": log["times"]}
    n, test = len(log["sources"]), bounds(len(log["sources"]))[2]

    def part(rows: range) -> dict[str, Any]:
        return {name: values[rows.start : rows.stop] for name, values in columns.items()}

    models = [NextItem(refresh=size, n_jobs=1).fit(part(range(test))) for _ in range(2)]
    ranks = models[0].score(part(range(test, n)))

    def score(block: range) -> np.ndarray:
        asked = part(block)
        answers = models[1]._stream.rank(asked["user"], asked["time"].astype(np.float64), 100, 1)
        found = np.zeros((len(block), log["n_nodes"] - log["first_target"]), np.float32)
        found[answers.rows, answers.names.astype(np.int64)] = answers.shares
        return found

    def learn(block: range) -> None:
        if block.stop > test:
            models[1].update(part(range(max(block.start, test), block.stop)))

    return measure(score, learn, log, size, test) | ranks


def network_scores(log: dict[str, Any], size: int, epochs: int, seed: int) -> dict[str, Any]:
    """Train `TemporalLinkPredictor`, and measure it."""
    columns = {"source": log["sources"], "target": log["targets"], "time": log["times"], "zero": log["features"][:, 0]}
    ends = bounds(len(log["sources"]))
    train, later, test = (
        {name: values[first:end] for name, values in columns.items()} for first, end in pairwise(ends)
    )
    model = TemporalLinkPredictor(batch_size=size, epochs=epochs, n_jobs=1, random_state=seed, verbose=False)
    began = time.process_time()
    model.fit(train, event_features=["zero"])
    seconds = time.process_time() - began
    model.update(later, train=False)
    return {
        "loss": model.loss_,
        "cpu_seconds_of_training": seconds,
        "events_per_cpu_second": epochs * ends[1] / seconds,
        "scores": model.score(test, train=False),
    }


def pyg_scores(system: str, log: dict[str, Any], size: int, epochs: Sequence[int], seed: int) -> Iterator[Any]:
    """Train the example of PyTorch Geometric, and measure it after some of its epochs."""
    others = negatives(log, size)
    ends = bounds(len(log["sources"]))
    run = {"seed": seed, "n_train": ends[1], "batch": size, "epochs": max(epochs), "tested": list(epochs)}
    run |= {"ranked_from": ends[2]}
    given = {**log, "random": others[0], "historical": others[1]}
    if system == "pyg-known":
        given["negatives"] = others[0]
    with peer(given, [run], DROPOUT, exact=system == "pyg-mended", at_reading=system == "pyg-read") as next_run:
        found = next_run()
    for epoch in epochs:
        right, drawn, historical = found[f"scores{epoch}"]
        scores = LinkScores([right], [drawn], [historical], [found[f"ranks{epoch}"]])
        seconds = float(found["seconds"].sum()) * epoch / max(epochs)
        yield {"epochs": epoch, "cpu_seconds_of_training": seconds, "scores": scores.measures()}


def runs(system: str, log: dict[str, Any], size: int, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the measurements of a system with batches of one size."""
    rules = {"recency": Recency, "EdgeBank": EdgeBank}
    if system == "sparsenet":
        for epochs, seed in product(options.epochs, options.seeds):
            yield {"epochs": epochs, "seed": seed} | network_scores(log, size, epochs, seed)
    elif system in ("pyg", "pyg-known", "pyg-mended", "pyg-read"):
        for seed in options.seeds:
            found = pyg_scores(system, log, size, options.epochs, seed)
            yield from ({"seed": seed} | run for run in found)
    elif system == "NextItem":
        yield {"scores": next_item_scores(log, size)}
    else:
        yield {"scores": rule_scores(rules[system](log["n_nodes"] - log["first_target"]), log, size)}


def plot(report: dict[str, Any], path: Path) -> None:
    """Draw accuracy and events a second by batch size."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    found = sorted((run for run in report["runs"] if run["system"] == "sparsenet"), key=lambda run: run["batch"])
    figure, left = pyplot.subplots(figsize=(6, 3.6), layout="constrained")
    right, at = left.twinx(), [run["batch"] for run in found]
    for name, line in (("AP", "o-"), ("AP historical", "^-"), ("MRR", "v-")):
        left.semilogx(at, [100 * run["scores"][name] for run in found], line, label=name)
    right.loglog(at, [run["events_per_cpu_second"] for run in found], "s--", color="black")
    left.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, frameon=False)
    left.set(xlabel="batch size", ylabel="AP, and MRR among all targets, in %", ylim=(0, 100))
    right.set_ylabel("events learnt a CPU second (dashed)")
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure each system at each batch size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="CSV")
    parser.add_argument("--systems", type=names, default=SYSTEMS)
    parser.add_argument("--batches", type=numbers, default=[10, 200])
    parser.add_argument("--epochs", type=numbers, default=[1])
    parser.add_argument("--seeds", type=numbers, default=[0])
    parser.add_argument("--events", type=int)
    parser.add_argument("--plot", type=Path, metavar="FILE")
    parser.add_argument("--json", type=Path, default=Path(".bench") / "tgn-accuracy.json", metavar="FILE")
    parser.add_argument("--append", action="store_true")
    options = parser.parse_args(arguments)
    use_cpus(1)
    report, log = begin_result(options.json, append=options.append, threads=1), graph_log(options.data, options.events)
    for system, size in product(options.systems, options.batches):
        load = machine.load_average()
        for run in runs(system, log, size, options):
            about = {"system": system, "batch": size, "events": len(log["sources"]), "load_average_before": load}
            add(report, about | run, options.json)
            print(report["runs"][-1], flush=True)
    if options.plot:
        plot(report, options.plot)
    print(setting(report))


if __name__ == "__main__":
    main()
