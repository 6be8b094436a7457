"""`ExtremeClassifier`: a network with sampled output as a scikit-learn classifier."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from sparsenet.core.memory import arrays_of
from sparsenet.core.seeds import run_seed
from sparsenet.core.validation import check_features, n_jobs
from sparsenet.core.workers import task_runner
from sparsenet.engines.network import network_arrays, onnx_graph, sizing
from sparsenet.engines.network.building import check_n_features
from sparsenet.engines.network.fit_network import FittedNetwork, InterruptedFit, fit, fit_first, fit_more
from sparsenet.engines.network.losses import Loss
from sparsenet.engines.network.optim import Optimizer
from sparsenet.engines.network.options import NetworkOptions
from sparsenet.engines.network.samplers import Sampler
from sparsenet.engines.network.training import Callback, DivergenceError, checkpoints
from sparsenet.estimators.network_answering import NetworkAnswersMixin
from sparsenet.estimators.point_sources import checked_points, labelled_points, training_points
from sparsenet.estimators.predictor import ShortlistPredictor
from sparsenet.estimators.saving import SavingMixin
from sparsenet.estimators.transaction import all_or_nothing, feature_names, given_validation
from sparsenet.features.label_stats import LabelStats
from sparsenet.features.targets import Target, check_points
from sparsenet.features.units import scaled
from sparsenet.index.hashing import LSHConfig
from sparsenet.kernels.types import Arrays


class ExtremeClassifier(SavingMixin, NetworkAnswersMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
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
        a third of the epochs. They are dropped if the network is no worse without them. The test uses the validation
        data, if these are 512 points or more. Without validation, it holds out a 64th of at least 16,384 points (512 to
        2,048). The hold-out also corrects the scores of frequent labels and calibrates the probabilities.
    wide : bool
        Use a wide path.
    activation : {"relu", "linear", "tanh"}
        Activation of the hidden layers.
    dropout : float
        Fraction of hidden units dropped at each step.
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
        Fraction of all steps over which the learning rates rise from zero.
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
        Fraction of the points held out to choose the best epoch by P@1; see also `fit`.
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
    parts_ : dict or None
        The number of columns of each part of X, if it was a mapping of names to matrices.
    network_ : Network
    history_ : list of dict
        For each epoch: ``epoch``, ``loss`` and ``seconds`` (not saved); with validation ``P@1``, ``P@3`` and ``P@5``;
        with hashing ``index_recall``, the expected share of the best five labels in a sample.
    n_iter_ : int
        Epochs trained.
    choices_ : dict
        The `Decision` on each ``"auto"`` parameter, such as ``choices_["hidden"].value`` and ``.why``; with
        ``sampler="lsh"`` also the final hash settings; ``"count_weight"``: the weight of the logarithm of a label's
        count in its score, if a hold-out corrected the scores.
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

        Ctrl-C stops within a second, keeps the weights learnt so far and raises KeyboardInterrupt. Before training, and
        during the pilot run that only chooses the epochs, it leaves the classifier unchanged. A failure, such as
        DivergenceError, leaves an earlier model unchanged.

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
            Data to measure after each epoch; the epoch with the best P@1 is kept. See also `hidden`.
        callbacks : sequence of Callback
            Called after each batch and epoch.
        checkpoint : directory, optional
            Saves the state after an epoch (every few seconds at most), every five minutes of a longer epoch, and on
            Ctrl-C; needs an integer `random_state`.
        resume : bool
            Continue from `checkpoint`, if it exists. The result equals an uninterrupted run, bit for bit.
        executor : concurrent.futures.Executor, function that returns one, or Workers, optional
            Trains the labels on the workers of this executor, such as processes or a Dask cluster. The model is the
            same for any number of workers, bit for bit, and equal to that of this process up to rounding. Each task
            has one thread, or `n_jobs` threads if that is a number. It needs the loss ``"bce"`` and a sampler other
            than ``"lsh"``, and has no `time_budget`.
        cache : directory, optional
            Stores the points there once, in about 6 bytes a number, and reads them from there, so that they need not
            fit into memory. The model is the same. X may then also be an iterable of batches ``(X, y)``.
        """
        options, threads, started = self._options(), self._threads(), time.perf_counter()
        seed = run_seed(self.random_state, checkpoint, resume=resume)
        if resume and checkpoint is not None:
            checkpoints.check_classifier(checkpoint, network_arrays.KIND)
        if executor is not None:
            options.check_sharded()
        with all_or_nothing(self), task_runner(executor, n_jobs(self.n_jobs)) as runner:
            X, y = training_points(X, y, cache=cache, verbose=options.verbose)
            shared = arrays_of(X, y, *(validation if isinstance(validation, tuple | list) else ()))
            X = checked_points(self, X)
            target, labels = Target.learn(y)
            check_n_features(options, X.shape[1], labels.width, threads)
            how: dict[str, Any] = {"seed": seed, "threads": threads}
            scaling, features = scaled(X, labels, options.normalize, some_label=True, names=feature_names(self), **how)
            how |= {"target": target, "scaling": scaling, "seen": LabelStats.empty(X, scaling, labels.width)}
            how |= {"checkpoint": checkpoint, "resume": resume, "shared": shared, "started": started}
            how["runner"] = None if executor is None else runner
            given = given_validation(self, validation, scaling, target)
            points = features, labels
            del X, features, labels  # which may be copies, and are not needed again
            try:
                fitted = fit(points, options, validation=given, callbacks=callbacks, **how)
            except InterruptedFit as interrupt:
                self._adopt(interrupt.fitted)
                raise interrupt.original from interrupt.original.__cause__
            return self._adopt(fitted)

    def partial_fit(self, X: Any, y: Any = None, classes: ArrayLike | None = None) -> Self:
        """Train for one more epoch on X and y, at a constant learning rate.

        After `fit`, the rate is a quarter of the usual one, so that old points are not forgotten; new labels then need
        several calls. `fit` on old and new points together is more accurate.

        The first call must name all `classes`, unless y is an indicator. It also fixes the scaling of features, so it
        should have hundreds of rows for a table. The wide path grows by new features of a label. The optimizer's state
        is kept between calls, but not by `fit` and `load`. If an epoch diverges, the classifier becomes unfitted.
        """
        options, threads = self._options(), self._threads()
        with all_or_nothing(self):
            first = not self.__sklearn_is_fitted__()
            if first:
                X, y = training_points(X, y)
            else:
                X, y = labelled_points(X, y, self.n_features_in_, self._fitted.target)
            shared = arrays_of(X, y)
            X = check_features(self, X, fitting=first)
            try:
                if first:
                    target, labels = Target.learn(y, classes, incremental=True)
                    check_n_features(options, X.shape[1], labels.width, threads)
                    how: dict[str, Any] = {"seed": run_seed(self.random_state), "threads": threads}
                    scaling, features = scaled(X, labels, options.normalize, names=feature_names(self), **how)
                    how |= {"target": target, "scaling": scaling, "seen": LabelStats.empty(X, scaling, labels.width)}
                    return self._adopt(fit_first((features, labels), options, shared=shared, **how))
                fitted = self._fitted
                options = sizing.fitted_options(self.get_params(deep=False), fitted.choices)
                points = check_points(fitted.scaling.apply(X), fitted.target.encode(y, classes=classes))
                seed = run_seed(self.random_state, call=fitted.calls)
                return self._adopt(fit_more(fitted, points, options, seed=seed, threads=threads))
            except InterruptedFit as interrupt:
                self._adopt(interrupt.fitted)
                raise interrupt.original from interrupt.original.__cause__
            except DivergenceError:
                if not first:
                    del self._fitted  # its weights are no longer numbers
                raise

    def _options(self) -> NetworkOptions:
        return NetworkOptions.of(self.get_params(deep=False))

    def predictor(
        self,
        k: int = 5,
        *,
        candidates: int = 100,
        postings: int = 2048,
        recall: float | None = None,
        sample: Any = None,
        examples: tuple[Any, Any] | None = None,
    ) -> ShortlistPredictor:
        """Build a `ShortlistPredictor`, which answers in a fraction of a millisecond from a shortlist of labels.

        The wide path chooses `candidates` labels for each point, and only these are scored exactly. More candidates
        are slower, but increase the recall, which `ShortlistPredictor.recall` measures. Each feature proposes at most
        `postings` labels. Given a `recall`, such as 0.95, and a `sample` of a few hundred points, such as a validation
        set, the fewest postings that reach the recall are used, which is faster.

        Without a wide path (``wide=False``), `recall` and `sample` build an index of coarse cells over the labels, and
        the fewest cells that reach the recall are scanned. `examples`, such as ``(X_train, y_train)``, make the cells
        better. Without a `recall`, all labels are scored.
        """
        check_is_fitted(self)
        settings: dict[str, Any] = {"recall": recall, "sample": sample, "examples": examples}
        return ShortlistPredictor(self, k=k, candidates=candidates, postings=postings, **settings)

    def to_onnx(self, path: str | os.PathLike[str], k: int = 5) -> None:
        """Write the network as an ONNX model from dense features to its k best classes, for other runtimes.

        The input is ``X``, float32 (n, d) and unscaled. The outputs are ``classes`` (n, k), best first, ``labels``,
        their positions in `classes_`, and ``probabilities``; ties go to the smaller position. Classes that are no
        numbers become strings. The runtime does not check for NaN. Only networks trained with ``wide=False`` can be
        written. Needs the package onnx: ``pip install 'sparsenet[onnx]'``.
        """
        check_is_fitted(self)
        onnx_graph.write(self._fitted, path, k)

    def _pack(self, *, small: bool) -> tuple[Arrays, dict[str, Any]]:
        self._check_unchanged()
        return network_arrays.pack(self._fitted, self._header(), small=small)

    def _check_unchanged(self) -> None:
        """Refuse parameters changed since training if the network no longer matches them."""
        network_arrays.check_unchanged(self._fitted, self.get_params(deep=False), self.n_features_in_)

    @classmethod
    def _unpack(cls, arrays: Arrays, metadata: dict[str, Any]) -> Self:
        header, fitted = network_arrays.unpack(arrays, metadata)
        model: Self = cls._of_header(header)
        return model._adopt(fitted)

    def _adopt(self, fitted: FittedNetwork) -> Self:
        self._keep(fitted)
        self.network_, self.n_threads_ = fitted.network, self._threads()
        self.history_, self.n_iter_ = fitted.history, len(fitted.history)
        return self
