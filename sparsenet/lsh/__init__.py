"""Locality-sensitive hashing: an index over the output layer that finds labels of a large score."""

from sparsenet.lsh.choosing import TABLES, best_index, first_guess, most_memory
from sparsenet.lsh.config import LSHConfig
from sparsenet.lsh.index import Candidates, LSHIndex

__all__ = [
    "TABLES",
    "Candidates",
    "LSHConfig",
    "LSHIndex",
    "best_index",
    "first_guess",
    "most_memory",
]
