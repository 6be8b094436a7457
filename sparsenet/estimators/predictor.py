"""Low-latency prediction: the top k of a single point in a fraction of a millisecond."""

from __future__ import annotations

import copy
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

_ADVICE = "build a predictor with a smaller k"


class Predictor:
    """Predict the k best labels of a point, or of many.

    The `predictor` method of a classifier creates it. Several threads may use one at once. Later changes to the
    classifier's parameters do not reach it; create a new one after further training.

    Parameters
    ----------
    model : TreeClassifier or BlendClassifier
        A fitted classifier. `ExtremeClassifier.predictor` returns a `ShortlistPredictor`.
    k : int
        Number of labels to return.

    Examples
    --------
    >>> from sparsenet import TreeClassifier
    >>> X = [[1.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.0, 1.0, 0.1], [0.0, 0.9, 0.2]]
    >>> predictor = TreeClassifier(random_state=0).fit(X, ["cat", "cat", "dog", "dog"]).predictor(k=1)
    >>> classes, probabilities = predictor.one([1, 2], [0.9, 0.3])
    >>> classes.tolist()
    ['dog']
    """

    def __init__(self, model: Any, *, k: int) -> None:
        self.k = min(integer("k", k, 1), len(model.classes_))
        self._model = with_own_parameters(model)
        self._scaling, self._target = model._fitted.scaling, model._fitted.target
        self._classes, self._width = model.classes_, model.n_features_in_
        self._best_one = self._model._best_one(self.k)

    def __call__(self, X: Any, *, exclude: Any = None, only: Any = None) -> tuple[NDArray[Any], F32]:
        """Return the k best classes of each row and their probabilities, (n, k) each, best first.

        `exclude` and `only` are as in `topk`.
        """
        features = self._model._features(X)
        if exclude is None and only is None:
            labels, probabilities = self._ranked(features)
        else:
            allowed = Allowed.of(exclude, only, len(features), self._target)
            labels, probabilities = self._restricted(features, allowed)
        return self._classes[labels[:, : self.k]], probabilities[:, : self.k]

    def one(
        self, indices: ArrayLike, values: ArrayLike, *, exclude: Iterable[Any] = (), only: Iterable[Any] | None = None
    ) -> tuple[NDArray[Any], F32]:
        """Return the top k and their probabilities, (k,) each, for one sparse point, on the calling thread.

        `indices` and `values` are the point's nonzero features. `exclude` lists labels to leave out; unknown labels are
        ignored. `only` lists the labels to choose from, which must be known.
        """
        point, excluded = self._point(np.asarray(indices), np.asarray(values, np.float64)), set_of("exclude", exclude)
        if only is not None:
            given = LabelMask.of("only", set_of("only", only), 1, self._target)
            labels, probabilities = self._among(point, Allowed(given, self._mask(excluded), len(self._classes)))
        elif excluded:
            labels, probabilities = self._one_without(point, excluded)
        else:
            labels, probabilities = self._best_one(point)
        return self._classes[labels[0, : self.k]], probabilities[0, : self.k]

    def _point(self, indices: NDArray[Any], values: NDArray[np.float64]) -> Rows:
        """Validate a point and scale it."""
        if indices.ndim != 1 or indices.shape != values.shape:
            raise ValueError(f"indices and values must be lists of one length, got {indices.shape} and {values.shape}")
        if len(indices) and indices.dtype.kind not in "iu":
            raise ValueError(f"indices must be whole numbers, got an array of {indices.dtype}")
        if (at := first_unusable(values)) is not None:
            raise ValueError(f"values holds {unusable(values[at], f'for feature {indices[at]}')}")
        if (indices[1:] <= indices[:-1]).any():
            order = np.argsort(indices, kind="stable")
            indices, values = indices[order], values[order]
        if len(indices) and not (indices[0] >= 0 and indices[-1] < self._width):
            raise ValueError(f"indices must be from 0 to {self._width - 1}, got {indices[0]} to {indices[-1]}")
        if (indices[1:] == indices[:-1]).any():
            raise ValueError("indices must be distinct: sum the values of a feature that occurs more than once")
        point: Rows = self._scaling.apply_one(np.ascontiguousarray(indices, np.int32), values, self._width)
        return point

    def _mask(self, names: set[Any]) -> LabelMask | None:
        """Return the mask of the known labels among `names`; None for no names."""
        known = np.array([label in names for label in self._classes.tolist()]) if names else None
        return None if known is None else LabelMask(None, known)

    def _ranked(self, features: Rows) -> tuple[I32, F32]:
        """Return at least the k best labels of each point, best first, and their probabilities."""
        labels, probabilities = self._model._best(features, self.k)
        return labels, probabilities

    def _restricted(self, features: Rows, allowed: Allowed) -> tuple[I32, F32]:
        """Return the k best allowed labels of each point and their probabilities."""
        return self._among(features, allowed)

    def _one_without(self, point: Rows, excluded: set[Any]) -> tuple[I32, F32]:
        """Return the k best labels of a point that are not excluded."""
        return self._restricted(point, Allowed(None, self._mask(excluded), len(self._classes)))

    def _among(self, features: Rows, allowed: Allowed) -> tuple[I32, F32]:
        """Return the k best allowed labels as `topk` finds them."""
        labels, probabilities = self._model._best_allowed(features, min(self.k, allowed.most), allowed)
        if (error := allowed.error(labels, _ADVICE)) is not None:
            raise error
        return labels, probabilities


