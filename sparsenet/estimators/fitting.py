"""What `fit` and `partial_fit` do beside building and training: seeds, lengths, held-out data, growth, progress."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, csr_matrix
from sklearn.utils import check_random_state

from sparsenet._machine import available_memory
from sparsenet._validation import check_features
from sparsenet.batches import Rows
from sparsenet.estimators import choices
from sparsenet.estimators.building import check_memory, in_words, memory_limit
from sparsenet.estimators.scaling import Scaling
from sparsenet.estimators.seen import Seen
from sparsenet.estimators.settings import AFTER_FIT, Settings
from sparsenet.estimators.targets import Target
from sparsenet.model import Network
from sparsenet.optim import Schedule
from sparsenet.progress import ProgressBar, is_wanted
from sparsenet.training import Callback, Trainer, Validation, check_callbacks
from sparsenet.wide import support_bound, transpose

Points = tuple[Rows, Rows]
#: That the wide path takes a weight, old or new, while new ones are merged in: keys, their order, owners, and both
#: generations of indices, weights and state.
GROWTH_BYTES = 56
#: Whether hidden units earn their keep is measured on one point of EVERY, but on no fewer than FEWEST and no more than
#: MOST; where there are not ENOUGH points it is not, since too many of them would be missed.
EVERY, FEWEST, MOST, ENOUGH = 64, 512, 2048, 16384


@dataclass(frozen=True)
class Fitted:
    """All that a fitted classifier is, beside its parameters.

    Attributes
    ----------
    seen : what training had.
    steps : how many steps the optimizers' states have seen; 0 if those are gone.
    calls : how many times it was trained; each draws other numbers.
    finished : whether `fit` trained it, at rates that fell to next to nothing.
    choices : parameters that were left to the classifier, what they came to and why.
    """

    network: Network
    target: Target
    scaling: Scaling
    seen: Seen
    history: Sequence[dict[str, Any]] = ()
    steps: int = 0
    calls: int = 0
    finished: bool = False
    choices: Mapping[str, tuple[Any, str]] = field(default_factory=dict)

    @property
    def rates(self) -> Schedule:
        """Return the rates at which it is trained further."""
        return Schedule(decay="constant", peak=AFTER_FIT if self.finished else 1.0)

    def after(self, trainer: Trainer, keep_state: bool) -> Fitted:
        """Take note of a training; without its state, further training is the same before `save` and after `load`."""
        made = {**self.choices, **choices.hashed(self.network), **choices.tried(trainer)}
        if not self.network.output.n_inputs:
            made.pop("learning_rate", None)  # of weights that there are no more
        if not keep_state:
            self.network.drop_state()
        before = len(self.history)  # epochs are counted on
        later = [{**record, "epoch": before + record["epoch"]} for record in trainer.history]
        steps, history = trainer.steps if keep_state else 0, [*self.history, *later]
        return replace(self, history=history, steps=steps, calls=self.calls + 1, choices=made)


@contextmanager
def all_or_nothing(model: Any) -> Iterator[None]:
    """Leave `model` as it was where its training fails: the columns that it knows are those of the earlier network."""
    before = dict(vars(model))
    try:
        yield
    except BaseException:
        if vars(model).get("_fitted") is before.get("_fitted"):  # neither adopted nor given up on purpose
            for name in vars(model).keys() - before.keys():
                delattr(model, name)
            vars(model).update(before)
        raise


def run_seed(
    random_state: Any, checkpoint: str | os.PathLike[str] | None = None, call: int = 0, *, resume: bool = False
) -> int:
    """Return the seed of a run, which with a checkpoint must be fixed; a later `call` of partial_fit has another."""
    if resume and checkpoint is None:
        raise ValueError("resume=True needs checkpoint: name the directory that the interrupted run kept its state in")
    if checkpoint is not None and not isinstance(random_state, int | np.integer):
        raise ValueError(
            f"checkpoint needs random_state to be an integer, got {random_state!r}: a resumed run must draw the same "
            "numbers"
        )
    seed = int(_generator(random_state).randint(np.iinfo(np.int32).max))
    return seed if call == 0 else int(np.random.SeedSequence((seed, call)).generate_state(1)[0])


def _generator(random_state: Any) -> np.random.RandomState:
    try:
        generator: np.random.RandomState = check_random_state(random_state)
    except ValueError:
        found = "a Generator" if isinstance(random_state, np.random.Generator) else repr(random_state)
        raise ValueError(
            f"random_state must be None, an integer from 0 to {2**32 - 1} or a RandomState, got {found}"
        ) from None
    return generator


def check_points(features: Rows, labels: Rows) -> Points:
    """Return both if they are of one length."""
    check_lengths(len(features), labels)
    return features, labels


def check_lengths(n_points: int, labels: Rows, *, some_label: bool = False) -> None:
    """Raise ValueError unless there are labels of so many points and, on demand, one at least."""
    if n_points != len(labels):
        raise ValueError(f"X has {n_points} rows, y has {len(labels)}: y must have an entry for each row of X")
    if some_label and len(labels.indices) == 0:
        raise ValueError("y holds no label at all: at least one row must have one")


def check_width(n_features: int, bytes_each: float) -> None:
    """Raise MemoryError where what training takes for each feature there is, present or not, does not fit."""
    needed, available = int(n_features * bytes_each), available_memory()
    if needed > available:
        raise MemoryError(
            f"training on points of {n_features:,} features needs {in_words(needed)} for these alone, there are "
            f"{in_words(available)}: number the features without gaps, or train on one thread, since most of it is for "
            "each"
        )


def own_bytes(rows: Iterable[Rows], *theirs: Any) -> int:
    """Return what the arrays of `rows` take, but for such as are those of X and y as they were passed."""
    sparse = [matrix for matrix in theirs if isinstance(matrix, csr_array | csr_matrix)]
    known = [array for matrix in sparse for array in (matrix.indptr, matrix.indices, matrix.data)]
    held = {id(array): array for part in rows for array in (part.indptr, part.indices, part.data)}
    return sum(array.nbytes for array in held.values() if not any(np.may_share_memory(array, x) for x in known))


def given_validation(model: Any, validation: Any, scaling: Scaling, target: Target) -> Points | None:
    """Check and encode the (X, y) that `fit` was given to measure on; an error says that it is about these."""
    if validation is None:
        return None
    if not isinstance(validation, tuple | list) or len(validation) != 2:
        raise ValueError(f"validation must be a pair (X, y), got {type(validation).__name__}: pass validation=(X, y)")
    try:
        features = scaling.apply(check_features(model, validation[0], fitting=False))
        return check_points(features, target.encode(validation[1], drop_unknown=True))
    except ValueError as error:
        raise ValueError(f"validation: {error}") from error


def held_out(settings: Settings, points: Points, given: Points | None, seed: int) -> tuple[Points, Validation | None]:
    """Return the points to train on and those to measure on: the ones given, or a share of the former, or none."""
    if given is not None and settings.validation_fraction > 0:
        raise ValueError("validation_fraction and validation are both set: leave one of them out")
    if given is not None and len(given[0]) == 0:
        raise ValueError("validation has no rows: pass some to measure each epoch on, or validation=None")
    if given is None and settings.validation_fraction > 0:
        n = len(points[0])
        n_held = max(1, round(settings.validation_fraction * n))
        if n_held >= n:
            raise ValueError(f"validation_fraction={settings.validation_fraction} of {n} rows leaves none to train on")
        points, given = _apart(points, n_held, seed)
    if given is None:
        if settings.patience is not None:
            raise ValueError("patience needs validation data: set validation_fraction or pass fit(validation=(X, y))")
        return points, None
    return points, Validation(given[0], as_matrix(given[1]))


def held_for_trial(
    settings: Settings, points: Points, measured: Validation | None, seed: int
) -> tuple[Points, Validation | None]:
    """Return the points to train on and those that tell whether hidden units earn their keep, if that is to be seen.

    What each epoch is measured on, if anything, will do; else a few points are kept from training.
    """
    if measured is not None and settings.may_lose_hidden(points[1].width):
        return points, measured if len(measured.features) >= FEWEST else None
    n_held = n_for_trial(settings, len(points[0]), points[1].width)
    if n_held == 0:
        return points, None
    points, (features, labels) = _apart(points, n_held, seed)
    return points, Validation(features, as_matrix(labels))


def n_for_trial(settings: Settings, n_points: int, n_labels: int) -> int:
    """Return how many of so many points, of which none are held out, are kept from training to try it on."""
    if not settings.may_lose_hidden(n_labels) or n_points < ENOUGH:
        return 0
    return min(max(n_points // EVERY, FEWEST), MOST)


def _apart(points: Points, n_held: int, seed: int) -> tuple[Points, Points]:
    """Return the points to train on and so many to measure on."""
    features, labels = points
    kept, held = split(len(features), n_held, seed)
    if not np.diff(labels.indptr)[kept].any():
        raise ValueError(
            f"{n_held} of {len(features)} rows are held out to measure on, and y has no label at all in the others: "
            "try another random_state, or measure on points of your own"
        )
    return (features.take(kept), labels.take(kept)), (features.take(held), labels.take(held))


def split(n_points: int, n_held: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the points to train on and those to measure on, both ascending."""
    order = np.random.default_rng((seed, 2)).permutation(n_points)
    return np.sort(order[n_held:]), np.sort(order[:n_held])


