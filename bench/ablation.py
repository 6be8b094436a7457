"""Ablation at equal training time: negatives, hashing, active sets, batches, wide and deep, logQ, precision.

    python -m bench.ablation [--labels 15000,120000,670091] [--data DIR ...] [--seconds 60,120,300] [--clock wall]
                             [--variants NAME;...] [--repeats 1] [--threads 1] [--set NAME=JSON ...] [--out FILE]
    python -m bench.ablation --show bench/results/ablation.json [--plot FILE.png]

Each variant trains on the same planted or real data for the same time, set-up included. Its learning rate falls over
that time to its final share. Then all test points are scored against all labels. `--clock cpu` counts CPU seconds
divided by threads instead of wall time, for machines with other load. Variants take turns; the seed is the number of
the round. The rules are in bench/README.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

from bench.cache import DataSet, plant, prepare
from bench.planted import Shape
from bench.report import assignment, head, keep, numbers, present, setting
from bench.runner import in_child

#: Negatives per sample for variants with an active set for each sample, as in SLIDE and BOLT; the number is BOLT's.
OWN_NEGATIVES = 512


@dataclass(frozen=True, kw_only=True)
class Variant:
    """Changes to the parameters of `ExtremeClassifier`, and the question that they answer.

    `sampler` may name a hash family, such as ``"lsh-dwta"``. `correct` turns the logQ correction of softmax on or off.
    `batches` is how points are put together: "shuffled", "clustered" by hash, or "alternating" between the two.
    """

    question: str
    settings: Mapping[str, Any] = field(default_factory=dict)


DEEP = {"wide": False}
OWN = {**DEEP, "per_sample": True, "n_negatives": OWN_NEGATIVES}
VARIANTS = {
    "random": Variant(question="negatives"),
    "frequency": Variant(question="negatives", settings={"sampler": "frequency"}),
    "lsh simhash": Variant(question="negatives", settings={"sampler": "lsh-simhash"}),
    "lsh dwta": Variant(question="negatives", settings={"sampler": "lsh-dwta"}),
    "lsh minhash": Variant(question="negatives", settings={"sampler": "lsh-minhash"}),
    "all labels": Variant(question="negatives", settings={"sampler": "none"}),
    "deep, random": Variant(question="negatives of the deep path alone", settings=DEEP),
    "deep, frequency": Variant(question="negatives of the deep path alone", settings={**DEEP, "sampler": "frequency"}),
    "deep, lsh simhash": Variant(
        question="negatives of the deep path alone", settings={**DEEP, "sampler": "lsh-simhash"}
    ),
    "deep, lsh dwta": Variant(question="negatives of the deep path alone", settings={**DEEP, "sampler": "lsh-dwta"}),
    "deep, all labels": Variant(question="negatives of the deep path alone", settings={**DEEP, "sampler": "none"}),
    "deep, each its own, random": Variant(question="an active set for each sample", settings=OWN),
    "deep, each its own, lsh dwta": Variant(
        question="an active set for each sample", settings={**OWN, "sampler": "lsh-dwta"}
    ),
    "deep, each its own, lsh simhash": Variant(
        question="an active set for each sample", settings={**OWN, "sampler": "lsh-simhash"}
    ),
    "wide alone": Variant(question="paths", settings={"hidden": 0}),
    # Equal to "deep, random": the difference between the two is noise.
    "deep alone": Variant(question="paths", settings=DEEP),
    "softmax, logQ": Variant(question="loss", settings={"loss": "softmax", "correct": True}),
    "softmax, no logQ": Variant(question="loss", settings={"loss": "softmax", "correct": False}),
    "softmax, frequency, logQ": Variant(
        question="loss", settings={"loss": "softmax", "correct": True, "sampler": "frequency"}
    ),
    "softmax, frequency, no logQ": Variant(
        question="loss", settings={"loss": "softmax", "correct": False, "sampler": "frequency"}
    ),
    "softmax, lsh dwta, logQ": Variant(
        question="loss", settings={"loss": "softmax", "correct": True, "sampler": "lsh-dwta"}
    ),
    "softmax, lsh dwta, no logQ": Variant(
        question="loss", settings={"loss": "softmax", "correct": False, "sampler": "lsh-dwta"}
    ),
    "clustered batches": Variant(question="points of a batch", settings={"batches": "clustered"}),
    "clustered batches, every other epoch": Variant(question="points of a batch", settings={"batches": "alternating"}),
    "bf16": Variant(question="precision", settings={"precision": "bfloat16"}),
    "fp32": Variant(question="precision", settings={"precision": "float32"}),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, or show a kept result."""
    present(parse(arguments), measure, markdown, plot)


def measure(options: argparse.Namespace, run_job: Callable[..., dict[str, Any]] = in_child) -> dict[str, Any]:
    """Run every variant; the result is written after each run."""
    sources = [*options.labels, *options.data]
    if len(options.seconds) != len(sources):
        sys.exit(f"--seconds needs {len(sources)} numbers, one for each of --labels and --data")
    report = head(threads=options.threads, repeats=options.repeats, clock=options.clock, set=dict(options.set), data={})
    for repeat in range(options.repeats):
        for source, seconds in zip(sources, options.seconds, strict=True):
            data = _data(source, options.shape)
            title = f"{data.name}, {data.facts['train']['labels']:,} labels"
            report["data"][title] = data.facts
            shift = repeat % len(options.variants)
            for name in options.variants[shift:] + options.variants[:shift]:
                settings = {**dict(options.set), **VARIANTS[name].settings}
                job = {"title": title, "variant": name, "seed": repeat, "data": str(data.folder)}
                job |= {"seconds": seconds, "clock": options.clock, "settings": settings}
                run = run_job("bench.ablation_run", job, threads=options.threads)
                report["runs"].append(run)
                keep(report, options.out)
                print(_brief(run), file=sys.stderr, flush=True)
    return report


