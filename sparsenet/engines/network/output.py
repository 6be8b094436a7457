"""The output layer: one neuron a label, of which a batch computes only the active ones.

`active` chooses these for all points of a batch: so the layer is a dense tile, bound by arithmetic, and its update
stays sparse. A set for each sample, as in SLIDE, is there for comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sparsenet import kernels
from sparsenet.core.batches import Batch, Postings, Slots
from sparsenet.core.rows import Rows
from sparsenet.core.validation import MAX_WIDTH, instance, integer
from sparsenet.engines.network.active import Sampling
from sparsenet.engines.network.layers import Pass, uniform
from sparsenet.engines.network.losses import Loss
from sparsenet.engines.network.optim import Adam, Optimizer, Parameter
from sparsenet.engines.network.samplers import FrequencySampler, LSHSampler, RandomSampler, Sampler
from sparsenet.engines.network.wide import Touched, WidePath
from sparsenet.index.exact import exact_topk
from sparsenet.kernels.types import F32, I32

#: Labels scored at a time where all of them are.
LABEL_BLOCK = 8192


class _Latest(NamedTuple):
    """What the sampler is to hear of the batch in hand once its update is done."""

    hidden: F32
    changed: I32


class SampledOutput:
    """Scores of labels: deep (dense rows over the hidden units) and wide (sparse rows over the features).

    Parameters
    ----------
    n_inputs : int
        Hidden units below, 0 for a wide path alone.
    n_labels : int
        Neurons.
    sampler : Sampler
        Chooses the negatives.
    loss : Loss
        What is minimised.
    n_negatives : int
        How many the sampler is asked for, for a batch or, `per_sample`, for each point.
    wide : WidePath, optional
        Sparse weights beside the dense ones.
    initial_bias : float
        Where every neuron starts; under a yes-or-no loss nearly every answer is no.
    bf16 : bool
        Round the operands of the dense tile's products to bfloat16, which some CPUs multiply twice as fast.
    per_sample : bool
        Give every point an active set of its own, as SLIDE does, for comparison; deep path only.
    optimizer, bias_optimizer : Optimizer, optional
        How the dense rows (n_labels, n_inputs) and the biases (n_labels, 1) move; Adam by default.

    Examples
    --------
    >>> from sparsenet import BinaryCrossEntropy, RandomSampler
    >>> output = SampledOutput(16, 1000, sampler=RandomSampler(), loss=BinaryCrossEntropy(), n_negatives=50)
    >>> [(parameter.name, parameter.shape) for parameter in output.parameters()]
    [('output.weight', (1000, 16)), ('output.bias', (1000, 1))]
    """

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
            raise ValueError("an LSHSampler looks at hidden units: it needs n_inputs > 0")
        if per_sample and wide is not None:
            raise ValueError("per_sample=True works on the deep path alone: pass wide=None")
        self.n_inputs, self.n_labels = n_inputs, n_labels
        self.sampler, self.loss, self.n_negatives = instance("sampler", sampler), instance("loss", loss), n_negatives
        self.wide, self.initial_bias, self.bf16, self.per_sample = wide, initial_bias, bf16, per_sample
        optimizer = optimizer or Adam()
        self._latest: _Latest | None = None
        self.weight = Parameter("output.weight", (n_labels, n_inputs), optimizer)
        self.bias = Parameter("output.bias", (n_labels, 1), bias_optimizer or optimizer)

    def parameters(self) -> list[Parameter]:
        """Return what is learnt."""
        return [self.weight, self.bias, *([self.wide.weight] if self.wide else [])]

    def wide_alone(self) -> SampledOutput:
        """Return a layer of this one's wide path, biases and sampler, which both then have, without dense rows."""
        alone = SampledOutput(
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
        alone.weight.allocate()
        alone.bias = self.bias
        return alone

    def initialise(self, rng: np.random.Generator) -> None:
        """Draw the dense rows and set the biases; the wide path comes with its own start."""
        self.weight.allocate(uniform(rng, self.weight.shape, 3.0 * max(self.n_inputs, 1)))
        self.bias.allocate(np.full(self.bias.shape, self.initial_bias, np.float32))

    def rescale(self, *, deep: float, slope: float, shifts: F32) -> None:
        """Make scores `slope` times the sum of both paths, the deep one `deep` times, plus `shifts`, (n_labels,).

        In new arrays: someone may hold on to weights as they were.
        """
        self.weight.value = np.float32(deep * slope) * self.weight.value
        self.bias.value = np.float32(slope) * self.bias.value + shifts[:, None]
        if self.wide and slope != 1:
            self.wide.forget_inverted()
            self.wide.weight.value = np.float32(slope) * self.wide.weight.value

    def prepare(self, label_counts: NDArray[np.int64], threads: int) -> None:
        """Get ready to be trained on data that holds each label so often, (L,)."""
        self.sampler.prepare(self.n_labels, label_counts)
        if isinstance(self.sampler, LSHSampler):
            self.sampler.threads = threads

    def after_step(self) -> None:
        """Tell the sampler which rows the optimizers have just moved."""
        if self._latest is not None:
            self.sampler.update(self.weight.value, self.bias.value.reshape(-1), self._latest.changed)

    def index_recall(self) -> float | None:
        """Return the share of the deep path's top 5 that a sample holds, on a few points of the last batch.

        None where the sampler does not look for them: what it then holds of them by chance says nothing of training.
        """
        if self._latest is None or not self.n_inputs or isinstance(self.sampler, RandomSampler | FrequencySampler):
            return None
        hidden = np.ascontiguousarray(self._latest.hidden[:32])
        weight, bias = self.weight.value, self.bias.value.reshape(-1)
        return self.sampler.measure_recall(hidden, weight, bias, self.n_negatives)

    def forward(self, batch: Batch, hidden: F32, context: Pass) -> tuple[float, Callable[[], F32]]:
        """Return the loss of a batch, and the function that records gradients and returns that of `hidden`."""
        assert context.rng is not None, "the sampled output is computed in training only"
        if self.per_sample:
            return self._forward_pairs(batch, hidden, context)
        active = self._sampling().choose(batch, hidden, context.rng)
        a, n = len(active.labels), len(batch)
        self._latest = _Latest(hidden, active.labels)
        tile, touched = self._scores(active.labels, batch.feature_postings, hidden, context, self.bf16)
        loss = self.loss.gradient(tile, active.positives, active.expected, context.threads)

        threads, weight = context.threads, self.weight.value

        def backward() -> F32:
            rows, sums = active.labels.astype(np.int64), np.einsum("ij->i", tile)  # in a third of the time of `sum`
            if np.isfinite(loss) and not np.isfinite(sums).all():
                raise ArithmeticError(f"{self.loss!r} made a gradient that is no number, of a loss of {loss:g}")
            self.bias.record(rows, sums[:, None])
            if self.wide and touched:
                self.wide.record_gradient(touched, batch.feature_postings, tile, context.workspace, context.threads)
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
        """Score some labels for all points of a batch, (a, n); also return the wide weights that took part."""
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

    def _forward_pairs(self, batch: Batch, hidden: F32, context: Pass) -> tuple[float, Callable[[], F32]]:
        """Do the same with an active set for each sample."""
        assert context.rng is not None
        indptr, labels, is_positive, expected = self._sampling().choose_pairs(batch, hidden, context.rng)
        scores = np.empty(len(labels), np.float32)
        kernels.pair_dot(indptr, labels, hidden, self.weight.value, scores, context.threads)
        scores += self.bias.value[labels, 0]
        self._latest = _Latest(hidden, np.unique(labels))
        loss = self.loss.pair_gradient(scores, indptr, is_positive, expected)

        def backward() -> F32:
            # The pairs by label: a label's gradient is a sum over the points that had it active.
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
        """Return the logarithm of the sum of exponentials of all scores of each point, (n,), never an n x L matrix."""
        context, postings = Pass(threads), Slots(features.width).transpose(features)
        total = np.full(len(features), -np.inf)
        for begin in range(0, self.n_labels, LABEL_BLOCK):
            labels = np.arange(begin, min(begin + LABEL_BLOCK, self.n_labels), dtype=np.int32)
            tile = self._scores(labels, postings, hidden, context)[0]
            largest = tile.max(axis=0)
            total = np.logaddexp(total, largest + np.log(np.exp(tile - largest).sum(axis=0, dtype=np.float64)))
        return total.astype(np.float32)

    def drop_state(self) -> None:
        """Free what only training needs: the last batch, and the sampler's index."""
        self._latest = None
        self.sampler.prepare(self.n_labels, np.zeros(self.n_labels, np.int64))

    def topk(self, features: Rows, hidden: F32, k: int, threads: int) -> tuple[I32, F32]:
        """Score every label exactly; return the k best of each point and their scores, best first."""
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
        """Score only the labels that are named for each point: (n, c), as `labels` are."""
        scores = np.zeros(labels.shape, np.float32)
        if self.wide:
            weights = (self.wide.indptr, self.wide.indices, self.wide.weight.value.reshape(-1))
            points = (features.indptr, features.indices, features.data, features.width)
            kernels.wide_scores(*points, *weights, labels, scores, threads)
        scores += self.bias.value.reshape(-1)[labels]
        return self.add_deep(scores, hidden, labels, threads)

    def add_deep(self, scores: F32, hidden: F32, labels: I32, threads: int) -> F32:
        """Add to the scores of labels that are named for each point what hidden units say of them; return these."""
        if self.n_inputs:
            deep = np.empty(labels.size, np.float32)
            pointers = np.arange(len(labels) + 1) * labels.shape[1]
            kernels.pair_dot(pointers, labels.reshape(-1), hidden, self.weight.value, deep, threads)
            scores += deep.reshape(labels.shape)
        return scores

    def all_scores(self, features: Rows, hidden: F32, threads: int) -> F32:
        """Return the score of every label, (n, n_labels), in no order of theirs, a block of labels at a time."""
        context, postings = Pass(threads), Slots(features.width).transpose(features)
        scores = np.empty((len(features), self.n_labels), np.float32)
        for begin in range(0, self.n_labels, LABEL_BLOCK):
            labels = np.arange(begin, min(begin + LABEL_BLOCK, self.n_labels), dtype=np.int32)
            scores[:, begin : begin + len(labels)] = self._scores(labels, postings, hidden, context)[0].T
        return scores
