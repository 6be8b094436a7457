"""The scikit-learn face of a network and a tree that decide together: `BlendClassifier`."""

from __future__ import annotations

import os
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from sparsenet import storage
from sparsenet._machine import default_threads
from sparsenet._validation import boolean, check_features, choice, integer, n_jobs, optional, real, switch
from sparsenet.batches import POINTS_AT_A_TIME, Rows
from sparsenet.blend import persistence
from sparsenet.blend.fitted import Fitted
from sparsenet.blend.voting import log_odds, vote
from sparsenet.estimators import ExtremeClassifier
from sparsenet.estimators.answers import AnswersMixin
from sparsenet.estimators.fitting import all_or_nothing, as_matrix, check_points, run_seed
from sparsenet.estimators.inference import check_cells
from sparsenet.estimators.scaling import CHOICES, Scaling
from sparsenet.estimators.targets import Target
from sparsenet.tree import TreeClassifier

F32 = NDArray[np.float32]
I32 = NDArray[np.int32]
Part = TypeVar("Part", ExtremeClassifier, TreeClassifier)


class BlendClassifier(AnswersMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Classify into a few to millions of labels by a network and a tree together.

    A `TreeClassifier` names the labels that come into question for a point, an `ExtremeClassifier` scores these, and
    what both make of a label decides. They err in different places, so that together they are more accurate than
    either. Training takes as long as both of them; an answer takes little more than the tree's, since no point is
    scored against all labels.

    Parameters
    ----------
    network : ExtremeClassifier or None
        What to train beside the tree, such as ``ExtremeClassifier(hidden=128)``; None: its defaults. Its ``normalize``,
        ``n_jobs``, ``random_state`` and ``verbose`` are those given here. It is not changed: `network_` is.
    tree : TreeClassifier or None
        Likewise.
    candidates : int
        How many labels the tree names for each point, at least as many as are asked for. It can be set on a fitted
        classifier, as can the beam of `tree_`.
    tree_weight : float
        What the tree's vote counts beside the network's: 0 leaves the order of the labels that it named to the network.
        It can be set on a fitted classifier.
    normalize : {"auto", "rows", "columns", "none"}
        ``"rows"`` divides each point by its length, as counts and tf-idf want it; ``"columns"`` standardises the
        columns of a dense table. ``"auto"``: rows if X in `fit` is sparse, or dense with two thirds of its entries zero
        and none negative; else columns.
    n_jobs : int or None
        Threads; None or -1: as many as this process may run, or OMP_NUM_THREADS. The result does not depend on it.
    random_state : int, RandomState or None
        An integer gives equal models, bit for bit.
    verbose : bool, int or None
        Show memory and progress on stderr, 0 meaning no; None: if that is a terminal.

    Attributes
    ----------
    network_ : ExtremeClassifier
        Fitted; its labels are positions in `classes_`, and its points are scaled.
    tree_ : TreeClassifier
        Likewise.
    classes_ : ndarray of shape (n_labels,)
        The labels, ascending; column numbers if y was an indicator.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, if X was a data frame
    label_counts_ : ndarray of shape (n_labels,)
        How many of the training points had each label.
    n_points_ : int
        How many training points there were.

    Examples
    --------
    >>> from sparsenet import BlendClassifier
    >>> X = [[1.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.0, 1.0, 0.1], [0.0, 0.9, 0.2]]
    >>> model = BlendClassifier(random_state=0).fit(X, [["cat"], ["cat", "pet"], ["dog", "pet"], ["dog"]])
    >>> names, probabilities = model.topk([[1.0, 0.1, 0.0]], k=1)
    >>> names.tolist()
    [['cat']]
    """

    _fitted: Fitted

    def __init__(
        self,
        *,
        network: ExtremeClassifier | None = None,
        tree: TreeClassifier | None = None,
        candidates: int = 50,
        tree_weight: float = 1.0,
        normalize: str = "auto",
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | int | None = None,
    ) -> None:
        self.network = network
        self.tree = tree
        self.candidates = candidates
        self.tree_weight = tree_weight
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Train the tree, then the network, on X and y from the start.

        Ctrl-C while the network is trained stops within a second: the classifier is then fitted with what was learnt,
        and KeyboardInterrupt goes on. Sooner, it leaves the classifier as it was.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n, d)
        y : labels
            One a row (strings or whole numbers), a list of labels for each row (either may come from a generator), or
            an indicator of shape (n, n_labels), dense or sparse, whose non-zero entries are labels.
        """
        self._check()
        normalize, seed = choice("normalize", self.normalize, CHOICES), run_seed(self.random_state)
        tree, network = self._part("tree", TreeClassifier, seed), self._part("network", ExtremeClassifier, seed)
        with all_or_nothing(self):
            X = check_features(self, X, fitting=True)
            target, labels = Target.learn(y)
            scaling = Scaling.learn(X, normalize)
            points, labels = check_points(scaling.apply(X), labels, some_label=True)
            counts = np.bincount(labels.indices, minlength=labels.width).astype(np.int64)
            given = as_matrix(points), as_matrix(labels)
            tree.fit(*given)
            fitted = Fitted(network, tree, target, scaling, counts, len(points))
            try:
                network.fit(*given)
            except KeyboardInterrupt:
                if hasattr(network, "network_"):
                    self._adopt(fitted)
                raise
            return self._adopt(fitted)

    def predict_proba(self, X: Any) -> F32:
        """Return the probability of every label, dense (n, n_labels).

        Labels that the tree does not name have none. With one label a row those of a row sum to one; else each label
        has its own. Where that would be absurdly large, a ValueError points to `predict_topk`.
        """
        features = self._features(X)
        check_cells(len(features), len(self.classes_))
        labels, votes = self._voted(features, self._check())
        odds = np.exp(log_odds(votes))
        p = odds / odds.sum(axis=1, keepdims=True) if self._fitted.target.kind == "single" else odds / (1 + odds)
        out = np.zeros((len(features), len(self.classes_)), np.float32)
        np.put_along_axis(out, labels.astype(np.int64), p, axis=1)
        return out

    def save(self, path: str | os.PathLike[str], *, compact: bool = False) -> None:
        """Save to a directory: safetensors and a manifest with checksums, replaced as a whole or not at all.

        Predictions after `load` are equal bit for bit, unless `compact`: that saves the network in a quarter of the
        room, by numbers of 8 and 16 bits. The tree has numbers of 8 bits as it is.
        """
        check_is_fitted(self)
        storage.save(path, *persistence.pack(self, self._fitted, small=boolean("compact", compact)))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load what `save` saved; a ModelError says what is wrong with a damaged or foreign model."""
        model: Self = persistence.unpack(cls, *storage.load(path))
        return model

    def _check(self) -> int:
        """Check parameters that are used in answers too; return how many labels the tree is to name."""
        real("tree_weight", self.tree_weight, 0, 1e6)
        return integer("candidates", self.candidates, 1)

    def _threads(self) -> int:
        asked_for = n_jobs(self.n_jobs)
        return default_threads() if asked_for is None else asked_for

    def _part(self, name: str, kind: type[Part], seed: int) -> Part:
        """Return a classifier like the one that was given, or one by defaults, to be trained on scaled points."""
        given = getattr(self, name)
        if given is not None and not isinstance(given, kind):
            raise ValueError(f"{name} must be a {kind.__name__} or None, got {type(given).__name__}")
        part: Part = kind() if given is None else clone(given)
        verbose = optional(switch, "verbose", self.verbose)
        part.set_params(normalize="none", n_jobs=self._threads(), random_state=seed, verbose=verbose)
        return part

    def _best(self, features: Rows, k: int) -> tuple[I32, F32]:
        """Return the k best labels of each point and their probabilities."""
        n = max(self._check(), k)
        labels, p = np.empty((len(features), k), np.int32), np.empty((len(features), k), np.float32)
        done = 0
        for block in features.blocks(POINTS_AT_A_TIME):
            out = slice(done, done + len(block))
            found, votes = self._voted(block, n)
            labels[out], p[out] = found[:, :k], expit(log_odds(votes[:, :k]))
            done = out.stop
        return labels, p

    def _voted(self, features: Rows, n: int) -> tuple[I32, F32]:
        fitted = self._fitted
        weight, n = float(self.tree_weight), min(n, len(self.classes_))
        return vote(fitted.network, fitted.tree, weight, features, n, self._threads())

    def _adopt(self, fitted: Fitted) -> Self:
        self._fitted = fitted
        self.network_, self.tree_, self.classes_ = fitted.network, fitted.tree, fitted.target.classes
        self.label_counts_, self.n_points_ = fitted.label_counts, fitted.n_points
        return self
