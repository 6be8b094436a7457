"""A million short texts with 100,000 labels, streamed from disk: time, memory and precision of `TextClassifier`.

    python -m bench.large_texts [--texts 1000000] [--labels 100000] [--words 300000] [--test 10000] [--seed 0]
                                [--memory-limit 12GB] [--threads 1] [--out FILE]

The texts are `bench.planted` points whose features are written as made-up words: Zipf words, and words of labels,
families and groups. They are written to a temporary folder as compressed JSON lines, and the model reads them
from there. Peak memory includes Python and its libraries, and is compared with the memory that the blend announces.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.peers.measure import forget_peak, peak_mb
from bench.planted import Shape, generate
from bench.report import head, keep, setting
from bench.runner import in_child, use_cpus
from bench.scale_run import announced
from sparsenet import TextClassifier, kernels

WORDS_A_TEXT, LABELS_A_TEXT = 12.0, 3.0
_SYLLABLES = [consonant + vowel for consonant in "bdfghjklmnprstvz" for vowel in "aeiou"]
RANKS = (1, 3, 5)


def word(number: int) -> str:
    """Return a made-up word for a number, different for each.

    >>> word(0), word(79), word(80)
    ('ba', 'zu', 'beba')
    """
    number, last = divmod(number, len(_SYLLABLES))
    return (word(number) if number else "") + _SYLLABLES[last]


def lines(X: Any, Y: Any) -> Iterator[str]:
    """Yield each point as a JSON line with a text and labels."""
    names = [word(number) for number in range(X.shape[1])]
    for point in range(X.shape[0]):
        words, labels = (M.indices[M.indptr[point] : M.indptr[point + 1]].tolist() for M in (X, Y))
        text = " ".join(names[number] for number in words)
        yield json.dumps({"text": text, "labels": [f"label{number}" for number in labels]}) + "\n"


def write(folder: Path, shape: Shape, seed: int) -> None:
    """Write the training and test texts of a planted set."""
    data = generate(shape, seed)
    for name, X, Y in (("train", data.X, data.Y), ("test", data.X_test, data.Y_test)):
        with gzip.open(folder / f"{name}.jsonl.gz", "wt", compresslevel=3) as file:
            file.writelines(lines(X, Y))


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """Train on the file, and measure precision on the test file."""
    folder = Path(job["data"])
    kernels.backend()
    model = TextClassifier(n_jobs=job["threads"], random_state=job["seed"], memory_limit=job["memory_limit"])
    forget_peak()
    before, cpu, wall = peak_mb(), time.process_time(), time.perf_counter()
    with announced() as needed:
        model.fit(str(folder / "train.jsonl.gz"), target="labels")
    found = {
        "train_cpu": time.process_time() - cpu,
        "train_wall": time.perf_counter() - wall,
        "rss_before_mb": before,
        "peak_mb": peak_mb(),
        "announced_mb": {purpose: size / 1e6 for purpose, size in needed.items()},
        "labels": len(model.classes_),
        "method": model.choices_["method"].value,
    }
    with gzip.open(folder / "test.jsonl.gz", "rt") as file:
        test = [json.loads(line) for line in file]
    cpu = time.process_time()
    ranked = model.topk([one["text"] for one in test], max(RANKS))[0].tolist()
    found["predict_cpu"] = time.process_time() - cpu
    for k in RANKS:
        hits = sum(len({*best[:k]} & {*one["labels"]}) for best, one in zip(ranked, test, strict=True))
        found[f"P@{k}"] = hits / k / len(test)
    return {**found, "file_mb": (folder / "train.jsonl.gz").stat().st_size / 1e6}


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the texts, train in a process of its own, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=1_000_000)
    parser.add_argument("--labels", type=int, default=100_000)
    parser.add_argument("--words", type=int, default=300_000)
    parser.add_argument("--test", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory-limit", help="the limit of the classifier; default: the available memory")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--limit", type=float, default=3600, help="seconds that the training may take")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    use_cpus(options.threads)
    shape = Shape(
        points=options.texts,
        test_points=options.test,
        features=options.words,
        labels=options.labels,
        features_a_point=WORDS_A_TEXT,
        labels_a_point=LABELS_A_TEXT,
    )
    report = head(threads=options.threads)
    with tempfile.TemporaryDirectory(prefix="sparsenet-bench-") as folder:
        write(Path(folder), shape, options.seed)
        job = {"data": folder, "texts": options.texts, "seed": options.seed, "memory_limit": options.memory_limit}
        run = in_child("bench.large_texts", job, threads=options.threads, limit=options.limit)
    report["runs"].append({**run, "data": "planted texts"})
    if options.out:
        keep(report, options.out)
    print(json.dumps(report["runs"][0], indent=1))
    print(setting(report))


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1].endswith("job.json"):
        Path(sys.argv[2]).write_text(json.dumps(measure(json.loads(Path(sys.argv[1]).read_text()))))
    else:
        main()
