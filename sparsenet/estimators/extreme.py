"""The scikit-learn face: `ExtremeClassifier`."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin

from sparsenet.core.memory import arrays_of
from sparsenet.core.seeds import run_seed
from sparsenet.core.validation import check_features
from sparsenet.engines.network import sizing
from sparsenet.engines.network.building import check_n_features
from sparsenet.engines.network.fit_network import FittedNetwork, InterruptedFit, fit, fit_first, fit_more
from sparsenet.engines.network.losses import Loss
from sparsenet.engines.network.network_arrays import KIND
from sparsenet.engines.network.optim import Optimizer
from sparsenet.engines.network.options import NetworkOptions
from sparsenet.engines.network.samplers import Sampler
from sparsenet.engines.network.training import Callback, DivergenceError, checkpoints
from sparsenet.estimators.network_answers import PredictionMixin
from sparsenet.estimators.network_saving import SavingMixin
from sparsenet.estimators.transaction import all_or_nothing, given_validation
from sparsenet.features.seen import Seen
from sparsenet.features.targets import Target, check_points
from sparsenet.features.units import scaled
from sparsenet.index.hashing import LSHConfig


class ExtremeClassifier(SavingMixin, PredictionMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A classifier for a few to millions of labels, one or several a point.

    Each label is a neuron with two kinds of input: a deep path through a hidden layer, and a wide path of sparse
    weights straight from the features. A training step computes the neurons of the batch's own labels and of a few
    hundred others that a sampler chose; prediction is exact over all labels.

    Parameters
    ----------
    hidden : int, tuple of int or "auto"
        Units of the hidden layer or layers; 0 for the wide path alone. ``"auto"``: 256, or 128, 64 or none where those
        would not fit into memory, or not go over the points five times within `time_budget` (measuring on validation
        data not counted). With more than 1,024 labels and two epochs or more they are given up after a third of these
        if the network is no worse without them, and else count less in the end if that is better, unless a `sampler`
        needs them. That is measured on the validation data, if those are 512 points or more; where there are none and
        at least 16,384 points, on a 64th of these, 512 to 2,048, that are kept from training. On them it is also
        found whether frequent labels say too little or too much, and scores are made probabilities of.
    wide : bool
        Whether there is a wide path.
    activation : {"relu", "linear", "tanh"}
        Of the hidden layers.
    dropout : float
        Share of hidden units silenced at each step.
    loss : {"bce", "softmax"} or Loss
        ``"bce"``: each label is a yes-or-no question. ``"softmax"``: labels compete, corrected for the sampling.
    sampler : {"random", "frequency", "lsh", "none"}, LSHConfig or Sampler
        What chooses the negatives; ``"none"`` computes all labels at each step. ``"lsh"`` hashes labels by the family,
        and into as many tables, as find the most of the best labels while it trains.
    n_negatives : int or "auto"
        Negatives asked for at each step, beside the labels of the batch's points, which are each other's. If there are
        no more labels than that, all are computed. ``"auto"``: 256 if there are more than 1,024 labels.
    precision : {"auto", "float32", "bfloat16"}
        Of the operands in the products of the deep output; ``"auto"``: bfloat16 where the CPU multiplies it faster.
    per_sample : bool
        Give each point of a batch active labels of its own, for comparison; needs ``wide=False``.
    epochs : int or "auto"
        Passes over the data. ``"auto"``: 8; fewer, down to 5, on large data; on small data as many as give 400 steps.
        Of 4,000 points or more that are so small data, without validation or a `time_budget`, a tenth is held out from
        a first training of a third of these passes: if they are answered worse in the end than before, there are as
        many passes as were best, and if better without the hidden units that there may be ``"auto"``, none of these.
        Where hidden units are measured after a third of the passes (see `hidden`) and no more is right than after the
        first one, but for what may be chance, only one more is taken, in which the rates fall to their end.
    batch_size : int or "auto"
        Points of a step. ``"auto"``: 256; 512 from 65,536 points on, 1,024 from 131,072 on, those of the first call.
    optimizer : {"adam", "adagrad", "sgd"} or Optimizer
        Of the deep weights. ``"adam"`` has a `beta1` of 0.5: see `Adam`.
    learning_rate : float or "auto"
        Of the deep weights. ``"auto"``: 0.004 for batches up to 256, and in proportion to their root beyond; three
        times as much of Adam where at least half of all values of X, once scaled, are not zero.
    weight_decay : float
        Of the deep weights.
    wide_learning_rate : float or "auto"
        Of the wide weights, which Adagrad moves; ``"auto"``: in proportion to the weights that they start from, and
        less than Adagrad would where a label is answered well already.
    wide_weight_decay : float
        Of the wide weights.
    wide_budget : int or "auto"
        The most features that a label may hold in the wide path. ``"auto"``: 1,024, or down to 128 to fit into memory.
    warmup : float
        Share of all steps over which the learning rates rise from zero.
    decay : {"linear", "cosine", "constant"}
        How they fall afterwards.
    label_smoothing : float
        Targets are this far from 0 and 1.
    normalize : {"auto", "rows", "columns", "together", "mixed", "none"}
        ``"rows"`` divides each point by its length, as counts and tf-idf want it; ``"columns"`` standardises the
        columns of a dense table; ``"together"`` centres them and divides all by one number, so that those that vary
        more count for more, as of embeddings they should; ``"mixed"`` standardises amounts, columns that most rows
        have, beside categories, whose zeros it leaves. ``"auto"``: columns if in `fit` much of X is not zero, half if
        it is sparse, a third, or some of it is negative, if it is dense, or together where points near each other then
        share more labels; mixed where amounts stand beside what is mostly zeros; else rows.
    validation_fraction : float
        Share of the points held out to choose the best epoch by P@1; see also `fit`.
    patience : int or None
        With validation, stop after this many epochs without a better P@1.
    memory_limit : int, str or None
        Bytes, or text such as ``"8GB"``, that training may use; None: what the machine has to offer.
    time_budget : float or None
        Seconds that `fit` may take: it takes fewer steps where its epochs do not fit, and the learning rate falls
        accordingly. How far it gets then depends on the machine.
    n_jobs : int or None
        Threads; None or -1: as many as this process may run, or OMP_NUM_THREADS; -2: all but one, and so on. The
        result does not depend on it.
    random_state : int, RandomState or None
        An integer gives equal models, bit for bit: where memory is short, or time by `time_budget`, if they are of one
        size, for which `hidden` and `wide_budget` can be named.
    verbose : bool, int or None
        Show memory and progress on stderr, 0 meaning no; None: if that is a terminal.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        The labels, ascending; if y was an indicator, the numbers of its columns, or the names of those of a data frame.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, if X was a data frame
    network_ : Network
    history_ : list of dict
        Of each epoch: ``epoch``, ``loss``, ``seconds``, which is not saved; with validation ``P@1``, ``P@3``, ``P@5``;
        with hashing ``index_recall``, the share of the best five labels that a sample is expected to hold.
    n_iter_ : int
        Epochs trained.
    choices_ : dict
        What parameters that are ``"auto"`` came to, and why: ``{"hidden": (256, "there is memory ..."), ...}``; with
        ``sampler="lsh"`` also how labels were hashed in the end.
    label_counts_ : ndarray of shape (n_labels,)
        How many of the training points had each label.
    n_points_ : int
        How many training points there were.
    normalize_ : str
        How points are scaled, in the words of `normalize`.
    n_threads_ : int
        Threads in use.

    Examples
    --------
    >>> from sparsenet import ExtremeClassifier
    >>> X = [[1.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.0, 1.0, 0.1], [0.0, 0.9, 0.2]]
    >>> model = ExtremeClassifier(hidden=16, random_state=0).fit(X, ["cat", "cat", "dog", "dog"])
    >>> model.predict([[1.0, 0.1, 0.0]]).tolist()
    ['cat']
    >>> model = ExtremeClassifier(hidden=16, random_state=0).fit(X, [["cat"], ["cat", "pet"], ["dog", "pet"], []])
    >>> model.predict_topk([[1.0, 0.1, 0.0]], k=2).shape
    (1, 3)
    """

    def __init__(
        self,
        *,
        hidden: int | tuple[int, ...] | str = "auto",
        wide: bool = True,
        activation: str = "relu",
        dropout: float = 0.25,
        loss: str | Loss = "bce",
        sampler: str | LSHConfig | Sampler = "random",
        n_negatives: int | str = "auto",
        precision: str = "auto",
        per_sample: bool = False,
        epochs: int | str = "auto",
        batch_size: int | str = "auto",
        optimizer: str | Optimizer = "adam",
        learning_rate: float | str = "auto",
        weight_decay: float = 0.0,
        wide_learning_rate: float | str = "auto",
        wide_weight_decay: float = 1e-5,
        wide_budget: int | str = "auto",
        warmup: float = 0.0,
        decay: str = "linear",
        label_smoothing: float = 0.0,
        normalize: str = "auto",
        validation_fraction: float = 0.0,
        patience: int | None = None,
        memory_limit: int | str | None = None,
        time_budget: float | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | int | None = None,
    ) -> None:
        self.hidden = hidden
        self.wide = wide
        self.activation = activation
        self.dropout = dropout
        self.loss = loss
        self.sampler = sampler
        self.n_negatives = n_negatives
        self.precision = precision
        self.per_sample = per_sample
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.wide_learning_rate = wide_learning_rate
        self.wide_weight_decay = wide_weight_decay
        self.wide_budget = wide_budget
        self.warmup = warmup
        self.decay = decay
        self.label_smoothing = label_smoothing
        self.normalize = normalize
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.memory_limit = memory_limit
        self.time_budget = time_budget
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        validation: tuple[Any, Any] | None = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
    ) -> Self:
        """Train on X and y from the start.

        Ctrl-C stops within a second: the classifier is then fitted with what was learnt, and KeyboardInterrupt goes
        on; before there is anything, and in a first training that only tells of passes, it leaves the classifier as it
        was. A training that fails, as by DivergenceError, leaves an earlier model as it was.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n, d)
        y : labels
            One a row (strings or whole numbers), a list of labels for each row (either may come from a generator), or
            an indicator of shape (n, n_labels), dense or sparse, whose non-zero entries are labels.
        validation : (X, y), optional
            Each epoch is measured on it, and the epoch of the best P@1 kept; see also `hidden`.
        callbacks : sequence of Callback
            Told of each batch and epoch.
        checkpoint : directory, optional
            Holds the state of the run after an epoch (every few seconds) and Ctrl-C; needs an integer `random_state`.
        resume : bool
            Go on from `checkpoint`, if there is one: the result is that of an uninterrupted run, bit for bit.
        """
        options, threads, started = self._options(), self._threads(), time.perf_counter()
        seed = run_seed(self.random_state, checkpoint, resume=resume)
        if resume and checkpoint is not None:
            checkpoints.check_classifier(checkpoint, KIND)
        with all_or_nothing(self):
            shared = arrays_of(X, y, *(validation if isinstance(validation, tuple | list) else ()))
            X = check_features(self, X, fitting=True)
            target, labels = Target.learn(y)
            check_n_features(options, X.shape[1], labels.width, threads)
            how: dict[str, Any] = {"seed": seed, "threads": threads}
            scaling, features = scaled(self, X, labels, options.normalize, some_label=True, **how)
            seen = Seen.nothing(X, scaling, labels.width)
            given = given_validation(self, validation, scaling, target)
            points = features, labels
            del X, features, labels  # which may be copies, and are not needed again
            try:
                fitted = fit(
                    points,
                    options,
                    target=target,
                    scaling=scaling,
                    seen=seen,
                    validation=given,
                    callbacks=callbacks,
                    checkpoint=checkpoint,
                    resume=resume,
                    shared=shared,
                    started=started,
                    **how,
                )
            except InterruptedFit as interrupt:
                self._adopt(interrupt.fitted)
                raise
            return self._adopt(fitted)

    def partial_fit(self, X: Any, y: Any, classes: ArrayLike | None = None) -> Self:
        """Take one pass over X and y, from where the classifier stands, at a constant learning rate.

        Where `fit` has been, that is a quarter of the usual rate: so old points are not forgotten for a few new ones,
        and labels that are new take several calls. `fit` on old and new points together is more accurate.
        The first call names all `classes`, unless y is an indicator, and fixes how features are scaled: of a table by
        the rows that it has, which should be hundreds. The wide path gets room for features that are new to a label.
        The optimizer's state lives on from call to call; what `fit` and `load` leave are the weights alone. A pass that
        diverges leaves the classifier unfitted.
        """
        options, threads = self._options(), self._threads()
        with all_or_nothing(self):
            shared = arrays_of(X, y)
            first = not self.__sklearn_is_fitted__()
            X = check_features(self, X, fitting=first)
            try:
                if first:
                    target, labels = Target.learn(y, classes, incremental=True)
                    check_n_features(options, X.shape[1], labels.width, threads)
                    how: dict[str, Any] = {"seed": run_seed(self.random_state), "threads": threads}
                    scaling, features = scaled(self, X, labels, options.normalize, **how)
                    how |= {"target": target, "scaling": scaling, "seen": Seen.nothing(X, scaling, labels.width)}
                    return self._adopt(fit_first((features, labels), options, shared=shared, **how))
                fitted = self._fitted
                options = sizing.decided(self.get_params(deep=False), fitted.choices)
                points = check_points(fitted.scaling.apply(X), fitted.target.encode(y, classes=classes))
                seed = run_seed(self.random_state, call=fitted.calls)
                return self._adopt(fit_more(fitted, points, options, seed=seed, threads=threads))
            except InterruptedFit as interrupt:
                self._adopt(interrupt.fitted)
                raise
            except DivergenceError:
                if not first:
                    del self._fitted  # its weights are no longer numbers
                raise

    def _options(self) -> NetworkOptions:
        return NetworkOptions.of(self.get_params(deep=False))

    def _adopt(self, fitted: FittedNetwork) -> Self:
        self._fitted = fitted
        self.network_, self.classes_, self.normalize_ = fitted.network, fitted.target.classes, fitted.scaling.kind
        self.choices_ = dict(fitted.choices)
        self.history_, self.n_iter_ = fitted.history, len(fitted.history)
        self.label_counts_, self.n_points_ = fitted.seen.label_counts, fitted.seen.n_points
        self.n_threads_ = self._threads()
        return self