class ShortlistPredictor(Predictor):
    """Predict the k best labels of each point by a network, from a shortlist instead of all labels.

    `ExtremeClassifier.predictor` creates it.

    Excluded labels take places in the shortlist, so raise `candidates` accordingly. A row with fewer than k other
    labels in its shortlist is answered from all labels, which is slower. The labels of `only` are all scored, instead
    of a shortlist. Under ``loss="softmax"``, the probabilities of a shortlist sum to one.

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
        super().__init__(model, k=k)
        n_labels = len(model.classes_)
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
        self._network, self._seen, self._best_one = network, model._fitted.seen, self._shortlisted

    @property
    def postings(self) -> int:
        """Number of candidate labels for each feature; 0 without a wide path."""
        return self._shortlist.n_postings if isinstance(self._shortlist, Shortlist) else 0

    def recall(self, X: Any) -> float:
        """Measure the recall: the fraction of the exact `k` best labels of X that the shortlists contain."""
        return self._shortlist.recall(self._network, self._model._features(X), self.k, self._model._threads())

    def _ranked(self, features: Rows) -> tuple[I32, F32]:
        return self._shortlisted(features, self._model._threads())

    def _shortlisted(self, features: Rows, threads: int = 1) -> tuple[I32, F32]:
        """Return the shortlist of each point, best first, and the probabilities."""
        labels, scores = self._shortlist.topk(self._network, features, self._shortlist.size, threads)
        probabilities = self._network.output.loss.probabilities(scores)
        self._seen.answer_blank(features, labels, probabilities)
        return labels, probabilities

    def _restricted(self, features: Rows, allowed: Allowed) -> tuple[I32, F32]:
        if allowed.only is not None:
            return self._among(features, allowed)
        return self._without(features, *self._ranked(features), allowed)

    def _one_without(self, point: Rows, excluded: set[Any]) -> tuple[I32, F32]:
        labels, probabilities = self._shortlisted(point)
        found = self._classes[labels[0]].tolist()
        kept = [place for place, label in enumerate(found) if label not in excluded]
        if len(kept) >= self.k:
            return labels[:, kept], probabilities[:, kept]
        allowed = Allowed(None, self._mask(excluded), len(self._classes))
        return self._without(point, labels, probabilities, allowed)

    def _without(self, features: Rows, labels: I32, probabilities: F32, allowed: Allowed) -> tuple[I32, F32]:
        """Drop excluded labels and return the k best, from all labels if the shortlist has too few."""
        is_allowed = allowed.among(labels, np.arange(len(labels)))
        labels, probabilities = without(labels, probabilities, is_allowed, self.k)
        short = np.flatnonzero((labels < 0).any(axis=1))
        if len(short):
            labels[short], probabilities[short] = self._model._best_allowed(
                features.take(short), self.k, allowed.take(short)
            )
            if (error := allowed.error(labels, _ADVICE)) is not None:
                raise error
        return labels, probabilities


def with_own_parameters(model: Any) -> Any:
    """Return a copy that shares the fitted arrays, but none of the parameters."""
    own = copy.copy(model)
    for name in ("tree_", "network_"):
        part = getattr(model, name, None)
        if hasattr(part, "get_params"):
            setattr(own, name, copy.copy(part))
    return own


def _labelled(model: Any, X: Any, y: Any) -> Points:
    points = check_points(model._features(X), model._fitted.target.encode(y, drop_unknown=True))
    if len(points[0]) == 0:
        raise ValueError("examples has no rows: pass points and labels like the training points")
    return points


def set_of(argument: str, labels: Iterable[Any]) -> set[Any]:
    """Return the labels given for an argument as a set; refuse a single string."""
    try:
        if isinstance(labels, str):
            raise TypeError("a string would be split into letters")
        return set(labels.tolist() if isinstance(labels, np.ndarray) else labels)
    except TypeError as error:
        raise ValueError(f"{argument} must be a list of labels, got {labels!r}") from error
