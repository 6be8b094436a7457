"""What a saved model is: `sparsenet info MODEL`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sparsenet import storage
from sparsenet.cli.commands import best_epoch, count
from sparsenet.cli.runs import place_of_state
from sparsenet.core.memory import in_words
from sparsenet.data.columns import quoted_names
from sparsenet.engines.network import parameters
from sparsenet.engines.network.model import Network
from sparsenet.engines.network.training import checkpoints
from sparsenet.engines.text.text_network import NetworkModel
from sparsenet.engines.tree import tree_arrays
from sparsenet.estimators import blend_saving as blends
from sparsenet.estimators import network_saving as points
from sparsenet.estimators import text_saving as texts
from sparsenet.estimators import tree_saving as trees
from sparsenet.estimators.blend import BlendClassifier
from sparsenet.estimators.blend_parts import DROPPED, OF_THE_WHOLE, PARTS
from sparsenet.estimators.extreme import ExtremeClassifier
from sparsenet.estimators.text import TextClassifier
from sparsenet.estimators.tree import TreeClassifier
from sparsenet.storage.parts import nothing_believed

#: How labels came, in the words of `Target.kind`.
LABELS = {"single": "one a point", "lists": "several a point", "dense": "columns", "sparse": "columns"}


def collect(path: Path) -> dict[str, Any]:
    """Return all that `sparsenet info MODEL` shows, ready for JSON; the model is loaded, and checked by that."""
    arrays, metadata = storage.load(path)
    with nothing_believed():
        _, collected = _kind(metadata.get("model"))
        found = collected(arrays, metadata)
        settings = metadata["parameters"] | dict(_of_parts(metadata))
    state = place_of_state(path)
    return {
        "model": str(path),
        "kind": metadata["model"],
        **found,
        "bytes": sum(file.stat().st_size for file in path.iterdir()),
        "settings": {name: value for name, value in settings.items() if name not in ("n_jobs", "verbose")},
        "unfinished": str(state) if checkpoints.is_there(state) else None,
    }


def _of_parts(metadata: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """List what is not as by default in the parts of a blend, as scikit-learn calls it: network__hidden."""
    if metadata.get("dropped"):
        yield "network", DROPPED
    for part in metadata.get("given", []):
        usual = PARTS[part]().get_params()
        for name, value in metadata[part]["parameters"].items():
            if name not in OF_THE_WHOLE and parameters.from_json(value) != usual[name]:
                yield f"{part}__{name}", value


def _of_points(arrays: dict[str, Any], metadata: dict[str, Any]) -> dict[str, Any]:
    return _about_network(points.unpack(ExtremeClassifier, arrays, metadata), metadata)


def _about_network(model: ExtremeClassifier, metadata: dict[str, Any]) -> dict[str, Any]:
    return {
        "labels": len(model.classes_),
        "label_kind": metadata["target"]["kind"],
        "features": model.n_features_in_,
        "weights": _n_weights(model.network_),
        "precision": _precision(compact=bool(metadata.get("compact"))),
        "points": model.n_points_,
        "validation": best_epoch(model.history_),
        "chosen": {
            **{name: value for name, (value, _) in model.choices_.items()},
            "epochs": model.n_iter_,
            "normalize": model.normalize_,
            "wide_learning_rate": (metadata.get("wide") or {}).get("learning_rate"),
        },
    }


def _of_trees(arrays: dict[str, Any], metadata: dict[str, Any]) -> dict[str, Any]:
    return _about_tree(trees.unpack(TreeClassifier, arrays, metadata), metadata)


def _about_tree(model: TreeClassifier, metadata: dict[str, Any]) -> dict[str, Any]:
    levels = model._fitted.levels
    return {
        "labels": len(model.classes_),
        "label_kind": metadata["target"]["kind"],
        "features": model.n_features_in_,
        "levels": [len(level.children) - 1 for level in levels],
        "weights": sum(int(level.weights.size + level.bias.size) for level in levels),
        "precision": "8 bits",
        "points": model.n_points_,
        "validation": model._fitted.validation,
        "chosen": {"normalize": model.normalize_},
    }


def _of_blends(arrays: dict[str, Any], metadata: dict[str, Any]) -> dict[str, Any]:
    whole = blends.unpack(BlendClassifier, arrays, metadata)
    found = tree = _about_tree(whole.tree_, metadata["tree"])
    if whole.network_ is not None:
        network = _about_network(whole.network_, metadata["network"])
        found = network | {
            "levels": tree["levels"],
            "weights": network["weights"] + tree["weights"],
            "precision": f"{network['precision']}, those of the tree of {tree['precision']}",
        }
    chosen = found["chosen"] | {
        "normalize": whole.normalize_,
        "cost": whole.tree_.cost_,
        "candidates": whole.candidates_,
        "neighbors": metadata["neighbors"],
    }
    if whole.network_ is None and whole.network is None:
        chosen["network"] = "none"  # for want of time
    about = {"label_kind": metadata["target"]["kind"], "points": whole.n_points_}
    choices = {name: choice._asdict() for name, choice in whole.choices_.items()}
    return found | about | {"validation": whole._fitted.validation, "chosen": chosen, "choices": choices}


def _of_texts(arrays: dict[str, Any], metadata: dict[str, Any]) -> dict[str, Any]:
    model = texts.unpack(TextClassifier, arrays, metadata)
    weights: Any = model._fitted.model
    network, rules = isinstance(weights, NetworkModel), model._fitted.vocabulary.rules
    best: Mapping[str, Any] = max(model.search_, key=lambda trial: trial["score"], default={})
    return {
        "labels": len(model.classes_),
        "label_kind": metadata["target"]["kind"],
        "features": len(model._fitted.vocabulary),
        "weights": _n_weights(weights.network) if network else int(weights.matrix.size + weights.bias.size),
        "precision": _precision(compact=weights.compact) if network else "8 bits",
        "points": model.n_texts_,
        "columns": model.columns_,
        "validation": None if model.validation_score_ is None else {"P@1": model.validation_score_},
        "chosen": {
            "method": "network" if network else "linear",
            "word_ngrams": rules.word_ngrams,
            "char_ngrams": [rules.char_low, rules.char_high] if rules.char_high else None,
            "cost": None if network else best.get("cost", model.cost),
            "threshold": None if model.threshold_ is None else float(f"{model.threshold_:.4g}"),
        },
    }


def _kind(name: Any) -> tuple[type[Any], Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]]:
    """Return the classifier of a kind of model, and what says more of one; what is none is left to the loader."""
    kinds = {
        texts.KIND: (TextClassifier, _of_texts),
        tree_arrays.KIND: (TreeClassifier, _of_trees),
        blends.KIND: (BlendClassifier, _of_blends),
    }
    return kinds.get(str(name), (ExtremeClassifier, _of_points))


def _n_weights(network: Network) -> int:
    return sum(parameter.value.size for parameter in network.parameters())


def _precision(*, compact: bool) -> str:
    return "8 and 16 bits" if compact else "32 bits"


def describe(found: Mapping[str, Any]) -> str:
    """Lay out for reading what was found."""
    chosen = {name: value for name, value in found["chosen"].items() if value is not None}
    lines = {
        "model": f"{found['model']}: {found['kind']}, {in_words(found['bytes'])}",
        "labels": f"{found['labels']} ({LABELS[found['label_kind']]})",
        "features": str(found["features"]),
        "levels": _nodes(found.get("levels", [])),
        "weights": f"{found['weights']} of {found['precision']}",
        "trained on": count(found["points"], "text" if found["kind"] == texts.KIND else "point"),
        "columns": _columns(found.get("columns")),
        "held out": "  ".join(f"{name} {100 * value:.2f}" for name, value in (found["validation"] or {}).items()),
        "chosen": _listed(chosen),
        "choices": f"\n{'':<12}".join(f"{name}: {own['why']}" for name, own in found.get("choices", {}).items()),
        "settings": _listed(_unusual(found)),
        "unfinished": found["unfinished"] and f"train --resume goes on with the run in {found['unfinished']}",
    }
    return "\n".join(f"{name:<11} {value}" for name, value in lines.items() if value)


def _nodes(levels: Sequence[int]) -> str:
    """Say how many nodes each level of a tree has, the root's first."""
    return " > ".join(count(n, "node") for n in levels)


def _columns(known: Mapping[str, Any] | None) -> str:
    """Say what the columns are called that texts and labels were in, where they were called by name."""
    if known is None:
        return ""
    labels = "" if known["target"] is None else f", labels in {known['target']!r}"
    apart = "" if known["label_delimiter"] is None else f", separated by {known['label_delimiter']!r}"
    return f"texts in {quoted_names(known['text'], 'and')}{labels}{apart}"


def _unusual(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that are not what they are by default."""
    classifier, _ = _kind(found["kind"])
    usual = classifier().get_params()
    settings = {name: parameters.from_json(value) for name, value in found["settings"].items()}
    # Of a classifier within a blend they stand there since they are not.
    return {name: value for name, value in settings.items() if name not in usual or value != usual[name]}


def _listed(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())
