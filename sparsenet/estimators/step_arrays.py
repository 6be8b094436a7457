"""Pack transformers of scikit-learn and ours into arrays and JSON, and back: no pickle, no class but the ones here."""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import InconsistentVersionWarning

from sparsenet.features.text.featuriser import FeatureRules
from sparsenet.features.text.vocabulary import Vocabulary
from sparsenet.kernels.types import Arrays
from sparsenet.storage.format import ModelError
from sparsenet.storage.strings import pack_strings, unpack_strings

#: The transformers that can be saved, by module: their attributes are numbers, strings, arrays and each other.
TRANSFORMERS = {
    "sklearn.feature_extraction.text": ("CountVectorizer", "HashingVectorizer", "TfidfTransformer", "TfidfVectorizer"),
    "sklearn.feature_extraction": ("DictVectorizer", "FeatureHasher"),
    "sklearn.preprocessing": (
        "Binarizer",
        "FunctionTransformer",
        "MaxAbsScaler",
        "MinMaxScaler",
        "Normalizer",
        "OneHotEncoder",
        "OrdinalEncoder",
        "RobustScaler",
        "StandardScaler",
    ),
    "sklearn.impute": ("MissingIndicator", "SimpleImputer"),
    "sklearn.decomposition": ("PCA", "TruncatedSVD"),
    "sklearn.feature_selection": ("VarianceThreshold",),
    "sklearn.pipeline": ("FeatureUnion", "Pipeline"),
    "sklearn.compose": ("ColumnTransformer",),
    "sparsenet.features.text.text_features": ("TextFeatures",),
}
_MODULES = {name: module for module, names in TRANSFORMERS.items() for name in names}
#: With other values of these attributes, a loaded step would open files: files that the data name, or a cache of
#: pickles.
_WITHOUT_FILES = {"input": "content", "memory": None}
#: Attributes that mean nothing in another process.
_LEFT_OUT = {"_stop_words_id", "_sklearn_output_config", "_metadata_request"}
_TYPES = {"bool": bool, "int": int, "float": float, "str": str, "object": object}
_ATTRIBUTE = re.compile(r"[a-z_][a-z0-9_]*", re.IGNORECASE)


def pack_step(step: str, transformer: Any) -> tuple[Arrays, Any]:
    """Return the arrays and JSON of a transformer; an error names the `step` and what cannot be saved."""
    arrays: Arrays = {}
    return arrays, _Packer(step, arrays).pack(type(transformer).__name__, transformer)


def unpack_step(arrays: Arrays, packed: Any, version: str) -> Any:
    """Return the transformer that `pack_step` packed by a `version` of scikit-learn."""
    found = _Unpacker(arrays).unpack(packed)
    if version != sklearn.__version__ and isinstance(found, BaseEstimator):
        warning = InconsistentVersionWarning(
            estimator_name=type(found).__name__,
            current_sklearn_version=sklearn.__version__,
            original_sklearn_version=version,
        )
        warnings.warn(warning, stacklevel=2)
    return found


def as_csr(matrix: Any) -> Any:
    """Return a sparse matrix of any format as CSR."""
    return sparse.csr_array(matrix)


class _Packer:
    def __init__(self, step: str, arrays: Arrays) -> None:
        self.step, self.arrays = step, arrays

    def pack(self, where: str, value: Any) -> Any:
        """Return a value as JSON that names arrays."""
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, int) and abs(value) < 2**53:
            return value
        if isinstance(value, float):
            return value if np.isfinite(value) else {"float": repr(value)}
        if isinstance(value, np.generic) and not isinstance(value, np.void | np.datetime64 | np.timedelta64):
            return {"scalar": {"value": self.pack(where, value.item()), "dtype": value.dtype.str}}
        if isinstance(value, np.ndarray):
            return self._array(where, value)
        if sparse.issparse(value):
            csr = as_csr(value)
            parts = {name: self._array(f"{where}.{name}", getattr(csr, name)) for name in ("data", "indices", "indptr")}
            return {"csr": {**parts, "shape": list(csr.shape)}}
        if isinstance(value, list | tuple):
            return {type(value).__name__: self._items(where, list(value))}
        if isinstance(value, Mapping):
            return {"dict": [self._items(f"{where} keys", list(value)), self._items(where, list(value.values()))]}
        if isinstance(value, slice):
            return {"slice": [self.pack(where, part) for part in (value.start, value.stop, value.step)]}
        if isinstance(value, type) and _TYPES.get(value.__name__) is value:
            return {"type": value.__name__}
        if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
            return {"np.dtype" if isinstance(value, np.dtype) else "np.type": np.dtype(value).str}
        if isinstance(value, BaseEstimator):
            return self._estimator(value)
        if isinstance(value, Vocabulary):
            arrays = [self._keep(f"{where}.{name}", getattr(value, name)) for name in ("slots", "weights")]
            return {"vocabulary": {"arrays": arrays, "rules": asdict(value.rules)}}
        raise self._error(f"{where} is {value!r}")

    def _error(self, problem: str) -> ValueError:
        return ValueError(
            f"step {self.step!r} cannot be saved without pickle: {problem}. Save the classifier alone, "
            "pipeline[-1].save(path), and make the features as before"
        )

    def _estimator(self, value: BaseEstimator) -> Any:
        name = type(value).__name__
        if not f"{type(value).__module__}.".startswith(f"{_MODULES.get(name, 'unknown')}."):
            known = ", ".join(sorted(_MODULES))
            raise self._error(f"{name} is not one of {known}")
        state = {key: item for key, item in sorted(vars(value).items()) if key not in _LEFT_OUT}
        for key, only in _WITHOUT_FILES.items():
            if state.get(key, only) != only:
                raise self._error(
                    f"{name}.{key} is {state[key]!r}, and a saved step opens no files: set it to {only!r}"
                )
        packed = {key: self.pack(f"{name}.{key}", item) for key, item in state.items()}
        return {"estimator": {"name": name, "state": packed}}

    def _items(self, where: str, items: list[Any], *, max_items: int = 64) -> Any:
        """Return more than `max_items` strings or integers as arrays, other items one by one."""
        if len(items) > max_items:
            if all(type(item) is str for item in items):
                return self._strings(where, items)
            if all(type(item) is int and abs(item) < 2**63 for item in items):
                return {"ints": self._keep(where, np.array(items, np.int64))}
        return [self.pack(where, item) for item in items]

    def _array(self, where: str, value: np.ndarray[Any, Any]) -> Any:
        if value.dtype.kind in "biuf":
            return {"array": self._keep(where, value)}
        if value.dtype.kind == "U":
            return {"text": {"items": self._strings(where, value.ravel().tolist()), "shape": list(value.shape)}}
        if value.dtype.kind == "O":
            return {"objects": {"items": self._items(where, value.ravel().tolist()), "shape": list(value.shape)}}
        raise self._error(f"{where} is an array of {value.dtype}")

    def _strings(self, where: str, items: list[str]) -> Any:
        name = f"{len(self.arrays)}"
        try:
            self.arrays.update(pack_strings(items, name))
        except ValueError as error:
            raise self._error(f"{where}: {error}") from None
        return {"strings": name}

    def _keep(self, where: str, value: np.ndarray[Any, Any]) -> str:
        name = f"{len(self.arrays)}.{where}"
        self.arrays[name] = value
        return name


