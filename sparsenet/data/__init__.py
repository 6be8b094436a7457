"""Readers of training and test data; see `read`."""

from sparsenet.data.dataset import Dataset
from sparsenet.data.errors import DataError
from sparsenet.data.sparse import iter_batches, read_svmlight, read_xmc

__all__ = ["DataError", "Dataset", "iter_batches", "read_svmlight", "read_xmc"]
