"""Options about training: networks, trees and blends, machine and time."""

from __future__ import annotations

from typing import Any

from sparsenet.cli import option_values as check
from sparsenet.cli.command_option import (
    EVERY,
    NO_CACHE,
    NOT_COMPACT,
    NOUNS,
    OF_BLENDS,
    OF_LINKS,
    OF_NETWORKS,
    OF_TEXT,
    CommandOption,
    flag,
    number,
    path,
)
from sparsenet.cli.data_options import of_points
from sparsenet.cli.option_values import MAX_INT, one_of

#: Panels of the help, in its order.
NETWORKS = "Network of sparse points (--method network or blend)"
TREES = "Tree and blend (--method tree or blend)"
MACHINE = "Machine and time"

#: Fields that the options of a panel share.
_network: dict[str, Any] = {"panel": NETWORKS, "kinds": OF_NETWORKS}
_blend: dict[str, Any] = {"panel": TREES, "kinds": OF_BLENDS}
_limit: dict[str, Any] = {"panel": MACHINE, "kinds": OF_NETWORKS | OF_TEXT}


# One call a row: reading the options is easier in few lines.
# fmt: off
def network_options() -> tuple[CommandOption, ...]:
    """Return the options for networks."""
    return (
        number(
            "hidden", 0, 1 << 16, "Units of the hidden layer; 0 uses the wide path alone.",
            shown="256, or what fits and helps", sets="hidden", **_network,
        ),
        number(
            "batch_size", 1, 1 << 20, "Points or links per step.", shown="256 to 1024; 10 for links", sets="batch_size",
            **_network | {"kinds": OF_NETWORKS | OF_LINKS},
        ),
        CommandOption(
            "learning_rate", "RATE", "Learning rate of the deep path: above 0, at most 1000.", type=float,
            shown="0.004 to 0.008; 0.012 to 0.024 for dense points; 0.0001 for links", check=check.learning_rate,
            sets="learning_rate", **_network | {"kinds": OF_NETWORKS | OF_LINKS},
        ),
        number(
            "dropout", 0, 1, "Fraction of hidden units, or for links of attention, left out in training; below 1.",
            type=float, shown="0.25; 0.1 for links", sets="dropout", **_network | {"kinds": OF_NETWORKS | OF_LINKS},
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
            "Ctrl-C, and levels of a tree.", negatable=True, shown="yes, if it can be written", **of_points,
            refusals={kind: f"a {noun} has no checkpoints" for kind, noun in NOUNS.items()},
        ),
        flag(
            "resume", "Continue an interrupted run with the same data and options.", default=False, **of_points,
            refusals={kind: f"a {noun} has no checkpoints to resume from" for kind, noun in NOUNS.items()},
        ),
        flag(
            "compact", "Save a network in 8 bits, in a quarter of the space.", default=False, panel=NETWORKS,
            kinds=OF_NETWORKS | OF_BLENDS, refusals=NOT_COMPACT,
        ),
    )


def tree_options() -> tuple[CommandOption, ...]:
    """Return the options for trees and blends."""
    return (
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
            "neighbors", 0, MAX_INT, "Nearest training points that vote in a blend; with 0 the model stores no points. "
            "For links: the last links of a node that it attends to.", shown="50; 10 for links",
            sets={"blend": "n_neighbors", "bare-blend": "n_neighbors", "links": "neighbors"},
            **_blend | {"kinds": OF_BLENDS | OF_LINKS},
        ),
    )


def machine_options() -> tuple[CommandOption, ...]:
    """Return the options about machine and time."""
    return (
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
            commands=("train", "update"), negatable=True, shown="yes, if stderr is a terminal", panel=MACHINE,
            kinds=EVERY,
        ),
    )
# fmt: on
