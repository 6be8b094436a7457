"""The command line: ``sparsenet train | evaluate | predict | update | compress | info | demo``.

Results go to stdout, everything else to stderr. Exit status: 0; 1 for bad data or a bad model, with one line that names
the problem; 2 for wrong usage; 130 after Ctrl-C. Commands import what they need when they run, so that --help is fast.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from inspect import Signature
from types import SimpleNamespace
from typing import Annotated, Any

import typer

from sparsenet.cli import usage
from sparsenet.cli.option_table import options_of
from sparsenet.cli.reporting import before_saving, errors_reported, say, show
from sparsenet.cli.streams import watched_output

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def command(example: str | None = None) -> Callable[[Callable[[SimpleNamespace], None]], None]:
    """Register a command with the options that the table lists for its name."""

    def register(run: Callable[[SimpleNamespace], None]) -> None:
        name = run.__name__

        def call(**values: Any) -> None:
            with errors_reported(name):
                given = {option: None if value == [] else value for option, value in values.items()}
                run(SimpleNamespace(command=name, **given))

        parameters = [option.parameter(name) for option in options_of(name)]
        vars(call)["__signature__"] = Signature(parameters)
        paragraphs = [" ".join(lines.split()) for lines in str(run.__doc__).split("\n\n")]
        epilog = example and f"Example:  sparsenet {example}"
        app.command(name, help="\n\n".join(paragraphs), epilog=epilog)(call)

    return register


def _show_version(wanted: bool) -> None:
    if wanted:
        import sparsenet

        print(f"sparsenet {sparsenet.__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version.")
    ] = False,
) -> None:
    """Classifiers with up to millions of labels, trained on ordinary CPUs."""


@command("train train.txt.xz --model tagger --valid valid.txt.xz")
def train(given: SimpleNamespace) -> None:
    """Train a model and save it.

    The kind of model depends on the file. Sparse points: a blend of a tree, a network and nearest neighbors. Text: a
    linear model or a blend, by the number of texts and labels, or by held-out texts. --target without --text trains on
    a table with mixed columns. --user and --item train a recommender on a log, and with --method next-item a model that
    learns from each event. --method links with --source and --target predicts links. --method chooses another model.

    Ctrl-C stops training. A network, alone or in a blend, is saved as far as it is trained. A tree or a text model is
    not saved, and the previous model stays.
    """
    with before_saving(given.model, "starting"):
        from sparsenet.cli import (
            log_commands,
            point_training,
            stream_commands,
            table_commands,
            text_sources,
            text_training,
        )
        from sparsenet.core.progress import shown_by_default

    with shown_by_default(given.progress):
        if kind := usage.stream_kind(given):
            usage.check_train(given, kind)
            usage.check_table_format(given.format, "format")
            summary = stream_commands.train(kind, given, usage.parameters(given, kind))
            describe = stream_commands.describe_training
        elif usage.is_log(given):
            usage.check_train(given, "log")
            usage.check_table_format(given.format, "format")
            summary = log_commands.train(given, usage.parameters(given, "log"))
            describe = log_commands.describe_training
        elif table_commands.is_table_file(given):
            usage.check_train(given, "table")
            usage.check_table_format(given.format, "format")
            summary = table_commands.train(given, usage.parameters(given, "table"))
            describe = table_commands.describe_training
        elif text_sources.is_text_file(given.data, given.format, usage.table_options(given)):
            usage.check_train(given, "text")
            source = text_sources.text_source(given)
            valid = text_sources.validation_source(source, given.valid, given.format)
            summary = text_training.train(source, given.model, valid, usage.parameters(given, "text"), given.cache)
            describe = text_training.describe
        else:
            kind = usage.kind_of_point_model(given)
            usage.check_train(given, kind)
            usage.check_point_format(given.format, "format", given.labels_file)
            summary = point_training.train(kind, given, usage.parameters(given, kind))
            describe = point_training.describe
    show(summary, given.json, describe(summary))
    if summary["interrupted"]:
        raise typer.Exit(130)


@command("evaluate tagger test.txt.xz --k 1,3,5 --json")
def evaluate(given: SimpleNamespace) -> None:
    """Measure a model on labelled points or text: P@k, nDCG@k, propensity-scored PSP@k and recall@k, also @100.

    For text also micro and macro F1 of the labels that predict would return. With one label a text also accuracy. With
    up to 1,000 labels also precision, recall and F1 of each label.

    A recommender is measured on a later log of its users: P@1, and recall@k, nDCG@k, MRR@k, coverage@k and
    popularity bias, also @20. A model of a stream predicts each event of a later log, and learns it before the next:
    MRR, recall@1 and recall@10 among all items. A link predictor also has AP and AUC against other targets.
    """
    from sparsenet.cli import (
        log_commands,
        models,
        point_commands,
        results,
        stream_commands,
        table_commands,
        text_commands,
        text_sources,
    )

    if kind := models.stream_kind(given.model):
        usage.check_options("evaluate", given, kind)
        usage.check_table_format(given.format, "format")
        found = stream_commands.evaluate(given)
        words = stream_commands.describe_measures(found)
    elif models.is_log_model(given.model):
        usage.check_options("evaluate", given, "log")
        usage.check_table_format(given.format, "format")
        found = log_commands.evaluate(given)
        words = log_commands.describe_measures(found)
    elif models.is_table_model(given.model):
        usage.check_options("evaluate", given, "table")
        usage.check_table_format(given.format, "format")
        found = table_commands.evaluate(given)
        words = results.describe(found, "row")
    elif models.is_text_model(given.model):
        usage.check_options("evaluate", given, "text")
        found = text_commands.evaluate(text_sources.text_source(given), given)
        words = text_commands.describe(found)
    else:
        usage.check_options("evaluate", given, "points")
        usage.check_point_format(given.format, "format", given.labels_file)
        found = point_commands.evaluate(given)
        words = results.describe(found)
    show(found, given.json, words)


@command("predict tagger new.txt --k 3 | head")
def predict(given: SimpleNamespace) -> None:
    """Predict the best labels of each point or text, in the order of the input and in constant memory.

    A recommender reads the name of a user on each line, baskets with --baskets, or a log of new users from a table.
    Unknown users get the most popular items. A model of a stream reads the names of users, too, or a table with a row
    for each question: the user, and the time if there is such a column. A link predictor reads a table with the columns
    of sources and targets, and adds the probability of each link. Both read the whole table first.
    """
    from sparsenet.cli import (
        log_commands,
        models,
        point_commands,
        stream_commands,
        table_commands,
        text_commands,
        text_sources,
    )
    from sparsenet.data.errors import EmptyFileError

    try:
        kind = models.stream_kind(given.model)
        if kind == "links":
            usage.check_options("predict", given, kind)
            usage.check_table_format(given.input_format, "input_format")
            answers = stream_commands.predict_links(given)
        elif kind == "stream":
            usage.check_options("predict", given, kind)
            usage.check_table_format(given.input_format, "input_format", "lines")
            answers = stream_commands.predict(given)
        elif models.is_log_model(given.model):
            usage.check_options("predict", given, "log")
            usage.check_table_format(given.input_format, "input_format", "lines")
            answers = log_commands.predict(given)
        elif models.is_table_model(given.model):
            usage.check_options("predict", given, "table")
            usage.check_table_format(given.input_format, "input_format")
            answers = table_commands.predict(given)
        elif models.is_text_model(given.model):
            usage.check_options("predict", given, "text")
            answers = text_commands.predict(text_sources.text_source(given, "input_format"), given)
        else:
            usage.check_options("predict", given, "points")
            if given.threshold == "learnt":
                usage.refuse("threshold", "a model of sparse points has learnt no threshold: pass a number")
            usage.check_point_format(given.input_format, "input_format")
            answers = point_commands.predict(given)
        for lines in answers:
            sys.stdout.write(lines)
            sys.stdout.flush()
    except EmptyFileError as error:  # no points have no answers
        say(f"{error.path} is empty, so there is nothing to predict")


@command("update shop new-orders.csv")
def update(given: SimpleNamespace) -> None:
    """Learn later events, and save the model again: for models of streams (--method next-item or links).

    Ctrl-C leaves the saved model unchanged.
    """
    with before_saving(given.output or given.model, "starting"):
        from sparsenet.cli import models, stream_commands
        from sparsenet.core.progress import shown_by_default

        kind = models.stream_kind(given.model)
    if kind is None:
        raise typer.BadParameter(f"{given.model} is no model of a stream, and only these are updated: train it again")
    usage.check_options("update", given, kind)
    usage.check_table_format(given.format, "format")
    with shown_by_default(given.progress):
        summary = stream_commands.update(given)
    show(summary, given.json, stream_commands.describe_training(summary))


@command("compress reviews --max-bytes 5MB --valid more-reviews.csv")
def compress(given: SimpleNamespace) -> None:
    """Make a text model smaller by removing its smallest weights, and measure the loss of accuracy on --valid."""
    with before_saving(given.output or given.model, "starting"):
        from sparsenet.cli import models, text_commands, text_sources

    if not models.is_text_model(given.model):
        raise typer.BadParameter(models.why_not_compressed(given.model))
    usage.check_compress(given)
    output = given.output or given.model
    given.data = given.valid
    source = None if given.valid is None else text_sources.text_source(given)
    report = text_commands.compress(given, source, output)
    show(asdict(report), given.json, f"{report}\n{output}")


@command()
def info(given: SimpleNamespace) -> None:
    """Show the kernels, instruction set and optional packages in use, or describe a saved MODEL."""
    if given.model is None:
        from sparsenet.cli import about_machine

        found = about_machine.collect()
        show(found, given.json, about_machine.describe(found))
    else:  # apart, so that a broken installation can be described
        from sparsenet.cli import about_model

        found = about_model.collect(given.model)
        show(found, given.json, about_model.describe(found))


@command()
def demo(given: SimpleNamespace) -> None:
    """Show what sparsenet does, on data that comes with it.

    texts: train on the docstrings of the installed scientific Python packages, and answer questions with functions.

    tables: predict the destinations of made-up flights from columns of five types, and explain an answer.

    log: learn from the purchases in a made-up shop, and recommend further items.
    """
    from sparsenet.demo import run

    run(given.output, what=given.what, interactive=given.interactive, threads=given.threads, seed=given.seed)


def main() -> None:
    """Run the command line."""
    with watched_output():
        try:
            app(prog_name="sparsenet")
        except KeyboardInterrupt:  # outside a command, which reports it itself
            sys.exit(130)
