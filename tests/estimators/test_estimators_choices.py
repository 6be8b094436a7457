"""Automatic choices of a classifier, such as its size by memory and time, and their report."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from sparsenet import ExtremeClassifier, LSHConfig
from sparsenet.core.rows import Rows
from sparsenet.engines.network import building, options, sizing
from sparsenet.engines.network.optim import SGD
from sparsenet.engines.network.options import NetworkOptions
from sparsenet.engines.network.samplers import RandomSampler
from tests.support.planted import X, Y, fast


def auto(**parameters):
    return fast(**{"hidden": "auto", "epochs": 2, **parameters})


def width(model):
    return model.network_.output.n_inputs


def test_small_data_get_the_default_size(capsys):
    model = auto(verbose=1).fit(X, Y)
    assert width(model) == 256
    assert model.choices_["hidden"][0] == 256
    assert model.choices_["wide_budget"][0] == 1024
    assert {"n_negatives", "wide_learning_rate", "normalize", "precision"} < model.choices_.keys()
    report = capsys.readouterr().err
    assert "sparsenet: chose hidden=256 (there is memory and time for it)" in report
    assert "n_negatives=40 (all labels)" in report


def test_keeps_given_settings():
    given = {"hidden": 8, "wide_budget": 50, "n_negatives": 7, "precision": "float32", "normalize": "rows"}
    assert fast(**given, learning_rate=1e-3, wide_learning_rate=0.1, epochs=1).fit(X, Y).choices_ == {}


@pytest.mark.parametrize(
    ("n_points", "batch", "rate"),
    [(1, 256, 4e-3), (65535, 256, 4e-3), (65536, 512, 4e-3 * 2**0.5), (131072, 1024, 8e-3), (10**7, 1024, 8e-3)],
)
def test_batches_grow_with_the_data_and_the_rate_with_batches(n_points, batch, rate):
    found = NetworkOptions.of(ExtremeClassifier().get_params()).for_points(n_points)
    assert (found.batch_size, vars(found.optimizer)["rate"]) == (batch, pytest.approx(rate))
    given = NetworkOptions.of(ExtremeClassifier(batch_size=4096, optimizer="sgd", weight_decay=0.1).get_params())
    assert given.for_points(n_points).batch_size == 4096
    assert given.for_points(n_points).optimizer == SGD(rate=16e-3, decay=0.1)
    given = NetworkOptions.of(ExtremeClassifier(learning_rate=1e-3).get_params()).for_points(n_points)
    assert (given.batch_size, vars(given.optimizer)["rate"]) == (batch, 1e-3)


def test_many_points_come_in_larger_batches(monkeypatch):
    rules = replace(options.AUTO, steps_per_epoch=1, batch_sizes=(10, 20, 1000))
    monkeypatch.setattr(options, "AUTO", rules)
    model = fast(batch_size="auto", epochs=1).fit(X, Y)
    assert model.choices_["batch_size"][:2] == (20, f"an epoch over {len(Y)} points has {-(-len(Y) // 20)} steps")
    assert model.choices_["learning_rate"][:2] == (pytest.approx(4e-3 * 2**0.5), "for batches of 20")
    own = fast(batch_size="auto", optimizer=SGD(rate=0.125), epochs=1).fit(X, Y)
    assert "learning_rate" not in own.choices_
    assert own.network_.output.weight.optimizer.rate == 0.125


def test_reports_the_final_hash_family(capsys, tmp_path):
    parameters = {"sampler": "lsh", "n_negatives": 9, "epochs": 6, "hidden": 16}
    model = fast(**parameters, verbose=1).fit(X, Y)
    how, why = model.choices_["sampler"][:2]
    assert how.startswith(("lsh: simhash, ", "lsh: dwta, ", "lsh: minhash, "))
    assert "recall of the best five labels with 50 tables: simhash " in why
    assert f"sparsenet: chose sampler={how} ({why})" in capsys.readouterr().err
    model.save(tmp_path / "model")
    assert ExtremeClassifier.load(tmp_path / "model").choices_["sampler"][0] == how
    assert "sampler" not in fast(**parameters | {"sampler": LSHConfig()}).fit(X, Y).choices_
    short = fast(**parameters | {"batch_size": len(Y), "epochs": 1}).fit(X, Y)
    assert short.choices_["sampler"][0].startswith("lsh: simhash, 50 tables")
    assert "a guess" in short.choices_["sampler"][1]


@pytest.mark.parametrize("first", ["fit", "partial_fit"])
def test_partial_fit_is_equal_before_and_after_saving(monkeypatch, tmp_path, first):
    rules = replace(options.AUTO, steps_per_epoch=1, batch_sizes=(10, 20, 1000))
    monkeypatch.setattr(options, "AUTO", rules)
    model = fast(batch_size="auto", epochs=1)
    if first == "fit":
        model.fit(X, Y)
    else:
        model.partial_fit(X, Y, classes=range(40))
    assert model.choices_["batch_size"][0] == 20
    model.save(tmp_path / "model")
    copy = ExtremeClassifier.load(tmp_path / "model")
    for each in (model, copy):
        assert each.network_.output.weight.optimizer.rate == pytest.approx(4e-3 * 2**0.5)
        if first == "partial_fit":
            each.network_.drop_state()
            each._fitted = replace(each._fitted, steps=0)
    steps = [each._fitted.steps for each in (model, copy)]
    weights = [each.partial_fit(X[:50], Y[:50]).network_.weights() for each in (model, copy)]
    assert [each.fitted_.steps - before for each, before in zip((model, copy), steps, strict=True)] == [3, 3]
    for name, array in weights[0].items():
        np.testing.assert_array_equal(array, weights[1][name])


def test_chooses_a_rate_for_deep_weights():
    assert "learning_rate" not in fast(hidden=0).fit(X, Y).choices_
    assert "learning_rate" in fast().fit(X, Y).choices_


def needs(hidden, wide_budget=1024):
    """Return the bytes that training a network of the given size takes."""
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "check_memory", lambda needed, *rest: seen.append(sum(needed.values())))
        fast(hidden=hidden, wide_budget=wide_budget, epochs=1).fit(X, Y)
    return seen[0]


@pytest.mark.parametrize("hidden", [256, 128, 64, 0])
def test_memory_bounds_the_width(hidden):
    model = auto(memory_limit=needs(hidden)).fit(X, Y)
    assert width(model) == hidden
    assert (model.choices_["hidden"][1] == "the most that fits into the memory") == (hidden < 256)
    assert model.choices_["wide_budget"][0] == 1024


def test_memory_bounds_the_wide_path(monkeypatch):
    monkeypatch.setattr(options, "AUTO", replace(options.AUTO, budgets=(1024, 8, 4)))
    assert needs(0, 8) < needs(0)
    model = auto(memory_limit=needs(0, 8)).fit(X, Y)
    assert (width(model), model.choices_["wide_budget"][0]) == (0, 8)
    assert np.diff(model.network_.output.wide.indptr).max() == 8


def test_rejects_what_does_not_fit_at_all():
    with pytest.raises(MemoryError, match=r"even with hidden=0 and wide_budget=128, the limit is 20\.0 kB"):
        auto(memory_limit="20kB").fit(X, Y)
    with pytest.raises(MemoryError, match=r"lower n_negatives or batch_size"):
        auto(memory_limit="20kB").fit(X, Y)
    with pytest.raises(MemoryError, match=r"\), the limit is 20\.0 kB"):
        fast(wide_budget=100, memory_limit="20kB").fit(X, Y)


@pytest.mark.parametrize(("seconds", "hidden"), [(1000, 256), (141, 256), (130, 128), (80, 64), (40, 0), (1, 0)])
def test_time_bounds_the_width(seconds, hidden):
    """Train two epochs of seven steps, with 2 to 10 seconds a step."""
    found = chosen(seconds)
    assert found.hidden == ((hidden,) if hidden else ())
    assert found.short_of == ({} if hidden == 256 else {"hidden": "time"})


def chosen(seconds, **parameters):
    """Choose like `fit` with the given seconds left, where a step takes two seconds, or ten with 256 hidden units."""
    settings = NetworkOptions.of(auto(**parameters).get_params())
    points = Rows.of(sparse.csr_array(X)), Rows.of(sparse.csr_array(Y))

    def make(settings):
        return building.outline(settings, X.shape[1], Y.sum(axis=0), X.shape[0], 0, 1)

    def seconds_per_step(network, *arguments, **options):
        return 2.0 + network.output.n_inputs / 32

    how = {"seed": 0, "threads": 1, "seconds_per_step": seconds_per_step}
    return sizing.fit_into_time(settings, points, make, lambda: float(seconds), **how)


@pytest.mark.parametrize("parameters", [{"wide": False}, {"sampler": "lsh"}], ids=str)
def test_keeps_hidden_units_that_are_required(parameters):
    assert chosen(1, **parameters).hidden == (64,)


@pytest.mark.parametrize("optimizer", ["adam", "adagrad", "sgd"])
@pytest.mark.parametrize("sampler", ["random", "lsh"])
def test_measuring_the_pace_changes_nothing(optimizer, sampler):
    parameters = {"optimizer": optimizer, "weight_decay": 0.01, "sampler": sampler, "n_negatives": 9, "loss": "softmax"}
    free, bounded = (auto(**parameters, time_budget=seconds).fit(X, Y) for seconds in (None, 1e6))
    weights = [model.network_.weights() for model in (free, bounded)]
    assert all(np.array_equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_little_time_drops_the_deep_path():
    model = auto(time_budget=1e-6).fit(X, Y)
    assert width(model) == 0
    assert model.choices_["hidden"][:2] == (0, "the most that fits into the time")


def test_a_saved_model_keeps_its_size(tmp_path):
    model = auto(memory_limit=needs(64)).fit(X, Y)
    model.save(tmp_path / "model")
    loaded = ExtremeClassifier.load(tmp_path / "model")
    assert loaded.get_params() == model.get_params()
    values = {name: own.value for name, own in model.choices_.items()}
    assert {name: own[:2] for name, own in loaded.choices_.items()} == {
        name: (value, "as it was saved") for name, value in values.items()
    }
    assert np.array_equal(loaded.predict_topk(X).toarray(), model.predict_topk(X).toarray())
    loaded.set_params(memory_limit=None).partial_fit(X, Y)
    assert width(loaded) == 64
    loaded.save(tmp_path / "model")
    with pytest.raises(ValueError, match="hidden, wide or activation was changed since"):
        loaded.set_params(hidden=32).save(tmp_path / "model")


class StopAfterTwo:
    """A callback that interrupts a run after its second epoch."""

    def on_epoch(self, record):
        if record["epoch"] == 2:
            raise KeyboardInterrupt


@pytest.mark.parametrize("hidden", [64, 0])
def test_a_resumed_run_keeps_its_width(tmp_path, hidden):
    limit = needs(hidden)
    whole = auto(memory_limit=limit, epochs=4).fit(X, Y)
    begun = auto(memory_limit=limit, epochs=4)
    with pytest.raises(KeyboardInterrupt):
        begun.fit(X, Y, checkpoint=tmp_path / "run", callbacks=[StopAfterTwo()])
    resumed = auto(epochs=4).fit(X, Y, checkpoint=tmp_path / "run", resume=True)
    assert width(resumed) == hidden
    assert resumed.choices_["hidden"][:2] == (hidden, "the resumed run had it")
    resumed.save(tmp_path / "model")
    assert width(ExtremeClassifier.load(tmp_path / "model")) == hidden
    assert np.array_equal(resumed.predict_topk(X).toarray(), whole.predict_topk(X).toarray())


def test_a_resumed_run_keeps_its_wide_path(tmp_path, monkeypatch):
    monkeypatch.setattr(options, "AUTO", replace(options.AUTO, budgets=(1024, 8, 4)))
    limit = needs(0, 8)
    whole = auto(memory_limit=limit, epochs=4).fit(X, Y)
    begun = auto(memory_limit=limit, epochs=4)
    with pytest.raises(KeyboardInterrupt):
        begun.fit(X, Y, checkpoint=tmp_path / "run", callbacks=[StopAfterTwo()])
    resumed = auto(epochs=4, time_budget=1e6).fit(X, Y, checkpoint=tmp_path / "run", resume=True)
    assert resumed.choices_["wide_budget"][0] == 8
    assert np.array_equal(resumed.predict_topk(X).toarray(), whole.predict_topk(X).toarray())


def test_few_wide_weights_leave_room_for_hidden_units(monkeypatch):
    monkeypatch.setattr(options, "AUTO", replace(options.AUTO, budgets=(1024, 1), widths=(256, 1)))
    limit = needs(1, 1)
    assert limit < needs(0)
    model = auto(memory_limit=limit).fit(X, Y)
    assert (width(model), model.choices_["wide_budget"][0]) == (1, 1)


def test_a_custom_sampler_gets_hidden_units():
    class Own:
        def __init__(self):
            self.inner = RandomSampler()

        def __getattr__(self, name):
            return getattr(self.inner, name)

    assert not NetworkOptions.of(auto(sampler=Own()).get_params()).may_be_wide_alone
    assert NetworkOptions.of(auto(sampler=RandomSampler()).get_params()).may_be_wide_alone


def test_partial_fit_chooses_no_epochs():
    assert "epochs" not in auto(epochs="auto").partial_fit(X, Y).choices_


def test_all_labels_are_used_as_negatives():
    chosen_sampler = auto(sampler="none", n_negatives="auto").fit(X, Y)
    assert chosen_sampler.choices_["n_negatives"][:2] == (40, "all labels")


@pytest.mark.parametrize("parameter", ["hidden", "wide_budget"])
def test_rejects_other_words_than_auto(parameter):
    with pytest.raises((ValueError, TypeError), match=f"{parameter} must be"):
        fast(**{parameter: "wide"}).fit(X, Y)
