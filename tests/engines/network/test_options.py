"""The parameters of a network: defaults, and what is checked."""

import inspect

import pytest

from sparsenet import ExtremeClassifier
from sparsenet.engines.network.options import DEFAULTS, NetworkOptions


def test_defaults_equal_the_signature_of_the_classifier():
    signature = inspect.signature(ExtremeClassifier).parameters
    assert dict(DEFAULTS) == {name: parameter.default for name, parameter in signature.items()}
    assert list(DEFAULTS) == list(signature)
    assert {name: type(value) for name, value in DEFAULTS.items()} == {
        name: type(parameter.default) for name, parameter in signature.items()
    }


def test_parameters_left_out_have_their_defaults():
    assert NetworkOptions.of({}) == NetworkOptions.of(ExtremeClassifier().get_params(deep=False))
    assert NetworkOptions.of({"epochs": 3}) == NetworkOptions.of(ExtremeClassifier(epochs=3).get_params(deep=False))


def test_rejects_unknown_parameters():
    with pytest.raises(TypeError, match="unknown parameters of a network: depth, hide"):
        NetworkOptions.of({"hide": 3, "depth": 2, "epochs": 1})


def test_defaults_cannot_be_changed():
    with pytest.raises(TypeError, match="does not support item assignment"):
        DEFAULTS["hidden"] = 3
