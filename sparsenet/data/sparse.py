"""Read sparse points in the XMC-repository format or svmlight, as a whole or in batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from numpy.typing import NDArray

from sparsenet.data.blocks import Block, line_blocks
from sparsenet.data.codecs import ZIP_MAGIC
from sparsenet.data.dataset import Dataset
from sparsenet.data.errors import DataError
from sparsenet.data.reader_options import OnHeader, Options, SparseFormat, ZeroBased
from sparsenet.data.sources import BY_ITS_NAME, OnBytes, OnSkipped, PathOrStream, Source, open_source
from sparsenet.data.svmlight import SvmlightReader
from sparsenet.data.xmc import XmcReader, is_xmc

Reader: TypeAlias = XmcReader | SvmlightReader
#: The first bytes of a file that numpy.save wrote.
NUMPY_MAGIC = b"\x93NUMPY"


def read_xmc(
    path: PathOrStream,
    *,
    n_features: int | None = None,
    n_labels: int | None = None,
    threads: int | None = None,
    on_bytes: OnBytes | None = None,
    on_header: OnHeader | None = None,
) -> Dataset:
    r"""Read a file in the format of the Extreme Classification Repository.

    The first line is ``points features labels``. Each further line is a point, ``label,label id:value ...``, with ids
    that count from 0. A point may have no labels or no features. Features may be in any order, but a feature may occur
    only once in a row. If the first line is ``points features``, the labels are in another file, and `read_pair` reads
    both. The compression (gzip, xz, bzip2, Zstandard or none) is detected by the content of the file.

    Parameters
    ----------
    path : path, '-' or binary stream
        The file to read; ``"-"`` is standard input.
    n_features, n_labels : int, optional
        Widths of `X` and `Y`; by default the widths in the header, which must not be larger.
    threads : int, optional
        Number of threads to parse with; by default one for each CPU. The result does not depend on it.
    on_bytes : callable, optional
        Called after each read with the number of bytes read, before decompression. Use it for a progress bar.
    on_header : callable, optional
        Called first, with the name of the file and the numbers of features and labels in its header. The number of
        labels is None if they are in another file.

    Returns
    -------
    Dataset
        `X` of shape (points, n_features) and `Y` of shape (points, n_labels).

    Raises
    ------
    DataError
        If the file has an error; the message names the line.

    Examples
    --------
    >>> from io import BytesIO
    >>> read_xmc(BytesIO(b"2 5 3\n0,2 1:0.5 4:1\n1 0:2\n")).Y.toarray()
    array([[1., 0., 1.],
           [0., 1., 0.]], dtype=float32)
    """
    options = Options(format="xmc", n_features=n_features, n_labels=n_labels, threads=threads, on_header=on_header)
    return read_sparse(path, options, on_bytes)


def read_svmlight(
    path: PathOrStream,
    *,
    multilabel: bool = True,
    n_features: int | None = None,
    n_labels: int | None = None,
    zero_based: ZeroBased = True,
    threads: int | None = None,
    on_bytes: OnBytes | None = None,
) -> Dataset:
    r"""Read an svmlight (LIBSVM) file, as `sklearn.datasets.load_svmlight_file` does, but faster.

    Each line is a point, ``label,label qid:n id:value ... # comment``. Blank lines, comments and query ids are
    skipped. Features may be in any order, but a feature may occur only once in a row.

    Parameters
    ----------
    path : path, '-' or binary stream
        The file to read; ``"-"`` is standard input.
    multilabel : bool
        If True, a point may have any number of labels. If False, each point must have exactly one label, and
        ``Dataset.y`` returns them.
    n_features : int, optional
        The width of `X`; by default, the width that the largest feature id needs. An id that is far larger than all
        others causes a warning with its line, or a DataError if a model of that width does not fit into memory. The
        same holds for labels.
    n_labels : int, optional
        The width of `Y`. If given, labels must be integers from 0 to n_labels - 1. By default labels may be any
        numbers. If they cannot be column numbers, ``Dataset.classes`` lists the label of each column.
    zero_based : bool or 'auto'
        If True, feature ids count from 0. If False, they count from 1, and feature 1 becomes column 0. "auto", the
        default of scikit-learn, counts from 0 if feature 0 occurs, so two files of one data set may be read
        differently. True also reads files that count from 1: it only leaves column 0 empty.
    threads : int, optional
        Number of threads to parse with; by default one for each CPU. The result does not depend on it.
    on_bytes : callable, optional
        Called after each read with the number of bytes read, before decompression. Use it for a progress bar.

    Returns
    -------
    Dataset
        `X` of shape (points, n_features) and `Y` of shape (points, n_labels).

    Raises
    ------
    DataError
        If the file has an error; the message names the line.

    Examples
    --------
    >>> from io import BytesIO
    >>> data = read_svmlight(BytesIO(b"-1 1:0.5 3:2\n+1 2:1 # a comment\n"), zero_based=False)
    >>> data.y
    array([-1,  1])
    >>> data.X.toarray()
    array([[0.5, 0. , 2. ],
           [0. , 1. , 0. ]], dtype=float32)
    """
    options = Options(
        format="svmlight",
        multilabel=multilabel,
        n_features=n_features,
        n_labels=n_labels,
        zero_based=zero_based,
        threads=threads,
    )
    return read_sparse(path, options, on_bytes)


def iter_batches(
    path: PathOrStream,
    *,
    batch_rows: int,
    format: SparseFormat = "auto",
    n_features: int | None = None,
    n_labels: int | None = None,
    classes: NDArray[Any] | None = None,
    with_labels: bool = True,
    zero_based: bool = True,
    threads: int | None = None,
    on_bytes: OnBytes | None = None,
    on_header: OnHeader | None = None,
    on_skipped: OnSkipped | None = None,
) -> Iterator[Dataset]:
    r"""Read XMC or svmlight in batches. Memory does not grow with the file.

    Parameters
    ----------
    path : path, '-' or binary stream
        The file to read; ``"-"`` is standard input.
    batch_rows : int
        Number of points in a batch; the last batch may have fewer.
    format : {'auto', 'xmc', 'svmlight'}
        "auto" reads a file as XMC if its first line is a header of two or three counts, else as svmlight.
    n_features, n_labels : int, optional
        Widths of `X` and `Y`. XMC files have them in the header; for svmlight they are required.
    classes : ndarray of shape (n_classes,), optional
        The ascending labels of the columns of `Y`, as in ``Dataset.classes`` of the training file. Give it instead of
        `n_labels` if svmlight labels are not column numbers. `Y` has one more column for all other labels.
    with_labels : bool
        If False, `Y` has no columns, and the file may have any labels that the format allows.
    zero_based : bool
        If True, svmlight features count from 0; pass ``Dataset.zero_based`` of the training file.
    threads, on_bytes, on_header
        As for `read_xmc`.
    on_skipped : callable, optional
        Called with the number of svmlight lines that were skipped since the last call: blank lines and comments.

    Yields
    ------
    Dataset
        `X` of shape (batch_rows, n_features) and `Y` of shape (batch_rows, n_labels).

    Raises
    ------
    DataError
        If the file has an error; the message names the line. All points before that line are yielded first.

    Examples
    --------
    >>> from io import BytesIO
    >>> batches = iter_batches(BytesIO(b"3 5 2\n0 1:1\n1 2:1\n0 3:1\n"), batch_rows=2)
    >>> [batch.X.shape for batch in batches]
    [(2, 5), (1, 5)]
    """
    if batch_rows < 1:
        raise ValueError(f"batch_rows must be at least 1, got {batch_rows}")
    if zero_based not in (True, False):
        raise ValueError(
            f"zero_based must be True or False in batches, got {zero_based!r}: a batch is only a part of the file"
        )
    options = Options(
        format=format,
        n_features=n_features,
        n_labels=n_labels,
        classes=classes,
        with_labels=with_labels,
        zero_based=zero_based,
        threads=threads,
        on_header=on_header,
        on_skipped=on_skipped,
    )
    return _iter_batches(path, batch_rows, options, on_bytes)


def _iter_batches(path: PathOrStream, batch_rows: int, options: Options, on_bytes: OnBytes | None) -> Iterator[Dataset]:
    with open_source(path, on_bytes) as source:
        reader, error = None, None
        try:
            for reader in parsed_blocks(source, options):
                _check_for_batches(reader, source.name, options)
                for rows in reader.rows.take_batches(batch_rows, all_rows=False):
                    yield reader.dataset(rows)
        except DataError as found:
            error = found  # raised after the rows before it are yielded
        if reader is not None:
            for rows in reader.rows.take_batches(batch_rows, all_rows=True):
                yield reader.dataset(rows)
        if error is not None:
            raise error
        assert reader is not None  # an empty file has raised
        reader.finish()


def _check_for_batches(reader: Reader, path: str, options: Options) -> None:
    """Refuse svmlight without widths, since each batch would have another width, and XMC with named labels."""
    if isinstance(reader, XmcReader):
        if options.classes is not None:
            problem = "is in XMC format, whose labels are column numbers, but labels by other names are expected"
            raise DataError(path, None, problem)
        return
    labelled = options.with_labels and options.classes is None
    for name in ("n_features", "n_labels") if labelled else ("n_features",):
        if getattr(options, name) is None:
            raise ValueError(f"reading svmlight in batches needs {name}: the file does not say")


def read_sparse(path: PathOrStream, options: Options, on_bytes: OnBytes | None) -> Dataset:
    """Read a whole file."""
    with open_source(path, on_bytes) as source:
        readers = parsed_blocks(source, options)
        next(readers)
        reader = next(readers)
        # If the rest of the file is like its start, no array has to grow again.
        reader.rows.reserve(1.02 * source.size / source.n_bytes)
        for reader in readers:  # noqa: B007, each is the same reader
            pass
        reader.finish()
        return reader.dataset(reader.rows.take())


def parsed_blocks(source: Source, options: Options) -> Iterator[Reader]:
    """Parse a file block by block. Yield its reader before the first block and after each block."""
    blocks = line_blocks(source)
    first = next(blocks)
    head = first.head()
    _refuse_binary(source.name, head)
    if options.format == "xmc" or (options.format == "auto" and is_xmc(head)):
        reader: Reader = XmcReader(source.name, options, head)
        yield reader
        reader.feed(first.without_line(head))
    else:
        reader = SvmlightReader(source.name, options)
        yield reader
        _feed_guessed(reader, options, first)
    yield reader
    for block in blocks:
        reader.feed(block)
        yield reader


def _refuse_binary(path: str, head: bytes) -> None:
    """Refuse the binary files of NumPy and SciPy, and explain how to read them."""
    if head.startswith(NUMPY_MAGIC):
        sparse = "scipy.sparse.save_npz writes scipy.sparse.csr_array(numpy.load(...)) as such"
        raise DataError(path, None, f"is a dense array of NumPy, where a sparse matrix is expected: {sparse}")
    if head.startswith(ZIP_MAGIC):
        raise DataError(path, None, f"this is a zip archive, compressed once more: unpack it; {BY_ITS_NAME}")


def _feed_guessed(reader: SvmlightReader, options: Options, first: Block) -> None:
    """Parse the first block of a file that may not be svmlight. An error in its first line mentions this."""
    try:
        reader.feed(first)
    except DataError as error:
        if options.format == "svmlight" or error.line != 1 or "out of range" in error.problem:
            raise
        guess = (
            "it was read as svmlight, because line 1 is no XMC header. For texts, pass format= as csv, tsv, jsonl, or "
            "lines with __label__ words"
        )
        raise DataError(error.path, 1, f"{error.problem}; {guess}") from None
