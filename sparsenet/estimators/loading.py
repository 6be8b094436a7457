"""Load a saved model of any kind."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, TypeAlias

from sparsenet import storage
from sparsenet.estimators.blend import BlendClassifier
from sparsenet.estimators.extreme import ExtremeClassifier
from sparsenet.estimators.pipeline import KIND, ClassifierPipeline
from sparsenet.estimators.recommender import Recommender
from sparsenet.estimators.table import TableClassifier
from sparsenet.estimators.text import TextClassifier
from sparsenet.estimators.tree import TreeClassifier
from sparsenet.storage import ModelError
from sparsenet.storage.parts import NO_MODEL, is_state

Classifier: TypeAlias = ExtremeClassifier | TreeClassifier | BlendClassifier | TextClassifier | TableClassifier
Model: TypeAlias = Classifier | Recommender
#: Classes by the name in the manifest.
CLASSES: dict[object, type[Model]] = {
    kind.__name__: kind
    for kind in (ExtremeClassifier, TreeClassifier, BlendClassifier, TextClassifier, TableClassifier, Recommender)
}
#: Packages of the optional wings' classes, by the name in the manifest: nothing imports a wing before it is needed.
WINGS = dict.fromkeys(("NextItem", "TemporalLinkPredictor"), "sparsenet.temporal")


def class_of_wing(kind: str) -> Any:
    """Import an optional wing, and return its class of this name."""
    return getattr(import_module(WINGS[kind]), kind)


def load(path: str | os.PathLike[str]) -> Any:
    """Load a model saved by any `save` of the package, as an object of the same class.

    Parameters
    ----------
    path : directory
        Directory of the model.

    Returns
    -------
    ExtremeClassifier, TreeClassifier, BlendClassifier, TextClassifier, TableClassifier, Recommender,
    ClassifierPipeline, sparsenet.temporal.NextItem, sparsenet.temporal.TemporalLinkPredictor

    Raises
    ------
    ModelError
        If the model is missing, damaged or of an unknown class.

    Examples
    --------
    >>> import tempfile
    >>> from sparsenet import TextClassifier, load
    >>> directory = tempfile.mkdtemp()
    >>> TextClassifier(random_state=0).fit(["a lovely film", "a dull film"], ["good", "bad"]).save(directory)
    >>> load(directory).predict(["how lovely"]).tolist()
    ['good']
    """
    metadata = storage.metadata(path)
    kind = metadata.get("model")
    if is_state(metadata):
        raise ModelError(f"{path}: {NO_MODEL}")
    if kind == KIND:
        return ClassifierPipeline.load(path)
    if isinstance(kind, str) and kind in WINGS:
        return class_of_wing(kind).load(path)
    if not isinstance(kind, str) or kind not in CLASSES:
        *others, last = map(str, [*CLASSES, *WINGS])
        raise ModelError(f"{path}: this is a model of the kind {kind!r}, not {', '.join(others)} or {last}")
    return CLASSES[kind].load(path)
