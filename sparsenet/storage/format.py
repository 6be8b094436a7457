"""Encode and decode the files of a saved model, without any input or output."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

FORMAT = "sparsenet-model"
VERSION = 1
MANIFEST = "manifest.json"
# The size and depth of a manifest are bounded, so that a hostile one cannot exhaust memory or stack.
MAX_MANIFEST_BYTES = 4 << 20
MAX_DEPTH = 32
MAX_DIMENSIONS = 32

# The types that a model may hold, by their names in safetensors.
DTYPES = {
    "BOOL": np.dtype("?"),
    "U8": np.dtype("u1"),
    "I8": np.dtype("i1"),
    "U16": np.dtype("<u2"),
    "I16": np.dtype("<i2"),
    "F16": np.dtype("<f2"),
    "U32": np.dtype("<u4"),
    "I32": np.dtype("<i4"),
    "F32": np.dtype("<f4"),
    "U64": np.dtype("<u8"),
    "I64": np.dtype("<i8"),
    "F64": np.dtype("<f8"),
}
_CODES = {dtype: code for code, dtype in DTYPES.items()}
_ARRAY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_TAIL = re.compile(rb',\n  "sha256": "([0-9a-f]{64})"\n}\n')
_TAIL_BYTES = len(',\n  "sha256": ""\n}\n') + 64
DAMAGED = "the file is damaged or was edited; restore it from a copy or train again"


class ModelError(ValueError):
    """The path holds no model, a damaged one, or one of a newer version of sparsenet.

    Examples
    --------
    >>> from sparsenet import ExtremeClassifier, ModelError
    >>> try:
    ...     ExtremeClassifier.load("/nowhere")
    ... except ModelError as error:
    ...     print(error)
    /nowhere: does not exist; a sparsenet model is a directory with manifest.json
    """


class CheckpointError(ValueError):
    """Raised if a checkpoint is damaged, or belongs to another run.

    Examples
    --------
    >>> from sparsenet import CheckpointError
    >>> issubclass(CheckpointError, ValueError)
    True
    """


@dataclass(frozen=True)
class ArraySpec:
    """The type (little-endian) and shape of an array on disk."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def n_bytes(self) -> int:
        """Return the bytes of all elements; Python integers do not overflow."""
        return self.dtype.itemsize * math.prod(self.shape)


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The content of a manifest, without the constants of the format."""

    sha256: str  # of the data file
    arrays: Mapping[str, ArraySpec]
    metadata: Mapping[str, Any]

    @property
    def data_file(self) -> str:
        """Return the name of the data file, which contains the start of its checksum."""
        return f"arrays-{self.sha256[:16]}.safetensors"

    @property
    def data_bytes(self) -> int:
        """Return the size that the data file must have."""
        return len(header_bytes(self.arrays)) + sum(spec.n_bytes for spec in self.arrays.values())


def array_spec(name: str, array: NDArray[Any]) -> ArraySpec:
    """Describe an array; raise ValueError if it cannot be saved."""
    if not isinstance(name, str) or not _ARRAY_NAME.fullmatch(name):
        raise ValueError(f"an array's name must consist of letters, digits, '.', '_' and '-', got {name!r}")
    if not isinstance(array, np.ndarray):
        raise ValueError(f"arrays[{name!r}] must be a NumPy array, got {type(array).__name__}")
    dtype = array.dtype.newbyteorder("<")
    if dtype not in _CODES:
        raise ValueError(f"arrays[{name!r}] has dtype {array.dtype}; a model holds booleans, integers and floats")
    if array.ndim > MAX_DIMENSIONS:
        raise ValueError(f"arrays[{name!r}] has {array.ndim} dimensions; at most {MAX_DIMENSIONS} can be saved")
    return ArraySpec(dtype, array.shape)


def in_file_order(arrays: Mapping[str, ArraySpec]) -> list[str]:
    """Order the names by decreasing element size, so that each array is aligned."""
    return sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))


def header_bytes(arrays: Mapping[str, ArraySpec]) -> bytes:
    """Return the start of a safetensors file of these arrays: the length of its header, and the header."""
    entries, end = {}, 0
    for name in in_file_order(arrays):
        start, end = end, end + arrays[name].n_bytes
        entries[name] = {**_describe(arrays[name]), "data_offsets": [start, end]}
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def manifest_bytes(manifest: Manifest) -> bytes:
    """Encode a manifest as canonical JSON, followed by its own checksum; equal models give equal bytes."""
    check_json(manifest.metadata)
    content = {
        "format": FORMAT,
        "version": VERSION,
        "data": {"file": manifest.data_file, "bytes": manifest.data_bytes, "sha256": manifest.sha256},
        "arrays": {name: _describe(spec) for name, spec in manifest.arrays.items()},
        "metadata": manifest.metadata,
    }
    body = json.dumps(content, indent=2, sort_keys=True, allow_nan=False).encode().removesuffix(b"\n}")
    raw = body + b',\n  "sha256": "%s"\n}\n' % hashlib.sha256(body).hexdigest().encode()
    if len(raw) > MAX_MANIFEST_BYTES:
        raise ValueError(
            f"metadata and names of arrays take {len(raw)} bytes; at most {MAX_MANIFEST_BYTES} fit. "
            "Save large data as arrays, strings with pack_strings"
        )
    return raw


def size(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any]) -> int:
    """Return the total bytes of the files that `sparsenet.storage.save` would write, without writing any."""
    specs = {name: array_spec(name, array) for name, array in arrays.items()}
    draft = Manifest(sha256="0" * 64, arrays=specs, metadata=dict(metadata))
    return draft.data_bytes + len(manifest_bytes(draft))


def parse_manifest(raw: bytes, path: Path) -> Manifest:
    """Decode a manifest, trusting nothing in it; `path` appears in the errors."""
    body, tail = raw[:-_TAIL_BYTES], _TAIL.fullmatch(raw[-_TAIL_BYTES:])
    if tail is None or hashlib.sha256(body).hexdigest().encode() != tail[1]:
        _fail(path, f"its checksum is missing or wrong: it is not a manifest of sparsenet, or {DAMAGED}")
    try:
        content = json.loads(raw, object_pairs_hook=_without_repeats, parse_constant=_refuse_constant)
        check_json(content, "the manifest")
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: not valid: {error}; {DAMAGED}") from error
    _check_version(content, path)
    _require(set(content) == {"format", "version", "data", "arrays", "metadata", "sha256"}, "its fields", path)
    _require(isinstance(content["arrays"], dict), "arrays", path)
    _require(isinstance(content["metadata"], dict), "metadata", path)
    _require(isinstance(content["data"], dict), "data", path)
    digest = content["data"].get("sha256")
    _require(isinstance(digest, str) and _SHA256.fullmatch(digest) is not None, "data.sha256", path)
    specs = {name: _parse_spec(name, item, path) for name, item in content["arrays"].items()}
    manifest = Manifest(sha256=digest, arrays=specs, metadata=content["metadata"])
    # Equality, so that no name in a manifest can lead out of the directory and no size can be false.
    data = {"file": manifest.data_file, "bytes": manifest.data_bytes, "sha256": digest}
    _require(content["data"] == data, "data (its size or name does not agree with the arrays)", path)
    return manifest


def check_json(value: object, where: str = "metadata", depth: int = 0) -> None:
    """Refuse values that JSON would lose or change; the error names the place."""
    if depth > MAX_DEPTH:
        raise ValueError(f"{where[:80]}... is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ValueError(f"{where} has the key {key!r}; the keys of JSON are strings")
            check_json(item, f"{where}.{key}", depth + 1)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            check_json(item, f"{where}[{number}]", depth + 1)
    elif isinstance(value, int):  # bools included
        if not -(2**63) <= value < 2**64:
            raise ValueError(f"{where} is an integer of more than 64 bits")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{where} is {value}, which JSON does not know")
    elif value is not None and not isinstance(value, str):
        raise ValueError(f"{where} is of type {type(value).__name__}; JSON knows dict, list, str, int, float, bool")


def _describe(spec: ArraySpec) -> dict[str, Any]:
    return {"dtype": _CODES[spec.dtype], "shape": list(spec.shape)}


def _parse_spec(name: str, item: object, path: Path) -> ArraySpec:
    where = f"arrays.{name}"
    _require(_ARRAY_NAME.fullmatch(name) is not None, where, path)
    if not isinstance(item, dict) or set(item) != {"dtype", "shape"}:
        _fail(path, f"{where} is not valid; {DAMAGED}")
    dtype, shape = item["dtype"], item["shape"]
    _require(isinstance(dtype, str) and dtype in DTYPES, f"{where}.dtype", path)
    _require(isinstance(shape, list) and len(shape) <= MAX_DIMENSIONS, f"{where}.shape", path)
    _require(all(type(n) is int and n >= 0 for n in shape), f"{where}.shape", path)
    spec = ArraySpec(DTYPES[dtype], tuple(shape))
    # NumPy checks the product of the dimensions above zero, even if another one is zero.
    extent = spec.dtype.itemsize * math.prod(n for n in shape if n)
    _require(extent < 2**63, f"{where}.shape", path)
    return spec


def _check_version(content: object, path: Path) -> None:
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        _fail(path, f'not a manifest of sparsenet: "format" should be "{FORMAT}"')
    version = content.get("version")
    if type(version) is not int or version < 1:
        _fail(path, f"version not valid; {DAMAGED}")
    if version > VERSION:
        _fail(
            path,
            f"written by a newer sparsenet: format {version}, this one reads up to {VERSION}; upgrade it",
        )


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dict from the pairs of a JSON object; raise ValueError if a key is repeated."""
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a key is repeated")
    return content


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _require(condition: bool, what: str, path: Path) -> None:
    if not condition:
        _fail(path, f"{what} not valid; {DAMAGED}")


def _fail(path: Path, what: str) -> NoReturn:
    raise ModelError(f"{path}: {what}")
