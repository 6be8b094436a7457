"""The systems that `bench.quality` compares: the adapter, environment and settings of each.

The driver imports this file, and so does each adapter in its own environment: it needs only the standard library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class System:
    """A way to train and predict.

    Attributes
    ----------
    adapter : str
        Module of `bench.peers` that runs it; also the name of its environment and its requirements file.
    settings : mapping
        Settings besides threads and seed. Empty: the defaults of the system.
    grid : mapping
        Settings that `bench.tune` tries for each data set, for systems without useful defaults.
    seconds_per_output : float
        Measured CPU seconds of training per point, label and epoch, for systems that compute every label for every
        point. It identifies runs that would take days before they start.
    """

    adapter: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    seconds_per_output: float = 0.0

    def least_cpu_seconds(self, n_points: int, n_labels: int) -> float:
        """Estimate the training time of a system that computes every label for every point; 0 for others."""
        return self.seconds_per_output * n_points * n_labels * int(self.settings.get("epochs", 1))


SYSTEMS: dict[str, System] = {
    "sparsenet": System(adapter="sparsenet"),
    "sparsenet-tree": System(adapter="sparsenet", settings={"estimator": "TreeClassifier"}),
    "sparsenet-blend": System(adapter="sparsenet", settings={"estimator": "BlendClassifier"}),
    # Tree and neighbors without a network.
    "sparsenet-light": System(adapter="sparsenet", settings={"estimator": "BlendClassifier", "network": "drop"}),
    "pecos": System(adapter="pecos"),
    "omikuji-parabel": System(adapter="omikuji"),
    # Two further kinds of trees with the settings of Omikuji's README.
    "omikuji-bonsai": System(adapter="omikuji", settings={"cluster_balanced": False, "cluster_k": 100, "max_depth": 3}),
    "omikuji-attentionxml": System(adapter="omikuji", settings={"collapse_every_n_layers": 5}),
    "napkinxc": System(adapter="napkinxc"),
    "fasttext-hs": System(
        adapter="fasttext",
        settings={"loss": "hs", "epochs": 25, "lr": 0.3},
        grid={"lr": [0.1, 0.2, 0.3, 0.5, 1.0]},
    ),
    "fasttext-ova": System(
        adapter="fasttext",
        settings={"loss": "ova", "epochs": 25, "lr": 0.2},
        grid={"lr": [0.1, 0.2, 0.3, 0.5]},
        seconds_per_output=5.4e-8,
    ),
    "dense-mlp": System(
        adapter="dense",
        settings={"hidden": 128, "dropout": 0.2, "lr": 1e-2, "epochs": 20, "batch": 256},
        grid={"lr": [1e-3, 3e-3, 1e-2], "batch": [64, 256]},
        seconds_per_output=2.5e-8,
    ),
}

#: The systems that a comparison runs by default.
COMPARED = list(SYSTEMS)

# Without rounding to 8 bits, for the accuracy that rounding costs; such models cannot be saved.
SYSTEMS |= {
    f"{name}-floats": System(adapter="sparsenet", settings={**SYSTEMS[name].settings, "rounds": False})
    for name in ("sparsenet-blend", "sparsenet-light")
}

# Steps are cheap on a GPU, so the grid is larger; it starts with large batches, the cheapest ones.
SYSTEMS["dense-gpu"] = System(
    adapter="dense",
    settings={**SYSTEMS["dense-mlp"].settings, "device": "cuda"},
    grid={"batch": [4096, 1024, 256, 64], "lr": [3e-2, 1e-2, 3e-3, 1e-3]},
)

# The default precision depends on the CPU. These fix it, so that two machines do the same work.
SYSTEMS |= {
    f"sparsenet-{precision}": System(adapter="sparsenet", settings={"precision": precision})
    for precision in ("float32", "bfloat16")
}
