"""Write dense data sets: real ones, whose features have become a few hundred numbers that every point has.

    python -m bench.dense_sets --data DIR [DIR ...] [--features 200] [--out .bench/dense]

As a language model's or a latent space's are, but made of what is at hand: of points of length one a truncated singular
value decomposition, learnt on the training points. Labels and test points stay what they are. Of `DIR` the set becomes
``dense-DIR``, in the format of the extreme classification repository; a set of few features keeps half of them at most.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.preprocessing import normalize

from bench.cache import PARTS, DataSet, prepare
from bench.planted import write_xmc

SEED = 0


def dense(data: DataSet, n_features: int) -> dict[str, Any]:
    """Return the features of the training and the test points, (n, `n_features`) or less, as sparse matrices."""
    train, test = (normalize(data.matrix(f"{part}.X")) for part in PARTS)
    reduced = TruncatedSVD(min(n_features, train.shape[1] // 2), n_iter=3, random_state=SEED)
    return {"train": sparse.csr_array(reduced.fit_transform(train)), "test": sparse.csr_array(reduced.transform(test))}


def main() -> None:
    """Write what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="+", required=True, metavar="DIR")
    parser.add_argument("--features", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path(".bench") / "dense", metavar="DIR")
    options = parser.parse_args()
    for source in options.data:
        data = prepare(source)
        folder = options.out / f"dense-{data.name}"
        folder.mkdir(parents=True, exist_ok=True)
        for part, X in dense(data, options.features).items():
            write_xmc(folder / f"{part}.txt", X, data.matrix(f"{part}.Y"))
        print(f"{folder}: {X.shape[1]} features")


if __name__ == "__main__":
    main()
