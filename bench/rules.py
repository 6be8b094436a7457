"""Measure the gain of each rule of a network's training: switch off one at a time.

    python -m bench.rules --data DIR [DIR ...] [--models blend,network] [--points 4500] [--mask-seen] [--seed 0]

A DIR holds a training and a test file in the format of the extreme classification repository. `--points` trains on a
sample of the training points: scouting only runs on 4,000 to 12,800 points. `--mask-seen` leaves out labels that are
features of the point, for recommendation. Each line shows P@1, P@3 and P@5, their mean, and the CPU seconds of
training.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from sparsenet import BlendClassifier, ExtremeClassifier, metrics
from sparsenet.data import read_xmc
from sparsenet.engines.network import options
from sparsenet.engines.network.auto_rules import AUTO, AutoRules
from sparsenet.engines.network.training import TrialRules
from sparsenet.selection.choose import Rule

MODELS = {"blend": BlendClassifier, "network": ExtremeClassifier}
KEEP_GOING = Rule("any", standard_errors=-math.inf, min_gain=-2.0)
WITHOUT: Mapping[str, AutoRules] = {
    "nothing": AUTO,
    "log counts": replace(AUTO, trial=TrialRules(count_weights=(0.0,))),
    "early end": replace(AUTO, trial=TrialRules(passes=KEEP_GOING)),
    "scouting": replace(AUTO, scouting_min_held=1 << 62),
}


def main() -> None:
    """Train each model on each data set without each rule, and print a line a run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="+", required=True)
    parser.add_argument("--models", default="blend,network", help="of blend, network")
    parser.add_argument("--points", type=int, help="training points to sample; all by default")
    parser.add_argument("--mask-seen", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for folder in given.data:
        train, test = (read_xmc(next(folder.glob(f"{part}.txt*"))) for part in ("train", "test"))
        X, Y = csr_array(train.X), csr_array(train.Y)
        if given.points:
            some = np.random.default_rng(0).choice(X.shape[0], given.points, replace=False)
            X, Y = X[some], Y[some]
        for model in given.models.split(","):
            for rule, rules in WITHOUT.items():
                options.AUTO = rules
                figures = measure(MODELS[model](random_state=given.seed, verbose=0), X, Y, test, given.mask_seen)
                print(f"{folder.name:24} {model:8} without {rule:12} {figures}", flush=True)


def measure(model: Any, X: csr_array, Y: csr_array, test: Any, mask_seen: bool) -> str:
    """Train a model; return its precision on test points and the CPU seconds of training."""
    started = time.process_time()
    model.fit(X, Y)
    seconds = time.process_time() - started
    labels = model.topk(test.X, 5, exclude=test.X if mask_seen else None)[0]
    shares = [100 * metrics.precision_at_k(test.Y, labels, k) for k in (1, 3, 5)]
    return f"{' '.join(f'{share:6.2f}' for share in shares)}  mean {np.mean(shares):7.3f}  {seconds:7.1f} CPU s"


if __name__ == "__main__":
    main()
