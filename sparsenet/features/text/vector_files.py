"""Read tables of word vectors, and find the tokenizer that belongs to one."""

from __future__ import annotations

import errno
import json
import math
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.machine import available_memory
from sparsenet.core.memory import in_words
from sparsenet.core.progress import parts_done
from sparsenet.data.errors import DataError, quoted
from sparsenet.data.lines import Line, skip_blank, text_lines
from sparsenet.data.numpy_files import mapped_array
from sparsenet.data.sources import open_source
from sparsenet.features.text.tokenizing import HubTokenizer, TextTokenizer, WordListTokenizer
from sparsenet.kernels.types import F32
from sparsenet.storage.format import DTYPES

TABLES = (".safetensors", ".npy")
#: Files next to a table that may hold its tokenizer; the first that exists is used.
TOKENIZERS = ("tokenizer.json", "vocab.txt", "words.txt")
#: The upper half of a float of 32 bits, which NumPy has no type for.
BFLOAT16 = "BF16"


class TableFiles(NamedTuple):
    """The file of a table and the file of its tokenizer."""

    table: Path
    tokenizer: Path


class ShippedFiles(NamedTuple):
    """Where a package keeps its table and its tokenizer: patterns of files."""

    table: str
    tokenizer: str


#: Packages that ship a table, by the name that `vectors` takes.
PACKAGES = {"wordllama": ShippedFiles("weights/*.safetensors", "tokenizers/*.json")}


def read_vectors(
    path: str | os.PathLike[str], tokenizer: str | os.PathLike[str] | None = None, tensor: str | None = None
) -> tuple[NDArray[Any], TextTokenizer, str]:
    """Return a table, its tokenizer, and the name of their source; `WordVectors.read` documents the parameters."""
    place = Path(os.fspath(path))
    if str(path) in PACKAGES and not place.exists():
        files = _of_package(str(path))
    elif not place.exists():
        problem = f"is no file or directory, and no package that ships vectors ({', '.join(PACKAGES)})"
        raise FileNotFoundError(errno.ENOENT, problem, str(path))
    elif place.is_file() and place.suffix not in TABLES:
        if tokenizer is not None or tensor is not None:
            raise ValueError(
                f"{path}: tokenizer and tensor are for {' and '.join(TABLES)} files: lines start with words"
            )
        return *_read_lines(place), str(path)
    else:
        table = _only_table(place) if place.is_dir() else place
        files = TableFiles(table, _beside(table) if tokenizer is None else Path(os.fspath(tokenizer)))
    return _read_table(files.table, tensor), _read_tokenizer(files.tokenizer), str(path)


def _of_package(name: str) -> TableFiles:
    """Find the files of an installed package, without importing it, which would import all that it needs."""
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"vectors={name!r} needs the package {name}: pip install 'sparsenet[vectors]'", name=name)
    folder, shipped = Path(spec.submodule_search_locations[0]), PACKAGES[name]
    found = [sorted(folder.glob(pattern)) for pattern in shipped]
    for pattern, files in zip(shipped, found, strict=True):
        if len(files) != 1:
            problem = f"there should be one file {pattern} in the package, found {len(files)}"
            raise DataError(str(folder), None, f"{problem}: install the release that sparsenet[vectors] names")
    return TableFiles(found[0][0], found[1][0])


def _only_table(folder: Path) -> Path:
    found = sorted(file for file in folder.iterdir() if file.suffix in TABLES)
    if len(found) != 1:
        names = ": " + ", ".join(file.name for file in found) if found else ""
        problem = f"a directory of vectors must hold one {' or '.join(TABLES)} file, found {len(found)}{names}"
        raise DataError(str(folder), None, f"{problem}; name the file itself")
    return found[0]


def _beside(table: Path) -> Path:
    found = next((table.with_name(name) for name in TOKENIZERS if table.with_name(name).is_file()), None)
    if found is None:
        advice = "or name the file with WordVectors.read(path, tokenizer=...)"
        raise DataError(str(table), None, f"there is no tokenizer next to it: add {' or '.join(TOKENIZERS)}, {advice}")
    return found


def _read_tokenizer(path: Path) -> TextTokenizer:
    if path.suffix == ".json":
        try:
            return HubTokenizer(path.read_text("utf-8"), str(path))
        except UnicodeDecodeError as error:
            raise DataError(str(path), None, f"it is not UTF-8: {error}") from None
    with open_source(str(path)) as source:
        return WordListTokenizer([line.text.strip() for line in text_lines(source)], str(path))


