"""Readers of training and test data: `read` for any format, and one for each.

Sparse files (`read_xmc`, `read_svmlight`, `iter_batches`; points and labels apart, `read_pair`) become a `Dataset`,
tables of texts (`read_table`, `iter_table`) a `TextDataset`. What is wrong with a file is a `DataError` that names the
line.
"""

from sparsenet.data.auto import read
from sparsenet.data.dataset import Dataset
from sparsenet.data.errors import DataError
from sparsenet.data.pairs import read_pair
from sparsenet.data.sparse import iter_batches, read_svmlight, read_xmc
from sparsenet.data.tables import TextDataset, iter_table, read_table

__all__ = [
    "DataError",
    "Dataset",
    "TextDataset",
    "iter_batches",
    "iter_table",
    "read",
    "read_pair",
    "read_svmlight",
    "read_table",
    "read_xmc",
]
