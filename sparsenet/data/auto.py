"""Reading of a file whose format has to be found out."""

from __future__ import annotations

from typing import Any, Literal, get_args

from sparsenet.core.validation import choice
from sparsenet.data.dataset import Dataset
from sparsenet.data.formats import TextFormat, is_npz, text_format
from sparsenet.data.options import Options
from sparsenet.data.pairs import read_points
from sparsenet.data.sources import PathOrStream
from sparsenet.data.sparse import read_sparse, read_svmlight, read_xmc
from sparsenet.data.tables import TextDataset, read_table

Format = Literal["auto", "xmc", "svmlight", TextFormat]


def read(path: PathOrStream, format: Format = "auto", **options: Any) -> Dataset | TextDataset:
    r"""Read a file of any of the formats.

    Parameters
    ----------
    path : path, '-' or binary stream
        What to read; ``"-"`` is standard input.
    format : {'auto', 'xmc', 'svmlight', 'csv', 'tsv', 'jsonl', 'parquet', 'lines'}
        "auto" goes by the name for tables (``.csv``, ``.tsv``, ``.jsonl``, before the suffix of a compression, or
        ``.parquet``) and SciPy's matrices (``.npz``, points without labels: see `read_pair`), and by the first line
        else: XMC has a header of two or three counts. ``"lines"`` are texts with ``__label__`` words.
    **options
        Those of `read_xmc`, `read_svmlight` or `read_table`.

    Returns
    -------
    Dataset or TextDataset
        The latter for tables and lines.

    Raises
    ------
    DataError
        For whatever is wrong with the file, naming the line.

    Examples
    --------
    >>> from io import BytesIO
    >>> read(BytesIO(b"1 3 2\n1 0:0.5\n")).X.shape
    (1, 3)
    >>> read(BytesIO(b'{"text": "sort an array", "label": "np.sort"}\n'), "jsonl").texts
    ['sort an array']
    """
    found = text_format(path) if format == "auto" else choice("format", format, get_args(Format))
    match found:
        case "csv" | "tsv" | "jsonl" | "parquet" | "lines":
            return read_table(path, format=found, **options)
        case "xmc":
            return read_xmc(path, **options)
        case "svmlight":
            return read_svmlight(path, **options)
    on_bytes = options.pop("on_bytes", None)
    asked = Options(**options)
    return read_points(path, asked, on_bytes) if is_npz(path) else read_sparse(path, asked, on_bytes)
