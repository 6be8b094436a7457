"""Steps that the `fit` and `load` methods of classifiers share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numpy.typing import NDArray

from sparsenet.core.validation import check_features
from sparsenet.estimators.point_sources import is_source, labelled_points
from sparsenet.features.scaling import Scaling
from sparsenet.features.targets import LoadedPoints, Target, check_points


@contextmanager
def all_or_nothing(model: Any) -> Iterator[None]:
    """Restore `model` if its training fails, feature names included."""
    before = dict(vars(model))
    try:
        yield
    except BaseException:
        if vars(model).get("_fitted") is before.get("_fitted"):  # no new fit was adopted
            for name in vars(model).keys() - before.keys():
                delattr(model, name)
            vars(model).update(before)
        raise


def feature_names(model: Any) -> NDArray[Any] | None:
    """Return the column names of the training data, or None unless it was a data frame."""
    names: NDArray[Any] | None = getattr(model, "feature_names_in_", None)
    return names


def with_features(model: Any, n_features: int, names: NDArray[Any] | None = None) -> Any:
    """Set the number and names of features of a new classifier, and return it."""
    model.n_features_in_ = n_features
    if names is not None:
        model.feature_names_in_ = names
    return model


def given_validation(model: Any, validation: Any, scaling: Scaling, target: Target) -> LoadedPoints | None:
    """Check and encode validation data; errors begin with "validation"."""
    if validation is None:
        return None
    pair = (validation, None) if is_source(validation) else validation
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise ValueError(f"validation must be a pair (X, y), got {type(validation).__name__}: pass validation=(X, y)")
    try:
        X, y = labelled_points(pair[0], pair[1], model.n_features_in_, target)
        features = scaling.apply(check_features(model, X, fitting=False))
        return check_points(features, target.encode(y, drop_unknown=True))
    except ValueError as error:
        raise ValueError(f"validation: {error}") from error
