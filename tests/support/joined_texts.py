"""Texts in several columns, their tables and files, and models of them."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from sparsenet import TextClassifier, storage
from tests.support.texts import planted

TEXTS, LABELS = planted(60)
#: Every second word of each text, and the other words.
TITLES, BODIES = ([" ".join(text.split()[part::2]) for text in TEXTS] for part in (0, 1))
JOINED = ["\n".join(filter(None, row)) for row in zip(TITLES, BODIES, strict=True)]
EXPECTED = TextClassifier(random_state=0).fit(JOINED, LABELS).predict_proba(JOINED).tolist()
BOTH = ["title", "body"]
KNOWN = {"text": BOTH, "target": "topic", "label_delimiter": None}
TABLE = {"title": TITLES, "topic": LABELS, "body": BODIES}
FORMATS = {
    "csv": lambda table, path: table.write_csv(path),
    "tsv": lambda table, path: table.write_csv(path, separator="\t"),
    "jsonl": lambda table, path: table.write_ndjson(path),
    "parquet": lambda table, path: table.write_parquet(path),
}


def fitted(*arguments: Any, **columns: Any) -> TextClassifier:
    return TextClassifier(random_state=0).fit(*arguments, **columns)


def saved_with(path: Any, columns: Any) -> None:
    fitted(pd.DataFrame(TABLE), text=BOTH, target="topic").save(path)
    arrays, metadata = storage.load(path)
    assert metadata["columns"] == KNOWN
    storage.save(path, arrays, metadata | {"columns": json.loads(json.dumps(columns))})
