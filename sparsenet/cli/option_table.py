"""The option table: every option of every command. Signatures, checks and parameters are derived from it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from sparsenet.cli import data_options, training_options
from sparsenet.cli import option_values as check
from sparsenet.cli.command_option import (
    EVERY,
    NOT_OF_EVENTS,
    OF_CLASSIFIERS,
    OF_EVENTS,
    OF_LINKS,
    OF_POINTS,
    OF_TABLES,
    OF_TEXT,
    STREAM_METHODS,
    CommandOption,
    flag,
    number,
    path,
)
from sparsenet.cli.data_options import LABELLED, READING, of_labelled, of_tables
from sparsenet.cli.option_values import MAX_INT, one_of


def options_of(command: str) -> list[CommandOption]:
    """Return the options of a command."""
    return [option for option in table() if command in option.commands]


@cache
def table() -> tuple[CommandOption, ...]:
    """Return all options of all commands, in the order of the help."""
    return (
        *_arguments(),
        *_essential_options(),
        *data_options.point_options(),
        *data_options.text_options(),
        *data_options.table_options(),
        *data_options.log_options(),
        *data_options.stream_options(),
        *data_options.mixed_options(),
        *training_options.network_options(),
        *training_options.tree_options(),
        *training_options.machine_options(),
    )


FORMATS = ("auto", "xmc", "svmlight", "lines", "csv", "tsv", "jsonl")
FORMAT_HELP = (
    f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}. auto uses the file name, then the first line. "
    "A text model reads a file without a known suffix as lines."
)
TEXT_FORMAT_HELP = "auto, lines, csv, tsv or jsonl. auto uses the file name; without a known suffix it means lines."
FORMAT_HELPS = (
    (FORMAT_HELP, ("train", "evaluate")),
    (TEXT_FORMAT_HELP, ("compress",)),
    ("auto, csv, tsv or jsonl. auto uses the file name.", ("update",)),
)
TRAIN_HELP = (
    "Training data. Sparse points: XMC-repository or svmlight format, or a SciPy matrix (.npz, with --labels-file). "
    "Text: a CSV, TSV, JSONL or Parquet table, or lines that start with __label__NAME. "
    "Files may be compressed (.gz, .xz, .bz2, .zst); - reads stdin."
)
TSV_HELP = (
    'tsv: one line per answer, best label first, as "label:probability" separated by tabs. Tabs, newlines, backslashes '
    r"and control characters in a label are escaped as \t, \n, \r, \\ and \xNN. jsonl: one JSON object per answer."
)
_argument: dict[str, Any] = {"argument": True, "default": ..., "kinds": EVERY}


# One call a row: reading the table is easier in few lines.
# fmt: off
def _arguments() -> tuple[CommandOption, ...]:
    """Return the arguments of all commands."""
    return (
        path("data", "TRAIN", TRAIN_HELP, **_argument),
        path("model", "MODEL", "Directory of a trained model.", commands=(*READING[1:], "update"), **_argument),
        path("model", "[MODEL]", "Directory of a trained model.", commands=("info",), argument=True, kinds=EVERY),
        path("data", "LOG", "Events later than those of the model, as a table.", commands=("update",), **_argument),
        path("data", "TEST", "Labelled data, in any format that train reads.", commands=("evaluate",), **_argument),
        path(
            "data", "[FILE|-]", "Points or text, with or without labels; - reads stdin.", commands=("predict",),
            argument=True, default=Path("-"), kinds=EVERY,
        ),
        CommandOption(
            "what", "[texts|tables|log]", "The demo: texts, tables or log.", commands=("demo",), argument=True,
            default="texts", check=one_of("texts", "tables", "log"),
        ),
    )


def _essential_options() -> tuple[CommandOption, ...]:
    """Return the options that most people need."""
    return (
        path("model", "DIR", "Directory to save the model in.", default=..., kinds=EVERY),
        CommandOption(
            "max_bytes", "BYTES", "Size limit for the model files, such as 5MB.", commands=("compress",), default=...,
            check=check.size,
        ),
        path(
            "valid", "FILE", "Labelled data for validation. A network is measured after each epoch, and its best epoch "
            "is kept. Other models are measured once, after training.", kinds=EVERY,
        ),
        path("valid", "FILE", "Labelled text that training has not seen, to measure on.", commands=("compress",)),
        path("output", "DIR", "Directory to save the smaller model in.", commands=("compress",), shown="MODEL itself"),
        path("output", "DIR", "Directory to save the new model in.", commands=("update",), shown="MODEL itself",
             kinds=OF_EVENTS),
        CommandOption(
            "method", "METHOD", "Text: auto, linear, network or blend. Sparse points: blend, network or tree. A blend "
            "combines a tree, a network and nearest neighbors. Tables with mixed columns: table, or one of boosting, "
            "linear, blend, network and tree. Logs of events: next-item learns what a user takes next, and links how "
            "probable links between two nodes are.",
            shown="auto for text, by the number of texts and labels; blend for sparse points; the best for a table",
            check=one_of("auto", "linear", "network", "tree", "blend", "boosting", "table", *STREAM_METHODS),
            sets="method", kinds=OF_CLASSIFIERS | OF_EVENTS | OF_TABLES,
        ),
        CommandOption(
            "k", "K,...", "Ranks at which P@k, nDCG@k, PSP@k and recall@k are measured.", commands=("evaluate",),
            default="1,3,5", check=check.ranks, kinds=NOT_OF_EVENTS,
        ),
        number("k", 1, MAX_INT, "Labels per answer.", commands=("predict",), default=5, kinds=EVERY - OF_LINKS),
        *(
            CommandOption(
                "format", "FORMAT", help, commands=commands, default="auto", check=one_of(*FORMATS), kinds=EVERY
            )
            for help, commands in FORMAT_HELPS
        ),
        CommandOption(
            "format", "tsv|jsonl", TSV_HELP, commands=("predict",), default="tsv",
            check=one_of("tsv", "jsonl", advice="; --input-format sets the format of the input"), kinds=EVERY,
        ),
        CommandOption(
            "threshold", "P|learnt", "Leave out labels that are less probable than P; a line may then be empty. "
            "learnt: the threshold with the best F1 on held-out texts, for text models with several labels.",
            commands=("predict",), default="0", check=check.threshold, kinds=OF_CLASSIFIERS | OF_TABLES,
        ),
        flag(
            "exclude_seen", "Recommend only new items. Feature i must stand for label i; labels that a point has as "
            "features are left out.", commands=("evaluate", "predict"), default=False, kinds=OF_POINTS,
            refusals={"text": "the features of text are words, not labels that could be left out"},
        ),
        CommandOption(
            "input_format", "FORMAT", FORMAT_HELP, commands=("predict",), default="auto", check=one_of(*FORMATS),
            kinds=EVERY,
        ),
        CommandOption(
            "text", "COLUMN", "Column of the texts in a table: its name, or its position from 0. Repeat the option to "
            "join several columns.", type=list[str], commands=READING,
            shown="the column that the model was trained on, or text", essential=True, check=check.columns, **of_tables,
        ),
        CommandOption(
            "target", "COLUMN", "Column of the labels in a table, or of the targets of links: its name or position.",
            shown="label, or target for links", essential=True,
            **of_labelled | {"kinds": OF_TEXT | OF_TABLES | OF_LINKS},
        ),
        CommandOption(
            "target", "COLUMN", "Column of the labels in a table: its name or position.", commands=LABELLED[1:],
            shown="the column that the model was trained on", **of_labelled,
        ),
        CommandOption(
            "label_delimiter", "TEXT", "Separator of several labels in one cell.", commands=LABELLED,
            shown="one label per text", essential=True, check=check.label_delimiter, **of_labelled,
        ),
        number(
            "epochs", 1, MAX_INT, "Passes over the data; an upper limit for a tree and for a linear text model.",
            shown="5 to 8 for a network, more on small data; 7 for a tree; 10 for a linear text model; 1 for links",
            sets="epochs", kinds=OF_CLASSIFIERS | OF_LINKS,
        ),
        *(
            number(
                "batch_size", 1, 1 << 20, "Points, texts or questions answered at a time.", commands=(command,),
                default=size, kinds=kinds,
            )
            for command, size, kinds in (
                ("evaluate", 4096, OF_CLASSIFIERS | OF_TABLES), ("predict", 1024, EVERY - OF_LINKS),
            )
        ),
        number(
            "threads", 1, 1024, "Number of threads.", commands=(*READING, "update", "demo"), shown="all CPUs",
            sets="n_jobs", kinds=EVERY,
        ),
        path(
            "plot", "FILE", "Save a picture of calibration and confusions: .png, .svg or .pdf. Needs matplotlib.",
            commands=("evaluate",), check=check.picture,
        ),
        CommandOption(
            "propensity", "A,B", "Constants of PSP@k, which gives rare labels more weight: 0.6,2.6 for Amazon data "
            "sets, 0.5,0.4 for Wikipedia.", commands=("evaluate",), default="0.55,1.5", check=check.propensity,
            kinds=OF_CLASSIFIERS | OF_TABLES,
        ),
        flag("interactive", "Answer questions typed at a prompt afterwards.", commands=("demo",), default=False),
        path(
            "output", "DIR", "Directory for pictures and files.", commands=("demo",), default=Path("demo-output"),
            shown="demo-output",
        ),
        number(
            "seed", 0, 2**32 - 1, "Seed of all random numbers.", commands=("train", "demo"), default=0,
            sets="random_state", kinds=NOT_OF_EVENTS | OF_LINKS,
        ),
        flag("json", "Write one JSON object to stdout.", commands=(*LABELLED, "info", "update"), default=False,
             kinds=EVERY),
    )
# fmt: on
