"""Notebooks show what a fitted classifier learnt and decided, below scikit-learn's diagram."""

import numpy as np
import pytest
from sklearn import config_context

from sparsenet import BlendClassifier, Recommender, TextClassifier, TreeClassifier
from sparsenet.demo.shop_log import make_log
from tests.support.planted import X, Y, fast

MODELS = {
    "network": lambda: fast(epochs=1),
    "tree": lambda: TreeClassifier(random_state=0),
    "blend": lambda: BlendClassifier(network="drop", random_state=0),
}


@pytest.mark.parametrize("kind", MODELS)
def test_shows_sizes_scores_and_decisions(kind):
    model = MODELS[kind]()
    assert "sparsenet-fitted" not in model._repr_html_()
    page = model.fit(X[:300], Y[:300], validation=(X[300:], Y[300:]))._repr_html_()
    assert "300 points, 60 features, 40 labels" in page
    assert f"P@1 {100 * model.validation_['P@1']:.1f} % on validation data" in page
    assert all(f"<td>{name}</td>" in page for name in model.choices_)
    assert "sk-estimator" in page
    assert model._repr_mimebundle_()["text/html"].endswith(page[page.index('<div class="sparsenet-fitted">') :])


def test_shows_gains_of_decisions():
    model = BlendClassifier(network="drop", random_state=0).fit(X, Y)
    decision = model.choices_["rarity"]
    assert f"{decision.gain:+.4f} ± {decision.standard_error:.4f} (n = {decision.n:,})" in model._repr_html_()


def test_shows_texts():
    model = TextClassifier(random_state=0).fit(["a good film", "a bad film"] * 20, ["good", "bad"] * 20)
    page = model._repr_html_()
    assert "40 texts, 2 labels, 100.0 % right on held-out texts" in page
    assert "<td>method</td><td>linear</td>" in page


def test_escapes_what_is_shown():
    model = TreeClassifier(random_state=0).fit(np.eye(4), list("abcd"))
    model.choices_ = {"<script>": model.choices_["normalize"]._replace(why="a\x1b<b>")}
    page = model._repr_html_()
    assert "&lt;script&gt;" in page
    assert "a\\x1b&lt;b&gt;" in page


def test_shows_text_if_scikit_learn_is_told_so():
    model = TreeClassifier(random_state=0).fit(np.eye(4), list("abcd"))
    with config_context(display="text"):
        assert not hasattr(model, "_repr_html_")
        assert model._repr_mimebundle_() == {"text/plain": repr(model)}


def test_shows_the_log_of_a_recommender():
    log = make_log(100)
    model = Recommender(random_state=0).fit(log)
    page = model._repr_html_().partition("sparsenet-fitted")[2]
    assert f"{len(log['user'])} events of 100 users and {len(set(log['item']))} items" in page
    assert page.count("<td>") == 4 * len(model.choices_) > 0
