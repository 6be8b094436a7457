"""The command line: ``sparsenet train | evaluate | predict | info | demo``.

Results go to stdout, everything else to stderr. Exit status: 0; 1 for bad data or a bad model, with one line that says
what is wrong; 2 for wrong usage; 130 after Ctrl-C.
"""

from __future__ import annotations

import json as json_format
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import typer

app = typer.Typer(
    help="Classifiers with up to millions of labels, trained on ordinary CPUs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Model = Annotated[Path, typer.Argument(help="Directory of a trained model.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Write one JSON object to stdout.")]
Threads = Annotated[int | None, typer.Option(min=1, max=1024, help="Threads.", show_default="all CPUs")]
BatchRows = Annotated[int, typer.Option(min=1, max=1 << 20, help="Points that are read and scored at a time.")]
Format = Annotated[
    Literal["auto", "xmc", "svmlight"],
    typer.Option(help="Format of the input: by default, what its first line looks like."),
]
TextFormat = Annotated[
    Literal["auto", "xmc", "svmlight", "lines", "csv", "tsv", "jsonl"],
    typer.Option(help="Format of the input: by default, what its name or its first line looks like; of texts, lines."),
]
TextColumn = Annotated[str | None, typer.Option("--text", help="Column of the texts in a table.", show_default="text")]
TargetColumn = Annotated[
    str | None, typer.Option("--target", help="Column of the labels in a table.", show_default="label")
]
LabelDelimiter = Annotated[
    str | None, typer.Option(help="What separates several labels in a column.", show_default="one label a text")
]
ExcludeSeen = Annotated[
    bool,
    typer.Option(
        "--exclude-seen", help="Recommend nothing new that is old: feature i is label i, and never predicted."
    ),
]


@app.command(epilog="Example:  sparsenet train train.txt.xz --model tagger --valid valid.txt.xz")
def train(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="TRAIN",
            help="Training points in XMC-repository or svmlight format; or texts: a CSV, TSV, JSONL or Parquet table, "
            "or lines that begin with __label__NAME. Plain or as .gz, .xz, .bz2, .zst; - for stdin (points).",
            show_default=False,
        ),
    ],
    model: Annotated[Path, typer.Option(help="Directory to save the model in.", show_default=False)],
    valid: Annotated[
        Path | None, typer.Option(help="Points to measure each epoch on; the best epoch is kept.", show_default=False)
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Passes over the data.", show_default="5 to 7, more on small data")
    ] = None,
    hidden: Annotated[
        int | None,
        typer.Option(min=0, max=1 << 16, help="Units of the hidden layer; 0: wide path alone.", show_default="256"),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, max=1 << 20, help="Points a step.", show_default="256")
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(min=0, max=1e3, help="Rate of the deep path's optimizer.", show_default="0.004")
    ] = None,
    negatives: Annotated[
        int | None, typer.Option(min=1, help="Labels computed beside the true ones in a batch.", show_default="4096")
    ] = None,
    sampler: Annotated[
        Literal["random", "frequency", "lsh", "none"] | None,
        typer.Option(help="What chooses them; none computes all labels.", show_default="random"),
    ] = None,
    loss: Annotated[Literal["bce", "softmax"] | None, typer.Option(help="Loss.", show_default="bce")] = None,
    patience: Annotated[
        int | None,
        typer.Option(min=1, help="Stop after so many epochs without a better P@1.", show_default="never"),
    ] = None,
    memory_limit: Annotated[
        str | None, typer.Option(help="Refuse to use more, e.g. 8GB.", show_default="what is available")
    ] = None,
    time_budget: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            max=1e9,
            help="Seconds that training may take; for texts, the search for settings.",
            show_default="what the epochs take",
        ),
    ] = None,
    threads: Threads = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Decides everything random.")] = 0,
    format: Format = "auto",
    features: Annotated[
        int | None, typer.Option(min=1, help="Number of features, if svmlight files do not show all.", show_default="")
    ] = None,
    labels: Annotated[
        int | None, typer.Option(min=1, help="Number of labels, if svmlight files do not show all.", show_default="")
    ] = None,
    checkpoint: Annotated[
        bool,
        typer.Option(help="Keep the state of the run in MODEL.checkpoint for --resume, after epochs and on Ctrl-C."),
    ] = True,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where an interrupted run of the same kind was.")
    ] = False,
    text: TextColumn = None,
    target: TargetColumn = None,
    label_delimiter: LabelDelimiter = None,
    json: Json = False,
) -> None:
    """Train a model and save it. Ctrl-C stops, and saves what was learnt so far."""
    chosen = {
        "epochs": epochs,
        "hidden": hidden,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "n_negatives": negatives,
        "time_budget": time_budget,
        "sampler": sampler,
        "loss": loss,
        "patience": patience,
        "memory_limit": memory_limit,
        "n_jobs": threads,
    }
    with _errors_reported():
        from sparsenet.cli import commands, texts

        if texts.is_text_file(data):
            given = {name: value for name, value in chosen.items() if value is not None}
            if extra := [name for name in given if name not in ("epochs", "n_jobs", "time_budget")]:
                raise typer.BadParameter(f"a model of texts has no {extra[0].replace('n_', '')}: leave it out")
            source = texts.TextSource(data, text or "text", target or "label", label_delimiter)
            result = texts.train(source, model, valid, given | {"random_state": seed})
            _show(result, json, texts.describe_training(result))
            return
        summary = commands.train(
            commands.Source(data, format=format, n_features=features, n_labels=labels),
            model,
            valid,
            {name: value for name, value in chosen.items() if value is not None} | {"random_state": seed},
            checkpoint=checkpoint,
            resume=resume,
        )
        _show(summary, json, commands.describe_training(summary))
    if summary["interrupted"]:
        raise typer.Exit(130)


