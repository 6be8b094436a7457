"""A network and a tree that decide together: `BlendClassifier`."""

from sparsenet.blend.classifier import BlendClassifier as BlendClassifier
