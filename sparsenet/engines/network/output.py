"""The sampled output layer: one neuron per label; a batch computes only the active neurons.

All points of a batch share one active set, chosen in `active`. Scores then form a dense tile, which is bound by
arithmetic, and updates stay sparse. Active sets for each point, as in SLIDE, are available for comparison.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sparsenet import kernels
from sparsenet.core.batches import Batch, Postings, Slots
from sparsenet.core.rows import Rows
from sparsenet.core.validation import MAX_WIDTH, instance, integer
from sparsenet.engines.network.active import ActiveSet, Sampling
from sparsenet.engines.network.layers import Pass, uniform
from sparsenet.engines.network.losses import Loss
from sparsenet.engines.network.optim import Adam, Optimizer, Parameter
from sparsenet.engines.network.samplers import FrequencySampler, LSHSampler, RandomSampler, Sampler
from sparsenet.engines.network.wide import Touched, WidePath
from sparsenet.index.exact import exact_topk
from sparsenet.kernels.types import F32, I32


class _LastBatch(NamedTuple):
    """The last batch's hidden units and changed rows, passed to the sampler after the update."""

    hidden: F32
    changed: I32


class OutputBackward(Protocol):
    """The backward function of a batch: records the gradients of the layer, and returns that of `hidden`."""

    def __call__(self, scale: float = 1.0) -> F32:
        """Multiply all gradients by `scale`."""


