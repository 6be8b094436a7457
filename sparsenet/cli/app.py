"""The command line: ``sparsenet train | evaluate | predict | compress | info | demo``.

Results go to stdout, everything else to stderr. Exit status: 0; 1 for bad data or a bad model, with one line that says
what is wrong; 2 for wrong usage; 130 after Ctrl-C.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from sparsenet.cli import options
from sparsenet.cli.options import (
    MOST,
    BatchRows,
    ExcludeSeen,
    Format,
    Json,
    LabelDelimiter,
    Model,
    Plot,
    TargetColumn,
    TextColumn,
    Threads,
)
from sparsenet.cli.reporting import errors_reported, show
from sparsenet.cli.streams import watched_output

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        import sparsenet

        print(f"sparsenet {sparsenet.__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Say which version this is.")
    ] = False,
) -> None:
    """Classifiers with up to millions of labels, trained on ordinary CPUs."""


@app.command(epilog="Example:  sparsenet train train.txt.xz --model tagger --valid valid.txt.xz")
def train(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="TRAIN",
            help="Training points in XMC-repository or svmlight format; or texts: a CSV, TSV, JSONL or Parquet table, "
            "or lines that begin with __label__NAME. Plain or as .gz, .xz, .bz2, .zst; - for stdin.",
            show_default=False,
        ),
    ],
    model: Annotated[Path, typer.Option(help="Directory to save the model in.", show_default=False)],
    valid: Annotated[
        Path | None, typer.Option(help="Points to measure each epoch on; the best epoch is kept.", show_default=False)
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(min=1, max=MOST, help="Passes over the data.", show_default="5 to 8, more on small data"),
    ] = None,
    hidden: Annotated[
        int | None,
        typer.Option(min=0, max=1 << 16, help="Units of the hidden layer; 0: wide path alone.", show_default="256"),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, max=1 << 20, help="Points a step.", show_default="256")
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option(
            callback=options.rate,
            help="Rate of the deep path's optimizer: above 0, at most 1000.",
            show_default="0.004",
        ),
    ] = None,
    negatives: Annotated[
        int | None,
        typer.Option(min=1, max=MOST, help="Labels computed beside the true ones in a batch.", show_default="2048"),
    ] = None,
    wide_budget: Annotated[
        int | None,
        typer.Option(min=1, max=MOST, help="Most features a label holds in the wide path.", show_default="1024"),
    ] = None,
    sampler: Annotated[
        Literal["random", "frequency", "lsh", "none"] | None,
        typer.Option(help="What chooses them; none computes all labels.", show_default="random"),
    ] = None,
    loss: Annotated[Literal["bce", "softmax"] | None, typer.Option(help="Loss.", show_default="bce")] = None,
    patience: Annotated[
        int | None,
        typer.Option(
            min=1, max=MOST, help="With --valid: stop after so many epochs without a better P@1.", show_default="never"
        ),
    ] = None,
    memory_limit: Annotated[
        str | None,
        typer.Option(callback=options.size, help="Refuse to use more, e.g. 8GB.", show_default="what is available"),
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
        int | None,
        typer.Option(
            min=1, max=MOST, help="Number of features, if svmlight files do not show all.", show_default=False
        ),
    ] = None,
    labels: Annotated[
        int | None,
        typer.Option(min=1, max=MOST, help="Number of labels, if svmlight files do not show all.", show_default=False),
    ] = None,
    checkpoint: Annotated[
        bool | None,
        typer.Option(
            "--checkpoint/--no-checkpoint",
            help="Keep the state of the run in MODEL.checkpoint for --resume, after epochs and on Ctrl-C.",
            show_default="if it can be written",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where an interrupted run of the same kind was.")
    ] = False,
    compact: Annotated[
        bool, typer.Option("--compact", help="Save in a third of the room, by numbers of 8 and 16 bits.")
    ] = False,
    text: TextColumn = None,
    target: TargetColumn = None,
    label_delimiter: LabelDelimiter = None,
    json: Json = False,
) -> None:
    """Train a model and save it. Ctrl-C stops, and saves what was learnt so far."""
    if patience and not valid:
        raise typer.BadParameter("needs --valid, to measure each epoch on", param_hint="--patience")
    if hidden == 0 and sampler == "lsh":
        raise typer.BadParameter("lsh hashes hidden units, and --hidden 0 has none", param_hint="--sampler")
    chosen = {
        "epochs": epochs,
        "hidden": hidden,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "n_negatives": negatives,
        "time_budget": time_budget,
        "wide_budget": wide_budget,
        "sampler": sampler,
        "loss": loss,
        "patience": patience,
        "memory_limit": memory_limit,
        "n_jobs": threads,
    }
    with errors_reported():
        from sparsenet.cli import commands, texts
        from sparsenet.cli.sources import Source

        if texts.is_text_file(data, format, text, target):
            given = {name: value for name, value in chosen.items() if value is not None}
            if extra := [name for name in given if name not in ("epochs", "n_jobs", "time_budget", "memory_limit")]:
                raise typer.BadParameter(f"a model of texts has no {extra[0].replace('n_', '')}: leave it out")
            options.not_of_texts(
                features=features, labels=labels, checkpoint=checkpoint, resume=resume, compact=compact
            )
            found = options.of_texts(format, "--format", data, text, target)
            source = texts.TextSource(data, text or "text", target or "label", label_delimiter, found)
            result = texts.train(source, model, valid, given | {"random_state": seed})
            show(result, json, texts.describe_training(result))
            return
        summary = commands.train(
            Source(data, format=options.of_points(format, "--format"), n_features=features, n_labels=labels),
            model,
            valid,
            {name: value for name, value in chosen.items() if value is not None} | {"random_state": seed},
            checkpoint=checkpoint,
            resume=resume,
            compact=compact,
        )
        show(summary, json, commands.describe_training(summary))
    if summary["interrupted"]:
        raise typer.Exit(130)


@app.command(epilog="Example:  sparsenet evaluate tagger test.txt.xz --k 1,3,5 --json")
def evaluate(
    model: Model,
    data: Annotated[Path, typer.Argument(metavar="TEST", help="Labelled points; - for stdin.", show_default=False)],
    k: Annotated[
        str,
        typer.Option(callback=options.ranks, help="Where P@k, nDCG@k and PSP@k are measured.", metavar="K,..."),
    ] = "1,3,5",
    exclude_seen: ExcludeSeen = False,
    batch_size: BatchRows = 4096,
    threads: Threads = None,
    format: Format = "auto",
    text: TextColumn = None,
    target: TargetColumn = None,
    label_delimiter: LabelDelimiter = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Measure a model on labelled points: P@k, nDCG@k, propensity-scored PSP@k and recall@100."""
    ks = [int(word) for word in k.split(",")]
    with errors_reported():
        from sparsenet.cli import commands, texts
        from sparsenet.cli.sources import Source

        if texts.is_text_model(model):
            found = options.of_texts(format, "--format", data, text, target)
            table = texts.TextSource(data, text or "text", target or "label", label_delimiter, found)
            scores = texts.evaluate(model, table, ks, threads=threads, plot=plot)
        else:
            source = Source(data, format=options.of_points(format, "--format"), batch_rows=batch_size)
            scores = commands.evaluate(model, source, ks, exclude_seen=exclude_seen, threads=threads, plot=plot)
        show(scores, json, commands.describe_scores(scores))


