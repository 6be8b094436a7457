"""`ExtremeClassifier`: a network with sampled output as a scikit-learn classifier."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin

from sparsenet.core.memory import own_bytes
from sparsenet.core.seeds import run_seed
from sparsenet.core.validation import check_features
from sparsenet.engines.network import scouting, sizing
from sparsenet.engines.network.building import build, outline, reconfigure
from sparsenet.engines.network.fit_network import Fitted, grow, shown
from sparsenet.engines.network.losses import Loss
from sparsenet.engines.network.network_holdout import held_for_trial, held_out
from sparsenet.engines.network.optim import Optimizer
from sparsenet.engines.network.options import BUDGETS, Settings
from sparsenet.engines.network.samplers import Sampler
from sparsenet.engines.network.training import Callback, DivergenceError, Trainer, checkpoints
from sparsenet.estimators.network_answers import PredictionMixin
from sparsenet.estimators.network_saving import SavingMixin
from sparsenet.estimators.transaction import all_or_nothing, given_validation
from sparsenet.features.kinds import are_dense
from sparsenet.features.seen import Seen
from sparsenet.features.targets import Target, check_points
from sparsenet.features.units import scaled
from sparsenet.index.hashing import LSHConfig


class ExtremeClassifier(SavingMixin, PredictionMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A classifier for a few to millions of labels, one or several a point.

    Each label is a neuron with two inputs: a deep path through hidden layers, and a wide path of sparse weights from
    the features. A training step computes only the true labels of the batch and a few hundred sampled negatives.
    Prediction is exact over all labels.

    Parameters
    ----------
    hidden : int, tuple of int or "auto"
        Units of the hidden layer or layers; 0 for the wide path alone. ``"auto"``: 256, or 128, 64 or 0 to fit into
        memory, or to allow five epochs within `time_budget` (without validation).

        With more than 1,024 labels, two epochs or more and a sampler other than LSH, the hidden units are tested after
        a third of the epochs. They are dropped if the network is no worse without them. Otherwise the final deep scores
        are scaled down if that helps. The test uses the validation data, if these are 512 points or more. Without
        validation, it holds out a 64th of at least 16,384 points (512 to 2,048). The hold-out also corrects the scores
        of frequent labels and calibrates the probabilities.
    wide : bool
        Use a wide path.
    activation : {"relu", "linear", "tanh"}
        Activation of the hidden layers.
    dropout : float
        Share of hidden units dropped at each step.
    loss : {"bce", "softmax"} or Loss
        ``"bce"``: an independent yes-or-no decision for each label. ``"softmax"``: labels compete, with a correction
        for sampling.
    sampler : {"random", "frequency", "lsh", "none"}, LSHConfig or Sampler
        Sampler of the negatives; ``"none"`` computes all labels at each step. ``"lsh"`` chooses the hash family and the
        number of tables with the best recall during training.
    n_negatives : int or "auto"
        Negatives sampled at each step, in addition to the labels of the other points of the batch. All labels are
        computed if there are no more than this. ``"auto"``: 256 if there are more than 1,024 labels.
    precision : {"auto", "float32", "bfloat16"}
        Precision of the operands in the products of the deep output. ``"auto"``: bfloat16 if the CPU multiplies it
        faster.
    per_sample : bool
        Give each point of a batch its own active labels, for comparison; needs ``wide=False``.
    epochs : int or "auto"
        Passes over the data. ``"auto"``: 8; down to 5 on large data; enough for 400 steps on small data.

        Small data of 4,000 points or more, without validation or `time_budget`, are first trained for a third of these
        epochs, with a tenth held out. If the hold-out gets worse, the best number of epochs is used. If it is better
        without the hidden units, ``hidden="auto"`` becomes 0. After the test of the hidden units (see `hidden`),
        training ends with one more epoch if the hold-out has not improved significantly since the first epoch.
    batch_size : int or "auto"
        Points of a step. ``"auto"``: 256; 512 from 65,536 points on, 1,024 from 131,072 on, counted at the first call.
    optimizer : {"adam", "adagrad", "sgd"} or Optimizer
        Optimizer of the deep weights. ``"adam"`` has a `beta1` of 0.5: see `Adam`.
    learning_rate : float or "auto"
        Learning rate of the deep weights. ``"auto"``: 0.004 for batches up to 256, growing with the root of larger
        batch sizes; for Adam three times as high if at least half of all scaled values of X are nonzero.
    weight_decay : float
        Weight decay of the deep weights.
    wide_learning_rate : float or "auto"
        Adagrad's learning rate of the wide weights. ``"auto"``: in proportion to the initial weights, and damped for
        labels that are scored well already.
    wide_weight_decay : float
        Weight decay of the wide weights.
    wide_budget : int or "auto"
        Maximum number of features of a label in the wide path. ``"auto"``: 1,024, or down to 128 to fit into memory.
    warmup : float
        Share of all steps over which the learning rates rise from zero.
    decay : {"linear", "cosine", "constant"}
        Decay of the learning rates after the warm-up.
    label_smoothing : float
        Distance of the targets from 0 and 1.
    normalize : {"auto", "rows", "columns", "together", "mixed", "none"}
        Scaling of X. ``"rows"`` divides each point by its length, for counts and tf-idf. ``"columns"`` standardises the
        columns of a dense table. ``"together"`` centres the columns and divides all of them by one number, for
        embeddings. ``"mixed"`` standardises numeric columns, which most rows have, and keeps the zeros of categories.

        ``"auto"``, decided in `fit`: columns if X has negative values or a third of it is nonzero (dense), or half of
        it is nonzero (sparse); together if near points then share more labels; mixed for numeric columns next to mostly
        empty ones; otherwise rows.
    validation_fraction : float
        Share of the points held out to choose the best epoch by P@1; see also `fit`.
    patience : int or None
        With validation, stop after this many epochs without a better P@1.
    memory_limit : int, str or None
        Memory for training in bytes, or text such as ``"8GB"``; None: the available memory.
    time_budget : float or None
        Maximum seconds for `fit`. It takes fewer steps if the epochs do not fit, and the learning rate decays
        accordingly. The result then depends on the speed of the machine.
    n_jobs : int or None
        Threads; None or -1: all available to this process, or OMP_NUM_THREADS; -2: all but one, and so on. The result
        does not depend on it.
    random_state : int, RandomState or None
        An integer makes models equal, bit for bit. If memory or time is short, also set `hidden` and `wide_budget`,
        since their ``"auto"`` values depend on the machine.
    verbose : bool, int or None
        Show memory and progress on stderr; 0: never; None: if stderr is a terminal.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        The labels, ascending. For an indicator y: column numbers, or column names of a data frame.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, if X was a data frame
    network_ : Network
    history_ : list of dict
        For each epoch: ``epoch``, ``loss`` and ``seconds`` (not saved); with validation ``P@1``, ``P@3`` and ``P@5``;
        with hashing ``index_recall``, the expected share of the best five labels in a sample.
    n_iter_ : int
        Epochs trained.
    choices_ : dict
        Values of ``"auto"`` parameters and their reasons: ``{"hidden": (256, "there is memory ..."), ...}``; with
        ``sampler="lsh"`` also the final hash settings.
    label_counts_ : ndarray of shape (n_labels,)
        Number of training points with each label.
    n_points_ : int
        Number of training points.
    normalize_ : str
        The scaling in use, a value of `normalize`.
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

    #: What ``wide_budget="auto"`` is at most; a blend sets less in its own copy.
    _most_features = BUDGETS[0]
    #: Whether scores are made probabilities of, where points are kept; a blend has a curve of its own for its votes.
    _calibrates = True
    #: Whose the network is: a checkpoint of another's is not gone on with.
    _trained_for = "ExtremeClassifier"

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
        """Train on X and y from scratch.

        Ctrl-C stops within a second, keeps the weights learnt so far and raises KeyboardInterrupt. Before training, and
        during the first training that only chooses the epochs, it leaves the classifier unchanged. A failure, such as
        DivergenceError, leaves an earlier model unchanged.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n, d)
        y : labels
            One label a row (strings or integers), a list of labels for each row, or an indicator of shape
            (n, n_labels), dense or sparse, with nonzero entries for labels. Labels and lists may come from a generator.
        validation : (X, y), optional
            Data to measure after each epoch; the epoch with the best P@1 is kept. See also `hidden`.
        callbacks : sequence of Callback
            Called after each batch and epoch.
        checkpoint : directory, optional
            Saves the state after an epoch (every few seconds at most) and on Ctrl-C; needs an integer `random_state`.
        resume : bool
            Continue from `checkpoint`, if it exists. The result equals an uninterrupted run, bit for bit.
        """
        settings, threads, started = self._settings(), self._threads(), time.perf_counter()
        seed = run_seed(self.random_state, checkpoint, resume=resume)
        if resume and checkpoint is not None:
            checkpoints.check_classifier(checkpoint, self._trained_for)
        with all_or_nothing(self):
            theirs, X = (X, y), check_features(self, X, fitting=True)
            target, labels = Target.learn(y)
            choice = settings.normalize
            scaling, features = scaled(self, X, labels, choice, seed=seed, threads=threads, some_label=True)
            points = features, labels
            seen = Seen.nothing(X, scaling, labels.width)
            del X, features, labels  # which may be copies, and are not looked at again
            given = given_validation(self, validation, scaling, target)
            points, measured = held_out(settings, points, given, seed)
            points, kept = held_for_trial(settings, points, measured, seed)
            settings = settings.for_points(len(points[0]), dense=are_dense(points[0]))
            looked_at = [part.features for part in (measured, kept) if part]
            held = own_bytes([*points, *looked_at], *theirs, *(validation or ()))
            if resume and checkpoint is not None:
                settings = sizing.as_before(settings, checkpoint, len(points[0]))
            if measured is None:
                settings = scouting.scouted(settings, points, held=held, seed=seed, threads=threads)
            network, settings = build(
                *(settings, *points),
                held=held,
                seed=seed,
                threads=threads,
                scored=kept is not None,
                keep_best=measured is not None,
                time_left=lambda: settings.time_left(time.perf_counter() - started),
            )
            made = sizing.made(settings, network, scaling.kind, len(points[0]))
            sizing.tell(made, settings.verbose)
            finished = settings.schedule.decay != "constant"
            fitted = Fitted(network, target, scaling, seen.counting(*points), finished=finished, choices=made)
            config = settings.training(len(points[0]), seed=seed, threads=threads)
            with shown(settings, callbacks) as told:
                left = settings.time_left(time.perf_counter() - started)
                if network.input is None and left is not None:
                    kept = None  # time is too short for hidden units, and so for a look at what there is
                trainer = Trainer(
                    *(network, *points, config),
                    validation=measured,
                    trial=settings.trial(len(points[0]), kept, self._calibrates) if kept else None,
                    callbacks=told,
                    checkpoint=checkpoint,
                    time_budget=left,
                    classifier=self._trained_for,
                )
                if resume:
                    trainer.resume()
                self._train(trainer, fitted, keep_state=False)
            found = {name: choice for name, choice in self.choices_.items() if made.get(name) != choice}
            sizing.tell(found, settings.verbose)
        return self

    def partial_fit(self, X: Any, y: Any, classes: ArrayLike | None = None) -> Self:
        """Train for one more epoch on X and y, at a constant learning rate.

        After `fit`, the rate is a quarter of the usual one, so that old points are not forgotten; new labels then need
        several calls. `fit` on old and new points together is more accurate.

        The first call must name all `classes`, unless y is an indicator. It also fixes the scaling of features, so it
        should have hundreds of rows for a table. The wide path grows by new features of a label. The optimizer's state
        is kept between calls, but not by `fit` and `load`. If an epoch diverges, the classifier becomes unfitted.
        """
        settings, threads = self._settings(), self._threads()
        with all_or_nothing(self):
            theirs, X = (X, y), check_features(self, X, fitting=not self.__sklearn_is_fitted__())
            if self.__sklearn_is_fitted__():
                fitted = self._fitted
                settings = sizing.decided(self.get_params(deep=False), fitted.choices)
                points = check_points(fitted.scaling.apply(X), fitted.target.encode(y, classes=classes))
                seed = run_seed(self.random_state, call=fitted.calls)
                about = self.n_features_in_, fitted.seen.label_counts, fitted.seen.n_points
                reconfigure(fitted.network, outline(settings, *about, seed, threads), settings)
                grow(fitted.network, settings, points, threads)
            else:
                target, labels = Target.learn(y, classes, incremental=True)
                seed = run_seed(self.random_state)
                scaling, features = scaled(self, X, labels, settings.normalize, seed=seed, threads=threads)
                points = features, labels
                settings = settings.for_points(len(points[0]), dense=are_dense(points[0]))
                held = own_bytes(points, *theirs)
                network, settings = build(settings, *points, held=held, seed=seed, threads=threads)
                made = sizing.made(settings, network, scaling.kind, len(points[0]))
                made.pop("epochs", None)  # each call takes one pass
                fitted = Fitted(network, target, scaling, Seen.nothing(X, scaling, labels.width), choices=made)
            config = settings.one_pass(fitted.rates, seed=seed, threads=threads)
            trainer = Trainer(fitted.network, *points, config, steps_before=fitted.steps)
            return self._train(trainer, replace(fitted, seen=fitted.seen.counting(*points)), keep_state=True)

    def _settings(self) -> Settings:
        return Settings.of(self.get_params(deep=False), most=self._most_features)

    def _train(self, trainer: Trainer, fitted: Fitted, *, keep_state: bool) -> Self:
        """Train and store the fitted network, even after an interrupt."""
        try:
            trainer.run()
        except KeyboardInterrupt:
            self._adopt(replace(fitted.after(trainer, keep_state), finished=keep_state and fitted.finished))
            raise
        except DivergenceError:
            if keep_state and self.__sklearn_is_fitted__():
                del self._fitted  # its weights are no longer numbers
            raise
        return self._adopt(fitted.after(trainer, keep_state))

    def _adopt(self, fitted: Fitted) -> Self:
        self._fitted = fitted
        self.network_, self.classes_, self.normalize_ = fitted.network, fitted.target.classes, fitted.scaling.kind
        self.choices_ = dict(fitted.choices)
        self.history_, self.n_iter_ = fitted.history, len(fitted.history)
        self.label_counts_, self.n_points_ = fitted.seen.label_counts, fitted.seen.n_points
        self.n_threads_ = self._threads()
        return self
