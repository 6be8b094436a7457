"""Reports on saved models: `sparsenet info MODEL`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sparsenet import storage
from sparsenet.cli import log_commands, stream_commands, table_commands
from sparsenet.cli.reporting import count
from sparsenet.cli.results import best_epoch
from sparsenet.cli.runs import unfinished
from sparsenet.core.memory import in_words
from sparsenet.data.columns import quoted_names
from sparsenet.engines.network import parameters
from sparsenet.engines.network.model import Network
from sparsenet.estimators.blend import BlendClassifier
from sparsenet.estimators.blend_parts import DROPPED, OF_THE_WHOLE, PARTS
from sparsenet.estimators.extreme import ExtremeClassifier
from sparsenet.estimators.loading import WINGS, class_of, load
from sparsenet.estimators.recommender import Recommender
from sparsenet.estimators.table import TableClassifier
from sparsenet.estimators.text import TextClassifier
from sparsenet.estimators.tree import TreeClassifier
from sparsenet.selection.choose import Decision
from sparsenet.storage.parts import model_errors

_COLUMNS = "columns of a matrix"
#: Forms of labels for people, by `Target.kind`.
LABELS = {"single": "one per {noun}", "lists": "several per {noun}", "dense": _COLUMNS, "sparse": _COLUMNS}


def collect(path: Path) -> dict[str, Any]:
    """Return all that `sparsenet info MODEL` shows, ready for JSON. Loading the model checks it."""
    model, metadata = load(path), storage.metadata(path)
    if isinstance(model, Recommender):
        return log_commands.about(model, path, choices_of(model))
    if metadata["model"] in WINGS:
        return stream_commands.about(model, path)
    about: Callable[[Any, Mapping[str, Any]], dict[str, Any]] = {
        ExtremeClassifier: _about_network,
        TreeClassifier: _about_tree,
        BlendClassifier: _about_blend,
        TextClassifier: _about_text,
        TableClassifier: lambda model, _: table_commands.about(model),
    }[type(model)]
    with model_errors():
        found = about(model, metadata)
        settings = metadata["parameters"] | dict(_part_settings(metadata))
    state = unfinished(path)
    return {
        "model": str(path),
        "kind": metadata["model"],
        "labels": len(model.classes_),
        "label_kind": metadata["target"]["kind"],
        **found,
        "choices": choices_of(model),
        "bytes": sum(file.stat().st_size for file in path.iterdir()),
        "settings": {name: value for name, value in settings.items() if name not in ("n_jobs", "verbose")},
        "unfinished": None if state is None else str(state),
    }


def choices_of(model: Any) -> dict[str, dict[str, Any]]:
    """Return the choices of a classifier and of its parts, named like the parameters of parts: network__hidden."""
    found = {name: _choice(choice) for name, choice in getattr(model, "choices_", {}).items()}
    for part in PARTS:
        if (own := getattr(model, f"{part}_", None)) is not None:
            found |= {f"{part}__{name}": choice for name, choice in choices_of(own).items()}
    return found


def _choice(choice: tuple[Any, ...]) -> dict[str, Any]:
    """Return the fields of a `Decision`; old pickles hold only its first two."""
    return {name: _plain(value) for name, value in Decision(*choice)._asdict().items()}


def _plain(value: Any) -> Any:
    """Return a value as JSON can write it."""
    if isinstance(value, Mapping):
        return {str(name): _plain(own) for name, own in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(own) for own in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return value.item() if hasattr(value, "item") else str(value)


def _part_settings(metadata: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """List the settings of the parts of a blend that differ from their defaults."""
    if metadata.get("dropped"):
        yield "network", DROPPED
    for part in metadata.get("given", []):
        defaults = PARTS[part]().get_params()
        for name, value in metadata[part]["parameters"].items():
            if name not in OF_THE_WHOLE and parameters.from_json(value) != defaults[name]:
                yield f"{part}__{name}", value


def _about_network(
    model: ExtremeClassifier, metadata: Mapping[str, Any], *, is_rounded: bool = False
) -> dict[str, Any]:
    return {
        "features": model.n_features_in_,
        "weights": _n_weights(model.network_),
        "precision": _precision(compact=is_rounded or bool(metadata.get("compact"))),
        "points": model.n_points_,
        "validation": best_epoch(model.history_),
        "chosen": {
            **{name: choice.get("value") for name, choice in choices_of(model).items()},
            "epochs": model.n_iter_,
            "normalize": model.normalize_,
            "wide_learning_rate": (metadata.get("wide") or {}).get("learning_rate"),
        },
    }


def _about_tree(model: TreeClassifier, metadata: Mapping[str, Any]) -> dict[str, Any]:
    levels = model.fitted_.levels
    return {
        "features": model.n_features_in_,
        "levels": [len(level.children) - 1 for level in levels],
        "weights": sum(int(level.weights.size + level.bias.size) for level in levels),
        "precision": "8 bits",
        "points": model.n_points_,
        "validation": model.fitted_.validation,
        "chosen": {"normalize": model.normalize_},
    }


def _about_blend(whole: BlendClassifier, metadata: Mapping[str, Any]) -> dict[str, Any]:
    found = tree = _about_tree(whole.tree_, metadata["tree"])
    if whole.network_ is not None:
        network = _about_network(whole.network_, metadata["network"], is_rounded=metadata.get("rounded", False))
        found = network | {
            "levels": tree["levels"],
            "weights": network["weights"] + tree["weights"],
            "precision": f"{network['precision']}; tree: {tree['precision']}",
        }
    chosen = found["chosen"] | {
        "normalize": whole.normalize_,
        "cost": whole.tree_.cost_,
        "candidates": whole.candidates_,
        "neighbors": metadata["neighbors"],
    }
    if whole.network_ is None and whole.network is None:
        chosen["network"] = "none"  # the time budget was too short
    return found | {"points": whole.n_points_, "validation": whole.fitted_.validation, "chosen": chosen}


def _about_text(model: TextClassifier, metadata: Mapping[str, Any]) -> dict[str, Any]:
    weights: Any = model.fitted_.model
    rules, method = model.fitted_.vocabulary.rules, model.fitted_.kind
    best: Mapping[str, Any] = max(model.search_, key=lambda trial: trial["score"], default={})  # of version 0.1
    cost = model.choices_["cost"].value if "cost" in model.choices_ else best.get("cost", model.cost)
    return {
        "features": len(model.fitted_.vocabulary),
        "weights": weights.n_weights,
        "precision": "8 bits" if method == "linear" else _precision(compact=weights.compact or method == "blend"),
        "points": model.n_texts_,
        "columns": model.columns_,
        "validation": None if model.validation_score_ is None else {"P@1": model.validation_score_},
        "chosen": {
            "method": method,
            "word_ngrams": rules.word_ngrams,
            "char_ngrams": [rules.char_low, rules.char_high] if rules.char_high else None,
            "cost": cost if method == "linear" else None,
            "vectors": None if (view := model.fitted_.view) is None else f"{view.vectors.source} x {view.weight:g}",
            "threshold": None if model.threshold_ is None else float(f"{model.threshold_:.4g}"),
        },
    }


def _n_weights(network: Network) -> int:
    return sum(parameter.size for parameter in network.parameters())


def _precision(*, compact: bool) -> str:
    return "8 and 16 bits" if compact else "32 bits"


def describe(found: Mapping[str, Any]) -> str:
    """Lay out a report for people."""
    if found["kind"] == Recommender.__name__:
        return log_commands.describe_model(found)
    if found["kind"] in WINGS:
        return stream_commands.describe_model(found)
    if found["kind"] == TableClassifier.__name__:
        return table_commands.describe_model(found)
    noun = "text" if found["kind"] == TextClassifier.__name__ else "point"
    lines = {
        "model": f"{found['model']}: {found['kind']}, {in_words(found['bytes'])}",
        "labels": f"{found['labels']} ({LABELS[found['label_kind']].format(noun=noun)})",
        "features": str(found["features"]),
        "levels": " > ".join(count(n, "node") for n in found.get("levels", [])),
        "weights": f"{found['weights']} of {found['precision']}",
        "trained on": count(found["points"], noun),
        "columns": _columns(found.get("columns")),
        "held out": "  ".join(f"{name} {100 * value:.2f}" for name, value in (found["validation"] or {}).items()),
        "chosen": _listed({name: value for name, value in found["chosen"].items() if value is not None}),
    }
    rows = [(name, value) for name, value in lines.items() if value]
    rows += [("decided", f"{name}: {own['why']}") for name, own in found["choices"].items() if own["options"]]
    if unusual := _changed_settings(found):
        rows.append(("settings", _listed(unusual)))
    if found["unfinished"]:
        rows.append(("unfinished", f"train --resume continues the run in {found['unfinished']}"))
    return "\n".join(f"{name:<11} {value}" for name, value in rows)


def _columns(known: Mapping[str, Any] | None) -> str:
    """Name the columns of texts and labels, if the training data had named columns."""
    if known is None:
        return ""
    labels = "" if known["target"] is None else f", labels in {known['target']!r}"
    apart = "" if known["label_delimiter"] is None else f", separated by {known['label_delimiter']!r}"
    return f"texts in {quoted_names(known['text'], 'and')}{labels}{apart}"


def _changed_settings(found: Mapping[str, Any]) -> dict[str, Any]:
    defaults = class_of(found["kind"])().get_params()
    settings = {name: parameters.from_json(value) for name, value in found["settings"].items()}
    # Settings of the parts of a blend are listed only if they differ.
    return {name: value for name, value in settings.items() if name not in defaults or value != defaults[name]}


def _listed(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())
