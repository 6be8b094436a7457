"""Coarse cells: an index that scans the cells nearest to a query in 8 bits, and scores the best labels exactly."""

from sparsenet.index.cells.cell_index import CellIndex, CellsConfig
from sparsenet.index.cells.spherical_kmeans import spherical_kmeans

__all__ = ["CellIndex", "CellsConfig", "spherical_kmeans"]
