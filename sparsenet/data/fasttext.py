"""Read text in fastText's format, where labels are words with the prefix ``__label__``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sparsenet.data.errors import DataError, quoted
from sparsenet.data.lines import skip_blank, text_lines
from sparsenet.data.sources import OnSkipped, Source
from sparsenet.data.table_rows import Row

#: The prefix of a word that is a label.
LABEL = "__label__"
#: The characters that separate words in fastText.
_SEPARATOR = re.compile(r"[ \t\v\f\r]")


def labelled_lines(source: Source, on_skipped: OnSkipped | None = None) -> Iterator[Row]:
    """Yield the text and the labels of each line; skip blank lines."""
    for line in skip_blank(text_lines(source), on_skipped):
        text, labels = split_labels(line.text)
        if "" in labels:
            raise DataError(source.name, line.number, f"a label has no name: {quoted(line.text)}")
        yield Row(text, labels, [], line.number)


def split_labels(line: str) -> tuple[str, list[str]]:
    r"""Split a line into its text and its distinct labels, which may be anywhere in the line, as in fastText.

    >>> split_labels("__label__a\ttea and __label__b __label__a")
    ('tea and', ['a', 'b'])
    """
    if LABEL not in line:
        return line, []
    words = _SEPARATOR.split(line)
    labels = [word.removeprefix(LABEL) for word in words if word.startswith(LABEL)]
    return (" ".join(word for word in words if not word.startswith(LABEL)) if labels else line), list(
        dict.fromkeys(labels)
    )
