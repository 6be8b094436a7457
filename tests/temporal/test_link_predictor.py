"""`TemporalLinkPredictor`: learning, answers, saving, bad input."""

from __future__ import annotations

import contextlib
import copy
import os
import pickle
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparsenet import DivergenceError, ModelError, kernels, load, storage
from sparsenet.temporal import TemporalLinkPredictor
from sparsenet.temporal.graph import link_stream
from sparsenet.temporal.graph.link_scores import LinkScores, random_negatives
from sparsenet.temporal.graph.link_training import train_batch
from sparsenet.temporal.rank_measures import MISS, rank_measures
from tests.support import forging

SMALL: dict[str, Any] = {"memory": 8, "neighbors": 3, "batch_size": 5, "random_state": 0, "n_jobs": 1}


def log_of(n: int, n_sources: int = 6, seed: int = 0) -> dict[str, Any]:
    """Draw sources that mostly link to the target of their own number."""
    rng = np.random.default_rng(seed)
    sources = rng.integers(0, n_sources, n)
    targets = np.where(rng.random(n) < 0.9, sources, rng.integers(0, n_sources, n))
    return {
        "source": [f"person {s}" for s in sources],
        "target": [f"page {t}" for t in targets],
        "time": np.cumsum(rng.integers(0, 9, n)).tolist(),
        "size": rng.normal(size=n).tolist(),
    }


def part(log: dict[str, Any], first: int, last: int) -> dict[str, Any]:
    return {name: values[first:last] for name, values in log.items()}


def state(model: TemporalLinkPredictor) -> dict[str, bytes]:
    stream = model._saved.stream
    arrays = stream.graph.cut(stream.names.end) | {"flat": stream.weights.flat, "clock": stream.clock}
    return {name: array.tobytes() for name, array in arrays.items()}


def test_predicts_who_links_to_whom() -> None:
    log = log_of(1500)
    model = TemporalLinkPredictor(**{**SMALL, "memory": 16}, learning_rate=0.003, epochs=2).fit(part(log, 0, 1200))
    assert model.loss_ < 1.2  # 2 log 2 by chance
    found = model.score(part(log, 1200, 1500))
    assert found["AP"] > 0.8
    assert found["AUC"] > 0.8
    assert found["MRR"] > 0.7
    assert found["recall@1"] <= found["recall@10"] == 1
    assert model.n_events_ == 1500
    assert model.n_nodes_ == 12
    right, wrong = model.predict_proba("person 3", ["page 3", "page 4"])
    assert 0 <= wrong < right <= 1


def test_score_equals_predictions_before_each_batch() -> None:
    log = log_of(130)
    scored, updated = (TemporalLinkPredictor(**SMALL).fit(part(log, 0, 100), event_features=["size"]) for _ in range(2))
    copied = copy.deepcopy(scored)
    right = []
    for first in range(100, 130, 5):
        rows = part(log, first, first + 5)
        right.append(updated.predict_proba(rows["source"], rows["target"]))
        updated.update(rows)
    whole = scored.score(part(log, 100, 130))
    assert state(scored) == state(updated)
    collected = copied._saved.stream
    scores = LinkScores()
    events = copied._read(part(log, 100, 130), copied._saved.columns, False, {}, collected)
    collected.learn(events, copied._rules(), scores=scores, ranking=True)
    logits = np.concatenate(scores.right)
    np.testing.assert_allclose(1 / (1 + np.exp(-logits)), np.concatenate(right), rtol=1e-5, atol=1e-6)
    assert scores.measures() == whole


def test_the_right_target_is_never_a_negative() -> None:
    targets, known = np.int32([3, 5, 9, 3] * 50), np.int32([3, 5, 9])
    found = random_negatives(targets, known, np.random.default_rng(0))
    assert not (found == targets).any()
    assert {*zip(targets.tolist(), found.tolist(), strict=True)} == {(a, b) for a in (3, 5, 9) for b in {3, 5, 9} - {a}}
    assert (random_negatives(known[:1], known[:1], np.random.default_rng(0)) == 3).all()


def test_ties_have_the_mean_rank_and_unknown_targets_are_misses() -> None:
    scores = LinkScores()
    scores.add_ranks(np.float32([[0, 2, 1], [1, 1, 0], [3, 2, 1]]), np.array([2, 1, 3]))
    assert np.concatenate(scores.ranks).tolist() == [2, 1.5, MISS]
    assert rank_measures(np.concatenate(scores.ranks)) == pytest.approx(
        {"MRR": (1 / 2 + 1 / 1.5) / 3, "recall@1": 0, "recall@10": 2 / 3}
    )


