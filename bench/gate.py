"""Compare the default classifiers of two commits, and decide whether the newer one may replace the older.

    python -m bench.gate --data DIR [DIR ...] [--made .bench/sets] [--base 2f895ca] [--sets NAME,...]
                         [--models blend,text] [--seeds 3] [--threads N] [--mask-seen gowalla-cf] [--limit 7200]
                         [--out .bench/gate.json]

The new side is the working tree, uncommitted changes included; the base is built in a git worktree under .bench.

DIR, or the environment variable SPARSENET_BENCH_DATA, names folders of data. Every subfolder with one training and one
test file in the format of the extreme classification repository is a set, and so is every pair of NAME.train.tsv and
NAME.test.tsv in DIR or DIR/text; all may be compressed. The sets that `bench.source_sets`, `bench.package_sets`,
`bench.dictionary_sets` and `bench.manual_sets` write are taken from the folder `--made`. Sparse sets train
`BlendClassifier` (also ``light``: no network, ``tree`` and ``network``), texts train `TextClassifier`.

Each fit runs in a fresh process on the same CPUs. Base and new take turns within each set and seed. Runs are kept in
`--out`. A second call continues there. It repeats failed runs, and runs with other sources, data or threads.

The gate holds if all of this holds; the exit status is then 0, otherwise 1:

- precision: the mean of P@1, P@3 and P@5 (texts: accuracy) falls by at most 0.05 points over all sets, and by at most
  0.3 points on each;
- time: the mean over all sets of new / base training CPU seconds is at most 1.05;
- calibration of the new side: over the first label of each test point, the mean probability and the share that is right
  differ by at most 0.03 on each set, and by at most 0.05 in each third of the points by label frequency.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench import sides
from bench.cache import DataSet, find, prepare
from bench.machine import load_average
from bench.report import head, keep
from bench.runner import call, names, use_cpus
from bench.text import read as read_texts
from sparsenet import metrics

DATA_VARIABLE = "SPARSENET_BENCH_DATA"
SIDES = ("base", "new")
SPARSE_MODELS, TEXT_MODELS = ("blend", "light", "tree", "network"), ("text",)
KS = (1, 3, 5)
THIRDS = ("rare", "middle", "frequent")
#: The sets of data that this project makes itself, by the script that writes them.
MADE = {
    "bench.source_sets": ("calls", "names"),
    "bench.package_sets": ("source", "maintainer", "section", "tags", "depends"),
    "bench.dictionary_sets": ("kanji", "readings", "translations", "synonyms"),
    "bench.manual_sets": ("see-also", "see-also-titles"),
}


@dataclass(frozen=True)
class Limits:
    """How far the new side may fall behind. Precisions are in points of 100."""

    mean_loss: float = 0.05
    set_loss: float = 0.3
    cpu_ratio: float = 1.05
    calibration: float = 0.03
    third_calibration: float = 0.05


@dataclass(frozen=True, kw_only=True)
class Source:
    """A set: where it lies, and whether it holds texts."""

    name: str
    folder: Path
    is_text: bool


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A set in the form that the runs read, with its truth and label counts."""

    name: str
    data: Path
    digest: str
    truth: Any
    label_counts: Mapping[Any, int] | NDArray[np.int64]
    mask_seen: bool


# --- data ---


def find_sets(folders: Sequence[Path]) -> dict[str, Source]:
    """Return every set below some folders by name."""
    found: dict[str, Source] = {}
    for folder in folders:
        sparse_sets = [path for path in sorted(folder.iterdir()) if path.is_dir() and _is_sparse_set(path)]
        texts = [file for place in (folder, folder / "text") for file in sorted(place.glob("*.train.tsv*"))]
        sources = [Source(name=path.name, folder=path, is_text=False) for path in sparse_sets]
        sources += [Source(name=file.name.split(".train.")[0], folder=file.parent, is_text=True) for file in texts]
        for source in sources:
            if source.name in found:
                sys.exit(f"{source.name} is both in {found[source.name].folder} and in {source.folder}")
            found[source.name] = source
    return found


def _is_sparse_set(folder: Path) -> bool:
    try:
        return bool(find(folder, "train") and find(folder, "test"))
    except ValueError:
        return False


