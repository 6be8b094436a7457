"""The comparison on streams of events: peers, blocks and the report."""

import json

import numpy as np
import pytest

from bench import streams
from bench.stream_peers import PEERS, EdgeBank, Popularity, Recency, Transitions, ranks

LOG = {"user": [0, 0, 1, 0, 1, 0], "item": [2, 1, 2, 1, 2, 0]}


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        (Recency(3), [1, 1, 3]),
        (EdgeBank(3), [1.5, 1, 3]),  # two own items tie
        (Popularity(3), [2, 1.5, 3]),
        (Popularity(3, 0.5), [2, 2, 3]),
        (Transitions(3), [2, 2, 3]),
    ],
)
def test_peers_rank_by_their_definitions(peer, expected):
    assert ranks(peer, LOG, 3, 1).tolist() == expected


def test_blocks_are_ranked_from_the_state_before():
    assert ranks(Recency(3), LOG, 0, 6).tolist() == [2] * 6  # all tie
    assert ranks(Recency(3), LOG, 4, 2).tolist() == [1, 3]


def test_shares_of_last_earlier_and_new_items():
    assert streams.shares({name: np.array(values) for name, values in LOG.items()}, 3, 1) == pytest.approx(
        {"last": 2 / 3, "earlier": 0, "new": 1 / 3}
    )


def test_planted_streams_do_not_repeat_unless_told():
    log = streams.PLANTED["no-repeats"]()
    pairs = np.unique(log["user"] * streams.N_ITEMS + log["item"])
    assert len(pairs) == len(log["user"])


def test_runs_every_system(workplace):
    rng = np.random.default_rng(0)
    rows = [f"{rng.integers(9)},{rng.integers(7)},{t}" for t in range(300)]
    (workplace / "log.csv").write_text("\n".join(["user,item,time", *rows]) + "\n")
    streams.main(["--data", "log.csv", "--planted", "--mutual", "log", "--refresh", "1,7", "--json", "found.json"])
    runs = json.loads((workplace / "found.json").read_text())["runs"]
    assert len(runs) == 2 * (3 + len(PEERS))
    assert all(0.1 < run["scores"]["MRR"] < 1 for run in runs[2:])
    assert sum(runs[0]["shares"].values()) == pytest.approx(1)


def test_measures_at_scale(workplace):
    options = ["--scale", "--users", "50", "--items", "70", "--events", "500", "--json", "found.json"]
    streams.main(options)
    (run,) = json.loads((workplace / "found.json").read_text())["runs"]
    assert (run["users"], run["items"]) == (50, 70)
    assert run["query_ms"]["median"] > 0
