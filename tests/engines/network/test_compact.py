"""Compact models: a quarter of the size."""

from typing import Any

import numpy as np
import pytest

from sparsenet import ExtremeClassifier, ModelError, storage
from sparsenet.engines.network import compact
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


def test_unpacked_arrays_are_within_half_a_step_and_keep_types():
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {
        "output.weight": rng.standard_normal((50, 7)).astype(np.float32),
        "output.bias": rng.standard_normal((50, 1)).astype(np.float32),
        "wide.weight": rng.standard_normal((90, 1)).astype(np.float32),
        "wide.indices": rng.integers(0, 60_000, 90).astype(np.int32),
        "wide.indptr": np.arange(91),
    }
    arrays["output.weight"][3] = 0
    back: dict[str, Any] = compact.grow(compact.shrink(arrays))
    assert {name: a.dtype for name, a in back.items()} == {name: a.dtype for name, a in arrays.items()}
    step = np.abs(arrays["output.weight"]).max(axis=1, keepdims=True) / 127
    assert (np.abs(back["output.weight"] - arrays["output.weight"]) <= 0.5001 * step).all()
    np.testing.assert_allclose(back["wide.weight"], arrays["wide.weight"], rtol=1e-3)
    for name in ("output.bias", "wide.indices", "wide.indptr"):
        np.testing.assert_array_equal(back[name], arrays[name])


def test_values_beyond_16_bits_keep_their_size():
    arrays = {"wide.weight": np.array([[1e6]], np.float32), "wide.indices": np.array([70_000], np.int32)}
    small = compact.shrink(arrays)
    assert small["wide.weight"].dtype == np.float32
    assert small["wide.indices"].dtype == np.int32


def test_rejects_a_compact_model_with_a_foreign_scale(tmp_path):
    fast(epochs=1).fit(X, Y).save(tmp_path / "model", compact=True)
    arrays, metadata = storage.load(tmp_path / "model")
    arrays["output.weight.scale"] = arrays["output.weight.scale"][:-1]
    storage.save(tmp_path / "model", arrays, metadata)
    with pytest.raises(ModelError, match="8-bit rows"):
        ExtremeClassifier.load(tmp_path / "model")