def prepare_set(source: Source, folder: Path, mask_seen: bool) -> Prepared:
    """Write a set as the runs read it, and keep the truth to score them by."""
    if source.is_text:
        parts = {part: read_texts(source.folder, source.name, part) for part in ("train", "test")}
        text, data = json.dumps(parts), folder / f"{source.name}.json"
        data.write_text(text)
        digest, truth = hashlib.sha256(text.encode()).hexdigest(), np.asarray(parts["test"][1], dtype=str)
        counts: Any = Counter(parts["train"][1])
    else:
        prepared: DataSet = prepare(source.folder)
        data, digest, truth = prepared.folder, str(prepared.facts["sha256"]), prepared.matrix("test.Y")
        counts = np.bincount(prepared.matrix("train.Y").indices, minlength=truth.shape[1])
    return Prepared(name=source.name, data=data, digest=digest, truth=truth, label_counts=counts, mask_seen=mask_seen)


# --- scores ---


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


# --- runs ---


def measure(
    report: dict[str, Any], options: argparse.Namespace, places: Mapping[str, Path], sources: Mapping[str, Source]
) -> None:
    """Run what the report lacks; it is written after each run."""
    with tempfile.TemporaryDirectory(prefix="sparsenet-bench-") as folder:
        for source in sources.values():
            models = [name for name in options.models if name in (TEXT_MODELS if source.is_text else SPARSE_MODELS)]
            if not models:
                continue
            data = prepare_set(source, Path(folder), source.name in options.mask_seen)
            for model in models:
                for seed in range(options.seeds):
                    for side in SIDES if seed % 2 == 0 else SIDES[::-1]:
                        about = {"set": data.name, "model": model, "seed": seed, "side": side, "digest": data.digest}
                        about |= {"threads": options.threads, "sources": report["sources"][side]}
                        about["mask_seen"] = data.mask_seen
                        done = [run for run in report["runs"] if run["status"] == "measured"]
                        if any(all(run[key] == value for key, value in about.items()) for run in done):
                            continue
                        run = {**about, **_run(places[side], data, about, options.limit)}
                        same = ("set", "model", "seed", "side")
                        report["runs"] = [
                            old for old in report["runs"] if any(old[key] != run[key] for key in same)
                        ] + [run]
                        keep(report, options.out)
                        print(_brief(run), file=sys.stderr, flush=True)


def _run(place: Path, data: Prepared, about: Mapping[str, Any], limit: float) -> dict[str, Any]:
    job = {name: about[name] for name in ("model", "seed", "threads", "mask_seen")} | {"data": str(data.data)}
    start = {"load_average_before": load_average()}
    with tempfile.TemporaryDirectory(prefix="sparsenet-bench-") as folder:
        files = Path(folder) / "job.json", Path(folder) / "result.json"
        files[0].write_text(json.dumps(job))
        command: list[str | Path] = [sys.executable, "-P", "-m", "bench.gate_run", *files]
        problem = call(command, threads=job["threads"], limit=limit, environment=sides.environment(place))
        if problem:
            return {**start, "status": "failed", "reason": problem}
        found = json.loads(files[1].read_text())
        sides.check_library(found.pop("library"), place)
        with np.load(files[1].with_suffix(".npz")) as answers:
            return {**start, "status": "measured", **found, **score(data, answers)}


def _brief(run: Mapping[str, Any]) -> str:
    name = f"{run['set']}, {run['model']}, seed {run['seed']}, {run['side']}"
    if run["status"] != "measured":
        return f"{name}: {run['status']}: {run['reason']}"
    scores = " / ".join(f"{value:.2f}" for value in run["scores"].values())
    return f"{name}: {scores} in {run['train_cpu_seconds']:.1f} CPU s"


# --- verdict ---


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
    """Return by how many points the mean precision of the new side is higher."""
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
    lines += ["", *(_brief(run) for run in failed)]
    if pairs:
        lines += [f"{'holds' if holds else 'FAILS'}: {text}" for text, holds in verdicts(pairs, limits)]
    return "\n".join(lines)


def _row(name: str, model: str, both: Mapping[str, Any]) -> str:
    def each(show: Any) -> list[str]:
        return [show(both[side]) for side in SIDES]

    scores = each(lambda one: " / ".join(f"{value:.2f}" for value in one["scores"].values()))
    chances = each(lambda one: "{probability:.3f} / {right:.3f}".format(**one["calibration"]["all"]))
    off = [miscalibration(both["new"], group) for group in ("all", *THIRDS)]
    cells = [
        *scores,
        f"{gain(both):+.2f}",
        *each(lambda one: f"{one['train_cpu_seconds']:.2f}"),
        f"{cpu_ratio(both):.3f}",
        *each(lambda one: f"{one['train_seconds']:.2f}"),
        *each(lambda one: f"{one['peak_rss_mb']:,.0f}"),
        *chances,
        f"{off[0]:+.3f}",
        " / ".join(f"{value:+.3f}" for value in off[1:]),
    ]
    return f"| {name} | {model} | {' | '.join(cells)} |"


