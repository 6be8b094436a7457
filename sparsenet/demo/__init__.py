"""The demo: docstrings become a corpus, a classifier learns it, and questions are answered with symbols."""

from sparsenet.demo.talk import run

__all__ = ["run"]
