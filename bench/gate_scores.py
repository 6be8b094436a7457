"""The scores, limits, verdicts and table of `bench.gate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet import metrics

SIDES = ("base", "new")
KS = (1, 3, 5)
THIRDS = ("rare", "middle", "frequent")


@dataclass(frozen=True)
class Limits:
    """How far the new side may fall behind. Precisions are in points of 100."""

    mean_loss: float = 0.05
    set_loss: float = 0.3
    cpu_ratio: float = 1.05
    calibration: float = 0.03
    third_calibration: float = 0.05


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A set in the form that the runs read, with its truth and label counts."""

    name: str
    data: Path
    digest: str
    truth: Any
    label_counts: Mapping[Any, int] | NDArray[np.int64]
    mask_seen: bool


def thirds(counts: NDArray[Any]) -> NDArray[np.int64]:
    """Return the third, 0 (rarest) to 2, of each point when points are ordered by the frequency of a label.

    Points with equal counts go to the same third, so thirds may differ in size or be empty.

    >>> thirds(np.array([1, 1, 5, 7, 9, 9]))
    array([0, 0, 1, 1, 2, 2])
    """
    ordered = np.sort(counts)
    middles = (np.searchsorted(ordered, counts, "left") + np.searchsorted(ordered, counts, "right")) / 2
    return np.minimum((3 * middles / len(counts)).astype(np.int64), 2)


def calibration(probabilities: NDArray[Any], right: NDArray[Any], counts: NDArray[Any]) -> dict[str, Any]:
    """Return mean probability, share right and number of points: of all points and of each third."""
    groups = {"all": np.ones(len(right), bool)}
    groups |= {name: thirds(counts) == i for i, name in enumerate(THIRDS)}
    return {
        name: {
            "probability": float(probabilities[chosen].mean()),
            "right": float(right[chosen].mean()),
            "points": int(chosen.sum()),
        }
        for name, chosen in groups.items()
        if chosen.any()
    }


