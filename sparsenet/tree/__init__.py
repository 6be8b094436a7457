"""Linear classifiers in a tree of labels: trained in seconds, asked in microseconds."""

from sparsenet.tree.classifier import TreeClassifier as TreeClassifier