@app.command(epilog="Example:  sparsenet evaluate tagger test.txt.xz --k 1,3,5 --json")
def evaluate(
    model: Model,
    data: Annotated[Path, typer.Argument(metavar="TEST", help="Labelled points; - for stdin.", show_default=False)],
    k: Annotated[str, typer.Option(help="Where P@k, nDCG@k and PSP@k are measured.", metavar="K,...")] = "1,3,5",
    exclude_seen: ExcludeSeen = False,
    batch_size: BatchRows = 4096,
    threads: Threads = None,
    format: Format = "auto",
    text: TextColumn = None,
    target: TargetColumn = None,
    label_delimiter: LabelDelimiter = None,
    json: Json = False,
) -> None:
    """Measure a model on labelled points: P@k, nDCG@k, propensity-scored PSP@k and recall@100."""
    ks = _numbers(k)
    with _errors_reported():
        from sparsenet.cli import commands, texts

        if texts.is_text_model(model):
            table = texts.TextSource(data, text or "text", target or "label", label_delimiter)
            scores = texts.evaluate(model, table, ks, threads=threads)
        else:
            source = commands.Source(data, format=format, batch_rows=batch_size)
            scores = commands.evaluate(model, source, ks, exclude_seen=exclude_seen, threads=threads)
        _show(scores, json, commands.describe_scores(scores))


@app.command(epilog="Example:  sparsenet predict tagger new.txt --k 3 | head")
def predict(
    model: Model,
    data: Annotated[
        Path, typer.Argument(metavar="[FILE|-]", help="Points, labelled or not; - for stdin.", show_default=False)
    ] = Path("-"),
    k: Annotated[int, typer.Option(min=1, help="Labels a point.")] = 5,
    format: Annotated[
        Literal["tsv", "jsonl"],
        typer.Option(help='A line a point, best label first: "label:probability" by tabs, or a JSON object.'),
    ] = "tsv",
    exclude_seen: ExcludeSeen = False,
    batch_size: BatchRows = 1024,
    threads: Threads = None,
    input_format: TextFormat = "auto",
    text: TextColumn = None,
) -> None:
    """Predict the best labels of each point, in the order of the input, in memory that does not grow with it."""
    with _errors_reported():
        from sparsenet.cli import commands, texts

        if texts.is_text_model(model):
            table = texts.TextSource(data, text or "text", format=input_format, batch_rows=batch_size)
            answers = texts.predict(model, table, k, format, threads=threads)
        elif input_format not in ("auto", "xmc", "svmlight"):
            raise typer.BadParameter(f"{model} is a model of sparse points, not of texts", param_hint="--input-format")
        else:
            source = commands.Source(data, format=input_format, batch_rows=batch_size)
            answers = commands.predict(model, source, k, format, exclude_seen=exclude_seen, threads=threads)
        for lines in answers:
            sys.stdout.write(lines)
            sys.stdout.flush()


@app.command()
def info(json: Json = False) -> None:
    """Say what sparsenet runs on: version, kernels, instruction set, threads, memory, and what is missing."""
    from sparsenet.cli import info as report

    found = report.collect()
    _show(found, json, report.describe(found))


@app.command()
def demo(
    interactive: Annotated[bool, typer.Option("--interactive", help="Ask for questions afterwards.")] = False,
    output: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path("demo-output"),
    threads: Threads = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Decides everything random.")] = 0,
) -> None:
    """Learn the docstrings of the installed scientific Python packages, and answer questions with their functions."""
    with _errors_reported():
        from sparsenet import demo as show

        show.run(output, interactive=interactive, threads=threads, seed=seed)


def main() -> None:
    """Run the command line."""
    try:
        app(prog_name="sparsenet")
    except KeyboardInterrupt:  # before or after a command's own care
        sys.exit(130)


def _numbers(text: str) -> list[int]:
    try:
        numbers = [int(word) for word in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise typer.BadParameter(
            f"expected whole numbers from 1 on, separated by commas, got {text!r}", param_hint="--k"
        )
    return numbers


def _show(result: dict[str, Any], as_json: bool, text: str) -> None:
    print(json_format.dumps(result) if as_json else text, flush=True)


@contextmanager
def _errors_reported() -> Iterator[None]:
    """Turn what may go wrong into one line and an exit status."""
    warnings.showwarning = _show_warning
    try:
        yield
    except KeyboardInterrupt:
        print("sparsenet: interrupted", file=sys.stderr)
        raise typer.Exit(130) from None
    except BrokenPipeError:
        _close_stdout()
    except (ValueError, ArithmeticError, MemoryError, OSError, ImportError) as error:
        _fail(error)


def _fail(error: Exception) -> NoReturn:
    text = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.filename is not None:
        text = f"{os.fspath(error.filename)}: {error.strerror}"
    print(f"sparsenet: error: {' '.join(text.split())}", file=sys.stderr)
    raise typer.Exit(1)


def _close_stdout() -> None:
    """Stop quietly where nobody reads on; Python would complain once more when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"sparsenet: warning: {message}", file=sys.stderr)
