"""Locality-sensitive hashing: an index over the output layer that finds labels with large scores."""

from sparsenet.index.hashing.choosing import TABLES, best_index, first_guess, most_memory
from sparsenet.index.hashing.hash_index import IndexHits, LSHIndex
from sparsenet.index.hashing.lsh_config import LSHConfig

__all__ = [
    "TABLES",
    "IndexHits",
    "LSHConfig",
    "LSHIndex",
    "best_index",
    "first_guess",
    "most_memory",
]
