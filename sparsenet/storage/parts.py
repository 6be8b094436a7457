"""Checks and names for the parts of a saved model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sparsenet.kernels.types import Arrays
from sparsenet.storage.format import ModelError

#: The error for a checkpoint in place of a model.
NO_MODEL = (
    "this is a checkpoint, not a model: fit(checkpoint=..., resume=True) with the same data and settings continues it"
)


def is_state(metadata: Mapping[str, Any]) -> bool:
    """Return whether the metadata belong to a checkpoint instead of a model."""
    return "model" not in metadata and "run" in metadata


def check_kind(metadata: Mapping[str, Any], kind: str) -> None:
    """Reject saved models of another kind."""
    if is_state(metadata):
        raise ModelError(NO_MODEL)
    if (found := metadata.get("model")) != kind:
        raise ModelError(f"this is a model of the kind {found!r}, not {kind}: sparsenet.load takes any kind")


@contextmanager
def model_errors() -> Iterator[None]:
    """Turn any error in the parts of a saved model into a ModelError."""
    try:
        yield
    except ModelError:
        raise
    except MemoryError as error:
        raise ModelError(f"loading the model takes more memory than there is: {error}") from error
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ModelError(f"the model is not one that this version can use: {error!r}; train it again") from error


def pack_part(name: str, arrays: Arrays) -> Arrays:
    """Return the arrays of a part of a model, named with the prefix of the part."""
    return {f"{name}.{own}": array for own, array in arrays.items()}


def unpack_part(name: str, arrays: Arrays) -> Arrays:
    """Return the arrays of a part under their own names."""
    return {of.removeprefix(f"{name}."): array for of, array in arrays.items() if of.startswith(f"{name}.")}