def as_matrix(rows: Rows) -> csr_array:
    """Return rows as SciPy has them."""
    return csr_array((rows.data, rows.indices, rows.indptr), shape=(len(rows), rows.width))


def grow(network: Network, settings: Settings, points: Points, threads: int) -> None:
    """Make a trained network ready to learn from new points: weights that may be written, room in the wide path."""
    for parameter in network.parameters():
        if not parameter.value.flags.writeable:  # as joblib maps a model that it has on disk
            parameter.value = parameter.value.copy()
            parameter.state = {name: array.copy() for name, array in parameter.state.items()}
    wide = network.output.wide
    if wide:
        features, label_points = points[0], transpose(points[1])
        room = len(wide.indices) + int(support_bound(features, label_points, settings.wide_budget).sum())
        needed = {"new features of labels": GROWTH_BYTES * room}
        if settings.memory_limit is not None:  # which is on what there is already, too
            needed["model"] = sum(array.nbytes for p in network.parameters() for array in (p.value, *p.state.values()))
        check_memory(needed, settings, memory_limit(settings))
        wide.configure(replace(wide.config, budget=settings.wide_budget))
        wide.grow(features, label_points, threads)


@contextmanager
def shown(settings: Settings, callbacks: Sequence[Callback]) -> Iterator[list[Callback]]:
    """Add a progress bar to the callbacks, if one is wanted, and put it away at the end."""
    if not is_wanted(settings.verbose):
        yield check_callbacks(callbacks)
        return
    with ProgressBar() as bar:
        yield [*check_callbacks(callbacks), bar]
