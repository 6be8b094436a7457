"""A fitted blend: its parts, and how it ranks labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sparsenet.core.rows import Rows
from sparsenet.engines.blend.candidates import Parts, propose, search_beam
from sparsenet.engines.blend.combination import Combination
from sparsenet.engines.blend.fast_ranking import FastRanking, can_rank
from sparsenet.engines.blend.version1 import Version1Combination, upgraded
from sparsenet.engines.neighbors.neighbors import Neighbors
from sparsenet.engines.network.fit_network import FittedNetwork
from sparsenet.engines.tree.fit_tree import FittedTree
from sparsenet.features.label_stats import LabelStats
from sparsenet.features.scaling import Scaling
from sparsenet.features.targets import Target
from sparsenet.kernels.types import F32, I32
from sparsenet.selection.choose import Decision

#: The usual number of candidate labels by the tree.
FEW = 32


@dataclass(frozen=True, eq=False)
class FittedBlend:
    """The parts, trained on scaled points, and their combination.

    Attributes
    ----------
    network : FittedNetwork or None
    tree : FittedTree
    neighbors : Neighbors or None
    target : Target
    scaling : Scaling
    seen : LabelStats
        Statistics of the training points.
    candidates : int
        Labels that the tree proposes for a point.
    combination : Combination or Version1Combination
    choices : mapping
        The decisions, by name.
    validation : mapping, optional
        Measures on held-out points, by name.
    """

    network: FittedNetwork | None
    tree: FittedTree
    neighbors: Neighbors | None
    target: Target
    scaling: Scaling
    seen: LabelStats
    candidates: int = FEW
    combination: Combination | Version1Combination = field(default_factory=Combination)
    choices: Mapping[str, Decision] = field(default_factory=dict)
    validation: Mapping[str, float] | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the state of a pickle, also of version 0.1."""
        self.__dict__.update(upgraded(state) if "tree_weight" in state else state)

    def with_network(self, network: FittedNetwork) -> FittedBlend:
        """Return a blend with a network, and the fixed weights that go with one."""
        return replace(self, network=network, combination=Combination())

    def parts(self, *, with_neighbors: bool = True) -> Parts:
        """Return the parts that score labels."""
        network = None if self.network is None else self.network.network
        return Parts(self.tree, network, self.neighbors if with_neighbors else None)

    def rank(
        self,
        points: Rows,
        n: int,
        *,
        k: int,
        beam: int,
        threads: int,
        n_dropped: int = 0,
        among: I32 | None = None,
        n_best: int | None = None,
        cells: int = 1 << 18,
    ) -> Iterator[tuple[slice, I32, F32]]:
        """Yield blocks of points: their slice, their `n_best` labels (by default n) and the scores, best first.

        Parameters
        ----------
        k : int
            Neighbors of a point; 0 for none.
        beam : int
            Beam width of the tree in training.
        n_dropped : int
            Number of labels that the caller drops afterwards.
        among : ndarray, optional
            Labels that are scored too; all candidates are then returned.
        cells : int
            Candidates, or neighbors, of a block: about 100 bytes each.
        """
        done, most = 0, 2 * n + len(among) if among is not None else n
        n_best = most if n_best is None else n_best
        fast = self.fast_ranking(n, k=k, beam=beam, n_dropped=n_dropped) if among is None else None
        parts, combination = self.parts(with_neighbors=k > 0), self.combining(k)
        for block in points.blocks(max(1, cells // max(most, k))):
            own = slice(done, done + len(block))
            if fast is not None:
                yield own, *fast.rank(block, n_best, threads)
            else:
                how: dict[str, Any] = {"k": k, "beam": beam, "n_dropped": n_dropped, "among": among}
                found = propose(parts, block, n, threads=threads, **how)
                labels, scores = combination.rank(found, most, self.seen.label_counts)
                yield own, labels[:, :n_best], scores[:, :n_best]
            done = own.stop

    def fast_ranking(self, n: int, *, k: int, beam: int, n_dropped: int = 0) -> FastRanking | None:
        """Prepare to rank n candidates by the kernel, with the arguments of `rank`; None if it cannot."""
        parts, combination = self.parts(with_neighbors=k > 0), self.combining(k)
        if not can_rank(parts, combination, n):
            return None
        assert isinstance(combination, Combination)
        return FastRanking.of(parts, combination, n, k=k, beam=search_beam(beam, n_dropped))

    def combining(self, k: int) -> Combination | Version1Combination:
        """Return the combination; without neighbors, the one of tree and network."""
        if k > 0 or self.neighbors is None:
            return self.combination
        return self.combination.without_neighbors()