def _read_table(path: Path, tensor: str | None) -> NDArray[Any]:
    """Return the table of a file, mapped into memory."""
    if path.suffix == ".safetensors":
        return _read_tensor(path, tensor)
    if path.suffix != ".npy":
        raise DataError(str(path), None, f"the file of a table must end in {' or '.join(TABLES)}")
    return np.asarray(mapped_array(path))


def _read_tensor(path: Path, name: str | None) -> NDArray[Any]:
    """Return a tensor of a safetensors file, by default the only one with two dimensions."""
    start, header = _header(path)
    tables = [own for own, about in header.items() if len(about["shape"]) == 2]
    if name is None and len(tables) == 1:
        name = tables[0]
    if name is None or name not in header:
        listed = ", ".join(f"{own} {tuple(about['shape'])}" for own, about in header.items())
        asked = "choose one with two dimensions by WordVectors.read(path, tensor=...)"
        raise DataError(str(path), None, f"which tensor is the table? It holds {listed or 'none'}; {asked}")
    about = header[name]
    kind, (begin, end) = about["dtype"], about["data_offsets"]
    dtype = np.dtype("<u2") if kind == BFLOAT16 else DTYPES.get(kind)
    if dtype is None or end - begin != dtype.itemsize * math.prod(about["shape"]) or start + end > path.stat().st_size:
        raise DataError(str(path), None, f"the tensor {name!r} has an unknown type {kind!r} or a wrong size")
    raw = np.memmap(path, dtype, "r", start + begin, tuple(about["shape"]))
    if kind == BFLOAT16:
        _check_memory(path, f"its {len(raw):,}", raw.size, raw.shape[1], available_memory())
        return (raw.astype(np.uint32) << 16).view(np.float32)
    return np.asarray(raw)


def _header(path: Path, *, max_bytes: int = 1 << 26) -> tuple[int, dict[str, Any]]:
    """Return where the data of a safetensors file start, and the description of each tensor.

    A header of more than `max_bytes` is damage.
    """
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        raw = file.read(size) if size <= max_bytes else b""
    try:
        header = json.loads(raw)
        header.pop("__metadata__", None)
        for about in header.values():
            numbers = [*about["shape"], *about["data_offsets"]]
            if not isinstance(about["dtype"], str) or not all(type(n) is int and n >= 0 for n in numbers):
                raise ValueError("sizes must be whole numbers")
            _begin, _end = about["data_offsets"]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(str(path), None, f"it is no safetensors file, or it is damaged: {error}") from None
    return 8 + size, header


def _check_memory(path: Path, vectors: str, n_numbers: int, dim: int, limit: int) -> None:
    """Refuse a table in single precision that does not fit into memory together with its copy."""
    if (needed := 8 * n_numbers) > limit:
        take = f"{vectors} vectors of {dim} numbers take {in_words(needed)}, and there are {in_words(limit)}"
        raise MemoryError(f"{path}: {take} of memory: keep the most frequent words, or use a .npy file in float16")


def _read_lines(path: Path) -> tuple[F32, TextTokenizer]:
    """Read a text file with a word and its numbers on each line; a first line of two sizes is skipped."""
    words: list[str] = []
    rows: list[F32] = []
    dim, size, limit = 0, path.stat().st_size, available_memory()
    with parts_done(size, f"reading {path.name}", None) as on_bytes, open_source(str(path), on_bytes) as source:
        for line in skip_blank(text_lines(source), None):
            fields = line.text.rstrip().split(" ")
            if not rows and dim == 0 and len(fields) == 2 and all(field.isdigit() for field in fields):
                continue
            dim = dim or len(fields) - 1
            words.append(" ".join(fields[:-dim]) if dim else "")
            rows.append(_numbers(path, line, fields[-dim:], dim))
            _check_memory(path, f"its first {len(rows):,}", len(rows) * dim, dim, limit)
    if not rows:
        raise DataError(str(path), None, "it holds no vectors: each line must have a word and its numbers")
    try:
        return np.stack(rows), WordListTokenizer(words, str(path))
    except ValueError as error:
        raise DataError(str(path), None, str(error)) from None


def _numbers(path: Path, line: Line, fields: list[str], dim: int) -> F32:
    try:
        found = np.array(fields, np.float32) if dim and len(fields) == dim else None
    except ValueError:
        found = None
    if found is None or not line.text.strip() or line.text.startswith(" "):
        wanted = f"a word and {dim} numbers" if dim else "a word and its numbers"
        raise DataError(
            str(path), line.number, f"expected {wanted}, separated by single blanks, got {quoted(line.text)}"
        )
    return found
