"""How long a tree would train on up to 1,000 cores, from measured times of tasks and sizes of messages.

    python -m bench.scaleout_simulation bench/results/scaleout.json

`simulate` walks through the stages of a training: the driver prepares the points, labels are summed, sets of labels are
split, and each level routes shards of points and trains ranges of nodes. A stage ends when its last task has ended.

Assumptions:

- Data: 75 entries and 5.45 labels a point, as planted. A point reaches ten nodes of a level.
- Costs: a unit of work (an entry, a label, a byte) costs what was measured, whatever the size. Deeper levels cost what
  the deepest measured one does. The driver prepares the points on one core, and its CPU seconds grow with the entries.
- Tasks: as many as the code makes, of equal size, and a stage ends with the last one. A node is one task, however many
  points reach it. The levels that all points reach are one stage. Putting the centroids together is one task.
- Workers have four cores, and a task has four threads, which share the nodes, labels or points of the task evenly.
  Where a task is one node, four groups of its children take the time that was measured. Where it splits one set of
  labels, products take two thirds of the time and run on all threads, and sums run on two. One core runs each task on
  one thread.
- Machines have 16 cores and read 1 GB/s from the shared folder. Points of a level are read again unless they fit into
  256 GB of memory. Writes to the folder overlap with computing, but writing the joined centroids does not.
- Messages: results travel to the driver at 1 GB/s, and the driver takes the measured time for each task.
- Not counted: reading the data from its source, the start of the workers, waiting for a scheduler, other load, and
  failures. The memory of a task is not limited.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

CHILDREN, MAX_ROOTS, BEAM = 16, 4, 10
SHARD_POINTS, TASK_ENTRIES, TASK_LABELS, MAX_RANGES = 1 << 16, 1 << 22, 1 << 14, 1 << 12
CORES_A_MACHINE, THREADS, READ_RATE, MEMORY, NETWORK_RATE = 16, 4, 1e9, 256e9, 1e9
BYTES_AN_ENTRY = 8


@dataclass(frozen=True)
class Costs:
    """Measured seconds and bytes for a unit of work.

    Attributes
    ----------
    driver_entry : seconds of the driver for each entry of the points.
    driver_task : seconds of the driver for each task.
    sum_entry : seconds to add an entry to the centroid of a label.
    centroid : bytes of a centroid.
    split_label : seconds for a label in each halving.
    route_point : seconds for a point on each level, from the root down.
    train_entry : seconds for each entry that reaches a node, on each level.
    model_entry : bytes of the model for each entry that reaches a node.
    group : time of a node on four threads, a part of the time on one.
    """

    driver_entry: float
    driver_task: float
    sum_entry: float
    centroid: float
    split_label: float
    route_point: list[float]
    train_entry: list[float]
    model_entry: float
    group: float


class Stage(NamedTuple):
    """Equal tasks between two barriers, the bytes that they read, and the driver's seconds after them.

    A task takes `seconds` on one thread, and the fraction `shared` of that on the threads of a worker.
    """

    name: str
    tasks: int
    seconds: float
    shared: float
    reads: float = 0.0
    driver: float = 0.0


class Prediction(NamedTuple):
    """Seconds in all, of them the driver's, CPU seconds of all tasks, and the longest task."""

    wall: float
    driver: float
    work: float
    longest: Stage


