"""Save and load the classifiers of points."""

from __future__ import annotations

import os
from collections.abc import Container
from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from sparsenet import storage
from sparsenet.core.validation import boolean
from sparsenet.engines.network.parameters import pack_parameters, unpack_parameters
from sparsenet.estimators.transaction import feature_names, with_features
from sparsenet.features.feature_arrays import Header
from sparsenet.kernels.types import Arrays


class SavingMixin:
    """The methods `save` and `load`, on top of `_pack` and `_unpack`."""

    def save(self, path: str | os.PathLike[str], *, compact: bool = False) -> None:
        """Save to a directory atomically: arrays as safetensors, and a manifest with checksums.

        Predictions after `load` are equal bit for bit, unless `compact`: weights of networks are then rounded to 8
        bits, a quarter of the space or less. Trees and blends have 8 bits in any case. Optimizer state is not saved,
        nor are the training points of a blend with ``n_neighbors=0``; a RandomState becomes None.
        """
        check_is_fitted(self)
        storage.save(path, *self._pack(small=boolean("compact", compact)))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load a saved model; raise ModelError with the reason if it is damaged or of another kind."""
        return storage.load_as(path, cls._unpack)

    def _pack(self, *, small: bool) -> tuple[Arrays, dict[str, Any]]:
        """Return the arrays and JSON of the model; if `small`, of a nearly equal one in fewer bits."""
        raise NotImplementedError

    @classmethod
    def _unpack(cls, arrays: Arrays, metadata: dict[str, Any]) -> Self:
        """Return the model that `_pack` packed."""
        raise NotImplementedError

    def _header(self: Any, *, but: Container[str] = (), **changed: Any) -> Header:
        """Return the parameters to save, without some, and with some `changed`, and the features."""
        parameters = pack_parameters({**self.get_params(deep=False), **changed}, but=but)
        return Header(parameters, self.n_features_in_, feature_names(self))

    @classmethod
    def _of_header(cls, header: Header, **parts: Any) -> Any:
        """Return an untrained classifier with the parameters and features of a saved one."""
        model = cls(**unpack_parameters(header.parameters), **parts)
        return with_features(model, header.n_features, header.feature_names)
