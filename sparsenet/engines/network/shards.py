"""Train the labels of an output layer by tasks, in 16 shards (see `shard_tasks`); hidden layers stay in the driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from sparsenet.core.batches import Batch
from sparsenet.core.rows import Rows
from sparsenet.core.tasks import Session, TaskRunner
from sparsenet.engines.network.active import ActiveSet
from sparsenet.engines.network.label_records import LabelRecords, allocate, lacks_state
from sparsenet.engines.network.layers import Pass
from sparsenet.engines.network.model import Network
from sparsenet.engines.network.optim import Parameter
from sparsenet.engines.network.shard_tasks import (
    SHARDS,
    Names,
    PartIndex,
    ShardBatch,
    ShardPlan,
    merge_chunk,
    rewrite_block,
    sum_in_pairs,
    train_part,
)
from sparsenet.kernels.types import F32

#: Chunks after which all records are written again.
MAX_CHUNKS = 32


class Shards:
    """Takes the training steps of the output layer of a network by tasks.

    While they train, the layer has no arrays in this process: `gather` brings them back.

    Parameters
    ----------
    network : Network
    session : Session
        Where tasks run.
    n_workers : int
        Each step has as many tasks, rounded up to 1, 2, 4, 8 or 16.
    threads : int
        Threads of each task.

    Attributes
    ----------
    are_away : bool
        Whether the arrays of the layer are with the tasks alone.
    """

    def __init__(self, network: Network, session: Session, n_workers: int, threads: int) -> None:
        self._network, self._session, self._threads = network, session, threads
        self._n_parts = min(1 << (n_workers - 1).bit_length(), SHARDS)
        self._plan: ShardPlan | None = None
        self._names, self._step, self._n_merged = Names(-1, 0), 0, 0
        self.are_away = False

    def step(self, batch: Batch, hidden: F32, context: Pass, *, step: int, factor: float) -> tuple[float, F32]:
        """Take a training step; return the loss and the gradient of the hidden units."""
        if self._plan is None:
            self._send(step - 1)
        elif not self.are_away:
            self._release()
        assert self._plan is not None
        assert context.rng is not None
        plan, names, scratch = self._plan, self._names, self._session.scratch
        active = self._network.output.choose(batch, hidden, context.rng)
        scratch.put(names.batch(step), *self._batch(batch, hidden, active))
        parts = range(plan.n_parts)
        losses = self._session.run(train_part, [(plan, names, step, part, factor) for part in parts])
        below = sum_in_pairs(lambda part: scratch.take(names.below(step, part))[0], plan.n_parts)
        self._step = step
        if names.ends_chunk(step):
            self._tidy()
        return float(sum(loss for part in losses for loss in part)), below

    def gather(self, with_states: Sequence[Parameter] = ()) -> None:
        """Bring the weights of the layer to this process, and the optimizers' state of some parameters.

        They stay here until the next step.
        """
        plan, output = self._plan, self._network.output
        if plan is None or not (self.are_away or any(map(lacks_state, with_states))):
            return
        self.are_away = True  # also if Ctrl-C comes in between
        for parameter in output.parameters():
            allocate(parameter, with_state=any(parameter is each for each in with_states))
        for part in range(plan.n_parts):
            index = PartIndex(self._session.scratch, plan, part).at(self._names, self._step)
            for rows in plan.blocks(part):
                records = index.read(self._session.scratch, rows)[0]
                records.write_to(output, plan.labels_of(part, records.rows))
        if output.wide is not None:
            output.wide.forget_inverted()
        self.are_away = False

    def restart(self) -> None:
        """Send the layer again before the next step, since it has changed here."""
        self._plan, names = None, self._names
        self._session.scratch.drop(names.labels)
        self._session.scratch.drop(names.steps(self._step))

    def _send(self, step: int) -> None:
        """Write all records of the layer, after a step, to files."""
        output, wide = self._network.output, self._network.output.wide
        plan = self._plan = ShardPlan(
            n_parts=self._n_parts,
            n_labels=output.n_labels,
            n_inputs=output.n_inputs,
            n_features=self._network.n_features,
            loss=output.loss,
            bf16=output.bf16,
            optimizer=output.weight.optimizer,
            bias_optimizer=output.bias.optimizer,
            wide=None if wide is None else wide.config,
            threads=self._threads,
        )
        self._names, self._step, self._n_merged = Names(self._names.layer + 1, step), step, 0
        for part in range(plan.n_parts):
            for number, rows in enumerate(plan.blocks(part)):
                records = LabelRecords.of_layer(output, plan.labels_of(part, rows), rows)
                records.put(self._session.scratch, self._names.block(part, number))
        self._release()

    def _release(self) -> None:
        """Free the arrays of the layer in this process."""
        output = self._network.output
        for parameter in output.parameters():
            parameter.value, parameter.state = np.broadcast_to(np.float32(0), parameter.shape), {}
        if output.wide is not None:
            output.wide.forget_inverted()
        self.are_away = True

    def _batch(self, batch: Batch, hidden: F32, active: ActiveSet) -> ShardBatch:
        """Order the active labels by shard."""
        shards, points = active.labels % SHARDS, batch.features
        order = np.argsort(shards, kind="stable")
        positives = active.positives
        ones = np.ones(len(positives.points), np.float32)
        ordered = Rows(positives.indptr, positives.points, ones, len(batch)).take(order)
        if self._network.output.wide is None:  # then nothing reads the features
            points = Rows(np.zeros(len(batch) + 1, np.int64), points.indices[:0], points.data[:0], points.width)
        return ShardBatch(
            hidden,
            points.indptr,
            points.indices,
            points.data,
            np.searchsorted(shards[order], np.arange(SHARDS + 1)),
            active.labels[order],
            active.expected[order],
            ordered.indptr,
            ordered.indices,
        )

    def _tidy(self) -> None:
        """Merge the records of the last steps, or write all records to new files; drop the old ones."""
        assert self._plan is not None
        plan, names, scratch, step = self._plan, self._names, self._session.scratch, self._step
        if self._n_merged < plan.n_labels and names.merged < MAX_CHUNKS:
            parts = [(plan, names, step, part) for part in range(plan.n_parts)]
            self._n_merged += sum(self._session.run(merge_chunk, parts))
            self._names = names._replace(merged=names.merged + 1)
        else:
            blocks = [(part, block) for part in range(plan.n_parts) for block, _ in enumerate(plan.blocks(part))]
            self._session.run(rewrite_block, [(plan, names, step, *block) for block in blocks])
            self._names, self._n_merged = names.rewritten(step), 0
            scratch.drop(names.labels)
        scratch.drop(names.steps(step))


@contextmanager
def open_shards(network: Network, runner: TaskRunner | None, threads: int) -> Iterator[Shards | None]:
    """Open a session for the shards of a network; None without a runner."""
    if runner is None:
        yield None
        return
    with runner.session() as session:
        yield Shards(network, session, runner.n_workers, runner.task_threads(threads))
