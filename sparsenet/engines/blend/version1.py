"""Read combinations saved by version 0.1, and rank as it did; it goes in version 0.3."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import expit, softmax

from sparsenet.core.ranked import best_first
from sparsenet.core.validation import boolean, real
from sparsenet.engines.blend.candidates import UNKNOWN, Candidates
from sparsenet.engines.tree.machines import COST
from sparsenet.features.label_stats import log_counts
from sparsenet.kernels.types import F32, I32, I64


class Correction(NamedTuple):
    """The correction of the curve in pickles of version 0.1."""

    slope: float = 1.0
    shift: float = 0.0
    among: float = 1.0
    frequent: float = 0.0


@dataclass(frozen=True)
class Version1Combination:
    """A vote with fixed weights, and a curve that depends on the parts and their trust."""

    has_network: bool
    has_neighbors: bool
    is_consistent: bool
    trust: float = 1.0
    tree_weight: float = 1.0
    slope: float = 1.0
    shift: float = 0.0
    among: float = 1.0
    frequent: float = 0.0

    @classmethod
    def of_saved(cls, metadata: Mapping[str, Any], *, is_consistent: bool) -> Self:
        """Read the measurements that version 0.1 saved."""
        neighbors = metadata["neighbors"]
        return cls.of_json(
            {
                "has_network": metadata["network"] is not None,
                "has_neighbors": neighbors is not None,
                "is_consistent": is_consistent,
                "trust": (neighbors or {}).get("trust", 1.0),
                "tree_weight": metadata.get("tree_weight", 1.0),
                "slope": 1.0,
                "shift": 0.0,
                "among": 1.0,
                "frequent": 0.0,
                **metadata.get("correction", {}),
            }
        )

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON."""
        return dict(vars(self))

    @classmethod
    def of_json(cls, saved: Mapping[str, Any]) -> Self:
        """Read and check the fields."""
        flags = {name: boolean(name, saved[name]) for name in ("has_network", "has_neighbors", "is_consistent")}
        return cls(
            **flags,
            trust=real("trust", saved["trust"], 1 / 16, 2),
            tree_weight=real("tree_weight", saved["tree_weight"], 1, 4),
            slope=real("slope", saved["slope"], 0, 100, open_low=True),
            shift=real("shift", saved["shift"], -1000, 1000),
            among=real("among", saved["among"], 0, 100, open_low=True),
            frequent=real("frequent", saved["frequent"], -1, 1),
        )

    def without_neighbors(self) -> Version1Combination:
        """Return the vote of tree and network alone, with the usual curve."""
        return Version1Combination(self.has_network, False, self.is_consistent, tree_weight=self.tree_weight)

    def rank(self, candidates: Candidates, n: int, label_counts: I64) -> tuple[I32, F32]:
        """Return the n best candidates of each point and the logits of the curve, best first."""
        penalties, pseudo = candidates.penalties, np.float32(0.2)
        votes = candidates.log_probabilities.copy() if self.has_network else np.zeros_like(penalties)
        if self.has_neighbors:
            trust = np.float32(self.trust)
            strength = np.float32(4) * trust if self.has_network else np.float32(2) * np.sqrt(trust)
            votes += strength * (candidates.shares - np.sqrt(1 + pseudo))
        votes -= np.float32(self.tree_weight) * penalties
        votes[penalties >= UNKNOWN] = -UNKNOWN
        np.clip(votes, -UNKNOWN, np.float32(-1e-6), out=votes)
        labels, votes = best_first(votes, n, candidates.labels, votes)
        slope, shift = self._curve()
        slopes = votes.dtype.type(slope) * votes
        logits = np.asarray(votes.dtype.type(shift) + slopes - np.log(-np.expm1(slopes)))
        if self.frequent != 0:
            logits = logits + np.float32(self.frequent) * log_counts(label_counts[labels]).astype(np.float32)
            labels, logits = best_first(logits, labels.shape[1], labels, logits)
        return labels, logits

    def probabilities(self, scores: F32, counts: I64) -> F32:
        """Return the probability of each label by itself."""
        return np.asarray(expit(np.float32(self.slope) * scores + np.float32(self.shift)))

    def exclusive_probabilities(self, scores: F32) -> F32:
        """Return probabilities that sum to one, for points with exactly one label."""
        return np.asarray(softmax(self.among * scores, axis=1))

    def _curve(self) -> tuple[float, float]:
        """Return slope and shift of the curve from votes to logits."""
        if not self.has_network:
            return (2.1, 4.4) if self.is_consistent else (1.5, 2.9)
        slope, shift = 0.7, 1.45
        if self.has_neighbors:
            doublings = max(math.log2(self.trust), -1.4)
            slope, shift = 0.55 / 2 ** (doublings / 4), 2.1 + 0.35 * doublings
        if self.is_consistent:
            slope, shift = slope * 1.2, shift + 0.75
        weight = math.log2(self.tree_weight)
        return slope / 1.3**weight, shift + 0.25 * weight


def upgraded(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a `FittedBlend` from that of version 0.1, whose parts were classifiers."""
    network, tree, neighbors = state["network"], state["tree"], state["neighbors"]
    metadata = {
        "network": network,
        "neighbors": neighbors and {"trust": vars(neighbors).get("trust", 1.0)},
        "tree_weight": state["tree_weight"],
        "correction": state["correction"]._asdict(),
    }
    is_consistent = isinstance(tree.cost, str) and tree._fitted.cost > COST
    kept = {name: state[name] for name in ("neighbors", "target", "scaling", "seen", "candidates", "validation")}
    return {
        **kept,
        "network": network and network._fitted,
        "tree": tree._fitted,
        "combination": Version1Combination.of_saved(metadata, is_consistent=is_consistent),
        "choices": {},
    }