def holds(report: Mapping[str, Any], limits: Limits) -> bool:
    """Return whether something was compared, nothing failed and every gate holds."""
    pairs = compare(report["runs"])
    all_ran = all(run["status"] == "measured" for run in report["runs"])
    return bool(pairs) and all_ran and all(passed for _, passed in verdicts(pairs, limits))


def main(arguments: Sequence[str] | None = None) -> None:
    """Build, measure, print the table, and exit with 0 if the gate holds."""
    options = parse(arguments)
    use_cpus(options.threads)
    sources = chosen(options)
    places = {"base": sides.checkout(options.base), "new": Path.cwd()}
    for place in places.values():
        sides.build(place)
    sys.exit(not passes(options, sources, places, sides.git("rev-parse", options.base)))


def passes(options: argparse.Namespace, sources: Mapping[str, Source], places: Mapping[str, Path], base: str) -> bool:
    """Measure both sides, print the table, and return whether the gate holds."""
    before = json.loads(options.out.read_text())["runs"] if options.out.exists() else []
    report = head(threads=options.threads, seeds=options.seeds, base=base)
    report["sources"] = {side: sides.fingerprint(place) for side, place in places.items()}
    report["runs"] = before
    measure(report, options, places, sources)
    # Runs of other sets or seeds stay in the file, but do not count now.
    wanted = {**report, "runs": [run for run in report["runs"] if _is_wanted(run, report, options, sources)]}
    print(markdown(wanted, Limits()))
    for script, made in MADE.items():
        missing = [name for name in made if name not in sources and (options.sets is None or name in options.sets)]
        if missing:
            print(f"not compared: {', '.join(missing)}; python -m {script} --help says how to write them")
    return holds(wanted, Limits())


def _is_wanted(
    run: Mapping[str, Any], report: Mapping[str, Any], options: argparse.Namespace, sources: Mapping[str, Source]
) -> bool:
    current = run["sources"] == report["sources"][run["side"]] and run["threads"] == options.threads
    return current and run["set"] in sources and run["model"] in options.models and run["seed"] < options.seeds


def chosen(options: argparse.Namespace) -> dict[str, Source]:
    """Return the sets to compare by name."""
    folders = [*options.data, *([options.made] if options.made.is_dir() else [])]
    found = find_sets(folders)
    unknown = [name for name in options.sets or [] if name not in found]
    if unknown:
        sys.exit(f"no set named {', '.join(unknown)} in {', '.join(map(str, folders))}; there are {', '.join(found)}")
    unmasked = [name for name in options.mask_seen if name in found and found[name].is_text]
    if unmasked:
        sys.exit(f"--mask-seen names texts: {', '.join(unmasked)}")
    return {name: source for name, source in found.items() if options.sets is None or name in options.sets}


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = [Path(part) for part in os.environ.get(DATA_VARIABLE, "").split(os.pathsep) if part]
    parser.add_argument("--data", type=Path, nargs="+", default=known, metavar="DIR", help=f"default: {DATA_VARIABLE}")
    parser.add_argument("--made", type=Path, default=Path(".bench") / "sets", help="folder of the sets made here")
    parser.add_argument("--base", default="2f895ca", help="the commit to compare with")
    parser.add_argument("--sets", type=names, help="default: all that are found")
    parser.add_argument("--models", type=names, default=["blend", "text"], help=f"of {', '.join(_MODELS)}")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds: 0, 1, ...")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--mask-seen", type=names, default=["gowalla-cf"], help="sets whose feature i is label i")
    parser.add_argument("--limit", type=float, default=7200, help="seconds that a run may take")
    parser.add_argument("--out", type=Path, default=Path(".bench") / "gate.json")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.models if name not in _MODELS]
    if unknown:
        parser.error(f"--models: unknown: {', '.join(unknown)}; there are {', '.join(_MODELS)}")
    if not options.data and not options.made.is_dir():
        parser.error(f"name a folder of data with --data or {DATA_VARIABLE}")
    for folder in options.data:
        if not folder.is_dir():
            parser.error(f"--data: {folder} is not a folder")
    return options


_MODELS = (*SPARSE_MODELS, *TEXT_MODELS)


if __name__ == "__main__":
    main()
