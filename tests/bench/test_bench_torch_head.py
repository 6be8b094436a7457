"""Comparisons of output layers for PyTorch and of ways to use a sentence encoder."""

import json
import random

import pytest

torch = pytest.importorskip("torch")

from bench import sentence_encoder, torch_head  # noqa: E402
from bench.torch_layers import LAYERS  # noqa: E402

WORDS = [f"word{i}" for i in range(20)]


def make_texts(n: int) -> list[tuple[str, str]]:
    """Return texts of two words that name one of ten labels."""
    rng = random.Random(n)
    return [(f"{WORDS[2 * i]} {WORDS[2 * i + 1]}", f"label {i}") for i in (rng.randrange(10) for _ in range(n))]


def test_measures_steps_and_precision(small, capsys):
    for part, n in (("train", 200), ("test", 40)):
        lines = [json.dumps({"text": text, "labels": [label]}) for text, label in make_texts(n)]
        (small / f"texts.{part}.jsonl").write_text("\n".join(lines))
    rng = random.Random(0)
    vectors = [f"{word} " + " ".join(f"{rng.gauss(0, 1):.3f}" for _ in range(8)) for word in WORDS]
    (small / "vectors.txt").write_text("\n".join(vectors) + "\n")
    sets = ["--data", str(small), "--texts", str(small / "texts"), "--vectors", str(small / "vectors.txt")]
    sizes = ["--labels", "300", "--dense-labels", "200", "--steps", "2", "--epochs", "2"]
    torch_head.main([*sets, *sizes, "--out", "report.json"])
    runs = json.loads((small.parent / "report.json").read_text())["runs"]
    assert [(run["kind"], run["layer"]) for run in runs[:3]] == [("step", name) for name in LAYERS]
    assert all(len(run["curve"]) == 4 for run in runs[3:])
    by_data = {run["data"]: run["curve"] for run in runs[3:] if run["layer"] == "head"}
    assert all(curve[-1]["P@1"] > curve[0]["P@1"] for curve in by_data.values())
    for run in runs[3:]:
        for point in run["curve"]:
            assert 0 < point["layer_seconds"] <= point["cpu_seconds"]
    assert f"| {small.name} | dense |" in capsys.readouterr().out


def test_time_to_precision_is_interpolated():
    curve = [{"P@1": 0.2, "cpu_seconds": 1.0}, {"P@1": 0.4, "cpu_seconds": 3.0}]
    times = [torch_head.seconds_until(curve, wanted, "cpu_seconds") for wanted in (0.1, 0.3, 0.4, 0.5)]
    assert times == pytest.approx([0.5, 2.0, 3.0, float("inf")])


def test_fine_tunes_an_encoder_of_a_local_directory(workplace, capsys):
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    numbers = {word: i for i, word in enumerate(["[PAD]", "[UNK]", *WORDS])}
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel(numbers, unk_token="[UNK]"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]")
    tokenizer.model_input_names = ["input_ids", "attention_mask"]
    tokenizer.save_pretrained("encoder")
    config = transformers.DistilBertConfig(vocab_size=22, dim=16, n_heads=2, n_layers=1, hidden_dim=32)
    transformers.DistilBertModel(config).save_pretrained("encoder")
    for part, n in (("train", 100), ("test", 20)):
        (workplace / f"texts.{part}.tsv").write_text("".join(f"{label}\t{text}\n" for text, label in make_texts(n)))
    sentence_encoder.main(
        ["--encoder", "encoder", "--data", ".", "--sets", "texts", "--epochs", "2", "--out", "report.json"]
    )
    runs = json.loads((workplace / "report.json").read_text())["runs"]
    assert sorted(run["system"] for run in runs) == sorted(sentence_encoder.SYSTEMS)
    assert all(run["accuracy"] > 0.2 for run in runs)  # chance is a tenth
    assert "| texts | 100 | 10 | frozen |" in capsys.readouterr().out