@app.command(epilog="Example:  sparsenet predict tagger new.txt --k 3 | head")
def predict(
    model: Model,
    data: Annotated[
        Path, typer.Argument(metavar="[FILE|-]", help="Points, labelled or not; - for stdin.", show_default=False)
    ] = Path("-"),
    k: Annotated[int, typer.Option(min=1, max=MOST, help="Labels a point.")] = 5,
    format: Annotated[
        Literal["tsv", "jsonl"],
        typer.Option(help='A line a point, best label first: "label:probability" by tabs, or a JSON object.'),
    ] = "tsv",
    exclude_seen: ExcludeSeen = False,
    batch_size: BatchRows = 1024,
    threads: Threads = None,
    input_format: Format = "auto",
    text: TextColumn = None,
) -> None:
    """Predict the best labels of each point, in the order of the input, in memory that does not grow with it."""
    with errors_reported():
        from sparsenet.cli import commands, texts
        from sparsenet.cli.sources import Source

        if texts.is_text_model(model):
            found = options.of_texts(input_format, "--input-format", data, text)
            table = texts.TextSource(data, text or "text", format=found, batch_rows=batch_size)
            answers = texts.predict(model, table, k, format, threads=threads)
        else:
            source = Source(data, format=options.of_points(input_format, "--input-format"), batch_rows=batch_size)
            answers = commands.predict(model, source, k, format, exclude_seen=exclude_seen, threads=threads)
        for lines in answers:
            sys.stdout.write(lines)
            sys.stdout.flush()


@app.command(epilog="Example:  sparsenet compress reviews --max-bytes 5MB --valid more-reviews.csv")
def compress(
    model: Model,
    max_bytes: Annotated[
        str, typer.Option(callback=options.size, help="What its files may take, e.g. 5MB.", show_default=False)
    ],
    valid: Annotated[
        Path | None,
        typer.Option(help="Labelled texts, none seen in training, to measure what is lost.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Directory to save the smaller model in.", show_default="MODEL itself")
    ] = None,
    threads: Threads = None,
    text: TextColumn = None,
    target: TargetColumn = None,
    label_delimiter: LabelDelimiter = None,
    json: Json = False,
) -> None:
    """Make a model of texts smaller: its least weights go. Says what that costs in accuracy on --valid."""
    with errors_reported():
        from sparsenet.cli import texts

        if not texts.is_text_model(model):
            raise typer.BadParameter(f"{model} is no model of texts: train --compact saves others in less room")
        source = None if valid is None else texts.TextSource(valid, text or "text", target or "label", label_delimiter)
        report = texts.compress(model, max_bytes, source, output or model, threads=threads)
        show(asdict(report), json, f"{report}\n{output or model}")


@app.command()
def info(json: Json = False) -> None:
    """Say what sparsenet runs on: version, kernels, instruction set, threads, memory, and what is missing."""
    from sparsenet.cli import info as report

    found = report.collect()
    show(found, json, report.describe(found))


@app.command()
def demo(
    interactive: Annotated[bool, typer.Option("--interactive", help="Ask for questions afterwards.")] = False,
    output: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path("demo-output"),
    threads: Threads = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Decides everything random.")] = 0,
) -> None:
    """Learn the docstrings of the installed scientific Python packages, and answer questions with their functions."""
    with errors_reported():
        from sparsenet import demo as demonstration

        demonstration.run(output, interactive=interactive, threads=threads, seed=seed)


def main() -> None:
    """Run the command line."""
    with watched_output():
        try:
            app(prog_name="sparsenet")
        except KeyboardInterrupt:  # before or after a command's own care
            sys.exit(130)
