"""The number of epochs over few points, chosen on held-out points."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from sparsenet import BlendClassifier, ExtremeClassifier, Rows
from sparsenet.core.ranked import share_right
from sparsenet.core.workers import task_runner
from sparsenet.engines.network import building, fit_network, network_holdout, scouting, sizing
from sparsenet.engines.network.auto_rules import AUTO
from sparsenet.engines.network.building import GROWING_BYTES, TooLargeError, build, fits_further
from sparsenet.engines.network.model import Network
from sparsenet.engines.network.options import NetworkOptions
from sparsenet.selection.holdout import Holdout

N, WIDTH, N_LABELS = 4000, 4000, 4000


def by_chance(n: int, seed: int) -> tuple[csr_array, csr_array]:
    """Return points with features of their labels in half of all cases, and random features otherwise."""
    rng = np.random.default_rng(seed)
    own = np.random.default_rng(7).integers(0, WIDTH, (N_LABELS, 6))
    X, Y = np.zeros((n, WIDTH), np.float32), np.zeros((n, N_LABELS), np.float32)
    for i in range(n):
        labels = (N_LABELS * rng.random(4) ** 2).astype(int)
        Y[i, labels] = 1
        X[i, own[labels][rng.random((4, 6)) < 0.5]] = 1
        X[i, rng.integers(0, WIDTH, 5)] = 1
    return csr_array(X), csr_array(Y)


@pytest.fixture(scope="module")
def data() -> tuple[csr_array, csr_array]:
    return by_chance(N, seed=0)


def precision_at_1(model: Any, X: csr_array, Y: csr_array) -> float:
    return float(model.score(X, Y))


@pytest.mark.slow
def test_overfitted_points_get_fewer_passes(data: tuple[csr_array, csr_array]) -> None:
    X, Y = data
    test = by_chance(1000, seed=1)
    found = ExtremeClassifier(random_state=0).fit(X, Y)
    usual = ExtremeClassifier(random_state=0, epochs=25).fit(X, Y)
    epochs, why = found.choices_["epochs"][:2]
    assert epochs == found.n_iter_ < 9
    assert why.startswith("in a pilot run, ")
    assert precision_at_1(found, *test) > precision_at_1(usual, *test) + 0.03
    again = ExtremeClassifier(random_state=0, n_jobs=1).fit(X, Y)
    np.testing.assert_array_equal(again.topk_numbers(test[0])[1], found.topk_numbers(test[0])[1])


def test_a_blend_scouts_the_epochs_of_its_network(data: tuple[csr_array, csr_array]) -> None:
    model = BlendClassifier(random_state=0).fit(*data)
    assert model.network_.n_iter_ < 9


OPTIONS = NetworkOptions.of({}).for_points(N)


def rows(*matrices: csr_array) -> tuple[Rows, ...]:
    return tuple(Rows.of(csr_array(matrix, dtype=np.float32)) for matrix in matrices)


@pytest.mark.parametrize(
    ("last", "alone", "expected"),
    [
        ([0.4] * 9, [0.6] * 9, (None, ())),  # hidden units did not help
        ([0.4] * 9, [0.5] * 9, (2, (256,))),  # worse in the end
        ([0.4] * 9, [0.9, 0.1] * 4 + [1.0], (2, (256,))),  # better without hidden units only by chance
        ([0.1, 0.8] * 4 + [0.0], [0.5] * 9, (None, (256,))),  # worse only by chance
        ([0.6] * 9, [0.5] * 9, (None, (256,))),
    ],
)
def test_held_out_precision_decides(last: list[float], alone: list[float], expected: tuple[int | None, tuple]) -> None:
    with_hidden = [np.array(scores) for scores in ([0.3] * 9, [0.5] * 9, *[[0.3] * 9] * 6, last)]
    found = scouting.decide(OPTIONS, with_hidden, [np.array(alone)] * 9)
    assert (found.epochs, found.hidden) == expected
    assert found.because["learning_rate"].why == "for batches of 256"
    assert found.because["hidden"].options == ("with hidden units", "without hidden units")
    assert bool(found.because["hidden"].value) == (found.hidden == ())
    passes = found.because["epochs"]
    assert passes.options[0] == "all epochs"
    assert passes.why.startswith(f"in a pilot run, {passes.options[1]}: share of right labels ")
    assert bool(passes.value) == (found.epochs is not None)


@pytest.mark.parametrize(
    ("parameters", "n_points"),
    [({"epochs": 25}, N), ({"time_budget": 5.0}, N), ({}, 3999), ({}, 12800)],
)
def test_does_not_scout_with_given_epochs_or_unsuitable_data(parameters: dict[str, Any], n_points: int) -> None:
    settings = NetworkOptions.of(parameters).for_points(n_points)
    points = network_holdout.split_points(settings, rows(*[np.ones((n_points, 1))] * 2), None, None, 0)
    assert points.scouting is None
    assert scouting.scout(settings, points, held=0, seed=0, threads=1) == (settings, None)


def test_does_not_scout_with_validation_data(data: tuple[csr_array, csr_array]) -> None:
    points = network_holdout.split_points(OPTIONS, rows(*data), rows(data[0][:50], data[1][:50]), None, 0)
    assert points.for_scouting() is None


def test_a_first_training_uses_the_holdout_of_the_caller(data: tuple[csr_array, csr_array]) -> None:
    """It is not drawn twice, and the final training leaves it out, too."""
    holdout = Holdout.draw(N, 500, seed=3)
    points = network_holdout.split_points(OPTIONS, rows(*data), None, holdout, 0)
    split = points.for_scouting()
    assert split is not None
    rest, held_out = split
    assert rest is points.train
    for part, own, numbers in ((rest, rows(*data), holdout.kept), (held_out, rows(*data), holdout.held)):
        for some, whole in zip(part, own, strict=True):
            assert isinstance(some, Rows)
            np.testing.assert_array_equal(some.indices, whole.take(numbers).indices)


def test_a_resumed_run_has_the_scouted_epochs(data: tuple[csr_array, csr_array], tmp_path: Any) -> None:
    X, Y = data

    class Interrupted:
        def on_batch(self, progress: Any) -> None:
            if progress.done == 20:
                raise KeyboardInterrupt

    whole = ExtremeClassifier(random_state=0).fit(X, Y)
    with pytest.raises(KeyboardInterrupt):
        ExtremeClassifier(random_state=0).fit(X, Y, callbacks=[Interrupted()], checkpoint=tmp_path / "run")
    assert not sizing.resumed_options(OPTIONS, tmp_path / "run", N).scouts(N)
    resumed = ExtremeClassifier(random_state=0).fit(X, Y, checkpoint=tmp_path / "run", resume=True)
    assert resumed.choices_["epochs"][0] == whole.choices_["epochs"][0] == resumed.n_iter_
    np.testing.assert_array_equal(resumed.topk_numbers(X[:100])[1], whole.topk_numbers(X[:100])[1])


def few_points() -> tuple[tuple[Rows, ...], NetworkOptions]:
    """Return 200 points, each with a label of its own, and options with a pilot run on nine tenths of them."""
    rules = replace(AUTO, scouting_min_held=20, min_steps=40)
    options = NetworkOptions.of({"hidden": 4, "batch_size": 64}, rules=rules)
    return rows(*(csr_array(np.eye(200, dtype=np.float32)),) * 2), options


@pytest.mark.parametrize("keeps_pilot", [False, True])
def test_training_goes_on_from_the_pilot(keeps_pilot: bool) -> None:
    points, options = few_points()
    pilots: list[Network] = []
    seen: list[int] = []
    counting = type("Counting", (), {"on_epoch": lambda _, record: seen.append(int(record["epoch"]))})()
    on_pilot = pilots.append if keeps_pilot else None
    found = fit_network.fit(points, options, seed=0, threads=1, callbacks=[counting], on_pilot=on_pilot)
    n_epochs = options.n_epochs(200)
    assert [record["epoch"] for record in found.history] == list(range(1, n_epochs + 1))
    assert seen == list(range(-(-n_epochs // AUTO.trial_after) + 1, n_epochs + 1))
    seconds = [record["seconds"] for record in found.history]
    assert seconds == sorted(seconds)
    assert sizes(found.network) == [1] * 200, "labels that the pilot run left out have weights"
    if keeps_pilot:
        assert sorted(sizes(pilots[0])) == [0] * 20 + [1] * 180
        assert not np.array_equal(pilots[0].weights()["input.weight"], found.network.weights()["input.weight"])


def sizes(network: Network) -> list[int]:
    wide = network.output.wide
    assert wide is not None
    return [int(size) for size in np.diff(wide.indptr)]


def test_going_on_with_the_same_points_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    points, options = few_points()
    how: dict[str, Any] = {"seed": 0, "threads": 1, "holdout": Holdout.draw(200, 20, seed=0)}
    found = fit_network.fit(points, options, **how)
    monkeypatch.setattr(fit_network, "fits_further", lambda *_, **__: False)  # as if it did not fit into memory
    anew = fit_network.fit(points, options, **how)
    assert len(anew.history) == len(found.history)
    for name, weights in anew.network.weights().items():
        np.testing.assert_array_equal(found.network.weights()[name], weights)


def test_training_goes_on_in_shards_of_labels() -> None:
    points, options = few_points()
    usual = fit_network.fit(points, options, seed=0, threads=1)
    with ThreadPoolExecutor(2) as pool, task_runner(pool) as runner:
        found = fit_network.fit(points, options, seed=0, threads=1, runner=runner)
    for name, weights in usual.network.weights().items():
        np.testing.assert_allclose(found.network.weights()[name], weights, rtol=1e-4, atol=1e-6)


def test_going_on_counts_the_memory_of_growing() -> None:
    points, options = few_points()
    network = build(options, *(part.take(np.arange(180)) for part in points), seed=0, threads=1)[0]
    how: dict[str, Any] = {"held": {"points": 1}, "scored": False, "threads": 1}
    assert not fits_further(network, replace(options, memory_limit=GROWING_BYTES * 380), *points, **how)
    assert fits_further(network, options, *points, **how)


def test_going_on_counts_a_copy_that_is_still_to_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    points, options = few_points()
    network = build(options, *(part.take(np.arange(180)) for part in points), seed=0, threads=1)[0]
    how: dict[str, Any] = {"held": {"points": 1}, "scored": False, "threads": 1}
    monkeypatch.setattr(building, "available_memory", lambda: 1 << 20)
    assert fits_further(network, options, *points, **how)
    assert not fits_further(network, options, *points, **how, copied=1 << 20)


class Interrupting:
    """Interrupts training after an epoch."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def on_epoch(self, record: dict[str, float]) -> None:
        if record["epoch"] == self.epoch:
            raise KeyboardInterrupt


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_resumed_run_goes_on_from_the_pilot_if_the_first_one_did(
    goes_on: bool, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    points, options = few_points()
    how: dict[str, Any] = {"seed": 0, "threads": 1}
    fits = fits_further if goes_on else lambda *_, **__: False
    monkeypatch.setattr(fit_network, "fits_further", fits)
    whole = fit_network.fit(points, options, **how)
    how["checkpoint"] = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        fit_network.fit(points, options, callbacks=[Interrupting(options.n_epochs(200) - 1)], **how)
    monkeypatch.setattr(fit_network, "fits_further", fits_further)  # now there is memory for both
    resumed = fit_network.fit(points, options, resume=True, **how)
    for name, weights in whole.network.weights().items():
        np.testing.assert_array_equal(resumed.network.weights()[name], weights)


def test_a_run_that_went_on_from_its_pilot_is_not_resumed_otherwise(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    points, options = few_points()
    how: dict[str, Any] = {"seed": 0, "threads": 1, "checkpoint": tmp_path / "run"}
    with pytest.raises(KeyboardInterrupt):
        fit_network.fit(points, options, callbacks=[Interrupting(options.n_epochs(200) - 1)], **how)
    growing = "new features of labels"
    monkeypatch.setattr(building, "announce", lambda needed, *_, **__: "too much" if growing in needed else None)
    with pytest.raises(TooLargeError, match="too much"):
        fit_network.fit(points, replace(options, memory_limit=1), resume=True, **how)


def test_share_right_divides_hits_by_true_labels() -> None:
    truth = Rows.of(csr_array(np.array([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]], np.float32)))
    ranked = np.array([[0, 2, 1], [2, 0, 1], [3, 2, 1], [0, 1, 2]], np.int32)
    assert share_right(ranked, truth).tolist() == [0.5, 1.0, 0.0, 1.0]
