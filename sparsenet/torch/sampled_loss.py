"""The loss of a batch as an autograd function."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from sparsenet.engines.network.output import OutputBackward
from sparsenet.kernels.types import F32
from sparsenet.torch.row_gradients import BatchSpace


class AddsGradients(Protocol):
    """A head: it keeps its own gradients until its next step."""

    def add_gradient(self, backward: OutputBackward, scale: float, space: BatchSpace) -> F32:
        """Add the gradient of a loss times `scale`; return the gradient of the hidden states."""


class SampledLoss(torch.autograd.Function):
    """The loss of a batch; its backward pass adds to the gradients of the head."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        anchor: Tensor,
        head: AddsGradients,
        loss: float,
        backward: OutputBackward,
        space: BatchSpace,
    ) -> Tensor:
        """Return the loss; `anchor` requires a gradient even if `hidden` does not."""
        ctx.save_for_backward(hidden)  # PyTorch then notices changes in place
        ctx.head, ctx.output_backward, ctx.space = head, backward, space
        return torch.tensor(loss, dtype=torch.float32, device=hidden.device)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradient of the hidden states."""
        (hidden,) = ctx.saved_tensors
        if ctx.output_backward is None:
            raise RuntimeError("the loss of an ExtremeHead has one backward(): compute the loss again for another one")
        below = ctx.head.add_gradient(ctx.output_backward, float(grad), ctx.space)
        ctx.output_backward = ctx.space = None
        needed = torch.from_numpy(below).to(hidden.device, hidden.dtype) if ctx.needs_input_grad[0] else None
        return needed, None, None, None, None, None
