"""A network over text features, for very many labels."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sparsenet.core.memory import arrays_of, bytes_in_memory
from sparsenet.core.ranked import is_hit
from sparsenet.core.rows import Rows, as_matrix
from sparsenet.core.seeds import run_seed
from sparsenet.engines.linear import calibrating
from sparsenet.engines.linear.calibration import Calibration
from sparsenet.engines.network.building import TooLargeError
from sparsenet.engines.network.fit_network import FittedNetwork, fit, grow
from sparsenet.engines.network.model import Network
from sparsenet.engines.network.network_arrays import all_parameters, pack, unpack
from sparsenet.engines.network.optim import Schedule
from sparsenet.engines.network.options import DEFAULTS, NetworkOptions
from sparsenet.engines.network.parameters import pack_parameters
from sparsenet.engines.network.sizing import fitted_options
from sparsenet.engines.network.training import Trainer
from sparsenet.engines.text.replay import ReplayBuffer, n_epochs
from sparsenet.features.feature_arrays import Header
from sparsenet.features.label_stats import LabelStats
from sparsenet.kernels.types import I64, Arrays
from sparsenet.storage.narrow import with_floats
from sparsenet.storage.parts import pack_part, unpack_part

#: Labels of a text whose softmax gives its probabilities; all other labels get 0.
COMPETING = 100
#: Hidden units, and most features: together 0.8 GB with the optimizer's state.
HIDDEN = 128
MAX_FEATURES = 1 << 19
#: The loss of training makes scores log-odds.
AS_TRAINED = Calibration(steepness=1.0)


@dataclass(frozen=True, eq=False)
class NetworkModel:
    """A network over the features of a vocabulary, and the calibration of its scores.

    Attributes
    ----------
    fitted : FittedNetwork
        Its labels are column numbers.
    parameters : mapping
        The parameters of `ExtremeClassifier` that it was trained with.
    calibration : Calibration
    compact : bool
        Whether it is saved in numbers of 8 and 16 bits.
    memory : ReplayBuffer, optional
        Training texts to train on again with further texts.
    """

    fitted: FittedNetwork
    parameters: Mapping[str, Any]
    calibration: Calibration = AS_TRAINED
    compact: bool = False
    memory: ReplayBuffer | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickle; pickles of version 0.1 hold a classifier."""
        if "network" in state:
            network = state.pop("network")
            state |= {"fitted": network._fitted, "parameters": network.get_params(deep=False)}
        self.__dict__.update(state)

    @property
    def network(self) -> Network:
        """The trained layers."""
        return self.fitted.network

    @property
    def stats(self) -> LabelStats:
        """Which features and labels training had."""
        return self.fitted.seen

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.network.n_features

    @property
    def n_columns(self) -> int:
        """Number of labels."""
        return len(self.fitted.target.classes)

    @property
    def n_weights(self) -> int:
        """Number of weights, biases included."""
        return sum(parameter.size for parameter in self.network.parameters())

    @classmethod
    def train(cls, points: Rows, labels: Rows, seed: int, threads: int, held: int = 0, **parameters: Any) -> Self:
        """Train on weighted features of texts, put into ascending order, and labels; the texts hold `held` bytes.

        All epochs are run: keeping the best one by held-out texts, or stopping early, cost up to nine points.
        """
        if points.width == 0:
            raise ValueError(
                "the texts hold nothing that a network could learn from, as if all were empty: check what was read, "
                "or train method='linear', which then learns how frequent labels are"
            )
        size: dict[str, Any] = {"hidden": HIDDEN, "wide_budget": 1024, "normalize": "none"}
        parameters = {**DEFAULTS, **size, "random_state": seed, "n_jobs": threads, **parameters}
        options, shared = NetworkOptions.of(parameters), arrays_of(points, labels)
        memory: dict[str, Any] = {"shared": shared, "held": {"texts": held, "points": bytes_in_memory(shared)}}
        buffer, matrix = ReplayBuffer.of(points, labels, seed), as_matrix(points)
        matrix.sort_indices()  # in place, since texts may exceed memory; sums then do not depend on the order of words
        try:
            fitted = fit((Rows.of(matrix), labels), options, seed=run_seed(seed), threads=threads, **memory)
        except TooLargeError as error:
            raise MemoryError(f"{error.needs}: lower bits, for fewer features, or leave out rare labels") from None
        return cls(fitted, parameters, memory=buffer)

    def calibrated(self, points: Rows, labels: Rows, threads: int, *, exclusive: bool) -> NetworkModel:
        """Fit the calibration on held-out points."""
        best, scores = self.network.topk(points, min(COMPETING, self.n_columns), threads)
        found = Rows.of(sparse.csr_array(is_hit(best, labels).astype(np.float32)))
        missed = len(labels.indices) - len(found.indices)
        return replace(self, calibration=calibrating.fit(scores, found, exclusive=exclusive, missed=missed))

    def learn_on(
        self,
        points: Rows,
        labels: Rows,
        places: tuple[I64, I64],
        seed: int,
        threads: int,
        *,
        rate: float = 0.15,
        shift_share: float = 0.5,
    ) -> NetworkModel:
        """Train further on points whose features and labels may be new.

        Each pass includes texts of the replay buffer. Without them, five texts of a new label would make it the answer
        to 3 to 16 % of all other texts (three data sets), and fifty texts to 12 to 47 %.

        Parameters
        ----------
        places : (ndarray, ndarray)
            New positions of the old features and labels.
        rate : float
            Peak learning rate, as a share of the first training's; it decays to 0. Fresh optimizers take long steps.
        shift_share : float
            Fraction of the prior shift that is attributed to replay, and so removed from the biases. With 1, a label of
            five texts is hardly ever the answer; with 0, too often.
        """
        if self.memory is None:
            why = "this model keeps no texts to train on again, as compressed ones do not"
            warnings.warn(f"{why}: it may forget earlier texts as it learns these", stacklevel=4)
        header, fitted = unpack(*_grown(*self._packed(), points.width, labels.width, places))
        parameters = {**all_parameters(header), "n_jobs": threads}
        settings = fitted_options(parameters, fitted.choices)
        grow(fitted.network, settings, (points, labels), threads)
        memory = (self.memory or ReplayBuffer.empty(len(places[1]))).moved(labels.width, places)
        shift = shift_share * memory.prior_shift(labels, fitted.seen.label_counts, fitted.seen.n_points)[:, None]
        fitted.network.output.bias.value += shift
        steps, total = 0, n_epochs(len(points))
        for number, chosen in enumerate(memory.passes(points, labels, seed)):
            peak, final = (rate * (1 - done / total) for done in (number, number + 1))
            schedule = Schedule(peak=peak, decay="linear", final=final)
            config = settings.one_pass(schedule, seed=seed + number, threads=threads)
            trainer = Trainer(fitted.network, *chosen, config, steps_before=steps)
            trainer.run()
            steps = trainer.steps
        fitted.network.output.bias.value -= shift
        fitted.network.drop_state()
        kept = memory.with_more(points, labels, fitted.seen.n_points, seed) if self.memory else None
        fitted = replace(fitted, seen=fitted.seen.with_points(points, labels))
        return replace(self, fitted=fitted, parameters=parameters, compact=False, memory=kept)

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the arrays and metadata that `of_arrays` takes."""
        arrays, metadata = self._packed(small=self.compact)
        memory = pack_part("memory", self.memory.to_arrays()) if self.memory else {}
        return {**pack_part("network", arrays), **memory}, {"network": metadata, "compact": self.compact}

    @classmethod
    def of_arrays(cls, arrays: Arrays, metadata: Mapping[str, Any]) -> NetworkModel:
        """Make a model of the result of `to_arrays`."""
        header, fitted = unpack(unpack_part("network", arrays), metadata["network"])
        model = cls(fitted, all_parameters(header))
        kept = unpack_part("memory", arrays)
        memory = ReplayBuffer.of_arrays(kept, model.n_features, model.n_columns) if kept else None
        calibration = Calibration.checked(metadata)
        return replace(model, calibration=calibration, compact=bool(metadata["compact"]), memory=memory)

    def pruned(self, n: int) -> NetworkModel:
        """Keep the `n` largest weights of the wide path, round all weights, and drop the replay buffer."""
        arrays, metadata = self._packed()
        kept = np.sort(np.argsort(-np.abs(arrays["wide.weight"][:, 0]), kind="stable")[:n])
        arrays["wide.weight"], arrays["wide.indices"] = arrays["wide.weight"][kept], arrays["wide.indices"][kept]
        arrays["wide.indptr"] = np.searchsorted(kept, arrays["wide.indptr"]).astype(np.int64)
        header, fitted = unpack(arrays, metadata)
        header, fitted = unpack(*pack(fitted, header, small=True))
        return replace(self, fitted=fitted, parameters=all_parameters(header), compact=True, memory=None)

    def _packed(self, *, small: bool = False) -> tuple[Arrays, dict[str, Any]]:
        arrays, metadata = pack(self.fitted, Header(pack_parameters(self.parameters), self.n_features), small=small)
        return arrays if small else with_floats(arrays), metadata


def _grown(
    arrays: Arrays, metadata: dict[str, Any], n_features: int, n_labels: int, places: tuple[I64, I64]
) -> tuple[Arrays, dict[str, Any]]:
    """Add new features and labels with zero weights; the wide path of no label has a new feature yet."""
    features, labels = places

    def spread(array: NDArray[Any], n: int, where: I64, fill: float) -> NDArray[Any]:
        larger = np.full((n, *array.shape[1:]), fill, array.dtype)
        larger[where] = array
        return larger

    lengths = spread(np.diff(arrays["wide.indptr"]), n_labels, labels, 0)
    larger = {
        **arrays,
        "input.weight": spread(arrays["input.weight"], n_features, features, 0),
        "output.weight": spread(arrays["output.weight"], n_labels, labels, 0),
        "output.bias": spread(arrays["output.bias"], n_labels, labels, arrays["output.bias"].min(initial=0)),
        "wide.indptr": np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths))),
        "wide.indices": features[arrays["wide.indices"]].astype(np.int32),
        "counts": spread(arrays["counts"], n_labels, labels, 0),
        "classes": np.arange(n_labels),
    }
    if "blank.labels" in arrays:
        larger["blank.labels"] = labels[arrays["blank.labels"]]
    if "seen.features" in arrays:
        is_seen = np.unpackbits(arrays["seen.features"], count=len(features), bitorder="little")
        larger["seen.features"] = np.packbits(spread(is_seen, n_features, features, 0), bitorder="little")
    return larger, {**metadata, "n_features": n_features}
