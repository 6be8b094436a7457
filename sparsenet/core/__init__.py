"""Foundations of all other packages: rows of points, argument checks, memory, the machine, progress."""
