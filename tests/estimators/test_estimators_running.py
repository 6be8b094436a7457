"""Running ExtremeClassifier: checkpoints, Ctrl-C, memory, progress, and the cost of importing it."""

import io
import json
import signal
import subprocess
import sys
import textwrap
import time
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from sparsenet import BlendClassifier, CheckpointError, Network
from sparsenet.core.centroids import support_bound
from sparsenet.core.rows import Rows, transpose
from sparsenet.engines.network import building, options
from sparsenet.engines.network.building import memory_needed, outline
from sparsenet.engines.network.options import NetworkOptions
from sparsenet.features.scaling import Scaling
from tests.support.interrupting import StopAt
from tests.support.patience import PATIENCE
from tests.support.planted import X, Y, fast


class OwnInterrupt(KeyboardInterrupt):
    """An interrupt that a callback may raise."""


@pytest.mark.parametrize(
    "train", [fast().fit, fast().partial_fit, BlendClassifier(random_state=0).fit], ids=["fit", "partial_fit", "blend"]
)
def test_raises_the_interrupt_that_ended_training(train, monkeypatch):
    interrupt = OwnInterrupt("enough")

    def train_step(*_, **__):
        raise interrupt

    monkeypatch.setattr(Network, "train_step", train_step)
    with pytest.raises(OwnInterrupt) as caught:
        train(X, Y)
    assert caught.value is interrupt


@pytest.mark.parametrize("batch", [1, 6, 10, 17])
@pytest.mark.parametrize("sampler", ["random", "lsh"])
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path, batch, sampler):
    parameters = {"epochs": 3, "sampler": sampler, "n_negatives": 10, "validation_fraction": 0.1}
    whole = fast(**parameters).fit(X, Y)
    model = fast(**parameters)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y, checkpoint=tmp_path / "run", callbacks=[StopAt(batch)])
    assert model.predict(X).shape == Y.shape
    resumed = fast(**parameters, n_jobs=2).fit(X, Y, checkpoint=tmp_path / "run", resume=True)
    for name, array in whole.network_.weights().items():
        np.testing.assert_array_equal(resumed.network_.weights()[name], array, err_msg=name)
    unlike = {"seconds"}
    for a, b in zip(resumed.history_, whole.history_, strict=True):
        assert {k: v for k, v in a.items() if k not in unlike} == {k: v for k, v in b.items() if k not in unlike}


def test_rejects_a_checkpoint_of_another_run(tmp_path):
    fast(epochs=1).fit(X, Y, checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match="is the checkpoint of a run with other data or settings"):
        fast(epochs=1, learning_rate=0.5).fit(X, Y, checkpoint=tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    ("other", "there", "here"),
    [
        ({"learning_rate": 0.5}, r"optimizer=Adam\(rate=0.02, .*\)", r"optimizer=Adam\(rate=0.5, .*\)"),
        ({"wide_learning_rate": 0.5}, "bias optimizer=.*, wide optimizer=.*", r".*wide optimizer=.*rate=0.5, .*"),
        ({"dropout": 0.5}, "dropout=0.0", "dropout=0.5"),
        ({"activation": "tanh"}, "activation=relu", "activation=tanh"),
        ({"hidden": 8}, "hidden=16", "hidden=8"),
        ({"hidden": 0}, "hidden=16", "hidden=0"),
        ({"hidden": (16, 8)}, "hidden=16", r"hidden=\(16, 8\)"),
        ({"wide": False}, "wide=True, wide_budget=1024, .*", "wide=False, wide_budget=none, .*"),
        ({"n_negatives": 7}, "n_negatives=10", "n_negatives=7"),
        ({"sampler": "frequency"}, r"sampler=RandomSampler\(\)", r"sampler=FrequencySampler\(power=.*\)"),
        ({"loss": "softmax"}, "loss=BinaryCrossEntropy.*", "loss=SampledSoftmax.*"),
        ({"epochs": 2, "batch_size": 9}, "epochs=1, batch_size=32, .*", "epochs=2, batch_size=9, .*"),
        ({"random_state": 1}, r"seed \(by random_state\)=\d+", r"seed \(by random_state\)=\d+"),
    ],
    ids=str,
)
def test_names_settings_that_differ_from_the_checkpoint(tmp_path, other, there, here):
    usual = {"epochs": 1, "n_negatives": 10, "dropout": 0.0, "hidden": 16, "batch_size": 32, "learning_rate": 0.02}
    fast(**usual).fit(X, Y, checkpoint=tmp_path / "run")
    with pytest.raises(CheckpointError, match=f"that had {there}; this one has {here}; give the same ones"):
        fast(**{**usual, **other}).fit(X, Y, checkpoint=tmp_path / "run", resume=True)


