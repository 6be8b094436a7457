"""The same on every machine: what is kept in tests/golden/ comes out again, on every backend and instruction set."""

import json
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
from golden_cases import FOLDER, MODEL, VALUES, best, make_model, values

from sparsenet import ExtremeClassifier, kernels

KEPT = json.loads(VALUES.read_text(encoding="utf-8"))


@pytest.fixture
def everywhere(backend: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Have the package use the backend under test; functions that it looked up before are forgotten."""
    for name in [name for name in vars(kernels) if name in dir(backend) and not name.startswith("_")]:
        monkeypatch.delitem(vars(kernels), name)
    monkeypatch.setattr(kernels, "_chosen", backend)
    assert kernels.matmul is backend.matmul
    yield backend
    for name in [name for name in vars(kernels) if getattr(backend, name, None) is vars(kernels)[name]]:
        del vars(kernels)[name]


def test_hashes_and_features_have_the_same_bits(everywhere: ModuleType) -> None:
    assert values() == KEPT["values"]


def test_a_saved_model_gives_the_same_labels_and_scores(everywhere: ModuleType) -> None:
    names, scores = best(ExtremeClassifier.load(MODEL))
    assert names.tolist() == KEPT["labels"]
    np.testing.assert_allclose(scores, np.array(KEPT["scores"]), rtol=0, atol=1e-5)


def test_the_kept_scores_leave_no_doubt_of_the_order() -> None:
    """Or two labels could change places within the tolerance."""
    gaps = -np.diff(np.array(KEPT["scores"]), axis=1)
    assert gaps.min() > 1e-4


def test_the_model_trained_here_names_the_same_labels(everywhere: ModuleType) -> None:
    """Training is not promised to have the same bits elsewhere, only to learn the same."""
    names, scores = best(make_model())
    assert (names[:, 0] == np.array(KEPT["labels"])[:, 0]).mean() > 0.95
    np.testing.assert_allclose(scores[:, 0], np.array(KEPT["scores"])[:, 0], rtol=0, atol=0.02)


def test_golden_files_stay_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 64_000
