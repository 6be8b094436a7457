"""``python -m sparsenet`` is the command line."""

from sparsenet.cli import main

main()
