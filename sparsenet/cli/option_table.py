"""The option table: every option of every command. Signatures, checks and parameters are derived from it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from sparsenet.cli import option_values as check
from sparsenet.cli.command_option import (
    BESIDE,
    EVERY,
    NO_CACHE,
    NOT_COMPACT,
    NOT_FOR_POINTS,
    NOT_OF_STREAMS,
    NOUNS,
    OF_BLENDS,
    OF_CLASSIFIERS,
    OF_EVENTS,
    OF_LOGS,
    OF_NETWORKS,
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

#: Panels of the help, in its order. Options without a panel come first.
POINTS = "Sparse points"
TABLES = "CSV and other tables of text"
LOGS = "Log of interactions (--user and --item)"
STREAMS = "Stream of events (--method next-item)"
MIXED = "Tables with mixed columns (--target without --text)"
TEXT = "Raw text (--method linear, network, blend or auto)"
NETWORKS = "Network of sparse points (--method network or blend)"
TREES = "Tree and blend (--method tree or blend)"
MACHINE = "Machine and time"


def options_of(command: str) -> list[CommandOption]:
    """Return the options of a command."""
    return [option for option in table() if command in option.commands]


READING = ("train", "evaluate", "predict", "compress")
LABELLED = ("train", "evaluate", "compress")
FORMATS = ("auto", "xmc", "svmlight", "lines", "csv", "tsv", "jsonl")
FORMAT_HELP = (
    f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}. auto uses the file name, then the first line. "
    "A text model reads a file without a known suffix as lines."
)
TEXT_FORMAT_HELP = "auto, lines, csv, tsv or jsonl. auto uses the file name; without a known suffix it means lines."
TRAIN_HELP = (
    "Training data. Sparse points: XMC-repository or svmlight format, or a SciPy matrix (.npz, with --labels-file). "
    "Text: a CSV, TSV, JSONL or Parquet table, or lines that start with __label__NAME. "
    "Files may be compressed (.gz, .xz, .bz2, .zst); - reads stdin."
)
TSV_HELP = (
    'tsv: one line per answer, best label first, as "label:probability" separated by tabs. Tabs, newlines, backslashes '
    r"and control characters in a label are escaped as \t, \n, \r, \\ and \xNN. jsonl: one JSON object per answer."
)
#: Fields that the options of a panel share.
_points: dict[str, Any] = {"panel": POINTS, "kinds": OF_POINTS}
_text: dict[str, Any] = {"panel": TEXT, "kinds": OF_TEXT}
_table: dict[str, Any] = {"panel": TABLES, "kinds": OF_TEXT, "refusals": NOT_FOR_POINTS}
_labelled: dict[str, Any] = _table | {"kinds": OF_TEXT | OF_TABLES}
_delimited: dict[str, Any] = _table | {"kinds": OF_TEXT | OF_LOGS | OF_EVENTS | OF_TABLES}
_mixed: dict[str, Any] = {"panel": MIXED, "kinds": OF_TABLES}
_log: dict[str, Any] = {"panel": LOGS, "kinds": OF_LOGS}
_events: dict[str, Any] = {"panel": LOGS, "kinds": OF_LOGS | OF_STREAMS}
_stream: dict[str, Any] = {"panel": STREAMS, "kinds": OF_STREAMS}
_network: dict[str, Any] = {"panel": NETWORKS, "kinds": OF_NETWORKS}
_blend: dict[str, Any] = {"panel": TREES, "kinds": OF_BLENDS}
_limit: dict[str, Any] = {"panel": MACHINE, "kinds": OF_NETWORKS | OF_TEXT}
_argument: dict[str, Any] = {"argument": True, "default": ..., "kinds": EVERY}


# One call a row: reading the table is easier in few lines.
# fmt: off
@cache
def table() -> tuple[CommandOption, ...]:
    """Return all options of all commands, in the order of the help."""
    return (
        # --- arguments ---
        path("data", "TRAIN", TRAIN_HELP, **_argument),
        path("model", "MODEL", "Directory of a trained model.", commands=READING[1:], **_argument),
        path("model", "[MODEL]", "Directory of a trained model.", commands=("info",), argument=True, kinds=EVERY),
        path("data", "TEST", "Labelled data, in any format that train reads.", commands=("evaluate",), **_argument),
        path(
            "data", "[FILE|-]", "Points or text, with or without labels; - reads stdin.", commands=("predict",),
            argument=True, default=Path("-"), kinds=EVERY,
        ),
        CommandOption(
            "what", "[texts|tables|log]", "The demo: texts, tables or log.", commands=("demo",), argument=True,
            default="texts", check=one_of("texts", "tables", "log"),
        ),
        # --- the options that most people need ---
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
        CommandOption(
            "method", "METHOD", "Text: auto, linear, network or blend. Sparse points: blend, network or tree. A blend "
            "combines a tree, a network and nearest neighbors. Tables with mixed columns: table, or one of boosting, "
            "linear, blend, network and tree. Log: next-item learns from each event what a user takes next.",
            shown="auto for text, by the number of texts and labels; blend for sparse points; the best for a table",
            check=one_of("auto", "linear", "network", "tree", "blend", "boosting", "table", "next-item"),
            sets="method", kinds=OF_CLASSIFIERS | OF_STREAMS | OF_TABLES,
        ),
        CommandOption(
            "k", "K,...", "Ranks at which P@k, nDCG@k, PSP@k and recall@k are measured.", commands=("evaluate",),
            default="1,3,5", check=check.ranks, kinds=NOT_OF_STREAMS,
        ),
        number("k", 1, MAX_INT, "Labels per answer.", commands=("predict",), default=5, kinds=EVERY - {"links"}),
        *(
            CommandOption(
                "format", "FORMAT", help, commands=commands, default="auto", check=one_of(*FORMATS), kinds=EVERY
            )
            for help, commands in ((FORMAT_HELP, ("train", "evaluate")), (TEXT_FORMAT_HELP, ("compress",)))
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
            shown="the column that the model was trained on, or text", essential=True, check=check.columns, **_table,
        ),
        CommandOption(
            "target", "COLUMN", "Column of the labels in a table: its name or position.", commands=LABELLED,
            shown="the column that the model was trained on, or label", essential=True, **_labelled,
        ),
        CommandOption(
            "label_delimiter", "TEXT", "Separator of several labels in one cell.", commands=LABELLED,
            shown="one label per text", essential=True, check=check.label_delimiter, **_labelled,
        ),
        number(
            "epochs", 1, MAX_INT, "Passes over the data; an upper limit for a tree and for a linear text model.",
            shown="5 to 8 for a network, more on small data; 7 for a tree; 10 for a linear text model", sets="epochs",
        ),
        *(
            number(
                "batch_size", 1, 1 << 20, "Points or texts scored at a time.", commands=(command,), default=size,
                kinds=EVERY,
            )
            for command, size in (("evaluate", 4096), ("predict", 1024))
        ),
        number(
            "threads", 1, 1024, "Number of threads.", commands=(*READING, "demo"), shown="all CPUs", sets="n_jobs",
            kinds=EVERY,
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
            sets="random_state", kinds=NOT_OF_STREAMS,
        ),
        flag("json", "Write one JSON object to stdout.", commands=(*LABELLED, "info"), default=False, kinds=EVERY),
        # --- sparse points ---
        path(
            "labels_file", "FILE", "Separate file of labels: a matrix with one row per point, as SciPy's .npz or as "
            "lines `label:1 ...` under a header `rows labels`. The points must be such a matrix too.",
            commands=("train", "evaluate"), shown="labels are in the rows of the points", refusals=BESIDE, **_points,
        ),
        path(
            "valid_labels_file", "FILE", "Separate file of labels for --valid.",
            shown="labels are in the rows of the points", refusals=BESIDE, needs_valid="whose labels these are",
            **_points,
        ),
        *(
            number(
                f"{noun}s", 1, MAX_INT, f"Number of {noun}s, if the svmlight files do not contain the last one.",
                refusals={"text": f"a text model counts its {noun}s itself: leave it out"}, **_points,
            )
            for noun in ("feature", "label")
        ),
        CommandOption(
            "normalize", "SCALING", "Scaling of points. rows: for counts. columns: each column by itself, for tables. "
            "together: all columns alike, for embeddings. mixed: for numbers next to categories. none: no scaling.",
            shown="auto, by the values of the points", sets="normalize",
            check=one_of("auto", "rows", "columns", "together", "mixed", "none"), **_points,
        ),
        # --- raw text ---
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
        # --- tables of text ---
        flag(
            "header", "The first row of CSV or TSV contains the column names.", negatable=True,
            commands=READING, shown="yes, if columns are given by name", **_labelled,
        ),
        flag(
            "quotes", "Fields of CSV or TSV may be in double quotes.", negatable=True, commands=READING,
            shown="yes; in TSV only fields that end in their line", **_delimited,
        ),
        CommandOption(
            "delimiter", "CHARACTER", "Separator of fields in CSV or TSV, such as ';' or '|'.", commands=READING,
            shown="a comma; a tab in TSV", check=check.delimiter, **_delimited,
        ),
        CommandOption(
            "encoding", "NAME", "Encoding of CSV or TSV, such as latin-1 or cp1252.", commands=READING, shown="utf-8",
            check=check.encoding, **_delimited,
        ),
        CommandOption(
            "decimal", "MARK", "Decimal mark of numbers in CSV or TSV: '.' or ','.", shown="a point",
            commands=READING[:3], check=one_of(".", ","), **_delimited | {"kinds": OF_LOGS | OF_EVENTS | OF_TABLES},
        ),
        # --- logs of interactions ---
        CommandOption(
            "user", "COLUMN", "Column of the users; it makes the file a log, which trains a recommender. Its name, or "
            "its position from 0 in CSV and TSV without a header.", shown="user, if --item is given", **_events,
        ),
        CommandOption(
            "item", "COLUMN", "Column of the items: its name or position.", shown="item, if --user is given", **_events
        ),
        CommandOption(
            "time", "COLUMN", "Column of the times: ISO dates and times, or numbers.",
            shown="the column time or timestamp, if present", **_events,
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
        # --- streams of events ---
        flag("sort", "Sort the events by time.", commands=READING[:2], default=False, panel=STREAMS, kinds=OF_EVENTS),
        number("history", 1, 48, "Distinct items remembered of each user.", shown="20", sets="history", **_stream),
        number("refresh", 1, MAX_INT, "Learn from a state up to N events old.", shown="1", sets="refresh", **_stream),
        flag("mutual", "Users and items are the same things.", default=None, sets="mutual", **_stream),
        # --- tables with mixed columns ---
        CommandOption(
            "types", "NAME=TYPE,...", "Correct the inferred types of columns: number, category, categories, date, "
            "text, ids or ignore. Takes a JSON object, too.", check=check.types, **_mixed,
        ),
        # --- networks ---
        number(
            "hidden", 0, 1 << 16, "Units of the hidden layer; 0 uses the wide path alone.",
            shown="256, or what fits and helps", sets="hidden", **_network,
        ),
        number("batch_size", 1, 1 << 20, "Points per step.", shown="256 to 1024", sets="batch_size", **_network),
        CommandOption(
            "learning_rate", "RATE", "Learning rate of the deep path: above 0, at most 1000.", type=float,
            shown="0.004 to 0.008; 0.012 to 0.024 for dense points", check=check.learning_rate, sets="learning_rate",
            **_network,
        ),
        number("negatives", 1, MAX_INT, "Negatives sampled per batch.", shown="256", sets="n_negatives", **_network),
        number(
            "wide_budget", 1, MAX_INT, "Maximum features per label in the wide path.",
            shown="1024; 256 in a blend; fewer if memory or time is short", sets="wide_budget", **_network,
        ),
        CommandOption(
            "sampler", "SAMPLER", "Sampler of negatives: random, frequency, lsh or none. none computes all labels.",
            shown="random", check=one_of("random", "frequency", "lsh", "none"), sets="sampler", **_network,
        ),
        CommandOption(
            "loss", "LOSS", "Loss function: bce (binary cross-entropy) or softmax.", shown="bce",
            check=one_of("bce", "softmax"), sets="loss", **_network,
        ),
        number(
            "patience", 1, MAX_INT, "Stop after N epochs without a better P@1. Needs --valid; not in a blend.",
            shown="never", sets="patience", needs_valid="to measure each epoch on", panel=NETWORKS,
            kinds=frozenset({"network"}),
        ),
        flag(
            "checkpoint", "Save the state of training in MODEL.checkpoint for --resume: epochs of a network, also on "
            "Ctrl-C, and levels of a tree.", negatable=True, shown="yes, if it can be written", **_points,
            refusals={kind: f"a {noun} has no checkpoints" for kind, noun in NOUNS.items()},
        ),
        flag(
            "resume", "Continue an interrupted run with the same data and options.", default=False, **_points,
            refusals={kind: f"a {noun} has no checkpoints to resume from" for kind, noun in NOUNS.items()},
        ),
        flag(
            "compact", "Save a network in 8 bits, in a quarter of the space.", default=False, panel=NETWORKS,
            kinds=OF_NETWORKS | OF_BLENDS, refusals=NOT_COMPACT,
        ),
        # --- trees and blends ---
        flag(
            "network", "Train the network of a blend. Without it training takes a fraction of the time.",
            negatable=True, shown="--network", sets="network", **_blend,
            refusals={"points": "--network and --no-network are for --method blend"},
        ),
        number(
            "cost", 1e-6, 1e6, "Cost of an error of the tree, lower for noisy labels. Also for linear text models.",
            type=float, shown="0.5 for a tree, 1 for text", sets="cost", panel=TREES,
            kinds=OF_BLENDS | {"tree", "text"},
        ),
        number(
            "beam", 1, MAX_INT, "Tree nodes followed per level for each point.", shown="10", sets="beam", panel=TREES,
            kinds=OF_BLENDS | {"tree"},
        ),
        number(
            "candidates", 1, MAX_INT, "Labels that the tree of a blend proposes for each point.",
            shown="32, or 128 where better", sets="candidates", **_blend,
        ),
        number(
            "neighbors", 0, MAX_INT, "Nearest training points that vote in a blend; with 0 the model stores no points.",
            shown="50", sets="n_neighbors", **_blend,
        ),
        # --- machine and time ---
        number(
            "time_budget", 0.001, 1e9, "Time limit of training; not for a tree. For text it includes reading and a "
            "search for the best settings.", type=float, shown="no limit", metavar="SECONDS", sets="time_budget",
            **_limit,
        ),
        CommandOption(
            "memory_limit", "BYTES", "Memory limit of training, such as 8GB (10^9 bytes each) or 8GiB (2^30). A larger "
            "network or tree is refused; large text features go to temporary files. Reading the data is not "
            "counted.", shown="the memory that is free", check=check.size, sets="memory_limit", panel=MACHINE,
            kinds=OF_BLENDS | OF_NETWORKS | OF_TEXT | {"tree"},
        ),
        path(
            "cache", "DIR", "Store sparse points, or the features of texts, there, and train from there. They may "
            "exceed memory, and further trainings on the same file reuse them.", panel=MACHINE, refusals=NO_CACHE,
        ),
        flag(
            "progress", "Show progress on stderr: a bar on a terminal, otherwise a line every ten seconds.",
            negatable=True, shown="yes, if stderr is a terminal", panel=MACHINE, kinds=EVERY,
        ),
    )
# fmt: on
