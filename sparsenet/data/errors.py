"""The error for data that cannot be used."""

from __future__ import annotations


class DataError(ValueError):
    """Error for data that cannot be used, with the place, the problem and the remedy.

    Attributes
    ----------
    path : str
        The file, ``<stdin>``, or the name of the stream.
    line : int or None
        The line, counted from 1; None if the problem is not on one line.
    problem : str
        The problem, and how to mend it.

    Examples
    --------
    >>> print(DataError("train.txt", 7, "the file ends here; fetch it again"))
    train.txt, line 7: the file ends here; fetch it again
    """

    def __init__(self, path: str, line: int | None, problem: str) -> None:
        super().__init__(path, line, problem)  # pickling needs all arguments
        self.path = path
        self.line = line
        self.problem = problem

    def __str__(self) -> str:
        place = self.path if self.line is None else f"{self.path}, line {self.line}"
        return f"{place}: {self.problem}"


class EmptyFileError(DataError):
    """Error for a file of no bytes."""

    def __init__(self, path: str, line: None = None, problem: str = "") -> None:
        super().__init__(path, line, problem or "the file is empty: there is nothing to read")


def cut(text: str, limit: int = 60) -> str:
    """Return a text for an error message, cut to `limit` characters."""
    return text if len(text) <= limit else text[:limit] + "..."


def quoted(text: str) -> str:
    """Quote a piece of a file for an error message, cut if it is long."""
    return repr(cut(text))
