"""A network, a tree and neighbours that decide together: `BlendClassifier`."""

from sparsenet.blend.classifier import BlendClassifier as BlendClassifier
