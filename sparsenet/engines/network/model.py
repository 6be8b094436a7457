"""The network: its layers, the forward and backward pass, and its weights as plain arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.batches import Batch, Postings, Workspace
from sparsenet.core.rows import Rows, RowSource
from sparsenet.core.validation import integer
from sparsenet.engines.network.layers import Backward, Dense, Pass, SparseInput
from sparsenet.engines.network.optim import Parameter
from sparsenet.engines.network.output import SampledOutput
from sparsenet.kernels.types import F32, I32, I64
from sparsenet.storage.narrow import narrow_rows, of_rows

#: Maximum points per block.
MAX_POINTS = 1024


class OutputStep(Protocol):
    """A training step of the output layer; see `Network.train_step`."""

    def __call__(self, batch: Batch, hidden: F32, context: Pass, *, step: int, factor: float) -> tuple[float, F32]:
        """Update the layer; return the loss and the gradient of `hidden`."""


@dataclass
class Network:
    """A feed-forward network from sparse points to sampled labels.

    Parameters
    ----------
    output : SampledOutput
        The output layer.
    input : SparseInput, optional
        The first layer; None for a wide path alone.
    hidden : sequence of Dense
        Fully connected layers between them.

    Examples
    --------
    >>> from sparsenet import BinaryCrossEntropy, Network, RandomSampler, SampledOutput, SparseInput
    >>> network = Network(
    ...     input=SparseInput(n_features=100, n_units=16),
    ...     output=SampledOutput(16, 1000, sampler=RandomSampler(), loss=BinaryCrossEntropy(), n_negatives=50),
    ... )
    >>> network.initialise(seed=0)
    >>> network.memory(batch_size=32)["weights"]
    74464
    """

    output: SampledOutput
    input: SparseInput | None = None
    hidden: Sequence[Dense] = ()

    def __post_init__(self) -> None:
        widths = [self.input.n_outputs if self.input else 0, *(layer.n_outputs for layer in self.hidden)]
        expected = [*(layer.n_inputs for layer in self.hidden), self.output.n_inputs]
        for position, (width, wanted) in enumerate(zip(widths, expected, strict=True)):
            if width != wanted:
                raise ValueError(f"layer {position + 2} takes {wanted} inputs, but the layer below has {width} outputs")
        names = [parameter.name for parameter in self.parameters()]
        if len(set(names)) < len(names):
            repeated = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"two layers have weights called {repeated!r}: give each Dense layer a name of its own")

    def parameters(self) -> list[Parameter]:
        """Return the trainable parameters, from input to output."""
        return [p for layer in self.below() for p in layer.parameters()] + self.output.parameters()

    def initialise(self, seed: int) -> None:
        """Draw the initial weights."""
        rng = np.random.default_rng(integer("seed", seed, 0))
        for layer in self.below():
            layer.initialise(rng)
        self.output.initialise(rng)

    def below(self) -> list[SparseInput | Dense]:
        """Return the layers below the output, input first."""
        return [*([self.input] if self.input else []), *self.hidden]

    def memory(self, *, batch_size: int, n_active: int | None = None) -> dict[str, int]:
        """Estimate the bytes that training needs, by purpose, without allocating anything.

        `n_active` is the expected number of active labels of a batch; by default the number of negatives.
        """
        needed = self.output.memory(batch_size=batch_size, n_active=n_active)
        for parameter in (p for layer in self.below() for p in layer.parameters()):
            weights = parameter.nbytes(training=False)
            needed["weights"] += weights
            needed["optimizer"] += parameter.nbytes(training=True) - weights
        return needed

    def train_step(
        self, batch: Batch, context: Pass, *, step: int, factor: float, output_step: OutputStep | None = None
    ) -> float:
        """Take one training step on a batch; return its loss.

        `step` counts from 1; `factor` scales the learning rates. `output_step` updates an output layer whose rows are
        elsewhere.
        """
        hidden, backwards = self._forward(batch.features, batch.feature_postings, context)
        grad: F32 | None
        if output_step is None:
            loss, output_backward = self.output.forward(batch, hidden, context)
            grad = output_backward()
        else:
            loss, grad = output_step(batch, hidden, context, step=step, factor=factor)
        for backward in reversed(backwards):
            assert grad is not None
            grad = backward(grad)
        for parameter in self.parameters():
            parameter.apply(step=step, factor=factor, threads=context.threads)
        self.output.after_step()
        return loss

    def blocks(self, features: Rows, *, min_points: int = 128, max_multiplications: float = 5e10) -> Iterator[Rows]:
        """Split points into blocks that take less than a second to score, because Ctrl-C waits for a block."""
        cost = self.output.n_labels * max(self.output.n_inputs, 16)
        n = int(max_multiplications / max(cost, 1)) // min_points * min_points
        return features.blocks(min(max(n, min_points), MAX_POINTS))

    def hidden_units(self, features: Rows, threads: int) -> F32:
        """Compute the units of the last hidden layer, (n, h); h is 0 without hidden layers."""
        self.check_ready(features)
        features.check("features")
        return self.units_of_checked(features, threads)

    def units_of_checked(self, features: Rows, threads: int) -> F32:
        """Compute `hidden_units` of rows that are known to be well-formed: for one point, the check is a tenth."""
        return self._forward(features, None, Pass(threads, Workspace()))[0]

    def topk(
        self, features: Rows, k: int, threads: int, on_block: Callable[[int], None] | None = None
    ) -> tuple[I32, F32]:
        """Return the k best labels of each point and their scores, (n, k) each, best first.

        `on_block` is called after each block with the number of points done.
        """
        self.check_ready(features)
        k = integer("k", k, 1, self.output.n_labels)
        labels = np.empty((len(features), k), np.int32)
        scores = np.empty((len(features), k), np.float32)
        for own, block, units in self._with_units(features, threads):
            labels[own], scores[own] = self.output.topk(block, units, k, threads)
            if on_block:
                on_block(own.stop)
        return labels, scores

    def scores_of(self, features: Rows, labels: I32, threads: int) -> F32:
        """Score only the candidate `labels` of each point, (n, c); return scores of the same shape."""
        self.check_ready(features)
        scores = np.empty(labels.shape, np.float32)
        for own, block, units in self._with_units(features, threads, features.blocks(MAX_POINTS)):
            scores[own] = self.output.scores_of(block, units, labels[own], threads)
        return scores

    def all_scores(self, features: Rows, threads: int) -> F32:
        """Score every label, (n, n_labels), unsorted; equal to the scores of `topk` up to rounding."""
        self.check_ready(features)
        scores = np.empty((len(features), self.output.n_labels), np.float32)
        for own, block, units in self._with_units(features, threads):
            scores[own] = self.output.all_scores(block, units, threads)
        return scores

    def log_totals(self, features: Rows, threads: int) -> F32:
        """Compute the log-sum-exp of all scores of each point, the logarithm of the softmax denominator."""
        self.check_ready(features)
        totals = np.empty(len(features), np.float32)
        for own, block, units in self._with_units(features, threads):
            totals[own] = self.output.log_totals(block, units, threads)
        return totals

    def _with_units(
        self, features: Rows, threads: int, blocks: Iterable[Rows] | None = None
    ) -> Iterator[tuple[slice, Rows, F32]]:
        """Yield the slice, the points and the hidden units of each block."""
        done = 0
        for block in self.blocks(features) if blocks is None else blocks:
            yield slice(done, done + len(block)), block, self.hidden_units(block, threads)
            done += len(block)

    def wide_alone(self) -> Network:
        """Return a network without hidden units that shares this one's wide path and biases."""
        return Network(output=self.output.wide_alone())

    def drop_hidden(self) -> None:
        """Remove the hidden layers and the dense weights; keep the wide path and the biases."""
        self.output, self.input, self.hidden = self.output.wide_alone(), None, ()

    def keep_narrow(self) -> None:
        """Hold rows in 8 bits that were rounded to that."""
        for parameter, indptr in self._roundable():
            parameter.keep_narrow(indptr)

    def _roundable(self) -> Iterator[tuple[Parameter, I64 | None]]:
        """Yield the weights that rounding changes, and their row pointers if they are sparse."""
        if self.input:
            yield self.input.weight, None
        if self.output.n_inputs:
            yield self.output.weight, None
        if self.output.wide:
            yield self.output.wide.weight, self.output.wide.indptr

    @property
    def nbytes(self) -> int:
        """Bytes of the weights and the training state."""
        return sum(array.nbytes for each in self.parameters() for array in (each.value, *each.state.values()))

    def copy(self) -> Network:
        """Return a copy without training state."""
        states = [parameter.state for parameter in self.parameters()]
        try:
            for parameter in self.parameters():
                parameter.state = {}
            return deepcopy(self)
        finally:
            for parameter, state in zip(self.parameters(), states, strict=True):
                parameter.state = state

    def drop_state(self) -> None:
        """Free all training state; further training starts with fresh optimizers."""
        for parameter in self.parameters():
            parameter.drop_state()
        self.output.drop_state()

    def weights(self, *, recode: bool = False) -> dict[str, NDArray[np.generic]]:
        """Return the arrays of the trained model by name, as views: floats, or 8-bit codes and their scales.

        `recode` also returns codes of rows that were rounded and then read as floats.
        """
        arrays: dict[str, NDArray[np.generic]] = {}
        recoded = {each.name: each.coded(indptr) for each, indptr in self._roundable()} if recode else {}
        for parameter in self.parameters():
            rows = recoded.get(parameter.name, parameter.narrow)
            arrays |= {parameter.name: parameter.value} if rows is None else of_rows(parameter.name, rows)
        if self.output.wide:
            arrays["wide.indptr"], arrays["wide.indices"] = self.output.wide.indptr, self.output.wide.indices
        return arrays

    def set_weights(self, arrays: dict[str, NDArray[np.generic]]) -> None:
        """Set weights returned by `weights`; raise ValueError if one is missing or does not fit."""
        for parameter in self.parameters():
            if parameter.name not in arrays:
                raise ValueError(f"the array {parameter.name!r} is missing")
            indptr = self.output.wide.indptr if self.output.wide and parameter is self.output.wide.weight else None
            if (rows := narrow_rows(parameter.name, arrays, indptr)) is not None:
                parameter.adopt(rows)
                continue
            with np.errstate(over="ignore", invalid="ignore"):
                value = np.asarray(arrays[parameter.name], np.float32)
                # Check the sum, which is finite if all weights are, to save a boolean array.
                if not np.isfinite(value.sum(dtype=np.float64)):
                    raise ValueError(f"the weights {parameter.name} hold NaN or infinity, or overflow float32")
            parameter.allocate(value)
        if self.output.wide:
            self.output.wide.forget_inverted()

    def _forward(self, features: Rows, postings: Postings | None, context: Pass) -> tuple[F32, list[Backward]]:
        self.check_ready(features)
        if self.input is None:
            return np.empty((len(features), 0), np.float32), []
        units, backward = self.input.forward(features, postings, context)
        backwards = [backward]
        for layer in self.hidden:
            units, backward = layer.forward(units, context)
            backwards.append(backward)
        return units, backwards

    @property
    def n_features(self) -> int:
        """Return the number of features that points must have."""
        if self.input is not None:
            return int(self.input.weight.shape[0])
        assert self.output.wide is not None, "a network has hidden units or a wide path"
        return self.output.wide.n_features

    def check_ready(self, features: RowSource) -> None:
        """Reject points of the wrong width: a kernel would read beyond the end of the weights."""
        if not hasattr(features, "in_memory"):
            raise TypeError(f"features must be Rows, got {type(features).__name__}: pass Rows.of(X)")
        for parameter in self.parameters():
            if not parameter.has_weights:
                raise ValueError(f"{parameter.name} has no weights yet: call initialise(seed) on the network first")
        widths = [self.input.weight.shape[0]] if self.input else []
        widths += [self.output.wide.n_features] if self.output.wide else []
        for width in widths:
            if features.width != width:
                raise ValueError(f"features has {features.width} columns, the network takes {width}")