def test_a_checkpoint_needs_a_seed(tmp_path):
    with pytest.raises(ValueError, match="checkpoint needs random_state to be an integer, got None"):
        fast(random_state=None).fit(X, Y, checkpoint=tmp_path / "run")


def test_control_c_stops_within_a_second_and_leaves_a_model():
    program = textwrap.dedent(
        """
        import sys, time
        import numpy as np
        from scipy.sparse import random as draw
        from sparsenet import ExtremeClassifier

        class Ready:
            def on_batch(self, progress):
                if progress.batch == 3:
                    print("training", flush=True)
            def on_epoch(self, record):
                pass

        rng = np.random.default_rng(0)
        X = draw(4000, 5000, 0.01, "csr", random_state=0)
        y = rng.integers(0, 3000, 4000)
        model = ExtremeClassifier(epochs=100000, random_state=0)
        try:
            model.fit(X, y, callbacks=[Ready()])
        except KeyboardInterrupt:
            print(time.time(), model.predict(X[:3]).shape, flush=True)
            raise
        """
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "training\n"
    sent = time.time()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60 * PATIENCE)
    stopped, shape = out.split(maxsplit=1)
    assert float(stopped) - sent < 1 * PATIENCE, err
    assert shape.strip() == "(3,)"
    assert "KeyboardInterrupt" in err
    assert process.returncode != 0


# --- memory, progress, import ---


def test_reports_too_little_memory():
    with pytest.raises(MemoryError, match=r"training needs .* \(weights .*the limit is 10.0 kB: lower hidden"):
        fast(memory_limit="10kB").fit(X, Y)
    fast(memory_limit="1GB", epochs=1).fit(X, Y)


