"""Write a network without a wide path as an ONNX graph: from features to the k best classes and their probabilities."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.validation import integer
from sparsenet.engines.network.fit_network import FittedNetwork
from sparsenet.engines.network.layers import Activation, Dense
from sparsenet.engines.network.losses import BinaryCrossEntropy, SampledSoftmax
from sparsenet.features.scaling import MAX_SCALED, Scaling

#: The operator set, and the version of the format: old enough for runtimes of 2022.
OPSET, IR_VERSION = 17, 8
#: From this many bytes on, weights go to a second file, since a message of protobuf is limited to 2 GiB.
MAX_MESSAGE_BYTES = 1 << 30


class Graph:
    """Nodes and constants of a graph under construction; `add` returns the name of a node's output."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._numbers = count()

    def add(self, operator: str, inputs: Sequence[str], *, n_outputs: int = 1, **attributes: Any) -> Any:
        """Add a node and return the name of its output, or the names of several."""
        from onnx import helper

        names = [f"{operator}_{next(self._numbers)}" for _ in range(n_outputs)]
        self.nodes.append(helper.make_node(operator, list(inputs), names, **attributes))
        return names[0] if n_outputs == 1 else names

    def constant(self, value: Any, dtype: Any = None) -> str:
        """Add a constant array and return its name."""
        from onnx import numpy_helper

        name = f"constant_{next(self._numbers)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name


def write(fitted: FittedNetwork, path: str | os.PathLike[str], k: int) -> None:
    """Write the network to `path`, and weights beyond `MAX_MESSAGE_BYTES` to a file of that name plus ``.data``."""
    path = Path(path)
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError(f"path must name a file in a folder that exists, got {str(path)!r}")
    try:
        import onnx
        from onnx import TensorProto, helper
    except ImportError as error:
        raise ImportError("to_onnx needs the package onnx: pip install 'sparsenet[onnx]'") from error

    network, n_labels = fitted.network, len(fitted.target.classes)
    k = min(integer("k", k, 1), n_labels)
    _refuse_others(fitted)
    graph = Graph()
    points = _scaled(graph, fitted.scaling)
    labels, probabilities = _best(graph, fitted, points, k)
    labels, probabilities = _with_blank(graph, fitted, points, labels, probabilities, k)
    classes = _class_names(fitted.target.classes)
    answers = graph.add("Gather", [graph.constant(classes), labels], axis=0)
    float_type, answer_type = TensorProto.FLOAT, helper.np_dtype_to_tensor_dtype(classes.dtype)
    outputs = {"classes": (answers, answer_type), "labels": (labels, TensorProto.INT64)}
    outputs["probabilities"] = (probabilities, float_type)
    for name, (source, _) in outputs.items():
        graph.nodes.append(helper.make_node("Identity", [source], [name]))
    made = helper.make_graph(
        graph.nodes,
        "sparsenet",
        [helper.make_tensor_value_info("X", float_type, ["n", network.n_features])],
        [helper.make_tensor_value_info(name, kind, ["n", k]) for name, (_, kind) in outputs.items()],
        graph.constants,
    )
    model = helper.make_model(
        made, producer_name="sparsenet", opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
    )
    _write_file(onnx, model, path, sum(parameter.value.nbytes for parameter in network.parameters()))


def _refuse_others(fitted: FittedNetwork) -> None:
    network = fitted.network
    if network.output.wide is not None or network.input is None:
        raise ValueError("to_onnx writes dense layers alone, and this network has a wide path: train with wide=False")
    if not isinstance(network.output.loss, BinaryCrossEntropy | SampledSoftmax):
        name = type(network.output.loss).__name__
        raise ValueError(f"to_onnx writes networks trained with loss='bce' or 'softmax', and this one has {name}")
    if not isinstance(fitted.scaling, Scaling):
        raise ValueError("to_onnx writes networks of one matrix, and this one takes a mapping of matrices")


