"""Keep the features of a file of texts in a folder, for further trainings; learn from a stream of texts."""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from sparsenet import kernels, storage
from sparsenet.core.memory import release_pages
from sparsenet.core.rows import Rows, pointers_of
from sparsenet.core.spilling import Spill
from sparsenet.data import DataError
from sparsenet.data.point_cache import fingerprint, length_of, pair_of
from sparsenet.data.point_file import cache_errors, cache_folder
from sparsenet.features.targets import Target, joined_labels
from sparsenet.features.text.corpus import Corpus, features_again
from sparsenet.features.text.feature_options import FeatureOptions
from sparsenet.features.text.featuriser import FeatureRules, TextRows, extract_batches
from sparsenet.features.text.inputs import TextBatch, check_labelled, check_texts
from sparsenet.features.text.text_files import FileRules
from sparsenet.features.text.word_vectors import WordVectors
from sparsenet.kernels.types import Arrays

#: The arrays of the labels.
LABELS = ("indptr", "indices", "data")
Kept = tuple[Arrays, dict[str, Any]]
T = TypeVar("T")


@dataclass(frozen=True)
class TextCache:
    """Features and labels of a file of texts, for some settings, in directories of a folder.

    Attributes
    ----------
    folder, path : Path and str
        The folder, and the file of texts.
    settings : str
        Whatever the features depend on, besides the file.
    """

    folder: Path
    path: str
    settings: str

    @classmethod
    def of(cls, folder: Any, path: str, file: FileRules, options: FeatureOptions) -> TextCache:
        """Check the folder and the file."""
        if path == "-" or (os.path.exists(path) and not os.path.isfile(path)):
            raise DataError(path, None, "is not a file that can be read again, so it has no cache: leave out cache")
        vectors = None if options.vectors is None else _checksum(options.vectors)
        return cls(cache_folder(folder), path, repr((file, replace(options, vectors=None), vectors)))

    def kept(self, what: str, make: Callable[[], Kept], use: Callable[[Arrays, dict[str, Any]], T]) -> T:
        """Apply `use` to the arrays and metadata of a directory; make them first if it does not exist."""
        source = os.path.realpath(self.path)
        name = hashlib.sha256(repr((source, self.settings, what)).encode()).hexdigest()[:8]
        place = self.folder / f"{Path(self.path).name}-{name}.texts"
        about = {"source": source, **fingerprint(source)}
        if not (place / storage.MANIFEST).exists():
            arrays, own = make()
            with cache_errors(place):
                storage.save(place, arrays, {"about": about, "own": own})
        try:
            arrays, metadata = storage.load_mapped(place)
            known = metadata["about"]
            if known == about:
                return use(arrays, metadata["own"])
        except (LookupError, TypeError, ValueError) as error:  # as of a ModelError
            problem = "the cache of texts is damaged or was cut short: remove it, and it is made again from its source"
            raise DataError(os.fspath(place), None, problem) from error
        problem = f"was changed after its features were stored: remove {place} to store them again"
        raise DataError(self.path, None, problem)


def is_stream(X: Any) -> bool:
    """Return whether X is an iterable of batches of texts."""
    return isinstance(X, Iterator) or (isinstance(X, list | tuple) and len(X) > 0 and isinstance(X[0], tuple))


