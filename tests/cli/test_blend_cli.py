"""The command line on blends: from files of points to a `BlendClassifier`, and from that to answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparsenet
from sparsenet import BlendClassifier, kernels, metrics
from sparsenet.data import read_xmc
from tests.support.command_line import N_FEATURES, N_LABELS, fails, files, press_ctrl_c_in, run, write_xmc
from tests.support.interrupting import interrupted_in

SMALL = ("--hidden", 16, "--epochs", 8)


def train(data: Path, model: Path, *options: object) -> dict[str, Any]:
    done = run("train", data, "--model", model, "--method", "blend", "--json", *options)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("blend")
    write_xmc(path / "train.txt", 600, seed=1)
    write_xmc(path / "test.txt", 200, seed=2)
    return path


@pytest.fixture(scope="module")
def model(folder: Path) -> Path:
    train(folder / "train.txt", folder / "model", *SMALL, "--batch-size", 16)
    return folder / "model"


def test_settings_reach_the_parts_of_a_blend(folder: Path, tmp_path: Path) -> None:
    options: tuple[Any, ...] = (*SMALL, "--cost", 2, "--seed", 7, "--threads", 1, "--negatives", 9)
    options += ("--beam", 7, "--candidates", 20, "--neighbors", 11)
    summary = train(folder / "train.txt", tmp_path / "m", *options)
    assert (summary["points"], summary["features"], summary["labels"]) == (600, N_FEATURES, N_LABELS)
    assert (summary["epochs"], summary["threads"], summary["saved"], summary["interrupted"]) == (8, 1, True, False)
    assert summary["model_bytes"] == sum(map(len, files(tmp_path / "m").values()))
    found = BlendClassifier.load(tmp_path / "m")
    assert (found.random_state, found.tree.cost) == (7, 2.0)
    assert found.n_jobs is found.tree_.n_jobs is found.network_.n_jobs is None, "threads are the machine's"
    assert (found.network.hidden, found.network.epochs, found.network.n_negatives) == (16, 8, 9)
    assert (found.tree_.cost, found.network_.n_iter_) == (2.0, 8)
    assert (found.tree.beam, found.candidates, found.n_neighbors) == (7, 20, 11)


def test_without_settings_the_parts_have_defaults(folder: Path, tmp_path: Path) -> None:
    train(folder / "train.txt", tmp_path / "m")
    found = BlendClassifier.load(tmp_path / "m")
    assert (found.network, found.tree, found.random_state) == (None, None, 0)
    assert run("info", tmp_path / "m").stdout.splitlines()[-1].split(maxsplit=1)[1] == "random_state=0"


@pytest.mark.parametrize("method", [["--method", "tree"], ["--method", "network"], ["--no-network"]], ids=" ".join)
def test_scaling_is_detected_and_reported_unless_given(tmp_path: Path, method: list[str]) -> None:
    rng = np.random.default_rng(0)
    kinds, amounts = rng.integers(0, 40, 300), rng.normal(5000, 400, 300)
    rows = [f"{kind % 4} 0:{amount:.1f} {kind + 1}:1" for kind, amount in zip(kinds, amounts, strict=True)]
    (tmp_path / "train.svm").write_text("\n".join(rows) + "\n")
    for said, expected in (([], "mixed"), (["--normalize", "auto"], "mixed"), (["--normalize", "rows"], "rows")):
        arguments = ("train", tmp_path / "train.svm", "--model", tmp_path / "m", "--epochs", 9, *method, *said)
        assert run(*arguments).stdout.splitlines()[0] == f"300 points, 41 features, 4 labels; normalize={expected}"
        about = json.loads(run("info", tmp_path / "m", "--json").stdout)
        assert about["chosen"]["normalize"] == sparsenet.load(tmp_path / "m").normalize_ == expected


def test_blend_without_a_network(folder: Path, tmp_path: Path) -> None:
    options = ("--no-network", "--epochs", 3, "--cost", 2, "--valid", folder / "test.txt")
    summary = train(folder / "train.txt", tmp_path / "m", *options)
    assert "epochs" not in summary
    found, held = BlendClassifier.load(tmp_path / "m"), read_xmc(folder / "test.txt")
    assert (found.network, found.network_, found.tree.epochs, found.tree.cost) == ("drop", None, 3, 2.0)
    assert summary["validation"]["P@1"] == pytest.approx(found.score(held.X, held.Y))
    about = json.loads(run("info", tmp_path / "m", "--json").stdout)
    assert about["chosen"]["neighbors"].keys() == {"index", "rarity", "power", "max_comparisons"}
    assert (about["precision"], about["settings"]["network"]) == ("8 bits", "drop")
    assert "network=drop" in run("info", tmp_path / "m").stdout.splitlines()[-1]
    measured = json.loads(run("evaluate", tmp_path / "m", folder / "test.txt", "--json").stdout)
    assert measured["P@1"] == summary["validation"]["P@1"]
    assert len(run("predict", tmp_path / "m", folder / "test.txt").stdout.splitlines()) == 200


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--method", "blend", "--no-network", "--hidden", 8],
            "--hidden: is for the network, which --no-network leaves",
        ),
        (
            ["--method", "blend", "--no-network", "--negatives", 8],
            "--negatives: is for the network, which --no-network",
        ),
        (
            ["--method", "blend", "--no-network", "--neighbors", 0],
            "--neighbors: 0 and --no-network leave only the tree",
        ),
        (["--method", "tree", "--no-network"], "--network and --no-network are for --method blend"),
        (["--method", "network", "--no-network"], "--network and --no-network are for --method blend"),
    ],
)
def test_options_of_the_network_are_refused_with_no_network(
    folder: Path, tmp_path: Path, options: list[object], said: str
) -> None:
    found = fails("train", folder / "train.txt", "--model", tmp_path / "m", *options, status=2)
    assert said in " ".join(found.replace("│", " ").split())
    assert not (tmp_path / "m").exists()


def test_ctrl_c_without_a_network_saves_nothing(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    press_ctrl_c_in(monkeypatch, kernels, "nearest_points")
    arguments = ("train", folder / "train.txt", "--model", tmp_path / "m", "--method", "blend", "--no-network")
    assert run(*arguments, status=130).stderr.endswith("interrupted: no model is saved; --resume continues the run\n")
    assert not (tmp_path / "m").exists()


def test_validation_scores_equal_those_of_evaluate(folder: Path, tmp_path: Path) -> None:
    found = train(folder / "train.txt", tmp_path / "m", "--valid", folder / "test.txt")["validation"]
    scores = json.loads(run("evaluate", tmp_path / "m", folder / "test.txt", "--json").stdout)
    assert found == {name: scores[name] for name in ("P@1", "P@3", "P@5")}
    assert found["P@1"] > 0.95


def test_predict_gives_the_answers_of_topk(folder: Path, model: Path) -> None:
    done = run("predict", model, folder / "test.txt", "--k", 3, "--format", "jsonl", "--batch-size", 64)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    labels, probabilities = BlendClassifier.load(model).topk_numbers(read_xmc(folder / "test.txt").X, 3)
    assert [row["labels"] for row in rows] == labels.tolist()
    np.testing.assert_allclose([row["probabilities"] for row in rows], probabilities, rtol=1e-4)


def test_evaluate_measures_the_answers_of_predict(folder: Path, model: Path, tmp_path: Path) -> None:
    found = BlendClassifier.load(model).set_params(candidates=4)
    found.save(tmp_path / "m")
    X = read_xmc(folder / "test.txt").X
    named, deep = found.topk_numbers(X, 4)[0], found.topk_numbers(X, N_LABELS)[0]
    assert (named != deep[:, :4]).any(), "a larger k considers more labels"
    header, *rows = (folder / "test.txt").read_text().splitlines()
    rows = [f"{label} {row.partition(' ')[2]}" for label, row in zip(named[:, 3], rows, strict=True)]
    (tmp_path / "test.txt").write_text("\n".join([header, *rows]) + "\n")
    scores = json.loads(run("evaluate", tmp_path / "m", tmp_path / "test.txt", "--k", "3,4", "--json").stdout)
    assert (scores["P@3"], scores["P@4"], scores["recall@100"]) == (0, 0.25, 1)


def test_compact_changes_nothing_about_a_blend(folder: Path, model: Path, tmp_path: Path) -> None:
    train(folder / "train.txt", tmp_path / "m", *SMALL, "--batch-size", 16, "--compact")
    whole, small = (json.loads(run("info", path, "--json").stdout) for path in (model, tmp_path / "m"))
    assert small["bytes"] == whole["bytes"]
    assert whole["precision"] == small["precision"] == "8 and 16 bits; tree: 8 bits"


def test_info_describes_a_blend(model: Path) -> None:
    found = json.loads(run("info", model, "--json").stdout)
    assert (found["kind"], found["labels"], found["features"], found["points"]) == (
        *("BlendClassifier", N_LABELS, N_FEATURES),
        600,
    )
    fitted = BlendClassifier.load(model)
    levels, parameters = fitted.tree_._fitted.levels, fitted.network_.network_.parameters()
    in_tree = sum(int(level.weights.size + level.bias.size) for level in levels)
    assert found["weights"] == in_tree + sum(int(each.value.size) for each in parameters)
    assert found["chosen"]["epochs"] == 8
    assert found["chosen"]["neighbors"].keys() == {"index", "rarity", "power", "max_comparisons"}
    assert found["settings"]["network__hidden"] == 16
    lines = run("info", model).stdout.splitlines()
    assert lines[-1].split(maxsplit=1)[1] == (
        "random_state=0, network__batch_size=16, network__epochs=8, network__hidden=16"
    )


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--patience", 3], "--patience: has no effect on a blend: it is for --method network"),
        (["--word-ngrams", 3], "--word-ngrams: is for text"),
    ],
)
def test_options_without_effect_on_a_blend_are_refused(
    folder: Path, tmp_path: Path, option: list[object], said: str
) -> None:
    arguments = ("train", folder / "train.txt", "--model", tmp_path / "m", "--method", "blend", *option)
    assert said in " ".join(fails(*arguments, status=2).replace("│", " ").split())
    assert not (tmp_path / "m").exists()


def test_options_of_sparse_blends_are_refused_for_texts(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("text,label\none,a\ntwo,b\n")
    arguments = ("train", tmp_path / "texts.csv", "--model", tmp_path / "m", "--method", "blend", "--neighbors", 3)
    said = fails(*arguments, status=2)
    assert "has no effect on a text model" in " ".join(said.replace("│", " ").split())


def test_memory_advice_names_options(folder: Path, tmp_path: Path) -> None:
    arguments = ("train", folder / "train.txt", "--model", tmp_path / "m", "--no-checkpoint", "--hidden", 4096)
    said = fails(*arguments, "--memory-limit", "500kB")
    assert "lower --hidden (the deep weights), --wide-budget" in said
    assert "tree" in said
    assert "use fewer points or features" in fails(*arguments, "--memory-limit", "10kB")
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("where", "said", "kept"),
    [
        ("tree", "no model is saved, {} stays as it was", True),
        ("measuring", "the model {} is saved, and was not measured", False),
    ],
)
def test_ctrl_c_outside_network_training_says_what_is_kept(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, said: str, kept: bool
) -> None:
    train(folder / "train.txt", tmp_path / "m", *SMALL)
    before = files(tmp_path / "m")

    press_ctrl_c_in(monkeypatch, *((kernels, "train_nodes") if where == "tree" else (metrics, "precision_at_k")))
    arguments = ("--method", "blend", *SMALL, "--cost", 3, "--valid", folder / "test.txt")
    done = run("train", folder / "train.txt", "--model", tmp_path / "m", *arguments, status=130)
    assert done.stderr.endswith(f"sparsenet: interrupted: {said.format(tmp_path / 'm')}\n")
    assert done.stdout == ""
    assert (files(tmp_path / "m") == before) == kept


def test_ctrl_c_saves_the_network_so_far(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted_in(monkeypatch, epoch=20)
    arguments = (
        "--method",
        "blend",
        "--hidden",
        16,
        "--epochs",
        50,
        "--batch-size",
        16,
        "--valid",
        folder / "test.txt",
    )
    done = run("train", folder / "train.txt", "--model", tmp_path / "m", *arguments, status=130)
    assert "interrupted: saving what is trained so far" in done.stderr
    assert done.stdout.splitlines()[1].startswith("20 epochs, interrupted in ")
    found = BlendClassifier.load(tmp_path / "m")
    held = read_xmc(folder / "test.txt")
    assert found.score(held.X, held.Y) > 0.8
    assert found.network_.n_iter_ == 20


def test_ctrl_c_in_the_first_epoch_keeps_the_old_model(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted_in(monkeypatch, epoch=0)
    arguments = ("train", folder / "train.txt", "--model", tmp_path / "m", "--method", "blend", *SMALL)
    done = run(*arguments, status=130)
    said = "interrupted: saving the tree and the neighbors, without a network"
    assert said in done.stderr, "where there is no model, a tree is better than nothing"
    before = files(tmp_path / "m")
    done = run(*arguments, "--cost", 3, status=130)
    assert f"interrupted in the first epoch: the model {tmp_path / 'm'} stays as it was" in done.stderr
    assert files(tmp_path / "m") == before


def test_resume_without_a_checkpoint_is_reported(folder: Path, tmp_path: Path) -> None:
    done = run("train", folder / "train.txt", "--model", tmp_path / "m", *SMALL, "--resume")
    assert f"there is no {tmp_path / 'm'}.checkpoint to resume from: training starts from the beginning" in done.stderr


def test_evaluate_refuses_points_without_labels(folder: Path, tmp_path: Path) -> None:
    train(folder / "train.txt", tmp_path / "m", "--no-network")
    header, first = (folder / "test.txt").read_text().splitlines()[:2]
    (tmp_path / "none.txt").write_text("1 " + header.split(maxsplit=1)[1] + "\n" + first[first.index(" ") :] + "\n")
    done = run("evaluate", tmp_path / "m", tmp_path / "none.txt", status=1)
    assert "none.txt: holds no labels, so there is nothing to measure" in done.stderr


@pytest.mark.filterwarnings("always:time_budget leaves too little:UserWarning")
def test_time_budget_covers_the_whole_blend(folder: Path, tmp_path: Path) -> None:
    summary = train(folder / "train.txt", tmp_path / "short", "--time-budget", 0.001)
    assert not summary["network"]
    assert "epochs" not in summary
    done = run("train", folder / "train.txt", "--model", tmp_path / "short", "--time-budget", 0.001)
    assert done.stderr.startswith("sparsenet: warning: --time-budget leaves too little for a network, so there is")
    assert done.stderr.count("\n") == 1
    assert BlendClassifier.load(tmp_path / "short").network_ is None
    assert json.loads(run("info", tmp_path / "short", "--json").stdout)["chosen"]["network"] == "none"
    assert "200 points" in run("evaluate", tmp_path / "short", folder / "test.txt").stdout
    summary = train(folder / "train.txt", tmp_path / "long", "--time-budget", 100, *SMALL)
    assert summary["epochs"] == 8
    assert BlendClassifier.load(tmp_path / "long").time_budget == 100
    assert "network" not in json.loads(run("info", tmp_path / "long", "--json").stdout)["chosen"]