def sparse_points(n=3000, n_features=20_000, n_labels=4000, density=0.004):
    rng = np.random.default_rng(0)
    points = sparse.csr_array(sparse.random(n, n_features, density, "csr", rng=rng, dtype=np.float32))
    labels = sparse.csr_array((np.ones(n, np.float32), rng.integers(0, n_labels, n), np.arange(n + 1)), (n, n_labels))
    return Rows.of(points), Rows.of(labels), points, labels


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"hidden": 0},
        {"wide": False},
        {"sampler": "none"},
        {"optimizer": "sgd", "sampler": "lsh"},
        {"optimizer": "sgd", "wide": False},
    ],
    ids=str,
)
def test_predicts_memory_needed(parameters, monkeypatch):
    features, labels, points, y = sparse_points()
    model = fast(**{"hidden": 64, "n_negatives": 500, "epochs": 1, **parameters})
    known = NetworkOptions.of(model.get_params())
    counts = np.bincount(labels.indices, minlength=labels.width)
    support = int(support_bound(features, transpose(labels), known.wide_budget).sum()) if known.wide else 0
    network = outline(known, features.width, counts, len(features), seed=0, threads=1)
    expected = memory_needed(known, network, features, labels, support, scored=True, keep_best=True)

    trained = model.set_params(hidden=2).fit(points, y)  # imports and compiles
    model = trained.set_params(**{"hidden": 64, **parameters})
    scaled = features.data.nbytes + features.indptr.nbytes
    needed_by_fit = []
    monkeypatch.setattr(building, "check_memory", lambda needed, *rest: needed_by_fit.append(needed))
    del trained._fitted, trained.network_
    tracemalloc.start()
    model.fit(points, y, validation=(points[:100], y[:100]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    arrays = sum(array.nbytes for array in model.network_.weights().values())
    assert expected["weights"] == pytest.approx(arrays, rel=0.1)
    assert sum(needed_by_fit[0].values()) == pytest.approx(peak, rel=0.1)
    assert needed_by_fit[0].pop("points") == pytest.approx(scaled, rel=0.1)  # with the validation points
    assert needed_by_fit[0] == expected


def test_predicts_memory_of_features():
    """Each thread sums centroids of the points by label in an array of one entry a feature."""
    features, labels, _, _ = sparse_points(n_features=10**6, density=1e-5)
    known = NetworkOptions.of(fast(hidden=0, epochs=1).get_params())
    network = outline(known, features.width, np.ones(labels.width), len(features), seed=0, threads=1)
    for threads in (1, 4):
        needed = memory_needed(known, network, features, labels, 10, scored=False, keep_best=False, threads=threads)
        at_the_start = needed["weights"] + 9_125_000 * threads + 8 * (labels.n_entries + labels.width)
        assert sum(needed.values()) >= at_the_start
    assert sum(needed.values()) == at_the_start, "what comes later takes less, and is not there yet"


@pytest.mark.slow
def test_predicts_memory_of_a_trial(monkeypatch):
    _, _, points, y = sparse_points(6000, 5000, 1500, 0.04)  # most weights are in the wide path
    monkeypatch.setattr(options, "AUTO", replace(options.AUTO, all_labels=10, trial_from=100))
    expected = []
    monkeypatch.setattr(building, "check_memory", lambda needed, *rest: expected.append(sum(needed.values())))
    model = fast(hidden="auto", n_negatives=500, epochs=3)
    model.fit(points, y)  # imports and compiles
    assert "held-out points" in model.choices_["hidden"][1]
    del model._fitted, model.network_
    tracemalloc.start()
    model.fit(points, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert expected[-1] == pytest.approx(peak, rel=0.1)


def test_scaling_a_dense_table_takes_little_extra_memory():
    table = np.random.default_rng(0).random((20_000, 50), np.float32)
    scaling = Scaling.learn(table, "columns")
    tracemalloc.start()
    rows = scaling.apply(table)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.3 * (rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes)


def test_shows_progress_only_on_request(capsys):
    fast(epochs=2).fit(X, Y)
    assert capsys.readouterr() == ("", "")
    fast(epochs=2, verbose=True, validation_fraction=0.2).fit(X, Y)
    out, err = capsys.readouterr()
    assert out == ""
    assert "needed (weights" in err
    for part in ("epoch 2/2", "100%", "loss", "points/s", "P@1", "left"):
        assert part in err


@pytest.mark.parametrize(
    ("sampler", "is_reported"), [("lsh", True), ("random", False), ("frequency", False), ("none", False)]
)
def test_reports_the_recall_of_the_index(sampler, is_reported):
    class Follow:
        def on_batch(self, progress):
            reported.add(progress.index_recall is not None)

    reported = set()
    model = fast(sampler=sampler, n_negatives=10, epochs=10, batch_size=32).fit(X, Y, callbacks=[Follow()])
    assert (True in reported) == ("index_recall" in model.history_[-1]) == is_reported


def test_the_progress_bar_shows_recall():
    from sparsenet.engines.network.training import Progress
    from sparsenet.engines.network.training.progress_bar import ProgressBar

    file = io.StringIO()
    with ProgressBar(file) as bar:
        bar.on_batch(Progress(0, 1, 2, 2, 0.5, 512, 1.0, 0.93, {"P@1": 0.5}))
    assert "index recall 93 %" in file.getvalue()
    assert "P@1 50.0 %" in file.getvalue()


def test_the_progress_bar_ends_with_the_time_budget():
    from sparsenet.engines.network.training import Progress
    from sparsenet.engines.network.training.progress_bar import ProgressBar

    seen, file = [], io.StringIO()

    class Steps:
        def on_batch(self, progress):
            seen.append(progress)

    fast(epochs=10**6, time_budget=0.5 * PATIENCE).fit(X, Y, callbacks=[Steps()])
    assert all(progress.done <= progress.steps < 10**6 for progress in seen[3:])
    assert seen[-1].done == pytest.approx(seen[-1].steps, abs=1)
    with ProgressBar(file) as bar:
        bar.on_batch(Progress(0, 100, 5, 10, 0.5, 512, 1.0, None, None, 20))
        assert "20%" in file.getvalue()  # before the batch
        bar.on_batch(Progress(0, 100, 8, 10, 0.5, 512, 1.0, None, None, 8))
    assert "100%" in file.getvalue()
    fast(epochs=2).fit(X, Y, callbacks=[Steps()])
    assert seen[-1].steps is None


def test_import_is_light():
    heavy = ["numba", "sklearn", "scipy", "numpy", "tqdm"]
    program = f"import sys, json, sparsenet; print(json.dumps([m for m in {heavy} if m in sys.modules]))"
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert json.loads(out) == []


def test_public_names_exist():
    import sparsenet

    assert set(sparsenet.__all__) <= set(dir(sparsenet))
    for name in sparsenet.__all__:
        assert getattr(sparsenet, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = sparsenet.nothing
