"""Aliases for the module paths of version 0.1, so that its pickles load; removed in version 0.3."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

#: For each old path, the modules that now contain its classes and functions.
NEW_PATHS = {
    "sparsenet._machine": ("sparsenet.core.machine",),
    "sparsenet._matrices": ("sparsenet.core.matrices",),
    "sparsenet._memory": ("sparsenet.core.aligned",),
    "sparsenet._printing": ("sparsenet.core.printing",),
    "sparsenet._validation": ("sparsenet.core.validation",),
    "sparsenet.active": ("sparsenet.engines.network.active",),
    "sparsenet.batches": (
        "sparsenet.core.batches",
        "sparsenet.core.rows",
        "sparsenet.core.ranked",
    ),
    "sparsenet.blend": ("sparsenet.estimators.blend",),
    "sparsenet.blend.calibration": ("sparsenet.engines.blend.version1",),
    "sparsenet.blend.classifier": ("sparsenet.estimators.blend",),
    "sparsenet.blend.fitted": ("sparsenet.engines.blend.fit_blend",),
    "sparsenet.blend.neighbors": ("sparsenet.engines.neighbors.neighbors",),
    "sparsenet.blend.parts": ("sparsenet.estimators.blend_parts",),
    "sparsenet.blend.persistence": ("sparsenet.estimators.blend_saving",),
    "sparsenet.blend.side_by_side": ("sparsenet.engines.neighbors.side_by_side",),
    "sparsenet.estimators.building": (
        "sparsenet.engines.network.building",
        "sparsenet.core.centroids",
        "sparsenet.core.memory",
    ),
    "sparsenet.estimators.choices": ("sparsenet.engines.network.sizing",),
    "sparsenet.estimators.classifier": ("sparsenet.estimators.extreme",),
    "sparsenet.estimators.compact": ("sparsenet.engines.network.compact",),
    "sparsenet.estimators.contents": ("sparsenet.features.kinds",),
    "sparsenet.estimators.fitting": (
        "sparsenet.estimators.transaction",
        "sparsenet.engines.network.fit_network",
        "sparsenet.engines.network.network_holdout",
    ),
    "sparsenet.estimators.frames": ("sparsenet.features.label_columns",),
    "sparsenet.estimators.indicators": ("sparsenet.features.indicators",),
    "sparsenet.estimators.inference": (
        "sparsenet.engines.network.inference",
        "sparsenet.core.memory",
    ),
    "sparsenet.estimators.packing": (
        "sparsenet.engines.network.parameters",
        "sparsenet.storage.parts",
        "sparsenet.features.feature_arrays",
    ),
    "sparsenet.estimators.persistence": ("sparsenet.estimators.network_saving",),
    "sparsenet.estimators.prediction": ("sparsenet.estimators.network_answers",),
    "sparsenet.estimators.scaling": ("sparsenet.features.scaling",),
    "sparsenet.estimators.scouting": ("sparsenet.engines.network.scouting",),
    "sparsenet.estimators.seen": ("sparsenet.features.label_stats",),
    "sparsenet.estimators.settings": ("sparsenet.engines.network.options",),
    "sparsenet.estimators.start": ("sparsenet.engines.network.wide_init",),
    "sparsenet.estimators.targets": ("sparsenet.features.targets",),
    "sparsenet.estimators.units": ("sparsenet.features.units",),
    "sparsenet.exact": ("sparsenet.index.exact",),
    "sparsenet.frequency": ("sparsenet.selection.frequency",),
    "sparsenet.layers": ("sparsenet.engines.network.layers",),
    "sparsenet.loading": ("sparsenet.estimators.loading",),
    "sparsenet.losses": ("sparsenet.engines.network.losses",),
    "sparsenet.lsh": ("sparsenet.index.hashing",),
    "sparsenet.lsh.choosing": ("sparsenet.index.hashing.choosing",),
    "sparsenet.lsh.config": ("sparsenet.index.hashing.lsh_config",),
    "sparsenet.lsh.families": ("sparsenet.index.hashing.families",),
    "sparsenet.lsh.frame": ("sparsenet.index.hashing.frame",),
    "sparsenet.lsh.index": ("sparsenet.index.hashing.hash_index",),
    "sparsenet.model": ("sparsenet.engines.network.model",),
    "sparsenet.optim": ("sparsenet.engines.network.optim",),
    "sparsenet.output": ("sparsenet.engines.network.output",),
    "sparsenet.platt": ("sparsenet.selection.platt",),
    "sparsenet.progress": (
        "sparsenet.core.progress",
        "sparsenet.engines.network.training.progress_bar",
    ),
    "sparsenet.samplers": ("sparsenet.engines.network.samplers",),
    "sparsenet.samplers.base": ("sparsenet.engines.network.samplers.sampler",),
    "sparsenet.samplers.hashed": ("sparsenet.engines.network.samplers.hashed",),
    "sparsenet.samplers.plain": ("sparsenet.engines.network.samplers.plain",),
    "sparsenet.shortlist": ("sparsenet.engines.network.shortlist",),
    "sparsenet.text": ("sparsenet.estimators.text",),
    "sparsenet.text.answers": ("sparsenet.engines.text.text_answers",),
    "sparsenet.text.calibrating": ("sparsenet.engines.linear.calibrating",),
    "sparsenet.text.calibration": ("sparsenet.engines.linear.calibration",),
    "sparsenet.text.classifier": ("sparsenet.estimators.text",),
    "sparsenet.text.columns": ("sparsenet.features.text.table_columns",),
    "sparsenet.text.competing": ("sparsenet.engines.linear.calibrating",),
    "sparsenet.text.compression": ("sparsenet.engines.text.compression",),
    "sparsenet.text.corpus": ("sparsenet.features.text.corpus",),
    "sparsenet.text.explain": (
        "sparsenet.engines.text.word_effects",
        "sparsenet.features.text.occurrences",
    ),
    "sparsenet.text.featuriser": ("sparsenet.features.text.featuriser",),
    "sparsenet.text.files": ("sparsenet.features.text.text_files",),
    "sparsenet.text.fitted": ("sparsenet.engines.text.fit_text",),
    "sparsenet.text.fitting": ("sparsenet.engines.text.fit_text",),
    "sparsenet.text.frames": ("sparsenet.features.text.text_frames",),
    "sparsenet.text.inputs": ("sparsenet.features.text.inputs",),
    "sparsenet.text.linear": ("sparsenet.engines.linear.linear",),
    "sparsenet.text.linear_model": ("sparsenet.engines.linear.linear_model",),
    "sparsenet.text.measuring": (
        "sparsenet.engines.linear.measuring",
        "sparsenet.engines.linear.text_holdout",
    ),
    "sparsenet.text.memory": ("sparsenet.engines.text.replay",),
    "sparsenet.text.network": ("sparsenet.engines.text.text_network",),
    "sparsenet.text.packing": ("sparsenet.engines.text.compact_arrays",),
    "sparsenet.text.persistence": ("sparsenet.estimators.text_saving",),
    "sparsenet.text.problem": ("sparsenet.engines.linear.problem",),
    "sparsenet.text.settings": ("sparsenet.engines.text.text_options",),
    "sparsenet.text.spilling": ("sparsenet.features.text.spilling",),
    "sparsenet.text.unknown": ("sparsenet.engines.text.unknown",),
    "sparsenet.text.vocabulary": ("sparsenet.features.text.vocabulary",),
    "sparsenet.training": ("sparsenet.engines.network.training",),
    "sparsenet.training.budget": ("sparsenet.engines.network.training.budget",),
    "sparsenet.training.checkpoints": (
        "sparsenet.engines.network.training.checkpoints",
        "sparsenet.storage.parts",
    ),
    "sparsenet.training.checks": ("sparsenet.engines.network.training.checks",),
    "sparsenet.training.config": ("sparsenet.engines.network.training.training_config",),
    "sparsenet.training.fingerprint": ("sparsenet.engines.network.training.fingerprint",),
    "sparsenet.training.interrupts": ("sparsenet.engines.network.training.interrupts",),
    "sparsenet.training.keeping": ("sparsenet.engines.network.training.keeping",),
    "sparsenet.training.reports": ("sparsenet.engines.network.training.reports",),
    "sparsenet.training.trainer": ("sparsenet.engines.network.training.trainer",),
    "sparsenet.training.trial": ("sparsenet.engines.network.training.trial",),
    "sparsenet.tree": ("sparsenet.estimators.tree",),
    "sparsenet.tree.classifier": ("sparsenet.estimators.tree",),
    "sparsenet.tree.fitted": ("sparsenet.engines.tree.fit_tree",),
    "sparsenet.tree.growing": ("sparsenet.engines.tree.tree_shape",),
    "sparsenet.tree.machines": ("sparsenet.engines.tree.machines",),
    "sparsenet.tree.persistence": ("sparsenet.estimators.tree_saving",),
    "sparsenet.wide": (
        "sparsenet.engines.network.wide",
        "sparsenet.core.rows",
        "sparsenet.core.centroids",
    ),
}
#: Renamed classes: (old path, old name) to (new path, new name).
RENAMED = {
    ("sparsenet.blend.fitted", "Fitted"): ("sparsenet.engines.blend.fit_blend", "FittedBlend"),
    ("sparsenet.estimators.fitting", "Fitted"): ("sparsenet.engines.network.fit_network", "FittedNetwork"),
    ("sparsenet.estimators.seen", "Seen"): ("sparsenet.features.label_stats", "LabelStats"),
    ("sparsenet.estimators.settings", "Settings"): ("sparsenet.engines.network.options", "NetworkOptions"),
    ("sparsenet.text.fitted", "Fitted"): ("sparsenet.engines.text.fit_text", "FittedText"),
    ("sparsenet.text.memory", "Memory"): ("sparsenet.engines.text.replay", "ReplayBuffer"),
    ("sparsenet.tree.fitted", "Fitted"): ("sparsenet.engines.tree.fit_tree", "FittedTree"),
}


class _OldModule(ModuleType):
    """An alias that looks up each name in the modules that replaced it."""

    __path__ = ()  # type: ignore[assignment]  # marks a package, so that aliases below it import

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            if renamed := RENAMED.get((self.__name__, name)):
                return getattr(importlib.import_module(renamed[0]), renamed[1])
            for path in NEW_PATHS[self.__name__]:
                module = importlib.import_module(path)
                if hasattr(module, name):
                    return getattr(module, name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


class OldPaths(MetaPathFinder, Loader):
    """Import hook for the old module paths."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the spec of an alias if `name` is an old path, else None."""
        return ModuleSpec(name, self, is_package=True) if name in NEW_PATHS else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Create an alias."""
        return _OldModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: an alias looks names up on demand."""


def install() -> None:
    """Add the import hook once, ahead of the others, so that stale folders in a checkout are not imported."""
    if not any(isinstance(finder, OldPaths) for finder in sys.meta_path):
        sys.meta_path.insert(0, OldPaths())
