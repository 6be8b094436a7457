"""Train the output layer in 16 shards of labels, as pure tasks.

Label l belongs to shard ``l % 16``. A task has a part: one shard, or 2, 4, 8 or 16 neighbouring ones. It computes one
shard after the other, and gradients of hidden units are added up in pairs of shards, then pairs of pairs. So the bits
do not depend on the number of parts.

A task of step t reads the newest records of its labels (see `label_records`) and the batch, and writes their records
after the step, and the gradient, to files of its own. It changes no file, so it may be sent again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sparsenet.core.batches import Postings, Slots, Workspace
from sparsenet.core.rows import Rows
from sparsenet.core.scratch import Scratch
from sparsenet.engines.network.active import ActiveSet
from sparsenet.engines.network.label_records import RecordIndex, n_dense
from sparsenet.engines.network.layers import Pass
from sparsenet.engines.network.losses import Loss, Positives
from sparsenet.engines.network.optim import Optimizer
from sparsenet.engines.network.output import SampledOutput
from sparsenet.engines.network.samplers import RandomSampler
from sparsenet.engines.network.wide import WideConfig, WidePath
from sparsenet.kernels.types import F32, I32, I64

SHARDS = 16
#: Rows of a part in a file.
BLOCK = 1 << 16
#: Steps whose files are merged: a process can map a limited number of files, often 1,024.
CHUNK = 32


@dataclass(frozen=True)
class ShardPlan:
    """How an output layer is divided into parts, and the settings of their layers."""

    n_parts: int
    n_labels: int
    n_inputs: int
    n_features: int
    loss: Loss
    bf16: bool
    optimizer: Optimizer
    bias_optimizer: Optimizer
    wide: WideConfig | None
    threads: int

    @property
    def shards_a_part(self) -> int:
        """Return the number of shards of each part."""
        return SHARDS // self.n_parts

    def rows_of(self, labels: I32 | I64) -> I64:
        """Return the row of each label in its part."""
        return np.asarray(labels // SHARDS * self.shards_a_part + labels % self.shards_a_part, np.int64)

    def labels_of(self, part: int, rows: I64) -> I64:
        """Return the labels of rows of a part."""
        own = self.shards_a_part
        return rows // own * SHARDS + part * own + rows % own

    def n_rows(self, part: int) -> int:
        """Return the number of labels of a part."""
        own, rest = self.shards_a_part, self.n_labels % SHARDS
        return self.n_labels // SHARDS * own + min(max(rest - part * own, 0), own)

    def blocks(self, part: int) -> Iterator[I64]:
        """Yield the rows of each block of a part."""
        n = self.n_rows(part)
        for begin in range(0, n, BLOCK):
            yield np.arange(begin, min(begin + BLOCK, n))

    def layer(self, n_labels: int) -> SampledOutput:
        """Lay out a layer for some labels, without weights."""
        empty = np.zeros(n_labels + 1, np.int64), np.empty(0, np.int32)
        return SampledOutput(
            self.n_inputs,
            n_labels,
            sampler=RandomSampler(),  # labels are chosen before
            loss=self.loss,
            wide=None if self.wide is None else WidePath(self.n_features, *empty, self.wide),
            bf16=self.bf16,
            optimizer=self.optimizer,
            bias_optimizer=self.bias_optimizer,
        )


class ShardBatch(NamedTuple):
    """The points, hidden units, and active labels by shard, which a step sends.

    Shard s has the labels from ``bounds[s]`` to ``bounds[s + 1] - 1``.
    """

    hidden: F32
    indptr: I64
    indices: I32
    data: F32
    bounds: I64
    labels: I32
    expected: F32
    positives_indptr: I64
    positives: I32

    def active(self, shard: int, places: I64) -> ActiveSet:
        """Return the active labels of a shard, whose places in a layer are given."""
        begin, end = int(self.bounds[shard]), int(self.bounds[shard + 1])
        indptr = self.positives_indptr[begin : end + 1]
        positives = Positives(indptr - indptr[0], self.positives[indptr[0] : indptr[-1]])
        return ActiveSet(places.astype(np.int32), positives, self.expected[begin:end])


class Names(NamedTuple):
    """The names of files. A chunk is `CHUNK` steps; the records that it changed are merged into one file at its end.

    Attributes
    ----------
    layer : how often the layer was sent before.
    since : the step after which all records were written.
    merged : the number of chunks since then.
    """

    layer: int
    since: int
    merged: int = 0

    @property
    def labels(self) -> str:
        """Return the beginning of the names of blocks and merged records."""
        return f"labels{self.layer}_{self.since}."

    def block(self, part: int, block: int) -> str:
        """Name a block of all records."""
        return f"{self.labels}block{part}.{block}"

    def chunk(self, part: int, chunk: int) -> str:
        """Name the merged records of a chunk."""
        return f"{self.labels}chunk{chunk}.{part}"

    def steps(self, step: int) -> str:
        """Return the beginning of the names of the files of the chunk that has `step`."""
        return f"steps{self.layer}_{self.since}_{(step - self.since - 1) // CHUNK}."

    def step(self, step: int, what: str) -> str:
        """Name a file of a step."""
        return f"{self.steps(step)}{step}.{what}"

    def changes(self, step: int, part: int) -> str:
        """Name the records that a step changed."""
        return self.step(step, f"records{part}")

    def below(self, step: int, part: int) -> str:
        """Name the gradient of the hidden units from a part."""
        return self.step(step, f"below{part}")

    def batch(self, step: int) -> str:
        """Name the batch of a step."""
        return self.step(step, "batch")

    def rewritten(self, step: int) -> Names:
        """Return the names of files since a later step."""
        return Names(self.layer, step)

    def ends_chunk(self, step: int) -> bool:
        """Return whether the steps since the last merge are a chunk."""
        return step - self.merged_until == CHUNK

    @property
    def merged_until(self) -> int:
        """Return the last step of the merged chunks."""
        return self.since + self.merged * CHUNK


def train_part(
    scratch: Scratch, plan: ShardPlan, names: Names, step: int, part: int, factor: float
) -> tuple[float, ...]:
    """Take a step of a part; return the loss of each of its shards."""
    batch = ShardBatch(*scratch.get(names.batch(step)))
    shards = range(part * plan.shards_a_part, (part + 1) * plan.shards_a_part)
    first, end = int(batch.bounds[shards[0]]), int(batch.bounds[shards[-1] + 1])
    rows = plan.rows_of(batch.labels[first:end])
    held = _held(scratch, plan.n_features)
    index, layer = held.index(plan, names, part, step - 1), plan.layer(max(len(rows), 1))
    records, places = index.read(scratch, rows)
    postings = held.slots.transpose(Rows(batch.indptr, batch.indices, batch.data, plan.n_features))
    context, losses = Pass(plan.threads, held.workspace), []

    def below(place: int) -> F32:
        begin, end = batch.bounds[shards[place] : shards[place] + 2] - first
        active = batch.active(shards[place], places[begin:end])
        loss, gradient = _step(layer, active, postings, batch.hidden, context, step, factor)
        losses.append(loss)
        return gradient

    if len(rows):
        records.fill(layer, plan.n_features)
    with np.errstate(over="ignore", invalid="ignore"):  # the driver checks the loss
        gradient = sum_in_pairs(below, len(shards))
    if len(rows):
        records = records.after_step(layer)
    records.put(scratch, names.changes(step, part))
    scratch.put(names.below(step, part), gradient)
    return tuple(losses)


def merge_chunk(scratch: Scratch, plan: ShardPlan, names: Names, step: int, part: int) -> int:
    """Write the records of a part that the chunk before `step` changed to one file; return their number."""
    steps = range(names.merged_until + 1, step + 1)
    rows = np.unique(np.concatenate([scratch.get(names.changes(each, part))[0] for each in steps]))
    records = _held(scratch, plan.n_features).index(plan, names, part, step).read(scratch, rows)[0]
    records.put(scratch, names.chunk(part, names.merged))
    return len(rows)


def rewrite_block(scratch: Scratch, plan: ShardPlan, names: Names, step: int, part: int, block: int) -> None:
    """Write all records of a block after a step to one file."""
    rows = np.arange(block * BLOCK, min((block + 1) * BLOCK, plan.n_rows(part)))
    index = _held(scratch, plan.n_features).index(plan, names, part, step)
    index.read(scratch, rows)[0].put(scratch, names.rewritten(step).block(part, block))


class PartIndex:
    """The index of the records of a part, which follows the steps."""

    def __init__(self, scratch: Scratch, plan: ShardPlan, part: int) -> None:
        self.plan, self._scratch, self._part = plan, scratch, part
        self._begun, self._done, self._merged = (-1, -1), -1, 0
        self._index: RecordIndex

    def at(self, names: Names, step: int) -> RecordIndex:
        """Return the index after a step."""
        part = self._part
        if self._begun != names[:2] or self._done > step:  # `step` is over if its task was sent again
            self._index = RecordIndex(n_dense(self.plan.layer(1)), np.empty(self.plan.n_rows(part), np.int64))
            self._begun, self._done, self._merged = names[:2], names.since, 0
            for block, _ in enumerate(self.plan.blocks(part)):
                self._add(names.block(part, block))
        for chunk in range(self._merged, names.merged):
            self._add(names.chunk(part, chunk))
        self._merged, self._done = names.merged, max(self._done, names.merged_until)
        for each in range(self._done + 1, step + 1):
            self._add(names.changes(each, part))
        self._done = step
        return self._index

    def _add(self, name: str) -> None:
        self._index.add(self._scratch, name)


def sum_in_pairs(value: Callable[[int], F32], n: int, first: int = 0) -> F32:
    """Add `n` arrays, a power of two: neighbours first, then pairs of neighbours, and so on."""
    if n == 1:
        return value(first)
    return np.asarray(sum_in_pairs(value, n // 2, first) + sum_in_pairs(value, n // 2, first + n // 2))


def _step(
    layer: SampledOutput, active: ActiveSet, postings: Postings, hidden: F32, context: Pass, step: int, factor: float
) -> tuple[float, F32]:
    """Take a step of some labels of a layer; return their loss and the gradient of the hidden units."""
    if not len(active.labels):
        return 0.0, np.zeros_like(hidden)
    loss, backward = layer.forward_active(active, postings, hidden, context)
    gradient = backward()
    for parameter in layer.parameters():
        parameter.apply(step=step, factor=factor, threads=context.threads)
    return loss, gradient


class _Held:
    """The indexes and buffers that a thread of a worker keeps between tasks; they follow from the files."""

    def __init__(self, scratch: Scratch, n_features: int) -> None:
        self._scratch, self.slots, self.workspace = scratch, Slots(n_features), Workspace()
        self._parts: dict[int, PartIndex] = {}

    def index(self, plan: ShardPlan, names: Names, part: int, step: int) -> RecordIndex:
        """Return the index of the records of a part after a step."""
        if part not in self._parts or self._parts[part].plan != plan:  # the layer changes when hidden units are dropped
            self._parts[part] = PartIndex(self._scratch, plan, part)
        return self._parts[part].at(names, step)


def _held(scratch: Scratch, n_features: int) -> _Held:
    found: _Held = scratch.made(threading.get_ident(), lambda: _Held(scratch, n_features))
    return found
