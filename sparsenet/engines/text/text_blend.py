"""Train blends of a tree, a network and neighbors over text features, for many labels."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sparsenet.core.rows import Rows
from sparsenet.core.seeds import run_seed
from sparsenet.core.spilling import Spill
from sparsenet.core.tasks import HERE, TaskRunner
from sparsenet.core.validation import boolean
from sparsenet.engines.blend import blend_arrays
from sparsenet.engines.blend.blend_arrays import BlendHeader
from sparsenet.engines.blend.blend_holdout import BlendHoldout, HoldoutAnswers
from sparsenet.engines.blend.fit_blend import WIDE_BUDGET, BlendOptions, InterruptedBlend, fit_and_measure
from sparsenet.engines.blend.fitted_blend import FittedBlend
from sparsenet.engines.linear import calibrating
from sparsenet.engines.linear.calibration import Calibration
from sparsenet.engines.network.building import TooLargeError
from sparsenet.engines.network.network_arrays import all_parameters
from sparsenet.engines.network.options import DEFAULTS, NetworkOptions
from sparsenet.engines.network.parameters import pack_parameters
from sparsenet.engines.tree.machines import Rules
from sparsenet.features.feature_arrays import Header
from sparsenet.features.label_stats import LabelStats
from sparsenet.features.scaling import Scaling
from sparsenet.features.targets import Target
from sparsenet.kernels.types import Arrays
from sparsenet.storage.parts import pack_part, unpack_part


@dataclass(frozen=True, eq=False)
class BlendModel:
    """A blend over the features of a vocabulary.

    Attributes
    ----------
    fitted : FittedBlend
        Its labels are column numbers.
    parameters : mapping
        The parameters of `ExtremeClassifier` that its network was trained with.
    calibration : Calibration
        Holds the threshold; the probabilities come from the blend.
    compact : bool
        Whether it is saved in numbers of 8 and 16 bits.
    """

    fitted: FittedBlend
    parameters: Mapping[str, Any] = field(default_factory=dict)
    calibration: Calibration = field(default_factory=Calibration)
    compact: bool = False

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.fitted.neighbors.weights) if self.fitted.neighbors is not None else 0

    @property
    def n_columns(self) -> int:
        """Number of labels."""
        return len(self.fitted.target.classes)

    @property
    def n_weights(self) -> int:
        """Number of weights of tree and network, biases included."""
        network = self.fitted.network
        of_network = 0 if network is None else sum(each.size for each in network.network.parameters())
        return of_network + sum(int(level.weights.size + level.bias.size) for level in self.fitted.tree.levels)

    @property
    def beam(self) -> int:
        """Beam width of the tree in training."""
        return Rules.wrong_ways

    @property
    def n_neighbors(self) -> int:
        """Number of training texts that vote."""
        return min(BlendOptions.n_neighbors, self.fitted.seen.n_points)

    @classmethod
    def train(
        cls,
        points: Rows,
        labels: Rows,
        held_out: BlendHoldout,
        seed: int,
        threads: int,
        *,
        time_budget: float | None = None,
        held: int = 0,
        runner: TaskRunner = HERE,
        spill: Spill | None = None,
        **parameters: Any,
    ) -> tuple[BlendModel, HoldoutAnswers | None]:
        """Train on weighted features of texts, ascending, and their labels; also return the answers on the hold-out.

        The texts hold `held` bytes. Tasks of `runner` train trees and neighbors, and `spill` allocates posting lists.
        `parameters` are passed to `ExtremeClassifier` for the network. Ctrl-C raises the original KeyboardInterrupt.
        """
        if points.width == 0:
            raise ValueError(
                "the texts hold nothing that a blend could learn from, as if all were empty: check what was read, "
                "or train method='linear', which then learns how frequent labels are"
            )
        parameters = {"normalize": "none", "random_state": seed, **parameters}
        options = BlendOptions(
            rules=Rules(),
            network=NetworkOptions.of({**DEFAULTS, **parameters, "n_jobs": threads}, max_wide_budget=WIDE_BUDGET),
            candidates=None,
            time_budget=time_budget,
            verbose=parameters.get("verbose"),
        )
        about: dict[str, Any] = {
            "target": Target.of_columns(labels.width),
            "scaling": Scaling("none"),
            "seen": LabelStats.of_rows(points.width, labels.width),
        }
        how: dict[str, Any] = {"seed": run_seed(seed), "threads": threads, "started": time.perf_counter()}
        how |= {"held": {"texts": held}, "runner": runner, "spill": spill}
        try:
            fitted, answers = fit_and_measure((points, labels), options, held_out=held_out, **about, **how)
        except InterruptedBlend as interrupt:
            raise interrupt.original from interrupt.original.__cause__
        except TooLargeError as error:
            raise MemoryError(f"{error.needs}: lower bits, for fewer features, or leave out rare labels") from None
        return cls(fitted, parameters), answers

    def with_threshold(self, answers: HoldoutAnswers, truth: Rows) -> BlendModel:
        """Fit the threshold of probabilities on the hold-out; `truth` are its labels."""
        missed = len(truth.indices) - int(np.count_nonzero(answers.hits))
        threshold = calibrating.best_threshold(answers.probabilities, answers.hits, missed)
        return replace(self, calibration=replace(self.calibration, threshold=threshold))

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the arrays and metadata that `of_arrays` takes."""
        network = None if self.fitted.network is None else Header(pack_parameters(self.parameters), self.n_features)
        header = BlendHeader(
            Header({}, self.n_features),
            tree=Header({}, self.n_features),
            network=network,
            given=[],
            untrained=None,
            is_dropped=network is None,
        )
        arrays, metadata = blend_arrays.pack(self.fitted, header, small=self.compact)
        return pack_part("blend", arrays), {"blend": metadata, "compact": self.compact}

    @classmethod
    def of_arrays(cls, arrays: Arrays, metadata: Mapping[str, Any]) -> BlendModel:
        """Make a model of the result of `to_arrays`."""
        header, fitted = blend_arrays.unpack(unpack_part("blend", arrays), metadata["blend"])
        if fitted.neighbors is None:
            raise ValueError("a blend of texts has neighbors, and this one has none")
        parameters = {} if header.network is None else all_parameters(header.network)
        return cls(fitted, parameters, Calibration.checked(metadata), boolean("compact", metadata["compact"]))

    def rounded(self) -> BlendModel:
        """Return the model with all weights rounded to 8 and 16 bits."""
        arrays, metadata = replace(self, compact=True).to_arrays()
        return self.of_arrays(arrays, {**metadata, **self.calibration.as_dict()})