def score(data: Prepared, answers: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Return precisions in points and the calibration of the first label."""
    labels, probabilities = answers["labels"], answers["probabilities"]
    if "predicted" in answers:
        first = labels[:, 0]
        right = first == data.truth
        counts = np.array([data.label_counts[label] for label in first])
        precisions = {"accuracy": 100 * float(np.mean(answers["predicted"] == data.truth))}
    else:
        first = labels[:, 0]
        right = np.asarray(data.truth[np.arange(len(first)), first]).ravel() != 0
        counts = np.asarray(data.label_counts)[first]
        precisions = {f"P@{k}": 100 * metrics.precision_at_k(data.truth, labels, k) for k in KS}
    return {"scores": precisions, "calibration": calibration(probabilities, right, counts)}


def summarize(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the means over seeds of one side of a set."""
    calibrations: dict[str, Any] = {}
    for name in ("all", *THIRDS):
        parts = [run["calibration"][name] for run in runs if name in run["calibration"]]
        points = sum(part["points"] for part in parts)
        if points:
            calibrations[name] = {
                key: sum(part[key] * part["points"] for part in parts) / points for key in ("probability", "right")
            }
    return {
        "scores": {name: fmean(run["scores"][name] for run in runs) for name in runs[0]["scores"]},
        **{name: fmean(run[name] for run in runs) for name in ("train_cpu_seconds", "train_seconds", "peak_rss_mb")},
        "calibration": calibrations,
    }


def compare(runs: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the two sides of each set and model, over the seeds that both sides have."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    measured = [run for run in runs if run["status"] == "measured"]
    for name, model in dict.fromkeys((run["set"], run["model"]) for run in measured):
        own = [run for run in measured if (run["set"], run["model"]) == (name, model)]
        seeds = [{run["seed"] for run in own if run["side"] == side} for side in SIDES]
        both = {
            side: summarize(chosen)
            for side in SIDES
            if (chosen := [run for run in own if run["side"] == side and run["seed"] in seeds[0] & seeds[1]])
        }
        if len(both) == len(SIDES):
            found[name, model] = both
    return found


def gain(both: Mapping[str, Any]) -> float:
    """Return the gain of the new side in mean precision, in points."""
    return fmean(both["new"]["scores"].values()) - fmean(both["base"]["scores"].values())


def cpu_ratio(both: Mapping[str, Any]) -> float:
    """Return new / base training CPU seconds."""
    return float(both["new"]["train_cpu_seconds"] / both["base"]["train_cpu_seconds"])


def miscalibration(one: Mapping[str, Any], group: str) -> float:
    """Return mean probability minus share right; 0 for a third without points."""
    part = one["calibration"].get(group)
    return float(part["probability"] - part["right"]) if part else 0.0


def verdicts(pairs: Mapping[tuple[str, str], Mapping[str, Any]], limits: Limits) -> list[tuple[str, bool]]:
    """Return a sentence for each gate and whether it holds."""
    gains = {name: gain(both) for name, both in pairs.items()}
    off = {(name, g): miscalibration(both["new"], g) for name, both in pairs.items() for g in ("all", *THIRDS)}
    worst = min(gains, key=lambda name: gains[name])
    mean_gain, ratio = fmean(gains.values()), fmean(cpu_ratio(both) for both in pairs.values())
    found = [
        (f"mean precision over {len(gains)} comparisons: {mean_gain:+.3f} points", mean_gain >= -limits.mean_loss),
        (f"worst set, {' '.join(worst)}: {gains[worst]:+.3f} points", gains[worst] >= -limits.set_loss),
        (f"training CPU seconds, new / base: {ratio:.3f}", ratio <= limits.cpu_ratio),
    ]
    for title, groups, limit in (
        ("set", ("all",), limits.calibration),
        ("third of a set", THIRDS, limits.third_calibration),
    ):
        some = {key: value for key, value in off.items() if key[1] in groups}
        key = max(some, key=lambda one: abs(some[one]))
        wrong = sorted({" ".join(one[0]) for one, value in some.items() if abs(value) > limit})
        where = f"{' '.join(key[0])}, {key[1]}" if title != "set" else " ".join(key[0])
        failing = f"; beyond {limit}: {', '.join(wrong)}" if wrong else ""
        found.append((f"worst calibration of a {title}: {some[key]:+.3f} ({where}){failing}", not wrong))
    return found


def markdown(report: Mapping[str, Any], limits: Limits) -> str:
    """Return a row for each set and model, and a line for each gate."""
    pairs = compare(report["runs"])
    lines = [
        f"Base {report['base'][:12]} against the working tree: means over seeds of P@1 / P@3 / P@5, or text accuracy.",
        "",
        "| set | model | base | new | difference of the mean | training CPU s, base | new | ratio | wall s, base | new "
        "| peak MB, base | new | probability / right, base | new | off: all | rare / middle / frequent |",
        "|---" * 16 + "|",
    ]
    lines += [_row(name, model, both) for (name, model), both in pairs.items()]
    failed = [run for run in report["runs"] if run["status"] != "measured"]
    lines += ["", *(brief(run) for run in failed)]
    if pairs:
        lines += [f"{'holds' if holds else 'FAILS'}: {text}" for text, holds in verdicts(pairs, limits)]
    return "\n".join(lines)


def _row(name: str, model: str, both: Mapping[str, Any]) -> str:
    def each(show: Any) -> list[str]:
        return [show(both[side]) for side in SIDES]

    scores = each(lambda one: " / ".join(f"{value:.2f}" for value in one["scores"].values()))
    calibrations = each(lambda one: "{probability:.3f} / {right:.3f}".format(**one["calibration"]["all"]))
    off = [miscalibration(both["new"], group) for group in ("all", *THIRDS)]
    cells = [
        *scores,
        f"{gain(both):+.2f}",
        *each(lambda one: f"{one['train_cpu_seconds']:.2f}"),
        f"{cpu_ratio(both):.3f}",
        *each(lambda one: f"{one['train_seconds']:.2f}"),
        *each(lambda one: f"{one['peak_rss_mb']:,.0f}"),
        *calibrations,
        f"{off[0]:+.3f}",
        " / ".join(f"{value:+.3f}" for value in off[1:]),
    ]
    return f"| {name} | {model} | {' | '.join(cells)} |"


def holds(report: Mapping[str, Any], limits: Limits) -> bool:
    """Return whether something was compared, nothing failed and every gate holds."""
    pairs = compare(report["runs"])
    all_ran = all(run["status"] == "measured" for run in report["runs"])
    return bool(pairs) and all_ran and all(passed for _, passed in verdicts(pairs, limits))


def brief(run: Mapping[str, Any]) -> str:
    """Describe a run in one line."""
    name = f"{run['set']}, {run['model']}, seed {run['seed']}, {run['side']}"
    if run["status"] != "measured":
        return f"{name}: {run['status']}: {run['reason']}"
    scores = " / ".join(f"{value:.2f}" for value in run["scores"].values())
    return f"{name}: {scores} in {run['train_cpu_seconds']:.1f} CPU s"