def _data(source: int | Path, shape: dict[str, Any]) -> DataSet:
    """Return planted data with `source` labels, or the real data in the folder `source`."""
    return prepare(source) if isinstance(source, Path) else plant(Shape.with_labels(source, **shape))


# --- tables --------------------------------------------------------------------------------------------------------


def markdown(report: dict[str, Any]) -> str:
    """Return a table for each data set: the precision of each variant in the given time."""
    parts = [setting(report) + f" Time: {_CLOCKS[report['clock']]}; means over {report['repeats']} rounds."]
    parts += [_table(report, title) for title in dict.fromkeys(run["title"] for run in report["runs"])]
    return "\n\n".join(parts)


_CLOCKS = {"wall": "wall seconds", "cpu": "CPU seconds divided by threads"}


def _table(report: dict[str, Any], title: str) -> str:
    runs = [run for run in report["runs"] if run["title"] == title]
    lines = [
        f"**{title}, {runs[0]['seconds']} s each**",
        "",
        "| question | variant | P@1 / P@3 / P@5 | PSP@1 | epochs | steps / s | of it start s | index recall | |",
        "|---" * 9 + "|",
    ]
    names = dict.fromkeys(run["variant"] for run in sorted(runs, key=_order))
    lines += [_row(name, [run for run in runs if run["variant"] == name]) for name in names]
    return "\n".join(lines)


def _order(run: dict[str, Any]) -> int:
    return list(VARIANTS).index(run["variant"])


def _row(name: str, runs: list[dict[str, Any]]) -> str:
    done = [run for run in runs if run["status"] == "measured"]
    problems = "; ".join(f"{run['status']}: {run['reason']}" for run in runs if run["status"] != "measured")
    state = "; ".join(part for part in (f"measured, {len(done)} runs" if done else "", problems) if part)
    question = VARIANTS[name].question
    if not done:
        return f"| {question} | {name} | | | | | | | {state} |"

    def average(key: str) -> float:
        return float(mean(run[key] for run in done))

    grades = " / ".join(f"{100 * average(f'P@{k}'):.1f}" for k in (1, 3, 5))
    recalls = [run["index_recall"] for run in done if run["index_recall"] is not None]
    recall = f"{mean(recalls):.3f}" if recalls else ""
    return (
        f"| {question} | {name} | {grades} | {100 * average('PSP@1'):.1f} | {average('epochs'):.2f} "
        f"| {average('steps_a_second'):.1f} | {average('start_seconds'):.1f} | {recall} | {state} |"
    )


def _brief(run: dict[str, Any]) -> str:
    name = f"{run['title']}, {run['variant']}, seed {run['seed']}: "
    if run["status"] != "measured":
        return f"{name}{run['status']}: {run['reason']}"
    return f"{name}P@1 {100 * run['P@1']:.1f} after {run['epochs']:.2f} epochs; load {run['load_average_before']:.1f}"


def plot(report: dict[str, Any], path: Path) -> None:
    """Plot P@1 of each variant, one panel per data set."""
    from matplotlib.figure import Figure

    done = [run for run in report["runs"] if run["status"] == "measured"]
    titles = list(dict.fromkeys(run["title"] for run in done))
    figure = Figure(figsize=(4 + 3 * len(titles), 7), layout="constrained")
    for axes, title in zip(figure.subplots(1, len(titles), sharey=True, squeeze=False)[0], titles, strict=True):
        for place, name in enumerate(reversed(VARIANTS)):
            found = [100 * run["P@1"] for run in done if (run["title"], run["variant"]) == (title, name)]
            axes.barh(place, mean(found) if found else 0, color="steelblue")
            axes.plot(found, [place] * len(found), ".", color="black")
        axes.set(title=title.replace(", ", "\n"), xlabel="P@1, %", yticks=range(len(VARIANTS)))
        axes.set_yticklabels(list(reversed(VARIANTS)))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def _variants(text: str) -> list[str]:
    unknown = [name for name in text.split(";") if name not in VARIANTS]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown: {'; '.join(unknown)}; choose from {'; '.join(VARIANTS)}")
    return text.split(";")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--labels", type=numbers, default=[15_000, 120_000, 670_091], help="sizes of planted data; '' for none"
    )
    parser.add_argument("--data", type=Path, nargs="+", default=[], help="folders of real data, as for bench.quality")
    parser.add_argument(
        "--seconds", type=numbers, default=[60, 120, 300], help="one number for each of --labels and --data"
    )
    parser.add_argument("--clock", choices=list(_CLOCKS), default="wall")
    parser.add_argument("--variants", type=_variants, default=list(VARIANTS), help="separated by semicolons")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--set", type=assignment, action="append", default=[], help="a parameter of ExtremeClassifier")
    parser.add_argument("--shape", type=json.loads, default={}, help='JSON, such as {"points": 10000}')
    parser.add_argument("--out", type=Path, default=Path("bench/results/ablation.json"))
    parser.add_argument("--show", type=Path)
    parser.add_argument("--plot", type=Path)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
