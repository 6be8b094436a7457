"""Very wide points are refused with a MemoryError that names the memory needed, before anything is allocated."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from sparsenet import BlendClassifier, ExtremeClassifier, TreeClassifier
from sparsenet.core.memory import check_width
from sparsenet.features import units
from sparsenet.features.kinds import detect_kind
from sparsenet.features.scaling import Scaling


def billions(n=40, width=2**31 - 1):
    return sparse.csr_array((np.ones(n, np.float32), (np.arange(n), np.arange(n))), shape=(n, width))


@pytest.mark.parametrize("n", [40, 200], ids=["few rows", "many rows"])
@pytest.mark.parametrize("how", [{}, {"hidden": 8}, {"hidden": 0}, {"wide": False}, {"normalize": "rows"}], ids=str)
def test_refuses_billions_of_features_before_allocating(n, how, monkeypatch):
    monkeypatch.setattr("sparsenet.core.memory.available_memory", lambda: 10**9)
    for fit in (ExtremeClassifier.fit, ExtremeClassifier.partial_fit):
        model = ExtremeClassifier(n_jobs=4, random_state=0, **how)
        about = {"classes": np.arange(n)} if fit is ExtremeClassifier.partial_fit else {}
        tracemalloc.start()
        try:
            with pytest.raises(
                MemoryError, match=r"2,147,483,647 features needs .* GB .* only 1\.0 GB are available: num"
            ):
                fit(model, billions(n), np.arange(n), **about)
            assert tracemalloc.get_traced_memory()[1] < 10**8
        finally:
            tracemalloc.stop()
        assert not hasattr(model, "classes_")


def test_refusal_names_the_memory_limit(monkeypatch):
    with pytest.raises(
        MemoryError, match=r"with 2,147,483,647 features .* but the limit is 1\.0 GB: raise memory_limit, or"
    ):
        ExtremeClassifier(memory_limit="1GB", random_state=0).fit(billions(), np.arange(40))


def test_advises_one_thread_where_threads_take_most():
    with pytest.raises(MemoryError, match="without gaps, or train on one thread"):
        check_width(10**9, 100.0, limit=1)
    with pytest.raises(MemoryError, match=r"without gaps$"):
        check_width(10**9, 100.0, limit=1, of_threads=False)


@pytest.mark.parametrize("model", [ExtremeClassifier, TreeClassifier, BlendClassifier])
@pytest.mark.parametrize("normalize", ["auto", "mixed"])
def test_refuses_widths_that_do_not_fit_while_scaling(model, normalize, monkeypatch):
    width = 10**7
    enough = {"auto": units.BYTES_TO_DETECT_KIND, "mixed": units.BYTES_TO_FIT_MIXED}[normalize] * width
    monkeypatch.setattr("sparsenet.core.memory.available_memory", lambda: enough - 1)
    points = billions(100, width)
    with pytest.raises(MemoryError, match=r"with 10,000,000 features needs [\d.]+ (MB|GB) for arrays"):
        model(n_jobs=1, random_state=0, normalize=normalize).fit(points, np.arange(100) % 9)


def test_scaling_takes_no_more_memory_than_announced():
    width = 1 << 20
    rng = np.random.default_rng(0)
    ids = np.hstack(
        [np.tile(np.arange(2), (300, 1)), rng.permuted(np.tile(np.arange(2, 900), (300, 1)), axis=1)[:, :4]]
    )
    points = sparse.csr_array((rng.random(1800), (np.repeat(np.arange(300), 6), ids.ravel())), shape=(300, width))
    peaks = []
    for look in (detect_kind, Scaling.of_mixed):
        tracemalloc.start()
        look(points)
        peaks.append(tracemalloc.get_traced_memory()[1] / width)
        tracemalloc.stop()
    assert peaks[0] <= units.BYTES_TO_DETECT_KIND
    assert peaks[1] <= units.BYTES_TO_FIT_MIXED
