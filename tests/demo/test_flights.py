"""The demo of tables."""

import csv
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparsenet import cli, demo
from sparsenet.demo import flights

COLUMNS = ["carrier", "departs", "hours", "seats", "remark", "destination"]


def test_flights_are_the_same_for_a_seed_and_have_empty_cells() -> None:
    table = flights.make_flights(200, seed=1)
    assert table == flights.make_flights(200, seed=1)
    assert table != flights.make_flights(200, seed=2)
    assert list(table) == COLUMNS
    assert {len(cells) for cells in table.values()} == {200}
    assert "" in table["hours"]
    assert "" in table["remark"]
    assert set(table["destination"]) == set(flights.PLACES)


@pytest.mark.slow
def test_learns_most_destinations_and_explains_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flights.run(tmp_path, threads=1, n_flights=400)
    out, said = capsys.readouterr()
    share = next(line for line in out.splitlines() if "of 40 new flights" in line)
    assert float(share.partition("%")[0]) > 60  # one in eight by chance
    assert "hours    number" in out
    assert "log-odds" in out
    assert "sparsenet train" in said
    with (tmp_path / "flights.csv").open() as file:
        assert next(csv.reader(file)) == COLUMNS


def test_asks_no_questions(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli.app, ["demo", "tables", "--interactive", "--output", str(tmp_path / "out")])
    assert done.exit_code == 1
    assert "--interactive is for the demos of texts and logs" in done.stderr
    assert demo.DEMOS["tables"] == "flights"
