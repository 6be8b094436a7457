"""Data sets as plain text and .npz matrices, prepared once and cached under .bench/data."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
import lzma
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from bench import planted
from sparsenet.data import read_xmc

CACHE = Path(".bench") / "data"
OPENERS: dict[str, Any] = {".xz": lzma.open, ".gz": gzip.open, ".bz2": bz2.open, ".txt": open}
PARTS = ("train", "test")


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A pair of files in XMC-repository format: `folder` holds {train,test}.txt and {train,test}.{X,Y}.npz."""

    name: str
    folder: Path
    facts: dict[str, Any]

    def matrix(self, name: str) -> Any:
        """Load a matrix such as ``"test.Y"``."""
        return load(self.folder, name)


def load(folder: str | Path, name: str) -> Any:
    """Load a matrix of the folder of a data set."""
    return sparse.csr_array(sparse.load_npz(Path(folder) / f"{name}.npz"))


def prepare(source: Path) -> DataSet:
    """Unpack and parse the training and test file of a folder, or return the cached copy."""
    files = {part: find(source, part) for part in PARTS}
    digests = {part: hashlib.sha256(file.read_bytes()).hexdigest() for part, file in files.items()}
    name = source.resolve().name
    key = hashlib.sha256("".join(digests.values()).encode()).hexdigest()[:12]
    folder = (CACHE / f"{name}-{key}").resolve()
    if not (folder / "facts.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        facts = {"sha256": digests} | {part: _unpack(file, folder, part) for part, file in files.items()}
        (folder / "facts.json").write_text(json.dumps(facts))  # written last: marks the folder as complete
    return DataSet(name=name, folder=folder, facts=json.loads((folder / "facts.json").read_text()))


def plant(shape: planted.Shape, seed: int = 0) -> DataSet:
    """Generate planted data, or return the cached copy; it consists of matrices, without text files."""
    facts: dict[str, Any] = {"shape": asdict(shape), "seed": seed}
    facts["generator"] = hashlib.sha256(Path(planted.__file__).read_bytes()).hexdigest()
    key = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:12]
    name = f"planted-{shape.labels}"
    folder = (CACHE / f"{name}-{key}").resolve()
    if not (folder / "facts.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        data = planted.generate(shape, seed)
        for part, X, Y in (("train", data.X, data.Y), ("test", data.X_test, data.Y_test)):
            _save(folder / f"{part}.X.npz", X)
            _save(folder / f"{part}.Y.npz", Y)
            facts[part] = {"points": X.shape[0], "features": X.shape[1], "labels": Y.shape[1]}
            facts[part] |= {"features_a_point": X.nnz / X.shape[0], "labels_a_point": Y.nnz / X.shape[0]}
        (folder / "facts.json").write_text(json.dumps(facts))  # written last: marks the folder as complete
    return DataSet(name=name, folder=folder, facts=json.loads((folder / "facts.json").read_text()))


def held_out(data: DataSet, share: float = 0.1, seed: int = 0) -> DataSet:
    """Hold out a random share of the training points as test points; the result consists of matrices."""
    folder = data.folder.with_name(f"{data.folder.name}-held-out")
    folder.mkdir(exist_ok=True)
    n_points = data.facts["train"]["points"]
    order = np.random.default_rng(seed).permutation(n_points)
    rows = {"test": np.sort(order[: int(share * n_points)]), "train": np.sort(order[int(share * n_points) :])}
    facts = {part: {**data.facts["train"], "points": len(chosen)} for part, chosen in rows.items()}
    for name in ("X", "Y"):
        whole = data.matrix(f"train.{name}")
        for part, chosen in rows.items():
            _save(folder / f"{part}.{name}.npz", whole[chosen])
    return DataSet(name=data.name, folder=folder, facts=facts)


def find(source: Path, part: str) -> Path:
    """Return the one file of a folder whose name contains ``"train"`` or ``"test"``, plain or compressed."""
    found = [file for file in sorted(source.glob(f"*{part}*")) if file.suffix in OPENERS]
    if len(found) != 1:
        names = ", ".join(file.name for file in found) or "none"
        raise ValueError(f"{source}: expected one *{part}*.txt, plain or as .xz, .gz or .bz2; found {names}")
    return found[0]


def _unpack(file: Path, folder: Path, part: str) -> dict[str, int]:
    text = folder / f"{part}.txt"
    with OPENERS[file.suffix](file, "rb") as packed, text.open("wb") as plain:
        shutil.copyfileobj(packed, plain)
    points = read_xmc(text)
    _save(folder / f"{part}.X.npz", points.X)
    _save(folder / f"{part}.Y.npz", points.Y)
    return {"points": points.n_points, "features": points.n_features, "labels": points.n_labels}


def _save(path: Path, matrix: Any) -> None:
    sparse.save_npz(path, sparse.csr_matrix(matrix), compressed=False)  # older SciPy reads matrices, but not arrays
