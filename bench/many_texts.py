"""Texts with many labels: the methods of TextClassifier, and other models over scikit-learn's TF-IDF.

    python -m bench.many_texts --data DIR [--sets NAME,...] [--systems NAME,...] [--train N] [--test N] [--seed N]
                               [--text COLUMN,...] [--target COLUMN] [--compounds SHARE] [--threads N] [--limit S]
                               [--json FILE]

DIR holds NAME.train.jsonl and NAME.test.jsonl, plain or compressed: an object a line, with a text and a list of labels.
`bench.source_sets`, `.package_sets`, `.dictionary_sets` and `.manual_sets` write them with the option --texts. Each run
is a separate process that trains on the same --train random texts and ranks the same --test ones. Features count as
training. Labels that training lacks stay in the truth. Every run is written to FILE. Omikuji runs in its environment
from `make peers`.

--compounds imitates a language of compounds: this share of all pairs of neighboring words is written as one word. A
pair is always joined or never, so compounds recur, and a word may be part of several.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy import sparse
from sklearn.preprocessing import MultiLabelBinarizer

from bench import peers
from bench.planted import write_xmc
from bench.report import head, keep, setting
from bench.runner import call, in_child, names, python_of, use_cpus
from sparsenet import BlendClassifier, TextClassifier, kernels
from sparsenet.data import read_table
from sparsenet.features import TextFeatures

RANKS = (1, 3, 5)
#: Texts and the labels of each.
Tagged = tuple[list[str], list[list[str]]]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run everything and print a table for each data set."""
    options = _options(arguments)
    use_cpus(options.threads)
    report = head(threads=options.threads)
    with tempfile.TemporaryDirectory(prefix="sparsenet-bench-") as folder:
        for name in options.sets:
            data = Path(folder) / name
            data.write_text(json.dumps({part: _sample(options, name, part) for part in ("train", "test")}))
            for system in options.systems:
                job = {"data": str(data), "system": system, "seed": options.seed}
                report["runs"].append(in_child("bench.many_texts", job, threads=options.threads, limit=options.limit))
                print(json.dumps(report["runs"][-1]), file=sys.stderr)
                if options.json:
                    keep(report, options.json)
            print(table(name, [run for run in report["runs"] if run["data"] == name]), flush=True)
    print(f"\n{setting(report)}")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", type=names, default=["yso-en"])
    parser.add_argument("--systems", type=names, default=list(SYSTEMS), help=f"default: {', '.join(SYSTEMS)}")
    parser.add_argument("--train", type=int, default=100_000, help="training texts, drawn at random")
    parser.add_argument("--test", type=int, default=10_000, help="test texts, drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--text", type=names, default=["text"], help="columns of the text, which are joined")
    parser.add_argument("--target", default="labels", help="column of the list of labels")
    parser.add_argument("--compounds", type=float, default=0.0, metavar="SHARE")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--limit", type=float, default=3600, help="seconds that a run may take")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    unknown = [system for system in options.systems if system not in SYSTEMS]
    if unknown:
        parser.error(f"--systems: unknown: {', '.join(unknown)}; choose from {', '.join(SYSTEMS)}")
    return options


def _sample(options: argparse.Namespace, name: str, part: str) -> Tagged:
    """Return a random sample of the training or test texts: test files may be ordered."""
    (path,) = options.data.glob(f"{name}.{part}.jsonl*")
    found = read_table(path, text=options.text, target=options.target)
    assert found.texts is not None
    assert found.labels is not None
    n = min(options.train if part == "train" else options.test, len(found.texts))
    chosen = random.Random(options.seed).sample(range(len(found.texts)), n)
    return [compounded(found.texts[i], options.compounds) for i in chosen], [list(found.labels[i]) for i in chosen]


def compounded(text: str, share: float) -> str:
    """Write a share of the pairs of neighboring words as one word; the words of a pair decide.

    >>> compounded("history of book trade", 0.5)
    'history ofbook trade'
    """
    found = text.split()
    for place, (one, other) in reversed([*enumerate(pairwise(found))]):
        if zlib.crc32(f"{one} {other}".lower().encode()) < share * 2**32:
            found[place : place + 2] = [one + found[place + 1].lower()]
    return " ".join(found) if share else text


class OfTexts:
    """A TextClassifier."""

    def __init__(self, threads: int, seed: int, method: str) -> None:
        self.model = TextClassifier(method=method, n_jobs=threads, random_state=seed, verbose=False)

    def train(self, texts: list[str], labels: list[list[str]]) -> None:
        self.model.fit(texts, labels)

    def best(self, texts: list[str], k: int) -> list[list[str]]:
        return [list(map(str, own)) for own in self.model.topk(texts, k)[0].tolist()]


class OfFeatures(OfTexts):
    """A BlendClassifier over the sparse features of a transformer."""

    def __init__(self, threads: int, seed: int, features: Any, *, has_network: bool = True) -> None:
        self.features = features
        network: Literal["drop"] | None = None if has_network else "drop"
        self.model = BlendClassifier(network=network, n_jobs=threads, random_state=seed, verbose=False)

    def train(self, texts: list[str], labels: list[list[str]]) -> None:
        self.model.fit(self.features.fit_transform(texts), labels)

    def best(self, texts: list[str], k: int) -> list[list[str]]:
        return super().best(self.features.transform(texts), k)