def test_updates_without_training_leave_the_weights() -> None:
    log = log_of(200)
    model = TemporalLinkPredictor(**SMALL).fit(part(log, 0, 100))
    weights, before = model._saved.stream.weights.flat.copy(), model.predict_proba("person 1", "page 1")
    model.update(part(log, 100, 200), train=False)
    assert (model._saved.stream.weights.flat == weights).all()
    assert model.n_events_ == 200
    assert model.predict_proba("person 1", "page 1") != before


@pytest.mark.parametrize("mutual", [False, True])
@pytest.mark.parametrize("kind", [str, int])
def test_a_loaded_model_goes_on_bit_for_bit(tmp_path: Path, mutual: bool, kind: type) -> None:
    log = log_of(200)
    if kind is int:
        log |= {name: [int(value.split()[1]) for value in log[name]] for name in ("source", "target")}
    whole = TemporalLinkPredictor(**SMALL, mutual=mutual).fit(part(log, 0, 90), event_features=["size"])
    parts = copy.deepcopy(whole)
    for first in (90, 130):
        parts.save(tmp_path / "model")
        parts = TemporalLinkPredictor.load(tmp_path / "model")
        for model in (whole, parts):
            model.update(part(log, first, first + 40))
    again = pickle.loads(pickle.dumps(parts))
    assert state(parts) == state(whole) == state(again)
    assert parts.columns_ == {"source": "source", "target": "target", "time": "time"}
    assert parts.features_ == {"events": ["size"]}
    names = log["source"][:4]
    assert parts.embeddings(names).tobytes() == whole.embeddings(names).tobytes()
    assert parts.n_nodes_ == (6 if mutual and kind is int else 12)


def test_the_result_does_not_depend_on_threads() -> None:
    log = log_of(150)
    alone, several = (TemporalLinkPredictor(**{**SMALL, "n_jobs": n}).fit(log) for n in (1, 4))
    assert state(alone) == state(several)


def test_epochs_forget_the_links_and_keep_the_weights() -> None:
    log = log_of(60)
    once, twice = (TemporalLinkPredictor(**SMALL, epochs=n).fit(log) for n in (1, 2))
    assert twice.n_events_ == once.n_events_ == 60
    assert twice._saved.stream.weights.steps == 2 * once._saved.stream.weights.steps
    assert twice._saved.stream.graph.counts.tolist() == once._saved.stream.graph.counts.tolist()


def test_nodes_without_links_have_scores() -> None:
    model = TemporalLinkPredictor(**SMALL).fit(log_of(60))
    assert np.isfinite(model.predict_proba(["eva", "person 1", "eva"], ["page 1", "page 99", "page 99"])).all()
    model.update({"source": "eva", "target": "page 99", "time": 10_000, "size": 0.5})
    assert model.n_nodes_ == 14
    found = model.embeddings(["page 1", "nothing"], of="target")
    assert found.shape == (2, 8)
    assert (found[0] != found[1]).any()
    assert model.predict_proba([], []).shape == (0,)


def test_self_loops_count_as_two_links_of_a_node() -> None:
    model = TemporalLinkPredictor(**SMALL, mutual=True).fit(
        {"source": ["a", "a"], "target": ["a", "b"], "time": [0, 1]}
    )
    assert model._saved.stream.graph.counts[:2].tolist() == [3, 1]
    assert np.isfinite(model.predict_proba("a", "a"))


def test_a_stream_of_one_user_and_of_one_page_has_scores() -> None:
    log = {"source": ["a"] * 9, "target": ["b"] * 9, "time": [5] * 9}
    found = TemporalLinkPredictor(**SMALL).fit(log).score({**log, "time": [6] * 9})
    assert found["AUC"] == found["AUC historical"] == 0.5
    assert found["MRR"] == 1


def test_times_may_begin_anywhere() -> None:
    log = log_of(80)
    later = {**log, "time": [t + 1.6e9 for t in log["time"]]}
    early, late = (TemporalLinkPredictor(**SMALL).fit(given) for given in (log, later))
    assert early._saved.stream.weights.flat.tobytes() == late._saved.stream.weights.flat.tobytes()


def test_reads_a_file(tmp_path: Path) -> None:
    log = log_of(40)
    rows = [",".join(map(str, row)) for row in zip(*log.values(), strict=True)]
    (tmp_path / "log.csv").write_text("\n".join([",".join(log), *rows]))
    found = TemporalLinkPredictor(**SMALL).fit(tmp_path / "log.csv", event_features=["size"])
    assert state(found) == state(TemporalLinkPredictor(**SMALL).fit(log, event_features=["size"]))


def test_features_have_no_unit_and_may_be_categories() -> None:
    log = log_of(80) | {"kind": ["web", "shop"] * 40}
    larger = log | {"size": [2.0**40 * size for size in log["size"]]}
    features = ["size", "kind"]
    plain, scaled = (TemporalLinkPredictor(**SMALL).fit(given, event_features=features) for given in (log, larger))
    assert plain._saved.stream.graph.n_features == 3
    assert plain.loss_ == pytest.approx(scaled.loss_, rel=1e-6)


