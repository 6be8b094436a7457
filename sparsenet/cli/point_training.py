"""Training on sparse points: from a file of points to a saved network, tree or blend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sparsenet import data, kernels, metrics, storage
from sparsenet.cli.models import PointClassifier
from sparsenet.cli.point_files import PointFile, check_validation, labels_of, read_validation
from sparsenet.cli.reporting import before_saving, count, memory_for, nothing_saved, say
from sparsenet.cli.results import best_epoch
from sparsenet.cli.runs import (
    Clock,
    checkpoint_of,
    remove_checkpoint,
    save,
    saved_unmeasured,
    unfinished,
)
from sparsenet.core.machine import default_threads
from sparsenet.core.memory import in_words
from sparsenet.data.sources import name_of
from sparsenet.engines.network.building import TooLargeError
from sparsenet.estimators.blend import BlendClassifier
from sparsenet.estimators.extreme import ExtremeClassifier
from sparsenet.estimators.tree import TreeClassifier
from sparsenet.metrics.ranking import RANKS
from sparsenet.storage.checkpoint_place import OptionalDirectory, checkpoint_exists


def classifier(kind: str, parameters: Mapping[str, Any]) -> PointClassifier:
    """Make the classifier of a kind.

    A parameter goes to the blend if it has such a parameter, else to its network, else to its tree.
    """
    given = {name: value for name, value in parameters.items() if name not in ("method", "network")}
    if kind in ("network", "tree"):
        return (ExtremeClassifier if kind == "network" else TreeClassifier)(**given)
    whole = BlendClassifier(network="drop" if kind == "bare-blend" else None)
    own = whole.get_params(deep=False)
    of_network = ExtremeClassifier().get_params(deep=False) if kind == "blend" else {}
    return whole.set_params(
        **{
            name if name in own else f"network__{name}" if name in of_network else f"tree__{name}": value
            for name, value in given.items()
        }
    )


def train(kind: str, given: SimpleNamespace, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Train and save a model, and return a summary for people and programs.

    After Ctrl-C a network is saved as far as it is trained. Ctrl-C during the final measurement still saves the model.
    """
    storage.prepare(given.model)  # before training, which may take an hour
    clock = Clock()
    source = PointFile(given.data, given.format, given.features, given.labels, labels=given.labels_file)
    valid = None if given.valid is None else PointFile(given.valid, given.format, labels=given.valid_labels_file)
    with before_saving(given.model, f"reading {name_of(given.data)}"):
        check_validation(source, valid)
        points = source.points(given.cache)
        held = read_validation(valid, points)
    model = classifier(kind, parameters)
    how = _checkpoint(given)
    if kind == "network":
        how["validation"] = held
    interrupted = False
    try:
        with _advice_on_size(points):
            model.fit(points.X, labels_of(source, points), **how)
    except KeyboardInterrupt:
        if not hasattr(model, "classes_"):
            goes_on = "; --resume continues the run" if _keeps(given) else ""
            raise KeyboardInterrupt(nothing_saved(given.model) + goes_on) from None
        interrupted = True
    network = model if isinstance(model, ExtremeClassifier) else getattr(model, "network_", None)
    epochs = 0 if network is None else network.n_iter_
    validation = best_epoch(model.history_) if isinstance(model, ExtremeClassifier) else None
    try:
        if held is not None and not interrupted and not isinstance(model, ExtremeClassifier):
            validation = _measure(model, held)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(saved_unmeasured(given.model)) from None
    finally:
        saved = _end(model, given, epochs, interrupted=interrupted)
    return {
        "points": points.n_points,
        "features": points.n_features,
        "labels": points.n_labels,
        "normalize": model.normalize_,
        "isa": kernels.isa_used(),
        "threads": model.n_jobs or default_threads(),
        **clock.summary(given.model),
        **({"epochs": epochs} if network is not None or interrupted else {}),
        **({"network": network is not None} if isinstance(model, BlendClassifier) else {}),
        "validation": validation,
        "interrupted": interrupted,
        "saved": saved,
    }


