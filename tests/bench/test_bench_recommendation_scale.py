"""The planted log of many users and items, and the report on it."""

import json

import numpy as np
import pytest

from bench import recommendation_scale
from bench.recommendation_scale import planted, split


def test_holds_out_the_last_event_of_every_hundredth_user():
    log = planted(1000, 500, 8000)
    kept, held = split(log)
    assert (held["user"] % 100 == 0).all()
    assert len(np.unique(held["user"])) == len(held["user"])
    assert len(kept["user"]) + len(held["user"]) == 8000
    for user, time in zip(held["user"], held["time"], strict=True):
        assert time > kept["time"][kept["user"] == user].max(initial=-1)


@pytest.mark.slow
def test_reports_training_and_answers(workplace, capsys):
    small = ["--users", "2000", "--items", "1000", "--events", "20000"]
    recommendation_scale.main([*small, "--json", "result.json"])
    [run] = json.loads((workplace / "result.json").read_text())["runs"]
    assert run["users_per_cpu_second"] > 0
    assert run["recall@20"] > 0.1
    assert "2,000 users" in capsys.readouterr().out
