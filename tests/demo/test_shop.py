"""The demo of logs."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparsenet import Recommender, cli, demo
from sparsenet.demo import shop, shop_log


def test_the_log_is_in_the_order_of_time_and_alike_for_a_seed() -> None:
    log = shop_log.make_log(50, seed=1)
    assert log["time"] == sorted(log["time"])
    assert len(set(log["user"])) == 50
    assert set(log["item"]) <= {thing for own in shop_log.things().values() for thing in own}
    assert log == shop_log.make_log(50, seed=1) != shop_log.make_log(50, seed=2)


def test_things_have_distinct_names() -> None:
    names = [thing for own in shop_log.things().values() for thing in own]
    assert len(names) == len(set(names)) == 100


def test_trains_measures_recommends_and_leaves_a_log_that_can_be_trained_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.run(tmp_path / "out", n_users=150, threads=1)
    shown = capsys.readouterr()
    assert "The last purchase of " in shown.out
    for words in ("Ada 1", "What goes with a basket", "tent", "What is similar"):
        assert words in shown.out
    assert "sparsenet train" in shown.err
    assert Recommender(random_state=0).fit(tmp_path / "out" / "log.csv").n_users_ == 150


def test_interactive_mode_recommends_for_what_is_typed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("kettle, spaceship\n\n"))
    shop.run(tmp_path, n_users=150, threads=1, interactive=True)
    shown = capsys.readouterr()
    assert "the shop does not sell spaceship" in shown.err
    assert shown.out.rindex("kettle") > shown.out.index("What is similar")


def test_demos_have_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    monkeypatch.setattr(shop, "run", lambda output, **how: called.append((output, how)))
    demo.run(tmp_path, what="log", seed=3)
    assert called == [(tmp_path, {"interactive": False, "threads": None, "seed": 3})]
    done = CliRunner().invoke(cli.app, ["demo", "log", "--output", str(tmp_path)])
    assert done.exit_code == 0
    assert len(called) == 2
    assert CliRunner().invoke(cli.app, ["demo", "logs"]).exit_code == 2
