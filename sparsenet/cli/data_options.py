"""Options about data: sparse points, texts, tables, logs and streams."""

from __future__ import annotations

from typing import Any

from sparsenet.cli import option_values as check
from sparsenet.cli.command_option import (
    BESIDE,
    NOT_FOR_POINTS,
    NOT_OF_LINKS,
    NOT_OF_USERS,
    OF_EVENTS,
    OF_LINKS,
    OF_LOGS,
    OF_POINTS,
    OF_STREAMS,
    OF_TABLES,
    OF_TEXT,
    CommandOption,
    flag,
    number,
    path,
)
from sparsenet.cli.option_values import MAX_INT, one_of

#: Panels of the help, in its order.
POINTS = "Sparse points"
TEXT = "Raw text (--method linear, network, blend or auto)"
TABLES = "CSV and other tables of text"
LOGS = "Log of interactions (--user and --item)"
STREAMS = "Stream of events (--method next-item or links)"
MIXED = "Tables with mixed columns (--target without --text)"

READING = ("train", "evaluate", "predict", "compress")
LABELLED = ("train", "evaluate", "compress")
#: Commands that learn from events.
SORTED = ("train", "evaluate", "update")
#: Fields that the options of a panel share.
of_points: dict[str, Any] = {"panel": POINTS, "kinds": OF_POINTS}
_text: dict[str, Any] = {"panel": TEXT, "kinds": OF_TEXT}
of_tables: dict[str, Any] = {"panel": TABLES, "kinds": OF_TEXT, "refusals": NOT_FOR_POINTS}
of_labelled: dict[str, Any] = of_tables | {"kinds": OF_TEXT | OF_TABLES}
_delimited: dict[str, Any] = of_tables | {"kinds": OF_TEXT | OF_LOGS | OF_EVENTS | OF_TABLES}
_mixed: dict[str, Any] = {"panel": MIXED, "kinds": OF_TABLES}
_log: dict[str, Any] = {"panel": LOGS, "kinds": OF_LOGS}
_events: dict[str, Any] = {"panel": LOGS, "kinds": OF_LOGS | OF_STREAMS}
_stream: dict[str, Any] = {"panel": STREAMS, "kinds": OF_STREAMS}
_links: dict[str, Any] = {"panel": STREAMS, "kinds": OF_LINKS}
_of_events: dict[str, Any] = {"panel": STREAMS, "kinds": OF_EVENTS}


# One call a row: reading the options is easier in few lines.
# fmt: off
def point_options() -> tuple[CommandOption, ...]:
    """Return the options for sparse points."""
    return (
        path(
            "labels_file", "FILE", "Separate file of labels: a matrix with one row per point, as SciPy's .npz or as "
            "lines `label:1 ...` under a header `rows labels`. The points must be such a matrix too.",
            commands=("train", "evaluate"), shown="labels are in the rows of the points", refusals=BESIDE, **of_points,
        ),
        path(
            "valid_labels_file", "FILE", "Separate file of labels for --valid.",
            shown="labels are in the rows of the points", refusals=BESIDE, needs_valid="whose labels these are",
            **of_points,
        ),
        *(
            number(
                f"{noun}s", 1, MAX_INT, f"Number of {noun}s, if the svmlight files do not contain the last one.",
                refusals={"text": f"a text model counts its {noun}s itself: leave it out"}, **of_points,
            )
            for noun in ("feature", "label")
        ),
        CommandOption(
            "normalize", "SCALING", "Scaling of points. rows: for counts. columns: each column by itself, for tables. "
            "together: all columns alike, for embeddings. mixed: for numbers next to categories. none: no scaling.",
            shown="auto, by the values of the points", sets="normalize",
            check=one_of("auto", "rows", "columns", "together", "mixed", "none"), **of_points,
        ),
    )


def text_options() -> tuple[CommandOption, ...]:
    """Return the options for raw text."""
    return (
        number("word_ngrams", 1, 8, "Longest word n-gram.", shown="2; 1 in a blend", sets="word_ngrams", **_text),
        CommandOption(
            "char_ngrams", "LENGTHS", "Lengths of character n-grams within words: LOW-HIGH, auto or none.",
            shown="3-5; 4 above 1 MiB of text; none for many long texts", check=check.char_ngrams, sets="char_ngrams",
            **_text,
        ),
        CommandOption(
            "vectors", "PATH|wordllama", "Word vectors in addition to words, for few texts: a directory with a .npy or "
            ".safetensors file and its tokenizer, that file, or the package wordllama. Or a text file with a word and "
            "its numbers on each line.", shown="none", sets="vectors", **_text,
        ),
        CommandOption(
            "class_weight", "balanced|JSON", "balanced gives rare labels more weight in training. JSON sets factors of "
            'labels, such as {"spam": 5}.', shown="all texts have the same weight", check=check.class_weight,
            sets="class_weight", **_text,
        ),
        number(
            "validation_fraction", 0, 0.9, "Fraction of the texts held out for validation.", type=float,
            shown="a tenth or less", sets="validation_fraction", **_text,
        ),
    )


