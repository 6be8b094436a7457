"""Training: the loop, how it is set, what it tells, and its state on disk."""

from sparsenet.engines.network.training.reports import Callback, Progress, StopTraining, Validation, check_callbacks
from sparsenet.engines.network.training.trainer import DivergenceError, EndedRun, Trainer
from sparsenet.engines.network.training.training_config import TrainingConfig
from sparsenet.engines.network.training.trial import ScoreCorrection, Trial, TrialRules, Verdict

__all__ = [
    "Callback",
    "DivergenceError",
    "EndedRun",
    "Progress",
    "ScoreCorrection",
    "StopTraining",
    "Trainer",
    "TrainingConfig",
    "Trial",
    "TrialRules",
    "Validation",
    "Verdict",
    "check_callbacks",
]
