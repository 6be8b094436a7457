"""The state of a head: weights in shared memory, and the state of training, all as tensors.

`torch.load(weights_only=True)` and safetensors read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
#: The numbers of steps and of batches.
COUNTERS = ("steps", "batches")


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
    threads: int
    steps: int

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Add the state of training: tensors only, since safetensors holds nothing else."""
        super()._save_to_state_dict(destination, prefix, keep_vars)
        state = collect(self._output, steps=self.steps, batches=self._batches)
        destination.update({prefix + name: tensor for name, tensor in state.items()})

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
        given = {key.removeprefix(prefix): value for key, value in state_dict.items() if key.startswith(prefix)}
        weights = dict(self.named_buffers(recurse=False))
        wrong = StateCheck(self._output, weights, given).problems()
        missing_keys += [prefix + name for name in (*weights, *COUNTERS) if name not in given]
        error_msgs += [prefix + problem for problem in wrong]
        if wrong:
            return
        with torch.no_grad():
            for name, tensor in weights.items():
                tensor.copy_(given.get(name, tensor))
        if self._output.wide:
            self._output.wide.forget_inverted()
        if not set(COUNTERS) - given.keys():
            self.steps, self._batches = (int(given[name]) for name in COUNTERS)
            self._output.prepare(self._counts, self.threads)
            restore(self._output, given)
            self._gradients.clear()

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy needs: the weights once, and no gradients that wait for a step."""
        return {**self.__dict__, "_output": without_weights(self._output), "_gradients": Gradients()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Share memory between the copied weights and the copied buffers again."""
        super().__setstate__(state)
        self.threads = self.n_jobs or default_threads()  # a copy may live on another machine
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


def collect(output: SampledOutput, *, steps: int, batches: int) -> dict[str, Tensor]:
    """Return the counters, the states of the optimizers and the state of the sampler."""
    arrays = {f"{p.name}.{name}": array for p in output.parameters() for name, array in p.state.items()}
    arrays |= {SAMPLER + name: np.asarray(array) for name, array in output.sampler.state().items()}
    counters = dict(zip(COUNTERS, map(torch.tensor, (steps, batches)), strict=True))
    return counters | {name: torch.from_numpy(array) for name, array in arrays.items()}


class StateCheck:
    """Finds what is wrong with the `given` state before `load_state_dict` changes anything."""

    def __init__(self, output: SampledOutput, weights: Mapping[str, Tensor], given: Mapping[str, Any]) -> None:
        self._sampler, self._given = output.sampler, given
        # Tensors of the expected shapes; their values do not matter.
        self._expected = dict(weights) | dict.fromkeys(COUNTERS, torch.tensor(0))
        self._incomplete: list[str] = []
        for parameter in output.parameters():
            shapes = parameter.optimizer.state_shapes(parameter.shape)
            own = {f"{parameter.name}.{name}": torch.empty(shape, device="meta") for name, (shape, _) in shapes.items()}
            self._expected |= own
            # Before the first step, optimizers have no state.
            self._incomplete += own.keys() - given.keys() if own.keys() & given.keys() else ()

    def problems(self) -> list[str]:
        """Describe what is missing, no tensor, of another shape or NaN, and what does not fit the sampler."""
        prefix = (SAMPLER,) if self._sampler.state() else ()
        wrong = [f"{name} is missing" for name in self._incomplete]
        for name, value in self._given.items():
            if not isinstance(value, Tensor):
                wrong.append(f"{name} must be a tensor")
            elif name in self._expected:
                wrong += self._of_tensor(name, value)
            elif not name.startswith(prefix):
                wrong.append(f"{name} is not part of a head with this optimizer and sampler")
        if wrong or set(COUNTERS) - self._given.keys():
            return wrong
        try:
            copy(self._sampler).restore(_of_sampler(self._given))  # of a copy: nothing must change yet
        except (ValueError, LookupError) as error:
            return [f"{SAMPLER}* does not fit the sampler: {error}"]
        return []

    def _of_tensor(self, name: str, tensor: Tensor) -> Iterator[str]:
        expected = self._expected[name]
        if tensor.shape != expected.shape:
            yield f"{name} must have the shape {tuple(expected.shape)}, got {tuple(tensor.shape)}"
        elif name in COUNTERS and (tensor.is_floating_point() or tensor < 0):
            yield f"{name} must be an integer of at least 0, got {tensor.item()}"
        elif not torch.isfinite(tensor).all():
            yield f"{name} holds NaN or infinity"


def restore(output: SampledOutput, given: Mapping[str, Tensor]) -> None:
    """Set the states of the optimizers and of the sampler."""
    for parameter in output.parameters():
        shapes = parameter.optimizer.state_shapes(parameter.shape)
        parameter.drop_state()
        if all(f"{parameter.name}.{name}" in given for name in shapes):
            parameter.state = {
                name: np.array(given[f"{parameter.name}.{name}"].detach().cpu().numpy(), dtype)
                for name, (_, dtype) in shapes.items()
            }
    output.sampler.restore(_of_sampler(given))


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
