"""`TableFeatures` within scikit-learn."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from sparsenet import TreeClassifier
from sparsenet.features import HistorySpec, TableFeatures

COLUMNS = {
    "size": [1.5, 2.5, None, 8.0] * 10,
    "colour": ["red", "red", "blue", None] * 10,
    "when": ["2024-01-01", "2024-01-05", "2024-02-01", ""] * 10,
}
Y = np.array(["a", "b", "c", "d"] * 10)


def test_frames_of_all_libraries_and_files_are_alike(tmp_path) -> None:
    path = tmp_path / "table.csv"
    pd.DataFrame(COLUMNS).to_csv(path, index=False)
    features = TableFeatures().fit(COLUMNS)
    expected = features.transform(COLUMNS).toarray()
    for X in (pd.DataFrame(COLUMNS), pl.DataFrame(COLUMNS), pl.DataFrame(COLUMNS).to_arrow(), path, str(path)):
        assert np.array_equal(features.transform(X).toarray(), expected)
        assert TableFeatures().fit(X).encoder_.n_features == features.encoder_.n_features


def test_works_in_a_pipeline_and_in_cross_validation() -> None:
    frame = pd.DataFrame(COLUMNS)
    model = make_pipeline(TableFeatures(types={"colour": "category"}), LinearSVC())
    assert cross_val_score(make_pipeline(TableFeatures(), TreeClassifier(random_state=0)), frame, Y, cv=2).min() == 1
    assert model.fit(frame, Y).score(frame, Y) == 1
    assert clone(model).get_params()["tablefeatures__types"] == {"colour": "category"}


def test_names_each_feature() -> None:
    features = TableFeatures().fit(COLUMNS)
    names = features.get_feature_names_out()
    assert len(names) == features.transform(COLUMNS).shape[1]
    assert features.feature_names_in_.tolist() == list(COLUMNS)


def test_survives_pickling() -> None:
    features = pickle.loads(pickle.dumps(TableFeatures().fit(COLUMNS)))
    assert np.array_equal(features.transform(COLUMNS).toarray(), TableFeatures().fit_transform(COLUMNS).toarray())


def test_a_history_may_be_a_dict() -> None:
    log = {"user": ["a", "a", "b"], "day": [1, 2, 3], "item": ["x", "y", "x"]}
    spec = {"key": "user", "time": "day", "columns": ["item"]}
    one, other = TableFeatures(history=spec), TableFeatures(history=HistorySpec(**spec))
    assert np.array_equal(one.fit_transform(log).toarray(), other.fit_transform(log).toarray())
    assert any("last item of user" in name for name in one.get_feature_names_out())


def test_refuses_to_transform_before_fit_and_bad_parameters() -> None:
    with pytest.raises(NotFittedError):
        TableFeatures().transform(COLUMNS)
    with pytest.raises(ValueError, match="n_jobs"):
        TableFeatures(n_jobs=0).fit(COLUMNS)
    with pytest.raises(ValueError, match="X must be a data frame"):
        TableFeatures().fit(3)
