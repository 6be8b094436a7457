"""Aliases for the module paths of version 0.1, so that its pickles load; to be removed in version 0.3."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

#: Old module path: the modules below `sparsenet` that now hold its classes, for classes that may be in pickles.
NEW_PATHS = {
    "sparsenet.active": "engines.network.active",
    "sparsenet.batches": "core.batches core.rows",
    "sparsenet.blend": "estimators.blend",
    "sparsenet.blend.calibration": "engines.blend.version1",
    "sparsenet.blend.classifier": "estimators.blend",
    "sparsenet.blend.fitted": "engines.blend.fitted_blend",
    "sparsenet.blend.neighbors": "engines.neighbors.neighbors",
    "sparsenet.estimators.building": "engines.network.building",
    "sparsenet.estimators.classifier": "estimators.extreme",
    "sparsenet.estimators.fitting": "engines.network.fit_network",
    "sparsenet.estimators.scaling": "features.scaling",
    "sparsenet.estimators.seen": "features.label_stats",
    "sparsenet.estimators.settings": "engines.network.options",
    "sparsenet.estimators.targets": "features.targets",
    "sparsenet.layers": "engines.network.layers",
    "sparsenet.losses": "engines.network.losses",
    "sparsenet.lsh": "index.hashing",
    "sparsenet.lsh.config": "index.hashing.lsh_config",
    "sparsenet.lsh.families": "index.hashing.families",
    "sparsenet.lsh.frame": "index.hashing.sphere",
    "sparsenet.lsh.index": "index.hashing.hash_index",
    "sparsenet.model": "engines.network.model",
    "sparsenet.optim": "engines.network.optim",
    "sparsenet.output": "engines.network.output",
    "sparsenet.progress": "core.progress engines.network.training.progress_bar",
    "sparsenet.samplers": "engines.network.samplers",
    "sparsenet.samplers.base": "engines.network.samplers.sampler",
    "sparsenet.samplers.hashed": "engines.network.samplers.hashed",
    "sparsenet.samplers.plain": "engines.network.samplers.plain",
    "sparsenet.shortlist": "engines.network.shortlist",
    "sparsenet.text": "estimators.text",
    "sparsenet.text.answers": "engines.text.text_answers",
    "sparsenet.text.calibration": "engines.linear.calibration",
    "sparsenet.text.classifier": "estimators.text",
    "sparsenet.text.columns": "features.text.table_columns",
    "sparsenet.text.competing": "engines.linear.calibrating",
    "sparsenet.text.compression": "engines.text.compression",
    "sparsenet.text.corpus": "features.text.corpus",
    "sparsenet.text.explain": "engines.text.word_effects features.text.occurrences",
    "sparsenet.text.featuriser": "features.text.featuriser",
    "sparsenet.text.files": "features.text.text_files",
    "sparsenet.text.fitted": "engines.text.fit_text",
    "sparsenet.text.inputs": "features.text.inputs",
    "sparsenet.text.linear": "engines.linear.linear",
    "sparsenet.text.linear_model": "engines.linear.linear_model",
    "sparsenet.text.measuring": "engines.linear.measuring engines.linear.text_holdout",
    "sparsenet.text.memory": "engines.text.replay",
    "sparsenet.text.network": "engines.text.text_network",
    "sparsenet.text.problem": "engines.linear.problem",
    "sparsenet.text.settings": "engines.text.text_options",
    "sparsenet.text.spilling": "core.spilling",
    "sparsenet.text.vocabulary": "features.text.vocabulary",
    "sparsenet.training": "engines.network.training",
    "sparsenet.training.budget": "engines.network.training.budget",
    "sparsenet.training.checkpoints": "engines.network.training.checkpoints",
    "sparsenet.training.config": "engines.network.training.training_config",
    "sparsenet.training.keeping": "engines.network.training.checkpoints",
    "sparsenet.training.reports": "engines.network.training.reports",
    "sparsenet.training.trainer": "engines.network.training.trainer",
    "sparsenet.training.trial": "engines.network.training.trial",
    "sparsenet.tree": "estimators.tree",
    "sparsenet.tree.classifier": "estimators.tree",
    "sparsenet.tree.fitted": "engines.tree.fit_tree",
    "sparsenet.tree.growing": "engines.tree.tree_shape",
    "sparsenet.tree.machines": "engines.tree.machines",
    "sparsenet.wide": "engines.network.wide",
}
#: New names of renamed classes, by old path and old name.
RENAMED = {
    ("sparsenet.blend.fitted", "Fitted"): "FittedBlend",
    ("sparsenet.estimators.fitting", "Fitted"): "FittedNetwork",
    ("sparsenet.estimators.seen", "Seen"): "LabelStats",
    ("sparsenet.estimators.settings", "Settings"): "NetworkOptions",
    ("sparsenet.lsh.frame", "Frame"): "LabelSphere",
    ("sparsenet.output", "_Latest"): "_LastBatch",
    ("sparsenet.text.fitted", "Fitted"): "FittedText",
    ("sparsenet.text.memory", "Memory"): "ReplayBuffer",
    ("sparsenet.tree.fitted", "Fitted"): "FittedTree",
}


class _OldModule(ModuleType):
    """An alias of an old module, which looks up each name in the modules that replaced it."""

    __path__ = ()  # type: ignore[assignment]  # marks a package, so that aliases below it import

    def __getattr__(self, name: str) -> Any:
        new_name = RENAMED.get((self.__name__, name), name)
        for path in NEW_PATHS[self.__name__].split() if not name.startswith("__") else ():
            module = importlib.import_module(f"sparsenet.{path}")
            if hasattr(module, new_name):
                return getattr(module, new_name)
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
    """Install the import hook before all others, so that stale folders in a checkout are not imported."""
    if not any(isinstance(finder, OldPaths) for finder in sys.meta_path):
        sys.meta_path.insert(0, OldPaths())
