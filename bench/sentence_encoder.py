"""A pretrained sentence encoder under our classifiers: frozen, then fine-tuned with `ExtremeHead`.

    python -m bench.sentence_encoder --encoder DIR --data DIR [--sets NAME,...] [--texts 2000] [--epochs 3]
                                     [--systems NAME,...] [--threads 1] [--out FILE] [--show FILE]

needs transformers. --encoder names a local directory as `save_pretrained` of transformers writes it, such as DistilBERT
or all-MiniLM-L6-v2. DIR holds NAME.train.tsv and NAME.test.tsv as for `bench.text`; --texts random training texts are
used. A text is the mean of its token vectors. *frozen*: a `BlendClassifier` on the vectors. *head* and *linear*: the
layer alone for ten epochs over the vectors of the frozen encoder, then both for --epochs; linear is `nn.Linear` with
cross-entropy and Adam. *blend*: a `BlendClassifier` on the vectors of the encoder that was fine-tuned with the head.
Seconds contain everything but loading and the answers; all seeds are 0.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bench.report import add_result_options, head, keep, present, setting
from bench.runner import names
from bench.text import read
from sparsenet import BlendClassifier
from sparsenet.torch import ExtremeHead

SYSTEMS = ["frozen", "head", "linear", "blend"]
BATCH, TOKENS, WARM_EPOCHS = 32, 64, 10
ENCODER_RATE, LAYER_RATE = 5e-5, 4e-3
#: Texts in a batch without gradients.
AT_A_TIME = 64


class Encoder:
    """A transformer of a local directory; a text is the mean of its token vectors."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoModel, AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self.model = AutoModel.from_pretrained(folder, local_files_only=True)

    def __call__(self, texts: list[str]) -> Tensor:
        tokens = self.tokenizer(texts, padding=True, truncation=True, max_length=TOKENS, return_tensors="pt")
        mask = tokens["attention_mask"][..., None]
        return (self.model(**tokens).last_hidden_state * mask).sum(1) / mask.sum(1)

    def embed(self, texts: list[str]) -> Tensor:
        """Return the vectors of texts without gradients, in evaluation mode; similar lengths share a batch."""
        self.model.eval()
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        parts = [order[begin : begin + AT_A_TIME] for begin in range(0, len(order), AT_A_TIME)]
        with torch.no_grad():
            vectors = torch.cat([self([texts[i] for i in part]) for part in parts])
        self.model.train()
        return vectors[np.argsort(order)]


class Head:
    """`ExtremeHead` with its own optimizer."""

    def __init__(self, width: int, n_labels: int) -> None:
        self.head = ExtremeHead(width, n_labels, loss="softmax", learning_rate=LAYER_RATE)

    def loss(self, hidden: Tensor, y: Tensor) -> Tensor:
        loss: Tensor = self.head(hidden, y)
        return loss

    def step(self, factor: float) -> None:
        self.head.step(factor=factor)

    def best(self, hidden: Tensor) -> NDArray[np.int64]:
        return np.asarray(self.head.topk(hidden, 1).labels[:, 0])


class Linear:
    """A linear layer, cross-entropy and Adam."""

    def __init__(self, width: int, n_labels: int) -> None:
        self.linear = nn.Linear(width, n_labels)
        self.optimizer = torch.optim.Adam(self.linear.parameters(), lr=LAYER_RATE)

    def loss(self, hidden: Tensor, y: Tensor) -> Tensor:
        return nn.functional.cross_entropy(self.linear(hidden), y)

    def step(self, factor: float) -> None:
        self.optimizer.param_groups[0]["lr"] = factor * LAYER_RATE
        self.optimizer.step()
        self.optimizer.zero_grad()

    def best(self, hidden: Tensor) -> NDArray[np.int64]:
        return np.asarray(self.linear(hidden).argmax(1))


def train_layer(layer: Any, vectors: Tensor, y: Tensor) -> None:
    """Train a layer on the vectors of a frozen encoder."""
    for _ in range(WARM_EPOCHS):
        for rows in torch.randperm(len(y)).split(BATCH):
            layer.loss(vectors[rows], y[rows]).backward()
            layer.step(1.0)


