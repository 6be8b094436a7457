"""The state of a head: weights in shared memory, and the state of training as tensors and numbers.

`torch.load(weights_only=True)` reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sparsenet.core.machine import default_threads
from sparsenet.engines.network.output import SampledOutput
from sparsenet.torch.row_gradients import Gradients

#: The prefix of a sampler's arrays.
SAMPLER = "sampler."


class HeadState(nn.Module):
    """The weights of a head, and their saving, loading, copying and moving."""

    weight: Tensor
    bias: Tensor
    wide_weight: Tensor

    _output: SampledOutput
    _counts: NDArray[np.int64]
    _gradients: Gradients
    _batches: int
    n_jobs: int | None
    steps: int

    @property
    def threads(self) -> int:
        """Return the number of threads."""
        return self.n_jobs or default_threads()

    def get_extra_state(self) -> dict[str, Any]:
        """Return the state of training for `state_dict`, as tensors and numbers."""
        return collect(self._output, steps=self.steps, batches=self._batches)

    def set_extra_state(self, state: Mapping[str, Any]) -> None:
        """Continue from the state of training that `get_extra_state` returned."""
        self.steps, self._batches = int(state["steps"]), int(state["batches"])
        self._output.prepare(self._counts, self.threads)
        restore(self._output, state)
        self._gradients.clear()

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Check everything before the first weight changes, and copy into the shared memory."""
        wrong = problems(self._output, dict(self.named_buffers(recurse=False)), state_dict, prefix)
        if wrong:
            error_msgs.extend(wrong)
            return
        local_metadata["assign_to_params_buffers"] = False
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        if self._output.wide:
            self._output.wide.forget_inverted()

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy needs: the weights once, and no gradients that wait for a step."""
        return {**self.__dict__, "_output": without_weights(self._output), "_gradients": Gradients()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Share memory between the copied weights and the copied buffers again."""
        super().__setstate__(state)
        output = self._output
        output.weight.value = self.weight.numpy()
        output.bias.value = self.bias.numpy().reshape(-1, 1)
        if output.wide:
            output.wide.weight.value = self.wide_weight.numpy().reshape(-1, 1)

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        """Leave the head where it is: it computes in float32 on the CPU, wherever the encoder is."""
        return self

    def _replicate_for_data_parallel(self) -> Self:
        raise RuntimeError(
            "an ExtremeHead cannot be replicated by nn.DataParallel: wrap the encoder alone, and call the head on its "
            "gathered output"
        )


def collect(output: SampledOutput, *, steps: int, batches: int) -> dict[str, Any]:
    """Return the counters, the states of the optimizers and the state of the sampler."""
    arrays = {f"{p.name}.{name}": array for p in output.parameters() for name, array in p.state.items()}
    arrays |= {SAMPLER + name: np.asarray(array) for name, array in output.sampler.state().items()}
    return {"steps": steps, "batches": batches, "arrays": {n: torch.from_numpy(a) for n, a in arrays.items()}}


def problems(output: SampledOutput, buffers: Mapping[str, Tensor], state: Mapping[str, Any], prefix: str) -> list[str]:
    """Return what is wrong with a state for `load_state_dict`, before anything is changed."""
    own = {name: tensor for name, tensor in buffers.items() if prefix + name in state}
    others = [f"{prefix}{name} must be a tensor" for name in own if not isinstance(state[prefix + name], Tensor)]
    if others:
        return others
    wrong = [
        f"{prefix}{name} must have the shape {tuple(tensor.shape)}, got {tuple(state[prefix + name].shape)}"
        for name, tensor in own.items()
        if state[prefix + name].shape != tensor.shape
    ]
    wrong += [f"{prefix}{name} holds NaN or infinity" for name in own if not torch.isfinite(state[prefix + name]).all()]
    extra = prefix + "_extra_state"
    return wrong + ([f"{extra} {text}" for text in _training_problems(output, state[extra])] if extra in state else [])


def _training_problems(output: SampledOutput, state: Any) -> list[str]:
    if not isinstance(state, Mapping) or {"steps", "batches", "arrays"} - state.keys():
        return ["must have steps, batches and arrays"]
    if any(not isinstance(state[name], int) or state[name] < 0 for name in ("steps", "batches")):
        return ["must have steps and batches of at least 0"]
    arrays = state["arrays"]
    if not isinstance(arrays, Mapping) or not all(isinstance(array, Tensor) for array in arrays.values()):
        return ["must have a tensor for each name of its arrays"]
    expected = {
        f"{p.name}.{name}": (shape, torch.from_numpy(np.empty(0, dtype)).dtype)
        for p in output.parameters()
        for name, (shape, dtype) in p.optimizer.state_shapes(p.shape).items()
    }
    optimizers = " and ".join(dict.fromkeys(type(p.optimizer).__name__ for p in output.parameters()))
    wrong = []
    for name, array in arrays.items():
        if name.startswith(SAMPLER):
            continue
        if name not in expected:
            wrong.append(f"has {name}, which {optimizers} does not use")
        elif (tuple(array.shape), array.dtype) != expected[name]:
            wrong.append(f"has {name} of {array.dtype} {tuple(array.shape)}, expected {expected[name]}")
        elif not torch.isfinite(array).all():
            wrong.append(f"has NaN or infinity in {name}")
    try:
        copy(output.sampler).restore(_of_sampler(arrays))  # of a copy: nothing must change yet
    except (ValueError, LookupError) as error:
        wrong.append(f"does not fit the sampler: {error}")
    return wrong


def restore(output: SampledOutput, state: Mapping[str, Any]) -> None:
    """Set the states of the optimizers and of the sampler."""
    arrays = state["arrays"]
    for parameter in output.parameters():
        names = parameter.optimizer.state_shapes(parameter.shape)
        own = {name: arrays.get(f"{parameter.name}.{name}") for name in names}
        parameter.drop_state()
        if own and all(array is not None for array in own.values()):
            parameter.state = {name: np.array(array.detach().cpu().numpy()) for name, array in own.items()}
    output.sampler.restore(_of_sampler(arrays))


def _of_sampler(arrays: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a sampler by their own names."""
    return {n.removeprefix(SAMPLER): a.detach().cpu().numpy() for n, a in arrays.items() if n.startswith(SAMPLER)}


def without_weights(output: SampledOutput) -> SampledOutput:
    """Return a copy of a layer that shares everything but the weights, and has none."""
    light = copy(output)
    light.weight, light.bias, light.wide = copy(output.weight), copy(output.bias), copy(output.wide)
    parameters = [light.weight, light.bias]
    if light.wide:
        light.wide.weight = copy(light.wide.weight)
        parameters.append(light.wide.weight)
    for parameter in parameters:
        del parameter.value
    return light
