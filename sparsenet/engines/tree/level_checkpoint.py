"""Keep the trained levels of a tree in a directory, so that an interrupted training goes on after the last one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from sparsenet import storage
from sparsenet.core.rows import Rows, RowSource
from sparsenet.engines.tree import machines, tree_shape
from sparsenet.engines.tree.machines import Level, Rules
from sparsenet.engines.tree.tree_shape import Shape
from sparsenet.kernels.types import Arrays
from sparsenet.storage.checkpoint_place import CheckpointPlace, checkpoint_exists
from sparsenet.storage.format import CheckpointError, ModelError
from sparsenet.storage.parts import model_errors

KIND = "tree levels"
PARTS = tuple(field.name for field in fields(Level) if field.name != "children")
#: Rules that do not change the tree.
_SIZES = ("call_entries", "thread_nodes", "shard_points")


@dataclass(frozen=True)
class LevelCheckpoint:
    """A directory for the trained levels of one run.

    Attributes
    ----------
    place : CheckpointPlace
    run : mapping
        What equal runs share: data and settings.
    """

    place: CheckpointPlace
    run: Mapping[str, Any]

    @classmethod
    def of(
        cls, place: str | os.PathLike[str], points: RowSource, labels: Rows, rules: Rules, seed: int
    ) -> LevelCheckpoint:
        """Describe a run; raise now if its directory cannot be written."""
        own = CheckpointPlace(place)
        own.prepare(KIND)
        settings = {field.name: getattr(rules, field.name) for field in fields(rules) if field.name not in _SIZES}
        data = {"points": points.checksum(), "labels": labels.checksum()}
        return cls(own, {**data, "seed": seed, **settings})

    def save(self, shape: Shape, levels: list[Level]) -> None:
        """Keep the shape and the levels that are trained."""
        if self.place.path is None:
            return
        arrays: Arrays = {"labels": shape.labels, **{f"children{d}": each for d, each in enumerate(shape.children)}}
        for depth, level in enumerate(levels):
            arrays |= {f"level{depth}.{part}": getattr(level, part) for part in PARTS}
        about = {"model": KIND, "run": dict(self.run), "n_levels": len(shape.children), "n_trained": len(levels)}
        with self.place.writing():
            storage.save(self.place.path, arrays, about)

    def load(self, n_features: int, labels: Rows) -> tuple[Shape, list[Level]] | None:
        """Return the shape and the trained levels; None if the directory does not exist."""
        if self.place.path is None or not checkpoint_exists(self.place.path):
            return None
        try:
            arrays, about = storage.load(self.place.path)
            with model_errors():
                if about.get("model") != KIND:
                    raise ModelError("this is no checkpoint of a tree")
                self._check_same_run(about["run"])
                shape = Shape(arrays["labels"], [arrays[f"children{d}"] for d in range(about["n_levels"])])
                tree_shape.check(shape, labels.width)
                if not np.array_equal(np.sort(shape.labels), np.unique(labels.indices[: labels.indptr[-1]])):
                    raise ValueError("the leaves must be the labels of the points")
                levels = [
                    Level(**{part: arrays[f"level{d}.{part}"] for part in PARTS}, children=shape.children[d])
                    for d in range(about["n_trained"])
                ]
                for level in levels:
                    machines.check(level, n_features)
        except ValueError as error:
            raise CheckpointError(f"{self.place.path}: {error}; remove it to start again from the beginning") from error
        return shape, levels

    def _check_same_run(self, other: Mapping[str, Any]) -> None:
        for name, value in self.run.items():
            if other.get(name) != value:
                problem = f"{name} was {other.get(name)}, and is {value}"
                raise ModelError(f"this is the checkpoint of a run with other data or settings: {problem}")