def _scaled(graph: Graph, scaling: Scaling) -> str:
    """Add the scaling of the input, computed in float64."""
    from onnx import TensorProto

    if scaling.kind == "none":
        return "X"
    x = graph.add("Cast", ["X"], to=TensorProto.DOUBLE)
    if scaling.kind == "rows":
        axes = graph.constant([1], np.int64)
        length = graph.add("Sqrt", [graph.add("ReduceSum", [graph.add("Mul", [x, x]), axes], keepdims=1)])
        one, is_blank = graph.constant(1.0, np.float64), graph.add("Equal", [length, graph.constant(0.0, np.float64)])
        scaled = graph.add("Div", [x, graph.add("Where", [is_blank, one, length])])
    else:
        centred = graph.add("Sub", [x, graph.constant(scaling.centre, np.float64)])
        bounds = [graph.constant(bound, np.float64) for bound in (-MAX_SCALED, MAX_SCALED)]
        scaled = graph.add("Clip", [graph.add("Mul", [centred, graph.constant(scaling.factor, np.float64)]), *bounds])
    return str(graph.add("Cast", [scaled], to=TensorProto.FLOAT))


def _best(graph: Graph, fitted: FittedNetwork, points: str, k: int) -> tuple[str, str]:
    """Add the layers; return the names of the k best labels and of their probabilities."""
    network = fitted.network
    assert network.input is not None
    units = graph.add("MatMul", [points, graph.constant(network.input.weight.value)])
    units = graph.add("Add", [units, graph.constant(network.input.bias.value)])
    units = _activated(graph, network.input.activation, units)
    for layer in network.hidden:
        units = _activated(graph, layer.activation, _dense(graph, units, layer))
    output = network.output
    bias = graph.constant(output.bias.value.reshape(-1))
    scores = graph.add("Gemm", [units, graph.constant(output.weight.value), bias], transB=1)
    is_softmax = isinstance(output.loss, SampledSoftmax)
    if is_softmax:
        scores = graph.add("Softmax", [scores], axis=1)
    best, labels = graph.add("TopK", [scores, graph.constant([k], np.int64)], n_outputs=2, axis=1)
    return labels, best if is_softmax else graph.add("Sigmoid", [best])


def _dense(graph: Graph, units: str, layer: Dense) -> str:
    bias = graph.constant(layer.bias.value.reshape(-1))
    return str(graph.add("Gemm", [units, graph.constant(layer.weight.value), bias], transB=1))


def _activated(graph: Graph, activation: Activation, units: str) -> str:
    operators = {"relu": "Relu", "tanh": "Tanh"}
    return units if activation.name == "linear" else str(graph.add(operators[activation.name], [units]))


def _with_blank(graph: Graph, fitted: FittedNetwork, points: str, labels: str, p: str, k: int) -> tuple[str, str]:
    """Answer points without features seen in training with the most frequent labels."""
    seen, width = fitted.seen, fitted.network.n_features
    if seen.features is None:
        return labels, p
    is_known = np.unpackbits(seen.features, count=width, bitorder="little").astype(np.float32).reshape(-1, 1)
    amount = graph.add("MatMul", [graph.add("Abs", [points]), graph.constant(is_known)])
    is_blank = graph.add("Equal", [amount, graph.constant(0.0, np.float32)])
    shares = seen.shares()
    frequent = np.argsort(-shares, kind="stable")
    best = graph.constant(frequent[None, :k], np.int64), graph.constant(shares[None, frequent[:k]])
    both = zip(best, (labels, p), strict=True)
    labels, p = (str(graph.add("Where", [is_blank, frequent_ones, given])) for frequent_ones, given in both)
    return labels, p


def _class_names(classes: NDArray[Any]) -> NDArray[Any]:
    """Return the classes in a type of ONNX: whole numbers, floating-point numbers, truth values or strings."""
    if classes.dtype.kind in "iu":
        return classes.astype(np.int64)
    if classes.dtype.kind in "fb":
        return classes
    return np.array([str(name) for name in classes.tolist()], object)


def _write_file(onnx: Any, model: Any, path: Path, n_bytes: int) -> None:
    if n_bytes >= MAX_MESSAGE_BYTES:
        weights = path.with_name(path.name + ".data")
        weights.unlink(missing_ok=True)  # onnx would append
        onnx.save_model(model, str(path), save_as_external_data=True, location=weights.name)
        return
    temporary = path.with_name(path.name + ".tmp")
    try:
        onnx.save_model(model, str(temporary))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
