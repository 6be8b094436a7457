"""`sparsenet.load`: loads any model as its class."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparsenet
from sparsenet import BlendClassifier, ExtremeClassifier, ModelError, TextClassifier, TreeClassifier, storage
from sparsenet.cli.models import load_point_model
from sparsenet.cli.reporting import in_options
from sparsenet.estimators.loading import CLASSES, WINGS
from tests.support.planted import X, Y, fast

MAKE = {
    ExtremeClassifier: lambda: fast(epochs=1).fit(X, Y),
    TreeClassifier: lambda: TreeClassifier(random_state=0).fit(X, Y),
    BlendClassifier: lambda: BlendClassifier(network="drop", random_state=0).fit(X, Y),
    TextClassifier: lambda: TextClassifier(random_state=0).fit(["red", "round", "red"], ["colour", "form", "colour"]),
}


@pytest.mark.parametrize("kind", MAKE, ids=lambda kind: kind.__name__)
def test_loads_each_model_as_its_class(kind: Any, tmp_path: Path) -> None:
    model: Any = MAKE[kind]()
    points = ["red and round"] if kind is TextClassifier else X
    for directory in (tmp_path / "model", str(tmp_path / "text")):
        model.save(directory)
        again: Any = sparsenet.load(directory)
        assert type(again) is kind
        np.testing.assert_array_equal(again.predict_proba(points), model.predict_proba(points))


def test_load_raises_the_same_errors_as_the_class(tmp_path: Path) -> None:
    MAKE[TreeClassifier]().save(tmp_path / "model")
    data = next((tmp_path / "model").glob("arrays-*"))
    whole = data.read_bytes()
    (tmp_path / "file").write_text("no directory")
    for path in ("none", "file", "model"):
        data.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(ModelError) as expected:
            TreeClassifier.load(tmp_path / path)
        with pytest.raises(ModelError) as found:
            sparsenet.load(tmp_path / path)
        assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("kind", [None, "Network", ["TreeClassifier"]])
def test_rejects_an_unknown_kind_of_model(kind: object, tmp_path: Path) -> None:
    storage.save(tmp_path / "model", {}, {} if kind is None else {"model": kind})
    with pytest.raises(ModelError) as error:
        sparsenet.load(tmp_path / "model")
    *others, last = [*CLASSES, *WINGS]
    said = f"a model of the kind {kind!r}, not {', '.join(others)} or {last}"
    assert str(error.value) == f"{tmp_path / 'model'}: this is {said}"


@pytest.mark.parametrize("load", [sparsenet.load, ExtremeClassifier.load, BlendClassifier.load])
def test_says_how_to_continue_a_checkpoint(load: Callable[[Path], object], tmp_path: Path) -> None:
    fast(epochs=1).fit(X, Y, checkpoint=tmp_path / "run")
    said = "this is a checkpoint, not a model: fit(checkpoint=..., resume=True) with the same data"
    with pytest.raises(ModelError) as error:
        load(tmp_path / "run")
    assert str(error.value) == f"{tmp_path / 'run'}: {said} and settings continues it"
    in_words = said.replace("fit(checkpoint=..., resume=True)", "train --resume")
    assert in_options(str(error.value)) == f"{tmp_path / 'run'}: {in_words} and settings continues it"


def test_commands_for_points_reject_text_models(tmp_path: Path) -> None:
    MAKE[TextClassifier]().save(tmp_path / "model")
    with pytest.raises(ModelError, match="this is a model of texts, not of sparse points"):
        load_point_model(tmp_path / "model")


@pytest.mark.parametrize("kind", MAKE, ids=lambda kind: kind.__name__)
def test_names_the_class_that_loads_a_model(kind: Any, tmp_path: Path) -> None:
    other = TreeClassifier if kind is not TreeClassifier else TextClassifier
    MAKE[other]().save(tmp_path / "model")
    with pytest.raises(ModelError) as error:
        kind.load(tmp_path / "model")
    said = f"this is a model of the kind '{other.__name__}', not {kind.__name__}: sparsenet.load takes any kind"
    assert str(error.value) == f"{tmp_path / 'model'}: {said}"


@pytest.mark.parametrize("kind", MAKE, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("wrong", [[1, 2], False, 0, "all"])
def test_rejects_invalid_thread_counts(kind: type, wrong: object, tmp_path: Path) -> None:
    MAKE[kind]().save(tmp_path / "model")
    arrays, metadata = storage.load(tmp_path / "model")
    metadata["parameters"]["n_jobs"] = wrong
    storage.save(tmp_path / "model", arrays, metadata)
    with pytest.raises(ModelError, match="n_jobs must be None"):
        sparsenet.load(tmp_path / "model")


def test_loading_a_tree_imports_no_other_kind_of_model(tmp_path: Path) -> None:
    TreeClassifier(random_state=0).fit(X, Y).save(tmp_path / "model")
    program = "import sys, sparsenet; sparsenet.load(sys.argv[1]); print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "model"], check=True, capture_output=True, text=True
    )
    loaded = {name.rpartition(".")[2] for name in run.stdout.split() if name.startswith("sparsenet.estimators.")}
    assert "tree" in loaded
    assert not loaded & {"blend", "extreme", "text", "table", "recommender", "pipeline"}
