"""The command line on trees: from files of points to a `TreeClassifier`, and from that to answers."""

from __future__ import annotations

import json
import random
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparsenet import ExtremeClassifier, TreeClassifier, kernels, metrics, storage
from sparsenet.data import read_xmc
from sparsenet.engines.tree import train_levels
from sparsenet.engines.tree.level_checkpoint import LevelCheckpoint
from tests.support.command_line import N_FEATURES, N_LABELS, fails, files, press_ctrl_c_in, run, write_xmc

#: More than the nodes of one level take.
MANY = 100


def train(data: Path, model: Path, *options: object) -> dict[str, Any]:
    done = run("train", data, "--model", model, "--method", "tree", "--json", *options)
    return json.loads(done.stdout)


def refused(*arguments: object) -> str:
    """Return the reason for a refused option, without the frame around it."""
    return " ".join(fails(*arguments, status=2).replace("│", " ").split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tree")
    write_xmc(path / "train.txt", 600, seed=1)
    write_xmc(path / "test.txt", 200, seed=2)
    return path


@pytest.fixture(scope="module")
def summary(folder: Path) -> dict[str, Any]:
    return train(folder / "train.txt", folder / "model")


@pytest.fixture(scope="module")
def model(folder: Path, summary: dict[str, Any]) -> Path:
    assert not summary["interrupted"]
    return folder / "model"


class TestTrain:
    def test_json_summary_describes_data_and_model(self, summary: dict[str, Any], model: Path) -> None:
        assert (summary["points"], summary["features"], summary["labels"]) == (600, N_FEATURES, N_LABELS)
        assert (summary["validation"], summary["model"], summary["saved"]) == (None, str(model), True)
        assert summary["model_bytes"] == sum(map(len, files(model).values()))
        assert "epochs" not in summary, "each node has its own"
        assert min(summary["seconds"], summary["cpu_seconds"], summary["threads"]) > 0
        assert not model.with_name("model.checkpoint").exists()

    def test_resumes_after_the_trained_levels(
        self, folder: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def saving(*given: Any) -> None:
            save(*given)
            raise KeyboardInterrupt

        arguments = "train", folder / "train.txt", "--model", tmp_path / "m", "--method", "tree"
        save = LevelCheckpoint.save
        with monkeypatch.context() as patch:
            patch.setattr(LevelCheckpoint, "save", saving)
            said = run(*arguments, status=130).stderr
        assert "no model is saved; --resume continues the run" in said
        with monkeypatch.context() as patch:
            patch.setattr(train_levels, "_train_levels", None)
            run(*arguments, "--resume")
        assert files(tmp_path / "m") == files(model)
        assert [path.name for path in tmp_path.iterdir()] == ["m"], "the checkpoint is gone"

    def test_training_continues_without_a_default_checkpoint(self, folder: Path, model: Path, tmp_path: Path) -> None:
        (tmp_path / "m.checkpoint").touch()
        arguments = "train", folder / "train.txt", "--model", tmp_path / "m", "--method", "tree"
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            said = run(*arguments).stderr
        assert said.count("training continues without a checkpoint: ") == 1
        assert files(tmp_path / "m") == files(model)
        assert "is a file" in fails(*arguments, "--checkpoint")

    def test_a_cache_gives_the_same_model(self, folder: Path, model: Path, tmp_path: Path) -> None:
        for _ in range(2):
            train(folder / "train.txt", tmp_path / "model", "--cache", tmp_path / "cache")
            assert files(tmp_path / "model") == files(model)
        assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".points"]

    def test_an_impossible_cache_is_named_in_one_line(self, folder: Path, tmp_path: Path) -> None:
        arguments = "train", folder / "train.txt", "--model", tmp_path / "m", "--method", "tree"
        said = fails(*arguments, "--cache", folder / "train.txt" / "cache")
        assert said.startswith("sparsenet: error: Not a directory: train.txt")

    def test_text_summary_shows_data_and_validation(self, folder: Path, tmp_path: Path) -> None:
        valid = ("--valid", folder / "test.txt")
        said = run("train", folder / "train.txt", "--model", tmp_path / "m", "--method", "tree", *valid).stdout
        lines = said.splitlines()
        assert lines[0] == "600 points, 60 features, 20 labels; normalize=rows"
        assert " CPU s, " in lines[1]
        assert "epoch" not in said
        assert [word for word in lines[2].split() if word.startswith("P@")] == ["P@1", "P@3", "P@5"]
        assert lines[3].startswith(f"{tmp_path / 'm'}: ")

    def test_settings_reach_the_tree(self, folder: Path, tmp_path: Path) -> None:
        options = ("--cost", 2, "--epochs", 3, "--beam", 4, "--seed", 7, "--threads", 1, "--valid", folder / "test.txt")
        assert train(folder / "train.txt", tmp_path / "m", *options)["threads"] == 1
        found = TreeClassifier.load(tmp_path / "m")
        assert (found.cost, found.epochs, found.beam, found.random_state) == (2.0, 3, 4, 7)
        assert found.n_jobs is None, "threads are the machine's, not the model's"

    def test_validation_scores_equal_those_of_evaluate(self, folder: Path, tmp_path: Path) -> None:
        found = train(folder / "train.txt", tmp_path / "m", "--valid", folder / "test.txt")["validation"]
        scores = json.loads(run("evaluate", tmp_path / "m", folder / "test.txt", "--json").stdout)
        assert found == {name: scores[name] for name in ("P@1", "P@3", "P@5")}
        assert found["P@1"] > 0.95

    def test_blend_is_the_default_for_points(self, folder: Path, tmp_path: Path) -> None:
        options = ("--hidden", 0, "--epochs", 1)
        run("train", folder / "train.txt", "--model", tmp_path / "a", *options)
        run("train", folder / "train.txt", "--model", tmp_path / "b", *options, "--method", "blend")
        assert files(tmp_path / "a") == files(tmp_path / "b")
        run("train", folder / "train.txt", "--model", tmp_path / "c", *options, "--method", "network")
        assert ExtremeClassifier.load(tmp_path / "c").epochs == 1

    def test_tree_and_network_replace_each_other(self, folder: Path, tmp_path: Path) -> None:
        options = (folder / "train.txt", "--model", tmp_path / "m")
        for method, kind in (("tree", "TreeClassifier"), ("network", "ExtremeClassifier"), ("tree", "TreeClassifier")):
            run("train", *options, "--method", method, "--epochs", 1)
            assert json.loads(run("info", tmp_path / "m", "--json").stdout)["kind"] == kind
            assert len(files(tmp_path / "m")) == 2

    def test_labels_may_be_names(self, tmp_path: Path) -> None:
        path = tmp_path / "train.svm"
        path.write_text("-1 1:1 3:0.5\n+1 2:1\n" * 20)
        (tmp_path / "valid.svm").write_text("-1 1:1\n5 3:1\n")  # 5 is new, and only missed
        assert train(path, tmp_path / "m", "--valid", tmp_path / "valid.svm")["validation"]["P@1"] == 0.5
        done = run("predict", tmp_path / "m", "--k", 1, "--format", "jsonl", stdin="0 1:1\n0 2:1\n")
        assert [json.loads(line)["labels"] for line in done.stdout.splitlines()] == [[-1], [1]]

    def test_unused_features_are_counted(self, tmp_path: Path) -> None:
        (tmp_path / "train.svm").write_text("0 1:1\n1 2:1\n" * 5)
        train(tmp_path / "train.svm", tmp_path / "m", "--features", 9)
        assert TreeClassifier.load(tmp_path / "m").n_features_in_ == 9

    @pytest.mark.parametrize("method", [("--method", "tree"), ("--no-network",)], ids=" ".join)
    def test_model_is_saved_once_and_never_loaded(
        self, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: tuple[str, ...]
    ) -> None:
        saved, save = [], storage.save
        monkeypatch.setattr(storage, "save", lambda *own: saved.append(own[0]) or save(*own))
        monkeypatch.setattr(storage, "load_as", None)
        run(
            "train",
            folder / "train.txt",
            "--model",
            tmp_path / "m",
            *method,
            "--valid",
            folder / "test.txt",
            "--no-checkpoint",
        )
        assert saved == [tmp_path / "m"]


class TestUse:
    def test_evaluate_measures_the_saved_tree(self, folder: Path, model: Path) -> None:
        scores = json.loads(run("evaluate", model, folder / "test.txt", "--k", "1,2", "--json").stdout)
        held = read_xmc(folder / "test.txt")
        ranked = TreeClassifier.load(model).predict_topk(held.X, N_LABELS)
        for k in (1, 2):
            assert scores[f"P@{k}"] == pytest.approx(metrics.precision_at_k(held.Y, ranked, k))
        assert scores["P@1"] > 0.95
        assert (scores["points"], scores["recall@100"]) == (200, 1.0)
        assert "nDCG" in run("evaluate", model, folder / "test.txt").stdout

    def test_predict_gives_the_answers_of_topk(self, folder: Path, model: Path) -> None:
        done = run("predict", model, folder / "test.txt", "--k", 3, "--format", "jsonl", "--batch-size", 64)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        labels, probabilities = TreeClassifier.load(model).topk_numbers(read_xmc(folder / "test.txt").X, 3)
        assert [row["labels"] for row in rows] == labels.tolist()
        np.testing.assert_allclose([row["probabilities"] for row in rows], probabilities, rtol=1e-5)

    def test_predict_leaves_out_improbable_labels(self, folder: Path, model: Path) -> None:
        rows = run("predict", model, folder / "test.txt", "--threshold", 0.5).stdout.splitlines()
        probabilities = [float(answer.split(":")[1]) for row in rows for answer in row.split("\t") if answer]
        assert len(rows) == 200
        assert min(probabilities) >= 0.5

    def test_threshold_gives_the_answers_of_predict(self, folder: Path, model: Path) -> None:
        held, tree = read_xmc(folder / "test.txt"), TreeClassifier.load(model)
        lowest = float(tree.topk_numbers(held.X, 1)[1][0, 0])  # labels of exactly this probability are kept
        asked = ["--k", N_LABELS, "--threshold", repr(lowest), "--format", "jsonl"]
        done = run("predict", model, folder / "test.txt", *asked)
        rows = [sorted(json.loads(line)["labels"]) for line in done.stdout.splitlines()]
        assert rows == [own.nonzero()[0].tolist() for own in tree.predict(held.X, threshold=lowest).toarray()]
        assert rows[0]

    def test_exclude_seen_leaves_out_known_items(self, tmp_path: Path) -> None:
        (tmp_path / "train.txt").write_text("8 4 4\n" + "1 0:1\n0 1:1\n3 2:1\n2 3:1\n" * 2)
        train(tmp_path / "train.txt", tmp_path / "m")
        done = run("predict", tmp_path / "m", tmp_path / "train.txt", "--exclude-seen", "--format", "jsonl")
        answers = [json.loads(line)["labels"] for line in done.stdout.splitlines()]
        assert [answer[0] for answer in answers] == [1, 0, 3, 2] * 2
        assert all(sorted([seen, *answer]) == [0, 1, 2, 3] for seen, answer in enumerate(answers[:4]))

    def test_points_with_more_features_are_refused(self, model: Path) -> None:
        said = fails("predict", model, stdin=f"1 {N_FEATURES + 5} {N_LABELS}\n0 {N_FEATURES}:1\n")
        assert f"{N_FEATURES}" in said


class TestInfo:
    def test_info_describes_a_tree(self, tmp_path: Path) -> None:
        rng = random.Random(0)
        rows = [f"{label} {label}:1 {MANY + rng.randrange(MANY)}:0.5" for label in range(MANY) for _ in range(3)]
        (tmp_path / "train.svm").write_text("\n".join(rows) + "\n")
        train(tmp_path / "train.svm", tmp_path / "m", "--cost", 1, "--features", 2 * MANY)
        found = json.loads(run("info", tmp_path / "m", "--json").stdout)
        levels = TreeClassifier.load(tmp_path / "m")._fitted.levels
        assert (found["kind"], found["labels"], found["features"]) == ("TreeClassifier", MANY, 2 * MANY)
        assert (found["points"], found["precision"], found["validation"]) == (3 * MANY, "8 bits", None)
        assert found["levels"] == [1, 7], "a node for each 16 labels, and one above them"
        assert found["weights"] == sum(level.weights.size + level.bias.size for level in levels)
        assert found["bytes"] == sum(map(len, files(tmp_path / "m").values()))
        assert (found["settings"]["cost"], found["chosen"]) == (1.0, {"normalize": "rows"})
        lines = dict(line.split(maxsplit=1) for line in run("info", tmp_path / "m").stdout.splitlines())
        assert lines["levels"] == "1 node > 7 nodes"
        assert lines["settings"] == "cost=1.0, random_state=0"
        assert lines["weights"] == f"{found['weights']} of 8 bits"

    def test_damaged_tree_is_refused(self, model: Path, tmp_path: Path) -> None:
        shutil.copytree(model, tmp_path / "m")
        data = next((tmp_path / "m").glob("arrays-*"))
        data.write_bytes(data.read_bytes()[:-1])
        for command in ("info", "predict", "evaluate"):
            arguments = (tmp_path / "m",) if command == "info" else (tmp_path / "m", tmp_path / "none.txt")
            assert "the file is damaged" in fails(command, *arguments)


class TestRefused:
    @pytest.mark.parametrize(
        ("option", "said"),
        [
            (["--hidden", 8], "--hidden: has no effect on a tree: it is for --method blend or network"),
            (["--batch-size", 8], "--batch-size: has no effect on a tree: it is for --method blend or network"),
            (["--learning-rate", 0.1], "--learning-rate: has no effect on a tree: it is for --method blend or network"),
            (["--negatives", 8], "--negatives: has no effect on a tree: it is for --method blend or network"),
            (["--wide-budget", 8], "--wide-budget: has no effect on a tree: it is for --method blend or network"),
            (["--sampler", "random"], "--sampler: has no effect on a tree: it is for --method blend or network"),
            (["--loss", "bce"], "--loss: has no effect on a tree: it is for --method blend or network"),
            (["--patience", 3], "--patience: has no effect on a tree: it is for --method network"),
            (["--time-budget", 3], "--time-budget: has no effect on a tree: it is for --method blend or network"),
            (["--compact"], "--compact: the weights of a tree already have 8 bits"),
            (["--word-ngrams", 2], "--word-ngrams: is for text, and this file holds sparse points"),
            (["--format", "csv"], "a tree is for sparse points, and this file holds text"),
            (["--text", "review"], "a tree is for sparse points, and this file holds text"),
        ],
    )
    def test_options_without_effect_on_a_tree_are_refused(
        self, folder: Path, tmp_path: Path, option: list[object], said: str
    ) -> None:
        arguments = ("train", folder / "train.txt", "--model", tmp_path / "m", "--method", "tree", *option)
        assert said in refused(*arguments)
        assert not (tmp_path / "m").exists()

    def test_methods_for_other_data_are_refused(self, folder: Path, tmp_path: Path) -> None:
        model = ("--model", tmp_path / "m", "--method")
        for method in ("linear", "auto"):
            said = refused("train", folder / "train.txt", *model, method)
            assert f"{method} is for text, and this file holds sparse points: choose blend, network or tree" in said
        (tmp_path / "texts.csv").write_text("text,label\none,a\ntwo,b\n")
        said = refused("train", tmp_path / "texts.csv", *model, "tree")
        assert "--method: a tree is for sparse points, and this file holds text" in said

    def test_blend_options_are_refused_for_other_methods(self, folder: Path, tmp_path: Path) -> None:
        network = ("train", folder / "train.txt", "--model", tmp_path / "m", "--method", "network")
        said = refused(*network, "--neighbors", 1)
        assert "--neighbors: has no effect on a network: it is for --method blend" in said
        said = refused("train", folder / "train.txt", "--model", tmp_path / "m", "--method", "tree", "--candidates", 1)
        assert "--candidates: has no effect on a tree: it is for --method blend" in said

    def test_options_of_one_method_are_refused_for_another(self, folder: Path, tmp_path: Path) -> None:
        points = ("train", folder / "train.txt", "--model", tmp_path / "m")
        said = refused(*points, "--method", "network", "--cost", 1)
        assert "--cost: has no effect on a network: it is for --method blend or tree" in said
        assert "--patience: has no effect on a blend: it is for --method network" in refused(*points, "--patience", 1)
        said = refused(*points, "--word-ngrams", 2)
        assert "--word-ngrams: is for text, and this file holds sparse points" in said

    def test_no_checkpoint_is_accepted_for_trees(self, folder: Path, tmp_path: Path) -> None:
        train(folder / "train.txt", tmp_path / "m", "--no-checkpoint")
        assert (tmp_path / "m").exists()

    def test_tree_is_not_compressed(self, model: Path) -> None:
        before = files(model)
        said = refused("compress", model, "--max-bytes", "1MB")
        assert "is a tree, whose weights already have 8 bits" in said
        assert files(model) == before

    def test_text_is_refused_as_points(self, model: Path) -> None:
        assert "csv is for text models, and this is a model of sparse points" in refused(
            "predict", model, "--input-format", "csv"
        )

    @pytest.mark.parametrize("file", ["train", "valid"])
    def test_wrong_file_keeps_the_old_model(self, folder: Path, tmp_path: Path, file: str) -> None:
        train(folder / "train.txt", tmp_path / "m")
        before = files(tmp_path / "m")
        (tmp_path / "bad.txt").write_text(f"2 {N_FEATURES} {N_LABELS}\n0 0:1\n{N_LABELS} 0:1\n")
        data, valid = (tmp_path / "bad.txt", "train.txt") if file == "train" else (folder / "train.txt", "bad.txt")
        more = ("--valid", tmp_path / valid) if file == "valid" else ()
        said = fails("train", data, "--model", tmp_path / "m", "--method", "tree", "--cost", 3, *more)
        assert "bad.txt, line 3: label 20 is out of range" in said
        assert files(tmp_path / "m") == before


@pytest.mark.parametrize(
    ("where", "said", "kept"),
    [
        ("training", "no model is saved, {} stays as it was", True),
        ("measuring", "the model {} is saved, and was not measured", False),
    ],
)
def test_ctrl_c_saves_no_unfinished_tree(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, said: str, kept: bool
) -> None:
    train(folder / "train.txt", tmp_path / "m")
    before = files(tmp_path / "m")

    press_ctrl_c_in(monkeypatch, *((kernels, "train_nodes") if where == "training" else (metrics, "precision_at_k")))
    arguments = ("--method", "tree", "--cost", 3, "--valid", folder / "test.txt")
    done = run("train", folder / "train.txt", "--model", tmp_path / "m", *arguments, status=130)
    assert done.stderr == f"sparsenet: interrupted: {said.format(tmp_path / 'm')}\n"
    assert done.stdout == ""
    assert (files(tmp_path / "m") == before) == kept
