"""The command line on raw texts, from files to files and as a filter."""

from __future__ import annotations

import builtins
import filecmp
import json
import re
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_array
from typer.testing import CliRunner

from sparsenet import TextClassifier, cli, kernels, metrics
from sparsenet.cli import text_commands, text_sources, text_training
from sparsenet.cli.option_table import options_of
from tests.support.command_line import press_ctrl_c_in
from tests.support.text_command_line import in_process as sparsenet
from tests.support.text_command_line import run, unchecked
from tests.support.texts import planted, write

COLUMNS = ["--text", "review", "--target", "topic"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    write(folder / "train.csv", *planted(300))
    write(folder / "test.csv", *planted(100, seed=1))
    done = sparsenet("train", folder / "train.csv", *COLUMNS, "--model", folder / "model", "--json")
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout)


def test_train_and_evaluate(trained):
    folder, summary = trained
    assert summary["points"] == 300
    assert summary["labels"] == 3
    done = sparsenet("evaluate", folder / "model", folder / "test.csv", *COLUMNS, "--k", "1,3", "--json")
    assert done.returncode == 0, done.stderr
    scores = json.loads(done.stdout)
    assert scores["P@1"] > 0.95
    assert scores["points"] == 100
    assert {"P@3", "nDCG@3", "PSP@1", "recall@100", "seconds"} <= scores.keys()


def test_a_cache_gives_the_same_model(trained, tmp_path):
    folder, _ = trained
    for _ in range(2):
        run("train", folder / "train.csv", *COLUMNS, "--model", tmp_path / "m", "--cache", tmp_path / "cache")
        (one,), (other,) = (path.glob("arrays-*") for path in (folder / "model", tmp_path / "m"))
        assert one.name == other.name  # the name is a checksum
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".texts"]


def test_a_table_has_no_cache(trained, tmp_path):
    folder, _ = trained
    arguments = "train", folder / "train.csv", "--target", "topic", "--model", tmp_path / "m", "--cache", tmp_path
    status, _, said = run(*arguments)
    assert status == 2
    assert "--cache: a table stays in memory: leave it out, or train on numbers" in said


def test_each_label_is_measured(trained, tmp_path):
    from sklearn.metrics import classification_report  # slow to import

    folder, _ = trained
    texts, labels = planted(200, seed=5)
    labels = [label if i % 7 else "news" for i, label in enumerate(labels)]
    write(tmp_path / "t.csv", texts, labels)
    ask = ["evaluate", folder / "model", tmp_path / "t.csv", *COLUMNS]
    scores = json.loads(run(*ask, "--json")[1])
    answers = TextClassifier.load(folder / "model").predict(texts)
    expected = classification_report(labels, answers, output_dict=True, zero_division=0)
    assert {own["label"] for own in scores["by_label"]} == set(labels)
    for own in scores["by_label"]:
        theirs = expected[own["label"]]
        assert own["texts"] == theirs["support"]
        assert [own[name] for name in ("precision", "recall", "f1")] == pytest.approx(
            [theirs[name] for name in ("precision", "recall", "f1-score")]
        )
    of_two = json.loads(run(*ask, "--json", "--k", "1,2")[1])
    best_two = TextClassifier.load(folder / "model").topk(texts, 2)[0]
    assert of_two["in_best@2"] == pytest.approx(
        np.mean([own in two for own, two in zip(labels, best_two, strict=True)])
    )
    lines = run(*ask, "--k", "1,2,5")[1].split("\n")
    assert lines[0] == f"accuracy   {100 * scores['accuracy']:6.2f}"
    assert lines[1] == f"macro F1   {100 * scores['macro_f1']:6.2f}"
    assert lines[2].startswith("in best 2  ")
    assert float(lines[2].split()[-1]) >= 100 * scores["accuracy"]
    assert lines[3].startswith("200 texts in "), "of four labels five are all"
    assert lines[5] == "precision  recall      F1    texts  label"
    assert [line.split()[-1] for line in lines[6:10]] == sorted(set(labels), key=lambda label: -labels.count(label))
    assert lines[10:] == [""]
    assert text_commands.describe(scores, max_shown=3).endswith("\nand 1 label more with no more texts: see --json")
    truth = csr_array(np.eye(4, dtype=np.float32))
    for most, shown in ((4, True), (3, False)):
        found = text_commands.f1_scores(truth, np.arange(4), np.arange(5), list("abcd"), max_labels=most)
        assert ("by_label" in found) == shown


def test_threads_do_not_change_the_model(trained, tmp_path):
    folder, _ = trained
    for threads in ("1", "2"):
        done = sparsenet(
            "train", folder / "train.csv", *COLUMNS, "--model", tmp_path / threads, "--threads", threads, "--seed", "3"
        )
        assert done.returncode == 0, done.stderr
    files = sorted(file.name for file in (tmp_path / "1").iterdir())
    assert filecmp.cmpfiles(tmp_path / "1", tmp_path / "2", files, shallow=False) == (files, [], [])


def test_predict_is_a_filter(trained):
    folder, _ = trained
    done = sparsenet("predict", folder / "model", "--k", "1", stdin=b"what a goal\nsalt \xff the soup\n\nbank loan")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode().split("\n")
    assert [line.split(":")[0] for line in lines[:2]] == ["sport", "food"]
    assert lines[3].startswith("money:")
    assert len(lines) == 5


