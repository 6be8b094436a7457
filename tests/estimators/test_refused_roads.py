"""Texts, tables and logs refuse the arguments of `fit` that they do not support, and name another road."""

import pytest

import sparsenet
from sparsenet import Recommender, TableClassifier, TextClassifier

TABLE = {"size": [1, 2, 8, 9], "kind": ["a", "a", "b", "b"]}
LOG = {"user": [1, 1, 2, 2], "item": [1, 2, 1, 3]}
NO_STATE = [("checkpoint", "state"), ("resume", True)]
IN_MEMORY = [("cache", "folder"), ("executor", object())]
CASES = [
    *[(TextClassifier().fit, (["x", "y"], ["a", "b"]), each, "pass cache") for each in NO_STATE],
    *[(TableClassifier().fit, (TABLE, TABLE["kind"]), each, "BlendClassifier") for each in NO_STATE + IN_MEMORY],
    *[(Recommender().fit, (LOG, "user", "item"), each, "NextItem") for each in NO_STATE + IN_MEMORY],
]


@pytest.mark.parametrize(("fit", "data", "given", "instead"), CASES)
def test_refuses_a_road_in_words(fit, data, given, instead):
    name, value = given
    with pytest.raises(ValueError, match=rf"so fit takes no {name}: leave it out, or .*{instead}"):
        fit(*data, **{name: value})


def test_the_packages_that_errors_name_need_no_import():
    assert sparsenet.temporal.NextItem
    assert sparsenet.distributed.topk_numbers
