"""Split texts into the tokens of a table of vectors: by a list of words, or by a tokenizer of Hugging Face."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from sparsenet.core.validation import first_repeated
from sparsenet.data.errors import quoted
from sparsenet.kernels.types import I32, I64, Arrays
from sparsenet.storage.strings import pack_strings, unpack_strings

#: The parts of a piece between white space that is no token as a whole: runs of letters and digits, and symbols.
_PARTS = re.compile(r"\w+|[^\w\s]")
_PIECES = re.compile(r"\S+")


class TokenRows(NamedTuple):
    """Tokens of texts: text i has ``ids[indptr[i] : indptr[i + 1]]``."""

    indptr: I64
    ids: I32


class TokenSpan(NamedTuple):
    """A token, and the characters of the text that it stands for."""

    token: int
    begin: int
    end: int


class TextTokenizer(ABC):
    """Turns texts into the numbers of tokens, which are rows of a table of vectors."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of tokens that the tokenizer knows."""

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Return the tokens of one text."""

    @abstractmethod
    def spans(self, text: str) -> list[TokenSpan]:
        """Return the tokens of one text and their places in it."""

    @abstractmethod
    def to_arrays(self) -> Arrays:
        """Return arrays that `unpack_tokenizer` turns into the same tokenizer."""

    def encode_all(self, texts: Sequence[str]) -> TokenRows:
        """Return the tokens of texts."""
        if len(texts) == 1:  # a third of the time
            ids = np.array(self.encode(texts[0]), np.int32)
            return TokenRows(np.array((0, len(ids))), ids)
        found = [self.encode(text) for text in texts]
        indptr = np.zeros(len(found) + 1, np.int64)
        np.cumsum([len(own) for own in found], out=indptr[1:])
        return TokenRows(indptr, np.array([token for own in found for token in own], np.int32))


class WordListTokenizer(TextTokenizer):
    """Finds the words of a list in texts.

    A piece between white space is a token if the list has it, as it is or in lower case. Otherwise its runs of letters
    and digits, and its other characters one by one, are looked up in the same way. Unknown ones are skipped.

    Examples
    --------
    >>> WordListTokenizer(["a", "well-known", "cat", "."]).encode("A well-known cat-like cat.")
    [0, 1, 2, 2, 3]
    """

    def __init__(self, words: Sequence[str], name: str = "words") -> None:
        self.words = list(words)
        for row, word in enumerate(self.words):
            if not isinstance(word, str):
                raise ValueError(f"{name} must hold words, got {word!r} in row {row}")
        if (repeated := first_repeated(self.words)) is not None:
            raise ValueError(f"{name} holds {quoted(repeated)} twice: each word has one vector")

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    def __getstate__(self) -> dict[str, Any]:
        return {"words": self.words}

    def encode(self, text: str) -> list[int]:
        """Return the tokens of one text."""
        found: list[int] = []
        for piece in text.split():
            number = self._number(piece)
            if number is not None:
                found.append(number)
            else:
                numbers = (self._number(part) for part in _PARTS.findall(piece))
                found += [own for own in numbers if own is not None]
        return found

    def spans(self, text: str) -> list[TokenSpan]:
        """Return the tokens of one text and their places in it."""
        return [
            TokenSpan(number, begin, end)
            for piece, begin, end in self._pieces(text)
            if (number := self._number(piece)) is not None
        ]

    def _pieces(self, text: str) -> Iterator[tuple[str, int, int]]:
        for piece in _PIECES.finditer(text):
            if self._number(piece[0]) is not None:
                yield piece[0], piece.start(), piece.end()
            else:
                yield from ((part[0], part.start(), part.end()) for part in _PARTS.finditer(text, *piece.span()))

    def _number(self, piece: str) -> int | None:
        number = self._numbers.get(piece)
        return self._numbers.get(piece.lower()) if number is None else number

    def to_arrays(self) -> Arrays:
        """Return the words."""
        return pack_strings(self.words, "words")


class HubTokenizer(TextTokenizer):
    """A tokenizer in the format of Hugging Face, ``tokenizer.json``; needs the package `tokenizers`.

    Each piece between white space is tokenized by itself, as in the middle of a text. So the tokens of frequent pieces
    can be remembered, which takes a quarter of the time of tokenizing a text.

    Parameters
    ----------
    source : str
        The JSON.
    name : str
        The file, for error messages.
    max_pieces : int
        Pieces whose tokens are remembered; by default they take some 20 MB.
    """

    def __init__(self, source: str, name: str = "the tokenizer", *, max_pieces: int = 1 << 16) -> None:
        self.source = source
        self._max_pieces = max_pieces
        self._tokenizer = _parsed(source, name)
        self._prefix = self._prefix_inside()

    def __len__(self) -> int:
        return 1 + max(self._tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)

    def __getstate__(self) -> dict[str, Any]:
        return {"source": self.source}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["source"])  # type: ignore[misc]

    def encode(self, text: str) -> list[int]:
        """Return the tokens of one text."""
        found: list[int] = []
        tokens_of = self._remembered
        for piece in text.split():
            found += tokens_of(piece)
        return found

    def spans(self, text: str) -> list[TokenSpan]:
        """Return the tokens of one text and their places in it."""
        found = []
        for piece in _PIECES.finditer(text):
            encoded, start, last = self._encoded(piece[0]), piece.start(), piece.end()
            for token, (begin, end) in zip(encoded.ids, encoded.offsets, strict=True):
                # A mark that the tokenizer adds may cover no character.
                begin = min(start + max(begin - len(self._prefix), 0), last - 1)
                found.append(TokenSpan(token, begin, min(max(start + end - len(self._prefix), begin + 1), last)))
        return found

    @cached_property
    def _remembered(self) -> Callable[[str], list[int]]:
        return lru_cache(self._max_pieces)(lambda piece: self._encoded(piece).ids)

    def _encoded(self, piece: str) -> Any:
        try:
            return self._tokenizer.encode(self._prefix + piece, add_special_tokens=False)
        except TypeError:  # a lone surrogate
            piece = piece.encode("utf-8", "replace").decode()
            return self._tokenizer.encode(self._prefix + piece, add_special_tokens=False)

    def _prefix_inside(self) -> str:
        """Return the prefix that makes a lone word's tokens equal its tokens inside a text."""
        inside = self._tokenizer.encode("a word", add_special_tokens=False).ids
        alone = self._tokenizer.encode("word", add_special_tokens=False).ids
        return "" if inside[len(inside) - len(alone) :] == alone else " "

    def to_arrays(self) -> Arrays:
        """Return the JSON."""
        return {"tokenizer": np.frombuffer(self.source.encode(), np.uint8)}


def unpack_tokenizer(arrays: Arrays) -> TextTokenizer:
    """Return the tokenizer whose `to_arrays` made the arrays."""
    if "tokenizer" in arrays:
        return HubTokenizer(arrays["tokenizer"].tobytes().decode(), "the tokenizer of the model")
    return WordListTokenizer(unpack_strings(arrays, "words"))


def _parsed(source: str, name: str) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise ImportError(f"{name} needs the package tokenizers: pip install 'sparsenet[vectors]'") from error
    try:
        tokenizer = Tokenizer.from_str(source)
    except Exception as error:  # the package raises this class itself
        raise ValueError(f"{name} is not a tokenizer.json of Hugging Face: {error}") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer
