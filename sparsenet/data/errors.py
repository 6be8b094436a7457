"""What is raised for data that cannot be used."""

from __future__ import annotations


class DataError(ValueError):
    """Data that cannot be used: where it is, what was found, and what to do.

    Attributes
    ----------
    path : str
        The file, ``<stdin>``, or the name of the stream.
    line : int or None
        The line, counted from 1; None where the trouble has no line.
    problem : str
        What was found there, and what to do.

    Examples
    --------
    >>> print(DataError("train.txt", 7, "the file ends here; fetch it again"))
    train.txt, line 7: the file ends here; fetch it again
    """

    def __init__(self, path: str, line: int | None, problem: str) -> None:
        super().__init__(path, line, problem)  # all of them, so that pickling works
        self.path = path
        self.line = line
        self.problem = problem

    def __str__(self) -> str:
        place = self.path if self.line is None else f"{self.path}, line {self.line}"
        return f"{place}: {self.problem}"


def quoted(text: str, limit: int = 60) -> str:
    """Quote a piece of a file for an error message, in short."""
    return repr(text if len(text) <= limit else text[:limit] + "...")
