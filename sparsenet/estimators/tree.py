"""`TreeClassifier`: a label tree of linear machines as a scikit-learn classifier."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin

from sparsenet.core.memory import arrays_of, check_cells, check_width
from sparsenet.core.rows import Rows
from sparsenet.core.seeds import check_seed, run_seed
from sparsenet.core.validation import MAX_WIDTH, choice, integer, n_jobs, number_of_bytes, optional, real, switch
from sparsenet.core.workers import task_runner
from sparsenet.engines.network.training import Callback
from sparsenet.engines.network.training.reports import check_callbacks
from sparsenet.engines.tree import tree_arrays
from sparsenet.engines.tree.fit_tree import FittedTree, fit, logits
from sparsenet.engines.tree.machines import COST, Rules
from sparsenet.engines.tree.tree_effects import tree_effects
from sparsenet.engines.tree.tree_shape import bytes_per_feature
from sparsenet.estimators.answers import AnswersMixin
from sparsenet.estimators.explaining import Effects
from sparsenet.estimators.point_sources import checked_points, training_points
from sparsenet.estimators.saving import SavingMixin
from sparsenet.estimators.transaction import all_or_nothing, feature_names, given_validation
from sparsenet.features.label_stats import LabelStats
from sparsenet.features.scaling import CHOICES
from sparsenet.features.targets import Target
from sparsenet.features.units import scaled
from sparsenet.kernels.types import F32, I32, Arrays

#: Excluded labels take places in the beam, so it widens by their number, at most by this.
MAX_EXTRA_BEAM = 64


class TreeClassifier(SavingMixin, AnswersMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Classify into a few to millions of labels by linear machines in a label tree.

    Similar labels share a node of up to 16 children, similar nodes share a parent, up to the root. Each node has one
    linear support vector machine for each child. It is trained on the points with a label below it, and on the points
    that the levels above route to it by mistake. Training takes seconds, and a prediction evaluates a few dozen
    machines instead of one for each label. `ExtremeClassifier` may be more accurate, but is slower.

    Parameters
    ----------
    cost : "auto" or float
        Cost of a training error, relative to the regulariser: lower for noisy labels, higher for clean ones.
        ``"auto"``: 0.5. If points have few labels each, errors on the positives of rare labels cost more than errors
        on negatives.
    beam : int
        Beam width: nodes followed at each level, in training and prediction. A wider beam is slower and hardly more
        accurate. It can be changed on a fitted classifier, and widens by itself if it reaches fewer than k labels.
    epochs : int
        Maximum passes over the points of a node.
    normalize : {"auto", "rows", "columns", "together", "mixed", "none"}
        Scaling of X. ``"rows"`` divides each point by its length, for counts and tf-idf. ``"columns"`` standardises the
        columns of a dense table. ``"together"`` centres the columns and divides all of them by one number, for
        embeddings. ``"mixed"`` standardises numeric columns, which most rows have, and keeps the zeros of categories.

        ``"auto"``, decided in `fit`: columns if X has negative values or a third of it is nonzero (dense), or half of
        it is nonzero (sparse); together if near points then share more labels; mixed for numeric columns next to mostly
        empty ones; otherwise rows.
    memory_limit : int, str or None
        Memory for training in bytes, or text such as ``"8GB"``; None: the available memory. Training stops before it
        takes more: at the start, or before a level of the tree, whose size is estimated from its first nodes. With an
        executor, the limit holds for each machine.
    n_jobs : int or None
        Threads; None or -1: all available to this process, or OMP_NUM_THREADS; -2: all but one, and so on. The result
        does not depend on it.
    random_state : int, RandomState or None
        An integer makes models equal, bit for bit.
    verbose : bool, int or None
        Show memory and the progress of long training on stderr; 0: never; None: if stderr is a terminal.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        The labels, ascending. For an indicator y: column numbers, or column names of a data frame.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, if X was a data frame
    parts_ : dict or None
        The number of columns of each part of X, if it was a mapping of names to matrices.
    label_counts_ : ndarray of shape (n_labels,)
        Number of training points with each label.
    n_points_ : int
        Number of training points.
    choices_ : dict
        The `Decision` on each parameter left to ``"auto"`` that depends on the data.
    normalize_ : str
        The scaling in use, a value of `normalize`.
    cost_ : float
        The cost in use.
    validation_ : dict or None
        P@1, P@3 and P@5 on the validation data; None without these.

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
    _max_extra_beam = MAX_EXTRA_BEAM

    def __init__(
        self,
        *,
        cost: str | float = "auto",
        beam: int = 10,
        epochs: int = 7,
        normalize: str = "auto",
        memory_limit: int | str | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | int | None = None,
    ) -> None:
        self.cost = cost
        self.beam = beam
        self.epochs = epochs
        self.normalize = normalize
        self.memory_limit = memory_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        validation: tuple[Any, Any] | Any = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
        executor: Any = None,
        cache: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Train on X and y from scratch.

        Ctrl-C stops within seconds, or a little later on very large data, and leaves the classifier unchanged.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n, d), Dataset or path
            A path is a file that `sparsenet.data.read` takes, or a ``.npy`` array, which is mapped into memory. A
            mapping of names to matrices, such as ``{"words": csr, "vector": array}``, is scaled part by part.
        y : labels
            One label a row (strings or integers), a list of labels for each row, or an indicator of shape
            (n, n_labels), dense or sparse, with nonzero entries for labels. Labels and lists may come from a generator.
            None for a file or Dataset with labels.
        validation : (X, y), Dataset or path, optional
            Data to measure the tree on after training: see `validation_`. Nothing is chosen by them.
        callbacks : sequence of Callback
            Must be empty: a tree has no epochs.
        checkpoint : directory, optional
            Saves the trained levels of the tree after each level; needs an integer `random_state`.
        resume : bool
            Continue after the last level in `checkpoint`, if it exists. With the same data and settings, the result
            equals an uninterrupted run, bit for bit.
        executor : concurrent.futures.Executor, function that returns one, or Workers, optional
            Trains on the workers of this executor, such as processes or a Dask cluster; the model is the same, bit for
            bit. Each task has one thread, or `n_jobs` threads if that is a number.
        cache : directory, optional
            Stores the points there once, in about 6 bytes a number, and reads them from there, so that they need not
            fit into memory. The model is the same. X may then also be an iterable of batches ``(X, y)``.
        """
        if check_callbacks(callbacks):
            raise ValueError("callbacks are called after the epochs of a network, and a tree has none: leave them out")
        rules, threads, normalize, limit = self._check(), self._threads(), self.normalize, self._memory_limit()
        verbose, seed = (
            optional(switch, "verbose", self.verbose),
            run_seed(self.random_state, checkpoint, resume=resume),
        )
        with all_or_nothing(self), task_runner(executor, n_jobs(self.n_jobs)) as runner:
            X, y = training_points(X, y, cache=cache, verbose=verbose)
            shared = arrays_of(X, y)
            X = checked_points(self, X)
            target, labels = Target.learn(y)
            check_width(X.shape[1], bytes_per_feature(labels.width, threads), limit=limit)
            how: dict[str, Any] = {"seed": seed, "threads": threads}
            scaling, points = scaled(X, labels, normalize, some_label=True, names=feature_names(self), **how)
            seen = LabelStats.empty(X, scaling, labels.width).with_points(points, labels)
            del X, y  # which may be copies, and are not needed again
            how |= {"target": target, "scaling": scaling, "seen": seen, "verbose": verbose, "runner": runner}
            how |= {"checkpoint": checkpoint, "resume": resume, "memory_limit": limit, "shared": shared}
            held = given_validation(self, validation, scaling, target)
            return self._adopt(fit((points, labels), rules, **how))._validated(held)

    def predict_proba(self, X: Any) -> F32:
        """Return the probability of every label, dense (n, n_labels).

        Labels outside the beam get 0. Rows sum to one with one label per row; otherwise each label has an independent
        probability. If the matrix would be too large, ValueError suggests `predict_topk`.
        """
        features, fitted, beam = self._features(X), self._fitted, self._beam()
        check_cells(len(features), len(self.classes_))
        out, exclusive = np.zeros((len(features), len(self.classes_)), np.float32), fitted.target.kind == "single"
        for rows, labels, odds in fitted.all_logits(features, beam=beam, threads=self._threads()):
            p = softmax(odds, axis=1) if exclusive else expit(odds)
            points, places = np.nonzero(labels >= 0)
            out[rows[points], labels[points, places]] = p[points, places]
        return self._with_blank(features, out)

    def _pack(self, *, small: bool) -> tuple[Arrays, dict[str, Any]]:
        header = self._header()
        self._check()  # invalid parameters could not be loaded
        return tree_arrays.pack(self._fitted, header)

    @classmethod
    def _unpack(cls, arrays: Arrays, metadata: dict[str, Any]) -> Self:
        header, fitted = tree_arrays.unpack(arrays, metadata)
        model: Self = cls._of_header(header)
        model._check()
        return model._adopt(fitted)

    def _check(self) -> Rules:
        """Validate all parameters; return the training rules of the machines."""
        choice("normalize", self.normalize, CHOICES)
        optional(switch, "verbose", self.verbose)
        check_seed(self.random_state)
        self._memory_limit()
        return self._rules()

    def _memory_limit(self) -> int | None:
        limit: int | None = optional(number_of_bytes, "memory_limit", self.memory_limit)
        return limit

    def _rules(self) -> Rules:
        if isinstance(self.cost, str):
            choice("cost", self.cost, ("auto",), " or a number above 0")
        cost = COST if isinstance(self.cost, str) else real("cost", self.cost, 0, 1e6, open_low=True)
        return Rules(cost=cost, wrong_ways=self._beam(), epochs=integer("epochs", self.epochs, 1, MAX_WIDTH))

    def _beam(self) -> int:
        return integer("beam", self.beam, 1, MAX_WIDTH)

    def _best_by_features(self, features: Rows, k: int, n_dropped: int = 0) -> tuple[I32, F32]:
        """Return the k best labels of each point and their probabilities; up to `n_dropped` are passed over later."""
        threads = self._threads()
        labels, scores = self._fitted.rank(features, k, beam=self._beam() + n_dropped, threads=threads)
        odds = logits(scores)
        return labels, expit(odds, out=odds)

    def _best_of_by_features(self, features: Rows, labels: I32, k: int) -> tuple[I32, F32]:
        beam = self._beam() + MAX_EXTRA_BEAM
        found, scores = self._fitted.rank(features, k, beam=beam, threads=self._threads(), among=labels)
        odds = logits(scores)
        return found, expit(odds, out=odds)

    def _effects(self, point: Rows, label: int) -> Effects | None:
        found = tree_effects(self._fitted, point, label, lambda score: float(logits(np.array([score]))[0]))
        return None if found is None else Effects(*found)

    def _adopt(self, fitted: FittedTree) -> Self:
        self._keep(fitted)
        self.cost_ = fitted.cost
        return self
