"""The measurement on texts streamed from disk."""

import gzip
import json

from bench import large_texts
from bench.planted import Shape


def test_words_differ():
    words = [large_texts.word(number) for number in range(7000)]
    assert len(set(words)) == 7000
    assert all(word.isalpha() for word in words)


def test_trains_on_the_written_file(tmp_path):
    shape = Shape(points=600, test_points=60, features=400, labels=80, features_a_point=10.0, labels_a_point=3.0)
    large_texts.write(tmp_path, shape, seed=0)
    with gzip.open(tmp_path / "train.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    assert len(rows) == 600
    assert all(row["text"] and row["labels"] for row in rows)
    found = large_texts.measure({"data": str(tmp_path), "threads": 1, "seed": 0, "memory_limit": None})
    assert 70 < found["labels"] <= 80
    assert found["P@1"] > 0.3
    assert found["peak_mb"] >= found["rss_before_mb"]
