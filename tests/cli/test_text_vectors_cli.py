"""The command line with --vectors."""

from sparsenet import TextClassifier
from tests.support.text_command_line import run
from tests.support.texts import planted, write
from tests.support.vector_tables import write_lines

COLUMNS = ["--text", "review", "--target", "topic"]


def test_trains_predicts_and_describes(tmp_path):
    write(tmp_path / "train.csv", *planted(60))
    write_lines(tmp_path / "vectors.txt")
    model = tmp_path / "model"
    train = ["train", tmp_path / "train.csv", *COLUMNS, "--model", model, "--vectors", tmp_path / "vectors.txt"]
    assert run(*train)[0] == 0
    assert TextClassifier.load(model).predict_one("umpire") == "sport"
    code, answers, _ = run("predict", model, "-", "--k", "1", stdin=b"noodles\n")
    assert code == 0
    assert answers.startswith("food:")
    code, shown, _ = run("info", model)
    assert code == 0
    assert f"vectors={tmp_path / 'vectors.txt'} x " in shown
    assert "vectors: " in shown
    code, _, said = run("compress", model, "--max-bytes", "1kB")
    assert code != 0
    assert "word vectors, which cannot be compressed" in said


def test_errors_name_the_file(tmp_path):
    write(tmp_path / "train.csv", *planted(60))
    train = ["train", tmp_path / "train.csv", *COLUMNS, "--model", tmp_path / "model", "--vectors"]
    code, _, said = run(*train, tmp_path / "nowhere")
    assert code != 0
    assert "nowhere" in said
    (tmp_path / "vectors.txt").write_text("a 1 2\nb 1\n")
    code, _, said = run(*train, tmp_path / "vectors.txt")
    assert code != 0
    assert "vectors.txt, line 2: expected a word and 2 numbers" in said


def test_points_take_no_vectors(tmp_path):
    (tmp_path / "points.txt").write_text("0 0:1\n1 1:1\n" * 9)
    code, _, said = run("train", tmp_path / "points.txt", "--model", tmp_path / "m", "--vectors", "wordllama")
    assert code == 2
    assert "--vectors: is for text" in said
