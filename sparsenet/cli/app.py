"""The command line: ``sparsenet train | evaluate | predict | compress | info | demo``.

Results go to stdout, everything else to stderr. Exit status: 0; 1 for bad data or a bad model, with one line that says
what is wrong; 2 for wrong usage; 130 after Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from sparsenet.cli import checks, options
from sparsenet.cli.checks import MOST
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


@contextmanager
def _showing(progress: bool | None) -> Iterator[None]:
    """Show how far training is, if that is asked for; what is imported for it takes a second."""
    from sparsenet.core.progress import shown_by_default

    with shown_by_default(progress):
        yield


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Say which version this is.")
    ] = False,
) -> None:
    """Classifiers with up to millions of labels, trained on ordinary CPUs."""


@app.command(epilog="Example:  sparsenet train train.txt.xz --model tagger --valid valid.txt.xz")
def train(
    data: options.Train,
    model: options.Saved,
    valid: options.Valid = None,
    method: options.Method = None,
    epochs: options.Epochs = None,
    time_budget: options.TimeBudget = None,
    memory_limit: options.MemoryLimit = None,
    threads: options.Threads = None,
    seed: options.Seed = 0,
    json: options.Json = False,
    format: options.Format = "auto",
    features: options.Features = None,
    labels: options.Labels = None,
    labels_file: options.LabelsFile = None,
    normalize: options.Normalize = None,
    valid_labels_file: options.ValidLabelsFile = None,
    network: options.Network = None,
    candidates: options.Candidates = None,
    neighbors: options.Neighbors = None,
    hidden: options.Hidden = None,
    batch_size: options.BatchSize = None,
    learning_rate: options.LearningRate = None,
    negatives: options.Negatives = None,
    wide_budget: options.WideBudget = None,
    sampler: options.SamplerName = None,
    loss: options.LossName = None,
    patience: options.Patience = None,
    checkpoint: options.Checkpoint = None,
    resume: options.Resume = False,
    compact: options.Compact = False,
    progress: options.Progress = None,
    cost: options.Cost = None,
    beam: options.Beam = None,
    word_ngrams: options.WordNgrams = None,
    char_ngrams: options.CharNgrams = None,
    class_weight: options.ClassWeight = None,
    validation_fraction: options.ValidationFraction = None,
    text: options.TextColumn = None,
    target: options.TargetColumn = None,
    label_delimiter: options.LabelDelimiter = None,
    header: options.Header = None,
    quotes: options.Quotes = None,
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = None,
) -> None:
    """Train a model and save it.

    Of sparse points a blend of tree, network and neighbours, of texts what suits their number and that of their labels:
    --method says otherwise.

    Ctrl-C stops: of sparse points, what a network has learnt so far is saved; of texts nothing is, nor of a tree, and a
    model that was there stays as it was.
    """
    if hidden == 0 and sampler == "lsh":
        raise typer.BadParameter("lsh hashes hidden units, and --hidden 0 has none", param_hint="--sampler")
    settings: dict[str, Any] = {
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
        "normalize": normalize,
        "cost": cost,
        "beam": beam,
        "candidates": candidates,
        "n_neighbors": neighbors,
        "network": network,
        "word_ngrams": word_ngrams,
        "char_ngrams": char_ngrams,
        "class_weight": class_weight,
        "method": method,
        "validation_fraction": validation_fraction,
    }
    given = {name: value for name, value in settings.items() if value is not None}
    with errors_reported(), _showing(progress):
        from sparsenet.cli import commands, text_sources, texts, trees
        from sparsenet.cli.sources import Source

        rows = {"header": header, "quotes": quotes, "delimiter": delimiter, "encoding": encoding}
        columns = checks.columns(text, target=target, label_delimiter=label_delimiter, **rows)
        if text_sources.is_text_file(data, format, *columns.values()):
            checks.not_of_texts(labels_file=labels_file, valid_labels_file=valid_labels_file)
            checks.method_of_texts(method)
            checks.settings("texts", given)
            if char_ngrams is not None:
                given["char_ngrams"] = checks.char_ngrams(char_ngrams)
            if class_weight is not None:
                given["class_weight"] = checks.class_weights(class_weight)
            checks.not_of_texts(features=features, labels=labels, checkpoint=checkpoint, resume=resume, compact=compact)
            table = text_sources.texts_of(data, format, "--format", **columns)
            result = texts.train(table, model, valid, given | {"random_state": seed})
            show(result, json, texts.describe_training(result))
            return
        checks.not_of_points(**columns)
        kind = checks.method_of_points(given.pop("method", None))
        checks.settings(kind, given)
        checks.needs_validation(valid, patience=patience, valid_labels_file=valid_labels_file)
        of_points = checks.of_points(format, "--format", labels_file)
        source = Source(data, of_points, n_features=features, n_labels=labels, labels=labels_file)
        held = None if valid is None else Source(valid, of_points, labels=valid_labels_file)
        given["random_state"] = seed
        how: dict[str, Any] = {"checkpoint": checkpoint, "resume": resume, "compact": compact}
        if kind == "tree":
            checks.not_of_trees(**how)
            summary = trees.train_tree(trees.tree(given), source, model, held)
        elif kind == "blend":
            checks.without_network(given, checkpoint=checkpoint, resume=resume)
            summary = trees.train_blend(trees.blend(given), source, model, held, **how)
        else:
            summary = commands.train(source, model, held, given, **how)
        show(summary, json, commands.describe_training(summary))
    if summary["interrupted"]:
        raise typer.Exit(130)


@app.command(epilog="Example:  sparsenet evaluate tagger test.txt.xz --k 1,3,5 --json")
def evaluate(
    model: options.Model,
    data: Annotated[
        Path,
        typer.Argument(metavar="TEST", help="Labelled points or texts, as train has them.", show_default=False),
    ],
    k: Annotated[
        str,
        typer.Option(callback=checks.ranks, help="Where P@k, nDCG@k, PSP@k and recall are measured.", metavar="K,..."),
    ] = "1,3,5",
    exclude_seen: options.ExcludeSeen = False,
    batch_size: options.BatchRows = 4096,
    threads: options.Threads = None,
    format: options.Format = "auto",
    labels_file: options.LabelsFile = None,
    text: options.TextColumn = None,
    target: options.TargetColumn = None,
    label_delimiter: options.LabelDelimiter = None,
    header: options.Header = None,
    quotes: options.Quotes = None,
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = None,
    plot: options.Plot = None,
    propensity: options.Propensity = "0.55,1.5",
    json: options.Json = False,
) -> None:
    """Measure a model on labelled points or texts: P@k, nDCG@k, propensity-scored PSP@k and recall@k, also @100.

    Of texts also micro and macro F1 of the labels that predict would give and, if they have one each, accuracy; and, of
    up to 1,000 labels, the precision, recall and F1 of each.
    """
    ks = [int(word) for word in k.split(",")]
    how: dict[str, Any] = {"threads": threads, "plot": plot, "propensity": checks.constants(propensity)}
    with errors_reported():
        from sparsenet.cli import commands, models, text_sources, texts
        from sparsenet.cli.sources import Source

        rows = {"header": header, "quotes": quotes, "delimiter": delimiter, "encoding": encoding}
        columns = checks.columns(text, target=target, label_delimiter=label_delimiter, **rows)
        if models.is_of_texts(model):
            checks.not_of_texts(exclude_seen=exclude_seen, labels_file=labels_file)
            table = text_sources.texts_of(data, format, "--format", **columns, batch_rows=batch_size, model=model)
            scores, describe = texts.evaluate(model, table, ks, **how), texts.describe_scores
        else:
            models.check(model)
            checks.not_of_points(**columns)
            of_points = checks.of_points(format, "--format", labels_file)
            source = Source(data, of_points, batch_rows=batch_size, labels=labels_file)
            scores = commands.evaluate(model, source, ks, exclude_seen=exclude_seen, **how)
            describe = commands.describe_scores
        show(scores, json, describe(scores))


@app.command(epilog="Example:  sparsenet predict tagger new.txt --k 3 | head")
def predict(
    model: options.Model,
    data: Annotated[
        Path,
        typer.Argument(metavar="[FILE|-]", help="Points or texts, labelled or not; - for stdin.", show_default=False),
    ] = Path("-"),
    k: Annotated[int, typer.Option(min=1, max=MOST, help="Most labels of a point or text.")] = 5,
    format: Annotated[
        str,
        typer.Option(
            metavar="[tsv|jsonl]",
            callback=checks.of_answers,
            help='A line a point or text, best label first: "label:probability" by tabs, with \\t, \\n, \\r, \\\\ and '
            "\\xNN for control characters and backslashes in a label; or a JSON object.",
        ),
    ] = "tsv",
    threshold: options.Threshold = "0",
    exclude_seen: options.ExcludeSeen = False,
    batch_size: options.BatchRows = 1024,
    threads: options.Threads = None,
    input_format: options.Format = "auto",
    text: options.TextColumn = None,
    header: options.Header = None,
    quotes: options.Quotes = None,
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = None,
) -> None:
    """Predict the best labels of each point or text, in its order, in memory that does not grow with it."""
    with errors_reported("--input-format"):
        from sparsenet.cli import commands, models, text_sources, texts
        from sparsenet.cli.sources import Source

        rows = {"header": header, "quotes": quotes, "delimiter": delimiter, "encoding": encoding}
        columns = checks.columns(text, **rows)
        if models.is_of_texts(model):
            checks.not_of_texts(exclude_seen=exclude_seen)
            about: dict[str, Any] = {"batch_rows": batch_size, "model": model}
            table = text_sources.texts_of(data, input_format, "--input-format", **columns, **about)
            answers = texts.predict(model, table, k, format, threads=threads, threshold=threshold)
        else:
            models.check(model)
            checks.not_of_points(**columns)
            checks.not_learnt_of_points(threshold)
            source = Source(data, format=checks.of_points(input_format, "--input-format"), batch_rows=batch_size)
            about = {"exclude_seen": exclude_seen, "threads": threads, "threshold": float(threshold)}
            answers = commands.predict(model, source, k, format, **about)
        for lines in answers:
            sys.stdout.write(lines)
            sys.stdout.flush()


@app.command(epilog="Example:  sparsenet compress reviews --max-bytes 5MB --valid more-reviews.csv")
def compress(
    model: options.Model,
    max_bytes: Annotated[
        str, typer.Option(callback=checks.size, help="What its files may take, e.g. 5MB.", show_default=False)
    ],
    valid: Annotated[
        Path | None,
        typer.Option(help="Labelled texts, none seen in training, to measure what is lost.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Directory to save the smaller model in.", show_default="MODEL itself")
    ] = None,
    threads: options.Threads = None,
    format: options.Format = "auto",
    text: options.TextColumn = None,
    target: options.TargetColumn = None,
    label_delimiter: options.LabelDelimiter = None,
    header: options.Header = None,
    quotes: options.Quotes = None,
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = None,
    json: options.Json = False,
) -> None:
    """Make a model of texts smaller: its least weights go. Says what that costs in accuracy on --valid."""
    with errors_reported():
        from sparsenet.cli import models, text_sources, texts

        if not models.is_of_texts(model):
            raise typer.BadParameter(models.why_not_compressed(model))
        source = None
        if valid is not None:
            rows = {"header": header, "quotes": quotes, "delimiter": delimiter, "encoding": encoding}
            columns = checks.columns(text, target=target, label_delimiter=label_delimiter, **rows)
            source = text_sources.texts_of(valid, format, "--format", **columns, model=model)
        report = texts.compress(model, max_bytes, source, output or model, threads=threads)
        show(asdict(report), json, f"{report}\n{output or model}")


@app.command()
def info(
    model: Annotated[
        Path | None, typer.Argument(metavar="[MODEL]", help="Directory of a trained model.", show_default=False)
    ] = None,
    json: options.Json = False,
) -> None:
    """Say what sparsenet runs on, and what is missing; or, of a MODEL, what it is and how it was trained."""
    with errors_reported():
        if model is not None:
            from sparsenet.cli import about_model

            about = about_model.collect(model)
            show(about, json, about_model.describe(about))
            return
        from sparsenet.cli import info as report

        found = report.collect()
        show(found, json, report.describe(found))


@app.command()
def demo(
    interactive: Annotated[bool, typer.Option("--interactive", help="Ask for questions afterwards.")] = False,
    output: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path("demo-output"),
    threads: options.Threads = None,
    seed: options.Seed = 0,
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
