"""Read a file of any format: detect the format, then call its reader."""

from __future__ import annotations

from typing import Any, Literal, get_args

from sparsenet.core.validation import choice
from sparsenet.data.dataset import Dataset
from sparsenet.data.formats import TextFormat, is_npz, text_format
from sparsenet.data.pairs import read_points
from sparsenet.data.reader_options import Options
from sparsenet.data.sources import PathOrStream, name_of
from sparsenet.data.sparse import read_sparse, read_svmlight, read_xmc
from sparsenet.data.tables import TextDataset, read_table

Format = Literal["auto", "xmc", "svmlight", TextFormat]


def read(path: PathOrStream, format: Format = "auto", **options: Any) -> Dataset | TextDataset:
    r"""Read a file of any of the formats.

    Parameters
    ----------
    path : path, '-' or binary stream
        The file to read; ``"-"`` is standard input.
    format : {'auto', 'xmc', 'svmlight', 'csv', 'tsv', 'jsonl', 'parquet', 'lines'}
        "auto" detects tables by their suffix: ``.csv``, ``.tsv`` and ``.jsonl``, also before a suffix such as
        ``.gz``, and ``.parquet``. The suffix ``.npz`` means a SciPy matrix of points without labels; `read_pair`
        reads it together with labels. Any other file is XMC if its first line is a header of two or three counts,
        else svmlight. ``"lines"`` are texts with ``__label__`` words.
    **options
        Parameters of `read_xmc`, `read_svmlight` or `read_table`.

    Returns
    -------
    Dataset or TextDataset
        A `TextDataset` for tables and lines, else a `Dataset`.

    Raises
    ------
    DataError
        If the file has an error; the message names the line.

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
    unknown = next((name for name in options if name not in Options.__dataclass_fields__), None)
    if unknown is not None:
        advice = "leave it out, or name the format of a table, such as format='csv'"
        raise TypeError(f"{name_of(path)} is read as sparse points, which take no {unknown!r}: {advice}")
    reader_options = Options(**options)
    return read_points(path, reader_options, on_bytes) if is_npz(path) else read_sparse(path, reader_options, on_bytes)
