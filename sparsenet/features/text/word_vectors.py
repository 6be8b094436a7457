"""Static word vectors: a table with a vector for each token, and the mean vector of a text."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsenet import kernels
from sparsenet.core.machine import available_memory, default_threads
from sparsenet.core.memory import in_words
from sparsenet.core.validation import n_jobs as check_jobs
from sparsenet.features.text.inputs import check_texts
from sparsenet.features.text.inputs import listed as as_list
from sparsenet.features.text.tokenizing import TextTokenizer, TokenSpan, WordListTokenizer, unpack_tokenizer
from sparsenet.features.text.vector_files import read_vectors
from sparsenet.kernels.types import F32, I8, Arrays
from sparsenet.storage import ModelError


@dataclass(frozen=True, eq=False)
class WordVectors:
    """A table of word vectors, rounded to 8 bits, and the tokenizer that assigns a row to each token.

    Make one with `read` or `of_words`. It is immutable, and nothing is downloaded.

    Attributes
    ----------
    codes : ndarray of shape (n_tokens, dim), int8
    factors : ndarray of shape (n_tokens,), float32
        The vector of token t is ``factors[t] * codes[t]``.
    tokenizer : TextTokenizer
    source : str
        Origin of the vectors, for display.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsenet import WordVectors
    >>> vectors = WordVectors.of_words(["cat", "tiger", "car"], [[1.0, 0.0], [0.8, 0.6], [0.0, -2.0]])
    >>> vectors
    WordVectors(3 tokens, 2 dimensions, from words)
    >>> vectors.embed(["A cat!", "no known word"]).tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """

    codes: I8
    factors: F32
    tokenizer: TextTokenizer
    source: str = "words"

    @classmethod
    def read(
        cls, path: str | os.PathLike[str], tokenizer: str | os.PathLike[str] | None = None, *, tensor: str | None = None
    ) -> WordVectors:
        """Read a table and its tokenizer from local files, or from an installed package.

        Parameters
        ----------
        path : str or path
            - A ``.safetensors`` or ``.npy`` file with one vector for each token.
            - A directory with one such file and its tokenizer.
            - Any other file: text with a word and its numbers on each line, as in GloVe and word2vec files. It may be
              compressed, and may start with a line of the two sizes.
            - ``"wordllama"``: the table of that package, if it is installed: ``pip install 'sparsenet[vectors]'``.
        tokenizer : str or path, optional
            The tokenizer of a ``.safetensors`` or ``.npy`` file: a ``tokenizer.json`` of Hugging Face, which needs the
            package `tokenizers`, or a text file with a word on each line. By default, ``tokenizer.json``, ``vocab.txt``
            or ``words.txt`` in the same directory.
        tensor : str, optional
            Name of the table in a ``.safetensors`` file, if that holds several.
        """
        table, found, source = read_vectors(path, tokenizer, tensor)
        return cls.of_table(table, found, source)

    @classmethod
    def of_words(cls, words: Sequence[str], table: ArrayLike) -> WordVectors:
        """Make vectors of a list of words and an array (n_words, dim)."""
        if isinstance(words, str):
            raise ValueError(f"words must be a list of words, got a single one, {words!r}: pass ['{words}', ...]")
        return cls.of_table(np.asarray(table), WordListTokenizer(as_list(words)), "words")

    @classmethod
    def of_table(
        cls, table: NDArray[Any], tokenizer: TextTokenizer, source: str, *, rows_at_a_time: int = 1 << 14
    ) -> WordVectors:
        """Check a table and round its rows to 8 bits, some rows at a time."""
        _check_shape(table, tokenizer, source)
        codes = np.empty(table.shape, np.int8)
        factors = np.empty(len(table), np.float32)
        for begin in range(0, len(table), rows_at_a_time):
            rows = slice(begin, begin + rows_at_a_time)
            part = np.asarray(table[rows], np.float32)
            largest = np.abs(part).max(axis=1, initial=0)
            if not np.isfinite(largest).all():
                wrong = begin + int(np.flatnonzero(~np.isfinite(largest))[0])
                raise ValueError(f"{source}: row {wrong} of the table holds NaN or infinity: replace it, or use zeros")
            factors[rows] = largest / 127
            inverse = np.divide(1, factors[rows], out=np.zeros_like(largest), where=factors[rows] > 0)
            np.rint(part * inverse[:, None], out=codes[rows], casting="unsafe")
        return cls(codes, factors, tokenizer, source)

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def dim(self) -> int:
        """Number of dimensions of a vector."""
        return int(self.codes.shape[1])

    @cached_property
    def table(self) -> F32:
        """The vectors in single precision, (n_tokens, dim)."""
        return np.ascontiguousarray(self.codes * self.factors[:, None])

    def embed(self, texts: Any, *, n_jobs: int | None = None) -> F32:
        """Return the mean vector of the tokens of each text, scaled to length 1; zeros without known tokens.

        Parameters
        ----------
        texts : sequence of str
        n_jobs : int or None
            Threads; None: all that the process may use. Results do not depend on it.
        """
        return self.vectors_of(check_texts(texts, "texts"), check_jobs(n_jobs) or default_threads())

    def vectors_of(self, texts: list[str], threads: int, *, texts_at_a_time: int = 4096) -> F32:
        """Return the vectors of texts that are known to be strings; only some have their tokens in memory at a time."""
        needed, room = 4 * len(texts) * self.dim, available_memory()
        if needed > room:
            problem = f"the vectors of {len(texts):,} texts take {in_words(needed)}, and there are {in_words(room)}"
            raise MemoryError(f"{problem}: use fewer texts, or none of their vectors")
        found = np.empty((len(texts), self.dim), np.float32)
        for begin in range(0, len(texts), texts_at_a_time):
            rows = slice(begin, begin + texts_at_a_time)
            np.multiply(*self.sums_of(texts[rows], threads), out=found[rows])
        return found

    def sums_of(self, texts: list[str], threads: int) -> tuple[F32, F32]:
        """Return the sum of the vectors of each text's tokens, (n, dim), and one over its length, (n, 1)."""
        tokens = self.tokenizer.encode_all(texts)
        sums = np.empty((len(texts), self.dim), np.float32)
        ones = np.ones(len(tokens.ids), np.float32)
        kernels.csr_matmul(tokens.indptr, tokens.ids, ones, self.table, sums, threads)
        lengths = _lengths(sums)
        lengths[lengths == 0] = np.inf
        return sums, np.float32(1) / lengths

    def contributions(self, text: str, weights: NDArray[Any]) -> list[tuple[TokenSpan, float]]:
        """Split the product of a text's vector and `weights` (dim,) into the parts of its tokens."""
        spans = self.tokenizer.spans(text)
        rows = self.table[[span.token for span in spans]] if spans else np.empty((0, self.dim), np.float32)
        length = float(_lengths(rows.sum(axis=0, keepdims=True))[0, 0])
        shares = (rows @ weights) / length if length > 0 else np.zeros(len(spans))
        return list(zip(spans, shares.tolist(), strict=True))

    def __repr__(self) -> str:
        return f"WordVectors({len(self):,} tokens, {self.dim} dimensions, from {self.source})"

    def __deepcopy__(self, memo: object) -> WordVectors:
        return self  # as scikit-learn's clone would copy megabytes that never change

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "table"}

    # --- in a saved model ---

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the arrays and metadata that `of_arrays` takes."""
        arrays: Arrays = {"table": self.codes, "factors": self.factors, **self.tokenizer.to_arrays()}
        return arrays, {"source": self.source}

    @classmethod
    def of_arrays(cls, arrays: Arrays, metadata: dict[str, Any]) -> WordVectors:
        """Make the vectors of the result of `to_arrays`; an error means that it is damaged."""
        codes, factors, source = arrays["table"], arrays["factors"], metadata["source"]
        if codes.dtype != np.int8 or codes.ndim != 2 or factors.dtype != np.float32 or factors.shape != codes.shape[:1]:
            raise ModelError(
                f"the table of word vectors must be int8 with a factor for each row, got {codes.dtype} of shape "
                f"{codes.shape} and {len(factors)} factors"
            )
        if not np.isfinite(factors).all() or not isinstance(source, str):
            raise ModelError("the table of word vectors holds NaN or infinity, or has no source")
        tokenizer = unpack_tokenizer(arrays)
        _check_shape(codes, tokenizer, "the model")
        return cls(codes, factors, tokenizer, source)


def as_vectors(value: Any) -> WordVectors | None:
    """Return the vectors that the parameter `vectors` of a classifier stands for."""
    check_vectors(value)
    return value if value is None or isinstance(value, WordVectors) else WordVectors.read(value)


def check_vectors(value: Any) -> None:
    """Refuse a parameter `vectors` that is neither None, a path nor vectors, without reading files."""
    if value is not None and not isinstance(value, str | os.PathLike | WordVectors):
        wanted = "a path, 'wordllama', WordVectors or None"
        problem = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
        raise ValueError(f"vectors must be {wanted}, got {problem}: WordVectors.of_words takes words and an array")


def _lengths(rows: F32) -> F32:
    return np.asarray(np.sqrt(np.add.reduce(rows * rows, axis=1, keepdims=True)))


def _check_shape(table: NDArray[Any], tokenizer: TextTokenizer, source: str, *, max_padding: int = 1024) -> None:
    """Refuse what is no table of numbers with a row for each token.

    Tables for tokenizers have up to `max_padding` rows more than tokens, so that their size is a round number.
    """
    if table.ndim != 2 or table.dtype.kind not in "fiu":
        raise ValueError(
            f"{source}: the table must hold numbers, a row for each token, got {table.dtype} of shape {table.shape}"
        )
    if 0 in table.shape:
        raise ValueError(f"{source}: the table of shape {table.shape} holds no numbers")
    n_tokens, padding = len(tokenizer), 0 if isinstance(tokenizer, WordListTokenizer) else max_padding
    if not n_tokens <= len(table) <= n_tokens + padding:
        problem = f"the table has {len(table):,} rows, and the tokenizer knows {n_tokens:,} tokens"
        raise ValueError(f"{source}: {problem}: use the tokenizer that the table was made with")
    needed = table.size * (np.dtype(np.int8).itemsize + np.dtype(np.float32).itemsize)  # `codes` and `table`
    if needed > available_memory():
        problem = f"{in_words(needed)}, and there are {in_words(available_memory())}"
        raise MemoryError(f"{source}: the table of shape {table.shape} takes {problem}: keep the first rows only")
