"""sparsenet: classifiers with up to millions of labels, trained on ordinary CPUs."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # `as` makes them public to type checkers
    from sparsenet.batches import Rows as Rows
    from sparsenet.blend import BlendClassifier as BlendClassifier
    from sparsenet.data import DataError as DataError
    from sparsenet.data import read as read
    from sparsenet.estimators import ExtremeClassifier as ExtremeClassifier
    from sparsenet.estimators import Predictor as Predictor
    from sparsenet.kernels import KernelWarning as KernelWarning
    from sparsenet.layers import Dense as Dense
    from sparsenet.layers import SparseInput as SparseInput
    from sparsenet.loading import load as load
    from sparsenet.losses import BinaryCrossEntropy as BinaryCrossEntropy
    from sparsenet.losses import SampledSoftmax as SampledSoftmax
    from sparsenet.lsh import LSHConfig as LSHConfig
    from sparsenet.model import Network as Network
    from sparsenet.optim import SGD as SGD
    from sparsenet.optim import Adagrad as Adagrad
    from sparsenet.optim import Adam as Adam
    from sparsenet.optim import Schedule as Schedule
    from sparsenet.output import SampledOutput as SampledOutput
    from sparsenet.progress import ProgressBar as ProgressBar
    from sparsenet.samplers import AllSampler as AllSampler
    from sparsenet.samplers import FrequencySampler as FrequencySampler
    from sparsenet.samplers import LSHSampler as LSHSampler
    from sparsenet.samplers import RandomSampler as RandomSampler
    from sparsenet.storage import ModelError as ModelError
    from sparsenet.text import TextClassifier as TextClassifier
    from sparsenet.training import Callback as Callback
    from sparsenet.training import CheckpointError as CheckpointError
    from sparsenet.training import DivergenceError as DivergenceError
    from sparsenet.training import Progress as Progress
    from sparsenet.training import StopTraining as StopTraining
    from sparsenet.training import Trainer as Trainer
    from sparsenet.training import TrainingConfig as TrainingConfig
    from sparsenet.training import Trial as Trial
    from sparsenet.training import Validation as Validation
    from sparsenet.tree import TreeClassifier as TreeClassifier
    from sparsenet.wide import WideConfig as WideConfig
    from sparsenet.wide import WidePath as WidePath

    __version__: str

#: Where each public name lives. It is imported at first use: `import sparsenet` itself costs next to nothing.
_HOMES = {
    "Adagrad": "optim",
    "Adam": "optim",
    "AllSampler": "samplers",
    "BinaryCrossEntropy": "losses",
    "BlendClassifier": "blend",
    "Callback": "training",
    "CheckpointError": "training",
    "DataError": "data",
    "Dense": "layers",
    "DivergenceError": "training",
    "ExtremeClassifier": "estimators",
    "FrequencySampler": "samplers",
    "KernelWarning": "kernels",
    "LSHConfig": "lsh",
    "LSHSampler": "samplers",
    "ModelError": "storage",
    "Network": "model",
    "Predictor": "estimators",
    "Progress": "training",
    "ProgressBar": "progress",
    "RandomSampler": "samplers",
    "Rows": "batches",
    "SGD": "optim",
    "SampledOutput": "output",
    "SampledSoftmax": "losses",
    "Schedule": "optim",
    "SparseInput": "layers",
    "StopTraining": "training",
    "TextClassifier": "text",
    "Trainer": "training",
    "TrainingConfig": "training",
    "TreeClassifier": "tree",
    "Trial": "training",
    "Validation": "training",
    "WideConfig": "wide",
    "WidePath": "wide",
    "load": "loading",
    "read": "data",
}

#: Modules that documents name.
_PARTS = ("data", "metrics", "plots", "samplers", "storage")
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name in _PARTS:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def _version() -> str:
    from importlib import metadata  # takes longer to import than all of this

    try:
        return metadata.version("sparsenet")
    except metadata.PackageNotFoundError:
        return "unknown (not installed)"


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, "__version__"})