class _Unpacker:
    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays

    def unpack(self, packed: Any) -> Any:
        """Return the value that `_Packer.pack` packed."""
        if not isinstance(packed, dict):
            if packed is None or isinstance(packed, bool | int | float | str):
                return packed
            raise ModelError(f"a step holds {packed!r}")
        ((kind, value),) = packed.items()
        match kind:
            case "float":
                return float(value)
            case "scalar":
                if np.dtype(value["dtype"]).kind not in "biufU":  # a void of n would take n bytes
                    raise ModelError(f"a step holds a number of the type {value['dtype']!r}")
                return np.dtype(value["dtype"]).type(self.unpack(value["value"]))
            case "array":
                return self.arrays[value]
            case "text":
                return np.array(self._items(value["items"]), str).reshape(value["shape"])
            case "objects":
                found = np.empty(len(items := self._items(value["items"])), object)
                found[:] = items
                return found.reshape(value["shape"])
            case "csr":
                parts = tuple(self.unpack(value[name]) for name in ("data", "indices", "indptr"))
                csr = sparse.csr_array(parts, shape=tuple(value["shape"]))
                csr.check_format(full_check=True)  # SciPy's products do not check ids
                return csr
            case "list":
                return self._items(value)
            case "tuple":
                return tuple(self._items(value))
            case "dict":
                return dict(zip(self._items(value[0]), self._items(value[1]), strict=True))
            case "slice":
                return slice(*map(self.unpack, value))
            case "type":
                return _TYPES[value]
            case "np.dtype":
                return np.dtype(value)
            case "np.type":
                return np.dtype(value).type
            case "vocabulary":
                return _vocabulary(FeatureRules(**value["rules"]), *(self.arrays[name] for name in value["arrays"]))
            case "estimator":
                return self._estimator(value["name"], value["state"])
        raise ModelError(f"a step holds a value of the unknown kind {kind!r}")

    def _items(self, packed: Any) -> list[Any]:
        if isinstance(packed, dict) and "strings" in packed:
            return unpack_strings(self.arrays, packed["strings"])
        if isinstance(packed, dict):
            return [int(item) for item in self.arrays[packed["ints"]]]
        return [self.unpack(item) for item in packed]

    def _estimator(self, name: str, state: Mapping[str, Any]) -> Any:
        if name not in _MODULES:
            raise ModelError(f"a step is a {name}, not one of {', '.join(sorted(_MODULES))}")
        kind = getattr(importlib.import_module(_MODULES[name]), name)
        model = kind.__new__(kind)
        for key, item in state.items():
            if not _ATTRIBUTE.fullmatch(key) or callable(getattr(kind, key, None)) or key.startswith("__"):
                raise ModelError(f"a step holds the attribute {key!r}, which {name} cannot have")
            vars(model)[key] = self.unpack(item)
            if key in _WITHOUT_FILES and item != _WITHOUT_FILES[key]:
                raise ModelError(f"the step {name} would open files: its {key} is {item!r}")
        places = vars(model).get("vocabulary_")  # ids of sparse matrices, which nothing checks later
        if isinstance(places, dict) and sorted(places.values()) != list(range(len(places))):
            raise ModelError(f"the vocabulary of the step {name} must number its words from 0")
        missing = set(kind._get_param_names()) - vars(model).keys()
        if missing:
            raise ModelError(f"the step {name} has no {', '.join(sorted(missing))}")
        return model


def _vocabulary(rules: FeatureRules, slots: Any, weights: Any) -> Vocabulary:
    """Check the arrays of a vocabulary, which kernels do not check again."""
    fits = slots.ndim == 1 and slots.shape == weights.shape and len(slots) > 0
    if not fits or slots.dtype != np.int32 or weights.dtype != np.float32 or not np.isfinite(weights).all():
        raise ModelError("the features of texts must be slots in int32 and finite weights in float32, one for each")
    if slots[0] < 0 or slots[-1] >= 1 << rules.bits or np.any(slots[1:] <= slots[:-1]):
        raise ModelError(f"the slots of the features of texts must ascend from 0 to below 2**{rules.bits}")
    return Vocabulary(rules, slots, weights)
