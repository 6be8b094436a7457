"""One run of one system on published CSV files: ``python -m bench.published_systems JOB RESULT``.

It needs Python, NumPy and the libraries of its system. Texts and labels are read once, which is timed by itself; what a
system does to texts before it can learn or answer is part of its training or prediction. Importing is not.
"""

from __future__ import annotations

import csv
import json
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench import text_peers

SINGLES = 300


def read(path: Path, fields: int) -> tuple[list[str], list[str]]:
    r"""Read texts and labels from a published file: label first, then the text, maybe in several fields; no header.

    Fields are quoted, quotes within doubled, and a newline within is written as a backslash and an n.
    """
    texts, labels = [], []
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file, strict=True)
        try:
            for row in rows:
                if len(row) != fields:
                    raise ValueError(f"{len(row)} fields, expected {fields}")
                labels.append(row[0])
                texts.append(" ".join(row[1:]).replace("\\n", "\n"))
        except (ValueError, csv.Error) as error:
            raise ValueError(f"{path}, line {rows.line_num}: {error}") from None
    return texts, labels


class Sparsenet(text_peers.Sparsenet):
    """TextClassifier at its defaults."""

    device = "CPU"

    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__(job["threads"], job["seed"], **job["settings"])


class DistilBert:
    """Fine-tuning of all weights, from a local directory: AdamW, and a rate that falls to 0."""

    def __init__(self, job: dict[str, Any]) -> None:
        import torch
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        settings = {"epochs": 3, "batch": 32, "rate": 5e-5, "max_tokens": 256, **job["settings"]}
        self.epochs, self.batch, self.rate = settings["epochs"], settings["batch"], settings["rate"]
        self.max_tokens, self.seed = settings["max_tokens"], job["seed"]
        torch.manual_seed(self.seed)
        torch.set_num_threads(job["threads"])
        self.torch, self.folder, self.kind = torch, job["distilbert"], AutoModelForSequenceClassification
        self.where = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.device = torch.cuda.get_device_name() if self.where.type == "cuda" else "CPU"
        self.tokenizer = AutoTokenizer.from_pretrained(self.folder, local_files_only=True)

    def train(self, texts: list[str], labels: list[str]) -> None:
        torch, self.names = self.torch, sorted(set(labels))
        self.model = self.kind.from_pretrained(self.folder, num_labels=len(self.names), local_files_only=True)
        self.model.to(self.where).train()
        number = {name: i for i, name in enumerate(self.names)}
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=self.rate, weight_decay=0.01)
        steps = self.epochs * -(-len(texts) // self.batch)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=steps)
        for epoch in range(self.epochs):
            order = np.random.default_rng((self.seed, epoch)).permutation(len(texts)).tolist()
            for part in _parts(order, self.batch):
                targets = torch.tensor([number[labels[i]] for i in part], device=self.where)
                with self._precision():
                    loss = self.model(**self._tokens([texts[i] for i in part]), labels=targets).loss
                loss.backward()
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
        self.model.eval()

    def predict(self, texts: list[str]) -> list[str]:
        found: list[str] = []
        with self.torch.no_grad(), self._precision():
            for part in _parts(texts, 128):
                best = self.model(**self._tokens(part)).logits.argmax(dim=1)
                found += [self.names[i] for i in best.tolist()]
        return found

    def one(self, text: str) -> str:
        return self.predict([text])[0]

    def save(self, folder: Path) -> None:
        self.model.save_pretrained(folder / "model")

    def _tokens(self, texts: list[str]) -> Any:
        options = {"padding": True, "truncation": True, "max_length": self.max_tokens}
        return self.tokenizer(texts, return_tensors="pt", **options).to(self.where)

    def _precision(self) -> Any:
        return self.torch.autocast(self.where.type, self.torch.bfloat16, enabled=self.where.type == "cuda")


SYSTEMS = {"sparsenet": Sparsenet, "distilbert": DistilBert}


def _parts(values: Sequence[Any], size: int) -> Iterator[Any]:
    for begin in range(0, len(values), size):
        yield values[begin : begin + size]


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """Read, train, predict, and time each."""
    folder = Path(job["data"])
    start = time.perf_counter()
    (texts, labels), (test, truth) = (read(folder / f"{part}.csv", job["fields"]) for part in ("train", "test"))
    found: dict[str, Any] = {"parse_seconds": time.perf_counter() - start}
    found["shape"] = {"train": len(texts), "test": len(test), "labels": len(set(labels))}
    system = SYSTEMS[job["system"]](job)
    wall, cpu = time.perf_counter(), time.process_time()
    system.train(texts, labels)
    found |= {"train_seconds": time.perf_counter() - wall, "train_cpu_seconds": time.process_time() - cpu}
    wall = time.perf_counter()
    answers = system.predict(test)
    found["texts_per_second"] = len(test) / (time.perf_counter() - wall)
    found["accuracy"] = float(np.mean([a == b for a, b in zip(answers, truth, strict=True)]))
    single = text_peers.singles(system, test[:SINGLES], warm_up=20)
    found |= {f"single_ms_p{p}": 1e3 * seconds for p, seconds in single.items()}
    found |= {"device": system.device, "model_mb": text_peers.size_mb(system)}
    found["peak_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return found


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(measure(json.loads(Path(sys.argv[1]).read_text()))))
