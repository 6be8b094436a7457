"""The options of the commands."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from sparsenet.cli import checks
from sparsenet.cli.checks import MOST

#: Panels of the help: in those of `train` are the options of the methods that they name, and of no other unless the
#: option's own words say so.
DATA, TABLES = "Data", "Tables of texts"
NETWORKS = "Networks (--method network, and the network of a blend)"
TREES = "Trees (--method tree, and the tree of a blend)"
BLENDS = "Blends (--method blend, which is what points get unless told otherwise)"
TEXTS = "Texts (--method linear, network or auto)"
_of_data, _of_tables, _of_networks, _of_trees, _of_blends, _of_texts = (
    partial(typer.Option, rich_help_panel=panel) for panel in (DATA, TABLES, NETWORKS, TREES, BLENDS, TEXTS)
)

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Directory of a trained model.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Write one JSON object to stdout.")]
Threads = Annotated[int | None, typer.Option(min=1, max=1024, help="Threads.", show_default="all CPUs")]
BatchRows = Annotated[int, typer.Option(min=1, max=1 << 20, help="The most points or texts that are scored at a time.")]
Format = Annotated[
    Literal["auto", "xmc", "svmlight", "lines", "csv", "tsv", "jsonl"],
    _of_data(
        help="Format of the input: by default, what its name or its first line looks like; for a model of texts, lines."
    ),
]
TextColumn = Annotated[
    list[str] | None,
    _of_tables(
        "--text",
        metavar="COLUMN",
        help="Column of the texts in a table: its name, or its position from 0; once for each of several, which are "
        "joined.",
        show_default="that which a trained model knows, or text",
    ),
]
TargetColumn = Annotated[
    str | None,
    _of_tables("--target", help="Column of the labels in a table, likewise.", show_default="likewise; label"),
]
LabelDelimiter = Annotated[
    str | None,
    _of_tables(
        callback=checks.delimiter, help="What separates several labels in a column.", show_default="one label a text"
    ),
]
Header = Annotated[
    bool | None,
    _of_tables(
        "--header/--no-header",
        help="Whether the first row of CSV or TSV holds the names of columns.",
        show_default="if columns are called by name",
    ),
]
Quotes = Annotated[
    bool | None,
    _of_tables(
        "--quotes/--no-quotes",
        help="Whether fields of CSV or TSV may be in double quotes.",
        show_default="yes; in TSV, if they end in their line",
    ),
]

Delimiter = Annotated[
    str | None,
    _of_tables(
        callback=checks.separator,
        metavar="CHARACTER",
        help="What separates the fields of CSV or TSV, as ';' or '|'.",
        show_default="a comma, in TSV a tab",
    ),
]
Encoding = Annotated[
    str | None,
    _of_tables(
        metavar="NAME",
        callback=checks.encoding,
        help="Of CSV or TSV, as latin-1 or cp1252.",
        show_default="utf-8",
    ),
]

Propensity = Annotated[
    str,
    typer.Option(
        metavar="A,B",
        callback=checks.propensity,
        help="Constants of PSP@k, by which rare labels count more: 0.6,2.6 for sets of Amazon, 0.5,0.4 for Wikipedia.",
    ),
]
Plot = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        callback=checks.picture,
        help="Draw calibration and confusions: .png, .svg or .pdf. Needs matplotlib.",
        show_default=False,
    ),
]
Threshold = Annotated[
    str,
    typer.Option(
        metavar="PROBABILITY|learnt",
        callback=checks.threshold,
        help="Leave labels out that are less probable; a line may be empty then. learnt: than where a model of texts "
        "with several labels was best on texts held out.",
    ),
]
ExcludeSeen = Annotated[
    bool,
    typer.Option(
        "--exclude-seen", help="Recommend nothing new that is old: feature i is label i, and never predicted."
    ),
]

# --- of train alone ---

Train = Annotated[
    Path,
    typer.Argument(
        metavar="TRAIN",
        help="Training points in XMC-repository or svmlight format, or a SciPy matrix (.npz, with --labels-file); or "
        "texts: a CSV, TSV, JSONL or Parquet table, or lines that begin with __label__NAME. Plain or as .gz, .xz, "
        ".bz2, .zst; - for stdin.",
        show_default=False,
    ),
]
Saved = Annotated[Path, typer.Option(help="Directory to save the model in.", show_default=False)]
Valid = Annotated[
    Path | None,
    typer.Option(
        help="Points to measure on: each epoch of a network, of which the best is kept; a tree or blend once, when "
        "trained.",
        show_default=False,
    ),
]
Epochs = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=MOST,
        help="Passes over the data; of a tree and of linear models of texts, at most.",
        show_default="of a network 5 to 8, more on small data; of a tree 7, of linear models of texts 10",
    ),
]
Hidden = Annotated[
    int | None,
    _of_networks(
        min=0,
        max=1 << 16,
        help="Units of the hidden layer; 0: wide path alone.",
        show_default="256, or what fits and pays",
    ),
]
BatchSize = Annotated[int | None, _of_networks(min=1, max=1 << 20, help="Points a step.", show_default="256 to 1024")]
LearningRate = Annotated[
    float | None,
    _of_networks(
        callback=checks.rate,
        help="Rate of the deep path's optimizer: above 0, at most 1000.",
        show_default="0.004 to 0.008, of dense points 0.012 to 0.024",
    ),
]
Negatives = Annotated[
    int | None,
    _of_networks(min=1, max=MOST, help="Labels computed beside the true ones in a batch.", show_default="256"),
]
WideBudget = Annotated[
    int | None,
    _of_networks(
        min=1, max=MOST, help="Most features a label holds in the wide path.", show_default="1024, or what fits"
    ),
]
SamplerName = Annotated[
    Literal["random", "frequency", "lsh", "none"] | None,
    _of_networks(help="What chooses the negatives; none computes all labels.", show_default="random"),
]
LossName = Annotated[Literal["bce", "softmax"] | None, _of_networks(help="Loss.", show_default="bce")]
Patience = Annotated[
    int | None,
    _of_networks(
        min=1,
        max=MOST,
        help="With --valid, not in a blend: stop after so many epochs without a better P@1.",
        show_default="never",
    ),
]
MemoryLimit = Annotated[
    str | None,
    typer.Option(
        metavar="BYTES",
        callback=checks.size,
        help="Memory that training may take, as 8GB (10^9 bytes each) or 8GiB (2^30); a network that needs more is "
        "refused before it is trained, large features of texts go to temporary files. What reading the data takes is "
        "not counted.",
        show_default="the memory that is free",
    ),
]
TimeBudget = Annotated[
    float | None,
    typer.Option(
        min=0.001,
        max=1e9,
        help="Seconds that training may take, by all methods but tree; for texts, with reading and a search.",
        show_default="what the epochs take",
    ),
]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Decides everything random.")]
Features = Annotated[
    int | None,
    _of_data(min=1, max=MOST, help="Number of features, if svmlight files do not show all.", show_default=False),
]
Labels = Annotated[
    int | None,
    _of_data(min=1, max=MOST, help="Number of labels, if svmlight files do not show all.", show_default=False),
]
LabelsFile = Annotated[
    Path | None,
    _of_data(
        metavar="FILE",
        help="Labels of the points, where these have a file of their own: a matrix of as many rows, SciPy's .npz or "
        "lines `label:1 ...` under a header `rows labels`. The points are such a matrix, too.",
        show_default="in the rows of the points",
    ),
]
ValidLabelsFile = Annotated[
    Path | None, _of_data(metavar="FILE", help="Likewise, of --valid.", show_default="in the rows of the points")
]
Checkpoint = Annotated[
    bool | None,
    _of_networks(
        "--checkpoint/--no-checkpoint",
        help="Keep the state of training in MODEL.checkpoint for --resume, after epochs and on Ctrl-C.",
        show_default="if it can be written",
    ),
]
Resume = Annotated[bool, _of_networks("--resume", help="Go on where an interrupted run of the same kind was.")]
Progress = Annotated[
    bool | None,
    typer.Option(
        "--progress/--no-progress",
        help="Show on stderr how far training is: a bar on a terminal, else a line every ten seconds.",
        show_default="if stderr is a terminal",
    ),
]
Compact = Annotated[bool, _of_networks("--compact", help="Save in about half the room, by numbers of 8 and 16 bits.")]

# --- of train alone, for texts, trees and blends ---

Cost = Annotated[
    float | None,
    _of_trees(
        min=1e-6,
        max=1e6,
        help="Of an error, lower for noisy labels; of texts, too, but of no network.",
        show_default="1; of a tree, 0.5",
    ),
]
Beam = Annotated[
    int | None,
    _of_trees(min=1, max=checks.MOST, help="Nodes followed for a point.", show_default="10"),
]
Candidates = Annotated[
    int | None,
    _of_blends(
        min=1,
        max=checks.MOST,
        help="Labels the tree names for a point.",
        show_default="32, or 128 where better",
    ),
]
Neighbors = Annotated[
    int | None,
    _of_blends(
        min=0,
        max=checks.MOST,
        help="Training points that have a vote; 0, and the model does not hold them.",
        show_default="50",
    ),
]
Normalize = Annotated[
    Literal["auto", "rows", "columns", "together", "mixed", "none"] | None,
    _of_data(
        help="How points are scaled: rows, as of counts; columns of a table, one by one or all together; mixed, "
        "amounts beside categories.",
        show_default="auto: by what they hold",
    ),
]
Network = Annotated[
    bool | None,
    _of_blends(
        "--network/--no-network",
        help="Train a network beside the tree. Without it training takes a fraction of the time.",
        show_default="--network",
    ),
]
WordNgrams = Annotated[int | None, _of_texts(min=1, max=8, help="Runs of up to so many words.", show_default="2")]
CharNgrams = Annotated[
    str | None,
    _of_texts(
        metavar="LOW-HIGH|auto|none",
        callback=checks.lengths,
        help="Lengths of runs of characters in words.",
        show_default="3-5; 4 of more than 1 MiB; none of many long texts",
    ),
]
ClassWeight = Annotated[
    str | None,
    _of_texts(
        metavar="balanced|JSON",
        callback=checks.class_weight,
        help='balanced: rarer labels weigh more in training; or factors of labels, such as {"spam": 5}.',
        show_default="all texts weigh the same",
    ),
]
Method = Annotated[
    Literal["auto", "linear", "network", "tree", "blend"] | None,
    typer.Option(
        help="What learns: texts, auto, linear or network; points, network, tree, or both and neighbours in a blend.",
        show_default="of texts, by how many labels and texts there are; of points, blend",
    ),
]
ValidationFraction = Annotated[
    float | None,
    _of_texts(min=0, max=0.9, help="The share held out to measure on.", show_default="a tenth or less"),
]
