import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
import typer

from sparsenet import load, metrics
from sparsenet.cli import option_values
from sparsenet.data import read_xmc
from sparsenet.engines.network.model import Network
from tests.support.command_line import N_FEATURES, N_LABELS, command, fails, files, press_ctrl_c_in, run, write_xmc
from tests.support.patience import PATIENCE


def test_progress_is_shown_on_request(folder: Path, tmp_path: Path) -> None:
    train = ["train", folder / "train.txt", "--model", tmp_path / "model", "--threads", 1]
    for method in ("network", "blend"):
        quiet = run(*train, "--method", method)
        assert "epoch" not in quiet.stderr
        plain = files(tmp_path / "model")
        shown = run(*train, "--method", method, "--progress")
        lines = shown.stderr.splitlines()
        assert "\r" not in shown.stderr
        assert len(lines) == len(set(lines))
        assert (
            [line for line in lines if line.startswith("epoch")][-1]
            .split(" left, loss ")[0]
            .endswith("100%|##########| 00:00")
        )
        assert files(tmp_path / "model") == plain
        assert run(*train, "--method", method).stderr == quiet.stderr  # the option applies to one run


def test_progress_lines_are_in_order(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparsenet.core.progress.BETWEEN_LINES", 1e-6)
    train = ["train", folder / "train.txt", "--model", tmp_path / "model", "--method", "network", "--batch-size", 32]
    shown = run(*train, "--epochs", 2, "--progress").stderr
    steps = re.findall(r"^epoch (\d)/2 +(\d+)%.* left(?:, loss ([\d.]+))?", shown, re.MULTILINE)
    done = [int(percent) for _, percent, _ in steps]
    assert len(done) > 30
    assert done == sorted(set(done)), "once each"
    assert {epoch for epoch, percent, _ in steps if int(percent) <= 50} == {"1"}
    assert {epoch for epoch, percent, _ in steps if int(percent) > 50} == {"2"}
    assert all(loss for *_, loss in steps[1:])


def test_missing_model_is_reported_before_other_errors(folder: Path, summary: dict[str, Any], tmp_path: Path) -> None:
    assert "no-model" in fails("predict", tmp_path / "no-model", folder / "test.txt", "--threshold", "learnt")
    said = fails("predict", folder / "model", folder / "test.txt", "--threshold", "learnt", status=2)
    assert "has learnt no threshold" in " ".join(said.replace("│", " ").split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli")
    write_xmc(path / "train.txt", 600, seed=1)
    write_xmc(path / "test.txt", 200, seed=2)
    return path


@pytest.fixture(scope="module")
def summary(folder: Path) -> dict[str, Any]:
    done = run("train", folder / "train.txt", "--model", folder / "model", "--hidden", 16, "--epochs", 20, "--json")
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def model(folder: Path, summary: dict[str, Any]) -> Path:
    assert not summary["interrupted"]
    return folder / "model"


class TestTrain:
    def test_json_summary_describes_data_and_model(self, summary: dict[str, Any], model: Path) -> None:
        assert (summary["points"], summary["features"], summary["labels"]) == (600, N_FEATURES, N_LABELS)
        assert (summary["epochs"], summary["validation"], summary["model"]) == (20, None, str(model))
        assert summary["model_bytes"] == sum(map(len, files(model).values()))
        assert summary["backend"] in ("native", "numba")
        assert min(summary["seconds"], summary["cpu_seconds"], summary["threads"]) > 0
        assert not model.with_name("model.checkpoint").exists(), "a completed run needs none"

    def test_text_summary_shows_data_and_validation(self, folder: Path, tmp_path: Path) -> None:
        valid = ("--valid", folder / "test.txt", "--patience", 2, "--method", "network")
        done = run("train", folder / "train.txt", "--model", tmp_path / "m", "--hidden", 0, "--epochs", 20, *valid)
        assert "600 points, 60 features, 20 labels" in done.stdout
        assert "P@1 " in done.stdout

    def test_equal_seeds_give_equal_files_for_any_number_of_threads(self, folder: Path, tmp_path: Path) -> None:
        for name, seed, threads in (("a", 3, 1), ("b", 3, 2), ("c", 4, 2)):
            options = ("--hidden", 8, "--epochs", 3, "--seed", seed, "--threads", threads)
            run("train", folder / "train.txt", "--model", tmp_path / name, *options)
            run("train", folder / "train.txt", "--model", tmp_path / f"net-{name}", *options, "--method", "network")
        arrays = {name: next(iter(files(tmp_path / name))) for name in "abc"}  # named by their content
        assert arrays["a"] == arrays["b"] != arrays["c"]
        assert files(tmp_path / "a") == files(tmp_path / "b")
        assert load(tmp_path / "net-a").n_jobs is load(tmp_path / "net-b").n_jobs is None

    def test_replaces_only_directories_that_hold_a_model(self, folder: Path, tmp_path: Path) -> None:
        train = ("train", folder / "train.txt", "--hidden", 0, "--epochs", 1, "--model")
        run(*train, tmp_path / "model")
        run(*train, tmp_path / "model")
        (tmp_path / "letters").mkdir()
        (tmp_path / "letters" / "dear.txt").write_text("do not lose me")
        assert "dear.txt" in fails(*train, tmp_path / "letters")
        assert files(tmp_path / "letters") == {"dear.txt": b"do not lose me"}
        assert "is a file" in fails(*train, tmp_path / "letters" / "dear.txt")

    def test_svmlight_labels_may_be_names(self, tmp_path: Path) -> None:
        path = tmp_path / "train.svm"
        path.write_text("-1 1:1 3:0.5\n+1 2:1\n" * 20)
        run("train", path, "--model", tmp_path / "m", "--hidden", 4, "--epochs", 100)
        done = run("predict", tmp_path / "m", "--k", 1, "--format", "jsonl", stdin="0 1:1\n0 2:1\n")
        assert [json.loads(line)["labels"] for line in done.stdout.splitlines()] == [[-1], [1]]


def start_training(folder: Path, model: Path, *more: object) -> subprocess.Popen[str]:
    """Start a run and wait until it has saved a state to go on from."""
    arguments = command("train", folder / "train.txt", "--model", model, *more)
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    state = model.with_name(f"{model.name}.checkpoint") / "manifest.json"
    deadline = time.monotonic() + 120 * PATIENCE
    while not state.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert process.poll() is None, process.communicate()
    assert state.exists()
    return process


@pytest.fixture(scope="module", params=["blend", "network"])
def long(request: pytest.FixtureRequest) -> tuple[object, ...]:
    """Return options of a run that is long enough to be interrupted."""
    return "--hidden", 8, "--epochs", 300, "--method", request.param


@pytest.fixture(scope="module")
def uninterrupted(folder: Path, long: tuple[object, ...]) -> dict[str, bytes]:
    run("train", folder / "train.txt", "--model", folder / "whole", *long)
    return files(folder / "whole")


class TestInterruption:
    def test_resume_after_ctrl_c_gives_the_uninterrupted_model(
        self, folder: Path, tmp_path: Path, long: tuple[object, ...], uninterrupted: dict[str, bytes]
    ) -> None:
        model = tmp_path / "model"
        process = start_training(folder, model, *long, "--json")
        process.send_signal(signal.SIGINT)
        started = time.monotonic()
        out, err = process.communicate(timeout=60 * PATIENCE)
        assert time.monotonic() - started < 5 * PATIENCE  # a second on an idle machine
        assert process.returncode == 130
        assert json.loads(out)["interrupted"]
        assert "Traceback" not in err
        assert "200 points" in run("evaluate", model, folder / "test.txt").stdout
        state = tmp_path / "model.checkpoint"
        assert run("info", model).stdout.endswith(f"unfinished  train --resume continues the run in {state}\n")
        run("train", folder / "train.txt", "--model", model, *long, "--resume")
        assert files(model) == uninterrupted
        assert [*tmp_path.iterdir()] == [model]
        assert json.loads(run("info", model, "--json").stdout)["unfinished"] is None
        assert "unfinished" not in run("info", model).stdout

    def test_killed_run_can_be_resumed(
        self, folder: Path, tmp_path: Path, long: tuple[object, ...], uninterrupted: dict[str, bytes]
    ) -> None:
        model = tmp_path / "model"
        process = start_training(folder, model, *long)
        process.kill()
        process.communicate()
        run("train", folder / "train.txt", "--model", model, *long, "--resume")
        assert files(model) == uninterrupted

    def test_checkpoint_of_another_run_is_refused(self, folder: Path, tmp_path: Path, long: tuple[object, ...]) -> None:
        model = tmp_path / "model"
        process = start_training(folder, model, *long)
        process.kill()
        process.communicate()
        other = ("train", folder / "test.txt", "--model", model, *long, "--resume")
        assert "other data or settings" in fails(*other)
        said = fails("train", folder / "train.txt", "--model", model, *long, "--epochs", 7, "--resume")
        assert "this one has --epochs 7; give the same ones" in said
        method = str(long[-1])
        another = "network" if method == "blend" else "blend"
        said = fails("train", folder / "train.txt", "--model", model, *long, "--method", another, "--resume")
        assert f"model.checkpoint was written by --method {method}, and this is --method {another}: resume" in said

    @pytest.fixture
    def ctrl_c(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Send SIGINT in the first training step."""
        press_ctrl_c_in(monkeypatch, Network, "train_step")

    @pytest.mark.usefixtures("ctrl_c")
    def test_untrained_model_does_not_replace_a_model(
        self, folder: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        good = tmp_path / "good"
        shutil.copytree(model, good)
        train = ("train", folder / "train.txt", "--model", good, "--hidden", 8, "--json")
        done = run(*train, status=130)
        assert files(good) == files(model)
        assert (json.loads(done.stdout)["saved"], json.loads(done.stdout)["epochs"]) == (False, 0)
        assert done.stderr.count("\n") == 1
        assert f"the model {good} stays as it was; --resume continues from the checkpoint" in done.stderr
        press_ctrl_c_in(monkeypatch, Network, "train_step")
        assert "--resume" not in run(*train, "--no-checkpoint", status=130).stderr.splitlines()[-1]
        assert files(good) == files(model)

    @pytest.mark.usefixtures("ctrl_c")
    def test_untrained_model_is_saved_if_there_is_no_other(self, folder: Path, tmp_path: Path) -> None:
        done = run("train", folder / "train.txt", "--model", tmp_path / "new", "--json", status=130)
        assert json.loads(done.stdout)["saved"]
        assert "200 points" in run("evaluate", tmp_path / "new", folder / "test.txt").stdout

    def test_killed_run_leaves_no_empty_directory(self, folder: Path, tmp_path: Path) -> None:
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        process = subprocess.Popen(command("train", pipe, "--model", tmp_path / "a" / "m"))
        with open(pipe, "w") as feed:  # opens when the command reads, which is after it has looked at the model
            feed.write("3 5 2\n0 0:1\n")
            feed.flush()
            process.terminate()
            process.wait()
        assert [*tmp_path.iterdir()] == [pipe]

    def test_training_continues_without_a_default_checkpoint(self, folder: Path, tmp_path: Path) -> None:
        (tmp_path / "m.checkpoint").touch()
        train = ("train", folder / "train.txt", "--model", tmp_path / "m", "--hidden", 8, "--epochs", 2)
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            done = run(*train)
        assert done.stderr.count("sparsenet: warning: training continues without a checkpoint: ") == 1
        assert (tmp_path / "m" / "manifest.json").exists()
        assert "is a file" in fails(*train, "--checkpoint")

    def test_compact_model_is_smaller_and_as_accurate(self, folder: Path, tmp_path: Path) -> None:
        train = ("train", folder / "train.txt", "--method", "network", "--hidden", 16, "--epochs", 20)
        run(*train, "--model", tmp_path / "full")
        run(*train, "--model", tmp_path / "small", "--compact")
        paths = tmp_path / "full", tmp_path / "small"
        sizes = [sum(map(len, files(path).values())) for path in paths]
        assert sizes[1] < 0.75 * sizes[0]
        full, small = (json.loads(run("evaluate", path, folder / "test.txt", "--json").stdout) for path in paths)
        assert abs(full["P@1"] - small["P@1"]) < 0.02

    def test_time_budget_ends_training(self, folder: Path, tmp_path: Path) -> None:
        network = ("--method", "network", "--epochs", 10**6)
        train = ("train", folder / "train.txt", "--model", tmp_path / "m", *network, "--json")
        summary = json.loads(run(*train, "--time-budget", 1).stdout)
        assert 1 <= summary["epochs"] < 10**6
        assert "--time-budget" in fails(*train, "--time-budget", 0, status=2)


class TestEvaluate:
    def test_json_holds_every_metric(self, model: Path, folder: Path) -> None:
        scores = json.loads(run("evaluate", model, folder / "test.txt", "--json").stdout)
        ks = (1, 3, 5)
        assert set(scores) == {f"{m}@{k}" for m in ("P", "nDCG", "PSP", "recall") for k in ks} | {
            "recall@100", "seconds", "points", "true_labels", "unknown_labels"
        }  # fmt: skip
        assert scores["points"] == 200
        assert scores["P@1"] > 0.95
        assert 0 < scores["PSP@1"] <= 1
        assert scores["recall@100"] == 1.0 > scores["recall@1"]
        points = read_xmc(folder / "test.txt")
        named = load(model).topk_numbers(points.X, 3)[0]
        assert scores["recall@3"] == metrics.recall_at_k(points.Y, named, 3)
        found = json.loads(run("evaluate", model, folder / "test.txt", "--json", "--k", "20,100").stdout)
        assert found["recall@100"] == 1.0

    def test_propensity_constants_change_psp(self, model: Path, folder: Path) -> None:
        found = load(model)
        evaluate = ("evaluate", model, folder / "test.txt", "--k", "1,3", "--json")
        usual, same, other = (
            json.loads(run(*evaluate, *given).stdout)
            for given in ((), ("--propensity", "0.55,1.5"), ("--propensity", "0.6,2.6"))
        )
        assert usual["PSP@3"] == same["PSP@3"] != other["PSP@3"]
        points = read_xmc(folder / "test.txt")
        weights = metrics.propensities_from_counts(found.label_counts_, found.n_points_, 0.6, 2.6)
        assert other["PSP@3"] == metrics.psp_at_k(points.Y, found.topk_numbers(points.X, 3)[0], 3, weights)

    def test_propensity_option_changes_psp(self, model: Path, folder: Path) -> None:
        evaluate = ("evaluate", model, folder / "test.txt", "--json")
        found = [json.loads(run(*evaluate, *own).stdout)["PSP@1"] for own in ((), ("--propensity", "0.6,2.6"))]
        assert found[0] != found[1]
        assert "expected two numbers" in fails(*evaluate, "--propensity", "0.6", status=2)

    @pytest.mark.parametrize("text", ["0.6", "0.6,2.6,1", "a,b", "0.5,0", "0.5,-1", "nan,1", "1,inf", ""])
    def test_wrong_propensity_constants_are_refused(self, text: str) -> None:
        with pytest.raises(typer.BadParameter, match=r"expected two numbers such as 0.55,1.5"):
            option_values.propensity(text)
        assert option_values.propensity(" 0.5, 0.4") == (0.5, 0.4)

    def test_batch_size_does_not_change_scores(self, model: Path, folder: Path) -> None:
        scores = [
            json.loads(run("evaluate", model, folder / "test.txt", "--json", "--k", "1,2", "--batch-size", size).stdout)
            for size in (7, 4096)
        ]
        for score in scores:
            del score["seconds"]
        assert scores[0] == scores[1]
        assert "P@2" in scores[0]

    def test_text_has_a_line_for_each_metric(self, model: Path, folder: Path) -> None:
        lines = run("evaluate", model, folder / "test.txt").stdout.splitlines()
        assert [line.split()[0] for line in lines] == ["P", "nDCG", "PSP", "recall", "200"]

    def test_unseen_label_counts_as_missed(self, model: Path, tmp_path: Path) -> None:
        path = tmp_path / "test.txt"
        path.write_text(f"2 {N_FEATURES} {N_LABELS}\n0 0:1 1:1\n{N_LABELS - 1} 2:1 3:1\n")
        done = run("evaluate", model, path, "--json")
        scores = json.loads(done.stdout)
        assert (scores["P@1"], scores["unknown_labels"], scores["true_labels"]) == (0.5, 1, 2)
        assert "1 of 2 true labels were never seen in training: the model cannot predict them" in done.stderr

    def test_counts_of_one_have_singular_nouns(self, tmp_path: Path) -> None:
        (tmp_path / "one.txt").write_text("1 1 1\n0 0:1\n")
        one = ("--hidden", 0, "--epochs", 1, "--threads", 1)
        said = run("train", tmp_path / "one.txt", "--model", tmp_path / "m", *one).stdout
        assert "1 point, 1 feature, 1 label; normalize=rows\n1 epoch in " in said
        assert "1 thread, " in said
        assert "1 point in " in run("evaluate", tmp_path / "m", tmp_path / "one.txt").stdout

    def test_wrong_k_is_refused(self, model: Path, folder: Path) -> None:
        for k in ("0", "1,x", "", "99999999999999999999"):
            assert "--k" in fails("evaluate", model, folder / "test.txt", "--k", k, status=2)


class TestPredict:
    def test_tsv_and_jsonl_agree_and_keep_the_order(self, model: Path, folder: Path) -> None:
        truth = read_xmc(str(folder / "test.txt")).Y
        tsv = run("predict", model, folder / "test.txt", "--k", 3, "--batch-size", 17).stdout.splitlines()
        jsonl = run("predict", model, folder / "test.txt", "--k", 3, "--format", "jsonl").stdout.splitlines()
        assert len(tsv) == len(jsonl) == 200
        hits = 0
        for point, (line, text) in enumerate(zip(tsv, jsonl, strict=True)):
            pairs = [cell.split(":") for cell in line.split("\t")]
            record = json.loads(text)
            assert [int(label) for label, _ in pairs] == record["labels"]
            assert [float(p) for _, p in pairs] == record["probabilities"] == sorted(record["probabilities"])[::-1]
            hits += truth[point, record["labels"][0]] != 0
        assert hits > 190

    @pytest.mark.parametrize(
        "text",
        [
            f"2 {N_FEATURES} {N_LABELS}\n 0:1 1:1\n 2:1 3:1\n",
            f"2 {N_FEATURES} {N_LABELS}\n0:1 1:1\n2:1 3:1\n",
            "7 0:1 1:1\n7 2:1 3:1\n",
        ],
        ids=["XMC, indented", "XMC, bare", "svmlight"],
    )
    def test_unlabelled_input_from_stdin(self, text: str, model: Path) -> None:
        lines = run("predict", model, "--k", 1, stdin=text).stdout.splitlines()
        assert [line.partition(":")[0] for line in lines] == ["0", "1"]

    def test_unknown_features_do_not_end_a_stream(self, model: Path, tmp_path: Path) -> None:
        points = ["7 0:1 1:1", "7 2:1 3:1", "7 4:1 5:1"]
        plain = run("predict", model, stdin="\n".join(points) + "\n")
        far = [points[0], f"{points[1]} {N_FEATURES}:1 {2**31 - 2}:3", f"{points[2]} 99:1"]
        for more in (["--batch-size", 1], []):
            done = run("predict", model, *more, stdin="\n".join(far) + "\n")
            assert done.stdout == plain.stdout
            shown = f"ignored 3 features in 2 points of <stdin>: the model knows features 0 to {N_FEATURES - 1}"
            assert done.stderr == f"sparsenet: {shown}\n"
        file = tmp_path / "points.txt"
        file.write_text("\n".join(far) + "\n")
        assert "feature 60 is out of range" in fails("evaluate", model, file)
        wide = f"1 {N_FEATURES + 1} {N_LABELS}\n 0:1\n"
        assert "line 1: the header announces 61 features, but at most 60 are" in fails("predict", model, stdin=wide)

    def test_skipped_lines_are_reported(self, model: Path, tmp_path: Path) -> None:
        points = tmp_path / "points.txt"
        points.write_text("# a comment\n7 0:1 1:1\n\n7 2:1 3:1\n")
        done = run("predict", model, points, "--k", 1)
        assert [line.partition(":")[0] for line in done.stdout.splitlines()] == ["0", "1"]
        assert f"2 lines of {points} got no answer: blank lines and comments are not points" in done.stderr
        assert done.stdout == (alone := run("predict", model, "--k", 1, stdin="7 0:1 1:1\n7 2:1 3:1\n")).stdout
        assert alone.stderr == ""
        xmc = f"3 {N_FEATURES} {N_LABELS}\n 0:1 1:1\n\n 2:1 3:1\n"  # a blank line is a point of XMC
        done = run("predict", model, "--k", 1, stdin=xmc)
        assert len(done.stdout.splitlines()) == 3
        assert done.stderr == ""

    def test_k_is_cut_to_the_number_of_labels(self, model: Path) -> None:
        done = run("predict", model, "-", "--k", 1000, stdin="0 0:1\n")
        assert done.stdout.count(":") == N_LABELS

    def test_exclude_seen_leaves_out_known_items(self, tmp_path: Path) -> None:
        rows = [f"{(i + 1) % 10},{(i + 2) % 10} {i % 10}:1" for i in range(100)]
        (tmp_path / "train.txt").write_text("\n".join(["100 10 10", *rows]) + "\n")
        run("train", tmp_path / "train.txt", "--model", tmp_path / "m", "--hidden", 0)
        record = run("predict", tmp_path / "m", "--k", 10, "--exclude-seen", stdin="0 3:1 5:1\n").stdout
        labels = [int(cell.partition(":")[0]) for cell in record.split("\t")]
        assert set(labels) == set(range(10)) - {3, 5}
        scores = json.loads(run("evaluate", tmp_path / "m", tmp_path / "train.txt", "--exclude-seen", "--json").stdout)
        assert scores["P@1"] == 1.0

    def test_exclude_seen_needs_features_that_are_labels(self, model: Path) -> None:
        assert "--exclude-seen" in fails("predict", model, "--exclude-seen", stdin="0 0:1\n")

    def test_batches_are_written_before_the_input_ends(self, model: Path) -> None:
        arguments = command("predict", model, "--batch-size", 2, "--k", 1)
        with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("0 0:1 1:1\n0 2:1 3:1\n")
            process.stdin.flush()
            assert process.stdout.readline().startswith("0:"), "although the input has not ended"
            process.stdin.close()

    def test_coprocess_answers_line_by_line(self, model: Path) -> None:
        arguments = command("predict", model, "--batch-size", 1, "--k", 1)
        with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for label in (0, 1, 2):
                process.stdin.write(f"7 {2 * label}:1 {2 * label + 1}:1\n")
                process.stdin.flush()
                assert process.stdout.readline().startswith(f"{label}:"), "although no further line has come"
            process.stdin.close()

    def test_closed_output_is_not_an_error(self, model: Path) -> None:
        arguments = command("predict", model, "--batch-size", 10)
        quiet = os.environ | {"PYTHONWARNINGS": "ignore"}  # Numba may warn that it is in use
        pipe = subprocess.PIPE
        with subprocess.Popen(arguments, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=quiet) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            process.stdin.write("0 0:1 1:1\n" * 100)
            process.stdin.close()
            assert process.stderr.read() == ""
        assert process.returncode == 0

    @pytest.mark.slow
    def test_memory_does_not_grow_with_the_input(self, model: Path, tmp_path: Path) -> None:
        peaks = [self.peak_memory(model, tmp_path / "in.svm", n) for n in (20_000, 150_000)]
        assert peaks[1] - peaks[0] < 16 << 20, "35 MB more of text, 48 MB more of numbers"

    def peak_memory(self, model: Path, path: Path, n: int) -> int:
        """Predict n points and return the peak memory, measured by a small process, since a child inherits the peak."""
        path.write_text(("0 " + " ".join(f"{i}:0.5" for i in range(40)) + "\n") * n)
        code = (
            "import os, subprocess, sys\n"
            f"process = subprocess.Popen({command('predict', model, '--k', 2)}, stdin=open({str(path)!r}), stdout=-3)\n"
            "_, status, usage = os.wait4(process.pid, 0)\n"
            "print(status, usage.ru_maxrss * 1024)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        status, peak = done.stdout.split()
        assert status == "0", done.stderr
        return int(peak)


class TestErrors:
    def test_errors_name_the_file_and_line(self, folder: Path, model: Path, tmp_path: Path) -> None:
        bad = tmp_path / "bad.txt"
        bad.write_text(f"1 {N_FEATURES} {N_LABELS}\n0 0:1 {N_FEATURES}:1\n")
        text = fails("train", bad, "--model", tmp_path / "m")
        assert f"{bad}, line 2: " in text
        assert f"{bad}, line 2: " in fails("evaluate", model, bad)
        wrong_width = tmp_path / "wide.txt"
        wrong_width.write_text("1 999 20\n0 998:1\n")
        assert "999" in fails("predict", model, wrong_width)
        (tmp_path / "empty.txt").touch()
        assert "empty" in fails("train", tmp_path / "empty.txt", "--model", tmp_path / "m")
        assert "no/such/file" in fails("train", "no/such/file", "--model", tmp_path / "m")
        assert str(folder) in fails("predict", model, folder)
        (tmp_path / "table.csv.gz").touch()
        assert "table" in fails("train", tmp_path / "table.csv.gz", "--model", tmp_path / "m")

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            (f"0 {N_FEATURES} {N_LABELS}\n", "contains no points"),
            ("2 3 2\n 0:1\n 1:1\n", "no point has a label"),
            ("2 -3 2\n", "the header '2 -3 2' announces a negative count"),
            ("\n0 0:1\n0,1.5 0:1\n", "label 1.5 of point 2 (counted from 1) is a fraction"),
        ],
    )
    def test_unusable_training_data_is_refused(self, text: str, problem: str, folder: Path, tmp_path: Path) -> None:
        bad = tmp_path / "bad.txt"
        bad.write_text(text)
        said = fails("train", bad, "--model", tmp_path / "m")
        assert str(bad) in said
        assert problem in said
        if problem == "contains no points":
            assert str(bad) in fails("train", folder / "train.txt", "--valid", bad, "--model", tmp_path / "m")

    @pytest.mark.parametrize(
        ("name", "content", "problem"),
        [
            ("none.txt", None, "No such file"),
            ("valid.csv", "text,label\n", "is a table of text"),
            ("valid.txt", "what a lovely film\n", "label 'what' is not a finite number"),
            ("valid.txt", "1 3 2\n0 7:1\n", "feature 7 is out of range"),
            ("valid.txt", "", "empty"),
        ],
    )
    def test_validation_file_is_checked_before_training_data_is_read(
        self, name: str, content: str | None, problem: str, tmp_path: Path
    ) -> None:
        valid = tmp_path / name
        if content is not None:
            valid.write_text(content)
        (tmp_path / "train.txt").write_text("of these nothing is read\n")
        said = fails("train", tmp_path / "train.txt", "--model", tmp_path / "m", "--valid", valid)
        assert f"{valid}" in said
        assert problem in said

    def test_standard_input_is_read_once(self, tmp_path: Path) -> None:
        both = ("train", "-", "--valid", "-", "--format", "svmlight")
        assert "are both standard input" in fails(*both, "--model", tmp_path / "m", stdin="0 0:1")

    def test_damaged_and_missing_models_are_named(self, folder: Path, model: Path, tmp_path: Path) -> None:
        for name, content in files(model).items():
            damaged = bytearray(content)
            damaged[len(damaged) // 2] ^= 1
            copy = tmp_path / f"with-{name}"
            copy.mkdir()
            for other, intact in files(model).items():
                (copy / other).write_bytes(damaged if other == name else intact)
            assert str(copy) in fails("predict", copy, stdin="0 0:1\n")
        assert "nowhere" in fails("evaluate", "nowhere", folder / "test.txt")
        assert "not a sparsenet model" in fails("evaluate", folder, folder / "test.txt")

    def test_wrong_usage_exits_with_status_2(self, folder: Path, tmp_path: Path) -> None:
        for arguments in (
            ("train",),
            ("train", folder / "train.txt"),
            ("train", folder / "train.txt", "--model", tmp_path / "m", "--epochs", 0),
            ("train", folder / "train.txt", "--model", tmp_path / "m", "--no-such-option"),
            ("predict", tmp_path, "--format", "xml"),
            ("no-such-command",),
        ):
            fails(*arguments, status=2)
        said = " ".join(fails("predict", tmp_path, "--format", "csv", status=2).replace("│", " ").split())
        assert "expected tsv or jsonl, got 'csv'; --input-format sets the format of the input" in said

    def test_memory_limit_is_enforced(self, folder: Path, tmp_path: Path) -> None:
        train = ("train", folder / "train.txt", "--method", "network", "--model", tmp_path / "m")
        text = fails(*train, "--memory-limit", "10kB")
        assert "training needs" in text
        assert "the limit is 10.0 kB: lower --hidden" in text

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (("--memory-limit", "a lot"), "--memory-limit expected a number of bytes got 'a lot'"),
            (("--memory-limit", "-5"), "--memory-limit expected a number of bytes got '-5'"),
            (("--learning-rate", "nan"), "--learning-rate expected a number above 0, at most 1000, got nan"),
            (("--learning-rate", "0"), "--learning-rate expected a number above 0, at most 1000, got 0"),
            (("--hidden", "0", "--sampler", "lsh"), "--sampler lsh hashes hidden units"),
            (("--method", "network", "--patience", "2"), "--patience needs --valid"),
            (("--negatives", "99999999999999999999"), "--negatives 2147483647"),
            (("--epochs", "2147483648"), "--epochs 2147483647"),
            (("--wide-budget", "0"), "--wide-budget 1"),
        ],
        ids=" ".join,
    )
    def test_wrong_option_is_named_and_no_model_written(
        self, options: tuple[str, ...], words: str, folder: Path, tmp_path: Path
    ) -> None:
        """The error contains all words, in any line, and no model is written."""
        text = fails("train", folder / "train.txt", "--model", tmp_path / "m", *options, status=2)
        for word in words.split():
            assert word in text
        assert not (tmp_path / "m").exists()

    @pytest.mark.parametrize("name", ["", "train", "evaluate", "predict", "info", "demo"])
    def test_every_command_has_help(self, name: str) -> None:
        done = run(*([name] if name else []), "--help")
        assert "Usage: sparsenet" in done.stdout
        assert done.stderr == ""

    def test_help_describes_the_memory_limit(self) -> None:
        said = " ".join(run("train", "--help").stdout.replace("│", " ").split())
        for words in ("--memory-limit BYTES", "8GB (10^9 bytes each)", "8GiB (2^30)", "the memory that is free"):
            assert words in said


class TestSvmlightLabels:
    """Labels of svmlight files need not be column numbers."""

    @staticmethod
    def write(path: Path, labels: tuple[str, ...], n: int = 60) -> Path:
        path.write_text("".join(f"{labels[i % len(labels)]} {i % len(labels)}:1 {5 + i % 7}:0.2\n" for i in range(n)))
        return path

    def test_signs_are_labels_from_training_to_answers(self, tmp_path: Path) -> None:
        points = self.write(tmp_path / "signs.svm", ("-1", "+1"))
        valid = self.write(tmp_path / "valid.svm", ("-1", "1"), n=10)
        model = tmp_path / "model"
        trained = run("train", points, "--model", model, "--valid", valid, "--seed", 0, "--json")
        assert json.loads(trained.stdout)["validation"]["P@1"] == 1.0
        assert json.loads(run("evaluate", model, points, "--json").stdout)["P@1"] == 1.0
        first = run("predict", model, points, "--k", 1).stdout.splitlines()[:2]
        assert [line.partition(":")[0] for line in first] == ["-1", "1"]

    def test_unseen_name_is_a_miss(self, tmp_path: Path) -> None:
        model = tmp_path / "model"
        run("train", self.write(tmp_path / "signs.svm", ("-1", "+1")), "--model", model, "--seed", 0)
        other = self.write(tmp_path / "other.svm", ("-1", "+7"))
        scores = json.loads(run("evaluate", model, other, "--json").stdout)
        assert (scores["P@1"], scores["unknown_labels"], scores["true_labels"]) == (0.5, 30, 60)

    def test_column_numbers_are_refused_where_labels_have_names(self, tmp_path: Path) -> None:
        model = tmp_path / "model"
        run("train", self.write(tmp_path / "signs.svm", ("-1", "+1")), "--model", model, "--seed", 0)
        xmc = tmp_path / "points.txt"
        xmc.write_text("1 12 2\n0 1:1\n")
        assert "labels by other names are expected" in run("evaluate", model, xmc, status=1).stderr

    def test_fractions_are_refused_as_labels(self, tmp_path: Path) -> None:
        points = self.write(tmp_path / "regression.svm", ("0.5", "1"))
        assert (
            "regression.svm: label 0.5 of point 1 (counted from 1) is a fraction"
            in run("train", points, "--model", tmp_path / "m", status=1).stderr
        )
