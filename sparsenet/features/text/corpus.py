"""Labelled texts as features and label numbers: from memory, or from a file that is read batch by batch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet import kernels
from sparsenet.core.memory import arrays_of, bytes_in_memory
from sparsenet.core.rows import Rows
from sparsenet.core.spilling import Spill
from sparsenet.data import DataError
from sparsenet.features.targets import Target
from sparsenet.features.text.feature_options import FeatureOptions
from sparsenet.features.text.featuriser import FeatureRules, Joined, TextRows, extract, extract_batches
from sparsenet.features.text.inputs import (
    TextBatch,
    check_any,
    check_labelled,
    check_lengths,
    no_label,
    nothing_to_learn,
)
from sparsenet.features.text.word_vectors import WordVectors
from sparsenet.kernels.types import F32, I32


@dataclass(frozen=True, eq=False)
class Corpus:
    """Labelled texts as features.

    Attributes
    ----------
    target, labels : Target and Rows
        The labels, and the label numbers of each text.
    rules, rows : FeatureRules and TextRows
        The features of the texts, and the rules that made them.
    features : callable, optional
        Reads all texts again and returns their features by other rules. None if the texts came from a pipe.
    vectors : ndarray of shape (n, dim), optional
        The vector of each text.
    """

    target: Target
    labels: Rows
    rules: FeatureRules
    rows: TextRows
    features: Callable[[FeatureRules], TextRows] | None = None
    vectors: F32 | None = None

    @property
    def n_bytes(self) -> int:
        """The bytes of the features and labels, without those in temporary files."""
        arrays: list[NDArray[Any]] = [self.rows.indptr, self.rows.slots, self.rows.counts, *arrays_of(self.labels)]
        return bytes_in_memory(arrays if self.vectors is None else [*arrays, self.vectors])

    def features_by(self, rules: FeatureRules) -> TextRows:
        """Return the features of all texts by some rules, without reading the texts again if these are `rules`."""
        if rules == self.rules:
            return self.rows
        if self.features is None:
            raise ValueError("the texts came from a pipe, which can be read only once")
        return self.features(rules)

    @classmethod
    def of_texts(cls, texts: list[str], y: Any, options: FeatureOptions, threads: int, classes: Any = None) -> Corpus:
        """Extract the features of texts in memory."""
        check_any(texts)
        target, labels = Target.learn(y, classes)
        check_lengths(texts, labels)
        check_labelled(labels)
        text, offsets = kernels.join_texts(texts)

        def features(rules: FeatureRules) -> TextRows:
            return extract(text, offsets, rules, threads)

        rules = options.rules(np.diff(offsets))
        vectors = None if options.vectors is None else options.vectors.vectors_of(texts, threads)
        return cls(target, labels, rules, features(rules), features, vectors)

    @classmethod
    def of_file(
        cls,
        path: str,
        read: Callable[[], Iterator[TextBatch]],
        options: FeatureOptions,
        threads: int,
        memory_limit: int | None = None,
        folder: str | os.PathLike[str] | None = None,
    ) -> Corpus:
        """Extract the features of the texts of a file; each call of `read` yields all batches again.

        Large arrays are in files of `folder`, by default the one that TMPDIR names.
        """
        spill, names, view = Spill.within(memory_limit, folder), _LabelNames(), options.vectors
        vectors = spill.growing(np.float32)

        def labelled() -> Iterator[Joined]:
            for batch in read():
                names.add(batch)
                if view is not None:
                    vectors.append(view.vectors_of(batch.texts, threads).reshape(-1))
                yield kernels.join_texts(batch.texts)

        # Hold batches back until their total length decides the rules.
        first: list[Joined] = []
        lengths, batches = np.empty(0, np.int64), labelled()
        for joined in batches:
            first.append(joined)
            lengths = np.concatenate((lengths, np.diff(joined[1])))
            if options.are_decided(lengths):
                break
        rules = options.rules(lengths)
        held = (first.pop(0) for _ in range(len(first)))  # releases each
        rows = extract_batches(chain(held, batches), rules, threads, spill)

        target, labels = names.learnt(path)

        def features(other: FeatureRules) -> TextRows:
            return features_again(path, read, other, threads, spill, len(labels))

        again = features if path != "-" and os.path.isfile(path) else None
        dense = None if view is None else vectors.joined().reshape(-1, view.dim)
        return cls(target, labels, rules, rows, again, dense)

    @classmethod
    def of_more(
        cls,
        texts: list[str],
        y: Any,
        known: Target,
        rules: FeatureRules,
        threads: int,
        classes: Any = None,
        vectors: WordVectors | None = None,
    ) -> Corpus:
        """Extract the features of further texts for a model that knows some labels; new ones join them."""
        target, labels = grown_target(known, y, classes)
        check_lengths(texts, labels)
        dense = None if vectors is None else vectors.vectors_of(texts, threads)
        return cls(target, labels, rules, extract(*kernels.join_texts(texts), rules, threads), vectors=dense)


def features_again(
    path: str, read: Callable[[], Iterator[TextBatch]], rules: FeatureRules, threads: int, spill: Spill, n_texts: int
) -> TextRows:
    """Extract the features of a file that held `n_texts` by other rules."""
    again = extract_batches((kernels.join_texts(batch.texts) for batch in read()), rules, threads, spill)
    if len(again) != n_texts:
        problem = f"held {n_texts} texts when it was read first, and {len(again)} later"
        raise DataError(path, None, f"{problem}: it must stay as it is until training ends")
    return again


def grown_target(target: Target, y: Any, classes: Any = None) -> tuple[Target, Rows]:
    """Add the labels of y and of `classes` to a target; also return y as label numbers."""
    own, _ = Target.learn(y, before=target.kind)
    if own.kind != target.kind:
        raise ValueError(f"y must be of the kind {target.kind!r} as it was before, got the kind {own.kind!r}")
    if target.kind in ("dense", "sparse"):
        return target, target.encode(y, classes=classes)
    known = _with_labels(target.classes, own.classes, "y")
    if classes is not None:
        known = _with_labels(known, Target.learn(classes)[0].classes, "classes")
    new = replace(target, classes=known, dtype=known.dtype)
    return new, new.encode(y)


def _with_labels(known: NDArray[Any], more: NDArray[Any], name: str) -> NDArray[Any]:
    """Merge labels in ascending order, in a dtype that holds all of them."""
    if len(more) == 0:
        return known
    if (more.dtype.kind in "OU") != (known.dtype.kind in "OU"):
        (new,), (old,) = more[:1].tolist(), known[:1].tolist()
        raise ValueError(f"{name} holds labels such as {new!r}, the model knows such as {old!r}: use one type for all")
    dtype = np.result_type(known, more)
    if dtype.kind == "f" and "f" not in (known.dtype.kind, more.dtype.kind):  # float64 would round some of 64 bits
        raise ValueError(f"{name} holds {more.dtype} labels, the model knows {known.dtype}: use one type for all")
    return np.array(sorted({*known.tolist(), *more.tolist()}), dtype=dtype)


class _LabelNames:
    """Collects the labels of batches as numbers, in order of appearance."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._found: list[I32] = []
        self._lengths: list[I32] = []
        self._unlabelled: tuple[int, int | None] | None = None  # row and line of the first text without a label
        self._n_texts = 0

    def add(self, batch: TextBatch) -> None:
        numbers, labels = self._numbers, batch.labels
        if self._unlabelled is None and [] in labels:
            row = labels.index([])
            self._unlabelled = self._n_texts + row, batch.lines[row]
        self._n_texts += len(labels)
        flat = [numbers.setdefault(label, len(numbers)) for label in chain.from_iterable(labels)]
        self._found.append(np.array(flat, np.int32))
        self._lengths.append(np.fromiter(map(len, labels), np.int32, len(labels)))

    def learnt(self, path: str) -> tuple[Target, Rows]:
        """Return the target and label numbers that `Target.learn` would make of all labels.

        If no text has two labels, every text must have one.
        """
        if not self._numbers:
            raise nothing_to_learn(path, self._n_texts)
        names = sorted(self._numbers)
        place = np.empty(len(names), np.int32)
        place[[self._numbers[name] for name in names]] = np.arange(len(names))
        lengths = np.concatenate([np.empty(0, np.int32), *self._lengths])
        if self._unlabelled is not None and lengths.max() == 1:
            raise no_label(path, *self._unlabelled)
        found = place[np.concatenate([np.empty(0, np.int32), *self._found])]
        classes = np.array(names, dtype=object)
        target = Target("single" if (lengths == 1).all() else "lists", classes, classes.dtype)
        return target, target.rows(found, np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64))))
