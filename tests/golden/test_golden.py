"""Results equal the files in tests/golden/ on every machine, backend and instruction set."""

import json
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from sparsenet import kernels
from tests.support.golden_cases import FOLDER, KINDS, MACHINES, VALUES, values

kinds = pytest.mark.parametrize("kind", KINDS)
machines = pytest.mark.parametrize("machine", MACHINES)


def kept(machine: str, kind: str) -> dict[str, Any]:
    """Return a model's answers on the machine that saved it."""
    return json.loads((FOLDER / machine / f"{kind}.json").read_text(encoding="utf-8"))


@pytest.fixture
def everywhere(backend: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Make the package use the backend under test, and forget the functions of another one."""
    for name in [name for name in vars(kernels) if name in dir(backend) and not name.startswith("_")]:
        monkeypatch.delitem(vars(kernels), name)
    monkeypatch.setattr(kernels, "_chosen", backend)
    assert kernels.matmul is backend.matmul
    yield backend
    for name in [name for name in vars(kernels) if getattr(backend, name, None) is vars(kernels)[name]]:
        del vars(kernels)[name]


def test_hashes_and_features_have_the_same_bits(everywhere: ModuleType) -> None:
    assert values() == json.loads(VALUES.read_text(encoding="utf-8"))


@machines
@kinds
def test_a_saved_model_gives_the_same_labels_and_scores(everywhere: ModuleType, machine: str, kind: str) -> None:
    """This holds for a model saved on any machine and in any form."""
    wanted = kept(machine, kind)
    labels, scores = KINDS[kind].best(KINDS[kind].load(FOLDER / machine / kind))
    assert labels == wanted["labels"]
    np.testing.assert_allclose(scores, wanted["scores"], rtol=0, atol=1e-5)


@machines
@kinds
def test_stored_scores_differ_by_more_than_the_tolerance(machine: str, kind: str) -> None:
    """Otherwise two labels could swap places within the tolerance."""
    gaps = -np.diff(np.array(kept(machine, kind)["scores"]), axis=1)
    assert gaps.min() > 2e-5


@machines
@pytest.mark.parametrize("kind", ["extreme", "text"])
def test_a_model_trained_here_predicts_the_same_labels(everywhere: ModuleType, machine: str, kind: str) -> None:
    """Training elsewhere need not give equal bits, only equal labels."""
    wanted = kept(machine, kind)
    labels, scores = KINDS[kind].best(KINDS[kind].make())
    assert np.mean([ours[0] == theirs[0] for ours, theirs in zip(labels, wanted["labels"], strict=True)]) > 0.95
    np.testing.assert_allclose([row[0] for row in scores], [row[0] for row in wanted["scores"]], rtol=0, atol=0.02)


def test_golden_files_stay_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 160_000
