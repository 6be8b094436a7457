"""Read training and test data: `read` takes any format, and each format has a function of its own.

`read_xmc`, `read_svmlight` and `iter_batches` read sparse points into a `Dataset`; `read_pair` does so for points and
labels in two files. `read_table` and `iter_table` read tables of texts into a `TextDataset`. A file with errors raises
a `DataError` that names the line.
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