def _checkpoint(given: SimpleNamespace) -> dict[str, Any]:
    """Return the arguments of `fit` about a checkpoint. By default there is one if it can be written."""
    state = checkpoint_of(given.model) if given.checkpoint is not False or given.resume else None
    exists = unfinished(given.model) is not None
    if state and exists and not given.resume:
        say(f"{state} of an interrupted run will be replaced; --resume would have continued it")
    if given.resume and not exists:
        say(f"there is no {state} to resume from: training starts from the beginning")
    return {
        "checkpoint": OptionalDirectory(state) if state and given.checkpoint is None else state,
        "resume": given.resume,
    }


def _keeps(given: SimpleNamespace) -> bool:
    """Return whether this run has left a checkpoint."""
    return (given.checkpoint is not False or given.resume) and unfinished(given.model) is not None


@contextmanager
def _advice_on_size(points: data.Dataset) -> Iterator[None]:
    """Report what does not fit into memory, and the options that make a network smaller."""
    size = f"{points.n_features} features and {points.n_labels} labels"
    advice = "if most of these never occur, number them without gaps, since the model holds all of them"
    try:
        with memory_for(f"training a model of {size}: {advice}"):
            yield
    except TooLargeError as error:
        advice = "lower --hidden (the deep weights), --wide-budget (the wide weights), --negatives or --batch-size"
        raise MemoryError(f"{error.needs}: {advice}") from None


def _measure(model: TreeClassifier | BlendClassifier, held: tuple[Any, Any]) -> dict[str, float]:
    """Measure P@k on validation points, and keep the scores with the model. Labels that it does not know are misses."""
    truth = model.indicator(held[1])
    ranked, _ = model.topk_numbers(held[0], max(RANKS))
    found = {f"P@{k}": metrics.precision_at_k(truth, ranked, k) for k in RANKS}
    model.keep_validation(found)
    return found


def _end(model: PointClassifier, given: SimpleNamespace, epochs: int, *, interrupted: bool) -> bool:
    """Save a model and remove its checkpoint; return whether the model was saved.

    After Ctrl-C the checkpoint stays, and a model without a full epoch does not replace an existing model.
    """
    kept = _keeps(given)
    saved = not interrupted or epochs > 0 or not checkpoint_exists(given.model)
    if interrupted:
        say(_after_interrupt(model, given.model, epochs, saved=saved, kept=kept))
    if saved:
        save(model, given.model, **({} if isinstance(model, TreeClassifier) else {"compact": given.compact}))
    if kept and not interrupted:
        remove_checkpoint(given.model)
    return saved


def _after_interrupt(model: PointClassifier, model_path: Path, epochs: int, *, saved: bool, kept: bool) -> str:
    """Describe what Ctrl-C left behind."""
    if saved:
        bare = epochs == 0 and isinstance(model, BlendClassifier)
        parts = "the tree and the neighbors, without a network" if bare else "what is trained so far"
        return f"interrupted: saving {parts}" + ("; --resume continues the run" if kept else "")
    stays = f"interrupted in the first epoch: the model {model_path} stays as it was"
    return f"{stays}; --resume continues from the checkpoint" if kept else stays


def describe(summary: Mapping[str, Any]) -> str:
    """Put a summary into words."""
    epochs = ""  # the nodes of a tree have different numbers of epochs
    if "epochs" in summary:
        epochs = count(summary["epochs"], "epoch") + (", interrupted in " if summary["interrupted"] else " in ")
    lines = [
        ", ".join(count(summary[f"{kind}s"], kind) for kind in ("point", "feature", "label"))
        + f"; normalize={summary['normalize']}",
        f"{epochs}{summary['seconds']:.1f} s ({summary['cpu_seconds']:.1f} CPU s, "
        f"{count(summary['threads'], 'thread')}, {summary['backend']} kernels, {summary['isa']})",
    ]
    if summary["validation"]:
        lines.append("  ".join(f"{name} {100 * value:.2f}" for name, value in summary["validation"].items()))
    model = f"{summary['model']}: {in_words(summary['model_bytes'])}" + ("" if summary["saved"] else ", as it was")
    return "\n".join([*lines, model])