@pytest.mark.parametrize("labels", [[["a"], ["b"], ["c"]], [["a", "b"], ["b"], []]], ids=["one each", "several"])
def test_scores_equal_those_of_scikit_learn(tmp_path, labels):
    from sklearn.metrics import f1_score  # slow to import
    from sklearn.preprocessing import MultiLabelBinarizer

    texts, truth = ["one two", "three four", "five six"] * 9, labels * 9
    model = TextClassifier(random_state=0).fit(texts, truth if [] in labels else [own[0] for own in truth])
    model.save(tmp_path / "model")
    texts, right = ["one two", "five three", "six six one", "four"], [labels[0], labels[1], labels[0], ["d"]]
    rows = [json.dumps({"text": t, "label": own}) + "\n" for t, own in zip(texts, right, strict=True)]
    (tmp_path / "t.jsonl").write_text("".join(rows))
    code, stdout, _ = run("evaluate", tmp_path / "model", tmp_path / "t.jsonl", "--k", "2", "--json")
    assert code == 0
    scores = json.loads(stdout)
    answers = model.predict(texts)
    answers = answers if model.multilabel_ else [[own] for own in answers]
    known = MultiLabelBinarizer().fit([*right, *answers])
    expected, found = known.transform(right), known.transform(answers)
    assert scores["micro_f1"] == pytest.approx(f1_score(expected, found, average="micro", zero_division=0))
    assert scores["macro_f1"] == pytest.approx(f1_score(expected, found, average="macro", zero_division=0))
    assert 0 < scores["macro_f1"] < scores["micro_f1"] < 1
    assert scores.get("accuracy") == (None if model.multilabel_ else model.score(texts, [own[0] for own in right]))
    shown = run("evaluate", tmp_path / "model", tmp_path / "t.jsonl")[1]
    assert f"macro F1   {100 * scores['macro_f1']:6.2f}\n" in shown
    assert ("accuracy" in shown) == (not model.multilabel_)