def stages(costs: Costs, points: float, labels: float, entries: float, labels_a_point: float) -> Iterator[Stage]:
    """Yield the stages of a training on points with `entries` entries each."""
    total = points * entries
    yield Stage("prepare", 0, 0.0, 1.0, driver=costs.driver_entry * total)
    summed = total * labels_a_point
    yield _stage("sum labels", summed / TASK_ENTRIES, summed * costs.sum_entry, reads=summed * BYTES_AN_ENTRY)
    yield _stage("join sums", 1, 2 * labels * costs.centroid / READ_RATE, shared=1.0)
    widths = node_counts(labels)
    for halving in range(math.ceil(math.log2(max(widths[-1], 2)))):
        tasks = min(2**halving, labels / TASK_LABELS)
        shared = 1 / 3 if tasks == 2**halving else 1 / THREADS
        reads, sent = labels * costs.centroid, 8 * labels / NETWORK_RATE
        yield _stage("split", tasks, labels * costs.split_label, shared=shared, reads=reads, driver=sent)
    n_open = sum(width <= BEAM for width in widths)
    for depths in (range(max(n_open, 1)), *([depth] for depth in range(max(n_open, 1), len(widths)))):
        name = f"level {'-'.join(str(depth) for depth in depths)}"
        route = sum(costs.route_point[min(depth, len(costs.route_point) - 1)] for depth in depths)
        shards, reads = len(depths) * points / SHARD_POINTS, total * BYTES_AN_ENTRY
        yield _stage(f"route, {name}", shards, points * route, reads=reads)
        reached = [total * (widths[depth] if depth == 0 else min(widths[depth], BEAM)) for depth in depths]
        train = [costs.train_entry[min(depth, len(costs.train_entry) - 1)] for depth in depths]
        nodes = sum(widths[depth] for depth in depths)
        tasks = min(sum(reached) / TASK_ENTRIES, nodes, MAX_RANGES)
        work = sum(own * cost for own, cost in zip(reached, train, strict=True))
        how = {"reads": sum(reached) * BYTES_AN_ENTRY, "driver": sum(reached) * costs.model_entry / NETWORK_RATE}
        yield _stage(f"train, {name}", tasks, work, shared=costs.group if nodes < 2 * tasks else 1 / THREADS, **how)


def _stage(
    name: str, tasks: float, seconds: float, *, shared: float = 1 / THREADS, reads: float = 0.0, driver: float = 0.0
) -> Stage:
    count = max(round(tasks), 1)
    return Stage(name, count, seconds / count, shared, reads, driver)


def node_counts(labels: float) -> list[int]:
    """Return the nodes of each level, from the root down.

    >>> node_counts(1000)
    [4, 63]
    """
    counts = [math.ceil(labels / CHILDREN)]
    while counts[0] > MAX_ROOTS:
        counts.insert(0, math.ceil(counts[0] / CHILDREN))
    return counts


