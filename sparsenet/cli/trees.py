"""Training of trees, and of blends that have one: from a file of points to a model, measured once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sparsenet import metrics, storage
from sparsenet.blend import BlendClassifier
from sparsenet.blend.persistence import DROPPED, OF_THE_WHOLE
from sparsenet.cli import commands
from sparsenet.cli.reporting import say
from sparsenet.cli.sources import Source, check_validation, labels_of, read_validation
from sparsenet.estimators import ExtremeClassifier
from sparsenet.estimators.fitting import as_matrix
from sparsenet.training import checkpoints
from sparsenet.tree import TreeClassifier

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
    of_whole, of_tree = (*OF_THE_WHOLE, "candidates", "n_neighbors"), ("cost", "beam", *(["epochs"] if alone else []))
    whole = {name: value for name, value in parameters.items() if name in of_whole}
    trees = {name: value for name, value in parameters.items() if name in of_tree}
    own = {name: value for name, value in parameters.items() if name not in (*of_whole, *of_tree)}
    network = ExtremeClassifier(**own) if own else None
    tree = TreeClassifier(**trees) if trees else None
    return BlendClassifier(network=DROPPED if alone else network, tree=tree, **whole)


def train(
    model: TreeClassifier | BlendClassifier, source: Source, model_path: Path, valid: Path | None, **how: Any
) -> dict[str, Any]:
    """Train, save (`how`), and return a summary for people and programs.

    After Ctrl-C while the network of a blend is trained what was learnt is saved as well: there is no half of a tree.
    """
    storage.prepare(model_path)
    clock = commands.Clock()
    check_validation(source, valid)
    points = source.points()
    held = read_validation(source, valid, points)
    interrupted, saved = False, True
    try:
        with commands.advice_on_size():
            model.fit(points.X, labels_of(source, points))
    except KeyboardInterrupt:
        if not isinstance(model, BlendClassifier) or not hasattr(model, "classes_"):
            raise KeyboardInterrupt(commands.nothing_saved(model_path)) from None
        learnt = model.network_ is not None and model.network_.n_iter_ > 0
        interrupted, saved = True, learnt or not checkpoints.is_there(model_path)
        say(commands.after_interrupt(model_path, saved))
    if saved:
        model.save(model_path, **how)
    try:
        validation = None if held is None or interrupted else _measured(model, *held)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"the model {model_path} is saved, and was not measured") from None
    about: dict[str, Any] = {"validation": validation, "interrupted": interrupted, "saved": saved}
    if isinstance(model, BlendClassifier) and model.network_ is not None:
        about["epochs"] = model.network_.n_iter_
    return commands.about_training(points, model, model_path, clock) | about


def _measured(model: TreeClassifier | BlendClassifier, X: Any, y: Any) -> dict[str, float]:
    """Return P@k on points to measure on, whose labels may be others than those of training."""
    truth = as_matrix(model._fitted.target.encode(y, drop_unknown=True))
    ranked, _ = model.topk_numbers(X, max(RANKS))
    return {f"P@{k}": metrics.precision_at_k(truth, ranked, k) for k in RANKS}
