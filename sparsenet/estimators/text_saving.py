"""A fitted `TextClassifier` as arrays and JSON, and back, parameters and column names included."""

from __future__ import annotations

from typing import Any, TypeVar

from sparsenet.engines.network.parameters import pack_parameters, unpack_parameters
from sparsenet.engines.text import text_arrays
from sparsenet.engines.text.fit_text import FittedText
from sparsenet.engines.text.text_arrays import KIND as KIND
from sparsenet.features.text import table_columns
from sparsenet.kernels.types import Arrays
from sparsenet.storage import size
from sparsenet.storage.parts import nothing_believed

Model = TypeVar("Model")


def pack(classifier: Any, fitted: FittedText) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays and the metadata that `unpack` takes; `fitted` may be a smaller model than the classifier's."""
    parameters = pack_parameters(classifier.get_params(deep=False))
    classifier._check()  # parameters may have been set since, and loading refuses wrong ones
    arrays, metadata = text_arrays.pack(fitted)
    known = table_columns.lasting(classifier.columns_)
    return arrays, metadata | {"parameters": parameters} | ({} if known is None else {"columns": known})


def saved_size(classifier: Any, fitted: FittedText) -> int:
    """Return the bytes that a model takes on disk."""
    return size(*pack(classifier, fitted))


def unpack(cls: type[Model], arrays: Arrays, metadata: dict[str, Any]) -> Model:
    """Make a classifier of the result of `pack`; raise ModelError if it is damaged or of another kind."""
    with nothing_believed():
        fitted = text_arrays.unpack(arrays, metadata)
        model: Any = cls(**unpack_parameters(metadata["parameters"]))
        model._check()
        adopted: Model = model._adopt(fitted, table_columns.unpack(metadata))
        return adopted
