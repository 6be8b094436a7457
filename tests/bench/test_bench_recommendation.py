"""The comparison of recommenders: data, measures, peers and the report."""

import json

import numpy as np
import pytest
from scipy.sparse import csr_array

from bench import recommendation
from bench.recommendation_peers import SYSTEMS, K, scores


def test_measures_match_their_definitions():
    truth = csr_array(np.array([[0, 1, 1, 0], [0, 0, 0, 0], [1, 0, 0, 0]]))
    found = scores(np.array([[1, 0, 2], [0, 1, 2], [3, 2, -1]]), truth)  # the second user has nothing to find
    assert found["P@1"] == pytest.approx(0.5)
    assert found["recall@20"] == pytest.approx(0.5)
    assert found["nDCG@20"] == pytest.approx((1 + 0.5) / (1 + 1 / np.log2(3)) / 2)


@pytest.fixture
def log(workplace):
    """Write a log: each user takes items of one half of the catalogue."""
    rng = np.random.default_rng(0)
    users = rng.integers(0, 80, 1500)
    rows = [f"u{u},i{rng.integers(0, 30) + u % 2 * 30},{t}" for t, u in enumerate(users)]
    path = workplace / "halves.csv"
    path.write_text("\n".join(["user,item,time", *rows]) + "\n")
    return path


def test_only_new_items_count_as_right(log):
    job = recommendation.of_table(log, "time")
    seen = set(zip(job["users"].tolist(), job["items"].tolist(), strict=True))
    owners = np.repeat(job["asked"], np.diff(job["truth_starts"]))
    assert len(job["truth"])
    assert not seen & set(zip(owners.tolist(), job["truth"].tolist(), strict=True))


@pytest.mark.parametrize("name", ["popularity", "user-knn", "item-knn", "rp3beta", "ease"])
def test_peers_recommend_unseen_items(log, name):
    job = recommendation.of_table(log, "last")
    system = SYSTEMS[name]()
    system.fit(job)
    found = system.recommend(job["asked"])
    assert found.shape == (len(job["asked"]), K)
    seen = set(zip(job["users"].tolist(), job["items"].tolist(), strict=True))
    rows = zip(job["asked"].tolist(), found.tolist(), strict=True)
    assert not seen & {(user, item) for user, items in rows for item in items[:5]}


@pytest.mark.slow
def test_reports_each_system(log, workplace, capsys):
    recommendation.main(["--data", str(log), "--systems", "sparsenet,popularity,implicit-als", "--json", "result.json"])
    runs = json.loads((workplace / "result.json").read_text())["runs"]
    assert [run["status"] for run in runs] == ["measured", "measured", "not run"]
    assert runs[0]["scores"]["recall@20"] > runs[1]["scores"]["recall@20"]
    assert "| halves | sparsenet | " in capsys.readouterr().out
