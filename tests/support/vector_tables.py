"""Small tables of word vectors, in memory and as files of each form."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from sparsenet import WordVectors
from tests.support.texts import FILLER, TOPICS

#: Words that are in the table and in no planted text, with the topic that they are close to.
UNSEEN = {"umpire": "sport", "midfielder": "sport", "noodles": "food", "pastry": "food", "mortgage": "money"}
WORDS = [word for words in TOPICS.values() for word in words] + FILLER + list(UNSEEN)


def table(dim: int = 8, seed: int = 0) -> np.ndarray:
    """Draw a vector for each of WORDS; words of one topic have similar directions."""
    rng = np.random.default_rng(seed)
    centres = dict(zip(TOPICS, np.eye(dim)[: len(TOPICS)], strict=True))
    topic_of = {word: topic for topic, words in TOPICS.items() for word in words} | UNSEEN
    noise = rng.normal(0, 0.2, (len(WORDS), dim))
    zero = np.zeros(dim)
    rows = [centres[topic_of[word]] if word in topic_of else zero for word in WORDS]
    return (np.stack(rows) + noise).astype(np.float32)


def vectors(**how) -> WordVectors:
    return WordVectors.of_words(WORDS, table(**how))


def write_safetensors(path: Path, tensors: dict[str, tuple[str, np.ndarray]]) -> None:
    """Write tensors, each with the name of its type."""
    header, end, data = {}, 0, b""
    for name, (dtype, array) in tensors.items():
        data += array.tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [end, len(data)]}
        end = len(data)
    text = json.dumps({"__metadata__": {"format": "np"}, **header}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def write_words(path: Path, words: list[str] = WORDS) -> None:
    path.write_text("".join(f"{word}\n" for word in words))


def write_lines(path: Path, words: list[str] = WORDS, rows: np.ndarray | None = None) -> None:
    rows = table() if rows is None else rows
    lines = (" ".join([word, *(repr(float(x)) for x in row)]) for word, row in zip(words, rows, strict=True))
    path.write_text("\n".join(lines) + "\n")
