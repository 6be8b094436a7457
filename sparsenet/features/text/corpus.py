"""Texts to learn from: what is in memory, or in a file that is read piece by piece and never held as a whole."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from sparsenet import kernels
from sparsenet.core.rows import Rows
from sparsenet.data import DataError
from sparsenet.engines.text.text_options import TextSettings
from sparsenet.features.targets import Target
from sparsenet.features.text.featuriser import FeatureRules, Joined, TextRows, extract, extract_batches
from sparsenet.features.text.inputs import Batch, check_labelled, check_lengths, no_label, nothing_to_learn
from sparsenet.features.text.spilling import Spill
from sparsenet.kernels.types import I32


@dataclass(frozen=True, eq=False)
class Corpus:
    """Labelled texts, as features by whatever rules are asked for.

    Attributes
    ----------
    target, labels : what the labels are called, and those of each text as numbers.
    rules, rows : features by the rules that the settings choose for so much text.
    features : what gives features by other rules: it goes through all texts again. None where they come from a pipe,
        which can be read once.
    """

    target: Target
    labels: Rows
    rules: FeatureRules
    rows: TextRows
    features: Callable[[FeatureRules], TextRows] | None

    @classmethod
    def of_texts(cls, texts: list[str], y: Any, settings: TextSettings, threads: int, classes: Any = None) -> Corpus:
        """Take texts that are in memory."""
        target, labels = Target.learn(y, classes)
        check_lengths(texts, labels)
        check_labelled(labels)
        text, offsets = kernels.join_texts(texts)

        def features(rules: FeatureRules) -> TextRows:
            return extract(text, offsets, rules, threads)

        rules = settings.features(np.diff(offsets))
        return cls(target, labels, rules, features(rules), features)

    @classmethod
    def of_file(cls, path: str, read: Callable[[], Iterator[Batch]], settings: TextSettings, threads: int) -> Corpus:
        """Take texts that `read` yields anew, a batch at a time, each time it is called."""
        spill, names = Spill.within(settings.memory_limit), _Labels()

        def labelled() -> Iterator[Joined]:
            for batch in read():
                names.add(batch)
                yield kernels.join_texts(batch.texts)

        # The rules depend on how much text there is; after so much of it they do no longer.
        first: list[Joined] = []
        lengths, batches = np.empty(0, np.int64), labelled()
        for joined in batches:
            first.append(joined)
            lengths = np.concatenate((lengths, np.diff(joined[1])))
            if settings.are_decided(lengths):
                break
        rules = settings.features(lengths)
        rows = extract_batches(_emptied(first, batches), rules, threads, spill)

        target, labels = names.learnt(path)

        def features(other: FeatureRules) -> TextRows:
            again = extract_batches((kernels.join_texts(batch.texts) for batch in read()), other, threads, spill)
            if len(again) != len(labels):
                problem = f"held {len(labels)} texts when it was read first, and {len(again)} later"
                raise DataError(path, None, f"{problem}: it must stay as it is until training ends")
            return again

        return cls(target, labels, rules, rows, features if path != "-" and os.path.isfile(path) else None)


def _emptied(first: list[Joined], more: Iterator[Joined]) -> Iterator[Joined]:
    """Yield batches that were read before, and forget them, and then those to come."""
    while first:
        yield first.pop(0)
    yield from more


class _Labels:
    """Labels by name as they come, kept as numbers."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._found: list[I32] = []
        self._lengths: list[I32] = []
        self._bare: tuple[int, int | None] | None = None  # row and line of the first text without a label
        self._n_texts = 0

    def add(self, batch: Batch) -> None:
        numbers, labels = self._numbers, batch.labels
        if self._bare is None and [] in labels:
            row = labels.index([])
            self._bare = self._n_texts + row, batch.lines[row]
        self._n_texts += len(labels)
        flat = [numbers.setdefault(label, len(numbers)) for label in chain.from_iterable(labels)]
        self._found.append(np.array(flat, np.int32))
        self._lengths.append(np.fromiter(map(len, labels), np.int32, len(labels)))

    def learnt(self, path: str) -> tuple[Target, Rows]:
        """Return what `Target.learn` would make of a list of them all; where none has two, none may be without."""
        if not self._numbers:
            raise nothing_to_learn(path, self._n_texts)
        names = sorted(self._numbers)
        place = np.empty(len(names), np.int32)
        place[[self._numbers[name] for name in names]] = np.arange(len(names))
        lengths = np.concatenate([np.empty(0, np.int32), *self._lengths])
        if self._bare is not None and lengths.max() == 1:
            raise no_label(path, *self._bare)
        found = place[np.concatenate([np.empty(0, np.int32), *self._found])]
        classes = np.array(names, dtype=object)
        target = Target("single" if (lengths == 1).all() else "lists", classes, classes.dtype)
        return target, target.rows(found, np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64))))
