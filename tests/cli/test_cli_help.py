"""What the help of `sparsenet train` says of whose options it lists."""

import pytest
import typer
from typer.testing import CliRunner

from sparsenet import cli
from sparsenet.cli import options
from sparsenet.cli.checks import SETTINGS

#: Panels of the help, in its order, and the methods whose settings are in them.
PANELS = {
    options.DATA: set(),
    options.BLENDS: {"blend"},
    options.NETWORKS: {"network", "blend"},
    options.TREES: {"tree", "blend"},
    options.TEXTS: {"texts"},
    options.TABLES: set(),
}
#: Settings whose own help names a method that has them beside those of the panel, or has them not.
SAID = {"cost": "of texts, too", "patience": "not in a blend"}


def panels(command: str) -> dict[str, list[typer.core.TyperOption]]:
    found: dict[str, list[typer.core.TyperOption]] = {}
    for option in typer.main.get_group(cli.app).commands[command].params:
        if panel := getattr(option, "rich_help_panel", None):
            found.setdefault(panel, []).append(option)
    return found


def test_panels_of_train_are_in_the_order_of_the_help():
    assert list(panels("train")) == list(PANELS)
    said = CliRunner().invoke(cli.app, ["train", "--help"], terminal_width=200, env={"COLUMNS": "200"}).stdout
    places = [said.index(f" {panel} ") for panel in PANELS]
    assert places == sorted(places)


@pytest.mark.parametrize("panel", [name for name, methods in PANELS.items() if methods])
def test_a_panel_names_the_methods_that_have_its_settings(panel):
    known = set().union(*SETTINGS.values())
    listed = {name: option.help for option in panels("train")[panel] for name in (option.name, f"n_{option.name}")}
    settings = listed.keys() & known
    assert settings
    for name in settings:
        having = {method for method, own in SETTINGS.items() if name in own}
        assert (having == PANELS[panel]) != (name in SAID), f"{name} is for {having}"
        assert SAID.get(name, "") in listed[name]


def test_options_of_one_method_stand_in_a_panel_of_its_own():
    """What is left among all others is for two unlike methods at least."""
    [train] = [typer.main.get_group(cli.app).commands["train"]]
    loose = {option.name for option in train.params if not getattr(option, "rich_help_panel", None)}
    for name in (loose | {f"n_{name}" for name in loose} | {"n_jobs"}) & set().union(*SETTINGS.values()) - {"method"}:
        having = {method for method, own in SETTINGS.items() if name in own}
        assert {"network", "texts"} <= having, name


@pytest.mark.parametrize("command", ["evaluate", "predict", "compress"])
def test_other_commands_say_which_options_are_about_tables(command):
    names = {option.name for option in panels(command)[options.TABLES]}
    assert {"text", "header", "quotes", "delimiter", "encoding"} <= names
