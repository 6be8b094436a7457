"""The scikit-learn face of a tree of linear classifiers: `TreeClassifier`."""

from __future__ import annotations

import os
from functools import partial
from typing import Any, Self

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from sparsenet import storage
from sparsenet.core.memory import check_cells, check_width
from sparsenet.core.rows import Rows
from sparsenet.core.seeds import check_seed, run_seed
from sparsenet.core.validation import MAX_WIDTH, boolean, check_features, choice, integer, optional, real, switch
from sparsenet.engines.tree.fit_tree import FittedTree, fit, logits
from sparsenet.engines.tree.machines import COST, Rules
from sparsenet.engines.tree.tree_shape import bytes_a_feature
from sparsenet.estimators import tree_saving
from sparsenet.estimators.answers import AnswersMixin
from sparsenet.estimators.transaction import all_or_nothing
from sparsenet.features.label_stats import LabelStats
from sparsenet.features.scaling import CHOICES
from sparsenet.features.targets import Target
from sparsenet.features.units import scaled
from sparsenet.kernels.types import F32, I32

#: A label that is not wanted takes up a place of the beam at each level, and where they are what a point's features
#: speak of, as what a user has seen, they take up most: the beam has as many more places, up to this number.
MOST_UNWANTED = 64


class TreeClassifier(AnswersMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Classify into a few to millions of labels by linear machines in a tree of labels.

    Labels whose points are alike lie in one node of up to 16, nodes that are alike in one above, up to the root. Each
    node's support vector machines, one for each child, learn from the points that reach it alone: those that belong
    there, and those that the machines above led there in error. So training takes seconds, and an answer meets a few
    dozen machines, not one for each label. Where `ExtremeClassifier` may be more accurate, this is sooner there.

    Parameters
    ----------
    cost : "auto" or float
        Of an error in training, against simplicity: lower for noisy labels, higher for clean ones. ``"auto"``: 0.5, and
        in a `BlendClassifier` what is best on points held out, 0.5, 2 or 4. Where points have a few labels each, an
        error costs more on a point of a rare label than on one that does not have it.
    beam : int
        How many nodes of each level are followed for a point, in training and in prediction. More is slower and hardly
        more accurate; it can be set on a fitted classifier. Points that meet fewer labels than are asked for are
        followed into more.
    epochs : int
        The most passes over the points of a node.
    normalize : {"auto", "rows", "columns", "together", "mixed", "none"}
        ``"rows"`` divides each point by its length, as counts and tf-idf want it; ``"columns"`` standardises the
        columns of a dense table; ``"together"`` centres them and divides all by one number, so that those that vary
        more count for more, as of embeddings they should; ``"mixed"`` standardises amounts, columns that most rows
        have, beside categories, whose zeros it leaves. ``"auto"``: columns if in `fit` much of X is not zero, half if
        it is sparse, a third, or some of it is negative, if it is dense, or together where points near each other then
        share more labels; mixed where amounts stand beside what is mostly zeros; else rows.
    n_jobs : int or None
        Threads; None or -1: as many as this process may run, or OMP_NUM_THREADS; -2: all but one, and so on. The
        result does not depend on it.
    random_state : int, RandomState or None
        An integer gives equal models, bit for bit.
    verbose : bool, int or None
        Show progress of long training on stderr, 0 meaning no; None: if that is a terminal.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        The labels, ascending; if y was an indicator, the numbers of its columns, or the names of those of a data frame.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, if X was a data frame
    label_counts_ : ndarray of shape (n_labels,)
        How many of the training points had each label.
    n_points_ : int
        How many training points there were.
    normalize_ : str
        How points are scaled, in the words of `normalize`.
    cost_ : float
        What an error cost.

    Examples
    --------
    >>> from sparsenet import TreeClassifier
    >>> X = [[1.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.0, 1.0, 0.1], [0.0, 0.9, 0.2]]
    >>> model = TreeClassifier(random_state=0).fit(X, [["cat"], ["cat", "pet"], ["dog", "pet"], ["dog"]])
    >>> names, probabilities = model.topk([[1.0, 0.1, 0.0]], k=2)
    >>> names.tolist()
    [['cat', 'pet']]
    """

    _fitted: FittedTree
    _most_unwanted = MOST_UNWANTED

    def __init__(
        self,
        *,
        cost: str | float = "auto",
        beam: int = 10,
        epochs: int = 7,
        normalize: str = "auto",
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | int | None = None,
    ) -> None:
        self.cost = cost
        self.beam = beam
        self.epochs = epochs
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Train on X and y from the start.

        Ctrl-C stops within seconds, on very large data within some more, and leaves the classifier as it was.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n, d)
        y : labels
            One a row (strings or whole numbers), a list of labels for each row (either may come from a generator), or
            an indicator of shape (n, n_labels), dense or sparse, whose non-zero entries are labels.
        """
        rules, threads, normalize = self._check(), self._threads(), self.normalize
        verbose, seed = optional(switch, "verbose", self.verbose), run_seed(self.random_state)
        with all_or_nothing(self):
            X = check_features(self, X, fitting=True)
            target, labels = Target.learn(y)
            check_width(X.shape[1], bytes_a_feature(labels.width, threads))
            scaling, points = scaled(self, X, labels, normalize, seed=seed, threads=threads, some_label=True)
            seen = LabelStats.nothing(X, scaling, labels.width).counting(points, labels)
            about: dict[str, Any] = {"target": target, "scaling": scaling, "seen": seen, "verbose": verbose}
            return self._adopt(fit((points, labels), rules, seed=seed, threads=threads, **about))

    def predict_proba(self, X: Any) -> F32:
        """Return the probability of every label, dense (n, n_labels).

        Labels that the beam does not meet have none. With one label a row those of a row sum to one; else each label
        has its own. Where that would be absurdly large, a ValueError points to `predict_topk`.
        """
        features, fitted, beam = self._features(X), self._fitted, self._beam()
        check_cells(len(features), len(self.classes_))
        out, exclusive = np.zeros((len(features), len(self.classes_)), np.float32), fitted.target.kind == "single"
        for rows, labels, odds in fitted.all_logits(features, beam=beam, threads=self._threads()):
            p = softmax(odds, axis=1) if exclusive else expit(odds)
            points, places = np.nonzero(labels >= 0)
            out[rows[points], labels[points, places]] = p[points, places]
        return self._with_blank(features, out)

    def save(self, path: str | os.PathLike[str], *, compact: bool = False) -> None:
        """Save to a directory: safetensors and a manifest with checksums, replaced as a whole or not at all.

        Predictions after `load` are equal bit for bit. `compact` is there as the other classifiers of points have it,
        and changes nothing: a tree has numbers of 8 bits as it is.
        """
        check_is_fitted(self)
        boolean("compact", compact)
        storage.save(path, *tree_saving.pack(self))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load what `save` saved; a ModelError says what is wrong with a damaged or foreign model."""
        model: Self = storage.load_as(path, partial(tree_saving.unpack, cls))
        return model

    def _check(self) -> Rules:
        """Check all parameters; return how machines are trained."""
        choice("normalize", self.normalize, CHOICES)
        optional(switch, "verbose", self.verbose)
        check_seed(self.random_state)
        return self._rules()

    def _rules(self) -> Rules:
        if isinstance(self.cost, str):
            choice("cost", self.cost, ("auto",), " or a number above 0")
        cost = COST if isinstance(self.cost, str) else real("cost", self.cost, 0, 1e6, open_low=True)
        return Rules(cost=cost, wrong_ways=self._beam(), epochs=integer("epochs", self.epochs, 1, MAX_WIDTH))

    def _beam(self) -> int:
        return integer("beam", self.beam, 1, MAX_WIDTH)

    def _best_by_features(self, features: Rows, k: int, unwanted: int = 0) -> tuple[I32, F32]:
        """Return the k best labels of each point and their probabilities; up to `unwanted` are passed over later."""
        threads = self._threads()
        labels, scores = self._fitted.rank(features, k, beam=self._beam() + unwanted, threads=threads)
        odds = logits(scores)
        return labels, expit(odds, out=odds)

    def _adopt(self, fitted: FittedTree) -> Self:
        self._fitted = fitted
        self.classes_, self.normalize_ = fitted.target.classes, fitted.scaling.kind
        self.label_counts_, self.n_points_, self.cost_ = fitted.seen.label_counts, fitted.seen.n_points, fitted.cost
        return self
