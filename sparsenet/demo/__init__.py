"""Demos: learn docstrings and answer questions; learn a table of flights; learn the log of a shop."""

from __future__ import annotations

import importlib
from pathlib import Path

#: The module of each demo, whose `run` has the arguments of `run` here; the first one is the default.
DEMOS = {"texts": "talk", "tables": "flights", "log": "shop"}


def run(
    output: Path, *, what: str = "texts", interactive: bool = False, threads: int | None = None, seed: int = 0
) -> None:
    """Run a demo, one of `DEMOS`. Results go to stdout, messages to stderr."""
    if output.exists() and not output.is_dir():  # checked before training
        raise NotADirectoryError(f"{output}: is a file; results go into a directory: choose another name")
    module = importlib.import_module(f"sparsenet.demo.{DEMOS[what]}")
    module.run(output, interactive=interactive, threads=threads, seed=seed)
