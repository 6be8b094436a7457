"""sparsenet: classifiers with up to millions of labels, trained on ordinary CPUs."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sparsenet.core import old_paths

if TYPE_CHECKING:  # `as` makes them public to type checkers
    from sparsenet.core.rows import Rows as Rows
    from sparsenet.core.workers import Workers as Workers
    from sparsenet.data import DataError as DataError
    from sparsenet.data import read as read
    from sparsenet.engines.network.layers import Dense as Dense
    from sparsenet.engines.network.layers import SparseInput as SparseInput
    from sparsenet.engines.network.losses import BinaryCrossEntropy as BinaryCrossEntropy
    from sparsenet.engines.network.losses import SampledSoftmax as SampledSoftmax
    from sparsenet.engines.network.model import Network as Network
    from sparsenet.engines.network.optim import SGD as SGD
    from sparsenet.engines.network.optim import Adagrad as Adagrad
    from sparsenet.engines.network.optim import Adam as Adam
    from sparsenet.engines.network.optim import Schedule as Schedule
    from sparsenet.engines.network.output import SampledOutput as SampledOutput
    from sparsenet.engines.network.samplers import AllSampler as AllSampler
    from sparsenet.engines.network.samplers import FrequencySampler as FrequencySampler
    from sparsenet.engines.network.samplers import LSHSampler as LSHSampler
    from sparsenet.engines.network.samplers import RandomSampler as RandomSampler
    from sparsenet.engines.network.training import Callback as Callback
    from sparsenet.engines.network.training import DivergenceError as DivergenceError
    from sparsenet.engines.network.training import Progress as Progress
    from sparsenet.engines.network.training import StopTraining as StopTraining
    from sparsenet.engines.network.training import Trainer as Trainer
    from sparsenet.engines.network.training import TrainingConfig as TrainingConfig
    from sparsenet.engines.network.training import Trial as Trial
    from sparsenet.engines.network.training import Validation as Validation
    from sparsenet.engines.network.training.progress_bar import ProgressBar as ProgressBar
    from sparsenet.engines.network.wide import WideConfig as WideConfig
    from sparsenet.engines.network.wide import WidePath as WidePath
    from sparsenet.estimators.blend import BlendClassifier as BlendClassifier
    from sparsenet.estimators.extreme import ExtremeClassifier as ExtremeClassifier
    from sparsenet.estimators.loading import load as load
    from sparsenet.estimators.pipeline import ClassifierPipeline as ClassifierPipeline
    from sparsenet.estimators.pipeline import make_pipeline as make_pipeline
    from sparsenet.estimators.predictor import Predictor as Predictor
    from sparsenet.estimators.predictor import ShortlistPredictor as ShortlistPredictor
    from sparsenet.estimators.recommender import Recommender as Recommender
    from sparsenet.estimators.row_predictor import RowPredictor as RowPredictor
    from sparsenet.estimators.table import TableClassifier as TableClassifier
    from sparsenet.estimators.text import TextClassifier as TextClassifier
    from sparsenet.estimators.tree import TreeClassifier as TreeClassifier
    from sparsenet.features.text.word_vectors import WordVectors as WordVectors
    from sparsenet.index.hashing import LSHConfig as LSHConfig
    from sparsenet.kernels import KernelWarning as KernelWarning
    from sparsenet.storage import ModelError as ModelError
    from sparsenet.storage.format import CheckpointError as CheckpointError

    __version__: str

#: The module of each public name, imported at first use, so that `import sparsenet` is quick.
_HOMES = {
    "Adagrad": "engines.network.optim",
    "Adam": "engines.network.optim",
    "AllSampler": "engines.network.samplers",
    "BinaryCrossEntropy": "engines.network.losses",
    "BlendClassifier": "estimators.blend",
    "Callback": "engines.network.training",
    "CheckpointError": "storage.format",
    "ClassifierPipeline": "estimators.pipeline",
    "DataError": "data",
    "Dense": "engines.network.layers",
    "DivergenceError": "engines.network.training",
    "ExtremeClassifier": "estimators.extreme",
    "FrequencySampler": "engines.network.samplers",
    "KernelWarning": "kernels",
    "LSHConfig": "index.hashing",
    "LSHSampler": "engines.network.samplers",
    "ModelError": "storage",
    "Network": "engines.network.model",
    "Predictor": "estimators.predictor",
    "Progress": "engines.network.training",
    "ProgressBar": "engines.network.training.progress_bar",
    "RandomSampler": "engines.network.samplers",
    "Recommender": "estimators.recommender",
    "RowPredictor": "estimators.row_predictor",
    "Rows": "core.rows",
    "SGD": "engines.network.optim",
    "SampledOutput": "engines.network.output",
    "SampledSoftmax": "engines.network.losses",
    "Schedule": "engines.network.optim",
    "ShortlistPredictor": "estimators.predictor",
    "SparseInput": "engines.network.layers",
    "StopTraining": "engines.network.training",
    "TableClassifier": "estimators.table",
    "TextClassifier": "estimators.text",
    "Trainer": "engines.network.training",
    "TrainingConfig": "engines.network.training",
    "TreeClassifier": "estimators.tree",
    "Trial": "engines.network.training",
    "Validation": "engines.network.training",
    "WideConfig": "engines.network.wide",
    "WidePath": "engines.network.wide",
    "WordVectors": "features.text.word_vectors",
    "Workers": "core.workers",
    "load": "estimators.loading",
    "make_pipeline": "estimators.pipeline",
    "read": "data",
}

#: Public modules, imported at first use.
_PARTS = {
    "data": "data",
    "distributed": "distributed",
    "features": "features",
    "metrics": "metrics",
    "plots": "plots",
    "samplers": "engines.network.samplers",
    "storage": "storage",
    "temporal": "temporal",
}
__all__ = sorted(_HOMES)

old_paths.install()


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name in _PARTS:
        return importlib.import_module(f"{__name__}.{_PARTS[name]}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def _version() -> str:
    from importlib import metadata  # slow to import

    try:
        return metadata.version("sparsenet")
    except metadata.PackageNotFoundError:
        return "unknown (not installed)"


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, "__version__"})
