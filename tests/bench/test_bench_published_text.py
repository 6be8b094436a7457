"""The published tasks on text: files of their syntax, our rows beside the quoted ones, and the fine-tuned baseline.

The baseline is tried on a tiny DistilBERT with random weights, where PyTorch and transformers are installed.
"""

import importlib.util
import json
import subprocess
import sys

import pytest

from bench import published, published_systems, published_text
from tests.support.texts import FILLER, TOPICS, planted

MISSING = [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]
BUILD = """
import sys, transformers
from pathlib import Path
folder = Path(sys.argv[1])
(folder / "vocab.txt").write_text("\\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sys.argv[2:]]))
config = transformers.DistilBertConfig(
    vocab_size=5 + len(sys.argv[2:]), dim=32, n_layers=1, n_heads=2, hidden_dim=64, max_position_embeddings=64
)
transformers.set_seed(0)
transformers.DistilBertModel(config).save_pretrained(folder)
transformers.DistilBertTokenizerFast.from_pretrained(folder).save_pretrained(folder)
"""


def quoted(field):
    return '"' + field.replace('"', '""').replace("\n", "\\n") + '"'


def write(folder, task, n=120):
    """Write train.csv and test.csv byte for byte as the published files are written."""
    folder.mkdir()
    for part, seed in (("train", 0), ("test", 1)):
        rows = []
        for text, label in zip(*planted(n, seed=seed, topics=2), strict=True):
            number = str(1 + list(TOPICS).index(label))
            first, rest = text.split(" ", 1)
            if task == "yelp":
                said = f'I said "{first}",\n{rest}'
                rows.append(f"{quoted(number)},{quoted(said)}\n")
            else:
                rows.append(f"{number},{quoted(first)},{quoted(' ' + rest)}\n")
        (folder / f"{part}.csv").write_text("".join(rows))
    (folder / "classes.txt").write_text("Sport\nFood\n")
    return folder


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["published", *map(str, arguments)])
    monkeypatch.setattr("bench.running.use_cpus", lambda threads: None)  # the tests keep their CPUs
    published.main()


def test_the_syntax_of_the_published_files(tmp_path):
    path = tmp_path / "train.csv"
    path.write_text('"1","He said ""no"".\\n\\nThen, \\"left."\n"2","naïve"\n')
    with pytest.raises(ValueError, match=r"train\.csv, line 1: ',' expected after '\"'"):
        published_systems.read(path, 2)
    path.write_text('"1","He said ""no"".\\n\\nThen, left."\n"2","naïve"\n')
    assert published_systems.read(path, 2) == (['He said "no".\n\nThen, left.', "naïve"], ["1", "2"])
    path.write_text('1,"E. D. Abbott Ltd"," Abbott of Farnham was a coachbuilder."\n')
    assert published_systems.read(path, 3)[0] == ["E. D. Abbott Ltd  Abbott of Farnham was a coachbuilder."]
    with pytest.raises(ValueError, match=r"train\.csv, line 1: 3 fields, expected 2"):
        published_systems.read(path, 2)


@pytest.mark.parametrize("task", published_text.TASKS)
@pytest.mark.slow
def test_our_row_stands_beside_the_quoted_ones(tmp_path, monkeypatch, capsys, task):
    data, out = write(tmp_path / "small", task), tmp_path / "result.json"
    run(monkeypatch, task, "--data", data, "--threads", 1, "--out", out)
    shown = capsys.readouterr().out
    report = json.loads(out.read_text())
    ours, theirs = report["runs"]
    assert ours["status"] == "measured", ours
    assert ours["accuracy"] > 0.95
    assert ours["shape"] == {"train": 120, "test": 120, "labels": 2}
    assert (theirs["system"], theirs["status"]) == ("distilbert", "not run")
    assert "**Not the published data**" in shown
    assert shown.count("| measured, seed 0") == 1
    assert shown.count("| not run: no weights: --distilbert DIR") == 1
    assert shown.count("| quoted: BOLT") == 2
    assert str(tmp_path) not in out.read_text()
    assert len(report["data"]["small"]["train.csv sha256"]) == 64
    run(monkeypatch, task, "--show", out)
    assert capsys.readouterr().out == shown


def test_an_interrupted_run_can_be_shown(tmp_path, monkeypatch, capsys):
    data, out = write(tmp_path / "small", "yelp"), tmp_path / "result.json"

    def interrupted(task, options, system, seed):
        if system == "distilbert":
            raise KeyboardInterrupt
        return {"status": "failed", "reason": "a reason"}

    monkeypatch.setattr(published_text, "_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(monkeypatch, "yelp", "--data", data, "--threads", 1, "--out", out)
    run(monkeypatch, "yelp", "--show", out)
    shown = capsys.readouterr().out
    assert "**Not the published data**" in shown
    assert "failed: a reason" in shown


def test_data_of_the_published_shape_are_known():
    task = published_text.TASKS["yelp"]
    report = {"machine": {"cpu": "a CPU", "isa_used": "avx2", "commit": "0" * 40, "uncommitted_changes": False}}
    report |= {"started": "today", "threads": 1, "runs": [], "is_published_data": True}
    assert "**Not the published data**" not in published_text.markdown(task, report)
    assert task.shape == {"train": 560_000, "test": 38_000, "labels": 2}


@pytest.mark.parametrize(("option", "value"), [("--systems", "bert"), ("--setups", "defaults (open)")])
def test_unknown_systems_are_refused(monkeypatch, capsys, option, value):
    with pytest.raises(SystemExit):
        run(monkeypatch, "yelp", "--data", "x", option, value)
    assert f"{option}: unknown: {value}" in capsys.readouterr().err


@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
def test_the_baseline_is_fine_tuned_from_a_local_directory(tmp_path, monkeypatch, capsys):
    words = sorted({*FILLER, *(word for topic in TOPICS.values() for word in topic), "i", "said", '"', ","})
    weights = tmp_path / "tiny"
    weights.mkdir()
    (weights / "build.py").write_text(BUILD)
    subprocess.run([sys.executable, weights / "build.py", weights, *words], check=True, capture_output=True)
    data, out = write(tmp_path / "small", "yelp"), tmp_path / "result.json"
    settings = ("--set", "epochs=20", "--set", "rate=0.003", "--set", "max_tokens=32", "--systems", "distilbert")
    python = ("--distilbert", weights, "--distilbert-python", sys.executable)
    run(monkeypatch, "yelp", "--data", data, "--threads", 1, "--out", out, *python, *settings)
    (row,) = json.loads(out.read_text())["runs"]
    assert row["status"] == "measured", row
    assert row["accuracy"] > 0.9
    assert (row["distilbert"], row["settings"]["epochs"]) == ("tiny", 20)
    assert str(tmp_path) not in out.read_text()
    assert "| distilbert |" in capsys.readouterr().out
