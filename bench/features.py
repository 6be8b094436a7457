"""Speed of text features: megabytes per second on one core.

    python -m bench.features --data DIR [--sets NAME,...] [--rounds N] [--json FILE]

DIR is the folder of `bench.text`. Each round turns the training texts of a set into each kind of features, on one
thread; the table shows medians in CPU seconds. *Kernel* writes into existing arrays. *Rows* includes new memory, as in
training; on some virtual machines the first touch of memory takes as long as the work.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.report import head, keep, setting
from bench.runner import names, use_cpus
from bench.text import read
from sparsenet import kernels
from sparsenet.features.text.featuriser import FeatureRules, Joined, extract, unicode_table

KINDS = {
    "words and pairs": FeatureRules(char_low=1, char_high=0),
    "and 4 characters": FeatureRules(char_low=4, char_high=4),
    "and 3 to 5 characters": FeatureRules(char_low=3, char_high=5),
}
#: Bytes of text per call of the kernel, as in training.
BLOCK_BYTES = 1 << 18


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a table."""
    options = _options(arguments)
    use_cpus(1)
    report = head(threads=1)
    for name in options.sets:
        joined = kernels.join_texts(read(options.data, name, "train")[0])
        runs = [_measured(name, kind, joined) for _ in range(options.rounds) for kind in KINDS]
        report["runs"] += runs
        print(
            f"{name}: {runs[0]['megabytes']:.1f} MB\n{'':24}{'kernel MB/s':>12}{'rows MB/s':>12}{'features a byte':>17}"
        )
        for kind in KINDS:
            own = [run for run in runs if run["kind"] == kind]
            kernel, rows = (own[0]["megabytes"] / median(run[key] for run in own) for key in ("kernel_cpu", "rows_cpu"))
            print(f"{kind:24}{kernel:12.0f}{rows:12.0f}{own[0]['features_a_byte']:17.2f}", flush=True)
    print(f"\n{setting(report)}")
    if options.json:
        keep(report, options.json)


def _measured(name: str, kind: str, joined: Joined) -> dict[str, Any]:
    rules, (text, offsets) = KINDS[kind], joined
    cuts = np.unique(np.searchsorted(offsets, np.arange(0, len(text), BLOCK_BYTES)))
    blocks = [offsets[begin : end + 1] for begin, end in zip(cuts, [*cuts[1:], len(offsets) - 1], strict=True)]
    room = max(kernels.text_room(block, *rules.as_tuple()) for block in blocks)
    slots, counts = np.zeros(room, np.int32), np.zeros(room, np.uint8)
    started = time.process_time()
    for block in blocks:
        ends = np.empty(len(block) - 1, np.int64)
        kernels.text_features(text, block, *unicode_table(), *rules.as_tuple(), ends, slots, counts, 1)
    kernel_cpu = time.process_time() - started
    started = time.process_time()
    rows = extract(text, offsets, rules, 1)
    return {
        "data": name,
        "kind": kind,
        "load_average_before": os.getloadavg()[0],
        "megabytes": len(text) / 1e6,
        "kernel_cpu": kernel_cpu,
        "rows_cpu": time.process_time() - started,
        "features_a_byte": len(rows.slots) / len(text),
    }


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", type=names, default=["imdb", "agnews-4k"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
