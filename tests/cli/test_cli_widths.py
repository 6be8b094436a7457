"""Files whose header announces less than a model knows: they cause a warning, but no error."""

from io import BytesIO
from pathlib import Path

import pytest

from sparsenet.data import iter_batches, read
from tests.support.command_line import fails, run

HEADER = "2 6 4\n"
FEWER_FEATURES = "warning: {}, line 1: the header announces 5 features, {} 6: is this the right file?"
FEWER_LABELS = "warning: {}, line 1: the header announces 3 labels, {} 4: is this the right file?"


def write(path: Path, header: str) -> Path:
    path.write_text(f"{header}0,1 0:1 4:1\n2 3:1\n")
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    run("train", write(tmp_path / "train.txt", HEADER), "--model", tmp_path / "m", "--method", "tree")
    return tmp_path / "m"


def test_evaluate_and_predict_warn_of_narrow_headers(model: Path, tmp_path: Path) -> None:
    features, labels = FEWER_FEATURES.format("{}", "the model has"), FEWER_LABELS.format("{}", "the model has")
    narrow = write(tmp_path / "narrow.txt", "2 5 3\n")
    said = run("evaluate", model, narrow).stderr
    assert said == f"sparsenet: {features.format(narrow)}\nsparsenet: {labels.format(narrow)}\n"
    done = run("predict", model, narrow)
    assert done.stderr == f"sparsenet: {features.format(narrow)}\n", "labels are not read"
    assert len(done.stdout.splitlines()) == 2
    assert run("predict", model, stdin="1 5 0\n 0:1\n").stderr == f"sparsenet: {features.format('<stdin>')}\n"


def test_equal_headers_and_svmlight_do_not_warn(model: Path, tmp_path: Path) -> None:
    for name, header in (("same.txt", HEADER), ("none.svm", "")):
        path = write(tmp_path / name, header)
        assert run("evaluate", model, path).stderr == run("predict", model, path).stderr == ""
    assert "the header announces 7 features, but at most 6" in fails("evaluate", model, "-", stdin="1 7 4\n0 0:1\n")


def test_validation_header_is_compared_with_training_points(tmp_path: Path) -> None:
    train, valid = write(tmp_path / "train.txt", HEADER), write(tmp_path / "valid.txt", "2 5 3\n")
    said = run("train", train, "--model", tmp_path / "m", "--method", "tree", "--valid", valid).stderr
    for words in (FEWER_FEATURES, FEWER_LABELS):
        assert words.format(valid, "the training points have") in said
    assert run("train", train, "--model", tmp_path / "m", "--method", "tree", "--features", 9).stderr == ""


@pytest.mark.parametrize("how", ["whole", "batches"])
def test_readers_report_the_header(how: str) -> None:
    headers: list[tuple[str, int, int]] = []

    def tell(*announced: object) -> None:
        headers.append(announced)

    for text in (b"1 5 3\n0 0:1\n", b"0 0:1\n"):
        if how == "whole":
            read(BytesIO(text), on_header=tell)
        else:
            list(iter_batches(BytesIO(text), batch_rows=1, n_features=6, n_labels=4, on_header=tell))
    assert [(n_features, n_labels) for _, n_features, n_labels in headers] == [(5, 3)]