class SampledOutput:
    """Label scores: the sum of a deep path (dense rows over hidden units) and a wide path (sparse rows over features).

    Parameters
    ----------
    n_inputs : int
        Hidden units below; 0 without a deep path.
    n_labels : int
        Number of neurons.
    sampler : Sampler
        Draws the negatives.
    loss : Loss
        The training objective.
    n_negatives : int
        Negatives to sample for each batch or, with `per_sample`, for each point.
    wide : WidePath, optional
        Sparse weights in addition to the dense ones.
    initial_bias : float
        Initial bias of every neuron; negative, since most labels are absent from most points.
    bf16 : bool
        Round the operands of the dense products to bfloat16, which some CPUs multiply twice as fast.
    per_sample : bool
        Give each point its own active set, as in SLIDE, for comparison; deep path only.
    optimizer, bias_optimizer : Optimizer, optional
        Optimizers of the dense rows (n_labels, n_inputs) and the biases (n_labels, 1); Adam by default.

    Examples
    --------
    >>> from sparsenet import BinaryCrossEntropy, RandomSampler
    >>> output = SampledOutput(16, 1000, sampler=RandomSampler(), loss=BinaryCrossEntropy(), n_negatives=50)
    >>> [(parameter.name, parameter.shape) for parameter in output.parameters()]
    [('output.weight', (1000, 16)), ('output.bias', (1000, 1))]
    """

    #: Labels in a block when all are scored. An attribute of the class, since pickles of version 0.1 do not hold it.
    label_block = 8192

    def __init__(
        self,
        n_inputs: int,
        n_labels: int,
        *,
        sampler: Sampler,
        loss: Loss,
        n_negatives: int = 2048,
        wide: WidePath | None = None,
        initial_bias: float = -5.0,
        bf16: bool = False,
        per_sample: bool = False,
        optimizer: Optimizer | None = None,
        bias_optimizer: Optimizer | None = None,
    ) -> None:
        n_inputs, n_labels = integer("n_inputs", n_inputs, 0, MAX_WIDTH), integer("n_labels", n_labels, 1, MAX_WIDTH)
        n_negatives = integer("n_negatives", n_negatives, 1, MAX_WIDTH)
        if n_inputs == 0 and wide is None:
            raise ValueError("an output layer needs hidden units (n_inputs > 0), a wide path, or both")
        if n_inputs == 0 and isinstance(sampler, LSHSampler):
            raise ValueError("an LSHSampler hashes hidden units: it needs n_inputs > 0")
        if per_sample and wide is not None:
            raise ValueError("per_sample=True supports the deep path only: pass wide=None")
        self.n_inputs, self.n_labels = n_inputs, n_labels
        self.sampler, self.loss, self.n_negatives = instance("sampler", sampler), instance("loss", loss), n_negatives
        self.wide, self.initial_bias, self.bf16, self.per_sample = wide, initial_bias, bf16, per_sample
        optimizer = optimizer or Adam()
        self._latest: _LastBatch | None = None
        self.weight = Parameter("output.weight", (n_labels, n_inputs), optimizer)
        self.bias = Parameter("output.bias", (n_labels, 1), bias_optimizer or optimizer)

    def parameters(self) -> list[Parameter]:
        """Return the trainable parameters."""
        return [self.weight, self.bias, *([self.wide.weight] if self.wide else [])]

    def wide_alone(self) -> SampledOutput:
        """Return a layer without dense rows that shares this one's wide path, biases and sampler."""
        layer = SampledOutput(
            0,
            self.n_labels,
            sampler=self.sampler,
            loss=self.loss,
            n_negatives=self.n_negatives,
            wide=self.wide,
            initial_bias=self.initial_bias,
            bf16=self.bf16,
            optimizer=self.weight.optimizer,
        )
        layer.weight.allocate()
        layer.bias = self.bias
        return layer

    def initialise(self, rng: np.random.Generator) -> None:
        """Draw the dense rows and set the biases; the wide path has been initialised already."""
        self.weight.allocate(uniform(rng, self.weight.shape, 3.0 * max(self.n_inputs, 1)))
        self.bias.allocate(np.full(self.bias.shape, self.initial_bias, np.float32))

    def rescale(self, slope: float, shifts: F32) -> None:
        """Rescale the weights so that scores become ``slope * score + shifts``, with a shift for each label.

        Weights are replaced by new arrays, since callers may hold the old ones.
        """
        self.weight.value = np.float32(slope) * self.weight.value
        self.bias.value = np.float32(slope) * self.bias.value + shifts[:, None]
        if self.wide and slope != 1:
            self.wide.forget_inverted()
            self.wide.weight.value = np.float32(slope) * self.wide.weight.value

    def prepare(self, label_counts: NDArray[np.int64], threads: int) -> None:
        """Prepare the sampler for training data with these label counts, (n_labels,)."""
        self.sampler.prepare(self.n_labels, label_counts)
        if isinstance(self.sampler, LSHSampler):
            self.sampler.threads = threads

    def after_step(self) -> None:
        """Pass the rows that the optimizers just changed to the sampler."""
        if self._latest is not None:
            self.sampler.update(self.weight.value, self.bias.value.reshape(-1), self._latest.changed)

    def index_recall(self) -> float | None:
        """Measure the sampler's recall of the deep path's top 5 on a few points of the last batch.

        None for samplers that do not search for hard negatives.
        """
        if self._latest is None or not self.n_inputs or isinstance(self.sampler, RandomSampler | FrequencySampler):
            return None
        hidden = np.ascontiguousarray(self._latest.hidden[:32])
        weight, bias = self.weight.value, self.bias.value.reshape(-1)
        return self.sampler.measure_recall(hidden, weight, bias, self.n_negatives)

    def memory(self, *, batch_size: int, n_active: int | None = None) -> dict[str, int]:
        """Estimate the bytes that training needs, by purpose, without allocating anything.

        `n_active` is the expected number of active labels of a batch; by default the number of negatives.
        """
        a = self.n_negatives if n_active is None else n_active
        weights = sum(p.nbytes(training=False) for p in self.parameters())
        return {
            "weights": weights,
            "optimizer": sum(p.nbytes(training=True) for p in self.parameters()) - weights,
            "index": self.sampler.memory(self.n_labels, self.n_inputs),
            "batch": 4 * a * (batch_size + 2 * self.n_inputs),
        }

    def forward(self, batch: Batch, hidden: F32, context: Pass) -> tuple[float, OutputBackward]:
        """Return the loss of a batch and its backward function, which may be called once."""
        assert context.rng is not None, "the sampled output is computed in training only"
        if self.per_sample:
            return self._forward_pairs(batch, hidden, context)
        active = self.choose(batch, hidden, context.rng)
        return self.forward_active(active, batch.feature_postings, hidden, context)

    def choose(self, batch: Batch, hidden: F32, rng: np.random.Generator) -> ActiveSet:
        """Choose the labels that a batch computes."""
        return self._sampling().choose(batch, hidden, rng)

    def forward_active(
        self, active: ActiveSet, postings: Postings, hidden: F32, context: Pass
    ) -> tuple[float, OutputBackward]:
        """Compute `forward` for labels that have been chosen; `postings` are the features of the batch."""
        a, n = len(active.labels), len(hidden)
        self._latest = _LastBatch(hidden, active.labels)
        tile, touched = self._scores(active.labels, postings, hidden, context, self.bf16)
        loss = self.loss.gradient(tile, active.positives, active.expected, context.threads)

        threads, weight = context.threads, self.weight.value

        def backward(scale: float = 1.0) -> F32:
            rows, sums = active.labels.astype(np.int64), np.einsum("ij->i", tile)  # 3 times as fast as `sum`
            if np.isfinite(loss) and not np.isfinite(sums).all():
                raise ArithmeticError(f"{self.loss!r} computed a non-finite gradient for a loss of {loss:g}")
            if scale != 1:
                np.multiply(tile, np.float32(scale), out=tile)
                np.multiply(sums, np.float32(scale), out=sums)
            self.bias.record(rows, sums[:, None])
            if self.wide and touched:
                self.wide.record_gradient(touched, postings, tile, context.workspace, context.threads)
            below: F32 = np.empty((n, self.n_inputs), np.float32)
            if self.n_inputs:
                grads: F32 = np.asarray(context.workspace.take("output.grads", (a, self.n_inputs), np.float32))
                kernels.matmul(tile, hidden, grads, None, None, None, False, False, self.bf16, threads)
                self.weight.record(rows, grads)
                kernels.matmul(tile, weight, below, None, active.labels, None, True, False, self.bf16, threads)
            return below

        return loss, backward

    def _scores(
        self, labels: I32, postings: Postings, hidden: F32, context: Pass, bf16: bool = False
    ) -> tuple[F32, Touched | None]:
        """Score `labels` for all points of a batch, (a, n); also return the wide weights used."""
        tile: F32 = np.asarray(context.workspace.take("output.tile", (len(labels), len(hidden)), np.float32))
        bias = self.bias.value[labels, 0]
        kernels.matmul(self.weight.value, hidden, tile, labels, None, bias, False, True, bf16, context.threads)
        if not self.wide:
            return tile, None
        touched = self.wide.touch(labels, postings, context.workspace, context.threads)
        self.wide.add_scores(touched, postings, tile, context.threads)
        return tile, touched

    def _sampling(self) -> Sampling:
        return Sampling(self.sampler, self.n_labels, self.n_negatives)

    def _forward_pairs(self, batch: Batch, hidden: F32, context: Pass) -> tuple[float, OutputBackward]:
        """Compute `forward` with an active set for each point."""
        assert context.rng is not None
        indptr, labels, is_positive, expected = self._sampling().choose_pairs(batch, hidden, context.rng)
        scores = np.empty(len(labels), np.float32)
        kernels.pair_dot(indptr, labels, hidden, self.weight.value, scores, context.threads)
        scores += self.bias.value[labels, 0]
        self._latest = _LastBatch(hidden, np.unique(labels))
        loss = self.loss.pair_gradient(scores, indptr, is_positive, expected)

        def backward(scale: float = 1.0) -> F32:
            np.multiply(scores, np.float32(scale), out=scores)
            # Transpose the pairs: the gradient of a label is a sum over the points with that label active.
            by_label = csr_array((scores, labels, indptr), shape=(len(batch), self.n_labels)).tocsc()
            rows = np.flatnonzero(np.diff(by_label.indptr)).astype(np.int64)
            starts = np.append(by_label.indptr[rows], by_label.indptr[-1]).astype(np.int64)
            grads = np.empty((len(rows), self.n_inputs), np.float32)
            kernels.csr_matmul(starts, by_label.indices.astype(np.int32), by_label.data, hidden, grads, context.threads)
            self.weight.record(rows, grads)
            self.bias.record(rows, np.add.reduceat(by_label.data, starts[:-1])[:, None])
            below: F32 = np.empty_like(hidden)
            kernels.csr_matmul(indptr, labels, scores, self.weight.value, below, context.threads)
            return below

        return loss, backward

    def log_totals(self, features: Rows, hidden: F32, threads: int) -> F32:
        """Compute the log-sum-exp of all scores of each point, (n,), in blocks of labels."""
        context, postings = Pass(threads), Slots(features.width).transpose(features)
        total = np.full(len(features), -np.inf)
        for begin in range(0, self.n_labels, self.label_block):
            labels = np.arange(begin, min(begin + self.label_block, self.n_labels), dtype=np.int32)
            tile = self._scores(labels, postings, hidden, context)[0]
            largest = tile.max(axis=0)
            total = np.logaddexp(total, largest + np.log(np.exp(tile - largest).sum(axis=0, dtype=np.float64)))
        return total.astype(np.float32)

    def drop_state(self) -> None:
        """Free the training state: the last batch and the sampler's index."""
        self._latest = None
        self.sampler.prepare(self.n_labels, np.zeros(self.n_labels, np.int64))

    def topk(self, features: Rows, hidden: F32, k: int, threads: int) -> tuple[I32, F32]:
        """Score every label exactly; return the k best labels of each point and their scores, best first."""
        bias = self.bias.value.reshape(-1)
        if not self.wide:
            return exact_topk(hidden, self.weight.value, bias, k, threads)
        labels, scores = np.empty((len(features), k), np.int32), np.empty((len(features), k), np.float32)
        inverted = self.wide.inverted()
        kernels.predict_topk(
            hidden,
            self.weight.value,
            bias,
            features.indptr,
            features.indices,
            features.data,
            inverted.indptr,
            inverted.indices,
            inverted.data,
            labels,
            scores,
            threads,
        )
        return labels, scores

    def scores_of(self, features: Rows, hidden: F32, labels: I32, threads: int) -> F32:
        """Score only the candidate `labels` of each point, (n, c); return scores of the same shape."""
        scores = np.zeros(labels.shape, np.float32)
        if self.wide:
            weights = (self.wide.indptr, self.wide.indices, self.wide.weight.value.reshape(-1))
            points = (features.indptr, features.indices, features.data, features.width)
            kernels.wide_scores(*points, *weights, labels, scores, threads)
        scores += self.bias.value.reshape(-1)[labels]
        return self.add_deep(scores, hidden, labels, threads)

    def add_deep(self, scores: F32, hidden: F32, labels: I32, threads: int) -> F32:
        """Add the deep path's scores of the candidate `labels`, (n, c), to `scores` in place; return `scores`."""
        if self.n_inputs:
            deep = np.empty(labels.size, np.float32)
            pointers = np.arange(len(labels) + 1) * labels.shape[1]
            kernels.pair_dot(pointers, labels.reshape(-1), hidden, self.weight.value, deep, threads)
            scores += deep.reshape(labels.shape)
        return scores

    def all_scores(self, features: Rows, hidden: F32, threads: int) -> F32:
        """Score every label, (n, n_labels), in blocks of labels."""
        context, postings = Pass(threads), Slots(features.width).transpose(features)
        scores = np.empty((len(features), self.n_labels), np.float32)
        for begin in range(0, self.n_labels, self.label_block):
            labels = np.arange(begin, min(begin + self.label_block, self.n_labels), dtype=np.int32)
            scores[:, begin : begin + len(labels)] = self._scores(labels, postings, hidden, context)[0].T
        return scores
