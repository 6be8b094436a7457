"""Networks for the planted problem."""

from itertools import pairwise

import numpy as np
from scipy import sparse

from sparsenet import (
    AllSampler,
    BinaryCrossEntropy,
    Dense,
    ExtremeClassifier,
    Network,
    Rows,
    SampledOutput,
    Schedule,
    SparseInput,
    Trainer,
    TrainingConfig,
    WideConfig,
    WidePath,
)
from sparsenet.core.rows import transpose
from sparsenet.engines.network.options import NetworkOptions
from tests.support.planted import X as POINTS
from tests.support.planted import Y as LABELS

D, L, N = 60, 40, 400
FEATURES = Rows.of(sparse.csr_array(POINTS, dtype=np.float32))
TRUTH = Rows.of(sparse.csr_array(LABELS, dtype=np.float32))


def wide_path(optimizer=None, features=FEATURES, labels=TRUTH):
    config = WideConfig(optimizer=optimizer) if optimizer else WideConfig()
    return WidePath.from_centroids(features, transpose(labels), config, threads=1)


def network(*units, wide=True, sampler=None, loss=None, optimizer=None, activation="relu", dropout=0.0, **output):
    """Make an initialised network with hidden layers of the given units."""
    common = {"activation": activation, "dropout": dropout, "optimizer": optimizer}
    made = Network(
        input=SparseInput(D, units[0], **common) if units else None,
        hidden=[Dense(a, b, name=f"dense{b}", **common) for a, b in pairwise(units)],
        output=SampledOutput(
            units[-1] if units else 0,
            L,
            sampler=sampler or AllSampler(),
            loss=loss or BinaryCrossEntropy(),
            wide=wide_path(optimizer) if wide else None,
            optimizer=optimizer,
            **output,
        ),
    )
    made.initialise(seed=0)
    return made


def train(made, features=FEATURES, labels=TRUTH, *, run=None, **config):
    defaults = {"epochs": 1, "batch_size": len(features), "schedule": Schedule(decay="constant")}
    trainer = Trainer(made, features, labels, TrainingConfig(**{**defaults, **config}), **(run or {}))
    trainer.run()
    return trainer


def precision(made, threads=1):
    best = made.topk(FEATURES, 1, threads)[0][:, 0]
    return LABELS[np.arange(N), best].mean()


def assert_equal_weights(a, b):
    for name, array in a.weights().items():
        np.testing.assert_array_equal(array, b.weights()[name], err_msg=name)


class RuledClassifier(ExtremeClassifier):
    """An ExtremeClassifier with rules of its own for parameters that are "auto"."""

    def __init__(self, rules=None, **parameters):
        super().__init__(**parameters)
        self.rules = rules

    @classmethod
    def _get_param_names(cls):
        return ExtremeClassifier._get_param_names()

    def _options(self):
        return NetworkOptions.of(self.get_params(deep=False), rules=self.rules)
