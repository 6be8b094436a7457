"""The option table, and the help that is made from it."""

import subprocess
import sys
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from sparsenet import BlendClassifier, ExtremeClassifier, Recommender, TextClassifier, TreeClassifier, cli
from sparsenet.cli import data_options, training_options
from sparsenet.cli.command_option import EVERY, POINT_METHODS, CommandOption
from sparsenet.cli.option_table import options_of, table
from sparsenet.temporal import NextItem, TemporalLinkPredictor

PANELS = [
    *(data_options.POINTS, data_options.TEXT, data_options.TABLES, data_options.LOGS),
    *(data_options.STREAMS, data_options.MIXED),
    *(training_options.NETWORKS, training_options.TREES, training_options.MACHINE),
]
#: The classifiers of each kind of model, whose parameters the options set.
CLASSIFIERS: dict[str, list[Any]] = {
    "text": [TextClassifier],
    "tree": [TreeClassifier],
    "network": [ExtremeClassifier],
    "blend": [BlendClassifier, ExtremeClassifier, TreeClassifier],
    "bare-blend": [BlendClassifier, TreeClassifier],
    "log": [Recommender],
    "stream": [NextItem],
    "links": [TemporalLinkPredictor],
}
#: Parameters that a kind of model has, and the command line does not offer for it.
WITHHELD = {
    ("patience", "blend"),  # the network of a blend has no validation points
    ("validation_fraction", "network"),  # --valid names a file instead
    ("validation_fraction", "blend"),
    ("time_budget", "bare-blend"),  # limits the network of a blend
}


def help_of(*command: str, width: int = 100) -> str:
    return CliRunner().invoke(cli.app, [*command, "--help"], terminal_width=width, env={"COLUMNS": str(width)}).stdout


def parameters_of(kind: str) -> set[str]:
    return set().union(*(classifier().get_params(deep=False) for classifier in CLASSIFIERS[kind]))


def test_panels_of_train_are_in_order() -> None:
    shown = help_of("train", width=200)
    places = [shown.index(f" {panel} ") for panel in PANELS]
    assert places == sorted(places)
    assert {option.panel for option in options_of("train")} - {None} == set(PANELS)


def test_first_panel_of_train_has_the_dozen_options_that_matter() -> None:
    first = help_of("train", width=200).partition("─ Options ─")[2].partition("╰")[0]
    names = [line.split("--")[1].split()[0] for line in first.splitlines() if line.startswith(("│ *  --", "│    --"))]
    assert names == [
        *("model", "valid", "method", "format", "text", "target", "label-delimiter"),
        *("epochs", "threads", "seed", "json", "help"),
    ]


@pytest.mark.parametrize("command", ["train", "evaluate", "predict", "update", "compress", "info", "demo"])
def test_help_text_is_wide_enough_to_read(command: str) -> None:
    """Help of an option gets at least 45 of 100 columns."""
    for panel in help_of(command).split("╭─")[2:]:
        rows = [line for line in panel.splitlines() if line.startswith("│")]
        starts = [len(row) - len(row[1:].lstrip()) for row in rows if not row[1:].lstrip().startswith(("-", "*"))]
        for start in set(starts):
            assert 99 - start >= 45, panel


@pytest.mark.parametrize("option", [option for option in table() if option.sets], ids=lambda option: option.name)
def test_options_set_parameters_of_exactly_the_models_that_they_apply_to(option: CommandOption) -> None:
    if option.sets == "method":
        return  # chooses the classifier of points, and is a parameter of the text classifier
    sets = dict.fromkeys(CLASSIFIERS, option.sets) if isinstance(option.sets, str) else option.sets or {}
    having = {kind for kind in CLASSIFIERS if sets.get(kind) in parameters_of(kind)}
    assert option.kinds & CLASSIFIERS.keys() == {kind for kind in having if (option.name, kind) not in WITHHELD}


def test_every_option_has_help_and_a_reason_for_each_kind_that_it_does_not_apply_to() -> None:
    for option in table():
        assert option.help.endswith(".")
        for kind in EVERY - option.kinds:
            assert option.why_not(kind, option.commands[0])
        for kind in option.kinds:
            assert option.why_not(kind, option.commands[0]) is None


def test_method_names_every_kind_of_model_of_points() -> None:
    [method] = [option for option in table() if option.name == "method"]
    assert all(f"{name}" in method.help for name in (*POINT_METHODS, "auto", "linear"))


@pytest.mark.parametrize("command", ["evaluate", "predict", "compress"])
def test_other_commands_group_the_options_about_tables(command: str) -> None:
    params = typer.main.get_group(cli.app).commands[command].params
    names = {param.name for param in params if getattr(param, "rich_help_panel", None) == data_options.TABLES}
    assert {"text", "header", "quotes", "delimiter", "encoding"} <= names


def test_help_loads_no_numerical_packages() -> None:
    unwanted = ["numpy", "numba", "scipy", "sklearn", "sparsenet.kernels"]
    code = (
        "import sys; sys.argv = ['sparsenet', 'train', '--help']\n"
        "from sparsenet.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"print('loaded', *(name for name in {unwanted} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded"
