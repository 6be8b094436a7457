"""Training: the loop, how it is set, what it tells, and its state on disk."""

from sparsenet.training.checkpoints import CheckpointError
from sparsenet.training.config import TrainingConfig
from sparsenet.training.reports import Callback, Progress, StopTraining, Validation, check_callbacks
from sparsenet.training.trainer import DivergenceError, Trainer
from sparsenet.training.trial import Trial, Verdict, Weighing

__all__ = [
    "Callback",
    "CheckpointError",
    "DivergenceError",
    "Progress",
    "StopTraining",
    "Trainer",
    "TrainingConfig",
    "Trial",
    "Validation",
    "Verdict",
    "Weighing",
    "check_callbacks",
]
