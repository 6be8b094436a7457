"""Locality-sensitive hashing: an index over the output layer that finds labels of a large score."""

from sparsenet.lsh.config import LSHConfig
from sparsenet.lsh.index import Candidates, LSHIndex, exact_topk

__all__ = ["Candidates", "LSHConfig", "LSHIndex", "exact_topk"]
