"""The state after a failed `fit`, `save` or `load`, and input that must be refused early."""

import numpy as np
import pytest
from scipy import sparse

from sparsenet import DivergenceError, ExtremeClassifier, ModelError, storage
from sparsenet.core.machine import available_memory
from sparsenet.core.seeds import run_seed
from sparsenet.engines.network.auto_rules import AUTO
from sparsenet.selection.holdout import Holdout
from sparsenet.storage.checkpoint_place import OptionalDirectory
from tests.support.interrupting import Failing
from tests.support.planted import NAMES, X, Y, fast

WIDE = sparse.csr_array((X.data, X.indices * 1000, X.indptr), shape=(X.shape[0], X.shape[1] * 1000))


@pytest.mark.parametrize(
    ("parameters", "y", "options", "error"),
    [
        ({}, [0.5] * X.shape[0], {}, ValueError),
        ({}, Y[:10], {}, ValueError),
        ({"memory_limit": "1kB"}, Y, {}, MemoryError),
        ({"learning_rate": 1e3, "normalize": "none", "optimizer": "sgd"}, Y, {}, DivergenceError),
        ({}, Y, {"callbacks": [Failing()]}, RuntimeError),
    ],
    ids=["labels", "lengths", "memory", "divergence", "callback"],
)
def test_a_failed_fit_leaves_the_earlier_model_with_its_width(parameters, y, options, error):
    """With the width of the failed fit, kernels would read outside the weights."""
    model = fast(epochs=1).fit(X, Y)
    expected = model.predict_proba(X)
    model.set_params(**parameters)
    with pytest.raises(error):
        model.fit(WIDE * (1e30 if error is DivergenceError else 1), y, **options)
    np.testing.assert_array_equal(model.predict_proba(X), expected)
    with pytest.raises(ValueError, match="features"):
        model.predict(WIDE)


def test_a_failed_first_fit_leaves_no_model():
    model = fast()
    for train in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match="y has 10"):
            train(X, Y[:10])
        assert not hasattr(model, "n_features_in_")


@pytest.mark.parametrize(("n", "parameters"), [(10, {"validation_fraction": 0.5}), (20_000, {"hidden": "auto"})])
def test_rejects_training_rows_without_any_label(n, parameters):
    """Validation or the trial of hidden units holds out the other rows."""
    held = Holdout.draw(n, 5 if n == 10 else AUTO.n_held(n), run_seed(0)).held
    y = sparse.csr_array(([1.0], ([held[0]], [0])), shape=(n, 2000))
    points = sparse.eye_array(n, 3, format="csr")
    with pytest.raises(ValueError, match="rows are held out to measure on, and y has no label at all in the others"):
        fast(**parameters, random_state=0).fit(points, y, callbacks=[Failing()])


def test_rejects_empty_validation_before_training():
    with pytest.raises(ValueError, match="validation has no rows"):
        fast().fit(X, Y, validation=(X[:0], Y[:0]), callbacks=[Failing()])


def test_partial_fit_rejects_empty_input():
    model = fast(epochs=1).fit(X, Y)
    expected = model.predict_proba(X)
    with pytest.raises(ValueError, match="no point to train on"):
        model.partial_fit(X[:0], Y[:0])
    np.testing.assert_array_equal(model.predict_proba(X), expected)


def test_partial_fit_beyond_the_memory_limit_keeps_the_model():
    model = fast().partial_fit(X, Y)
    expected = model.predict_proba(X)
    with pytest.raises(MemoryError, match=r"training needs .* \(new features of labels .*model .*the limit is 20.0 kB"):
        model.set_params(memory_limit="20kB").partial_fit(X, Y)
    np.testing.assert_array_equal(model.predict_proba(X), expected)


def test_rejects_labels_beyond_64_bits():
    with pytest.raises(ValueError, match="y holds whole numbers beyond 64 bits: convert them with str"):
        fast().fit(X, [2**64 + i % 2 for i in range(X.shape[0])])


def test_rejects_billions_of_columns_before_allocating():
    n_labels = 2**31 - 1
    if available_memory() > 64 * n_labels:
        pytest.skip("this machine has the memory")
    ids = sparse.csr_array(Y)
    y = sparse.csr_array((ids.data, ids.indices, ids.indptr), shape=(ids.shape[0], n_labels))
    with pytest.raises(MemoryError, match=f"y has {n_labels} columns, .* number the labels without gaps"):
        fast().fit(X, y)


