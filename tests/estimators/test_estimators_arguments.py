"""Arguments of `fit` beside X and y: an error names the argument, before anything is trained."""

import numpy as np
import pytest
from scipy import sparse

from sparsenet.features.targets import Target
from tests.support.interrupting import Failing
from tests.support.planted import X, Y, fast


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"validation": X}, r"validation must be a pair \(X, y\), got csr_array"),
        ({"validation": (X, Y, Y)}, r"validation must be a pair \(X, y\), got tuple"),
        ({"validation": (X[:, :7], Y)}, "validation: X has 7 features"),
        ({"validation": (X, Y[:5])}, "validation: X has 400 rows, y has 5"),
        ({"validation": (X * np.nan, Y)}, "validation: X holds NaN"),
        ({"resume": True}, "resume=True needs checkpoint"),
    ],
)
def test_rejects_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        fast().fit(X, Y, **options, callbacks=[Failing()])


def test_rejects_two_ways_to_validate():
    with pytest.raises(ValueError, match="validation_fraction and validation are both set"):
        fast(validation_fraction=0.5).fit(X, Y, validation=(X, Y), callbacks=[Failing()])


# --- callbacks ---


class Epochs:
    def __init__(self):
        self.seen = 0

    def on_epoch(self, record):
        self.seen += 1


class Batches:
    def __init__(self):
        self.seen = 0

    def on_batch(self, progress):
        self.seen += 1


def test_a_callback_may_have_one_method():
    epochs, batches = Epochs(), Batches()
    fast(epochs=3).fit(X, Y, callbacks=(epochs, batches))
    assert (epochs.seen, batches.seen) == (3, 3 * 7)


@pytest.mark.parametrize(
    "wrong",
    [Epochs(), [Epochs], [print], [Epochs(), None], 5, "ab"],
    ids=["one alone", "a class", "a function", "None in it", "a number", "text"],
)
def test_rejects_what_is_not_a_list_of_callbacks(wrong):
    with pytest.raises(TypeError, match="callbacks must be a list of objects with a method on_batch"):
        fast().fit(X, Y, callbacks=wrong)


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csr_matrix])
def test_stored_zeros_of_an_indicator_mean_no(form):
    with pytest.raises(ValueError, match=r"y must be positive where a row has a label and zero elsewhere, got -1"):
        fast().fit(X[:3], form([[1, -1], [-1, 1], [1, -1]]))


@pytest.mark.parametrize(
    "form", [sparse.coo_array.copy, lambda y: sparse.csr_array((y.data, y.col, [0, 2, 3]), y.shape)]
)
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint64, np.float64, bool])
def test_keeps_a_label_stored_twice(form, dtype):
    largest = np.iinfo(dtype).max // 2 + 1 if np.dtype(dtype).kind in "iu" else 1
    indicator = form(sparse.coo_array((np.array([largest, largest, 1], dtype), ([0, 0, 1], [1, 1, 0])), shape=(2, 3)))
    rows = Target.learn(indicator)[1]
    assert (rows.indptr.tolist(), rows.indices.tolist()) == ([0, 1, 2], [1, 0])
