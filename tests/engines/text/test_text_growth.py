"""A label added later wins its own texts and leaves the others alone."""

import numpy as np
import pytest

from sparsenet import TextClassifier

COMMON = [f"common{i}" for i in range(30)]


def texts_of(label, n, rng):
    """Make texts of twelve words that all labels share, and two of the label's forty words."""
    own = [f"{label}{i}" for i in range(40)]
    return [" ".join([*rng.choice(COMMON, 12), *rng.choice(own, 2)]) for _ in range(n)]


@pytest.fixture(scope="module")
def known():
    rng = np.random.default_rng(0)
    labels = [f"label{chr(97 + i)}" for i in range(6)]
    texts = [(text, label) for label in labels for text in texts_of(label, 120, rng)]
    order = rng.permutation(len(texts))
    return [texts[i] for i in order[:600]], [texts[i] for i in order[600:]]


@pytest.mark.parametrize("n", [1, 5, 50])
def test_few_texts_of_a_new_label_do_not_make_it_frequent(known, n):
    train, test = known
    model = TextClassifier(random_state=0, n_jobs=1).fit(*zip(*train, strict=True))
    before = model.score(*zip(*test, strict=True))
    assert before > 0.7
    fresh = texts_of("new", n, np.random.default_rng(1))
    model.partial_fit(fresh, ["new"] * n)
    assert (model.predict(fresh) == "new").mean() > 0.9
    assert model.score(*zip(*test, strict=True)) > before - 0.1


def test_batches_of_all_labels_match_one_fit(known):
    train, test = known
    whole = TextClassifier(random_state=0, n_jobs=1).fit(*zip(*train, strict=True)).score(*zip(*test, strict=True))
    model = TextClassifier(random_state=0, n_jobs=1)
    for begin in range(0, len(train), 100):
        model.partial_fit(*zip(*train[begin : begin + 100], strict=True))
    assert model.score(*zip(*test, strict=True)) > whole - 0.08
