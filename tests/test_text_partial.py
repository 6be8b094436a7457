"""TextClassifier learns on: labels of every type, weights of classes, classes that are to come."""

from __future__ import annotations

import numpy as np
import pytest
from test_text import planted

from sparsenet import TextClassifier

TEXTS, TOPICS = planted(60)


def numbered(dtype) -> np.ndarray:
    """Return the topics of TEXTS as two classes of a type of number."""
    return np.array([topic == "food" for topic in TOPICS]).astype(dtype)


@pytest.mark.parametrize("dtype", ["?", "u1", "i1", "i2", "u4", "i4", "i8", "u8", "f4", "f8"])
def test_the_type_of_labels_stays(tmp_path, dtype):
    y = numbered(dtype)
    model = TextClassifier(random_state=0).fit(TEXTS, y).partial_fit(TEXTS, y)
    assert model.classes_.dtype == model.predict(TEXTS).dtype == y.dtype
    assert model.score(TEXTS, y) == 1.0
    model.save(tmp_path / "model")
    assert TextClassifier.load(tmp_path / "model").predict(TEXTS).dtype == y.dtype


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        ("u1", "i8", "i8"),
        ("i4", "i8", "i8"),
        ("?", "i8", "i8"),
        ("f4", "f8", "f8"),
        ("U1", "U9", "U9"),
        ("O", "U4", "O"),
    ],
)
def test_of_two_types_there_is_one_that_holds_both(first, second, found):
    names = {"U": ["a", "b"], "O": ["a", "b"]}
    one, other = (np.array([names.get(d[0], [0, 1])[i] for i in numbered(int)], dtype=d) for d in (first, second))
    other[0] = "long" if second[0] == "U" else 7
    model = TextClassifier(random_state=0).fit(TEXTS, one).partial_fit(TEXTS, other)
    assert model.classes_.dtype == np.dtype(found)
    assert model.classes_.tolist() == (["a", "b", "long"] if second[0] == "U" else [0, 1, 7])


def test_labels_beyond_32_bits_are_kept():
    y = numbered(np.int64) + 2**40
    model = TextClassifier(random_state=0).fit(TEXTS, y).partial_fit(TEXTS, y + 1)
    assert model.classes_.tolist() == [2**40, 2**40 + 1, 2**40 + 2]
    with pytest.raises(ValueError, match="y holds int64 labels, the model knows uint64: use one type"):
        TextClassifier().fit(TEXTS, numbered("u8")).partial_fit(TEXTS, y)
