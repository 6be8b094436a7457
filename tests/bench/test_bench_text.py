"""The comparison on texts: runs, missing systems, time limits and tables."""

import json
import sys
from pathlib import Path

import pytest

from bench import features, text, text_peers
from bench.runner import call, in_child
from tests.support.texts import planted


def write(path, texts, labels):
    path.write_text("".join(f"{label}\t{words}\n" for words, label in zip(texts, labels, strict=True)))


def test_missing_systems_are_reported(workplace, capsys):
    write(workplace / "topics.train.tsv", *planted(200))
    write(workplace / "topics.test.tsv", *planted(50, seed=1))
    arguments = ["--data", ".", "--sets", "topics", "--systems", "sparsenet,vw", "--rounds", "1"]
    text.main([*arguments, "--threads", "1", "--json", "result.json"])
    shown = capsys.readouterr().out
    runs = {run["system"]: run for run in json.loads((workplace / "result.json").read_text())["runs"]}
    assert runs["sparsenet"]["status"] == "measured", runs["sparsenet"]
    assert runs["sparsenet"]["accuracy"] > 0.9
    assert 0 < runs["sparsenet"]["single_us_p50"] <= runs["sparsenet"]["single_us_p99"]
    assert runs["vw"]["reason"] == "no environment for vw: run make peers"
    assert f"| vw |{' - |' * 9} 0 runs; not run: no environment for vw: run make peers |" in shown
    assert "| 1 runs; measured |" in shown


@pytest.mark.slow
def test_each_training_text_is_held_out_once(workplace, capsys):
    texts, labels = planted(203)
    for fold in range(5):
        train, test = text.held_out((texts, labels), 5, fold)
        assert 40 <= len(test[0]) <= 41
        both = [*zip(*train, strict=True), *zip(*test, strict=True)]
        assert sorted(both) == sorted(zip(texts, labels, strict=True))
    assert sorted(x for fold in range(5) for x in text.held_out((texts, labels), 5, fold)[1][0]) == sorted(texts)

    write(workplace / "topics.train.tsv", texts, labels)  # without test texts, which --folds does not need
    arguments = ["--data", ".", "--sets", "topics", "--systems", "sparsenet,vw", "--folds", "2"]
    text.main([*arguments, "--threads", "1", "--json", "result.json"])
    runs = json.loads((workplace / "result.json").read_text())["runs"]
    own = [run for run in runs if run["system"] == "sparsenet"]
    assert [(run["fold"], run["seed"]) for run in own] == [("1 of 2", 0), ("2 of 2", 1)]
    accuracy = 50 * sum(run["accuracy"] for run in own)
    assert f"| sparsenet | {accuracy:.2f} |  |" in capsys.readouterr().out


def test_unbalanced_labels_keep_a_share_of_their_texts():
    labels = [f"label{i % 5}" for i in range(1000)]
    both = ([f"text {i}" for i in range(1000)], labels), (["else"] * 3, ["label0", "label1", "new"])
    (texts, kept), (_, tested) = text.unbalanced(both, seed=0)
    assert set(zip(texts, kept, strict=True)) <= set(zip(*both[0], strict=True))
    assert sorted(kept.count(label) for label in set(labels)) == [20, 36, 64, 113, 200]
    assert sorted(tested) == ["label0", "label1", "new"], "every label keeps a text"
    assert text.unbalanced(both, seed=0)[0] == (texts, kept) != text.unbalanced(both, seed=1)[0]


class FakeFastText:
    """fastText's rules for its training file; predicts the labels of the text that shares the most words."""

    def train_supervised(self, path, **options):
        self.examples = []
        for line in Path(path).read_text().splitlines():
            words = line.split()
            labels = [word for word in words if word.startswith("__label__")]
            self.examples.append((labels, {word for word in words if not word.startswith("__label__")}))
        return self

    def predict(self, texts):
        if isinstance(texts, str):
            return tuple(self._best(texts)), None
        return [self._best(text) for text in texts], None

    def _best(self, text):
        words = set(text.split())
        return max(self.examples, key=lambda example: len(example[1] & words))[0] if words else []


def test_fasttext_labels_may_hold_spaces(monkeypatch):
    fake = FakeFastText()
    monkeypatch.setitem(sys.modules, "fasttext", fake)
    texts = ["tall towers", "red bridge", "old tower"]
    labels = ["New York", "San Francisco", "__label__ of\tLondon"]
    system = text_peers.FastText(1, seed=0)
    system.train(texts, labels)
    assert sorted(len(given) for given, _ in fake.examples) == [1, 1, 1]
    assert sorted(" ".join(sorted(words)) for _, words in fake.examples) == ["bridge red", "old tower", "tall towers"]
    assert system.predict(texts) == labels
    assert [system.one(text) for text in texts] == labels
    assert system.predict([""]) == [""]


def test_macro_f1_is_the_mean_over_labels():
    assert text_peers.macro_f1(["a", "a", "b", "c"], ["a", "b", "b", "b"]) == (2 * 1 / 3 + 2 * 1 / 4) / 2


def test_differences_are_within_rounds():
    figures = {**dict.fromkeys(text.SHOWN, 1.0), "status": "measured"}
    scores = {("sparsenet", 0): 0.9, ("sparsenet", 1): 0.8, ("vw", 0): 0.87, ("vw", 1): 0.79}
    runs = [{"system": system, "seed": seed, "accuracy": x, **figures} for (system, seed), x in scores.items()]
    shown = text._table("topics", [*runs, {"system": "vw", "seed": 2, "status": "failed", "reason": "no more"}])
    assert "| sparsenet | 85.00 |  |" in shown
    assert "| vw | 83.00 | 2.00 ± 1.00 |" in shown
    assert "2 runs; measured; failed: no more |" in shown


def test_failures_and_timeouts_are_reported(tmp_path):
    (tmp_path / "data").write_text("{}")
    run = in_child("bench.text_peers", {"data": str(tmp_path / "data"), "system": "sparsenet", "seed": 0}, threads=1)
    assert (run["status"], run["data"]) == ("failed", "data")
    assert run["reason"] == "exit status 1: KeyError: 'train'"
    assert call([sys.executable, "-c", "import time; time.sleep(60)"], threads=1, limit=0.5) == "stopped after 0.5 s"


class Recording:
    def __init__(self):
        self.texts = []

    def one(self, text):
        self.texts.append(text)


def test_single_texts_stop_at_the_time_limit():
    texts, system = [str(i) for i in range(5)], Recording()
    assert text_peers.singles(system, texts, warm_up=2)[50] > 0
    assert system.texts == texts[:2] + texts
    system.texts.clear()
    text_peers.singles(system, texts, warm_up=2, most_seconds=0.0)
    assert system.texts == [*texts[:2], texts[0]]


def test_measures_each_kind_of_features(workplace, capsys):
    texts, labels = planted(300)
    write(workplace / "topics.train.tsv", texts, labels)
    features.main(["--data", ".", "--sets", "topics", "--rounds", "2", "--json", "out.json"])
    shown = capsys.readouterr().out
    assert all(kind in shown for kind in features.KINDS)
    runs = json.loads((workplace / "out.json").read_text())["runs"]
    n_bytes = sum(len(one.encode()) for one in texts)
    assert {(run["kind"], run["megabytes"]) for run in runs} == {(kind, n_bytes / 1e6) for kind in features.KINDS}
    by_kind = {run["kind"]: run["features_a_byte"] for run in runs}
    assert by_kind["words and pairs"] < by_kind["and 4 characters"] < by_kind["and 3 to 5 characters"]
