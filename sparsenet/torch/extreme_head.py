"""`ExtremeHead`: an output layer with up to millions of labels as a PyTorch module."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import Optimizer as TorchOptimizer
from torch.utils.hooks import RemovableHandle

from sparsenet.core.batches import Batch
from sparsenet.core.machine import default_threads
from sparsenet.core.rows import Rows
from sparsenet.core.validation import MAX_WIDTH, integer, optional, real
from sparsenet.engines.network.building import initial_bias, output_layer
from sparsenet.engines.network.layers import Pass
from sparsenet.engines.network.losses import Loss
from sparsenet.engines.network.optim import Adam, Optimizer
from sparsenet.engines.network.options import NetworkOptions
from sparsenet.engines.network.output import OutputBackward, SampledOutput
from sparsenet.engines.network.samplers import AllSampler, Sampler
from sparsenet.engines.network.wide import WidePath
from sparsenet.index.hashing import LSHConfig
from sparsenet.kernels.types import F32
from sparsenet.torch.feature_rows import as_features
from sparsenet.torch.head_state import HeadState
from sparsenet.torch.hidden_tensors import as_array
from sparsenet.torch.label_tensors import as_rows, checked_counts
from sparsenet.torch.row_gradients import BatchSpace, Gradients
from sparsenet.torch.sampled_loss import SampledLoss
from sparsenet.torch.touch_adam import TouchAdam


class TopLabels(NamedTuple):
    """The best labels of each point, best first: ids (n, k) and scores (n, k)."""

    labels: Tensor
    scores: Tensor


class ExtremeHead(HeadState):
    """An output layer for up to millions of labels under any encoder.

    A step computes the true labels of the batch and a few hundred sampled negatives, instead of all labels. The head
    keeps its weights in float32 on the CPU and updates them itself, with optimizers that touch only the rows of these
    labels: call `step` after ``backward``, or `attach` the head to the optimizer of the encoder once.

    The weights are buffers that share memory with sparsenet. They are part of `state_dict`, together with the state of
    training, and not of ``parameters()``. Moving a model to a GPU leaves its heads on the CPU; hidden states are copied
    to the head, and their gradients back.

    Parameters
    ----------
    n_inputs : int
        Width of the hidden states.
    n_labels : int
        Number of labels.
    loss : {"bce", "softmax"} or Loss
        ``"bce"``: an independent yes-or-no decision for each label. ``"softmax"``: labels compete.
    sampler : {"random", "frequency", "lsh", "none"}, LSHConfig or Sampler
        Sampler of the negatives; ``"none"`` computes all labels at each step.
    n_negatives : int or "auto"
        Negatives sampled at each step; ``"auto"``: 256, or all labels if there are at most 1,024.
    optimizer : {"adam", "adagrad", "sgd"} or Optimizer
        Optimizer of the head's weights. ``"adam"`` follows the rule of `torch.optim.SparseAdam`: the moments of a row
        decay at the steps that touch it.
    learning_rate : float or "auto"
        Learning rate of the head; ``"auto"``: 0.004.
    weight_decay : float
        Weight decay of the rows that a step touches.
    label_smoothing : float
        Distance of the targets from 0 and 1.
    wide : WidePath, optional
        Sparse weights from features to labels, in addition to the hidden states: see `WidePath.from_centroids`. Calls
        then take the features of the points, too.
    label_counts : array of shape (n_labels,), optional
        The number of training points of each label, for ``sampler="frequency"``.
    precision : {"auto", "float32", "bfloat16"}
        Precision of the operands in products; ``"auto"``: bfloat16 if the CPU multiplies it faster.
    n_jobs : int or None
        Threads; None: all available to this process. The result does not depend on it.
    seed : int
        Seed of the initial weights and of the negatives.

    Attributes
    ----------
    weight : Tensor of shape (n_labels, n_inputs)
    bias : Tensor of shape (n_labels,)
    steps : int
        The number of steps so far.

    Examples
    --------
    >>> import torch
    >>> from sparsenet.torch import ExtremeHead
    >>> _ = torch.manual_seed(0)
    >>> encoder, head = torch.nn.Linear(10, 16), ExtremeHead(16, 5000, seed=0)
    >>> optimizer = torch.optim.Adam(encoder.parameters(), lr=0.01)
    >>> _ = head.attach(optimizer)
    >>> points, labels = torch.eye(10), torch.arange(0, 5000, 500)
    >>> for _ in range(200):
    ...     optimizer.zero_grad()
    ...     loss = head(torch.relu(encoder(points)), labels)
    ...     loss.backward()
    ...     optimizer.step()
    >>> head.topk(torch.relu(encoder(points)), k=1).labels.ravel().tolist()
    [0, 500, 1000, 1500, 2000, 2500, 3000, 3500, 4000, 4500]
    """

    def __init__(
        self,
        n_inputs: int,
        n_labels: int,
        *,
        loss: str | Loss = "bce",
        sampler: str | LSHConfig | Sampler = "random",
        n_negatives: int | str = "auto",
        optimizer: str | Optimizer = "adam",
        learning_rate: float | str = "auto",
        weight_decay: float = 0.0,
        label_smoothing: float = 0.0,
        wide: WidePath | None = None,
        label_counts: Any = None,
        precision: str = "auto",
        n_jobs: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        n_inputs = integer("n_inputs", n_inputs, 1, MAX_WIDTH)
        n_labels = integer("n_labels", n_labels, 1, MAX_WIDTH)
        if wide is not None and len(wide.indptr) != n_labels + 1:
            raise ValueError(f"wide must have weights of {n_labels} labels, got {len(wide.indptr) - 1}")
        options = NetworkOptions.of(
            {
                "hidden": n_inputs,
                "wide": wide is not None,
                "loss": loss,
                "sampler": sampler,
                "n_negatives": n_negatives,
                "optimizer": optimizer,
                "learning_rate": learning_rate,
                "weight_decay": weight_decay,
                "label_smoothing": label_smoothing,
                "precision": precision,
                "n_jobs": n_jobs,
            }
        )
        if optimizer == "adam":
            options = replace(options, optimizer=TouchAdam.of(cast(Adam, options.optimizer)))
        seed, counts = integer("seed", seed, 0), checked_counts(label_counts, n_labels)
        threads = options.n_jobs or default_threads()
        output = output_layer(options, counts, n_labels, wide=wide, seed=seed, threads=threads)
        # One label of a point among the labels of a step. Most steps leave a rare label out.
        n_computed = n_labels if isinstance(output.sampler, AllSampler) else output.n_negatives
        output.initial_bias = initial_bias(options, 1.0, n_computed)
        output.initialise(np.random.default_rng(seed))
        self._set_up(output, counts, seed, options.n_jobs)

    def _set_up(self, output: SampledOutput, counts: NDArray[np.int64], seed: int, n_jobs: int | None) -> None:
        """Take over an initialised output layer; its weights become buffers."""
        # Counting CPUs reads files of the system, which takes longer than small batches: once is enough.
        self.seed, self.n_jobs, self.threads = seed, n_jobs, n_jobs or default_threads()
        self._output, self._counts, self._gradients = output, counts, Gradients()
        self.steps = self._batches = 0
        output.prepare(counts, self.threads)
        self.register_buffer("weight", torch.from_numpy(output.weight.value))
        self.register_buffer("bias", torch.from_numpy(output.bias.value.reshape(-1)))
        if output.wide:
            self.register_buffer("wide_weight", torch.from_numpy(output.wide.weight.value.reshape(-1)))

    @classmethod
    def from_output(
        cls, output: SampledOutput, label_counts: NDArray[np.int64], *, seed: int = 0, n_jobs: int | None = None
    ) -> Self:
        """Return a head that takes over an initialised output layer."""
        head = cls.__new__(cls)
        nn.Module.__init__(head)
        head._set_up(output, label_counts, seed, n_jobs)
        return head

    @classmethod
    def from_linear(cls, linear: nn.Linear, **options: Any) -> Self:
        """Return a head with a copy of the weights of a linear layer; `options` are further parameters of the class."""
        head = cls(linear.in_features, linear.out_features, **options)
        with torch.no_grad():
            head.weight.copy_(linear.weight)
            head.bias.zero_() if linear.bias is None else head.bias.copy_(linear.bias)
        return head

    def to_linear(self) -> nn.Linear:
        """Return a linear layer with a copy of the dense weights; its output are the scores of all labels."""
        linear = nn.Linear(self.n_inputs, self.n_labels)
        with torch.no_grad():
            linear.weight.copy_(self.weight)
            linear.bias.copy_(self.bias)
        return linear

    @property
    def n_inputs(self) -> int:
        """Return the width of the hidden states."""
        return self._output.n_inputs

    @property
    def n_labels(self) -> int:
        """Return the number of labels."""
        return self._output.n_labels

    @property
    def has_wide_path(self) -> bool:
        """Return whether the head scores sparse features, too."""
        return self._output.wide is not None

    def extra_repr(self) -> str:
        """Return the settings for the representation of the module."""
        output = self._output
        return f"{self.n_inputs}, {self.n_labels}, loss={output.loss!r}, sampler={output.sampler!r}"

    def memory(self, *, batch_size: int = 256) -> dict[str, int]:
        """Estimate the bytes that training needs, by purpose.

        Every point of the batch may have one label of its own.
        """
        n_active = min(self.n_labels, self._output.n_negatives + batch_size)
        return self._output.memory(batch_size=batch_size, n_active=n_active)

    # --- training ----------------------------------------------------------------------------------------------------

    @torch.compiler.disable
    def forward(self, hidden: Tensor, labels: Any, features: Any = None) -> Tensor:
        """Return the mean loss of a batch, over its labels and sampled negatives.

        Parameters
        ----------
        hidden : Tensor of shape (n, n_inputs)
            Hidden states in float32, bfloat16 or float16.
        labels : list of lists, SciPy matrix or Tensor
            The labels of each point, at least one: ids (n,), ids (n, m) padded with -1 or -100, lists of ids, or an
            indicator (n, n_labels).
        features : SciPy matrix or sparse Tensor of shape (n, n_features), optional
            The features of the points, for a head with a wide path.
        """
        array = as_array(hidden, self.n_inputs)
        if not len(array):
            raise ValueError("hidden has no points: leave out empty batches")
        rows, points = as_rows(labels, len(array), self.n_labels), self._features(features, len(array))
        space = self._gradients.space(points.width, self.n_labels)
        batch = Batch(points, space.features.transpose(points), space.labels.transpose(rows))
        self._batches += 1
        context = Pass(self.threads, space.workspace, np.random.default_rng((self.seed, 1, self._batches)))
        loss, backward = self._output.forward(batch, array, context)
        if not torch.is_grad_enabled():
            self._gradients.free.append(space)
            return torch.tensor(loss, dtype=torch.float32, device=hidden.device)
        # The anchor makes the loss require a gradient under a frozen encoder, too.
        anchor = torch.empty(0, requires_grad=True)
        return SampledLoss.apply(hidden, anchor, self, loss, backward, space)

    def attach(self, optimizer: TorchOptimizer, *, max_norm: float | None = None) -> RemovableHandle:
        """Step after each step of `optimizer`; return a handle whose `remove` ends that.

        The learning rate of the head follows the learning rate of the first parameter group, so that schedules apply
        to both. `max_norm` is that of `step`. With a `torch.amp.GradScaler`, call `step` instead.
        """
        if not isinstance(optimizer, TorchOptimizer):
            raise TypeError(f"optimizer must be a torch.optim.Optimizer, got {type(optimizer).__name__}")
        optional(real, "max_norm", max_norm, 0, math.inf, open_low=True)
        group = optimizer.param_groups[0]
        # Schedulers keep the rate of the first step in "initial_lr" and may have lowered "lr" already.
        peak = float(group.get("initial_lr", group["lr"]))

        def follow(*_: Any) -> None:
            if self._gradients.by_name:
                rate = float(optimizer.param_groups[0]["lr"])
                self.step(factor=rate / peak if peak else 1.0, max_norm=max_norm)

        return optimizer.register_step_post_hook(follow)

    def step(self, *, factor: float = 1.0, max_norm: float | None = None, loss_scale: float | None = None) -> float:
        """Update the weights with the gradients since the last step; return the norm of the gradient.

        Parameters
        ----------
        factor : float
            Multiplies the learning rate.
        max_norm : float, optional
            Shrink a longer gradient to this norm.
        loss_scale : float, optional
            Divide the gradient by this, the scale of a `torch.amp.GradScaler`. The step is then skipped, as by the
            scaler, if the gradient overflowed; without a scale, that is an error.
        """
        if not self._gradients.by_name:
            raise RuntimeError("step() needs the gradient of a backward(), and there is none since the last step")
        real("factor", factor, 0, math.inf)
        optional(real, "max_norm", max_norm, 0, math.inf, open_low=True)
        divisor = 1.0 if loss_scale is None else real("loss_scale", loss_scale, 0, math.inf, open_low=True)
        gradients, norm = self._gradients.by_name, self._gradients.norm() / divisor
        self._gradients.clear()
        if not math.isfinite(norm):
            if loss_scale is not None:
                return norm
            raise FloatingPointError(
                "the gradient holds NaN or infinity, and the weights stay as they were: lower the learning rates; "
                "with a GradScaler, pass loss_scale"
            )
        shrink = 1.0 if max_norm is None or norm <= max_norm else max_norm / norm
        self.steps += 1
        for parameter in self._output.parameters():
            if parameter.name in gradients:
                gradient = gradients[parameter.name]
                if shrink != divisor:
                    gradient.grads *= np.float32(shrink / divisor)
                parameter.record(gradient.rows, gradient.grads)
                parameter.apply(step=self.steps, factor=factor, threads=self.threads)
        if self._output.wide:
            self._output.wide.forget_inverted()
        weight, bias = self._output.weight.value, self._output.bias.value.reshape(-1)
        self._output.sampler.update(weight, bias, gradients[self._output.weight.name].rows)
        return norm

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients since the last step."""
        super().zero_grad(set_to_none)
        self._gradients.clear()

    def add_gradient(self, backward: OutputBackward, scale: float, space: BatchSpace) -> F32:
        """Add the gradient of a loss times `scale`; return the gradient of the hidden states."""
        with np.errstate(over="ignore", invalid="ignore"):  # `step` looks for infinity
            below = backward(scale)
        self._gradients.add(self._output.parameters(), space)
        return below

    def _features(self, features: Any, n_points: int) -> Rows:
        if self._output.wide is None:
            if features is not None:
                raise ValueError("features are for a head with a wide path: pass wide=, or leave them out")
            return Rows(np.zeros(n_points + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), 0)
        return as_features(features, n_points, self._output.wide.n_features)

    # --- answers -----------------------------------------------------------------------------------------------------

    @torch.compiler.disable
    def topk(self, hidden: Tensor, k: int = 5, features: Any = None) -> TopLabels:
        """Return the `k` best labels of each point and their scores, best first; every label is scored.

        With ``loss="bce"``, ``torch.sigmoid(scores)`` are probabilities.
        """
        array = as_array(hidden, self.n_inputs)
        k = integer("k", k, 1, self.n_labels)
        points = self._features(features, len(array))
        labels, scores = self._output.topk(points, array, k, self.threads)
        return TopLabels(*(torch.from_numpy(found).to(hidden.device) for found in (labels.astype(np.int64), scores)))

    @torch.compiler.disable
    def scores(self, hidden: Tensor, features: Any = None) -> Tensor:
        """Return the scores of all labels, (n, n_labels), without a gradient."""
        array = as_array(hidden, self.n_inputs)
        points = self._features(features, len(array))
        return torch.from_numpy(self._output.all_scores(points, array, self.threads)).to(hidden.device)
