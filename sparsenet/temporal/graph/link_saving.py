"""`TemporalLinkPredictor` as arrays and JSON, and back; unpacking checks everything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsenet.core.validation import MAX_WIDTH, boolean, integer
from sparsenet.engines.network.parameters import pack_parameters, unpack_parameters
from sparsenet.kernels.types import I32, Arrays
from sparsenet.storage.format import ModelError
from sparsenet.storage.parts import check_kind, pack_part, unpack_part
from sparsenet.temporal.feature_columns import FeatureColumns
from sparsenet.temporal.graph.graph_arrays import GraphArrays
from sparsenet.temporal.graph.link_columns import LinkColumns
from sparsenet.temporal.graph.link_stream import LinkStream
from sparsenet.temporal.graph.link_weights import LinkShape, LinkWeights
from sparsenet.temporal.graph.node_names import NodeNames
from sparsenet.temporal.name_saving import pack_names, unpack_names

#: The kind of model, as manifests name it.
KIND = "TemporalLinkPredictor"
#: Events are counted in floats, which are exact up to this number; kernels go on from these counts.
MAX_LINKS = 2**53


@dataclass(frozen=True, eq=False)
class SavedLinks:
    """All that a trained `TemporalLinkPredictor` consists of, apart from its parameters."""

    stream: LinkStream
    columns: LinkColumns


def pack(parameters: Mapping[str, Any], saved: SavedLinks) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays and JSON of an equal model."""
    stream, names = saved.stream, saved.stream.names
    sources, sources_are_strings = pack_names(names.sources, "sources")
    targets, targets_are_strings = pack_names(names.targets, "targets")
    weights = {name: getattr(stream.weights, name) for name in ("flat", "first", "second")}
    rows: Arrays = {"source_rows": names.source_rows, "target_rows": names.target_rows, "clock": stream.clock}
    columns, about_columns = stream.event_columns.pack()
    found = pack_part("graph", stream.graph.cut(names.end)) | pack_part("weights", weights) | rows | sources | targets
    return found | pack_part("event_columns", columns), {
        "model": KIND,
        "parameters": pack_parameters(parameters),
        "columns": saved.columns.as_json(),
        "event_columns": about_columns,
        "string_sources": sources_are_strings,
        "string_targets": targets_are_strings,
        "mutual": names.mutual,
        "n_sources": names.sources.end,
        "n_targets": names.targets.end,
        "steps": stream.weights.steps,
        "seed": stream.seed,
    }


def unpack(arrays: Arrays, metadata: Mapping[str, Any]) -> tuple[dict[str, Any], SavedLinks]:
    """Return the parameters and the model; raises ModelError if its parts contradict each other."""
    check_kind(metadata, KIND)
    names = _unpack_names(arrays, metadata)
    graph, columns = unpack_part("graph", arrays), LinkColumns.of_json(metadata["columns"])
    memory = integer("the memory", graph["memory"].shape[1], 2, MAX_WIDTH)
    neighbors = integer("the neighbors", graph["neighbors"].shape[1], 1, MAX_WIDTH)
    event_columns = FeatureColumns.unpack(unpack_part("event_columns", arrays), metadata["event_columns"])
    shape = LinkShape(memory, event_columns.n_features)
    _check_graph(graph, GraphArrays.blank(0, memory, neighbors, shape.features), names.end)
    weights, steps = unpack_part("weights", arrays), integer("steps", metadata["steps"], 0)
    wanted = {name: (LinkWeights.n_rows(shape), LinkWeights.width) for name in ("flat", "first", "second")}
    if {name: array.shape for name, array in weights.items()} != wanted:
        raise ModelError(f"the weights must have the shapes {wanted}")
    if not all(array.dtype == np.float32 and np.isfinite(array).all() for array in weights.values()):
        raise ModelError("the weights must be finite numbers in float32")
    clock = arrays["clock"]
    if clock.dtype != np.float64 or clock.shape != (4,) or not np.isfinite(clock).all() or clock[:2].min() < 1:
        raise ModelError("clock must hold the numbers of events and batches, and two times")
    seed = integer("seed", metadata["seed"], 0)
    network = LinkWeights(shape, **weights, steps=steps)
    stream = LinkStream(GraphArrays(**graph), network, names, clock, seed, event_columns)
    return unpack_parameters(metadata["parameters"]), SavedLinks(stream, columns)


def _unpack_names(arrays: Arrays, metadata: Mapping[str, Any]) -> NodeNames:
    counts = [integer(name, metadata[name], 0) for name in ("n_sources", "n_targets")]
    sources = unpack_names(arrays, "source", metadata["string_sources"], counts[0])
    targets = unpack_names(arrays, "target", metadata["string_targets"], counts[1])
    if len(sources) < counts[0] or len(targets) < counts[1]:
        raise ModelError("each source and each target must have a name")
    rows: list[I32] = [arrays["source_rows"], arrays["target_rows"]]
    for found, n in zip(rows, counts, strict=True):
        if found.dtype != np.int32 or found.shape != (n,):
            raise ModelError(f"source_rows and target_rows must be int32, {counts[0]} and {counts[1]} of them")
    if boolean("mutual", metadata["mutual"]):
        if sources.names != targets.names or not all((found == np.arange(counts[0])).all() for found in rows):
            raise ModelError("sources and targets of a mutual graph must have the same names and rows")
        return NodeNames(sources, sources, *rows)
    if (np.sort(np.concatenate(rows)) != np.arange(sum(counts))).any():
        raise ModelError("source_rows and target_rows must have each row once")
    return NodeNames(sources, targets, *rows)


def _check_graph(graph: Arrays, blank: GraphArrays, n: int) -> None:
    """Check types, shapes, and every number that is an index."""
    expected = vars(blank)
    if graph.keys() != expected.keys():
        raise ModelError(f"the arrays of a graph are {', '.join(sorted(expected))}, got {', '.join(sorted(graph))}")
    for name, array in expected.items():
        shape = (n, *array.shape[1:])
        if graph[name].dtype != array.dtype or graph[name].shape != shape:
            raise ModelError(f"graph.{name} must be {array.dtype} {shape}, got {graph[name].dtype} {graph[name].shape}")
        if array.dtype.kind == "f" and not np.isfinite(graph[name]).all():
            raise ModelError(f"graph.{name} holds numbers that are not finite")
    neighbors, counts = graph["neighbors"], graph["counts"]
    if neighbors.min(initial=-1) < -1 or neighbors.max(initial=-1) >= n:
        raise ModelError(f"graph.neighbors must hold rows of {n} nodes, or -1")
    known = np.arange(neighbors.shape[1]) < counts[:, None]
    if counts.min(initial=0) < 0 or counts.max(initial=0) > MAX_LINKS or ((neighbors >= 0) != known).any():
        raise ModelError("graph.counts must be the numbers of links of the nodes")
