"""Write dense versions of real data sets: a few hundred numbers per point instead of sparse features.

    python -m bench.dense_sets --data DIR [DIR ...] [--features 200] [--out .bench/dense]

They stand in for embeddings. Points are scaled to unit length, then a truncated singular value decomposition is fitted
to the training points. Labels and the split stay the same. The set in `DIR` becomes ``dense-DIR`` in the format of the
extreme classification repository. A set with few features keeps at most half as many numbers.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.preprocessing import normalize

from bench.cache import PARTS, DataSet, prepare
from bench.planted import write_xmc

SEED = 0


def dense(data: DataSet, n_features: int) -> dict[str, Any]:
    """Return reduced features of training and test points, (n, at most `n_features`), as sparse matrices."""
    train, test = (normalize(data.matrix(f"{part}.X")) for part in PARTS)
    reduced = TruncatedSVD(min(n_features, train.shape[1] // 2), n_iter=3, random_state=SEED)
    return {"train": sparse.csr_array(reduced.fit_transform(train)), "test": sparse.csr_array(reduced.transform(test))}


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the dense version of each set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="+", required=True, metavar="DIR")
    parser.add_argument("--features", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path(".bench") / "dense", metavar="DIR")
    options = parser.parse_args(arguments)
    for source in options.data:
        data = prepare(source)
        folder = options.out / f"dense-{data.name}"
        folder.mkdir(parents=True, exist_ok=True)
        for part, X in dense(data, options.features).items():
            write_xmc(folder / f"{part}.txt", X, data.matrix(f"{part}.Y"))
        print(f"{folder}: {X.shape[1]} features")


if __name__ == "__main__":
    main()
