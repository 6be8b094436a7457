"""The comparison on texts with many labels."""

import json

import pytest

from bench import many_texts
from tests.support.many_labels import planted


def write(path, texts, labels):
    rows = zip(texts, labels, strict=True)
    path.write_text("".join(json.dumps({"title": text, "labels": [label]}) + "\n" for text, label in rows))


def test_runs_systems_and_prints_a_table(workplace, capsys):
    write(workplace / "tags.train.jsonl", *planted(260))
    write(workplace / "tags.test.jsonl", *planted(60, seed=1))
    arguments = ["--data", ".", "--sets", "tags", "--systems", "features-drop", "--train", "250", "--test", "50"]
    many_texts.main([*arguments, "--text", "title", "--json", "result.json"])
    (run,) = json.loads((workplace / "result.json").read_text())["runs"]
    assert run["status"] == "measured", run
    assert run["P@1"] > 0.5
    assert f"| features-drop | {100 * run['P@1']:.2f} |" in capsys.readouterr().out


@pytest.mark.parametrize("system", ["text-auto", "words-drop", "characters-drop"])
def test_ranks_labels(tmp_path, system):
    parts = {
        part: (texts, [[label] for label in labels])
        for part, (texts, labels) in {
            "train": planted(250, n_labels=12),
            "test": planted(40, n_labels=12, seed=1),
        }.items()
    }
    (tmp_path / "data").write_text(json.dumps(parts))
    found = many_texts.measure({"data": str(tmp_path / "data"), "system": system, "seed": 0, "threads": 1})
    assert found["P@1"] > 0.9
    assert found["P@5"] <= 0.2
    assert ("method" in found) == (system == "text-auto")


def test_a_peer_without_its_environment_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(many_texts, "python_of", lambda adapter: tmp_path / "none")
    system = many_texts.SYSTEMS["words-bonsai"](1, 0)
    system.train(["one two", "one six", "two six"], [["x"], ["y"], ["x", "y"]])
    with pytest.raises(FileNotFoundError, match="no environment for omikuji: run make peers"):
        system.best(["one"], 5)


def test_a_pair_of_words_is_always_or_never_joined():
    texts = ["book trade history", "The history of the Book Trade"]
    assert [many_texts.compounded(text, 0.0) for text in texts] == texts
    assert [many_texts.compounded(text, 1.0) for text in texts] == ["booktradehistory", "Thehistoryofthebooktrade"]
    halves = [many_texts.compounded(text, 0.5).lower() for text in texts]
    assert ("booktrade" in halves[0]) == ("booktrade" in halves[1])


def test_refuses_unknown_systems(capsys):
    with pytest.raises(SystemExit):
        many_texts.main(["--data", ".", "--systems", "nothing"])
    assert "unknown: nothing" in capsys.readouterr().err


def test_reports_runs_without_a_result():
    shown = many_texts.table("tags", [{"system": "text-blend", "status": "failed", "reason": "stopped after 1 s"}])
    assert "| text-blend | - | - | - | - | - | failed: stopped after 1 s |" in shown
