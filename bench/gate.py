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
from typing import Any

import numpy as np

from bench import sides
from bench.cache import DataSet, find, prepare
from bench.gate_scores import SIDES, Limits, Prepared, brief, holds, markdown, score
from bench.machine import load_average
from bench.report import head, keep
from bench.runner import call, names, use_cpus
from bench.text import read as read_texts

DATA_VARIABLE = "SPARSENET_BENCH_DATA"
SPARSE_MODELS, TEXT_MODELS = ("blend", "light", "tree", "network"), ("text",)
#: The sets of data that this project makes itself, by the script that writes them.
MADE = {
    "bench.source_sets": ("calls", "names"),
    "bench.package_sets": ("source", "maintainer", "section", "tags", "depends"),
    "bench.dictionary_sets": ("kanji", "readings", "translations", "synonyms"),
    "bench.manual_sets": ("see-also", "see-also-titles"),
}


@dataclass(frozen=True, kw_only=True)
class Source:
    """A set: where it lies, and whether it holds texts."""

    name: str
    folder: Path
    is_text: bool


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
                        print(brief(run), file=sys.stderr, flush=True)


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
