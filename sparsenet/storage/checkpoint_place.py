"""Where checkpoints are kept."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sparsenet.storage.directory import metadata, prepare
from sparsenet.storage.format import MANIFEST, ModelError


@dataclass(frozen=True)
class OptionalDirectory(os.PathLike[str]):
    """A default checkpoint directory: if it is not writable, training continues without checkpoints."""

    path: Path

    def __fspath__(self) -> str:
        return os.fspath(self.path)


class CheckpointPlace:
    """A directory for the checkpoints of one run.

    Attributes
    ----------
    path : Path or None
        None if nothing is written. If an `OptionalDirectory` is not writable, training continues without it.
    """

    def __init__(self, place: str | os.PathLike[str] | None) -> None:
        self.path = None if place is None else Path(place)
        self._is_optional = isinstance(place, OptionalDirectory)

    def prepare(self, kind: str | None = None) -> None:
        """Raise now if nothing could be written later."""
        if self.path is not None:
            with self.writing():
                prepare_checkpoint(self.path, kind)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Continue without a checkpoint if an `OptionalDirectory` cannot be written, and warn."""
        try:
            yield
        except OSError as error:
            if not self._is_optional:
                raise
            place, self.path = self.path, None
            problem = error.strerror or str(error)
            warnings.warn(f"training continues without a checkpoint: {place}: {problem}", RuntimeWarning, stacklevel=3)


def prepare_checkpoint(directory: Path, kind: str | None = None) -> None:
    """Check that a directory can be written, and refuse to replace a model; checkpoints there may be of a `kind`."""
    prepare(directory)
    with suppress(ModelError):  # a damaged file may be replaced
        if checkpoint_exists(directory) and (found := metadata(directory).get("model")) not in (None, kind):
            raise FileExistsError(
                f"{directory}: holds a model, {found}, which a checkpoint would replace: name another directory"
            )


def checkpoint_exists(directory: Path) -> bool:
    """Return whether the directory holds a checkpoint; a run killed during its first write leaves none."""
    return (directory / MANIFEST).exists()


def beside(place: str | os.PathLike[str], name: str) -> OptionalDirectory | Path:
    """Return the place of the checkpoint of a part of the model: ``run.tree`` for the tree of ``run``."""
    path = Path(place)
    path = path.with_name(f"{path.name}.{name}")
    return OptionalDirectory(path) if isinstance(place, OptionalDirectory) else path