class OfPeer:
    """A system of `bench.peers` in its own environment, over the sparse features of a transformer.

    `times` holds the seconds of the system, without the features.
    """

    def __init__(self, threads: int, seed: int, features: Any, name: str) -> None:
        self.features, self.system = features, peers.SYSTEMS[name]
        self.job: dict[str, Any] = {
            "threads": threads,
            "seed": seed,
            "mask_seen": False,
            "settings": dict(self.system.settings),
        }
        self.times: dict[str, float] = {}

    def train(self, texts: list[str], labels: list[list[str]]) -> None:
        self.X = self.features.fit_transform(texts)
        self.binarizer: Any = MultiLabelBinarizer(sparse_output=True).fit(labels)
        self.Y = self.binarizer.transform(labels)

    def best(self, texts: list[str], k: int) -> list[list[str]]:
        python = python_of(self.system.adapter)
        if not python.exists():
            raise FileNotFoundError(f"no environment for {self.system.adapter}: run make peers")
        has_words = np.diff(self.X.indptr) > 0
        with tempfile.TemporaryDirectory(prefix="sparsenet-bench-") as name:
            folder = Path(name)
            write_xmc(folder / "train.txt", self.X[has_words], self.Y[has_words])
            sparse.save_npz(folder / "test.X.npz", self.features.transform(texts))
            (folder / "job.json").write_text(json.dumps({**self.job, "data": name, "folder": name, "depth": k}))
            command: list[str | Path] = [python, "-m", f"bench.peers.{self.system.adapter}", folder / "job.json"]
            if problem := call(command, threads=self.job["threads"]):
                raise RuntimeError(problem)
            result = json.loads((folder / "result.json").read_text())
            ranked = np.load(folder / "predictions.npz")["labels"]
        self.times = {"train_cpu": result["train_cpu_seconds"], "train_wall": result["train_seconds"]}
        self.times["predict_cpu"] = len(texts) / result["points_per_cpu_second"]
        classes = [*self.binarizer.classes_, ""]  # -1 stands for no label
        return [[classes[number] for number in own] for own in ranked.tolist()]


def tfidf(**settings: Any) -> Any:
    """Return scikit-learn's TF-IDF of words in at least two texts."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(sublinear_tf=True, min_df=2, dtype=np.float32, **settings)


def words_and_characters() -> Any:
    """Return scikit-learn's TF-IDF of words, and of runs of four characters within words."""
    from sklearn.pipeline import make_union

    return make_union(tfidf(), tfidf(analyzer="char_wb", ngram_range=(4, 4)))


SYSTEMS: dict[str, Callable[[int, int], Any]] = {
    "text-auto": lambda threads, seed: OfTexts(threads, seed, "auto"),
    "text-blend": lambda threads, seed: OfTexts(threads, seed, "blend"),
    "text-network": lambda threads, seed: OfTexts(threads, seed, "network"),
    "text-linear": lambda threads, seed: OfTexts(threads, seed, "linear"),
    "features-drop": lambda threads, seed: OfFeatures(threads, seed, TextFeatures(n_jobs=threads), has_network=False),
    "words-drop": lambda threads, seed: OfFeatures(threads, seed, tfidf(), has_network=False),
    "words-blend": lambda threads, seed: OfFeatures(threads, seed, tfidf()),
    "words-bonsai": lambda threads, seed: OfPeer(threads, seed, tfidf(), "omikuji-bonsai"),
    "characters-drop": lambda threads, seed: OfFeatures(threads, seed, words_and_characters(), has_network=False),
    "characters-blend": lambda threads, seed: OfFeatures(threads, seed, words_and_characters()),
}


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """Train and rank; return precision and times."""
    (texts, labels), (test, truth) = (json.loads(Path(job["data"]).read_text())[part] for part in ("train", "test"))
    kernels.backend()
    system = SYSTEMS[job["system"]](job["threads"], job["seed"])
    cpu, wall = time.process_time(), time.perf_counter()
    system.train(texts, labels)
    found: dict[str, Any] = {"train_cpu": time.process_time() - cpu, "train_wall": time.perf_counter() - wall}
    cpu = time.process_time()
    ranked = system.best(test, max(RANKS))
    found["predict_cpu"] = time.process_time() - cpu
    of_peer = getattr(system, "times", {})
    found |= {name: seconds + (name != "predict_cpu") * found[name] for name, seconds in of_peer.items()}
    hits = np.array([[label in own for label in best] for best, own in zip(ranked, truth, strict=True)])
    method = getattr(getattr(system, "model", None), "choices_", {}).get("method")
    chosen = {} if method is None else {"method": method.value}
    return {**found, **chosen, **{f"P@{k}": float(hits[:, :k].sum() / k / len(hits)) for k in RANKS}}


def table(name: str, runs: list[dict[str, Any]]) -> str:
    """Lay out the runs on a data set."""
    lines = [
        f"\n**{name}**\n",
        "| system | P@1 | P@3 | P@5 | CPU s, training | CPU s, test | |",
        "|---|---|---|---|---|---|---|",
    ]
    for run in runs:
        if run["status"] != "measured":
            lines.append(f"| {run['system']} | - | - | - | - | - | {run['status']}: {run['reason']} |")
            continue
        scores = " | ".join(f"{100 * run[f'P@{k}']:.2f}" for k in RANKS)
        times = f"{run['train_cpu']:.1f} | {run['predict_cpu']:.1f}"
        lines.append(f"| {run['system']} | {scores} | {times} | {run.get('method', '')} |")
    return "\n".join(lines)


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1].endswith("job.json"):
        Path(sys.argv[2]).write_text(json.dumps(measure(json.loads(Path(sys.argv[1]).read_text()))))
    else:
        main()
