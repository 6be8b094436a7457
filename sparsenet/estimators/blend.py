"""`BlendClassifier`: a network, a tree and nearest neighbors combined as a scikit-learn classifier."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from sparsenet.core.machine import release_memory
from sparsenet.core.memory import arrays_of, check_width
from sparsenet.core.seeds import check_seed, run_seed
from sparsenet.core.validation import choice, integer, n_jobs, number_of_bytes, optional, switch
from sparsenet.core.workers import task_runner
from sparsenet.engines.blend import blend_arrays
from sparsenet.engines.blend.blend_arrays import BlendHeader
from sparsenet.engines.blend.fit_blend import WIDE_BUDGET, BlendOptions, InterruptedBlend, fit
from sparsenet.engines.blend.fitted_blend import FittedBlend
from sparsenet.engines.blend.network_part import TRAINED_FOR
from sparsenet.engines.neighbors.fit_neighbors import BYTES_A_FEATURE, BYTES_HELD
from sparsenet.engines.network.options import NetworkOptions, seconds
from sparsenet.engines.network.parameters import pack_parameters, unpack_parameters
from sparsenet.engines.network.training import Callback
from sparsenet.engines.network.training.checkpoints import check_classifier
from sparsenet.engines.network.training.reports import check_callbacks
from sparsenet.engines.tree.tree_shape import bytes_per_feature
from sparsenet.estimators import blend_parts
from sparsenet.estimators.blend_answering import BlendAnswersMixin
from sparsenet.estimators.blend_parts import DROPPED, PARTS
from sparsenet.estimators.extreme import ExtremeClassifier
from sparsenet.estimators.point_sources import checked_points, training_points
from sparsenet.estimators.saving import SavingMixin
from sparsenet.estimators.transaction import all_or_nothing, feature_names, given_validation, with_features
from sparsenet.estimators.tree import TreeClassifier
from sparsenet.features.feature_arrays import Header
from sparsenet.features.label_stats import LabelStats
from sparsenet.features.scaling import CHOICES
from sparsenet.features.targets import Target
from sparsenet.features.units import scaled
from sparsenet.kernels.types import Arrays
from sparsenet.storage.checkpoint_place import checkpoint_exists


class BlendClassifier(SavingMixin, BlendAnswersMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Classify into a few to millions of labels by combining a network, a tree and nearest neighbors.

    A `TreeClassifier` proposes candidate labels for each point, and an `ExtremeClassifier` scores them. The nearest
    training points vote for their labels, and all scores are combined. The parts make different errors, so on sparse
    points with many labels the blend is more accurate than each part. Training takes as long as the network and the
    tree. With ``network="drop"``, it takes little more than the tree and keeps most of the accuracy. Except under
    ``loss="softmax"``, no point is scored against all labels: a prediction takes two to ten times as long as the
    tree's, for any number of labels.

    Parameters
    ----------
    network : ExtremeClassifier, "drop" or None
        The network to train, such as ``ExtremeClassifier(hidden=128)``; None: its defaults; ``"drop"``: no network. A
        copy is trained, `network_`. The blend sets its ``normalize``, ``n_jobs``, ``random_state`` and ``verbose``, and
        limits ``wide_budget="auto"`` to 256. Its ``time_budget`` covers the network alone, since the tree is trained
        first.
    tree : TreeClassifier or None
        The tree to train; a copy is trained, `tree_`. Candidates come from twice its beam, which
        ``model.tree_.set_params(beam=...)`` changes.
    candidates : int or "auto"
        Number of labels that the tree proposes for each point. `predict` returns at most this number of labels, and
        `predict_proba` is 0 for all others, so raise it if points have dozens of labels. ``"auto"``: 32, or 128 if that
        finds more true labels on a hold-out. `topk` raises it to k, which may change the order. It can be changed on a
        fitted classifier.
    n_neighbors : int
        Number of nearest training points that vote. The model contains the training points unless this is 0, so do not
        share it with people who may not see the data. It can be changed on a fitted classifier with training points.
        If at least half of all values of X are stored, the training points are kept in cells of similar ones.
    time_budget : float or None
        Maximum seconds for `fit`; must be None with ``network="drop"``. The network gets the time that the tree and the
        neighbors leave, and its size is reduced accordingly. If that is too short for a third of its epochs, the
        network is left out with a warning. The tree is never cut short. With ``n_neighbors=0`` the network is always
        trained, for at least as long as the tree took.
    memory_limit : int, str or None
        Memory for training in bytes, or text such as ``"8GB"``, for tree, neighbors and network together; None: the
        available memory. A lower ``memory_limit`` of the tree or the network also holds for all. A tree stops before it
        takes more, and a network makes itself smaller.
    normalize : {"auto", "rows", "columns", "together", "mixed", "none"}
        Scaling of X. ``"rows"`` divides each point by its length, for counts and tf-idf. ``"columns"`` standardises the
        columns of a dense table. ``"together"`` centres the columns and divides all of them by one number, for
        embeddings. ``"mixed"`` standardises numeric columns, which most rows have, and keeps the zeros of categories.

        ``"auto"``, decided in `fit`: columns if X has negative values or a third of it is nonzero (dense), or half of
        it is nonzero (sparse); together if near points then share more labels; mixed for numeric columns next to mostly
        empty ones; otherwise rows.
    n_jobs : int or None
        Threads; None or -1: all available to this process, or OMP_NUM_THREADS; -2: all but one, and so on. The result
        does not depend on it.
    random_state : int, RandomState or None
        An integer makes models equal, bit for bit.
    verbose : bool, int or None
        Show memory and progress on stderr; 0: never; None: if stderr is a terminal.

    Attributes
    ----------
    network_ : ExtremeClassifier or None
        The fitted network; its labels are positions in `classes_`, and its points are scaled. Large training sets leave
        it a hold-out to test its hidden units.
    tree_ : TreeClassifier
        The fitted tree; likewise.
    neighbors_ : Neighbors or None
        The training points, their labels and their parameters. `rarity` is the exponent of the inverse feature
        frequency, and `power` the exponent of the cosine; both are chosen leave-one-out on a sample.
    choices_ : dict
        Decisions on the hold-out: ``"candidates"``, their number, and ``"weights"``, the factors of tree, network and
        neighbors. Each decision has its options, gain, standard error and number of points. The hold-out is a 64th of
        the points, 512 to 2,048, and network and tree are not trained on it. With fewer than 8,192 points it is a
        tenth. Tree and network then learn all points, and a second tree and another network score the hold-out. With
        fewer than 1,280 points nothing is decided.
    candidates_ : int
        The number of candidates unless `candidates` sets it.
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
    normalize_ : str
        The scaling in use, a value of `normalize`.
    validation_ : dict or None
        P@1, P@3 and P@5 on the validation data; None without these.

    Examples
    --------
    >>> from sparsenet import BlendClassifier
    >>> X = [[1.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.0, 1.0, 0.1], [0.0, 0.9, 0.2]]
    >>> model = BlendClassifier(random_state=0).fit(X, [["cat"], ["cat", "pet"], ["dog", "pet"], ["dog"]])
    >>> names, probabilities = model.topk([[1.0, 0.1, 0.0]], k=1)
    >>> names.tolist()
    [['cat']]
    """

    def __init__(
        self,
        *,
        network: ExtremeClassifier | Literal["drop"] | None = None,
        tree: TreeClassifier | None = None,
        candidates: int | str = "auto",
        n_neighbors: int = 50,
        time_budget: float | None = None,
        memory_limit: int | str | None = None,
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
        self.memory_limit = memory_limit
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def set_params(self, **params: Any) -> Self:
        """Set parameters, including nested ones such as ``network__hidden``, which create a part that is None."""
        for name, kind in PARTS.items():
            part = params.get(name, getattr(self, name))
            for key in [key for key in params if key.startswith(f"{name}__")]:
                if blend_parts.is_dropped(part):
                    raise ValueError(f"{key} cannot be set: {name} is {DROPPED!r}")
                if part is None:
                    params[name] = part = kind()
        model: Self = super().set_params(**params)
        return model

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
        """Train the tree, the neighbors and the network on X and y from scratch.

        Ctrl-C during the network's training stops within a second, keeps what was learnt and raises KeyboardInterrupt.
        The network is left out if it has trained for less than a third of its epochs. Ctrl-C while the parts are
        compared does the same within seconds. Earlier, it leaves the classifier unchanged.

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
            Data to measure the blend on after training: see `validation_`. Nothing is chosen by them.
        callbacks : sequence of Callback
            Called after each batch and epoch of the network.
        checkpoint : directory, optional
            Saves the state of the network's training after an epoch (every few seconds at most), every five minutes of
            a longer epoch, and on Ctrl-C; needs an integer `random_state`. With ``checkpoint="run"``, the trained
            levels of the tree are saved in ``run.tree``, and the levels of a tree that is trained without held-out
            points in ``run.second-tree``.
        resume : bool
            Continue from `checkpoint`, if it exists, and make the neighbors again. With the same data and settings,
            the result equals an uninterrupted run, bit for bit.
        executor : concurrent.futures.Executor, function that returns one, or Workers, optional
            Trains trees and neighbors on the workers of this executor, such as processes or a Dask cluster, and the
            network in this process. The model is the same, bit for bit. Each task has one thread, or `n_jobs` threads
            if that is a number.
        cache : directory, optional
            Stores the points there once, in about 6 bytes a number, and reads them from there. Posting lists of sparse
            neighbors are in a file without a name, which the model maps into memory. The model is the same. X may then
            also be an iterable of batches ``(X, y)``.
        """
        started, normalize = time.perf_counter(), self._check()
        seed = run_seed(self.random_state, checkpoint, resume=resume)
        tree, network = self._copies(seed, checkpoint)
        if check_callbacks(callbacks) and network is None:
            raise ValueError(
                f"network is {DROPPED!r}, and only networks have epochs to call back from: leave callbacks out"
            )
        if resume and checkpoint is not None:  # before the tree is trained
            check_classifier(checkpoint, TRAINED_FOR)
        options = BlendOptions(
            rules=tree._check(),
            network=None
            if network is None
            else NetworkOptions.of(network.get_params(deep=False), max_wide_budget=WIDE_BUDGET),
            n_neighbors=self.n_neighbors,
            candidates=self._given_candidates(),
            time_budget=self.time_budget,
            verbose=optional(switch, "verbose", self.verbose),
            memory_limit=self._lowest_limit(tree),
        )
        resumes = resume and checkpoint is not None and checkpoint_exists(Path(checkpoint))
        with all_or_nothing(self), task_runner(executor, n_jobs(self.n_jobs)) as runner:
            X, y = training_points(X, y, cache=cache, verbose=options.verbose)
            shared = arrays_of(X, y)
            X = checked_points(self, X)
            target, labels = Target.learn(y)
            of_tree = bytes_per_feature(labels.width, self._threads())
            check_width(X.shape[1], max(of_tree + BYTES_HELD, BYTES_A_FEATURE) if self.n_neighbors > 0 else of_tree)
            how: dict[str, Any] = {"threads": self._threads()}
            scaling, points = scaled(X, labels, normalize, some_label=True, seed=seed, names=feature_names(self), **how)
            how |= {"target": target, "scaling": scaling, "seen": LabelStats.empty(X, scaling, labels.width)}
            how |= {"checkpoint": checkpoint, "resume": resume, "resumes": resumes, "started": started}
            how |= {"callbacks": callbacks, "shared": shared, "runner": runner}
            held = given_validation(self, validation, scaling, target)
            try:
                fitted = fit((points, labels), options, seed=seed, **how)
            except InterruptedBlend as interrupt:
                self._adopt(interrupt.fitted, tree, network)
                raise interrupt.original from interrupt.original.__cause__
            model = self._adopt(fitted, tree, network)._validated(held)
        release_memory()  # training takes several times the memory of the model
        return model

    def _copies(self, seed: int, checkpoint: Any) -> tuple[TreeClassifier, ExtremeClassifier | None]:
        """Return unfitted copies of the parts that were given, or of the default ones."""
        own = {"n_jobs": self.n_jobs, "random_state": seed, "verbose": self.verbose}
        tree = blend_parts.copied("tree", self.tree, TreeClassifier, own, self.time_budget)
        if blend_parts.is_dropped(self.network):
            blend_parts.check_without_network(self.time_budget, self.n_neighbors)
            return tree, None
        network = blend_parts.copied("network", self.network, ExtremeClassifier, own, self.time_budget)
        blend_parts.check_network(network._options(), checkpoint)  # rather than after the tree is trained
        return tree, network

    def _pack(self, *, small: bool) -> tuple[Arrays, dict[str, Any]]:
        self._check()  # invalid parameters could not be loaded
        check_seed(self.random_state)
        fitted = self._fitted if self.n_neighbors > 0 else replace(self._fitted, neighbors=None)
        if fitted.network is None and fitted.neighbors is None:
            raise ValueError("n_neighbors is 0 and this model has no network, so only tree_ would be saved: save that")
        untrained = self.network if fitted.network is None and isinstance(self.network, ExtremeClassifier) else None
        if untrained is not None:
            blend_parts.check_untrained(untrained)
        self.tree_._check()
        parts = {"tree": self.tree_} | ({} if self.network_ is None else {"network": self.network_})
        header = BlendHeader(
            self._header(but=PARTS),
            tree=self.tree_._header(n_jobs=self.n_jobs),  # equal models are equal files on any machine
            network=None if self.network_ is None else self._network_header(self.network_),
            given=[name for name in PARTS if name in parts and isinstance(getattr(self, name), BaseEstimator)],
            untrained=None if untrained is None else pack_parameters(untrained.get_params(deep=False)),
            is_dropped=isinstance(self.network, str),
        )
        return blend_arrays.pack(fitted, header, small=small)

    @classmethod
    def _unpack(cls, arrays: Arrays, metadata: dict[str, Any]) -> Self:
        header, fitted = blend_arrays.unpack(arrays, metadata)
        tree = TreeClassifier._of_header(header.tree)
        tree._check()
        network = None if header.network is None else ExtremeClassifier._of_header(header.network)
        parts: dict[str, Any] = {"tree": tree} | ({} if network is None else {"network": network})
        given = {name: blend_parts.as_given(part) for name, part in parts.items() if name in header.given}
        if header.untrained:
            given["network"] = ExtremeClassifier(**unpack_parameters(header.untrained))
            blend_parts.check_untrained(given["network"])
        if header.is_dropped:
            given["network"] = DROPPED
        model: Self = cls._of_header(header.whole, **given)
        if fitted.scaling.is_of_table and fitted.neighbors is None:
            model.n_neighbors = 0  # old models of tables had none, whatever the parameter was
        model._check()
        check_seed(model.random_state)
        return model._adopt(fitted, tree, network)

    def _network_header(self, network: ExtremeClassifier) -> Header:
        try:
            network._check_unchanged()
            return network._header(n_jobs=self.n_jobs)
        except ValueError as error:
            raise ValueError(f"network_: {error}") from None

    def _check(self) -> str:
        """Validate the blend's own parameters; return `normalize`."""
        self._given_candidates()
        integer("n_neighbors", self.n_neighbors, 0)
        blend_parts.given("network", self.network, ExtremeClassifier)
        blend_parts.given("tree", self.tree, TreeClassifier)
        optional(seconds, "time_budget", self.time_budget)
        optional(number_of_bytes, "memory_limit", self.memory_limit)
        optional(switch, "verbose", self.verbose)
        n_jobs(self.n_jobs)
        return choice("normalize", self.normalize, CHOICES)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({"memory_limit": None, **state})  # pickles of version 0.2 have none

    def _lowest_limit(self, tree: TreeClassifier) -> int | None:
        """Return the lower memory limit of the blend and its tree; None without one."""
        limits = optional(number_of_bytes, "memory_limit", self.memory_limit), tree._memory_limit()
        return min((limit for limit in limits if limit is not None), default=None)

    def _adopt(self, fitted: FittedBlend, tree: TreeClassifier, network: ExtremeClassifier | None) -> Self:
        """Be fitted; `tree` and `network` hold the parameters of the parts."""
        self._keep(fitted)
        self.tree_ = with_features(tree, self.n_features_in_)._adopt(fitted.tree)
        self.network_, self.neighbors_, self.candidates_ = None, fitted.neighbors, fitted.candidates
        if fitted.network is not None and network is not None:
            self.network_ = with_features(network, self.n_features_in_)._adopt(fitted.network)
        return self
