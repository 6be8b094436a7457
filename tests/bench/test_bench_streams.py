"""The comparison on streams of events: peers, blocks and the report."""

import json
import sys
import types

import numpy as np
import pytest

from bench import stream_learners, streams
from bench.stream_learners import CLASSIFIERS, IMPLICIT, classifier_ranks, histories
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
    systems = [system for system in streams.SYSTEMS if system not in IMPLICIT | CLASSIFIERS]  # apart, in children
    options = ["--data", "log.csv", "--planted", "--mutual", "log", "--refresh", "1,7", "--json", "found.json"]
    streams.main([*options, "--systems", *systems])
    runs = json.loads((workplace / "found.json").read_text())["runs"]
    assert len(runs) == 2 * (3 + len(PEERS))
    assert all(0.1 < run["scores"]["MRR"] < 1 for run in runs[2:])
    assert sum(runs[0]["shares"].values()) == pytest.approx(1)


def test_features_and_rates_of_the_model(workplace):
    systems = ["NextItem", "NextItem, features", "NextItem, keep_counts=0.5"]
    log = {name: values[:600] for name, values in streams.shop().items()}
    found = [streams.next_item(log, 500, 1, system)["scores"]["MRR"] for system in systems]
    assert len(set(found)) == 3


class LastItem:
    """A classifier that answers with the last of three items."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def topk(self, X, k):
        found = np.argsort(-X[:, :3].toarray(), axis=1, kind="stable")[:, :k]
        return found, None


def test_classifiers_see_the_history_up_to_the_refresh():
    log = {name: np.array(values) for name, values in LOG.items()}
    X = histories(log, 3, 1, mutual=True).toarray()
    assert X[0].nonzero()[0].tolist() == [12]
    assert X[3, [1, 5]].tolist() == [1, 1]  # the last item and the one before
    assert X[3, 6:9].tolist() == pytest.approx([0, 1, 0.8])
    assert X[4, [2 + 9, 0 + 9]].tolist() == pytest.approx([0, 1.8])  # user 1 received from user 0 twice
    assert histories(log, 3, 6, mutual=True).sum() == 6
    assert classifier_ranks(lambda _: LastItem(), log, 3, 3, 1, False).tolist() == [1, 1, 2]


class Counts:
    """A stand-in for a model of implicit: items by the user's own counts."""

    def fit(self, counts, show_progress):
        self.trained_on = counts.sum()


def test_implicit_ranks_all_items_by_the_history(monkeypatch):
    log = {name: np.array(values) for name, values in LOG.items()}
    monkeypatch.setattr(stream_learners, "implicit_scores", lambda model, user, counts: counts[user])
    monkeypatch.setitem(sys.modules, "implicit", types.ModuleType("implicit"))
    assert stream_learners.implicit_ranks(lambda _: Counts(), log, 3, 3, 1).tolist() == [1.5, 1, 3]


def test_measures_at_scale(workplace):
    options = ["--scale", "--users", "50", "--items", "70", "--events", "500", "--json", "found.json"]
    streams.main(options)
    (run,) = json.loads((workplace / "found.json").read_text())["runs"]
    assert (run["users"], run["items"]) == (50, 70)
    assert run["query_ms"]["median"] > 0
