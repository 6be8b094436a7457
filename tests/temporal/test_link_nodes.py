"""The nodes of `TemporalLinkPredictor`: names of updates that end early, bounded memory, and its announcement."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparsenet import kernels
from sparsenet.temporal import TemporalLinkPredictor
from tests.temporal.test_link_predictor import SMALL, log_of, part, state


def test_an_update_that_ends_early_leaves_no_names_of_later_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_of(40)
    log["source"][36:], log["target"][34] = ["new 1", "new 2", "new 3", "new 4"], "new page"
    stopped, whole = (TemporalLinkPredictor(**SMALL).fit(part(log, 0, 30)) for _ in range(2))

    def interrupt(*arguments: Any, **events: Any) -> None:
        remember_links(*arguments, **events)
        signal.raise_signal(signal.SIGINT)

    remember_links = kernels.remember_links
    monkeypatch.setattr(kernels, "remember_links", interrupt)
    with pytest.raises(KeyboardInterrupt):
        stopped.update(part(log, 30, 40))
    monkeypatch.undo()
    whole.update(part(log, 30, 35))
    assert stopped.n_nodes_ == whole.n_nodes_ == 13
    assert state(stopped) == state(whole)
    stopped.save(tmp_path / "model")
    found = TemporalLinkPredictor.load(tmp_path / "model").update(part(log, 35, 40))
    assert state(found) == state(whole.update(part(log, 35, 40)))


@pytest.mark.parametrize("mutual", [False, True])
def test_forgets_the_nodes_without_links_for_the_longest_time(tmp_path: Path, mutual: bool) -> None:
    rng = np.random.default_rng(3)
    log = {"source": rng.integers(0, 40, 300) + np.arange(300), "target": rng.integers(0, 9, 300) * 50}
    log |= {"time": np.arange(300) // 150, "size": rng.normal(size=300)}
    model = TemporalLinkPredictor(**SMALL, mutual=mutual, max_nodes=24).fit(part(log, 0, 200), event_features=["size"])
    for first in range(200, 300, 20):
        assert model.update(part(log, first, first + 20)).n_nodes_ <= 24
        names, graph = model._saved.stream.names, model._saved.stream.graph
        last: Any = graph.last_links(names.end)
        events: dict[Any, int] = {}
        for e in range(first + 20):
            nodes = ((log["source"][e], False), (log["target"][e], not mutual))
            events |= dict.fromkeys(nodes, e)
        slots = ((names.sources, names.source_rows, False), (names.targets, names.target_rows, not mutual))
        found = {
            (name, kind): last[row] for each, rows, kind in slots for name, row in zip(each.names, rows, strict=True)
        }
        assert len(found) == names.end
        assert found.items() <= events.items()  # each keeps its last link
        newest = sorted(events.values())[-16:]
        assert {node for node, event in events.items() if event >= newest[0]} <= found.keys()
        model.save(tmp_path / "model")  # checks the rings of links
        assert state(TemporalLinkPredictor.load(tmp_path / "model")) == state(model)


def test_nodes_without_room_make_every_event_a_batch_of_two() -> None:
    log = {"source": list(range(9)), "target": list(range(9)), "time": [0] * 9}
    model = TemporalLinkPredictor(**SMALL, max_nodes=2, epochs=2).fit(log)
    assert (model.n_nodes_, model.n_events_) == (2, 9)
    assert np.isfinite(model.predict_proba([8, 0], [8, 0])).all()
    assert np.isfinite(list(model.score(log).values())).all()
    assert (model.n_nodes_, model.n_events_) == (2, 18)


def test_names_the_memory_that_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    log = log_of(40)
    model = TemporalLinkPredictor(**SMALL).fit(part(log, 0, 20))
    before, n_nodes = state(model), model.n_nodes_
    monkeypatch.setattr("sparsenet.temporal.graph.link_stream.available_memory", lambda: 100)
    message = "memory and last links of 13 nodes 1.[0-9] kB.*100 B: lower max_nodes, memory or neighbors"
    with pytest.raises(MemoryError, match=message):
        TemporalLinkPredictor(**SMALL, verbose=True).fit(log)
    assert "needed (memory and last links of 13 nodes" in capsys.readouterr().err
    with pytest.raises(MemoryError, match="lower max_nodes"):
        model.update({"source": list("abcdefgh") * 9, "target": list(map(str, range(72))), "time": [10_000] * 72})
    assert state(model) == before
    assert model.n_nodes_ == n_nodes
