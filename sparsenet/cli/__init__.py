"""The command line: `option_table` lists the options, `app` the commands."""

from sparsenet.cli.app import app, main

__all__ = ["app", "main"]