def simulate(costs: Costs, cores: int, **shape: float) -> Prediction:
    """Predict a training on a number of cores: one, or a multiple of the threads of a worker."""
    machines, workers = max(cores / CORES_A_MACHINE, 1), max(cores // THREADS, 1)
    wall = driver = work = 0.0
    longest = Stage("", 0, 0.0, 1.0)
    fits = shape["points"] * shape["entries"] * BYTES_AN_ENTRY < MEMORY
    for stage in stages(costs, **shape):
        seconds = stage.seconds * (1.0 if cores == 1 else stage.shared)
        computing = math.ceil(stage.tasks / workers) * seconds
        reading = 0.0 if fits else stage.reads / (READ_RATE * machines)
        own = stage.driver + costs.driver_task * stage.tasks
        wall += max(computing, reading, costs.driver_task * stage.tasks) + stage.driver
        driver, work = driver + own, work + stage.tasks * stage.seconds
        longest = max(longest, stage._replace(seconds=seconds), key=lambda each: each.seconds)
    return Prediction(wall, driver, work, longest)


def costs_of(report: dict[str, Any]) -> Costs:
    """Compute the costs of units of work from the tree of a result of `bench.scaleout`."""
    tasks, data = report["tasks"], report["data"]
    levels = range(1 + max(task["depth"] for task in tasks if task["name"] == "train_range"))

    def total(name: str, what: str, depth: int | None = None) -> float:
        own = [task[what] for task in tasks if task["name"] == name and depth in (None, task["depth"])]
        return float(sum(own))

    reached = [total("route", "value", depth) for depth in levels]
    return Costs(
        driver_entry=report["driver_cpu"] / data["entries"],
        driver_task=report["driver_task"],
        sum_entry=total("sum_labels", "cpu") / (data["entries"] * data["labels_a_point"]),
        centroid=report["centroid_bytes"] / data["labels"],
        split_label=total("split_range", "cpu") / (data["labels"] * report["halvings"]),
        route_point=[total("route", "cpu", depth) / data["points"] for depth in levels],
        train_entry=[total("train_range", "cpu", depth) / reached[depth] for depth in levels],
        model_entry=total("train_range", "received") / sum(reached),
        group=report["groups"]["4"] / 4 / report["groups"]["1"],
    )


def neighbor_hours(blend: dict[str, Any], entries: float) -> float:
    """Return the hours for the neighbors of a blend: three tasks after each other, in proportion to the entries."""
    chain = ("count_features", "measure_rarity", "measure_powers")
    return float(sum(blend["longest"][name] for name in chain) * entries / blend["entries"] / 3600)


def table(costs: Costs) -> Iterator[str]:
    """Yield the lines of a Markdown table of predictions."""
    yield "| labels x points | cores | hours | times one core | driver, % of CPU | longest task, minutes |"
    yield "|---|---|---|---|---|---|"
    for labels, points in ((1e6, 3e6), (1e7, 3e7), (1e8, 3e8)):
        shape = {"labels": labels, "points": points, "entries": 75.0, "labels_a_point": 5.45}
        alone = simulate(costs, 1, **shape).wall
        for cores in (1, 16, 100, 1000):
            found = simulate(costs, cores, **shape)
            share = 100 * found.driver / (found.driver + found.work)
            size, longest = f"{labels / 1e6:g} M x {points / 1e6:g} M", found.longest
            times = f"{found.wall / 3600:,.2f} | {alone / found.wall:,.1f} | {share:.1f}"
            yield f"| {size} | {cores:,} | {times} | {longest.seconds / 60:,.1f} ({longest.name}) |"


def network_table(found: dict[str, Any], labels: float = 1e8, points: float = 3e8) -> Iterator[str]:
    """Yield the lines of a Markdown table of an epoch of a network, from the part `network` of `bench.scaleout`.

    A step costs what the measured one did, of as many points and hidden units: the driver's part once, the tasks' part
    in proportion to the active labels, divided among up to 16 tasks. Machines of 16 cores have one task each. They read
    the batch, and write and read records, at 1 GB/s each; gradients travel to the driver at 1 GB/s. All records are
    written again every 1,024 steps.
    """
    width, batch = found["sizes"]["hidden"], found["sizes"]["batch_size"]
    active = batch * 5.45 + 256
    record = found["files"]["records"] / found["active"]
    one = found["workers"]["1"]
    task = (_median(one, "tasks") + _median(one, "tidying")) * active / found["active"]
    yield "| workers | ms a step | of these, the driver's | hours an epoch | GB of records |"
    yield "|---|---|---|---|---|"
    for tasks in (1, 4, 16):
        driver = _median(one, "driver") + tasks * batch * width * 4 / NETWORK_RATE
        files = (found["files"]["batch"] + 2 * active / tasks * record) / READ_RATE
        table = 2 * labels / tasks * record / READ_RATE / 1024
        step = driver + task / tasks + files + table
        hours = step * points / batch / 3600
        yield f"| {tasks} | {1e3 * step:,.0f} | {1e3 * driver:,.0f} | {hours:,.1f} | {labels * record / 1e9:,.0f} |"


def _median(runs: list[dict[str, float]], name: str) -> float:
    return statistics.median(run[name] for run in runs)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the predictions from a result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", type=Path)
    report = json.loads(parser.parse_args(arguments).result.read_text())
    if "tree" in report:
        print("\n".join(table(costs_of(report["tree"]))))
    if "blend" in report:
        hours = neighbor_hours(report["blend"], 3e8 * 75)
        print(f"the neighbors of a blend of 300 M points: {hours:.1f} hours, whatever the number of cores")
    if "network" in report:
        print("\n".join(network_table(report["network"])))


if __name__ == "__main__":
    main()
