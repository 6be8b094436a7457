"""Compact models: a quarter of the size."""

from typing import Any

import numpy as np
import pytest

from sparsenet import ExtremeClassifier, ModelError, storage
from sparsenet.engines.network import compact
from sparsenet.storage.narrow import widen
from tests.support.planted import X, Y, fast


@pytest.mark.parametrize("parameters", [{}, {"hidden": 0}, {"hidden": (64, 32)}, {"wide": False}], ids=str)
def test_a_compact_model_is_smaller_and_predicts_almost_the_same(parameters, tmp_path):
    model = fast(**parameters).fit(X, Y)
    model.save(tmp_path / "full")
    model.save(tmp_path / "small", compact=True)
    full, small = (sum(f.stat().st_size for f in (tmp_path / name).iterdir()) for name in ("full", "small"))
    assert small < 0.75 * full
    loaded = ExtremeClassifier.load(tmp_path / "small")
    np.testing.assert_allclose(loaded.predict_proba(X), model.predict_proba(X), atol=0.05)
    assert abs(loaded.score(X, Y) - model.score(X, Y)) < 0.01


def test_a_compact_model_saved_again_stays_the_same(tmp_path):
    fast(epochs=5).fit(X, Y).save(tmp_path / "first", compact=True)
    first = ExtremeClassifier.load(tmp_path / "first")
    first.save(tmp_path / "second")
    second = ExtremeClassifier.load(tmp_path / "second")
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))


def test_reads_compact_models_of_version_0_2():
    old = {
        "output.weight": np.array([[127, -64], [0, 0]], np.int8),
        "output.weight.scale": np.array([[0.5], [0]], np.float32),
        "wide.weight": np.array([[1.5]], np.float16),
        "wide.indices": np.array([60_000], np.uint16),
    }
    found: dict[str, Any] = compact.grow(widen(old))
    np.testing.assert_array_equal(found["output.weight"], [[63.5, -32], [0, 0]])
    assert (found["wide.weight"].dtype, found["wide.indices"].dtype) == (np.float32, np.int32)
    assert (found["wide.weight"].tolist(), found["wide.indices"].tolist()) == ([[1.5]], [60_000])


def test_rejects_a_compact_model_with_a_foreign_scale(tmp_path):
    fast(epochs=1).fit(X, Y).save(tmp_path / "model", compact=True)
    arrays, metadata = storage.load(tmp_path / "model")
    arrays["output.weight.scale"] = arrays["output.weight.scale"][:-1]
    storage.save(tmp_path / "model", arrays, metadata)
    with pytest.raises(ModelError, match="8-bit rows"):
        ExtremeClassifier.load(tmp_path / "model")
