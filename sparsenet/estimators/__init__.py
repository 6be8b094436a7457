"""The scikit-learn face: arguments in the user's words, checked once, and the network behind them."""

from sparsenet.estimators.classifier import ExtremeClassifier
from sparsenet.estimators.predictor import Predictor

__all__ = ["ExtremeClassifier", "Predictor"]