def test_labels_below_the_threshold_are_left_out(trained, tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("what a goal\n\nsalt the soup for the team\n")
    model = TextClassifier.load(trained[0] / "model")
    names, probabilities = model.topk(path.read_text().split("\n")[:-1], 2)
    threshold = float(np.sort(probabilities.ravel())[2])
    ask = ["predict", trained[0] / "model", path, "--k", "2", "--threshold", f"{threshold:.9g}"]
    code, stdout, _ = run(*ask, "--format", "jsonl")
    assert code == 0
    found = [json.loads(line)["labels"] for line in stdout.splitlines()]
    pairs = zip(names, probabilities >= threshold, strict=True)
    assert found == [own[kept].tolist() for own, kept in pairs]
    assert sum(map(len, found)) == 4
    lines = run("predict", trained[0] / "model", path, "--threshold", "1")[1].split("\n")
    assert lines == [""] * 4


def test_learnt_threshold_gives_the_answers_of_predict(trained, tmp_path):
    texts, first = planted(300)
    _, second = planted(300, seed=8)
    lists = [sorted({one, other}) if i % 3 else [] for i, (one, other) in enumerate(zip(first, second, strict=True))]
    model = TextClassifier(random_state=0).fit(texts, lists)
    model.save(tmp_path / "several")
    (tmp_path / "t.txt").write_text("\n".join(texts) + "\n")
    ask = ["predict", tmp_path / "several", tmp_path / "t.txt", "--format", "jsonl", "--threshold"]
    found = [json.loads(line)["labels"] for line in run(*ask, "learnt")[1].splitlines()]
    assert found == model.predict(texts)
    lowest = float(model.topk(texts, 2)[1][0, 1])  # labels of exactly this probability are kept
    found_at_lowest = [json.loads(line)["labels"] for line in run(*ask, repr(lowest))[1].splitlines()]
    assert found_at_lowest == model.predict(texts, threshold=lowest)
    assert len(found_at_lowest[0]) == 2
    best = [json.loads(line)["labels"] for line in run(*ask, "learnt", "--k", "1")[1].splitlines()]
    assert best == [own[:1] for own in found]
    assert f"threshold={model.threshold_:.4g}" in run("info", tmp_path / "several")[1]
    code, _, problem = run("predict", trained[0] / "model", tmp_path / "t.txt", "--threshold", "learnt")
    assert code == 1
    assert "has learnt no threshold for --threshold learnt, since its texts have one label each" in problem
    for value in ("1.5", "-0.1", "nan", "high"):
        code, _, problem = run(*ask, value)
        assert code == 2
        assert "expected a number from 0 to 1, or learnt" in re.sub(r"[\s│]+", " ", problem)


def test_texts_without_a_label_are_reported_as_misses(tmp_path):
    texts, labels = planted(200)
    write(tmp_path / "t.csv", texts, ["" if i % 4 == 0 else label + "|new" * (i % 2) for i, label in enumerate(labels)])
    code, shown, _ = run("train", tmp_path / "t.csv", "--model", tmp_path / "m", *COLUMNS, "--label-delimiter", "|")
    assert code == 0
    assert re.search(r"^\d+\.\d\d % of the held-out texts have a right best label$", shown, re.MULTILINE)
    code, scores, said = run("evaluate", tmp_path / "m", tmp_path / "t.csv", "--json")
    assert json.loads(scores)["without_label"] == 50
    assert "50 of 200 texts have no label: P@1 over all texts is at most 75.00" in said


def test_training_reports_the_share_of_a_dominant_label(tmp_path):
    texts, labels = planted(200)
    for name, given in (("even", labels), ("odd", ["news" if i % 10 else label for i, label in enumerate(labels)])):
        write(tmp_path / "t.csv", texts, given)
        ask = ["train", tmp_path / "t.csv", "--model", tmp_path / "m", *COLUMNS]
        shown = run(*ask)[1]
        most = max(set(given), key=given.count)
        share = given.count(most) / len(given)
        assert (f"\n{100 * share:.2f} % of all texts have the label '{most}'\n" in shown) == (name == "odd")
        assert json.loads(run(*ask, "--json")[1])["most_frequent"] == {"label": most, "share": pytest.approx(share)}


def test_class_weight_takes_factors_of_labels(tmp_path):
    texts, labels = planted(300)
    write(tmp_path / "t.csv", texts, labels)
    factors = {labels[0]: 5}
    ask = ["train", tmp_path / "t.csv", "--model", tmp_path / "m", *COLUMNS, "--class-weight"]
    assert run(*ask, json.dumps(factors))[0] == 0
    expected = TextClassifier(class_weight=factors, random_state=0).fit(texts, labels)
    np.testing.assert_array_equal(
        TextClassifier.load(tmp_path / "m").predict_proba(texts), expected.predict_proba(texts)
    )
    code, _, problem = run(*ask, '{"no such label": 2}')
    assert code == 1
    assert "--class-weight names no label: it has 'no such label', the texts have labels like" in problem
    for value in ("fair", '{"news": -1}', "[1]", "{}", '{"news": 1, "news": 2}', "[" * 100_000):
        code, _, problem = run(*ask, value)
        assert code == 2
        assert "expected balanced, or factors of labels" in re.sub(r"[\s│]+", " ", problem)


def test_threshold_applies_to_points(tmp_path):
    points = tmp_path / "points.txt"
    points.write_text("0 0:1\n1 1:1\n2 2:1\n" * 9)
    assert run("train", points, "--model", tmp_path / "m", "--hidden", "4")[0] == 0
    ask = ["predict", tmp_path / "m", points, "--format", "jsonl"]
    answers = (run(*ask, *more)[1].splitlines() for more in ([], ["--threshold", "0.5"]))
    whole, part = ([json.loads(line) for line in lines] for lines in answers)
    assert [own["labels"][:1] for own in whole] == [own["labels"] for own in part] != []
    assert all(p[0] >= 0.5 > p[1] for p in (own["probabilities"] for own in whole))


def test_blank_lines_of_a_table_are_reported(trained):
    ask = ["predict", trained[0] / "model", "--k", "1", "--input-format", "csv", "--text", "0", "--no-header"]
    code, answers, said = run(*ask, stdin=b"what a goal\n\nbank loan\n\n")
    assert code == 0
    assert [line.partition(":")[0] for line in answers.splitlines()] == ["sport", "money"]
    assert "2 lines of <stdin> got no answer: blank lines of a table are not rows" in said
    assert run(*ask, stdin=b"what a goal\nbank loan\n")[2] == ""


def test_predict_ignores_label_words_before_any_whitespace(trained):
    model = trained[0] / "model"
    expected = sparsenet("predict", model, stdin=b"what a goal\n").stdout
    for line in (b"__label__food\twhat a goal\n", b"__label__food what a goal __label__money\r\n"):
        assert sparsenet("predict", model, stdin=line).stdout == expected


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.parquet", "t.txt"])
def test_predict_reads_every_format(trained, name):
    folder, _ = trained
    texts, labels = planted(20, seed=4)
    write(folder / name, texts, labels)
    columns = [] if name == "t.txt" else ["--text", "review"]
    done = sparsenet("predict", folder / "model", folder / name, *columns, "--k", "1", "--format", "jsonl")
    assert done.returncode == 0, done.stderr
    found = [json.loads(line)["labels"][0] for line in done.stdout.splitlines()]
    assert sum(a == b for a, b in zip(found, labels, strict=True)) >= 19


def test_fasttext_lines_with_several_labels(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text("__label__a __label__b one two\n__label__b three four\n__label__a one\n" * 20)
    assert sparsenet("train", path, "--model", tmp_path / "model").returncode == 0
    done = sparsenet("evaluate", tmp_path / "model", path, "--json")
    assert json.loads(done.stdout)["P@1"] == 1.0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--target", "nothing"], 1, "there is no column 'nothing'"),
        (["--hidden", "8"], 2, "--hidden: has no effect on a text model: leave it out"),
        (["--normalize", "rows"], 2, "--normalize: has no effect on a text model: leave it out"),
        (["--patience", "8"], 2, "--patience: has no effect on a text model: leave it out"),
        (["--batch-size", "8"], 2, "--batch-size: has no effect on a text model: leave it out"),
        (["--features", "8"], 2, "--features: a text model counts its features itself"),
        (["--labels", "3"], 2, "--labels: a text model counts its labels itself"),
        (["--checkpoint"], 2, "--checkpoint: a text model has no checkpoints"),
        (["--resume"], 2, "--resume: a text model has no checkpoints to resume from"),
        (["--compact"], 2, "--compact: use sparsenet compress to make a text model smaller"),
    ],
)
def test_options_without_effect_on_text_are_refused(trained, tmp_path, arguments, code, message):
    folder, _ = trained
    done = sparsenet("train", folder / "train.csv", *COLUMNS, "--model", tmp_path / "model", *arguments)
    assert done.returncode == code
    assert message in " ".join(done.stderr.decode().replace("│", " ").split())
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["evaluate", "predict"])
def test_exclude_seen_is_refused_for_text(trained, command):
    code, stdout, said = run(command, trained[0] / "model", trained[0] / "test.csv", "--exclude-seen")
    assert (code, stdout) == (2, "")
    assert "--exclude-seen: the features of text are words" in said


