"""Linear classifiers in a tree of labels: trained in seconds, asked in a fraction of a millisecond."""

from sparsenet.tree.classifier import TreeClassifier as TreeClassifier
