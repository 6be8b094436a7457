"""Texts whose labels are learnt within a second, and files of them."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd

from sparsenet import TextClassifier

TOPICS = {
    "sport": ["match", "goal", "team", "score", "player", "league", "win", "coach", "referee", "stadium"],
    "food": ["soup", "bread", "oven", "salt", "recipe", "cook", "butter", "dinner", "spoon", "taste"],
    "money": ["bank", "loan", "market", "share", "price", "trade", "profit", "tax", "fund", "interest"],
}
FILLER = ["the", "a", "of", "and", "to", "in", "it", "was", "that", "for", "on", "with", "as", "at", "by"]


def planted(n: int, seed: int = 0, topics: int = 3, clues: int = 2) -> tuple[list[str], list[str]]:
    """Draw texts with a few words of their label."""
    rng = np.random.default_rng(seed)
    names = list(TOPICS)[:topics]
    labels = [names[i] for i in rng.integers(topics, size=n)]
    texts = [" ".join(rng.permutation([*rng.choice(TOPICS[label], clues), *rng.choice(FILLER, 8)])) for label in labels]
    return texts, labels


def fitted(**parameters) -> TextClassifier:
    return TextClassifier(random_state=0, n_jobs=1, **parameters).fit(*planted(400))


def write(path, texts, labels):
    frame = pd.DataFrame({"id": range(len(texts)), "review": texts, "topic": labels})
    match path.suffix:
        case ".csv":
            frame.to_csv(path, index=False)
        case ".tsv":
            frame.to_csv(path, index=False, sep="\t")
        case ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in frame.to_dict("records")))
        case ".parquet":
            frame.to_parquet(path)
        case ".gz":
            frame.to_csv(path, index=False)
        case _:
            path.write_text("".join(f"__label__{label} {text}\n" for text, label in zip(texts, labels, strict=True)))