def test_shared_settings_reach_the_text_classifier(trained, tmp_path):
    folder, _ = trained
    arguments = ["--model", tmp_path / "model", "--memory-limit", "1GB", "--no-checkpoint", "--epochs", "3"]
    done = sparsenet("train", folder / "train.csv", *COLUMNS, *arguments)
    assert done.returncode == 0, done.stderr
    model = TextClassifier.load(tmp_path / "model")
    assert (model.memory_limit, model.epochs) == ("1GB", 3)


OF_TEXTS = {"--cost": "0.5", "--word-ngrams": "1", "--char-ngrams": "2-4", "--class-weight": "balanced"}
OF_TEXTS |= {"--method": "linear", "--validation-fraction": "0.2"}


def test_text_settings_reach_the_classifier(trained, tmp_path):
    arguments = [word for option in OF_TEXTS.items() for word in option]
    train = ["train", trained[0] / "train.csv", *COLUMNS, "--model", tmp_path / "model"]
    assert run(*train, *arguments)[0] == 0
    settings = ("cost", "word_ngrams", "char_ngrams", "class_weight", "method", "validation_fraction")
    found = TextClassifier.load(tmp_path / "model")
    assert [getattr(found, name) for name in settings] == [0.5, 1, (2, 4), "balanced", "linear", 0.2]
    for given, expected in (("none", None), ("auto", "auto"), ("4", (4, 4))):
        assert run(*train, "--char-ngrams", given)[0] == 0
        assert TextClassifier.load(tmp_path / "model").char_ngrams == expected


@pytest.mark.parametrize("option", sorted(OF_TEXTS.keys() - {"--cost"}))  # which trees have, too
def test_text_settings_are_refused_for_points(tmp_path, option):
    (tmp_path / "points.txt").write_text("0 0:1\n1 1:1\n" * 9)
    code, _, said = run("train", tmp_path / "points.txt", "--model", tmp_path / "m", option, OF_TEXTS[option])
    assert code == 2
    assert f"Invalid value for {option}: " in said
    assert "is for text, and this file holds sparse points" in said


@pytest.mark.parametrize("given", ["5-3", "0-2", "65", "3-", "words", ""])
def test_wrong_ngram_lengths_are_refused(tmp_path, given):
    code, _, said = run("train", tmp_path / "t.csv", "--model", tmp_path / "m", "--char-ngrams", given)
    assert code == 2
    assert "expected lengths from 1 to 64 such as 3-5, auto or none" in said


class Streaming(text_sources.TextSource):
    """A file of texts that is never held as a whole."""

    def read(self):
        raise AssertionError


class NotForTraining(text_sources.TextSource):
    """A file of texts that no model is trained on."""

    def fit(self, model, cache=None):
        raise AssertionError


def test_explicit_format_reads_the_same_texts(trained, tmp_path):
    folder, _ = trained
    plain = tmp_path / "train"
    plain.write_bytes((folder / "train.csv").read_bytes())
    expected = TextClassifier.load(folder / "model").predict_proba(["what a goal", "salt"])
    source, model = Streaming(plain, "csv", ["review"], "topic"), TextClassifier(random_state=0)
    source.fit(model)
    assert model.predict_proba(["what a goal", "salt"]).tolist() == expected.tolist()
    with pytest.raises(ValueError, match="format must be one of 'auto', 'csv', 'tsv', 'jsonl', 'lines', got 'xls'"):
        TextClassifier().fit(plain, format="xls")


def test_propensities_count_texts(tmp_path):
    """Texts with two labels each count once."""
    path = tmp_path / "train.txt"
    path.write_text("__label__a __label__b one two\n__label__b __label__c three four\n__label__a __label__b one\n" * 20)
    model = TextClassifier(random_state=0).fit(path)
    model.save(tmp_path / "model")
    assert model.n_texts_ == 60
    found = json.loads(run("evaluate", tmp_path / "model", path, "--k", "1", "--json")[1])
    source, labels, _ = text_sources.TextSource(path, "lines").read()[1:]
    truth = csr_array(np.array([[name in own for name in "abc"] for own in labels], np.float32))
    ranked = model.predict_topk(source, 3).indices.reshape(-1, 3)
    expected = metrics.evaluate(truth, ranked, [1], metrics.propensities_from_counts(model.label_counts_, 60))
    assert found["PSP@1"] == expected["PSP@1"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        ("review,label\ngood,x\n", "there is no column 'topic'"),
        ("review,topic\n", "holds no texts"),
        ("review,topic\ngood,\n", "holds no labels"),
        ("review,topic\ngood,x\nfine,\n", "line 3: the text has no label"),
        ("review,topic\n" + "good,x\n" * 100 + "bad\n", "line 102: 1 fields where the first row has 2"),
    ],
)
def test_validation_texts_are_checked_before_training(trained, tmp_path, content, message):
    folder, _ = trained
    if content is not None:
        (tmp_path / "valid.csv").write_text(content)
    source = NotForTraining(folder / "train.csv", "csv", ["review"], "topic")
    valid = text_sources.validation_source(source, tmp_path / "valid.csv", "auto")
    with pytest.raises((OSError, ValueError), match=message):
        text_training.train(source, tmp_path / "model", valid, {})
    assert not (tmp_path / "model").exists()


def test_files_are_opened_once_and_the_model_is_not_loaded_back(trained, monkeypatch, tmp_path):
    folder, opened, real_open = trained[0], [], builtins.open

    def noted(file, *how, **more):
        opened.append(str(file))
        return real_open(file, *how, **more)

    monkeypatch.setattr(builtins, "open", noted)
    monkeypatch.setattr(TextClassifier, "load", None)
    files = folder / "train.csv", folder / "test.csv"
    code, _, said = run("train", files[0], *COLUMNS, "--valid", files[1], "--model", tmp_path / "m")
    assert code == 0, said
    assert [opened.count(str(file)) for file in files] == [1, 1]


