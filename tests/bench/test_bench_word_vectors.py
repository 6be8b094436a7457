"""The comparison with and without word vectors."""

import json

from bench import word_vectors
from tests.support.texts import planted
from tests.support.vector_tables import write_lines


def write(path, texts, labels):
    path.write_text("".join(f"{label}\t{words}\n" for words, label in zip(texts, labels, strict=True)))


def test_every_system_learns_from_the_same_texts(workplace, capsys):
    write(workplace / "topics.train.tsv", *planted(120))
    write(workplace / "topics.test.tsv", *planted(40, seed=1))
    write_lines(workplace / "vectors.txt")
    arguments = ["--data", ".", "--sets", "topics", "--texts", "60,30", "--seeds", "2", "--vectors", "vectors.txt"]
    word_vectors.main([*arguments, "--out", "result.json"])
    shown = capsys.readouterr().out
    runs = json.loads((workplace / "result.json").read_text())["runs"]
    assert len(runs) == 2 * 2 * len(word_vectors.SYSTEMS)
    assert all(run["accuracy"] > 0.5 for run in runs)
    ours = [run for run in runs if run["system"] == "sparsenet-vectors"]
    assert all(run["single_us_p50"] > 0 and run["weight"] > 0 for run in ours)
    assert "| system | mean | topics, 60 | topics, 30 | training CPU s | us for one text |" in shown
    word_vectors.main(["--show", "result.json"])
    assert shown == capsys.readouterr().out


def test_small_draws_are_for_few_labels(workplace, capsys):
    texts, labels = planted(120)
    write(workplace / "many.train.tsv", texts, [f"{label} {i % 9}" for i, label in enumerate(labels)])
    write(workplace / "many.test.tsv", *planted(40, seed=1))
    write_lines(workplace / "vectors.txt")
    arguments = ["--data", ".", "--sets", "many", "--texts", "60,30", "--seeds", "1", "--vectors", "vectors.txt"]
    word_vectors.main([*arguments, "--many", "60", "--systems", "sparsenet"])
    assert "| mean | many, 60 | training" in capsys.readouterr().out


def test_draws_depend_on_the_seed_alone():
    data = planted(50)
    assert word_vectors.drawn(data, 10, 1) == word_vectors.drawn(data, 10, 1) != word_vectors.drawn(data, 10, 2)
