"""What a network of texts keeps of those it learnt from, to go over them again beside texts that come later."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sparsenet.core.rows import Rows
from sparsenet.kernels.types import F16, F32, I64, Arrays

#: The most texts that are remembered, and the most features of all of them together, 6 bytes each.
MOST_TEXTS = 8192
MOST_ENTRIES = 1 << 22
#: Later texts are gone over so often, divided by the root of their number, within bounds.
TIMES, FEWEST_TIMES, MOST_TIMES = 45, 5, 20


@dataclass(frozen=True, eq=False)
class Memory:
    """Texts drawn from all that a network has learnt from, each as likely as any other.

    Attributes
    ----------
    indptr, indices, values : their features, with values of half precision.
    labels : Rows
    """

    indptr: I64
    indices: NDArray[np.int32]
    values: F16
    labels: Rows

    @classmethod
    def of(cls, points: Rows, labels: Rows, seed: int) -> Memory:
        """Remember some of these texts, or all, if they are few."""
        size = min(len(points), MOST_TEXTS, max(1, MOST_ENTRIES * len(points) // max(len(points.indices), 1)))
        kept = np.sort(np.random.default_rng((seed, 3)).permutation(len(points))[:size])
        points = points.take(kept)
        return cls(points.indptr, points.indices, points.data.astype(np.float16), labels.take(kept))

    @classmethod
    def of_nothing(cls, n_labels: int) -> Memory:
        """Remember no text."""
        none, nowhere = np.empty(0, np.int32), np.zeros(1, np.int64)
        return cls(nowhere, none, np.empty(0, np.float16), Rows(nowhere, none, np.empty(0, np.float32), n_labels))

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def moved(self, n_labels: int, places: tuple[I64, I64]) -> Memory:
        """Return the same memory where there are more features and labels; `places` says where the old ones are."""
        features, labels = places
        owners = labels[self.labels.indices].astype(np.int32)
        indices = features[self.indices].astype(np.int32)
        return Memory(self.indptr, indices, self.values, Rows(self.labels.indptr, owners, self.labels.data, n_labels))

    def points(self, n_features: int) -> Rows:
        """Return the features of the texts as they are learnt."""
        return Rows(self.indptr, self.indices, self.values.astype(np.float32), n_features)

    def passes(self, points: Rows, labels: Rows, seed: int) -> Iterator[tuple[Rows, Rows]]:
        """Yield what each pass over these texts takes: all of them, and a share of what is remembered, each text once.

        A text that is gone over several times would be learnt by heart, and those that are not remembered forgotten.
        """
        remembered, order = self.points(points.width), np.random.default_rng((seed, 4)).permutation(len(self))
        for share in np.array_split(order, n_passes(len(points))):
            yield _joined(points, remembered.take(share)), _joined(labels, self.labels.take(share))

    def surprise(self, labels: Rows, counts: I64, n_texts: int) -> F32:
        """Return how far the log odds of each label are higher in these passes than in the world, (n_labels,).

        The world is new texts with these `labels`, and before them `n_texts`, of which `counts` had each label. What no
        pass has surprises nobody.
        """
        times, new = n_passes(len(labels)), np.bincount(labels.indices, minlength=labels.width)
        here = (counts * (len(self) / max(n_texts, 1)) + times * new) / (len(self) + times * len(labels))
        world = (counts + new) / (n_texts + len(labels))
        ratio = np.divide(here, world, where=here > 0, out=np.ones(labels.width))
        return np.log(ratio).astype(np.float32)

    def with_more(self, points: Rows, labels: Rows, n_texts: int, seed: int) -> Memory:
        """Remember some of these texts too, each with the chance that each of the `n_texts` before them had."""
        rng = np.random.default_rng((seed, 3))
        share = min(len(self) / max(n_texts, 1), MOST_TEXTS / (n_texts + len(points)))
        old = np.flatnonzero(rng.random(len(self)) < share * n_texts / max(len(self), 1))
        own = np.flatnonzero(rng.random(len(points)) < share)
        both = _joined(self.points(points.width).take(old), points.take(own))
        return self.of(*(both, _joined(self.labels.take(old), labels.take(own))), seed)

    def to_arrays(self) -> Arrays:
        """Return what `of_arrays` needs."""
        features: Arrays = {"indptr": self.indptr, "indices": self.indices, "values": self.values}
        return features | {"labels.indptr": self.labels.indptr, "labels.indices": self.labels.indices}

    @classmethod
    def of_arrays(cls, arrays: Arrays, n_features: int, n_labels: int) -> Memory:
        """Make the memory that `to_arrays` took apart; raises ValueError where the parts do not fit together."""
        values, owners = arrays["values"], arrays["labels.indices"]
        features = _checked(arrays["indptr"], arrays["indices"], values, n_features)
        labels = _checked(arrays["labels.indptr"], owners, np.ones(len(owners), np.float32), n_labels)
        if len(features) != len(labels) or values.dtype != np.float16:
            raise ValueError(f"there are features of {len(features)} texts in {values.dtype}, labels of {len(labels)}")
        return cls(features.indptr, features.indices, values, labels)


def n_passes(n_texts: int) -> int:
    """Return how often so many later texts are gone over."""
    return int(np.clip(round(TIMES / max(n_texts, 1) ** 0.5), FEWEST_TIMES, MOST_TIMES))


def _checked(indptr: NDArray[Any], indices: NDArray[Any], values: NDArray[Any], width: int) -> Rows:
    if indptr.ndim != 1 or len(indptr) == 0 or indices.shape != values.shape or indptr[-1] != len(indices):
        raise ValueError("rows do not end where their entries do")
    return Rows.of(csr_array((values, indices, indptr), shape=(len(indptr) - 1, width)), keep_zeros=True)


def _joined(first: Rows, second: Rows) -> Rows:
    """Put rows of one width below each other."""
    indptr = np.concatenate((first.indptr, first.indptr[-1] + second.indptr[1:]))
    entries = slice(first.indptr[-1])
    indices = np.concatenate((first.indices[entries], second.indices))
    return Rows(indptr, indices, np.concatenate((first.data[entries], second.data)), first.width)
