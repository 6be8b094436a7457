"""The memory that the tree and the neighbors of a blend take, in training and next to its network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparsenet.core.host_memory import needs_by_host
from sparsenet.core.machine import available_memory
from sparsenet.core.memory import announce, arrays_of, bytes_in_memory
from sparsenet.core.spilling import Spill
from sparsenet.core.tasks import HERE, TaskRunner
from sparsenet.engines.neighbors.fit_neighbors import peak_memory, task_memory
from sparsenet.engines.neighbors.neighbors import Neighbors
from sparsenet.engines.tree.fit_tree import FittedTree
from sparsenet.engines.tree.machines import ROUTING_BYTES
from sparsenet.features.targets import Points


def bytes_of_parts(tree: FittedTree, neighbors: Neighbors | None, points: Points) -> dict[str, int]:
    """Return the bytes of a trained tree and of neighbors, without the arrays of the points."""
    of_tree = [array for level in tree.levels for array in level.as_tuple()]
    found = {"tree": bytes_in_memory(of_tree)}
    if neighbors is not None:
        theirs = {id(array) for array in arrays_of(*points)}
        found["neighbors"] = bytes_in_memory(array for array in neighbors.arrays() if id(array) not in theirs)
    return found


def check_parts_fit(
    points: Points,
    *,
    held: Mapping[str, int],
    beam: int,
    k: int,
    memory_limit: int | None,
    shown: bool,
    spill: Spill | None = None,
    runner: TaskRunner = HERE,
) -> None:
    """Refuse training whose tree and neighbors cannot fit into memory, before anything is taken.

    The size of the tree is unknown until it is trained, so this is a lower bound; the network counts the parts exactly.

    Parameters
    ----------
    held : mapping
        Bytes that the caller holds, by purpose.
    beam, k : int
        Nodes of a level that a point reaches, and neighbors of a point; 0 for no neighbors.
    memory_limit : int, optional
        By default all the memory there is.
    shown : bool
        Whether to print the bytes.
    spill : Spill, optional
        Allocates posting lists; see `fit_neighbors.fit`.
    runner : TaskRunner
        Where the neighbors are learnt. The limit holds for each machine.
    """
    features, labels = points
    needed = {
        **held,
        "routing": ROUTING_BYTES * len(features) * beam,
        "neighbors": 0 if k == 0 else peak_memory(features, labels, spill),
    }
    limit = available_memory() + sum(held.values()) if memory_limit is None else memory_limit
    how: dict[str, Any] = {
        "is_given": memory_limit is not None,
        "of_workers": lambda host: task_memory(features, labels, host, spill) if k else 0,
    }
    for own, most, _ in needs_by_host(runner, needed, limit, **how):
        problem = announce(own, most, is_given=memory_limit is not None, shown=shown)
        if problem is not None:
            raised = "" if memory_limit is None else "raise memory_limit, or "
            raise MemoryError(f"{problem}: {raised}use fewer points or features")
