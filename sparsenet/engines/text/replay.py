"""Keep a sample of training texts, which a network sees again when it learns from further texts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sparsenet.core.rows import Rows
from sparsenet.kernels.types import F16, F32, I64, Arrays


@dataclass(frozen=True, eq=False)
class ReplayBuffer:
    """A uniform sample of all texts that a network has learnt from.

    Attributes
    ----------
    indptr, indices, values : ndarrays
        The features, with values in half precision.
    labels : Rows
    max_texts, max_entries : int
        Maximum texts in the buffer, and maximum features of all of them, at 6 bytes each.
    """

    indptr: I64
    indices: NDArray[np.int32]
    values: F16
    labels: Rows
    max_texts: int = 8192
    max_entries: int = 1 << 22

    @classmethod
    def of(
        cls, points: Rows, labels: Rows, seed: int, *, max_texts: int = max_texts, max_entries: int = max_entries
    ) -> ReplayBuffer:
        """Sample these texts; keep all of them if they are few."""
        size = min(len(points), max_texts, max(1, max_entries * len(points) // max(len(points.indices), 1)))
        kept = np.sort(np.random.default_rng((seed, 3)).permutation(len(points))[:size])
        points = points.take(kept)
        values, labels = points.data.astype(np.float16), labels.take(kept)
        return cls(points.indptr, points.indices, values, labels, max_texts, max_entries)

    @classmethod
    def empty(cls, n_labels: int) -> ReplayBuffer:
        """Return a buffer without texts."""
        none, nowhere = np.empty(0, np.int32), np.zeros(1, np.int64)
        return cls(nowhere, none, np.empty(0, np.float16), Rows(nowhere, none, np.empty(0, np.float32), n_labels))

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def moved(self, n_labels: int, places: tuple[I64, I64]) -> ReplayBuffer:
        """Renumber features and labels; `places` are the new positions of the old ones."""
        features, labels = places
        owners = labels[self.labels.indices].astype(np.int32)
        indices = features[self.indices].astype(np.int32)
        rows = Rows(self.labels.indptr, owners, self.labels.data, n_labels)
        return replace(self, indices=indices, labels=rows)

    def points(self, n_features: int) -> Rows:
        """Return the features of the texts in single precision."""
        return Rows(self.indptr, self.indices, self.values.astype(np.float32), n_features)

    def passes(self, points: Rows, labels: Rows, seed: int) -> Iterator[tuple[Rows, Rows]]:
        """Yield the texts of each pass: all new ones, and an equal share of the buffer, each text of it in one pass.

        Texts of the buffer seen several times would be overfitted, at the expense of texts outside it.
        """
        sample, order = self.points(points.width), np.random.default_rng((seed, 4)).permutation(len(self))
        for share in np.array_split(order, n_epochs(len(points))):
            yield _joined(points, sample.take(share)), _joined(labels, self.labels.take(share))

    def prior_shift(self, labels: Rows, counts: I64, n_texts: int) -> F32:
        """Return by how much the log-odds of each label are higher in these passes than in all texts, (n_labels,).

        All texts are the new ones, with `labels`, and `n_texts` earlier ones, `counts` of them with each label. Labels
        that no pass contains have a shift of 0.
        """
        times, new = n_epochs(len(labels)), np.bincount(labels.indices, minlength=labels.width)
        in_passes = (counts * (len(self) / max(n_texts, 1)) + times * new) / (len(self) + times * len(labels))
        overall = (counts + new) / (n_texts + len(labels))
        ratio = np.divide(in_passes, overall, where=in_passes > 0, out=np.ones(labels.width))
        return np.log(ratio).astype(np.float32)

    def with_more(self, points: Rows, labels: Rows, n_texts: int, seed: int) -> ReplayBuffer:
        """Sample these texts too, with the same probability as each of the `n_texts` before them."""
        rng = np.random.default_rng((seed, 3))
        share = min(len(self) / max(n_texts, 1), self.max_texts / (n_texts + len(points)))
        old = np.flatnonzero(rng.random(len(self)) < share * n_texts / max(len(self), 1))
        own = np.flatnonzero(rng.random(len(points)) < share)
        both = _joined(self.points(points.width).take(old), points.take(own))
        owners = _joined(self.labels.take(old), labels.take(own))
        return self.of(both, owners, seed, max_texts=self.max_texts, max_entries=self.max_entries)

    def to_arrays(self) -> Arrays:
        """Return the arrays that `of_arrays` takes."""
        features: Arrays = {"indptr": self.indptr, "indices": self.indices, "values": self.values}
        return features | {"labels.indptr": self.labels.indptr, "labels.indices": self.labels.indices}

    @classmethod
    def of_arrays(cls, arrays: Arrays, n_features: int, n_labels: int) -> ReplayBuffer:
        """Make a buffer of the result of `to_arrays`; raise ValueError if the parts do not fit together."""
        values, owners = arrays["values"], arrays["labels.indices"]
        features = _checked(arrays["indptr"], arrays["indices"], values, n_features)
        labels = _checked(arrays["labels.indptr"], owners, np.ones(len(owners), np.float32), n_labels)
        if len(features) != len(labels) or values.dtype != np.float16:
            raise ValueError(f"there are features of {len(features)} texts in {values.dtype}, labels of {len(labels)}")
        return cls(features.indptr, features.indices, values, labels)


def n_epochs(n_texts: int, *, scale: int = 45, min_epochs: int = 5, max_epochs: int = 20) -> int:
    """Return the number of epochs on further texts: it falls with the square root of their number."""
    return int(np.clip(round(scale / max(n_texts, 1) ** 0.5), min_epochs, max_epochs))


def _checked(indptr: NDArray[Any], indices: NDArray[Any], values: NDArray[Any], width: int) -> Rows:
    if indptr.ndim != 1 or len(indptr) == 0 or indices.shape != values.shape or indptr[-1] != len(indices):
        raise ValueError("rows do not end where their entries do")
    return Rows.of(csr_array((values, indices, indptr), shape=(len(indptr) - 1, width)), keep_zeros=True)


def _joined(first: Rows, second: Rows) -> Rows:
    """Concatenate rows of equal width."""
    indptr = np.concatenate((first.indptr, first.indptr[-1] + second.indptr[1:]))
    entries = slice(first.indptr[-1])
    indices = np.concatenate((first.indices[entries], second.indices))
    return Rows(indptr, indices, np.concatenate((first.data[entries], second.data)), first.width)
