"""The demo: a classifier learns docstrings, and answers questions with the names of functions."""

from sparsenet.demo.talk import run

__all__ = ["run"]
