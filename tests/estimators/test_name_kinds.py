"""Ids as strings and as whole numbers, and times as dates and as numbers, in the logs of all models of logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparsenet import Recommender
from sparsenet.data import DataError
from sparsenet.temporal import NextItem, TemporalLinkPredictor

MODELS: list[Any] = [
    (Recommender(random_state=0), ("user", "item"), "partial_fit"),
    (NextItem(), ("user", "item"), "update"),
    (NextItem(mutual=True), ("user", "item"), "update"),
    (TemporalLinkPredictor(memory=8, random_state=0), ("source", "target"), "update"),
]


def log_of(names: tuple[str, str], kind: type, first: int, last: int) -> dict[str, Any]:
    """Return events of ids whose order as strings is not that as numbers, and which are new in part."""
    rng = np.random.default_rng(0)
    ids = rng.integers(1, 25, (300, 2)) + np.arange(300)[:, None] // 40
    ends = {name: [kind(n) for n in ids[first:last, i].tolist()] for i, name in enumerate(names)}
    return ends | {"time": list(range(first, last))}


def answers(model: Any, ids: list[Any]) -> list[Any]:
    if isinstance(model, Recommender):
        found = model.recommend(ids, k=3)
    elif isinstance(model, NextItem):
        found = model.topk(ids, k=3)
    else:
        return list(model.predict_proba(ids, ids[::-1]).tolist())
    return [*map(str, found["item"].tolist()), *found["score"].tolist()]


@pytest.mark.parametrize(("model", "names", "learn"), MODELS)
@pytest.mark.parametrize("kind", [str, int])
def test_an_id_is_the_same_as_a_string_and_as_a_number(
    model: Any, names: tuple[str, str], learn: str, kind: Any
) -> None:
    other = int if kind is str else str
    measure = "evaluate" if isinstance(model, Recommender) else "score"
    found = []
    for later in (kind, other):
        fitted = model.fit(log_of(names, kind, 0, 200))
        getattr(fitted, learn)(log_of(names, later, 200, 250))
        asked = answers(fitted, [later(n) for n in range(8, 25)])
        measured = getattr(fitted, measure)(log_of(names, later, 250, 300))
        found.append((asked, measured))
    assert found[0] == found[1]


@pytest.mark.parametrize(("model", "names", "learn"), MODELS)
def test_names_the_row_of_a_name_that_is_no_whole_number(
    model: Any, names: tuple[str, str], learn: str, tmp_path: Path
) -> None:
    fitted = model.fit(log_of(names, int, 0, 50))
    (tmp_path / "later.csv").write_text(f"{','.join(names)},time\n7,8,60\n7,08,61\n")
    message = rf"later\.csv, line 3: column '{names[1]}' holds '08', and the model knows such names by whole numbers"
    with pytest.raises(DataError, match=message):
        getattr(fitted, learn)(tmp_path / "later.csv")


@pytest.mark.parametrize(("model", "names", "learn"), MODELS)
@pytest.mark.parametrize(
    ("learnt", "later", "message"),
    [
        ("{}", "2026-03-{:02}", "column 'time' holds dates, and the model learnt numbers: write times as numbers in"),
        ("2026-03-{:02}", "{}", "column 'time' holds numbers, and the model learnt dates: write times as dates such"),
    ],
)
def test_refuses_times_of_another_kind(
    model: Any, names: tuple[str, str], learn: str, learnt: str, later: str, message: str
) -> None:
    first, more = log_of(names, int, 0, 20), log_of(names, int, 20, 25)
    fitted = model.fit(first | {"time": [learnt.format(n + 1) for n in first["time"]]})
    with pytest.raises(ValueError, match=f"row 0 of log: {message}"):
        getattr(fitted, learn)(more | {"time": [later.format(n + 1) for n in more["time"]]})


@pytest.mark.parametrize("kind", [str, int])
@pytest.mark.parametrize("number", [-(2**63), 1234567890123456789, 2**63 - 1])
def test_finds_names_of_19_digits(kind: Any, number: int) -> None:
    log = {"user": [kind(number), kind(2)], "item": ["a", "b"], "time": [1, 2]}
    model = NextItem().fit(log)
    for time, other in ((3, str), (5, int)):
        assert model.topk(other(number), k=1)["score"] == model.topk(kind(number), k=1)["score"]
        model.update(log | {"user": [other(number), other(2)], "time": [time, time + 1]})
    assert set(model.users_.tolist()) == {kind(number), kind(2)}


def test_a_number_beyond_64_bits_is_unknown_where_names_are_numbers() -> None:
    model = NextItem().fit({"user": [1, 2], "item": ["a", "b"], "time": [1, 2]})
    with pytest.raises(ValueError, match="row 0 of log: column 'user' holds '9223372036854775808'"):
        model.update({"user": [str(2**63)], "item": ["a"], "time": [3]})


def test_refuses_questions_about_times_of_another_kind(tmp_path: Path) -> None:
    NextItem().fit(log_of(("user", "item"), int, 0, 20)).save(tmp_path / "model")
    with pytest.raises(ValueError, match="holds dates, and the model learnt numbers"):
        NextItem.load(tmp_path / "model").topk(8, time="2026-03-01")
