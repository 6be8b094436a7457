"""Dense embeddings with many labels: accuracy, CPU seconds and memory, against simple classifiers and PECOS.

    python -m bench.embeddings [--points 20000] [--width 384] [--labels 4000] [--test 4000] [--seeds 0]
                               [--models blend,bare-blend,tree,network,neighbors,knn,centroid,logistic,pecos]
                               [--data DIR --sets NAME,... --vectors wordllama] [--dtype float32] [--threads 1]
                               [--limit 3600] [--out FILE] [--show FILE]

The embeddings are planted, or with `--data` the mean word vectors of the texts of DIR/NAME.train.tsv (or .jsonl) and
DIR/NAME.test.tsv, at most `--points` and `--test` of them. All models get the same points of unit length.

Each model is trained in a process of its own. `logistic` is left out above 500 labels, where it does not finish, and
for points with several labels. `knn` and `centroid` compare by cosine, with all training points; the number of
neighbors and the cost of `logistic` are chosen on a tenth of the training points. Runs are added to those in `--out`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.embedding_run import MODELS
from bench.embedding_sets import Embeddings, of_texts, planted
from bench.report import head, keep, numbers, setting
from bench.runner import in_child, names, python_of, use_cpus

MOST_LABELS_OF_LOGISTIC = 500
SHAPE = ("points", "width", "labels", "test", "dtype")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("points", 20_000), ("width", 384), ("labels", 4_000), ("test", 4_000)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--seeds", type=numbers, default=[0], help="of the planted data and of the models")
    parser.add_argument("--models", type=names, default=list(MODELS))
    parser.add_argument("--dtype", default="float32", choices=("float16", "float32", "float64"))
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sets", type=names, default=["banking77", "clinc150"])
    parser.add_argument("--vectors", default="wordllama")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--limit", type=float, default=3600)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--show", type=Path)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all models on each set, and print a table."""
    options = parse(arguments)
    if options.show:
        print(markdown(json.loads(options.show.read_text())))
        return
    use_cpus(options.threads)
    report = head(threads=options.threads)
    if options.out and options.out.exists():
        report["runs"] = json.loads(options.out.read_text())["runs"]
    for name in options.sets if options.data else ["planted"]:
        for seed in options.seeds:
            with tempfile.TemporaryDirectory(prefix="sparsenet-bench-") as folder:
                data = _data(options, name, seed)
                about = {"set": name if options.data else _shape_name(options), "shape": _shape(data)}
                place = Path(folder) / name
                place.mkdir()
                data.write(place)
                wanted = [model for model in options.models if model != "logistic" or _suits_logistic(data)]
                del data
                for model in wanted:
                    job = {"data": str(place), "model": model, "seed": seed}
                    python = python_of("pecos") if model == "pecos" else None
                    found = in_child(
                        "bench.embedding_run", job, python=python, threads=options.threads, limit=options.limit
                    )
                    run = {**about, **found, "seed": seed}
                    print(json.dumps(run), file=sys.stderr, flush=True)
                    same = ("set", "model", "seed")
                    report["runs"] = [old for old in report["runs"] if any(old[key] != run[key] for key in same)] + [
                        run
                    ]
                    if options.out:
                        keep(report, options.out)
    print(markdown(report))


def _data(options: argparse.Namespace, name: str, seed: int) -> Embeddings:
    if options.data:
        return of_texts(options.data, name, options.vectors, options.points, options.test)
    return planted(seed=seed, **{key: getattr(options, key) for key in SHAPE})


def _shape_name(options: argparse.Namespace) -> str:
    return "planted-" + "-".join(str(getattr(options, key)) for key in SHAPE)


def _shape(data: Embeddings) -> dict[str, int]:
    return dict(
        zip(("points", "width", "labels", "test"), (*data.X.shape, data.Y.shape[1], len(data.X_test)), strict=True)
    )


def _suits_logistic(data: Embeddings) -> bool:
    return data.Y.shape[1] <= MOST_LABELS_OF_LOGISTIC and bool((np.diff(data.Y.indptr) == 1).all())


def markdown(report: dict[str, Any]) -> str:
    """Return a table for each set: means over the seeds."""
    lines = []
    for name in dict.fromkeys(run["set"] for run in report["runs"]):
        own = [run for run in report["runs"] if run["set"] == name]
        about, seeds = own[0]["shape"], len({run["seed"] for run in own})
        lines.append(
            f"\n**{name}**: {about['points']:,} x {about['width']}, {about['labels']:,} labels, {seeds} seeds\n\n"
            "| model | P@1 | P@3 | P@5 | CPU s | answers, CPU s | peak, GB |\n|---|---|---|---|---|---|---|"
        )
        for model in dict.fromkeys(run["model"] for run in own):
            runs = [run for run in own if run["model"] == model]
            good = [run for run in runs if run["status"] == "measured"]
            if not good:
                lines.append(f"| {model} | {runs[0]['status']}: {runs[0]['reason']} |||||| ")
                continue
            means = {key: float(np.mean([run.get(key, np.nan) for run in good])) for key in COLUMNS}
            scores = [f"{means[key]:.2f}" for key in COLUMNS[:3]]
            costs = [f"{means[key]:.1f}" for key in COLUMNS[3:5]] + [f"{means['peak_rss_mb'] / 1000:.2f}"]
            lines.append(f"| {model} | {' | '.join(scores + costs)} |")
    return "\n".join([*lines, "", setting(report)])


COLUMNS = ("P@1", "P@3", "P@5", "train_cpu_seconds", "answer_cpu_seconds", "peak_rss_mb")


if __name__ == "__main__":
    main()