def test_training_that_diverges_is_an_error_and_leaves_finite_weights() -> None:
    log = log_of(100)
    model = TemporalLinkPredictor(**SMALL, learning_rate=1e30)
    with pytest.raises(DivergenceError, match="lower learning_rate"):
        model.fit(log)
    model.set_params(learning_rate=1e-4).fit(part(log, 0, 60)).set_params(learning_rate=1e30)
    with pytest.raises(DivergenceError):
        model.update(part(log, 60, 100))
    assert model.n_events_ == 65
    weights = model._saved.stream.weights
    assert all(np.isfinite(array).all() for array in (weights.flat, weights.first, weights.second))


def test_ctrl_c_ends_after_a_whole_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of(60)
    stopped, whole = (TemporalLinkPredictor(**SMALL).fit(part(log, 0, 30)) for _ in range(2))

    def remember(*arguments: Any, **events: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        remember_links(*arguments, **events)

    remember_links = kernels.remember_links
    monkeypatch.setattr(kernels, "remember_links", remember)
    with pytest.raises(KeyboardInterrupt):
        stopped.update(part(log, 30, 60))
    monkeypatch.undo()
    assert stopped.n_events_ == 35
    assert state(stopped) == state(whole.update(part(log, 30, 35)))
    same = part(log, 35, 60)
    assert state(stopped.update(same)) == state(whole.update(same))


def test_training_draws_negatives_among_all_targets_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []

    def train(graph: Any, weights: Any, batch: Any, negatives: Any, *rest: Any) -> float:
        drawn.append(negatives)
        return train_batch(graph, weights, batch, negatives, *rest)

    monkeypatch.setattr(link_stream, "train_batch", train)
    log = {"source": ["a"] * 60, "target": [f"page {i}" for i in range(60)], "time": list(range(60))}
    model = TemporalLinkPredictor(**SMALL).fit(log)
    first = {
        name
        for name, row in zip(log["target"], model._saved.stream.names.target_rows, strict=True)
        if row in np.concatenate(drawn[:6])
    }
    assert any(int(name.split()[1]) >= 30 for name in first)


def test_sorts_logs_and_counts_duplicates() -> None:
    log = log_of(60)
    log["time"] = list(range(60))
    order = np.random.default_rng(1).permutation(60)
    mixed = {name: [values[i] for i in order] for name, values in log.items()}
    assert state(TemporalLinkPredictor(**SMALL).fit(mixed, sort=True)) == state(TemporalLinkPredictor(**SMALL).fit(log))
    twice = {"source": ["a", "a"], "target": ["x", "x"], "time": [1, 1]}
    assert TemporalLinkPredictor(**SMALL).fit(twice)._saved.stream.graph.counts[:2].tolist() == [2, 2]


def test_takes_names_beyond_int32() -> None:
    log = {"source": [2**62, -5], "target": [2**40, -(2**40)], "time": [0, 1]}
    model = TemporalLinkPredictor(**SMALL).fit(log)
    assert model.n_nodes_ == 4
    assert np.isfinite(model.predict_proba(2**62, -(2**40)))


def test_queries_wait_for_a_batch() -> None:
    log = log_of(600)
    model = TemporalLinkPredictor(**SMALL).fit(part(log, 0, 100))
    worker = threading.Thread(target=model.update, args=(part(log, 100, 600),))
    worker.start()
    found = [model.predict_proba("person 1", "page 1") for _ in range(20)]
    worker.join()
    assert np.isfinite(found).all()
    assert state(model) == state(TemporalLinkPredictor(**SMALL).fit(part(log, 0, 100)).update(part(log, 100, 600)))


LOG = {"source": ["a", "b"], "target": ["x", "y"], "time": [1.0, 2.0], "size": [1.0, 2.0]}


@pytest.mark.parametrize(
    ("log", "options", "message"),
    [
        ({**LOG, "time": [2, 1]}, {}, "row 1 of log: the time in column 'time' goes back from 2 to 1: pass sort=True"),
        ({**LOG, "size": [1, np.nan]}, {"event_features": ["size"]}, "row 1 of log: column 'size' is empty"),
        ({**LOG, "size": [1, np.inf]}, {"event_features": ["size"]}, "'size' holds inf"),
        ({**LOG, "source": ["a", None]}, {}, "column 'source' is empty"),
        ({**LOG, "target": [1.5, 2.5]}, {}, "column 'target' holds 1.5"),
        ({**LOG, "source": [2**70, 1]}, {}, "row 0 of log: column 'source' holds 1.18059e"),
        ({**LOG, "time": [1, np.nan]}, {}, "row 1 of log: column 'time' holds no time"),
        (LOG, {"event_features": ["weight"]}, r"event_features\[0\]='weight' is not a column"),
        (LOG, {"event_features": "size"}, "event_features must be a sequence of columns"),
        (LOG, {"event_features": ["size", "size"]}, "must be different columns, got 'size' twice"),
        (LOG, {"source": "who"}, "source='who' is not a column"),
        (LOG, {"time": "when"}, "time='when' is not a column"),
        ({name: [] for name in LOG}, {}, "log: holds no rows"),
        (5, {}, "log must be a data frame"),
    ],
)
def test_refuses_bad_logs(log: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TemporalLinkPredictor(**SMALL).fit(log, **options)


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        ({"memory": 7}, "memory must be a multiple of 2"),
        ({"memory": 0}, "memory must be an integer"),
        ({"neighbors": 0}, "neighbors must be"),
        ({"batch_size": 0}, "batch_size must be"),
        ({"epochs": 0}, "epochs must be"),
        ({"max_nodes": 1}, "max_nodes must be"),
        ({"dropout": 1.0}, "dropout must be"),
        ({"learning_rate": 0}, "learning_rate must be"),
        ({"random_state": "x"}, "random_state must be"),
    ],
)
def test_refuses_bad_parameters(parameter: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TemporalLinkPredictor(**{**SMALL, **parameter}).fit(LOG)


def test_bad_updates_and_queries_leave_the_model_unchanged() -> None:
    model = TemporalLinkPredictor(**SMALL).fit(LOG, event_features=["size"])
    before = state(model)
    for call, message in (
        (
            lambda: model.update({"source": "a", "target": "x", "time": 1.5, "size": 1}),
            "is before 2, the last event learnt",
        ),
        (
            lambda: model.update({"source": 3.5, "target": "x", "time": 3, "size": 1}),
            "row 0 of log: column 'source' holds 3.5",
        ),
        (
            lambda: model.update({"source": "c", "target": "x", "time": 3, "size": "big"}),
            "holds 'big': the model learnt numbers",
        ),
        (lambda: model.update({"source": "c", "target": "x", "time": 3, "size": None}), "'size' is empty"),
        (lambda: model.predict_proba(["a", "b"], ["x", "y", "x"]), "one length, got 2 and 3"),
        (lambda: model.predict_proba("a", "x", time=1), "time 1 is before 2"),
        (lambda: model.embeddings("a", of="node"), "of must be"),
        (lambda: model.score({name: [] for name in LOG}), "log: holds no rows"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    assert state(model) == before
    assert model.n_nodes_ == 4


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("graph.neighbors", lambda x: np.where(x >= 0, 99, x).astype(x.dtype), "must hold rows of"),
        ("graph.counts", lambda x: x + 1, "numbers of links"),
        ("graph.counts", lambda x: np.where(x < x.max(), x, np.iinfo(x.dtype).max), "numbers of links"),
        ("graph.memory", lambda x: x * np.float32(np.nan), "not finite"),
        ("graph.updated", lambda x: x[:-1], r"graph\.updated must be float64"),
        ("weights.flat", lambda x: x[:-1], "the weights must have the shapes"),
        ("source_rows", lambda x: x * 0, "each row once"),
        ("clock", lambda x: x * 0, "clock must hold"),
    ],
)
def test_refuses_damaged_models(tmp_path: Path, name: str, change: Any, message: str) -> None:
    TemporalLinkPredictor(**SMALL).fit(log_of(30)).save(tmp_path / "model")
    arrays, metadata = storage.load(tmp_path / "model")
    storage.save(tmp_path / "model", {**arrays, name: np.ascontiguousarray(change(arrays[name]))}, metadata)
    with pytest.raises(ModelError, match=message):
        TemporalLinkPredictor.load(tmp_path / "model")


@pytest.mark.parametrize("forged", [forging.forged_metadata, forging.forged_arrays], ids=["metadata", "arrays"])
def test_forged_models_are_refused_or_answer(forged: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    TemporalLinkPredictor(**SMALL).fit(log_of(40), event_features=["size"]).save(tmp_path / "model")
    arrays, metadata = storage.load(tmp_path / "model")
    for _, *content in list(forged(arrays=arrays, metadata=metadata))[::29]:
        forging.save(tmp_path / "model", *content)
        with contextlib.suppress(ModelError):
            TemporalLinkPredictor.load(tmp_path / "model").predict_proba("person 1", "page 1")


def test_notebooks_show_the_size_of_the_state() -> None:
    model = TemporalLinkPredictor(**SMALL)
    assert "sparsenet-fitted" not in model._repr_html_()
    assert "2 events of 4 nodes" in model.fit(LOG)._repr_html_()


def test_load_of_the_package_loads_it(tmp_path: Path) -> None:
    TemporalLinkPredictor(**SMALL).fit(LOG).save(tmp_path / "model")
    assert isinstance(load(tmp_path / "model"), TemporalLinkPredictor)
