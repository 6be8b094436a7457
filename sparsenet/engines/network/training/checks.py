"""Check before training that the parts, data and settings of a run fit together."""

from __future__ import annotations

from sparsenet.core.rows import Rows, RowSource
from sparsenet.engines.network.model import Network
from sparsenet.engines.network.samplers import LSHSampler
from sparsenet.engines.network.training.reports import Validation
from sparsenet.engines.network.training.training_config import TrainingConfig
from sparsenet.engines.network.training.trial import Trial


def check_run(
    network: Network,
    features: RowSource,
    labels: Rows,
    config: TrainingConfig,
    validation: Validation | None,
    trial: Trial | None,
) -> None:
    """Refuse data that cannot be trained on or measured on; see `Trainer`."""
    network.check_ready(features)
    if not isinstance(labels, Rows):
        raise TypeError(f"labels must be Rows, got {type(labels).__name__}: pass Rows.of(Y)")
    features.check("features")
    labels.check("labels")
    if len(features) != len(labels):
        raise ValueError(f"features has {len(features)} points, labels has {len(labels)}")
    if len(features) == 0:
        raise ValueError("there is no point to train on: X and y (features and labels) must have at least one row")
    if labels.width != network.output.n_labels:
        raise ValueError(f"labels has {labels.width} columns, the network has {network.output.n_labels} labels")
    if labels.data.min(initial=1) <= 0:
        raise ValueError(
            f"labels must hold numbers above 0, got {labels.data.min():g}: leave out entries that are not labels"
        )
    if not isinstance(config, TrainingConfig):
        raise TypeError(f"config must be a TrainingConfig, got {config!r}: pass TrainingConfig(...)")
    if validation is not None:
        if not isinstance(validation, Validation):
            raise TypeError(f"validation must be a Validation, got {type(validation).__name__}: pass one")
        validation.check(features.width, labels.width)
    if config.patience is not None and validation is None:
        raise ValueError(f"patience={config.patience} needs validation: pass some, or patience=None")
    if trial is not None:
        _check_trial(trial, network, features)


def _check_trial(trial: Trial, network: Network, features: RowSource) -> None:
    """Refuse a trial that this network cannot hold, or whose verdict it cannot follow."""
    if network.output.wide is None:
        raise ValueError("trial compares a network with its wide path alone, and this one has none")
    if isinstance(network.output.sampler, LSHSampler):
        raise ValueError("trial may drop hidden units, and an LSHSampler hashes them: choose another sampler")
    if trial.held_out.features.width != features.width:
        widths = trial.held_out.features.width, features.width
        raise ValueError(f"trial: the held-out points have {widths[0]} features, the training points {widths[1]}")
