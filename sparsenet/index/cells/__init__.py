"""Coarse cells: an index of labels that scores the best of them exactly, and vectors kept in 8 bits alone.

Both scan the cells nearest to a query in 8 bits.
"""

from sparsenet.index.cells.cell_index import CellIndex, CellsConfig
from sparsenet.index.cells.spherical_kmeans import spherical_kmeans
from sparsenet.index.cells.vector_cells import VectorCells

__all__ = ["CellIndex", "CellsConfig", "VectorCells", "spherical_kmeans"]
