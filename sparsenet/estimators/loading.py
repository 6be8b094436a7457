"""Load a saved model of any kind."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from sparsenet import storage
from sparsenet.storage import ModelError
from sparsenet.storage.parts import NO_MODEL, is_state

#: Modules of the classes, by the name in the manifest: each is imported when a model needs it.
CLASSES = {
    "ExtremeClassifier": "sparsenet.estimators.extreme",
    "TreeClassifier": "sparsenet.estimators.tree",
    "BlendClassifier": "sparsenet.estimators.blend",
    "TextClassifier": "sparsenet.estimators.text",
    "TableClassifier": "sparsenet.estimators.table",
    "Recommender": "sparsenet.estimators.recommender",
}
#: The same for classes of the optional wings.
WINGS = dict.fromkeys(("NextItem", "TemporalLinkPredictor"), "sparsenet.temporal")


def class_of(kind: str) -> Any:
    """Import and return the class of a kind of model."""
    return getattr(import_module({**CLASSES, **WINGS}[kind]), kind)


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
    if kind == "Pipeline":
        return import_module("sparsenet.estimators.pipeline").ClassifierPipeline.load(path)
    if not isinstance(kind, str) or kind not in {**CLASSES, **WINGS}:
        *others, last = [*CLASSES, *WINGS]
        raise ModelError(f"{path}: this is a model of the kind {kind!r}, not {', '.join(others)} or {last}")
    return class_of(kind).load(path)