@pytest.mark.parametrize("changed", [{"hidden": 5}, {"wide": False}, {"activation": "tanh"}], ids=str)
def test_refuses_to_save_parameters_of_another_network(tmp_path, changed):
    model = fast(epochs=1).fit(X, Y)
    with pytest.raises(ValueError, match="changed since the classifier was fitted"):
        model.set_params(**changed).save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arrays, data: data.update(n_points=0), "ZeroDivisionError"),
        (lambda arrays, data: arrays.update(counts=arrays["counts"][:, None]), "counts must hold a whole number"),
        (lambda arrays, data: arrays.update(counts=arrays["counts"] - 1000), "counts must hold a whole number"),
        (lambda arrays, data: data["target"].update(kind="dense"), "the kind 'dense' .* cannot have the names"),
        (lambda arrays, data: data["target"].update(dtype="<i8"), "cannot have the names"),
        (lambda arrays, data: data["target"].update(dtype="<M8[D]"), "NumPy type of numbers or strings, got .<M8"),
        (lambda arrays, data: arrays.update({"wide.indices": arrays["wide.indices"][:, None]}), "number of indices"),
        (lambda arrays, data: arrays["wide.weight"].fill(np.nan), r"the weights wide\.weight hold NaN or infinity"),
        (lambda arrays, data: arrays["output.weight"][:1].fill(np.inf), r"the weights output\.weight hold NaN"),
    ],
)
def test_rejects_inconsistent_parts(tmp_path, change, message):
    fast(epochs=1).fit(X, NAMES[Y.argmax(axis=1)].astype(str)).save(tmp_path / "model")
    arrays, metadata = storage.load(tmp_path / "model")
    change(arrays, metadata)
    storage.save(tmp_path / "model", arrays, metadata)
    with pytest.raises(ModelError, match=message):
        ExtremeClassifier.load(tmp_path / "model")


def test_a_forged_name_type_takes_no_memory(tmp_path):
    fast(epochs=1).fit(X, NAMES[Y.argmax(axis=1)].astype(str)).save(tmp_path / "model")
    arrays, metadata = storage.load(tmp_path / "model")
    metadata["target"]["dtype"] = "<U500000000"
    storage.save(tmp_path / "model", arrays, metadata)
    assert ExtremeClassifier.load(tmp_path / "model").classes_.nbytes < 10_000


# --- checkpoints ---


@pytest.mark.parametrize("left", [[], [".sparsenet-0123456789abcdef.tmp"]], ids=["nothing", "half a file"])
def test_a_run_killed_at_its_first_checkpoint_restarts(tmp_path, left):
    run = tmp_path / "run"
    run.mkdir()
    for name in left:
        (run / name).touch()
    model = fast(epochs=1).fit(X, Y, checkpoint=run, resume=True)
    np.testing.assert_array_equal(model.predict_proba(X), fast(epochs=1).fit(X, Y).predict_proba(X))
    assert not {path.name for path in run.iterdir()} & set(left)


def test_rejects_an_unwritable_checkpoint_before_training(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        fast().fit(X, Y, checkpoint=tmp_path / "file", callbacks=[Failing()])


def test_rejects_a_checkpoint_with_another_shape(tmp_path):
    fast(epochs=1).fit(X, Y, checkpoint=tmp_path / "run")
    arrays, position = storage.load(tmp_path / "run")
    name = next(name for name in arrays if name.startswith("state-output.weight"))
    storage.save(tmp_path / "run", {**arrays, name: arrays[name][:1]}, position)
    with pytest.raises(ValueError, match=r"a state of output\.weight that its optimizer does not have"):
        fast(epochs=1).fit(X, Y, checkpoint=tmp_path / "run", resume=True)


def test_a_run_without_a_checkpoint_leaves_no_files(tmp_path):
    with pytest.raises(RuntimeError, match="enough"):
        fast().fit(X, Y, checkpoint=tmp_path / "new" / "run", callbacks=[Failing()])
    assert not [*tmp_path.iterdir()]


class Blocking:
    """A callback that creates a file at the path of the checkpoint."""

    def __init__(self, path):
        self.path = path

    def on_batch(self, progress):
        self.path.touch()

    def on_epoch(self, record):
        pass


def test_a_failing_requested_checkpoint_ends_the_training(tmp_path):
    run = tmp_path / "run"
    with pytest.raises(NotADirectoryError):
        fast().fit(X, Y, checkpoint=run, callbacks=[Blocking(run)])


def test_a_failing_automatic_checkpoint_is_ignored(tmp_path):
    run = tmp_path / "run"
    with pytest.warns(RuntimeWarning, match="continues without a checkpoint: .*run: is a file") as caught:
        model = fast(epochs=3).fit(X, Y, checkpoint=OptionalDirectory(run), callbacks=[Blocking(run)])
    assert len(caught) == 1
    np.testing.assert_array_equal(model.predict_proba(X), fast(epochs=3).fit(X, Y).predict_proba(X))