def test_validation_texts_may_come_from_a_pipe(trained, tmp_path):
    folder, _ = trained
    train = ["train", folder / "train.csv", *COLUMNS, "--model", tmp_path / "model", "--json"]
    done = sparsenet(*train, "--format", "csv", "--valid", "-", stdin=(folder / "test.csv").read_bytes())
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["valid"] > 0.95
    done = sparsenet("train", "-", *train[2:], "--format", "csv", "--valid", "-", stdin=b"review,topic\ngood,x\n")
    assert done.returncode == 1
    assert b"are both standard input" in done.stderr


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("dual_train", "while training on the texts of {train}: no model is saved, {} stays as it was"),
        ("TextScorer", "the model {} is saved, and was not measured"),
    ],
)
def test_ctrl_c_reports_what_is_saved(trained, tmp_path, monkeypatch, name, said):
    folder, _ = trained
    model = tmp_path / "model"
    shutil.copytree(folder / "model", model)
    press_ctrl_c_in(monkeypatch, kernels, name)
    arguments = ["train", folder / "train.csv", *COLUMNS, "--valid", folder / "test.csv", "--model", model, "--seed", 1]
    before = [path.read_bytes() for path in sorted(model.iterdir())]
    done = CliRunner().invoke(cli.app, [*map(str, arguments)])
    assert done.exit_code == 130
    assert done.stderr == f"sparsenet: interrupted: {said.format(model, train=folder / 'train.csv')}\n"
    assert done.stdout == ""
    after = [path.read_bytes() for path in sorted(model.iterdir())]
    assert (before == after) == (name == "dual_train")


def test_help_describes_ctrl_c():
    said = " ".join(sparsenet("train", "--help").stdout.decode().split())
    assert (
        "A network, alone or in a blend, is saved as far as it is trained. A tree or a text model is not saved" in said
    )


def fails(*arguments, stdin: bytes | None = None, code: int = 1, run=sparsenet) -> str:
    done = run(*arguments, stdin=stdin)
    assert done.returncode == code
    assert done.stdout == b""
    assert b"Traceback" not in done.stderr
    return " ".join(done.stderr.decode().replace("│", " ").split())


def test_answers_before_a_wrong_row_are_written(trained):
    folder, _ = trained
    rows = b'{"text": "good"}\n{"text": "bad"}\n{"text": null}\n{"text": "good"}\n'
    done = sparsenet(
        "predict", folder / "model", "-", "--input-format", "jsonl", "--text", "text", "--k", "1", stdin=rows
    )
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 2
    assert b"line 3: column 'text' must hold texts, got None" in done.stderr


def test_advice_names_options(trained, tmp_path):
    folder, _ = trained
    train = ["train", "-", "--format", "csv", "--text", "0", "--target", "1", "--model", tmp_path / "m"]
    content = b'"never closes,x\ngood,y\n'
    assert "or read the file with --no-quotes" in fails(*train, stdin=content)
    assert sparsenet(*train, "--no-quotes", stdin=content).returncode == 0
    tsv = ["train", "-", "--format", "tsv", "--model", tmp_path / "m"]
    content = b'text\tlabel\n"a\nfilm"\tx\ngood\ty\n'
    assert "does not close in its line: read the file with --quotes" in fails(*tsv, stdin=content)
    assert sparsenet(*tsv, "--quotes", stdin=content).returncode == 0
    said = fails("evaluate", folder / "model", "-", stdin=b"review,topic\ngood,sport\n")
    assert "For a table, pass --format as csv, tsv or jsonl" in said
    assert "'--label-delimiter': must not be empty" in fails(*train, "--label-delimiter", "", stdin=b"", code=2)
    said = fails("compress", folder / "model", "--max-bytes", "10", "--output", tmp_path / "small")
    assert "--max-bytes 10 is impossible" in said


def test_table_with_its_own_delimiter_and_encoding(tmp_path):
    texts, labels = planted(200)
    rows = [f"{text}, é;{label}" for text, label in zip(texts, labels, strict=True)]
    table, model = tmp_path / "t.csv", tmp_path / "model"
    table.write_bytes("\n".join(["review;topic", *rows, ""]).encode("cp1252"))
    columns = ["--text", "review", "--target", "topic"]
    code, _, said = run("train", table, *columns, "--model", model)
    assert code == 1
    assert "separated by ';': read it with --delimiter ';'" in said
    code, _, said = run("train", table, *columns, "--delimiter", ";", "--model", model)
    assert code == 1
    assert "line 2: byte 0xe9" in said
    assert "or pass its encoding, such as --encoding latin-1" in said
    how = ["--delimiter", ";", "--encoding", "cp1252"]
    code, _, said = run("train", table, *columns, *how, "--model", model)
    assert code == 0, said
    code, shown, said = run("evaluate", model, table, *how, "--json")
    assert code == 0, said
    assert json.loads(shown)["P@1"] > 0.9
    code, shown, said = run("predict", model, table, *how, "--k", "1")
    assert code == 0, said
    assert len(shown.splitlines()) == 200
    small = ["compress", model, "--max-bytes", "1MB", "--output", tmp_path / "small", "--valid", table, "--json"]
    code, shown, said = run(*small, *how)
    assert code == 0, said
    assert json.loads(shown)["n_texts"] == 200
    for bad, words in ((["--delimiter", ""], "one character"), (["--encoding", "utf-16"], "other line ends")):
        code, _, said = run("predict", model, table, *bad)
        assert code == 2
        assert words in said


