"""Raw texts in, labels out: features without a dictionary, and linear models of them."""

from sparsenet.text.classifier import TextClassifier

__all__ = ["TextClassifier"]
