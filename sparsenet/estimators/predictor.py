"""Low-latency prediction: the top k of a single point in a fraction of a millisecond."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsenet.core.rows import Rows
from sparsenet.core.validation import first_unusable, integer, real, unusable
from sparsenet.engines.network.cell_shortlist import CellShortlist
from sparsenet.engines.network.shortlist import Shortlist
from sparsenet.estimators.excluding import Allowed, LabelMask, without
from sparsenet.features.targets import Points, check_points
from sparsenet.kernels.types import F32, I32


class Predictor:
    """Predict the k best labels of each point from a shortlist instead of all labels.

    `ExtremeClassifier.predictor` creates it. Create a new one after further training.

    Parameters
    ----------
    model : ExtremeClassifier
        A fitted classifier. Without a wide path, the labels are found in coarse cells of the output layer, given a
        `recall`; otherwise, or if that reads less, all labels are scored.
    k : int
        Number of labels to return.
    candidates : int
        Labels in the shortlist of each point, which are scored exactly.
    postings : int
        Number of candidate labels for each feature; an upper bound if `recall` is given.
    recall : float, optional
        Minimum share of the exact k best labels to find on `sample`.
    sample : array-like, data frame or sparse matrix, optional
        Points to measure the recall on.
    examples : tuple, optional
        Points and their labels, such as the training points, to learn the cells of a network without a wide path from.
        A cell then also lists the labels of the points that fall into it, if that reads less.

    Examples
    --------
    >>> from sparsenet import ExtremeClassifier
    >>> X = [[1.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.0, 1.0, 0.1], [0.0, 0.9, 0.2]]
    >>> model = ExtremeClassifier(hidden=16, normalize="rows", random_state=0).fit(X, ["cat", "cat", "dog", "dog"])
    >>> predictor = model.predictor(k=1, candidates=2)
    >>> classes, probabilities = predictor.one([1, 2], [0.9, 0.3])
    >>> classes.tolist()
    ['dog']
    >>> predictor.recall(X)
    1.0
    """

    def __init__(
        self,
        model: Any,
        *,
        k: int,
        candidates: int,
        postings: int,
        recall: float | None = None,
        sample: Any = None,
        examples: tuple[Any, Any] | None = None,
    ) -> None:
        n_labels = len(model.classes_)
        self.k = min(integer("k", k, 1), n_labels)
        size, postings = max(integer("candidates", candidates, 1), self.k), integer("postings", postings, 1)
        if examples is not None and recall is None:
            raise ValueError("examples need recall and sample: pass a share such as 0.95, and other points")
        if (recall is None) != (sample is None):
            raise ValueError("recall and sample go together: pass a share such as 0.95, and points to measure it on")
        network, settings = model.network_, {"size": size, "threads": model._threads()}
        self._shortlist: Shortlist | CellShortlist
        if recall is None and network.output.wide:
            self._shortlist = Shortlist.of(network.output, size=size, n_postings=postings)
        elif recall is None:
            self._shortlist = CellShortlist(min(size, n_labels))
        else:
            recall, points = real("recall", recall, 0, 1), model._features(sample)
            if len(points) == 0:
                raise ValueError("sample has no rows: pass points like the ones to predict")
            if network.output.wide:
                if examples is not None:
                    raise ValueError("examples are for a network without a wide path (wide=False): leave them out")
                settings["max_postings"] = postings
                self._shortlist = Shortlist.with_recall(network, points, self.k, recall, **settings)
            else:
                settings["examples"] = None if examples is None else _labelled(model, *examples)
                self._shortlist = CellShortlist.with_recall(network, points, self.k, recall, **settings)
        self._model, self._network, self._scaling = model, model.network_, model._fitted.scaling
        self._target = model._fitted.target
        self._seen, self._classes, self._width = model._fitted.seen, model.classes_, model.n_features_in_

    @property
    def postings(self) -> int:
        """Number of candidate labels for each feature; 0 without a wide path."""
        return self._shortlist.n_postings if isinstance(self._shortlist, Shortlist) else 0

    def __call__(self, X: Any, *, exclude: Any = None, only: Any = None) -> tuple[NDArray[Any], F32]:
        """Return the k best classes of each shortlist and their probabilities, (n, k) each, best first.

        Under ``loss="softmax"``, the probabilities of a shortlist sum to one. `exclude` and `only` are as in
        `ExtremeClassifier.topk`. Excluded labels take places in the shortlist, so raise `candidates` accordingly. A row
        with fewer than k other labels in its shortlist is answered from all labels, which is slower. The labels of
        `only` are all scored, instead of a shortlist.
        """
        features, threads = self._model._features(X), self._model._threads()
        allowed = None
        if exclude is not None or only is not None:
            allowed = Allowed.of(exclude, only, len(features), self._target)
            if only is not None:
                return self._among(features, allowed)
        labels, probabilities = self._ranked(features, threads)
        if allowed is not None:
            labels, probabilities = self._without(features, labels, probabilities, allowed)
        return self._classes[labels[:, : self.k]], probabilities[:, : self.k]

    def one(
        self, indices: ArrayLike, values: ArrayLike, *, exclude: Iterable[Any] = (), only: Iterable[Any] | None = None
    ) -> tuple[NDArray[Any], F32]:
        """Return the top k and their probabilities, (k,) each, for one sparse point, on the calling thread.

        `indices` and `values` are the point's nonzero features. `exclude` lists labels to leave out; unknown labels are
        ignored. `only` lists the labels to choose from, which must be known.
        """
        ids, x = np.asarray(indices), np.asarray(values, np.float64)
        self._check_point(ids, x)
        point = self._scaling.apply_one(np.ascontiguousarray(ids, np.int32), x, self._width)
        excluded = _set_of("exclude", exclude)
        if only is not None:
            given = LabelMask.of("only", _set_of("only", only), 1, self._target)
            labels, probabilities = self._among(point, Allowed(given, self._mask(excluded), len(self._classes)))
            return labels[0], probabilities[0]
        labels, probabilities = self._ranked(point, 1)
        if excluded:
            found = self._classes[labels[0]].tolist()
            kept = [place for place, label in enumerate(found) if label not in excluded]
            if len(kept) < self.k:
                allowed = Allowed(None, self._mask(excluded), len(self._classes))
                labels, probabilities = self._without(point, labels, probabilities, allowed)
            else:
                labels, probabilities = labels[:, kept], probabilities[:, kept]
        return self._classes[labels[0, : self.k]], probabilities[0, : self.k]

    def recall(self, X: Any) -> float:
        """Measure the recall: the fraction of the exact `k` best labels of X that the shortlists contain."""
        return self._shortlist.recall(self._network, self._model._features(X), self.k, self._model._threads())

    def _check_point(self, indices: NDArray[Any], values: NDArray[np.float64]) -> None:
        if indices.ndim != 1 or indices.shape != values.shape:
            raise ValueError(f"indices and values must be lists of one length, got {indices.shape} and {values.shape}")
        if len(indices) and indices.dtype.kind not in "iu":
            raise ValueError(f"indices must be whole numbers, got an array of {indices.dtype}")
        if (at := first_unusable(values)) is not None:
            raise ValueError(f"values holds {unusable(values[at], f'for feature {indices[at]}')}")
        ordered = np.sort(indices)
        if len(indices) and not (ordered[0] >= 0 and ordered[-1] < self._width):
            raise ValueError(f"indices must be from 0 to {self._width - 1}, got {ordered[0]} to {ordered[-1]}")
        if (ordered[1:] == ordered[:-1]).any():
            raise ValueError("indices must be distinct: sum the values of a feature that occurs more than once")

    def _mask(self, names: set[Any]) -> LabelMask | None:
        """Return the mask of the known labels among `names`; None for no names."""
        known = np.array([label in names for label in self._classes.tolist()]) if names else None
        return None if known is None else LabelMask(None, known)

    def _ranked(self, features: Rows, threads: int) -> tuple[I32, F32]:
        """Return the shortlist of each point, best first, and the probabilities."""
        labels, scores = self._shortlist.topk(self._network, features, self._shortlist.size, threads)
        probabilities = self._network.output.loss.probabilities(scores)
        self._seen.answer_blank(features, labels, probabilities)
        return labels, probabilities

    def _among(self, features: Rows, allowed: Allowed) -> tuple[NDArray[Any], F32]:
        """Return the best of a few labels, which are all scored."""
        labels, probabilities = self._model._best_allowed(features, min(self.k, allowed.most), allowed)
        if (error := allowed.error(labels, "build a predictor with a smaller k")) is not None:
            raise error
        return self._classes[labels], probabilities

    def _without(self, features: Rows, labels: I32, probabilities: F32, allowed: Allowed) -> tuple[I32, F32]:
        """Drop excluded labels and return the k best, from all labels if the shortlist has too few."""
        is_allowed = allowed.among(labels, np.arange(len(labels)))
        labels, probabilities = without(labels, probabilities, is_allowed, self.k)
        short = np.flatnonzero((labels < 0).any(axis=1))
        if len(short):
            labels[short], probabilities[short] = self._model._best_allowed(
                features.take(short), self.k, allowed.take(short)
            )
            if (error := allowed.error(labels, "build a predictor with a smaller k")) is not None:
                raise error
        return labels, probabilities


def _labelled(model: Any, X: Any, y: Any) -> Points:
    points = check_points(model._features(X), model._fitted.target.encode(y, drop_unknown=True))
    if len(points[0]) == 0:
        raise ValueError("examples has no rows: pass points and labels like the training points")
    return points


def _set_of(argument: str, labels: Iterable[Any]) -> set[Any]:
    try:
        if isinstance(labels, str):
            raise TypeError("a string would be split into letters")
        return set(labels.tolist() if isinstance(labels, np.ndarray) else labels)
    except TypeError as error:
        raise ValueError(f"{argument} must be a list of labels, got {labels!r}") from error
