"""The scikit-learn face of a network, a tree and neighbours that decide together: `BlendClassifier`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from sparsenet import storage
from sparsenet.core.memory import check_cells, check_width
from sparsenet.core.rows import Rows
from sparsenet.core.seeds import run_seed
from sparsenet.core.validation import boolean, check_features, choice, integer, n_jobs, optional, switch
from sparsenet.engines.blend.combination import Combination
from sparsenet.engines.blend.fit_blend import BlendOptions, FittedBlend, InterruptedBlend, fit
from sparsenet.engines.blend.network_part import TRAINED_FOR
from sparsenet.engines.blend.version1 import Version1Combination
from sparsenet.engines.neighbors.neighbors import BYTES_A_FEATURE, BYTES_HELD, Neighbors
from sparsenet.engines.network.options import NetworkOptions, is_auto, seconds
from sparsenet.engines.network.training.checkpoints import check_classifier, is_there
from sparsenet.engines.tree.tree_shape import bytes_a_feature
from sparsenet.estimators import blend_parts, blend_saving
from sparsenet.estimators.answers import AnswersMixin
from sparsenet.estimators.blend_parts import DROPPED, PARTS
from sparsenet.estimators.extreme import ExtremeClassifier
from sparsenet.estimators.transaction import adopt_features, all_or_nothing
from sparsenet.estimators.tree import MOST_UNWANTED, TreeClassifier
from sparsenet.features.label_stats import LabelStats
from sparsenet.features.scaling import CHOICES
from sparsenet.features.targets import Target
from sparsenet.features.units import scaled
from sparsenet.kernels.types import F32, I32

#: The most features that a label holds in the wide path by default. Beside a tree more of them are no better
#: (bench/notes/networks.md).
WIDE_BUDGET = 256


class BlendClassifier(AnswersMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Classify into a few to millions of labels by a network, a tree and the nearest training points together.

    A `TreeClassifier` names the labels that come into question for a point, an `ExtremeClassifier` scores these, the
    training points most like it are looked up, and what all make of a label decides. They err in different places: on
    sparse points of many labels they are together more accurate than any of them. Training takes as long as network
    and tree do. Without the network, ``network="drop"``, it takes hardly longer than the tree's, for most of that
    accuracy. No point is scored against all labels, except under ``loss="softmax"``: an answer takes two to ten times
    as long as the tree's, however many labels there are.

    Parameters
    ----------
    network : ExtremeClassifier, "drop" or None
        What to train beside the tree, such as ``ExtremeClassifier(hidden=128)``; None: its defaults. It is copied, and
        the copy, `network_`, trained. ``normalize``, ``n_jobs``, ``random_state`` and ``verbose`` are the blend's, and
        ``wide_budget="auto"`` is 256 at most: more is no better beside a tree. Its ``time_budget`` and ``memory_limit``
        are for the network alone: the tree is trained before. ``"drop"``: no network; tree and neighbours decide.
    tree : TreeClassifier or None
        Likewise; the copy is `tree_`. Labels are named in twice its beam, which ``model.tree_.set_params(beam=...)``
        changes.
    candidates : int or "auto"
        How many labels the tree names for each point, and so the most that `predict` gives one and `predict_proba` more
        than nothing: raise it where points have dozens. ``"auto"``: 32, or 128 where that has more labels right, of
        points that no part has learnt. `topk` has as many named as it is asked for, if those are more,
        which may put others first. It can be set on a fitted classifier.
    n_neighbors : int
        How many of the training points that are most like a point have a vote. 0: none, and the model does not hold the
        training points, as it does otherwise: those who may not see the data should not be given such a model either.
        On a fitted classifier that holds them it can be set. Where half of all values of X are there, or more, a point
        is compared with all of them, or with a sample of 2**24 numbers.
    time_budget : float or None
        Seconds that `fit` may take. The network has what tree and neighbours leave it, and is made as large as that
        allows; where that would not be enough for a third of its passes, there is none, with a warning. A tree is not
        cut off. Without neighbours there is a network in any case, which has as long as the tree took at least. Where
        there is to be none, ``network="drop"``, nothing could keep a budget: None.
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
        Show memory and progress on stderr, 0 meaning no; None: if that is a terminal.

    Attributes
    ----------
    network_ : ExtremeClassifier or None
        Fitted; its labels are positions in `classes_`, and its points are scaled. Of many points it goes without some
        of its own, to measure what its hidden units are worth.
    tree_ : TreeClassifier
        Likewise.
    neighbors_ : Neighbors or None
        The training points and their labels, and how they are compared: features count by the power `rarity` of their
        inverse frequency, and a point by the power `power` of its cosine. Both answer a sample of the training points
        best, each by the others. Their vote is multiplied by `trust` (without a network by its root), which goes by
        the odds that they and a tree are right on points that it has not learnt: of 65,536 points or more, a 64th
        (2,048 at most), which `tree_` goes without; of 5,120 or more, a tenth, for which trees are trained that are
        then forgotten. Of fewer points it is 1. Those of them that the network has not learnt either tell how sure the
        blend may be, and whether frequent labels say too little or too much: a network of more than 1,024 labels and
        16,384 points or more leaves some out, unless its `hidden` was given.
    candidates_ : int
        As many labels as the tree names for a point, unless `candidates` says another number.
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

    Examples
    --------
    >>> from sparsenet import BlendClassifier
    >>> X = [[1.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.0, 1.0, 0.1], [0.0, 0.9, 0.2]]
    >>> model = BlendClassifier(random_state=0).fit(X, [["cat"], ["cat", "pet"], ["dog", "pet"], ["dog"]])
    >>> names, probabilities = model.topk([[1.0, 0.1, 0.0]], k=1)
    >>> names.tolist()
    [['cat']]
    """

    _fitted: FittedBlend

    _most_unwanted = MOST_UNWANTED

    def __init__(
        self,
        *,
        network: ExtremeClassifier | Literal["drop"] | None = None,
        tree: TreeClassifier | None = None,
        candidates: int | str = "auto",
        n_neighbors: int = 50,
        time_budget: float | None = None,
        normalize: str = "auto",
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | int | None = None,
    ) -> None:
        self.network = network
        self.tree = tree
        self.candidates = candidates
        self.n_neighbors = n_neighbors
        self.time_budget = time_budget
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of the parts as ``network__hidden`` and ``tree__cost``; a part that is None is made."""
        for name, kind in PARTS.items():
            part = params.get(name, getattr(self, name))
            for key in [key for key in params if key.startswith(f"{name}__")]:
                if blend_parts.is_dropped(part):
                    raise ValueError(f"{key} cannot be set: {name} is {DROPPED!r}")
                if part is None:
                    params[name] = part = kind()
        model: Self = super().set_params(**params)
        return model

    def fit(self, X: Any, y: Any, *, checkpoint: str | os.PathLike[str] | None = None, resume: bool = False) -> Self:
        """Train the tree, look how neighbours answer, and train the network if there is one, all from the start.

        Ctrl-C while the network is trained stops within a second: the classifier is then fitted with what was learnt,
        without the network if that is less than a third of its passes, and KeyboardInterrupt goes on; so it does later,
        while the parts are compared, within seconds. Sooner, it leaves the classifier as it was.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n, d)
        y : labels
            One a row (strings or whole numbers), a list of labels for each row (either may come from a generator), or
            an indicator of shape (n, n_labels), dense or sparse, whose non-zero entries are labels.
        checkpoint : directory, optional
            Holds the state of the network's training after an epoch (every few seconds) and Ctrl-C; needs an integer
            `random_state`.
        resume : bool
            Go on from `checkpoint`, if there is one; tree and neighbours are made anew. With the same settings, of
            which only the network's are compared, the result is that of an uninterrupted run, bit for bit.
        """
        started, normalize = time.perf_counter(), self._check()
        seed = run_seed(self.random_state, checkpoint, resume=resume)
        tree, network = self._copies(seed, checkpoint)
        if resume and checkpoint is not None:  # before the tree is trained
            check_classifier(checkpoint, TRAINED_FOR)
        options = BlendOptions(
            rules=tree._check(),
            network=None if network is None else NetworkOptions.of(network.get_params(deep=False), most=WIDE_BUDGET),
            n_neighbors=self.n_neighbors,
            candidates=self._given_candidates(),
            time_budget=self.time_budget,
            verbose=optional(switch, "verbose", self.verbose),
        )
        resumes = resume and checkpoint is not None and is_there(Path(checkpoint))
        with all_or_nothing(self):
            X = check_features(self, X, fitting=True)
            target, labels = Target.learn(y)
            of_tree = bytes_a_feature(labels.width, self._threads())
            check_width(X.shape[1], max(of_tree + BYTES_HELD, BYTES_A_FEATURE) if self.n_neighbors > 0 else of_tree)
            how: dict[str, Any] = {"threads": self._threads()}
            scaling, points = scaled(self, X, labels, normalize, some_label=True, seed=seed, **how)
            how |= {"target": target, "scaling": scaling, "seen": LabelStats.nothing(X, scaling, labels.width)}
            how |= {"checkpoint": checkpoint, "resume": resume, "resumes": resumes, "started": started}
            try:
                fitted = fit((points, labels), options, seed=seed, **how)
            except InterruptedBlend as interrupt:
                self._adopt(interrupt.fitted, tree, network)
                raise
            return self._adopt(fitted, tree, network)

    def _copies(self, seed: int, checkpoint: Any) -> tuple[TreeClassifier, ExtremeClassifier | None]:
        """Return unfitted copies of the parts that were given, or of the default ones."""
        own = {"n_jobs": self.n_jobs, "random_state": seed, "verbose": self.verbose}
        tree = blend_parts.copied("tree", self.tree, TreeClassifier, own, self.time_budget)
        if blend_parts.is_dropped(self.network):
            blend_parts.check_without_network(checkpoint, self.time_budget, self.n_neighbors)
            return tree, None
        network = blend_parts.copied("network", self.network, ExtremeClassifier, own, self.time_budget)
        blend_parts.check_network(network._options(), checkpoint)  # rather than after the tree is trained
        return tree, network

    def predict_proba(self, X: Any) -> F32:
        """Return the probability of every label, dense (n, n_labels).

        Labels that neither the tree nor neighbours name have none. With one label a row those of a row sum to one; else
        each label has its own. Where that would be absurdly large, a ValueError points to `predict_topk`.
        """
        features = self._features(X)
        check_cells(len(features), len(self.classes_))
        out = np.zeros((len(features), len(self.classes_)), np.float32)
        combination, exclusive = self._combination(), self._fitted.target.kind == "single"
        for own, labels, scores in self._ranked(features, self._candidates()):
            p = combination.exclusive_probabilities(scores) if exclusive else combination.probabilities(scores)
            np.put_along_axis(out[own], labels.astype(np.int64), p, 1)
        return self._with_blank(features, out)

    def save(self, path: str | os.PathLike[str], *, compact: bool = False) -> None:
        """Save to a directory: safetensors and a manifest with checksums, replaced as a whole or not at all.

        Predictions after `load` are equal bit for bit, unless `compact`: that saves the network in a quarter to half of
        the room and the training points in less, by numbers of 8 and 16 bits. The tree has numbers of 8 bits as it is.
        Training points that have no vote (``n_neighbors=0``) are not saved.
        """
        check_is_fitted(self)
        storage.save(path, *blend_saving.pack(self, small=boolean("compact", compact)))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load what `save` saved; a ModelError says what is wrong with a damaged or foreign model."""
        model: Self = storage.load_as(path, partial(blend_saving.unpack, cls))
        return model

    def _check(self) -> str:
        """Check the parameters that are not a part's; return how points are scaled."""
        self._given_candidates()
        integer("n_neighbors", self.n_neighbors, 0)
        blend_parts.given("network", self.network, ExtremeClassifier)
        blend_parts.given("tree", self.tree, TreeClassifier)
        optional(seconds, "time_budget", self.time_budget)
        optional(switch, "verbose", self.verbose)
        n_jobs(self.n_jobs)
        return choice("normalize", self.normalize, CHOICES)

    def _given_candidates(self) -> int | None:
        """Return how many labels the tree is to name; None if that is to be found."""
        return None if is_auto(self.candidates) else integer("candidates", self.candidates, 1)

    def _candidates(self) -> int:
        asked = self._given_candidates()
        return min(self._fitted.candidates if asked is None else asked, len(self.classes_))

    def _neighbors(self) -> tuple[Neighbors | None, int]:
        """Return the points that are looked up, and how many of them have a vote."""
        k, neighbors = integer("n_neighbors", self.n_neighbors, 0), self._fitted.neighbors
        if k == 0 and self._fitted.network is None:
            raise ValueError("n_neighbors is 0, and this model has no network: set at least 1")
        if k > 0 and neighbors is None:
            raise ValueError(
                f"n_neighbors is {k}, and this model does not hold its training points: fit it so, or set 0"
            )
        return (neighbors, min(k, len(neighbors.labels))) if neighbors is not None and k > 0 else (None, 0)

    def _best_by_features(self, features: Rows, k: int, unwanted: int = 0) -> tuple[I32, F32]:
        """Return the k best labels of each point and their probabilities; up to `unwanted` are passed over later."""
        labels, p = np.empty((len(features), k), np.int32), np.empty((len(features), k), np.float32)
        combination = self._combination()
        for own, found, scores in self._ranked(features, max(self._candidates(), k), unwanted):
            labels[own], p[own] = found[:, :k], combination.probabilities(scores[:, :k])
        return labels, p

    def _likely(self, features: Rows, least: float) -> list[I32]:
        """Return the labels of each point that are more probable than that, best first: of those that are named."""
        labels, p = self._best(features, self._candidates())
        return [own[probable > least] for own, probable in zip(labels, p, strict=True)]

    def _ranked(self, features: Rows, n: int, unwanted: int = 0) -> Iterator[tuple[slice, I32, F32]]:
        """Yield blocks of points, the n labels proposed for each, best first, and their scores."""
        beam, k = integer("beam", self.tree_.beam, 1), self._neighbors()[1]
        return self._fitted.rank(features, n, k=k, beam=beam, threads=self._threads(), unwanted=unwanted)

    def _combination(self) -> Combination | Version1Combination:
        return self._fitted.combining(self._neighbors()[1])

    def _adopt(self, fitted: FittedBlend, tree: TreeClassifier, network: ExtremeClassifier | None) -> Self:
        """Be fitted; `tree` and `network` hold the parameters of the parts."""
        self._fitted = fitted
        n_features = self.n_features_in_
        self.tree_ = adopt_features(tree, n_features, None)._adopt(fitted.tree)
        self.network_ = None
        if fitted.network is not None and network is not None:
            self.network_ = adopt_features(network, n_features, None)._adopt(fitted.network)
        self.neighbors_, self.candidates_, self.choices_ = fitted.neighbors, fitted.candidates, dict(fitted.choices)
        self.classes_, self.normalize_ = fitted.target.classes, fitted.scaling.kind
        self.label_counts_, self.n_points_ = fitted.seen.label_counts, fitted.seen.n_points
        return self
