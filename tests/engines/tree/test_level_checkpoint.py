"""A tree whose training was interrupted goes on after its last level, bit for bit."""

import numpy as np
import pytest

from sparsenet import CheckpointError, TreeClassifier, storage
from sparsenet.engines.tree import train_levels
from tests.support.same_trees import LABELS, POINTS, assert_same_tree, tree

N_LEVELS = 3


@pytest.fixture(scope="module")
def usual():
    return tree()


@pytest.fixture
def trained(monkeypatch):
    """Return the depths of the levels that are trained."""
    depths, train = [], train_levels._train_levels

    def counted(session, plans, *rest):
        depths.extend(plan.depth for plan in plans)
        return train(session, plans, *rest)

    monkeypatch.setattr(train_levels, "_train_levels", counted)
    return depths


def interrupted(place, at):
    """Press Ctrl-C before a level is trained."""
    train = train_levels._train_levels

    def stopping(session, plans, *rest):
        if plans[0].depth == at:
            raise KeyboardInterrupt
        return train(session, plans, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train_levels, "_train_levels", stopping)
        with pytest.raises(KeyboardInterrupt):
            tree(checkpoint=place)


@pytest.mark.parametrize("at", [0, 2])  # the first two levels are trained together
def test_resumes_after_the_last_level(usual, trained, tmp_path, at):
    interrupted(tmp_path / "run", at)
    trained.clear()
    assert_same_tree(tree(checkpoint=tmp_path / "run", resume=True), usual)
    assert trained == [*range(at, N_LEVELS)]


def test_resumes_with_the_first_of_two_levels_that_are_trained_together(usual, trained, tmp_path):
    tree(checkpoint=tmp_path / "run")
    arrays, about = storage.load(tmp_path / "run")
    first = {name: array for name, array in arrays.items() if not name.startswith(("level1", "level2"))}
    storage.save(tmp_path / "run", first, about | {"n_trained": 1})
    trained.clear()
    assert_same_tree(tree(checkpoint=tmp_path / "run", resume=True), usual)
    assert trained == [1, 2]


def test_a_finished_run_trains_nothing(usual, trained, tmp_path):
    tree(checkpoint=tmp_path / "run")
    trained.clear()
    assert_same_tree(tree(checkpoint=tmp_path / "run", resume=True), usual)
    assert trained == []


def test_starts_afresh_without_resume_or_checkpoint(usual, trained, tmp_path):
    interrupted(tmp_path / "run", 2)
    trained.clear()
    assert_same_tree(tree(checkpoint=tmp_path / "run"), usual)
    assert_same_tree(tree(checkpoint=tmp_path / "none", resume=True), usual)
    assert trained == [*range(N_LEVELS)] * 2


@pytest.mark.parametrize(
    ("changes", "points", "message"),
    [
        ({"epochs": 3}, POINTS, "epochs was 7, and is 3"),
        ({"random_state": 1}, POINTS, "seed was"),
        ({}, 2 * POINTS + (POINTS > 1), "points was 3000 x 1101 of checksum"),
    ],
)
def test_refuses_the_checkpoint_of_another_run(tmp_path, changes, points, message):
    tree(checkpoint=tmp_path / "run")
    model = TreeClassifier(**{"random_state": 0, "n_jobs": 1} | changes)
    with pytest.raises(CheckpointError, match=f"run: this is the checkpoint of a run with other .*: {message}"):
        model.fit(points, LABELS, checkpoint=tmp_path / "run", resume=True)


def test_refuses_a_saved_model_and_a_damaged_checkpoint(usual, tmp_path):
    usual.save(tmp_path / "model")
    with pytest.raises(FileExistsError, match="holds a model, TreeClassifier, which a checkpoint would replace"):
        tree(checkpoint=tmp_path / "model")
    tree(checkpoint=tmp_path / "run")
    [data] = (tmp_path / "run").glob("*.safetensors")
    content = np.fromfile(data, np.uint8)
    content[-3] ^= 1
    content.tofile(data)
    with pytest.raises(CheckpointError, match="remove it to start again"):
        tree(checkpoint=tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    ("name", "forge", "message"),
    [
        ("labels", lambda labels: labels[:-1], "children must assign"),
        ("labels", lambda labels: labels.astype(np.int64), "positions in classes"),
        ("children0", lambda pointers: pointers.astype(np.int32), "row pointers"),
    ],
)
def test_refuses_a_forged_shape(tmp_path, name, forge, message):
    tree(checkpoint=tmp_path / "run")
    arrays, about = storage.load(tmp_path / "run")
    storage.save(tmp_path / "run", arrays | {name: forge(arrays[name])}, about)
    with pytest.raises(CheckpointError, match=message):
        tree(checkpoint=tmp_path / "run", resume=True)


def test_needs_a_seed(tmp_path):
    with pytest.raises(ValueError, match="checkpoint needs random_state to be an integer"):
        TreeClassifier().fit(POINTS, LABELS, checkpoint=tmp_path / "run")