def fine_tune(encoder: Encoder, layer: Any, texts: list[str], y: Tensor, epochs: int) -> None:
    """Train encoder and layer; the rates of both fall to zero, and the layer starts with a tenth of its rate."""
    optimizer = torch.optim.AdamW(encoder.model.parameters(), lr=ENCODER_RATE)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=epochs * -(-len(texts) // BATCH))
    for _ in range(epochs):
        for rows in torch.randperm(len(texts)).split(BATCH):
            layer.loss(encoder([texts[i] for i in rows]), y[rows]).backward()
            nn.utils.clip_grad_norm_(encoder.model.parameters(), 1.0)
            layer.step(0.1 * schedule.get_last_lr()[0] / ENCODER_RATE)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()


def measure_set(options: argparse.Namespace, name: str) -> list[dict[str, Any]]:
    """Train all systems on a set; return their test accuracy and CPU seconds."""
    (texts, own), (test, true) = (read(options.data, name, part) for part in ("train", "test"))
    chosen = random.Random(0).sample(range(len(texts)), min(options.texts, len(texts)))
    texts, own = [texts[i] for i in chosen], [own[i] for i in chosen]
    classes = np.unique(own)
    y = torch.from_numpy(np.searchsorted(classes, own))
    runs: list[dict[str, Any]] = []

    def add(system: str, seconds: float, answers: NDArray[Any]) -> None:
        run = {"data": name, "texts": len(texts), "labels": len(classes), "system": system, "cpu_seconds": seconds}
        runs.append({**run, "accuracy": float(np.mean(answers == np.array(true)))})
        print(runs[-1], flush=True)

    encoder = Encoder(options.encoder)
    started = time.process_time()
    vectors = encoder.embed(texts)
    embedded = time.process_time() - started
    if "frozen" in options.systems:
        add("frozen", *blend_after(embedded, vectors, own, encoder.embed(test)))
    for system, make in (("head", Head), ("linear", Linear)):
        if system not in options.systems:
            continue
        torch.manual_seed(0)
        encoder, started = Encoder(options.encoder), time.process_time()
        layer = make(vectors.shape[1], len(classes))
        train_layer(layer, vectors, y)
        fine_tune(encoder, layer, texts, y, options.epochs)
        seconds, test_vectors = embedded + time.process_time() - started, encoder.embed(test)
        add(system, seconds, classes[layer.best(test_vectors)])
        if system == "head" and "blend" in options.systems:
            add("blend", *blend_after(seconds, encoder.embed(texts), own, test_vectors))
    return runs


def blend_after(seconds: float, X: Tensor, y: list[str], X_test: Tensor) -> tuple[float, NDArray[Any]]:
    """Train a blend on vectors; return all seconds, `seconds` before it included, and its answers."""
    started = time.process_time()
    blend = BlendClassifier(n_jobs=1, random_state=0, verbose=False).fit(X.numpy(), y)
    return seconds + time.process_time() - started, blend.predict(X_test.numpy())


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measure each set."""
    torch.set_num_threads(options.threads)
    report = head(threads=options.threads, torch=torch.__version__, encoder=options.encoder.name, epochs=options.epochs)
    for name in options.sets:
        report["runs"] += measure_set(options, name)
        keep(report, options.out)
    return report


def markdown(report: dict[str, Any]) -> str:
    """Return the results as a table."""
    lines = ["| data | texts | labels | system | accuracy | CPU s |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {run['data']} | {run['texts']:,} | {run['labels']} | {run['system']} | {100 * run['accuracy']:.1f} "
        f"| {run['cpu_seconds']:.0f} |"
        for run in report["runs"]
    ]
    return "\n".join([*lines, "", f"encoder {report['encoder']}, {report['epochs']} epochs; {setting(report)}"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, or show a result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sets", type=names, default=["banking77", "clinc150"])
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--systems", type=names, default=SYSTEMS)
    add_result_options(parser)
    parser.set_defaults(threads=1, out=Path(".bench") / "sentence-encoder.json")
    present(parser.parse_args(arguments), measure, markdown)


if __name__ == "__main__":
    main()
