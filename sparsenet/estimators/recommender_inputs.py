"""Check the inputs of a recommender: users, baskets, items to choose from and files."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from sparsenet.core.validation import optional, switch
from sparsenet.data.dialect import Dialect
from sparsenet.data.errors import cut
from sparsenet.data.frames import is_frame
from sparsenet.estimators.recommender_evaluation import known_items
from sparsenet.features.interactions import Interactions
from sparsenet.features.log_names import find, is_one, item_mask, unknown_name
from sparsenet.features.logs import Log, LogColumns, LogFile, positions, read_log
from sparsenet.kernels.types import F32, I32, I64, Bools

#: Unknown names shown in a warning.
_SHOWN = 3
_OF_FILES = ("format", "quotes", "delimiter", "encoding", "decimal")
_WANTED = "a file takes format, quotes, delimiter, encoding and decimal"
_ITEMS, _EVENTS = "{} of {} items", "the items of {} of {} events"


def refuse_arguments(given: Mapping[str, Any], why: str) -> None:
    """Refuse arguments of a method that it does not take; parameters of the constructor get advice of their own."""
    for name, value in given.items():
        if name in ("keep_users", "output", "n_jobs", "random_state", "verbose"):
            advice = f"pass Recommender({name}={value!r}), or call set_params({name}={value!r})"
            raise TypeError(f"unexpected argument {name!r}, a parameter of the constructor: {advice}")
        raise TypeError(f"unexpected argument {name!r}: {why if name in _OF_FILES else _WANTED}")


def file_rules(verbose: Any, **given: Any) -> LogFile:
    """Return how to read a file; refuse arguments that it does not take."""
    dialect = {name: given.pop(name, None) for name in _OF_FILES[1:]}
    format = given.pop("format", "auto")
    refuse_arguments(given, _WANTED)
    return LogFile(format=format, dialect=Dialect(**dialect), verbose=optional(switch, "verbose", verbose))


def read_alike(
    log: Any,
    columns: LogColumns | None,
    users: NDArray[Any] | None,
    items: NDArray[Any],
    file: LogFile,
    argument: str,
) -> Log:
    """Read a log with the columns of the training log, None if that was a matrix; a history may be empty.

    Names get the kind of the `users`, if any, and `items` of the model. A matrix has a column for each item.
    """
    kinds = None if users is None else users.dtype.kind, items.dtype.kind
    may_be_empty = argument == "history"
    found = read_log(log, columns or LogColumns(), file, argument=argument, may_be_empty=may_be_empty, kinds=kinds)
    if not issparse(log) or columns is None:
        return found
    if len(found.items) != len(items):
        raise ValueError(f"{argument} has {len(found.items)} columns, and the model has {len(items)} items")
    return replace(found, items=items)


def allowed_items(items: NDArray[Any], only: Any, exclude: Any) -> Bools | None:
    """Return a mask of the items that may be recommended; None for all."""
    mask = None if only is None else item_mask(items, only, "only")
    if exclude is None:
        return mask
    allowed = ~item_mask(items, exclude, "exclude")
    return allowed if mask is None else allowed & mask


def popular_items(counts: I64, n_users: int, k: int, allowed: Bools | None) -> tuple[I32, F32]:
    """Return the k allowed items with the most users, and their shares of the users; padded with -1 and 0."""
    order = np.argsort(-counts, kind="stable")
    order = order if allowed is None else order[allowed[order]]
    items, shares = np.full(k, -1, np.int32), np.zeros(k, np.float32)
    items[: len(order)], shares[: len(order)] = order[:k], counts[order[:k]] / n_users
    return items, shares


def basket_events(items: NDArray[Any], baskets: list[list[Any]]) -> Interactions:
    """Return the items of each basket as the events of a user."""
    owners = np.repeat(np.arange(len(baskets)), [len(basket) for basket in baskets])
    numbers, names = find(items, [name for basket in baskets for name in basket], "items")
    warn_of_unknown(names[numbers < 0], len(names))
    return Interactions.of(owners[numbers >= 0], numbers[numbers >= 0], None, None, len(baskets), len(items))


def history_events(items: NDArray[Any], log: Log) -> Interactions:
    """Return the events of a history with items that the model knows, and warn of others."""
    events, n = log.over(items), len(items)
    unknown = log.items[positions(items, log.items) < 0]  # numbered from n by `over`
    warn_of_unknown(unknown[events.items[events.items >= n] - n], len(events), _EVENTS, stacklevel=5)
    return known_items(events, n)


def user_numbers(known: NDArray[Any], users: Any, *, may_be_new: bool) -> tuple[I64, NDArray[Any]]:
    """Return the numbers and names of users; -1 for unknown ones, if there may be any."""
    if is_frame(users) and not isinstance(users, str):
        raise ValueError("users must be names of users, got a log: pass it as history=, which needs no training")
    numbers, names = find(known, users, "users")
    if (numbers < 0).any() and not may_be_new:
        advice = "pass unknown='popular' to recommend popular items, or what the user took as history="
        raise unknown_name(known, names[np.argmax(numbers < 0)], "users", advice)
    return numbers, names


def baskets_of(items: Any) -> tuple[list[list[Any]], bool]:
    """Return baskets of names, and whether several were given."""
    if is_one(items):
        return [[items]], False
    if isinstance(items, Mapping) or not hasattr(items, "__iter__"):
        raise ValueError(f"items must be a list of names, or a list of such lists, got {type(items).__name__}")
    rows = list(items)
    several = [not is_one(row) and hasattr(row, "__iter__") for row in rows]
    if not any(several):
        return [rows], False
    if not all(several):
        row = several.index(False)
        raise ValueError(f"items must all be names, or all lists of names, got {rows[row]!r} in row {row}")
    return [list(row) for row in rows], True


class UnknownItems:
    """Counts items that the model does not know, and keeps a few of their names for the warning."""

    def __init__(self) -> None:
        self._n_unknown = self._n = 0
        self._names: dict[str, None] = {}

    def add(self, unknown: NDArray[Any], n: int) -> None:
        """Count n further items, and the unknown ones among them."""
        self._n_unknown, self._n = self._n_unknown + len(unknown), self._n + n
        for name in unknown.tolist():
            if len(self._names) > _SHOWN:
                break
            self._names.setdefault(cut(repr(name)))

    def message(self, what: str = _ITEMS) -> str | None:
        """Return the warning, or None if all items are known."""
        if not self._n_unknown:
            return None
        shown = ", ".join(list(self._names)[:_SHOWN])
        such = "such as " if len(self._names) > _SHOWN else ""
        return f"the model does not know {what.format(self._n_unknown, self._n)}, {such}{shown}: left out"


def warn_of_unknown(unknown: NDArray[Any], n: int, what: str = _ITEMS, stacklevel: int = 4) -> None:
    """Warn of items that the model does not know, of n in all."""
    found = UnknownItems()
    found.add(unknown, n)
    if text := found.message(what):
        warnings.warn(text, UserWarning, stacklevel=stacklevel)
