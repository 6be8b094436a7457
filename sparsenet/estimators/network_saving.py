"""Save and load `ExtremeClassifier`."""

from __future__ import annotations

import os
from functools import partial
from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from sparsenet import storage
from sparsenet.core.validation import boolean
from sparsenet.engines.network import network_arrays
from sparsenet.engines.network.fit_network import FittedNetwork
from sparsenet.estimators.transaction import adopt_features, feature_names
from sparsenet.kernels.types import Arrays
from sparsenet.storage.parts import nothing_believed


class SavingMixin:
    """The methods `save` and `load` of `ExtremeClassifier`."""

    _fitted: FittedNetwork

    def save(self: Any, path: str | os.PathLike[str], *, compact: bool = False) -> None:
        """Save to a directory atomically: arrays as safetensors, and a manifest with checksums.

        Predictions after `load` are equal bit for bit. With `compact`, weights take 8 and 16 bits: a quarter of the
        space for dense ones, half for sparse ones. Optimizer state is not saved; a RandomState becomes None.
        """
        check_is_fitted(self)
        parameters, names, small = self.get_params(deep=False), feature_names(self), boolean("compact", compact)
        packed = network_arrays.pack(self._fitted, parameters, self.n_features_in_, feature_names=names, small=small)
        storage.save(path, *packed)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load a saved model; raises ModelError if it is damaged or of another kind."""
        model: Self = storage.load_as(path, partial(unpack, cls))
        return model


def unpack(cls: Any, arrays: Arrays, metadata: dict[str, Any]) -> Any:
    """Return the classifier of a saved model; raises ModelError if its parts contradict each other."""
    with nothing_believed():
        parameters, names, fitted = network_arrays.unpack(arrays, metadata)
        model = adopt_features(cls(**parameters), metadata["n_features"], names)
        return model._adopt(fitted)
