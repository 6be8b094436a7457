"""Training of trees, and of blends that have one: from a file of points to a model, measured once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sparsenet import metrics
from sparsenet.cli import commands, runs
from sparsenet.cli.sources import Source, labels_of
from sparsenet.core.rows import as_matrix
from sparsenet.estimators.blend import BlendClassifier
from sparsenet.estimators.blend_parts import DROPPED, OF_THE_WHOLE
from sparsenet.estimators.extreme import ExtremeClassifier
from sparsenet.estimators.tree import TreeClassifier

#: Where P@k is measured on --valid, as after each epoch of a network.
RANKS = (1, 3, 5)


def tree(parameters: Mapping[str, Any]) -> TreeClassifier:
    """Make a tree of the settings that were given."""
    return TreeClassifier(**parameters)


def blend(parameters: Mapping[str, Any]) -> BlendClassifier:
    """Make a blend of the settings that were given: to the tree what only it has, to the network what is left.

    Without a network all that is left is the tree's.
    """
    alone = not parameters.get("network", True)
    parameters = {name: value for name, value in parameters.items() if name != "network"}
    of_whole = (*OF_THE_WHOLE, "time_budget", "candidates", "n_neighbors")
    of_tree = ("cost", "beam", "epochs") if alone else ("cost", "beam")
    whole = {name: value for name, value in parameters.items() if name in of_whole}
    trees = {name: value for name, value in parameters.items() if name in of_tree}
    own = {name: value for name, value in parameters.items() if name not in (*of_whole, *of_tree)}
    network = ExtremeClassifier(**own) if own else None
    tree = TreeClassifier(**trees) if trees else None
    return BlendClassifier(network=DROPPED if alone else network, tree=tree, **whole)


def train_tree(model: TreeClassifier, source: Source, model_path: Path, valid: Source | None) -> dict[str, Any]:
    """Train, save, and return a summary for people and programs; after Ctrl-C there is no half of a tree."""
    clock, points, held = runs.begin(source, model_path, valid)
    try:
        with runs.advice_on_size(points):
            model.fit(points.X, labels_of(source, points))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(runs.nothing_saved(model_path)) from None
    runs.save(model, model_path)
    validation = _measured(model, held, model_path)
    about = {"validation": validation, "interrupted": False, "saved": True}
    return commands.about_training(points, model, model_path, clock) | about


def train_blend(
    model: BlendClassifier,
    source: Source,
    model_path: Path,
    valid: Source | None,
    *,
    checkpoint: bool | None,
    resume: bool,
    compact: bool,
) -> dict[str, Any]:
    """Train and save a blend; after Ctrl-C while its network is trained what was learnt is saved as well."""
    clock, points, held = runs.begin(source, model_path, valid)
    no_network = model.network == DROPPED
    state, kept_in = (None, {}) if no_network else runs.state_of(model_path, checkpoint, resume=resume)
    interrupted = False
    try:
        with runs.advice_on_size(points):
            model.fit(points.X, labels_of(source, points), **kept_in)
    except KeyboardInterrupt:
        if not hasattr(model, "classes_"):
            raise KeyboardInterrupt(runs.nothing_saved(model_path)) from None
        interrupted = True
    epochs = 0 if model.network_ is None else model.network_.n_iter_
    if model.network_ is None and not (no_network or interrupted):
        state = None  # of a network that is not this one's
    saved = runs.end(model, model_path, state, epochs, interrupted=interrupted, compact=compact)
    about: dict[str, Any] = {"validation": None, "interrupted": interrupted, "saved": saved}
    if not interrupted:
        about["validation"] = _measured(model, held, model_path, compact=compact)
    about["network"] = model.network_ is not None
    if model.network_ is not None or interrupted:
        about["epochs"] = epochs
    return commands.about_training(points, model, model_path, clock) | about


def _measured(
    model: TreeClassifier | BlendClassifier, held: tuple[Any, Any] | None, model_path: Path, **how: bool
) -> dict[str, float] | None:
    """Return P@k on points to measure on, if there are any; their labels may be others than those of training.

    The model, which is on disk already, lest measuring be its end, is saved once more with what was measured.
    """
    if held is None:
        return None
    try:
        truth = as_matrix(model._fitted.target.encode(held[1], drop_unknown=True))
        ranked, _ = model.topk_numbers(held[0], max(RANKS))
        found = {f"P@{k}": metrics.precision_at_k(truth, ranked, k) for k in RANKS}
        model._fitted = replace(model._fitted, validation=found)
        runs.save(model, model_path, **how)
        return found
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"the model {model_path} is saved, and was not measured") from None
