"""Texts of very many labels: an `ExtremeClassifier` over the features of texts."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sparsenet import kernels
from sparsenet.core.matrices import canonical
from sparsenet.core.memory import arrays_of, check_cells
from sparsenet.core.ranked import is_hit
from sparsenet.core.rows import Rows, as_matrix
from sparsenet.core.seeds import run_seed
from sparsenet.engines.linear import calibrating
from sparsenet.engines.linear.calibration import Calibration
from sparsenet.engines.network.building import TooLargeError
from sparsenet.engines.network.fit_network import FittedNetwork, fit, grow
from sparsenet.engines.network.inference import dense_scores
from sparsenet.engines.network.model import Network
from sparsenet.engines.network.network_arrays import pack, unpack
from sparsenet.engines.network.optim import Schedule
from sparsenet.engines.network.options import DEFAULTS, NetworkOptions
from sparsenet.engines.network.sizing import fitted_options
from sparsenet.engines.network.training import Trainer
from sparsenet.engines.text.replay import Memory, n_passes
from sparsenet.features.label_stats import LabelStats
from sparsenet.features.text.featuriser import extract
from sparsenet.features.text.vocabulary import Vocabulary
from sparsenet.kernels.types import F32, F64, I32, I64, Arrays
from sparsenet.storage.parts import pack_part, unpack_part

#: Labels that compete for the probability of a text, where it has one label; what the others would get is nothing.
COMPETING = 100
#: The rate of learning from texts of later calls, which falls to nothing, against that of the first: the optimizers
#: start afresh, and their first steps go as far as they may in any direction.
LATER_RATE = 0.15
#: What part of the surprise that labels of new texts are so frequent beside the few that are remembered is put down to
#: that: with all of it a label of five texts is hardly ever the answer, with none of it too often.
EXPECTED = 0.5
#: Texts that are scored at a time: their features are held.
TEXTS_AT_A_TIME = 4096
#: Labels of texts that are held at a time, where a text is asked about all.
CELLS_AT_A_TIME = 1 << 22
#: Units of the hidden layer, and the most features of texts that it takes: 0.8 GB with the optimizer's state. And the
#: most features of a label in the wide path.
HIDDEN = 128
MOST_FEATURES = 1 << 19
WIDE_BUDGET = 1024
#: Its loss made scores log odds.
AS_TRAINED = Calibration(steepness=1.0)


@dataclass(frozen=True, eq=False)
class NetworkModel:
    """A network over the features of a vocabulary, and what turns its scores into probabilities.

    Attributes
    ----------
    fitted : FittedNetwork
        Its labels are column numbers.
    parameters : mapping
        The parameters that it was trained with, those of `ExtremeClassifier`.
    calibration : Calibration
    compact : bool
        Whether it is saved in numbers of 8 and 16 bits.
    memory : Memory, optional
        Texts to go over again when others are learnt.
    """

    fitted: FittedNetwork
    parameters: Mapping[str, Any]
    calibration: Calibration = AS_TRAINED
    compact: bool = False
    memory: Memory | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the state of a pickle; that of version 0.1 holds a classifier."""
        if "network" in state:
            network = state.pop("network")
            state |= {"fitted": network._fitted, "parameters": network.get_params(deep=False)}
        self.__dict__.update(state)

    @property
    def network(self) -> Network:
        """The layers."""
        return self.fitted.network

    @property
    def n_columns(self) -> int:
        """How many labels there are."""
        return len(self.fitted.target.classes)

    @property
    def n_wide(self) -> int:
        """How many weights the wide path has."""
        wide = self.network.output.wide
        return len(wide.indices) if wide else 0

    @classmethod
    def train(cls, points: Rows, labels: Rows, seed: int, threads: int, **parameters: Any) -> NetworkModel:
        """Train on weighted features of texts and their labels.

        All passes are taken that `ExtremeClassifier` finds them to be worth: the learning rate falls until the last. To
        keep the best pass by texts held out, or to end after passes that were no better, cost up to nine points of
        accuracy.
        """
        if points.width == 0:
            raise ValueError(
                "the texts hold nothing that a network could learn from, as if all were empty: look at what was read, "
                "or train method='linear', which then learns how frequent labels are"
            )
        size: dict[str, Any] = {"hidden": HIDDEN, "wide_budget": WIDE_BUDGET, "normalize": "none"}
        parameters = {**DEFAULTS, **size, "random_state": seed, "n_jobs": threads, **parameters}
        try:
            options, shared = NetworkOptions.of(parameters), arrays_of(points, labels)
            ascending = Rows.of(canonical(as_matrix(points)))  # sums then do not depend on the order of words
            fitted = fit((ascending, labels), options, seed=run_seed(seed), threads=threads, shared=shared)
            return cls(fitted, parameters, memory=Memory.of(points, labels, seed))
        except TooLargeError as error:
            raise MemoryError(f"{error.needs}: lower bits, for fewer features, or leave out rare labels") from None

    def calibrated(self, points: Rows, labels: Rows, threads: int, *, exclusive: bool) -> NetworkModel:
        """Return the same model with probabilities under which the labels of these points are most probable."""
        best, scores = self.best(points, min(COMPETING, self.n_columns), threads)
        found = Rows.of(sparse.csr_array(is_hit(best, labels).astype(np.float32)))
        missed = len(labels.indices) - len(found.indices)
        return replace(self, calibration=calibrating.fit(scores, found, exclusive=exclusive, missed=missed))

    def best(self, points: Rows, k: int, threads: int) -> tuple[I32, F32]:
        """Return the best labels of points and their scores, (n, k) each, best first."""
        return self.network.topk(points, k, threads)

    def learn_on(self, points: Rows, labels: Rows, places: tuple[I64, I64], seed: int, threads: int) -> NetworkModel:
        """Return a model that has learnt from further points too, of features and labels that may be new.

        `places` says where the old features and labels are among all. Each pass takes what is remembered of the texts
        before along: by five texts of a new label alone the network would come to give that label to 3 to 16 % of all
        others (three sets), by fifty to 12 to 47 %.
        """
        if self.memory is None:
            why = "this model remembers no texts to go over again, as compressed ones do not"
            warnings.warn(f"{why}: what it knew may fade as it learns these", stacklevel=4)
        parameters, _, fitted = unpack(*_grown(*self._packed(), points.width, labels.width, places))
        parameters["n_jobs"] = threads
        settings = fitted_options(parameters, fitted.choices)
        grow(fitted.network, settings, (points, labels), threads)
        memory = (self.memory or Memory.of_nothing(len(places[1]))).moved(labels.width, places)
        surprise = EXPECTED * memory.surprise(labels, fitted.seen.label_counts, fitted.seen.n_points)[:, None]
        fitted.network.output.bias.value += surprise
        steps, total = 0, n_passes(len(points))
        for number, chosen in enumerate(memory.passes(points, labels, seed)):
            peak, final = (LATER_RATE * (1 - done / total) for done in (number, number + 1))
            schedule = Schedule(peak=peak, decay="linear", final=final)
            config = settings.one_pass(schedule, seed=seed + number, threads=threads)
            trainer = Trainer(fitted.network, *chosen, config, steps_before=steps)
            trainer.run()
            steps = trainer.steps
        fitted.network.output.bias.value -= surprise
        fitted.network.drop_state()
        kept = memory.with_more(points, labels, fitted.seen.n_points, seed) if self.memory else None
        fitted = replace(fitted, seen=fitted.seen.counting(points, labels))
        return replace(self, fitted=fitted, parameters=parameters, compact=False, memory=kept)

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return what `of_arrays` needs."""
        arrays, about = self._packed(small=self.compact)
        memory = pack_part("memory", self.memory.to_arrays()) if self.memory else {}
        return {**pack_part("network", arrays), **memory}, {"network": about, "compact": self.compact}

    @classmethod
    def of_arrays(cls, arrays: Arrays, metadata: dict[str, Any]) -> NetworkModel:
        """Make the model that `to_arrays` took apart."""
        parameters, _, fitted = unpack(unpack_part("network", arrays), metadata["network"])
        remembered, n_features = unpack_part("memory", arrays), metadata["network"]["n_features"]
        memory = Memory.of_arrays(remembered, n_features, len(fitted.target.classes)) if remembered else None
        return cls(fitted, parameters, Calibration.checked(metadata), bool(metadata["compact"]), memory)

    def pruned(self, n: int) -> NetworkModel:
        """Return a model with the `n` largest weights of the wide path, all in fewer bits, that remembers no texts."""
        arrays, about = self._packed()
        weight, indptr = np.abs(arrays["wide.weight"][:, 0]), arrays["wide.indptr"]
        kept = np.sort(np.argsort(-weight, kind="stable")[:n])
        arrays["wide.weight"], arrays["wide.indices"] = arrays["wide.weight"][kept], arrays["wide.indices"][kept]
        arrays["wide.indptr"] = np.searchsorted(kept, indptr).astype(np.int64)
        parameters, _, fitted = unpack(arrays, about)
        parameters, _, fitted = unpack(*pack(fitted, parameters, about["n_features"], small=True))
        return replace(self, fitted=fitted, parameters=parameters, compact=True, memory=None)

    def _packed(self, *, small: bool = False) -> tuple[Arrays, dict[str, Any]]:
        return pack(self.fitted, self.parameters, self.network.n_features, small=small)


def _grown(
    arrays: Arrays, about: dict[str, Any], n_features: int, n_labels: int, places: tuple[I64, I64]
) -> tuple[Arrays, dict[str, Any]]:
    """Make room for features and labels that are new: their weights are zero, and no label has a new feature yet."""
    features, labels = places

    def spread(array: NDArray[Any], n: int, where: I64, fill: float) -> NDArray[Any]:
        larger = np.full((n, *array.shape[1:]), fill, array.dtype)
        larger[where] = array
        return larger

    bias = arrays["output.bias"]
    lengths = spread(np.diff(arrays["wide.indptr"]), n_labels, labels, 0)
    larger = {
        **arrays,
        "input.weight": spread(arrays["input.weight"], n_features, features, 0),
        "output.weight": spread(arrays["output.weight"], n_labels, labels, 0),
        "output.bias": spread(bias, n_labels, labels, float(bias.min(initial=0))),
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
    return larger, {**about, "n_features": n_features}


@dataclass(frozen=True, eq=False)
class NetworkAnswers:
    """The answers of a network."""

    model: NetworkModel
    words: Vocabulary
    exclusive: bool

    @property
    def n_labels(self) -> int:
        """How many labels there are."""
        return self.model.n_columns

    def topk(self, texts: list[str], k: int, threads: int) -> tuple[I32, F32]:
        """See `Answers`."""
        labels, values = [np.empty((0, k), np.int32)], [np.empty((0, k), np.float32)]
        for points in self._points(texts, threads):
            found, probabilities = self._probable(points, k, threads)
            labels.append(found)
            values.append(probabilities)
        return np.concatenate(labels), np.concatenate(values)

    def winners(self, texts: list[str], threads: int) -> I32:
        """See `Answers`."""
        found = [self._best(points, 1, threads)[0][:, 0] for points in self._points(texts, threads)]
        return np.concatenate([np.empty(0, np.int32), *found])

    def above(self, texts: list[str], threshold: float | None, threads: int) -> tuple[I32, I64]:
        """See `Answers`: most texts have no more than a few such labels, and few are asked about all."""
        k = min(COMPETING, self.n_labels)
        names, counts = [np.empty(0, np.int32)], [np.zeros(1, np.int64)]
        for points in self._points(texts, threads):
            named = self._named(points, k, threshold, threads)
            full = [i for i, own in enumerate(named) if len(own) == k < self.n_labels]
            step = max(1, CELLS_AT_A_TIME // self.n_labels)
            for begin in range(0, len(full), step):
                rows = full[begin : begin + step]
                again = self._named(points.take(np.array(rows)), self.n_labels, threshold, threads)
                for row, own in zip(rows, again, strict=True):
                    named[row] = own
            names += named
            counts.append(np.array([len(own) for own in named], np.int64))
        return np.concatenate(names), np.cumsum(np.concatenate(counts))

    def _named(self, points: Rows, k: int, threshold: float | None, threads: int) -> list[I32]:
        """Return those of the k best labels of each point that are above a threshold, best first."""
        labels, scores = self._best(points, k, threads)
        chosen = self.model.calibration.chosen(scores, threshold)
        return [own[is_chosen] for own, is_chosen in zip(labels, chosen, strict=True)]

    def probabilities(self, texts: list[str], threads: int) -> F32:
        """See `Answers`."""
        if not self.exclusive:
            return self.model.calibration.probabilities(self.scores(texts, threads), exclusive=False)
        check_cells(len(texts), self.n_labels)
        labels, found = self.topk(texts, min(COMPETING, self.n_labels), threads)
        all_labels = np.zeros((len(texts), self.n_labels), np.float32)
        np.put_along_axis(all_labels, labels.astype(np.int64), found, axis=1)
        return all_labels

    def scores(self, texts: list[str], threads: int) -> F32:
        """See `Answers`."""
        check_cells(len(texts), self.n_labels)
        found = np.empty((len(texts), self.n_labels), np.float32)
        done = 0
        for points in self._points(texts, threads):
            own = dense_scores(self.model.network, points, threads)
            own[self._seen.blank(points)] = self._usual_scores(self._seen.shares())
            found[done : done + len(points)] = own
            done += len(points)
        return found[:, 1] - found[:, 0] if self.exclusive and self.n_labels == 2 else found

    def best(self, text: str) -> int:
        """See `Answers`."""
        (points,) = self._points([text], 1)
        return int(self._best(points, 1, 1)[0][0, 0])

    def added(self, point: Rows, number: int) -> tuple[F64, float]:
        """See `Answers`: units that are zero stay out, and what is left is a sum over features."""
        arrays = self.model.network.weights()
        units = self.model.network.hidden_units(point, 1)[0]
        through = np.where(units > 0, arrays["output.weight"][number], 0).astype(np.float64)
        deep = arrays["input.weight"][point.indices].astype(np.float64) @ through
        begin, end = arrays["wide.indptr"][number : number + 2]
        own = arrays["wide.indices"][begin:end]
        wide = sparse.csr_array((arrays["wide.weight"][begin:end, 0], own, [0, end - begin]), shape=(1, point.width))
        every = float(through @ arrays["input.bias"][0] + arrays["output.bias"][number, 0])
        if len(self._seen.blank(point)):
            every = float(self._usual_scores(self._seen.shares()[number]))
        return point.data * (deep + wide.toarray()[0, point.indices]), every

    def _points(self, texts: list[str], threads: int) -> Iterator[Rows]:
        for begin in range(0, len(texts), TEXTS_AT_A_TIME):
            rows = extract(*kernels.join_texts(texts[begin : begin + TEXTS_AT_A_TIME]), self.words.rules, threads)
            yield self.words.points(rows, threads)

    def _best(self, points: Rows, k: int, threads: int) -> tuple[I32, F32]:
        """Return the best labels of points and their scores, (n, k) each; of unknown texts what is usual."""
        labels, scores = self.model.best(points, k, threads)
        self._seen.answer_blank(points, labels)
        blank = self._seen.blank(points)
        scores[blank] = self._usual_scores(self._seen.shares()[labels[blank]])
        return labels, scores

    @property
    def _seen(self) -> LabelStats:
        return self.model.fitted.seen

    def _usual_scores(self, shares: F32) -> F32:
        exact = np.asarray(shares, np.float64)
        return np.asarray(self.model.calibration.scores_of(exact, exclusive=self.exclusive), np.float32)

    def _probable(self, points: Rows, k: int, threads: int) -> tuple[I32, F32]:
        """Return the best labels of points and their probabilities, (n, k) each."""
        model = self.model
        if not self.exclusive:
            labels, scores = self._best(points, k, threads)
            return labels, model.calibration.probabilities(scores, exclusive=False)
        competing = min(COMPETING, self.n_labels)
        labels, scores = self._best(points, max(k, competing), threads)
        found = np.zeros_like(scores)
        found[:, :competing] = model.calibration.probabilities(scores[:, :competing], exclusive=True)
        return labels[:, :k], found[:, :k]