def streamed_corpus(
    batches: Iterable[Any], folder: Any, options: FeatureOptions, threads: int, memory_limit: int | None = None
) -> Corpus:
    """Extract the features of a stream of pairs (texts, labels). The texts go to a file without a name."""
    place = cache_folder(folder)
    sizes, labels, view = [np.empty(0, np.int64)], [], options.vectors
    within = Spill.within(memory_limit, place)
    with Spill(0, place, "texts").growing(np.uint8) as texts, within.growing(np.float32) as vectors:
        for number, batch in enumerate(batches):
            X, y = pair_of(batch, number)
            own = check_texts(X, f"batch {number}")
            if len(own) != length_of(y):
                raise ValueError(
                    f"batch {number}: X has {len(own)} texts, y has {length_of(y)} entries: one y for each"
                )
            joined, offsets = kernels.join_texts(own)
            texts.append(joined)
            sizes.append(np.diff(offsets))
            if view is not None:
                vectors.append(view.vectors_of(own, threads).reshape(-1))
            labels.append((y.copy() if hasattr(y, "copy") else y) if own else None)
        lengths, text, dense = np.concatenate(sizes), texts.joined(), vectors.joined()
    if not len(lengths):
        raise ValueError("there are no texts: pass an iterable of pairs (texts, labels)")
    target, numbers = Target.learn(joined_labels(labels))
    check_labelled(numbers)
    offsets = pointers_of(lengths)

    def features(rules: FeatureRules) -> TextRows:
        return extract_batches([(text, offsets)], rules, threads, within)

    rules = options.rules(lengths)
    return Corpus(
        target, numbers, rules, features(rules), features, None if view is None else dense.reshape(-1, view.dim)
    )


def cached_corpus(
    cache: TextCache,
    read: Callable[[], Iterator[TextBatch]],
    options: FeatureOptions,
    threads: int,
    memory_limit: int | None = None,
) -> Corpus:
    """Return what `Corpus.of_file` does, from the cache, which it fills if need be."""
    path, folder = cache.path, cache.folder

    def read_first() -> Kept:
        return _packed(Corpus.of_file(path, read, options, threads, memory_limit, folder))

    def features(rules: FeatureRules) -> TextRows:
        def read_again() -> Kept:
            spill = Spill.within(memory_limit, folder)
            return _arrays(features_again(path, read, rules, threads, spill, n_texts)), {}

        return cache.kept(repr(rules), read_again, lambda arrays, _: _rows(arrays, rules))

    corpus = cache.kept("texts", read_first, _unpacked)
    n_texts = len(corpus.labels)
    return replace(corpus, features=features)


def _packed(corpus: Corpus) -> Kept:
    arrays = _arrays(corpus.rows) | storage.pack_strings(corpus.target.classes.tolist(), "classes")
    arrays |= {f"labels.{name}": getattr(corpus.labels, name) for name in LABELS}
    if corpus.vectors is not None:
        arrays["vectors"] = corpus.vectors
    return arrays, {"kind": corpus.target.kind, "rules": vars(corpus.rules)}


def _unpacked(arrays: Arrays, own: dict[str, Any]) -> Corpus:
    classes = np.array(storage.unpack_strings(arrays, "classes"), dtype=object)
    indptr, indices, data = (arrays[f"labels.{name}"] for name in LABELS)
    labels = Rows(indptr, indices, data, len(classes))
    labels.check("labels")
    rules = FeatureRules(**own["rules"])
    rows, vectors = _rows(arrays, rules), arrays.get("vectors")
    fits = vectors is None or (vectors.dtype == np.float32 and vectors.ndim == 2 and len(vectors) == len(rows))
    if own["kind"] not in ("single", "lists") or len(labels) != len(rows) or not fits:
        raise ValueError("its parts do not fit together")
    return Corpus(Target(own["kind"], classes, classes.dtype), labels, rules, rows, vectors=vectors)


def _arrays(rows: TextRows) -> Arrays:
    return {"features.indptr": rows.indptr, "features.slots": rows.slots, "features.counts": rows.counts}


def _rows(arrays: Arrays, rules: FeatureRules) -> TextRows:
    """Return the features; the kernels rely on what is checked here."""
    indptr, slots, counts = (arrays[f"features.{name}"] for name in ("indptr", "slots", "counts"))
    Rows(indptr, slots, np.broadcast_to(np.float32(1), counts.shape), 1 << rules.bits).check("features")
    if counts.dtype != np.uint8 or counts.ndim != 1 or indptr[-1] != len(counts):
        raise ValueError("features.counts must be a byte for each feature")
    release_pages(slots)
    return TextRows(indptr, slots, counts)


def _checksum(vectors: WordVectors) -> int:
    arrays, _ = vectors.to_arrays()
    found = 0
    for name in sorted(arrays):
        found = zlib.crc32(np.ascontiguousarray(arrays[name]).data, found)
    return found