def test_validation_table_uses_the_delimiter_of_its_own_kind(tmp_path):
    texts, labels = planted(200)
    for name, separator in (("t.csv", ";"), ("v.tsv", "\t"), ("v.csv", ";")):
        rows = [f"{text}{separator}{label}" for text, label in zip(texts, labels, strict=True)]
        (tmp_path / name).write_text("\n".join([f"text{separator}label", *rows, ""]))
    for valid in ("v.tsv", "v.csv"):
        code, _, said = run(
            *("train", tmp_path / "t.csv", "--delimiter", ";", "--model", tmp_path / "m", "--valid", tmp_path / valid)
        )
        assert code == 0, said


def test_delimiter_may_be_an_escaped_tab(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("text\tlabel\n" + "good\tx\nbad\ty\n" * 9)
    assert run("train", table, "--delimiter", "\\t", "--model", tmp_path / "m")[0] == 0


@pytest.mark.parametrize(
    "option",
    [
        *(["--text", "review"], ["--header"], ["--no-header"], ["--no-quotes"]),
        *(["--delimiter", ";"], ["--encoding", "latin-1"]),
    ],
)
def test_table_options_need_a_table(trained, tmp_path, option):
    lines, model, small = tmp_path / "t.txt", trained[0] / "model", tmp_path / "m"
    lines.write_text("review,topic\nwhat a goal,sport\n")
    for command in (
        ["predict", model, lines],
        ["predict", model],
        ["train", lines, "--model", small],
        ["evaluate", model, lines],
        ["compress", model, "--max-bytes", "1MB", "--valid", lines, "--output", small],
    ):
        code, stdout, said = run(*command, *option, stdin=b"what a goal\n")
        assert (code, stdout) == (2, "")
        assert "needs a table" in said
        assert "pass csv, tsv or jsonl" in said
    code, _, said = run("predict", model, lines, "--input-format", "lines", *option)
    assert code == 2
    assert "lines have no columns" in said
    code, stdout, _ = run("predict", model, lines, "--input-format", "csv", "--text", "review")
    assert (code, stdout.count("\n")) == (0, 1)


def test_errors_name_the_assumed_format(tmp_path):
    said = fails("train", "-", "--model", tmp_path / "m", stdin=b"review,topic\ngood,sport\n", run=unchecked)
    assert "<stdin>, line 1: label 'review" in said
    assert "it was read as svmlight, because line 1 is no XMC header. For texts, pass --format as csv" in said
    (tmp_path / "points.txt").write_text("0 0:1\n1 1:1\n" * 9)
    assert sparsenet("train", tmp_path / "points.txt", "--model", tmp_path / "m", "--hidden", "4").returncode == 0
    assert "because line 1 is no XMC header. For texts, pass --input-format as csv" in fails(
        "predict", tmp_path / "m", stdin=b"what a goal\n", run=unchecked
    )
    said = fails("evaluate", tmp_path / "m", "-", stdin=b"0 7:1\n", run=unchecked)
    assert "(there are 2 features; train --features makes room for more)" in said
    assert "svmlight" not in said, "that it is has been understood"


def test_compress_refuses_wrong_models(trained, tmp_path):
    folder, _ = trained
    assert "nowhere: does not exist" in fails("compress", tmp_path / "nowhere", "--max-bytes", "1MB")
    shutil.copytree(folder / "model", tmp_path / "model")
    (tmp_path / "model" / "manifest.json").write_text("{")
    assert "manifest.json" in fails("compress", tmp_path / "model", "--max-bytes", "1MB")


def test_compress_refuses_options_of_a_file_that_it_does_not_read(trained):
    folder, _ = trained
    for option in (["--encoding", "latin-1"], ["--format", "csv"], ["--text", "title"]):
        status, _, said = run("compress", folder / "model", "--max-bytes", "1MB", *option)
        assert status == 2
        assert f"{option[0]}: describes the file of --valid: name one, or leave it out" in said


def test_a_missing_validation_file_is_named_before_training(trained, tmp_path):
    folder, _ = trained
    ask = ["train", folder / "train.csv", *COLUMNS, "--valid", tmp_path / "nowhere", "--model", tmp_path / "model"]
    status, _, said = run(*ask)
    assert (status, said) == (1, f"sparsenet: error: {tmp_path / 'nowhere'}: No such file or directory")


def test_compress_reads_tables_by_the_options(trained, tmp_path):
    path = tmp_path / "valid.csv"
    path.write_text('review,topic\n"a "lovely,sport\nand so on,food\n')
    command = ["compress", trained[0] / "model", "--max-bytes", "1MB", "--output", tmp_path / "small", "--json"]
    columns = ["--valid", path, "--text", "0", "--target", "1"]
    assert "follows a closing quote" in fails(*command, *columns, "--header")
    done = sparsenet(*command, *columns, "--header", "--no-quotes")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["n_texts"] == 2


def test_repeated_label_counts_once(trained, tmp_path):
    (tmp_path / "t.txt").write_text("__label__sport __label__sport a match\n")
    done = sparsenet("evaluate", trained[0] / "model", tmp_path / "t.txt", "--json")
    assert json.loads(done.stdout)["true_labels"] == 1, done.stderr


def test_empty_texts_are_reported_once(tmp_path):
    texts, labels = planted(60)
    write(tmp_path / "t.csv", ["", *texts], ["sport", *labels])
    budget = ("--valid", tmp_path / "t.csv", "--time-budget", 2)  # for which the file is read several times
    done = unchecked("train", tmp_path / "t.csv", "--model", tmp_path / "m", *COLUMNS, *budget)
    assert done.stderr.decode().splitlines() == [
        f"sparsenet: warning: {tmp_path / 't.csv'}: empty texts, 1 of 61, count as others do: leave out those "
        "that should not"
    ]


def test_header_read_as_text_is_reported(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("review,topic\na lovely film,good\na dull film,bad\nlovely and short,good\ndull and long,bad\n")
    train = ["train", path, "--text", "0", "--target", "1", "--model", tmp_path / "model", "--json"]
    done = unchecked(*train, "--valid", path)
    assert json.loads(done.stdout)["labels"] == 3
    said = done.stderr.decode().splitlines()
    assert len(said) == 1
    assert said[0].startswith(f"sparsenet: warning: {path}: the first row, 'review' with the label 'topic'")
    assert said[0].endswith("pass --header, or --no-header if it is none")
    done = unchecked(*train, "--header")
    assert (json.loads(done.stdout)["labels"], done.stderr) == (2, b"")
    predict = ["predict", tmp_path / "model", path, "--text", "0"]
    done = unchecked(*predict)
    assert done.stdout.count(b"\n") == 5
    said = f"sparsenet: warning: {path}: the first row, 'review', was read as a text but looks like a header: pass "
    assert done.stderr.decode() == f"{said}--header, or --no-header if it is none\n"
    for option, n_texts in (("--header", 4), ("--no-header", 5)):
        code, stdout, said = run(*predict, option)
        assert (code, stdout.count("\n"), said) == (0, n_texts, "")


@pytest.mark.parametrize(
    "content",
    [
        "film,a\nbook,b\nplay,c\n",
        "a film,a\nlovely,b\na play,c\n",
        "What a film!,a\nnot one that I would see again,b\nsome other words of this kind,c\n",
    ],
)
def test_ordinary_first_text_is_not_taken_for_a_header(trained, tmp_path, content):
    (tmp_path / "t.csv").write_text(content)
    code, stdout, said = run("predict", trained[0] / "model", tmp_path / "t.csv", "--text", "0")
    assert (code, stdout.count("\n"), said) == (0, 3, "")


def test_control_characters_in_labels_are_escaped(tmp_path):
    path, odd = tmp_path / "t.jsonl", "a\tb\nc\r\\d:e\x1b[2J\x07\x9b\x00"
    path.write_text(
        "".join(json.dumps({"text": t, "label": y}) + "\n" for t, y in [("one two", odd), ("three", "x")] * 9)
    )
    assert sparsenet("train", path, "--model", tmp_path / "m").returncode == 0
    lines = sparsenet("predict", tmp_path / "m", stdin=b"one\nthree\n").stdout.decode().split("\n")
    cells = [line.split("\t") for line in lines[:-1]]
    assert [len(row) for row in cells] == [2, 2]
    names = [row[0].rpartition(":")[0] for row in cells]
    assert names == ["a\\tb\\nc\\r\\\\d:e\\x1b[2J\\x07\\x9b\\x00", "x"]
    jsonl = sparsenet("predict", tmp_path / "m", "--format", "jsonl", stdin=b"one\n").stdout
    assert json.loads(jsonl)["labels"][0] == odd


def test_unknown_labels_are_counted(trained, tmp_path):
    folder, _ = trained
    (tmp_path / "t.csv").write_text("review,topic\nwhat a goal,sport\nsalt,cooking\nsoup,cooking\nloan,banks\n")
    done = sparsenet("evaluate", folder / "model", tmp_path / "t.csv", *COLUMNS, "--k", "1", "--json")
    scores = json.loads(done.stdout)
    assert (scores["true_labels"], scores["unknown_labels"]) == (4, 3)
    said = "sparsenet: 3 of 4 true labels were never seen in training: the model cannot predict them\n"
    assert done.stderr.decode() == said
    done = sparsenet("evaluate", folder / "model", folder / "test.csv", *COLUMNS, "--k", "1", "--json")
    assert (json.loads(done.stdout)["unknown_labels"], done.stderr) == (0, b"")


def test_score_warns_if_no_label_is_known():
    model = TextClassifier(random_state=0).fit(["one two", "three"] * 5, ["1", "2"] * 5)
    with pytest.warns(
        UserWarning, match=r"holds no label that the classifier knows: it has labels like \[1\], not like \['1'\]"
    ):
        assert model.score(["one", "three"], [1, 2]) == 0
    assert model.score(["one", "three"], ["1", "3"]) == 0.5


@pytest.mark.parametrize("kind", ["whole numbers", "an indicator", "lists", "one of two"])
def test_compress_matches_labels_like_evaluate(tmp_path, kind):
    """Labels in files are strings, whatever type the model learnt in Python."""
    texts, topics = planted(120, topics=2 if kind == "one of two" else 3)
    known = sorted(set(topics))
    numbers = np.array([known.index(topic) for topic in topics])
    y = {"an indicator": np.eye(3, dtype=int)[numbers], "lists": [[int(n)] for n in numbers]}.get(kind, numbers)
    model = TextClassifier(random_state=0, n_jobs=1).fit(texts, y)
    model.save(tmp_path / "model")
    rows = [*zip(texts, numbers, strict=True), ("what a goal", "none that it knows")]
    rows += [("a text without a label", "")] * (kind in ("an indicator", "lists"))
    write(tmp_path / "t.csv", [text for text, _ in rows], [str(label) for _, label in rows])
    options = ["--format", "csv", *COLUMNS, "--json"]
    scores = json.loads(run("evaluate", tmp_path / "model", tmp_path / "t.csv", *options)[1])
    small = ["--max-bytes", "1MB", "--output", tmp_path / "small"]
    code, shown, said = run("compress", tmp_path / "model", *small, "--valid", tmp_path / "t.csv", *options)
    assert code == 0, said
    report = json.loads(shown)
    assert (report["n_texts"], report["accuracy_before"]) == (len(rows), scores["P@1"])
    assert report["accuracy_after"] == pytest.approx(model.score(texts, y) * 120 / len(rows)) != 0
    assert "1 of 121 true labels were never seen in training" in said


@pytest.mark.parametrize(
    "option", [["--text", "a"], ["--header"], ["--no-header"], ["--quotes"], ["--no-quotes"], ["--delimiter", ";"]]
)
def test_table_options_are_refused_for_points(tmp_path, option):
    points, model = tmp_path / "points.txt", tmp_path / "m"
    points.write_text("0 0:1\n1 1:1\n" * 9)
    assert run("train", points, "--model", model, "--method", "tree")[0] == 0
    for command in (
        ["train", points, "--format", "svmlight", "--model", tmp_path / "none"],
        ["train", points, "--format", "xmc", "--model", tmp_path / "none"],
        ["evaluate", model, points],
        ["predict", model, points],
    ):
        code, stdout, said = run(*command, *option)
        assert (code, stdout) == (2, "")
        assert f"{option[0]}: applies to tables of text, and sparse points have no columns: leave it out" in said
    for other in (["--target", "b"], ["--label-delimiter", "|"]):
        assert f"{other[0]}: applies to tables of text" in run("evaluate", model, points, *other)[2]
    for name in ("evaluate", "predict"):
        assert "nowhere: does not exist" in run(name, tmp_path / "nowhere", points, *option)[2]


@pytest.mark.parametrize("option", ["--header", "--no-header", "--quotes", "--no-quotes", "--delimiter=;"])
@pytest.mark.parametrize("name", ["t.jsonl", "t.parquet"])
def test_csv_options_are_refused_for_other_tables(trained, tmp_path, name, option):
    table, model = tmp_path / name, trained[0] / "model"
    write(table, *planted(20))
    how = [*COLUMNS, option]
    for command in (
        ["train", table, "--model", tmp_path / "none", *how],
        ["evaluate", model, table, *how],
        ["predict", model, table, option],
        ["compress", model, "--max-bytes", "1MB", "--valid", table, *how],
    ):
        code, stdout, said = run(*command)
        assert (code, stdout) == (2, "")
        what = f"is for CSV and TSV, and this file is {table.suffix[1:]}: leave it out"
        assert f"{option.replace('--no-', '--').split('=')[0]}: {what}" in said
    if name == "t.jsonl":
        assert "is for CSV and TSV" in run("predict", model, "-", "--input-format", "jsonl", option)[2]


@pytest.mark.parametrize("name", ["v.jsonl", "v.parquet"])
def test_csv_options_do_not_apply_to_other_validation_tables(trained, tmp_path, name):
    write(tmp_path / name, *planted(40))
    train = ["train", trained[0] / "train.csv", *COLUMNS, "--quotes", "--header", "--model", tmp_path / "model"]
    code, _, said = run(*train, "--valid", tmp_path / name)
    assert code == 0, said


class Recording:
    """A classifier that records the number of texts in each call."""

    def __init__(self, model):
        self.model, self.classes_ = model, model.classes_
        self.sizes: list[int] = []

    def predict_topk(self, texts, k):
        self.sizes.append(len(texts))
        return self.model.predict_topk(texts, k)


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.parquet", "t.txt"])
def test_batch_size_limits_texts_scored_at_a_time(trained, tmp_path, name):
    model, path = trained[0] / "model", tmp_path / name
    write(path, *planted(100, seed=4))
    names = {option.name: None for option in options_of("predict")}
    given = SimpleNamespace(**names | {"command": "predict", "model": model, "data": path, "input_format": "auto"})
    given.batch_size = 30
    source = text_sources.text_source(given, "input_format")
    assert [len(texts) for texts in source.batches(lambda n: None)] == [30, 30, 30, 10]
    texts, recording = source.read().texts, Recording(TextClassifier.load(model))
    text_commands.top_labels(recording, texts, 4, 4, source.batch_rows)
    assert recording.sizes == [30, 30, 30, 10]
    for command in ("predict", "evaluate"):
        ask = [command, model, path, *(["--json"] if command == "evaluate" else [])]
        whole, parts = (run(*ask, *size)[1] for size in ([], ["--batch-size", "30"]))
        if command == "evaluate":
            whole, parts = (json.loads(shown) | {"seconds": 0} for shown in (whole, parts))
        assert parts == whole


def test_batch_size_does_not_change_scores_of_several_labels(tmp_path):
    texts, labels = planted(90)
    lists = [[label] if i % 3 else ["more", label] for i, label in enumerate(labels)]
    TextClassifier(random_state=0).fit(texts, lists).save(tmp_path / "m")
    rows = zip(texts, lists, strict=True)
    (tmp_path / "t.jsonl").write_text("".join(json.dumps({"text": t, "label": own}) + "\n" for t, own in rows))
    ask = ["evaluate", tmp_path / "m", tmp_path / "t.jsonl", "--json"]
    whole, parts = (json.loads(run(*ask, *size)[1]) | {"seconds": 0} for size in ([], ["--batch-size", "7"]))
    assert whole == parts
