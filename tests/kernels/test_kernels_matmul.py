"""The dense matrix product at sizes that it splits into blocks of rows, columns and depth."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.support import reference

# m, n, depth: tall (A packed once), wide beyond a block of columns, small and deep, deep by one element more
SHAPES = [(3200, 40, 70), (3100, 800, 9), (50, 60, 2049), (130, 33, 5001), (1, 1, 4096)]


@pytest.mark.parametrize("bf16", [False, True], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
def test_blocked_products_agree_with_the_oracle(backend: ModuleType, shape: tuple[int, int, int], bf16: bool) -> None:
    m, n, depth = shape
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((depth, m), np.float32), rng.standard_normal((n + 3, depth), np.float32)
    b_rows = rng.permutation(n + 3)[:n].astype(np.int32)
    start = rng.standard_normal(m, np.float32)
    results = []
    for threads in (1, 3):
        out = np.full((m, n), np.nan, np.float32)
        backend.matmul(a, b, out, None, b_rows, start, True, True, bf16, threads)
        results.append(out)
    expected = reference.matmul(a, b, None, b_rows, start, True, True, bf16)["out"]
    np.testing.assert_allclose(results[0], expected, rtol=1e-4, atol=2e-6 * depth)
    assert results[0].tobytes() == results[1].tobytes()


@pytest.mark.parametrize("value", [0.0, 1.0, 1 + 2**-8, 1 + 3 * 2**-8, -(2.0**-120), 3.4e38, np.inf, np.nan])
def test_bfloat16_rounds_to_even_and_keeps_nan(backend: ModuleType, value: float) -> None:
    out = np.empty((1, 1), np.float32)
    with np.errstate(over="ignore"):
        operand = np.array([[value]], np.float32)
    backend.matmul(operand, np.ones((1, 1), np.float32), out, None, None, None, False, False, True, 1)
    expected = np.inf if value == 3.4e38 else reference.to_bfloat16(operand)[0, 0]
    np.testing.assert_equal(float(out[0, 0]), expected)


def test_bfloat16_is_reported_where_it_is_faster(backend: ModuleType) -> None:
    level = backend.isa_used()
    about = Path("/proc/cpuinfo")
    if level == "avx512bf16" and about.exists():  # vectors, which on Intel's CPUs multiply as many floats
        assert backend.has_bf16() == ("GenuineIntel" not in about.read_text())
    elif level != "avx512bf16":
        assert backend.has_bf16() == level.endswith("bf16")