def table_options() -> tuple[CommandOption, ...]:
    """Return the options for tables of text, and for other files with columns."""
    return (
        flag(
            "header", "The first row of CSV or TSV contains the column names.", negatable=True,
            commands=READING, shown="yes, if columns are given by name", **of_labelled,
        ),
        flag(
            "quotes", "Fields of CSV or TSV may be in double quotes.", negatable=True,
            commands=(*READING, "update"), shown="yes; in TSV only fields that end in their line", **_delimited,
        ),
        CommandOption(
            "delimiter", "CHARACTER", "Separator of fields in CSV or TSV, such as ';' or '|'.",
            commands=(*READING, "update"), shown="a comma; a tab in TSV", check=check.delimiter, **_delimited,
        ),
        CommandOption(
            "encoding", "NAME", "Encoding of CSV or TSV, such as latin-1 or cp1252.",
            commands=(*READING, "update"), shown="utf-8", check=check.encoding, **_delimited,
        ),
        CommandOption(
            "decimal", "MARK", "Decimal mark of numbers in CSV or TSV: '.' or ','.", shown="a point",
            commands=(*READING[:3], "update"), check=one_of(".", ","),
            **_delimited | {"kinds": OF_LOGS | OF_EVENTS | OF_TABLES},
        ),
    )


def log_options() -> tuple[CommandOption, ...]:
    """Return the options for logs of interactions."""
    return (
        CommandOption(
            "user", "COLUMN", "Column of the users; it makes the file a log, which trains a recommender. Its name, or "
            "its position from 0 in CSV and TSV without a header.", shown="user, if --item is given",
            refusals=NOT_OF_LINKS, **_events,
        ),
        CommandOption(
            "item", "COLUMN", "Column of the items: its name or position.", shown="item, if --user is given",
            refusals=NOT_OF_LINKS, **_events,
        ),
        CommandOption(
            "time", "COLUMN", "Column of the times: ISO dates and times, or numbers. A stream needs one.",
            shown="the column time or timestamp, if present", panel=LOGS, kinds=OF_LOGS | OF_EVENTS,
        ),
        CommandOption(
            "weight", "COLUMN", "Column of amounts, such as plays or ratings. Rows with 0 are left out. A held-out "
            "part decides whether items with larger amounts count more.", shown="each row is 1", **_log,
        ),
        flag(
            "keep_users", "Keep the names and histories of the users in the model, to recommend by name.",
            negatable=True, shown="--keep-users", sets="keep_users", **_log,
        ),
        CommandOption(
            "split", "SPLIT", "Predict a part of each history from the rest: last, time or random. For users that are "
            "not in the model.", commands=("evaluate",), shown="the file holds later events of known users",
            check=one_of("last", "time", "random"), **_log,
        ),
        flag(
            "baskets", "Each line is a basket: names of items, separated by commas or --delimiter.",
            commands=("predict",), default=False, **_log,
        ),
        flag("include_seen", "Also recommend known items.", commands=("evaluate", "predict"), default=False, **_log),
        CommandOption(
            "only", "ITEMS", "Recommend only these items: a file with a name on each line, or names separated by "
            "commas or --delimiter.", commands=("predict",), shown="all items", **_log,
        ),
        CommandOption(
            "exclude", "ITEMS", "Never recommend these items; as for --only.", commands=("predict",), shown="none",
            **_log,
        ),
    )


def stream_options() -> tuple[CommandOption, ...]:
    """Return the options for streams of events."""
    return (
        CommandOption(
            "source", "COLUMN", "Column of the sources of links: its name or position. --target names the "
            "column of the targets.", shown="source",
            refusals=NOT_OF_USERS, **_links,
        ),
        CommandOption(
            "event_features", "COLUMN", "Column that describes an event: numbers, or else categories. Repeat the "
            "option for several.", type=list[str], shown="none", check=check.columns, **_of_events,
        ),
        path(
            "item_features", "FILE", "Table with the column of the items, and columns that describe them.",
            commands=("train", "update"), shown="none", **_stream,
        ),
        flag("sort", "Sort the events by time.", commands=SORTED, default=False, **_of_events),
        flag("mutual", "Users and items, or sources and targets, are the same things.", default=None, sets="mutual",
             **_of_events),
        number("history", 1, 48, "Distinct items remembered of each user.", shown="20", sets="history", **_stream),
        number("refresh", 1, MAX_INT, "Learn from a state up to N events old.", shown="1", sets="refresh", **_stream),
        *(
            number(
                f"max_{noun}s", 2, MAX_INT, f"The most {noun}s that are remembered; those without events for the "
                "longest time are forgotten.", shown="a million", sets=f"max_{noun}s", panel=STREAMS, kinds=kinds,
            )
            for noun, kinds in (("user", OF_STREAMS), ("item", OF_STREAMS), ("node", OF_LINKS))
        ),
        number("memory", 2, MAX_INT, "Units of the memory of a node, an even number.", shown="100", sets="memory",
               **_links),
        flag(
            "train", "Learn the weights from later events, too. Memory and neighbors always learn.", negatable=True,
            commands=("evaluate", "update"), shown="--train", **_links,
        ),
        flag(
            "ranking", "Rank the target of each link among all known ones, which takes longest.", negatable=True,
            commands=("evaluate",), shown="--ranking", **_links,
        ),
    )


def mixed_options() -> tuple[CommandOption, ...]:
    """Return the options for tables with mixed columns."""
    return (
        CommandOption(
            "types", "NAME=TYPE,...", "Correct the inferred types of columns: number, category, categories, date, "
            "text, ids or ignore. Takes a JSON object, too.", check=check.types, **_mixed,
        ),
    )
# fmt: on
