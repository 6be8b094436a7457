"""The command line: `app` says what there is, `commands` does it."""

from sparsenet.cli.app import app, main

__all__ = ["app", "main"]
