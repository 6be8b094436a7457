"""One option of the command line: its parameter, its checks, and the kinds of model that it has an effect on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any

import typer

from sparsenet.cli.option_values import within

#: The kinds of model. `bare-blend` is a blend with --no-network; `points` is any saved model of sparse points.
OF_TEXT = frozenset({"text"})
OF_NETWORKS = frozenset({"network", "blend"})
OF_BLENDS = frozenset({"blend", "bare-blend"})
OF_POINTS = frozenset({"points", "tree"}) | OF_NETWORKS | OF_BLENDS
OF_LOGS = frozenset({"log"})
OF_STREAMS = frozenset({"stream"})
OF_LINKS = frozenset({"links"})
OF_EVENTS = OF_STREAMS | OF_LINKS
OF_TABLES = frozenset({"table"})
OF_CLASSIFIERS = OF_TEXT | OF_POINTS
NOT_OF_EVENTS = OF_CLASSIFIERS | OF_LOGS | OF_TABLES
EVERY = NOT_OF_EVENTS | OF_EVENTS
#: The methods for sparse points. The first one is the default.
POINT_METHODS = ("blend", "network", "tree")
#: The methods for streams of events, and their kinds of model.
STREAM_METHODS = {"next-item": "stream", "links": "links"}
NOUNS = {
    "text": "text model",
    "tree": "tree",
    "log": "recommender",
    "stream": "model of a stream",
    "links": "link predictor",
    "table": "model of a table",
}
#: Reasons why options have no effect on some kinds of model.
NOT_FOR_POINTS = {"points": "applies to tables of text, and sparse points have no columns: leave it out"}
NOT_OF_LINKS = {"links": "links has sources and targets: --source and --target"}
NOT_OF_USERS = {"stream": "next-item has users and items: --user and --item"}
BESIDE = {"text": "text labels are in the same file, in a column or in __label__ words"}
NOT_COMPACT = {
    "text": "use sparsenet compress to make a text model smaller",
    "tree": "the weights of a tree already have 8 bits",
}
NO_CACHE = {
    "table": "a table stays in memory: leave it out, or train on numbers as sparse points",
    "log": "a log stays in memory: leave it out, or use --method next-item, which keeps no log",
    "stream": "a stream is read once and not kept: leave it out",
    "links": "a log of links stays in memory: leave it out",
}


@dataclass(frozen=True)
class CommandOption:
    """One option or argument of the command line.

    `kinds` are the models that it has an effect on, and `refusals` the reasons given for others, by kind. `sets` is the
    parameter of the model, by kind if their names differ. `shown` describes the default in the help. `essential`
    options of `train` are in the first panel of its help instead of their own.
    """

    name: str
    metavar: str
    help: str
    type: Any = str
    commands: tuple[str, ...] = ("train",)
    argument: bool = False
    default: Any = None
    shown: str | None = None
    negatable: bool = False
    panel: str | None = None
    essential: bool = False
    check: Callable[[Any], Any] | None = None
    kinds: frozenset[str] = OF_CLASSIFIERS
    refusals: Mapping[str, str] = field(default_factory=dict)
    sets: str | Mapping[str, str] | None = None
    needs_valid: str | None = None

    @property
    def flag(self) -> str:
        """Return the option as users type it."""
        return f"--{self.name.replace('_', '-')}"

    def parameter(self, command: str) -> Parameter:
        """Return the option as a parameter of a typer command."""
        shown = self.default if self.shown is None and self.type in (str, int) else self.shown
        about: dict[str, Any] = {
            "help": self.help if shown in (None, ...) else f"{self.help} Default: {shown}.",
            "metavar": self.metavar,
            "callback": self.check,
            "show_default": False,
            "rich_help_panel": None if command == "train" and self.essential else self.panel,
        }
        names = f"{self.flag}/--no-{self.flag[2:]}" if self.negatable else self.flag
        made = typer.Argument(**about) if self.argument else typer.Option(names, **about)
        default = Parameter.empty if self.default is ... else self.default
        return Parameter(self.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[self.type, made])

    def parameter_of(self, kind: str) -> str | None:
        """Return the parameter that the option sets for a kind of model; None if it sets none."""
        if kind not in self.kinds or self.sets is None:
            return None
        return self.sets if isinstance(self.sets, str) else self.sets[kind]

    def is_given(self, value: Any) -> bool:
        """Return whether the user set the option to something that needs support; --no-checkpoint needs none."""
        checked = self.check(self.default) if self.check and isinstance(self.default, str) else self.default
        return value is not None and value != checked and not (self.name == "checkpoint" and value is False)

    def why_not(self, kind: str, command: str) -> str | None:
        """Explain why the option of a command has no effect on a kind of model; None if it has an effect."""
        if kind in self.kinds:
            return None
        if kind == "bare-blend" and "blend" in self.kinds:
            return "is for the network, which --no-network leaves out"
        reason = self.refusals.get(kind) or (
            kind not in ("text", "log", "stream", "links", "table") and self.refusals.get("points")
        )
        if reason:
            return reason
        if command != "train":  # which alone chooses the kind
            return f"has no effect on a {NOUNS.get(kind, 'model of sparse points')}: leave it out"
        if self.kinds <= OF_EVENTS and kind not in OF_EVENTS:
            methods = [method for method, own in STREAM_METHODS.items() if own in self.kinds]
            return f"is for streams of events: --method {' or '.join(methods)}"
        if OF_LOGS <= self.kinds <= OF_LOGS | OF_EVENTS and kind not in OF_EVENTS:
            return "is for logs of interactions, which train tells by --user and --item"
        if self.kinds == OF_TABLES:
            return "is for tables with mixed columns, which train tells by --target without --text"
        if kind in ("log", "stream", "links", "table"):
            return f"has no effect on a {NOUNS[kind]}: leave it out"
        methods = [method for method in POINT_METHODS if method in self.kinds]
        if kind == "text":
            return "has no effect on a text model: leave it out"
        if not methods:
            return "is for text, and this file holds sparse points"
        return f"has no effect on a {kind.removeprefix('bare-')}: it is for --method {' or '.join(methods)}"


def flag(name: str, help: str, **more: Any) -> CommandOption:
    """Return an option that is on or off."""
    return CommandOption(name, "", help, bool, **more)


def number(name: str, low: float, high: float, help: str, **more: Any) -> CommandOption:
    """Return an option with a number from `low` to `high`, whole by default."""
    about: dict[str, Any] = {"metavar": "N", "type": int, "check": within(low, high)} | more
    return CommandOption(name, help=help, **about)


def path(name: str, metavar: str, help: str, **more: Any) -> CommandOption:
    """Return an option with a path."""
    return CommandOption(name, metavar, help, Path, **more)
